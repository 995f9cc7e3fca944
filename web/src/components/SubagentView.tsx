/** The conversation of one sub-agent; it can be read, not written. */
import { type AnyStream, type SubagentDiscoverySnapshot, useMessages, useToolCalls } from "@langchain/react";
import { useEffect } from "react";
import { BackIcon } from "./Icons";
import { TypingDots } from "./TypingDots";
import { Transcript } from "./Transcript";

interface Props {
  stream: AnyStream;
  subagent: SubagentDiscoverySnapshot;
  onBack: () => void;
}

export function SubagentView({ stream, subagent, onBack }: Props) {
  const messages = useMessages(stream, subagent);
  const toolCalls = useToolCalls(stream, subagent);
  const running = subagent.status === "running" && stream.isLoading;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape") onBack();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [onBack]);
  const own = messages[0]?.getType() === "human" ? messages.slice(1) : messages;
  return (
    <div className="column">
      <nav className="breadcrumb" aria-label="Where you are">
        <button type="button" className="link-button" onClick={onBack} autoFocus>
          <BackIcon /> Main chat
        </button>
        <span aria-hidden="true">/</span>
        <span aria-current="page">{subagent.name}</span>
      </nav>
      <section className="task-prompt" aria-label="Task">
        <h3>Task</h3>
        <p>{subagent.taskInput || "(not known yet)"}</p>
      </section>
      <Transcript messages={own} toolCalls={toolCalls} running={running} />
      {running && own.length === 0 && <TypingDots />}
    </div>
  );
}
