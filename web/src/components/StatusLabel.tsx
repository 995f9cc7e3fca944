/** How far a tool or a sub-agent is. */
export type Status = "running" | "done" | "error" | "stopped" | "waiting";

const WORDS: Record<Status, string> = {
  running: "Running",
  done: "Done",
  error: "Error",
  stopped: "Not finished",
  waiting: "Waiting",
};

export function StatusLabel({ status }: { status: Status }) {
  return <span className={`status ${status}`}>{WORDS[status]}</span>;
}
