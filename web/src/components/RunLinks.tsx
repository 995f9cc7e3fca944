/** Where an operator sees the newest run: its trace, and its workflow. */
import type { Activity } from "../api";
import { LinkIcon } from "./Icons";

export function RunLinks({ activity }: { activity: Activity | null }) {
  const links = [
    { href: activity?.traceUrl, text: "Trace" },
    { href: activity?.workflowUrl, text: "Workflow" },
  ];
  return (
    <p className="run-links">
      <span>{activity?.runStatus ? `Last run: ${activity.runStatus}` : "Enter sends, Shift+Enter makes a new line"}</span>
      {links.map(
        ({ href, text }) =>
          href && (
            <a key={text} href={href} target="_blank" rel="noopener noreferrer">
              {text} <LinkIcon />
            </a>
          ),
      )}
    </p>
  );
}
