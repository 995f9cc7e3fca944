/**
 * One scenario with the unmodified JavaScript SDK against a running agent server. Prints what the client saw, as JSON;
 * tests/streams/test_js_sdk.py judges it.
 *
 * node client.mjs <sdk version> <deployment url> <api key> <scenario> [assistant] [thread id]
 */
import { randomUUID } from "node:crypto";

const [version, apiUrl, apiKey, scenario, assistantId = "chat", givenThreadId] = process.argv.slice(2);
const { Client } = await import(`sdk-${version}/client`);
const { HttpAgentServerAdapter } = await import(`sdk-${version}`);
const { StreamController, messagesProjection } = await import(`sdk-${version}/stream`);
const DEADLINE_MS = 45_000;

const scenarios = { turns, tools, subagents, interrupt, failure, threadStream, classic, reconnect, classicReconnect };
const result = await scenarios[scenario]();
console.log(JSON.stringify(result));
process.exit(0);

/** Two turns and a reload: text grows token by token, each turn completes once. */
async function turns() {
  const threadId = randomUUID();
  const first = attach(threadId);
  const seen = [await turn(first, "one two three"), await turn(first, "four five")];
  await first.controller.dispose?.();
  const second = attach(threadId);
  await until(() => second.root().messages.length >= 4, "hydration");
  return { turns: seen, reload: texts(second.root().messages), loading: second.root().isLoading };
}

/** A tool call: its arguments, its output, the answer after it; and what the messages channel said of them. */
async function tools() {
  const threadId = randomUUID();
  const session = attach(threadId);
  const seen = await turn(session, "compute 6*7");
  const thread = new Client({ apiUrl, apiKey }).threads.stream(threadId, { assistantId });
  const streamed = [];
  for await (const message of thread.messages) {
    streamed.push({ namespace: message.namespace, text: await message.text });
    if (streamed.length === 3) break;
  }
  await thread.close?.();
  return { ...seen, toolCalls: session.root().toolCalls.map(plainCall), streamed };
}

/** Two sub-agents with messages of their own, then a second turn, then a reload from history. */
async function subagents() {
  const threadId = randomUUID();
  const first = attach(threadId);
  const one = await turn(first, "Research LangGraph streaming and compute 42 * 17");
  const agents = subagentsOf(first.controller);
  const said = await Promise.all(agents.map(({ namespace }) => messagesOf(first.controller, namespace)));
  const two = await turn(first, "compute 5 * 5");
  await first.controller.dispose?.();
  const second = attach(threadId);
  await until(() => second.root().messages.length > 0 && !second.root().isThreadLoading, "hydration");
  await until(() => subagentsOf(second.controller).length >= agents.length, "sub-agents of the history");
  return { turns: [one, two], agents, said, reload: texts(second.root().messages), reloaded: subagentsOf(second.controller) };
}

/** What `useMessages(stream, subagent)` shows of a sub-agent that has ended: its task, a tool, its answer. */
async function messagesOf(controller, namespace) {
  const { store, release } = controller.registry.acquire(messagesProjection(namespace));
  await until(() => store.getSnapshot().at(-1)?.getType() === "ai" && store.getSnapshot().at(-1).text, "an answer");
  const messages = store.getSnapshot().map((message) => ({ ...texts([message])[0], call: message.tool_call_id ?? null }));
  release();
  return messages;
}

async function interrupt() {
  const session = attach(randomUUID());
  await within(session.controller.submit({}), "submit");
  await until(() => session.root().interrupts.length > 0, "interrupt");
  const asked = session.root().interrupts;
  await session.controller.respond({ go: true }, { interruptId: asked[0].id, namespace: asked[0].namespace ?? [] });
  await until(() => session.root().values?.answer, "answer");
  await until(() => !session.root().isLoading, "the end of the run");
  return { asked, values: session.root().values, left: session.root().interrupts.length };
}

async function failure() {
  const session = attach(randomUUID());
  await within(session.controller.submit({}).catch(() => {}), "submit");
  await until(() => session.root().error, "error");
  return { error: session.root().error.message ?? String(session.root().error), loading: session.root().isLoading };
}

/** The lower-level handle: messages are async iterables of tokens. */
async function threadStream() {
  const client = new Client({ apiUrl, apiKey });
  const thread = client.threads.stream(randomUUID(), { assistantId });
  const messages = [];
  const reading = (async () => {
    for await (const message of thread.messages) {
      const tokens = [];
      for await (const token of message.text) tokens.push(token);
      messages.push({ tokens, text: tokens.join("") });
      break;
    }
  })();
  const values = thread.values;
  await thread.run.start({ input: { messages: [{ type: "human", content: "one two three" }] } });
  await within(reading, "messages");
  const final = await within(Promise.resolve(values), "values");
  await thread.close?.();
  return { messages, final: final.messages.map((message) => message.content) };
}

/** The classic stream of the same SDK. */
async function classic() {
  const client = new Client({ apiUrl, apiKey });
  const { thread_id: threadId } = await client.threads.create();
  const events = [];
  const input = { messages: [{ type: "human", content: "one two" }] };
  for await (const chunk of client.runs.stream(threadId, assistantId, { input, streamMode: ["messages-tuple", "values"] })) {
    events.push({ event: chunk.event, id: chunk.id, data: chunk.data });
  }
  return { events };
}

/** A long answer on the given thread, while the test cuts the connection; every event that the client took for new. */
async function reconnect() {
  const session = attach(givenThreadId);
  const events = [];
  const listening = new Set();
  session.controller.subscribeThread((thread) => {
    if (!thread || listening.has(thread)) return;
    listening.add(thread);
    thread.onEvent((event) => events.push({ id: event.event_id, seq: event.seq, method: event.method }));
  });
  const words = Array.from({ length: 25 }, (_, place) => `word${place}`).join(" ");
  const seen = await turn(session, words, 0.15);
  return { ...seen, words, events, error: session.root().error ?? null };
}

/** The same for a classic stream. */
async function classicReconnect() {
  const client = new Client({ apiUrl, apiKey });
  const events = [];
  const input = { count: 80, every_seconds: 0.04 };
  for await (const chunk of client.runs.stream(givenThreadId, assistantId, { input, streamMode: "custom" })) {
    events.push({ event: chunk.event, id: chunk.id, data: chunk.data });
  }
  return { events };
}

function attach(threadId) {
  const completed = [];
  const transport = new HttpAgentServerAdapter({
    apiUrl,
    threadId,
    defaultHeaders: { "x-api-key": apiKey },
  });
  const controller = new StreamController({
    assistantId,
    client: new Client({ apiUrl, apiKey }),
    threadId,
    transport,
    onCompleted: (info) => completed.push(info),
  });
  controller.activate();
  return { controller, completed, root: () => controller.rootStore.getSnapshot() };
}

async function turn({ controller, completed, root }, text, seconds = 0.05) {
  await until(() => !root().isThreadLoading, "hydration");
  const before = completed.length;
  const grown = new Set();
  const unsubscribe = controller.rootStore.subscribe(() => {
    const last = root().messages.at(-1);
    if (last?.getType() === "ai") grown.add(`${last.id}:${last.text}`);
  });
  await within(controller.submit({ messages: [{ type: "human", content: text }], seconds }), "submit");
  await until(() => !root().isLoading && completed.length > before, "the end of the run");
  unsubscribe();
  return { grown: [...grown], messages: texts(root().messages), completed: completed.length - before };
}

function texts(messages) {
  return messages.map((message) => ({ type: message.getType(), text: message.text }));
}

function plainCall(call) {
  return { name: call.name, args: call.args ?? call.input, output: call.output?.content ?? call.output, status: call.status };
}

function subagentsOf(controller) {
  return [...controller.subagentStore.getSnapshot().values()].map(({ name, status, namespace, taskInput }) => ({
    name,
    status,
    namespace,
    taskInput,
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
