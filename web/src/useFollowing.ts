/** Follows runs that another tab or program began: mounts the conversation anew, which attaches to them. */
import { type RefObject, useEffect, useRef } from "react";
import type { Activity } from "./api";
import { isUnfinished } from "./useActivity";

// How many answers in a row must say that a run goes on which the stream does not show.
const MISSED_ANSWERS = 4;

// Runs for which this page has mounted anew already; outlives the conversation that is replaced.
const followed = new Set<string>();

interface Following {
  activity: Activity | null;
  isLoading: boolean;
  /** The run that this page began last. */
  ownRun: RefObject<string | null>;
  /** Whether this page has answered a question, which begins a run whose id it is not told. */
  answering: RefObject<boolean>;
  /** Whether the stream says that the page's run failed. */
  failed: boolean;
  onReload: () => void;
}

export function useFollowing({ activity, isLoading, ownRun, answering, failed, onReload }: Following): void {
  const known = useRef<string | null | undefined>(undefined);
  const missed = useRef(0);
  useEffect(() => {
    if (!activity) return;
    const runId = activity.runId;
    const isNew = known.current !== undefined && runId !== known.current;
    const isOwn = isLoading || (isNew && (runId === ownRun.current || answering.current));
    missed.current = !isLoading && isUnfinished(activity) ? missed.current + 1 : 0;
    const isMissed = missed.current >= MISSED_ANSWERS;
    if (isNew) answering.current = false;
    known.current = runId;
    // The stream took the replayed end of an older run for that of this one, and dropped what it showed.
    const isMisled = failed && !isLoading && runId === ownRun.current && activity.runStatus === "success";
    if (!runId || followed.has(runId) || !(isMisled || (!isOwn && (isNew || isMissed)))) return;
    followed.add(runId);
    onReload();
  }, [activity, isLoading, ownRun, answering, failed, onReload]);
}
