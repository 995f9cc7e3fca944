/** A sub-agent at work; opens its own conversation. */
import { AgentIcon, ChevronIcon } from "./Icons";
import { StatusLabel, type Status } from "./StatusLabel";

interface Props {
  name: string;
  task: string;
  status: Status;
  onOpen: (() => void) | null;
}

export function SubagentCard({ name, task, status, onOpen }: Props) {
  return (
    <button type="button" className="subagent" disabled={!onOpen} onClick={onOpen ?? undefined}>
      <span className="subagent-icon">
        <AgentIcon />
      </span>
      <span className="subagent-text">
        <span className="subagent-head">
          <span className="subagent-name">{name}</span>
          <StatusLabel status={status} />
        </span>
        <span className="subagent-task">{task}</span>
      </span>
      <ChevronIcon />
    </button>
  );
}
