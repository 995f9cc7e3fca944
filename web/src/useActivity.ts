/** What the server says about the open thread, so that a page that only watches follows runs begun elsewhere. */
import { useCallback, useEffect, useState } from "react";
import { type Activity, getActivity } from "./api";

const POLL_MS = 2_000;
// A run's row follows its last event at once, but not before it.
const SETTLING_MS = 300;

export function isUnfinished(activity: Activity | null): boolean {
  return activity?.runStatus === "running" || activity?.runStatus === "pending";
}

export function useActivity(threadId: string | null, isLoading: () => boolean): [Activity | null, () => void] {
  const [activity, setActivity] = useState<Activity | null>(null);
  const load = useCallback(async () => {
    if (!threadId || document.hidden) return;
    try {
      setActivity(await getActivity(threadId));
    } catch {
      // The server is away; the stream reports that, and this asks again.
    }
  }, [threadId]);
  useEffect(() => {
    void load();
    const timer = window.setInterval(() => void load(), POLL_MS);
    const onVisible = () => void load();
    document.addEventListener("visibilitychange", onVisible);
    return () => {
      window.clearInterval(timer);
      document.removeEventListener("visibilitychange", onVisible);
    };
  }, [load]);
  useEffect(() => {
    if (!isUnfinished(activity) || isLoading()) return;
    const timer = window.setTimeout(() => void load(), SETTLING_MS);
    return () => window.clearTimeout(timer);
    // Only when another answer came.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [activity]);
  return [activity, () => void load()];
}
