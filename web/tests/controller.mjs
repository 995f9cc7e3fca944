/**
 * The unmodified stream controller of @langchain/langgraph-sdk against a running chat: bootstrap, a turn with both
 * sub-agents, a second turn, a reload. Prints what it saw as JSON; tests/chat/test_controller.py judges it.
 *
 * node tests/controller.mjs <origin> [api key]
 */
import { randomUUID } from "node:crypto";
import { Client } from "@langchain/langgraph-sdk/client";
import { HttpAgentServerAdapter } from "@langchain/langgraph-sdk";
import { StreamController } from "@langchain/langgraph-sdk/stream";

const [origin, apiKey = null] = process.argv.slice(2);
const apiUrl = `${origin}/api`;
const headers = { "content-type": "application/json", ...(apiKey && { "x-api-key": apiKey }) };
const threadId = randomUUID();
const path = `/threads/${threadId}`;
const DEADLINE_MS = 60_000;

const seen = { threadId, bootstrap: await bootstrap(), turns: [], reload: null };
const first = attach();
seen.turns.push(await turn(first, "Research LangGraph streaming and compute 42 * 17"));
seen.turns.push(await turn(first, "compute 5 * 5"));
await first.controller.dispose?.();

const second = attach();
await until(() => second.root().messages.length > 0 && !second.root().isThreadLoading, "hydration");
// The namespaces of finished sub-agents come from the history, a moment after the messages.
await until(() => subagents(second.controller).every(({ namespace }) => !namespace[0].startsWith("tools:call_")), "namespaces");
seen.reload = {
  messages: texts(second.root().messages),
  isLoading: second.root().isLoading,
  subagents: subagents(second.controller),
  completed: second.completed.length,
};
console.log(JSON.stringify(seen));
process.exit(0);

async function bootstrap() {
  const before = await fetch(apiUrl + path + "/state", { headers });
  const begun = await fetch(apiUrl + path + "/state", {
    method: "POST",
    headers,
    body: JSON.stringify({ values: { messages: [] } }),
  });
  const after = await fetch(apiUrl + path + "/state", { headers });
  return { before: before.status, begun: begun.status, after: after.status, state: await after.json() };
}

function attach() {
  const completed = [];
  const created = [];
  const transport = new HttpAgentServerAdapter({
    apiUrl,
    threadId,
    defaultHeaders: apiKey ? { "x-api-key": apiKey } : undefined,
    paths: { commands: `${path}/commands`, stream: `${path}/stream` },
  });
  const controller = new StreamController({
    assistantId: "_",
    client: new Client({ apiUrl, apiKey }),
    threadId,
    transport,
    onCreated: (info) => created.push(info),
    onCompleted: (info) => completed.push(info),
  });
  controller.activate();
  return { controller, completed, created, root: () => controller.rootStore.getSnapshot() };
}

async function turn({ controller, completed, created, root }, text) {
  await until(() => !root().isThreadLoading, "hydration");
  const lengths = new Set();
  const before = { completed: completed.length, created: created.length };
  const unsubscribe = controller.rootStore.subscribe(() => {
    const last = root().messages.at(-1);
    if (last?.getType() === "ai") lengths.add(`${last.id}:${last.text.length}`);
  });
  await within(controller.submit({ messages: [{ type: "human", content: text }] }), "submit");
  await until(() => !root().isLoading, "the end of the run");
  unsubscribe();
  // A second `onCompleted` would come with replays of the streams that are opened again after a turn.
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  return {
    steps: lengths.size,
    messages: texts(root().messages),
    subagents: subagents(controller),
    completed: completed.slice(before.completed),
    created: created.slice(before.created),
    error: root().error ? String(root().error) : null,
  };
}

function texts(messages) {
  return messages.map((message) => ({ id: message.id, type: message.getType(), text: message.text }));
}

function subagents(controller) {
  return [...controller.subagentStore.getSnapshot().values()].map(({ name, status, namespace, taskInput, output }) => ({
    name,
    status,
    namespace,
    taskInput,
    output,
  }));
}

async function until(condition, what) {
  const deadline = Date.now() + DEADLINE_MS;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`No ${what} within ${DEADLINE_MS} ms.`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took over ${DEADLINE_MS} ms.`)), DEADLINE_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
