/** What a message shows: its text, its reasoning, and the tools it calls. */
import type { BaseMessage } from "@langchain/core/messages";

export interface ToolCall {
  id: string;
  name: string;
  args: unknown;
}

interface Block {
  type?: string;
  text?: string;
  reasoning?: string;
  thinking?: string;
  summary?: { text?: string }[];
  id?: string;
  name?: string;
  args?: unknown;
}

function blocks(message: BaseMessage): Block[] {
  const { content } = message;
  if (typeof content === "string") return content ? [{ type: "text", text: content }] : [];
  return Array.isArray(content) ? (content as Block[]) : [];
}

export function textOf(message: BaseMessage): string {
  return blocks(message)
    .filter((block) => block.type === "text" || block.type === "output_text")
    .map((block) => block.text ?? "")
    .join("");
}

export function reasoningOf(message: BaseMessage): string {
  const found = blocks(message).map((block) => {
    if (block.type === "reasoning") {
      return block.reasoning ?? (block.summary ?? []).map((part) => part.text ?? "").join("\n");
    }
    return block.type === "thinking" ? (block.thinking ?? "") : "";
  });
  const inKwargs = message.additional_kwargs?.reasoning_content;
  return found.join("") || (typeof inKwargs === "string" ? inKwargs : "");
}

export function toolCallsOf(message: BaseMessage): ToolCall[] {
  const calls = (message as { tool_calls?: { id?: string; name?: string; args?: unknown }[] }).tool_calls ?? [];
  const complete = calls.length
    ? calls
    : blocks(message).filter((block) => block.type === "tool_call" || block.type === "tool_call_chunk");
  return complete
    .filter((call) => call.name)
    .map((call, index) => ({ id: call.id ?? `${message.id}-${index}`, name: call.name ?? "", args: call.args }));
}

/** Results of tools by the id of their call. */
export function toolResults(messages: BaseMessage[]): Map<string, BaseMessage> {
  const results = new Map<string, BaseMessage>();
  for (const message of messages) {
    const id = (message as { tool_call_id?: string }).tool_call_id;
    if (message.getType() === "tool" && id) results.set(id, message);
  }
  return results;
}

/** Text for display of anything that a tool took or gave. */
export function pretty(value: unknown): string {
  if (typeof value === "string") {
    try {
      const parsed: unknown = JSON.parse(value);
      return typeof parsed === "object" && parsed !== null ? JSON.stringify(parsed, null, 2) : value;
    } catch {
      return value;
    }
  }
  return value === undefined || value === null ? "" : JSON.stringify(value, null, 2);
}

export function errorText(error: unknown): string {
  if (error instanceof Error) return error.message;
  if (typeof error === "string") return error;
  const text = (error as { message?: unknown } | null)?.message;
  return typeof text === "string" ? text : "Something went wrong.";
}
