/** Messages in order: bubbles, reasoning, tools and sub-agents; results of tools are folded into their call. */
import type { BaseMessage } from "@langchain/core/messages";
import type { AssembledToolCall, SubagentDiscoverySnapshot } from "@langchain/react";
import { type ComponentType, lazy, Suspense, useMemo } from "react";
import { reasoningOf, textOf, type ToolCall, toolCallsOf, toolResults } from "../messages";
import { Reasoning } from "./Reasoning";
import type { Status } from "./StatusLabel";
import { SubagentCard } from "./SubagentCard";
import { ToolChip } from "./ToolChip";

function PlainText({ text }: { text: string }) {
  return <div className="markdown plain">{text}</div>;
}

// A file of its own, on its way as soon as a conversation is; without it the text is still the text.
const markdown = import("./Markdown").catch(() => ({ default: PlainText }));
const Markdown = lazy<ComponentType<{ text: string }>>(() => markdown);

interface Props {
  messages: BaseMessage[];
  toolCalls: readonly AssembledToolCall[];
  running: boolean;
  /** Whether the run waits for a person. */
  waiting?: boolean;
  subagents?: readonly SubagentDiscoverySnapshot[];
  onOpenSubagent?: (id: string) => void;
}

export function Transcript({ messages, toolCalls, running, waiting = false, subagents = [], onOpenSubagent }: Props) {
  const results = useMemo(() => toolResults(messages), [messages]);
  const last = messages[messages.length - 1];
  return messages.map((message, index) => {
    const key = message.id ?? index;
    if (message.getType() === "human") return <UserBubble key={key} text={textOf(message)} />;
    if (message.getType() !== "ai") return null;
    const live = running && message === last;
    return (
      <AssistantMessage key={key} message={message} live={live}>
        {toolCallsOf(message).map((call) => {
          const open: Status = running ? "running" : waiting && message === last ? "waiting" : "stopped";
          const common = { call, result: results.get(call.id), open };
          return call.name === "task" ? (
            <Delegation
              key={call.id}
              {...common}
              subagent={subagents.find((item) => item.id === call.id)}
              onOpen={onOpenSubagent}
            />
          ) : (
            <Tool key={call.id} {...common} handle={toolCalls.find((item) => item.callId === call.id)} />
          );
        })}
      </AssistantMessage>
    );
  });
}

function UserBubble({ text }: { text: string }) {
  return (
    <article className="message user" aria-label="You">
      <div className="bubble">{text}</div>
    </article>
  );
}

interface AssistantProps {
  message: BaseMessage;
  live: boolean;
  children: React.ReactNode[];
}

function AssistantMessage({ message, live, children }: AssistantProps) {
  const text = textOf(message);
  const reasoning = reasoningOf(message);
  if (!text && !reasoning && children.length === 0) return null;
  const writing = live && children.length === 0;
  return (
    <article className={writing ? "message assistant live" : "message assistant"} aria-label="Assistant">
      {reasoning && <Reasoning text={reasoning} thinking={writing && !text} />}
      {text && (
        <Suspense fallback={<PlainText text={text} />}>
          <Markdown text={text} />
        </Suspense>
      )}
      {children.length > 0 && <div className="calls">{children}</div>}
    </article>
  );
}

interface CallProps {
  call: ToolCall;
  result: BaseMessage | undefined;
  /** What the call's status is as long as it has no result. */
  open: Status;
}

function statusOf(result: BaseMessage | undefined, open: Status): Status {
  if (!result) return open;
  return (result as { status?: string }).status === "error" ? "error" : "done";
}

function Tool({ call, result, open, handle }: CallProps & { handle: AssembledToolCall | undefined }) {
  const failed = handle?.status === "error";
  const ended: Status | null = failed ? "error" : handle?.status === "finished" ? "done" : null;
  const status = statusOf(result, ended ?? open);
  const output = result ? textOf(result) : failed ? handle.error : handle?.output;
  return <ToolChip name={call.name} status={status} input={handle?.input ?? call.args} output={output} />;
}

interface DelegationProps extends CallProps {
  subagent: SubagentDiscoverySnapshot | undefined;
  onOpen: ((id: string) => void) | undefined;
}

function Delegation({ call, result, open, subagent, onOpen }: DelegationProps) {
  const args = (typeof call.args === "object" && call.args !== null ? call.args : {}) as {
    subagent_type?: string;
    description?: string;
  };
  const ended: Status | null =
    subagent?.status === "complete" ? "done" : subagent?.status === "error" ? "error" : null;
  const status = statusOf(result, ended ?? open);
  return (
    <SubagentCard
      name={subagent?.name || args.subagent_type || "sub-agent"}
      task={subagent?.taskInput || args.description || ""}
      status={status}
      onOpen={subagent && onOpen ? () => onOpen(call.id) : null}
    />
  );
}
