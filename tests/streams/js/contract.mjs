/**
 * Assistants, threads, runs and state with the unmodified JavaScript SDK. Prints what the client saw, as JSON;
 * tests/agent_server/test_js_sdk.py judges it.
 *
 * node contract.mjs <sdk version> <deployment url> <api key>
 */
import { randomUUID } from "node:crypto";

const [version, apiUrl, apiKey] = process.argv.slice(2);
const { Client } = await import(`sdk-${version}/client`);
const client = new Client({ apiUrl, apiKey, callerOptions: { maxRetries: 0 } });

console.log(
  JSON.stringify({
    assistants: await assistants(),
    threads: await threads(),
    state: await state(),
    interrupted: await interrupted(),
    failed: await failed(),
    refused: await refused(),
  }),
);

async function assistants() {
  const mark = randomUUID();
  const made = await client.assistants.create({ graphId: "echo", name: "From JS", metadata: { mark } });
  const changed = await client.assistants.update(made.assistant_id, { graphId: "steps", metadata: { more: 1 } });
  const versions = await client.assistants.getVersions(made.assistant_id);
  const restored = await client.assistants.setLatest(made.assistant_id, 1);
  const found = await client.assistants.search({ metadata: { mark } });
  const count = await client.assistants.count({ metadata: { mark } });
  const graph = await client.assistants.getGraph("nested", { xray: true });
  const schemas = await client.assistants.getSchemas(made.assistant_id);
  await client.assistants.delete(made.assistant_id);
  return {
    version: changed.version,
    versions: versions.map((row) => row.version),
    restored: restored.graph_id,
    found: found.length,
    count,
    nodes: graph.nodes.map((node) => node.id),
    inputs: Object.keys(schemas.input_schema.properties),
    gone: await statusOf(client.assistants.get(made.assistant_id)),
  };
}

async function threads() {
  const mark = randomUUID();
  const thread = await client.threads.create({ metadata: { mark }, ttl: 60 });
  await client.threads.update(thread.thread_id, { metadata: { more: 1 } });
  await client.runs.wait(thread.thread_id, "counter", { input: { inputs: ["a", "b"] } });
  const copy = await client.threads.copy(thread.thread_id);
  const found = await client.threads.search({ metadata: { mark }, sortBy: "created_at", sortOrder: "asc" });
  const runs = await client.runs.list(thread.thread_id);
  await client.threads.delete(thread.thread_id);
  return {
    found: found.map((row) => [row.status, row.values.count]),
    count: await client.threads.count({ metadata: { mark } }),
    runs: runs.map((run) => run.status),
    copied: (await client.threads.getState(copy.thread_id)).values,
    gone: await statusOf(client.threads.get(thread.thread_id)),
  };
}

async function state() {
  const { thread_id: threadId } = await client.threads.create();
  const run = await client.runs.create(threadId, "steps", { input: { done: [] } });
  await client.runs.join(threadId, run.run_id);
  const history = await client.threads.getHistory(threadId, { limit: 100 });
  await client.threads.updateState(threadId, {
    values: { done: ["fork"] },
    checkpoint: history[3].checkpoint,
  });
  const forked = await client.threads.getState(threadId);
  const before = await client.threads.getState(threadId, history[0].checkpoint);
  return { steps: history.map((item) => item.metadata.step), forked: forked.values.done, before: before.values.done };
}

async function interrupted() {
  const { thread_id: threadId } = await client.threads.create();
  const first = await client.runs.wait(threadId, "asking", { input: { question: "why?" } });
  const status = (await client.threads.get(threadId)).status;
  const answered = await client.runs.wait(threadId, "asking", { command: { resume: "because" } });
  return { asked: first.__interrupt__.map((item) => item.value), status, answer: answered.answer };
}

async function failed() {
  const { thread_id: threadId } = await client.threads.create();
  try {
    await client.runs.wait(threadId, "failing", { input: { done: [] } });
  } catch (error) {
    return { message: error.message, status: (await client.threads.get(threadId)).status };
  }
  return null;
}

async function refused() {
  return {
    graph: await statusOf(client.assistants.create({ graphId: "nope" })),
    thread: await statusOf(client.threads.get(randomUUID())),
    run: await statusOf(client.runs.create(randomUUID(), "echo", { input: {} })),
    id: await statusOf(client.threads.get("not-a-uuid")),
  };
}

async function statusOf(call) {
  try {
    await call;
    return 200;
  } catch (error) {
    return error.status ?? error.response?.status ?? String(error);
  }
}
