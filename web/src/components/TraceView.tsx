/** A run's steps as a tree with bars of time. */
import { type CSSProperties, useEffect, useMemo, useState } from "react";
import { getTrace, SignedOutError, type Span } from "../api";
import { errorText } from "../messages";
import { useTheme } from "../theme";
import { BackIcon } from "./Icons";

const POLL_MS = 2_000;
const MAX_ERROR = 400;

interface Props {
  threadId: string;
  runId: string;
  onSignedOut: () => void;
}

interface Row extends Span {
  depth: number;
}

export function TraceView({ threadId, runId, onSignedOut }: Props) {
  useTheme();
  const [spans, setSpans] = useState<Span[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const ended = spans?.some((span) => span.parentId === null && span.endTime !== null) ?? false;
  useEffect(() => {
    if (ended) return;
    const load = () =>
      getTrace(threadId, runId)
        .then(setSpans)
        .catch((error: unknown) => {
          if (error instanceof SignedOutError) onSignedOut();
          else setProblem(errorText(error));
        });
    void load();
    const timer = window.setInterval(() => void load(), POLL_MS);
    return () => window.clearInterval(timer);
  }, [threadId, runId, ended, onSignedOut]);

  const rows = useMemo(() => inTreeOrder(spans ?? []), [spans]);
  const begin = Math.min(...rows.map((row) => Date.parse(row.startTime)));
  const end = Math.max(...rows.map((row) => Date.parse(row.endTime ?? row.startTime)));
  return (
    <main className="trace">
      <header className="trace-head">
        <a className="link-button" href={`/chat/${threadId}`}>
          <BackIcon /> Conversation
        </a>
        <h1>Trace of run {runId}</h1>
      </header>
      {problem && (
        <p className="notice error" role="alert">
          {problem}
        </p>
      )}
      {!problem && rows.length === 0 && <p className="muted">{spans ? "No step has arrived yet." : "Loading…"}</p>}
      {rows.length > 0 && (
        <ol className="spans">
          {rows.map((row) => (
            <SpanRow key={row.id} row={row} begin={begin} total={Math.max(end - begin, 1)} />
          ))}
        </ol>
      )}
    </main>
  );
}

function SpanRow({ row, begin, total }: { row: Row; begin: number; total: number }) {
  const start = Date.parse(row.startTime);
  const milliseconds = row.endTime ? Date.parse(row.endTime) - start : null;
  const left = (100 * (start - begin)) / total;
  const width = Math.max((100 * (milliseconds ?? total - (start - begin))) / total, 0.5);
  // A graph that waits for a person ends its step this way; nothing went wrong.
  const waits = row.error?.startsWith("GraphInterrupt(") ?? false;
  const failure = waits ? null : row.error;
  return (
    <li className={failure ? "span failed" : "span"}>
      <span className="span-name" style={{ "--depth": Math.min(row.depth, 12) } as CSSProperties}>
        <span className={`span-type ${row.type}`}>{row.type}</span>
        <span className="span-text">{row.name}</span>
      </span>
      <span className="span-bar" aria-hidden="true">
        <span className={`span-fill ${row.type}`} style={{ marginLeft: `${Math.min(left, 99.5)}%`, width: `${width}%` }} />
      </span>
      <span className="span-time">{milliseconds === null ? "running" : duration(milliseconds)}</span>
      {failure && <span className="span-error">{failure.split("\n")[0]?.slice(0, MAX_ERROR)}</span>}
      {waits && <span className="span-note">Waited for a person.</span>}
    </li>
  );
}

function inTreeOrder(spans: Span[]): Row[] {
  const known = new Set(spans.map((span) => span.id));
  const children = new Map<string | null, Span[]>();
  for (const span of spans) {
    const parent = span.parentId && known.has(span.parentId) ? span.parentId : null;
    children.set(parent, [...(children.get(parent) ?? []), span]);
  }
  const rows: Row[] = [];
  const add = (parent: string | null, depth: number) => {
    for (const span of children.get(parent) ?? []) {
      rows.push({ ...span, depth });
      add(span.id, depth + 1);
    }
  };
  add(null, 0);
  return rows;
}

function duration(milliseconds: number): string {
  return milliseconds < 1_000 ? `${milliseconds} ms` : `${(milliseconds / 1_000).toFixed(2)} s`;
}
