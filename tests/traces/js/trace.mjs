// Traces and evaluates with the unmodified JavaScript SDK, which learns endpoint and key from the environment.
import { Client } from "langsmith";
import { evaluate } from "langsmith/evaluation";
import { traceable } from "langsmith/traceable";

const client = new Client();
const options = { client, project_name: "js" };
const model = traceable(
  async (question) => ({ answer: question, usage_metadata: { input_tokens: 3, output_tokens: 4, total_tokens: 7 } }),
  { ...options, name: "model", run_type: "llm" },
);
const counter = traceable(
  async function* (limit) {
    for (let n = 0; n < limit; n++) yield n;
  },
  { ...options, name: "counter" },
);
const tool = traceable(
  async () => {
    throw new Error("no such page");
  },
  { ...options, name: "tool", run_type: "tool" },
);
const agent = traceable(
  async (question) => {
    await model(question);
    for await (const _ of counter(3));
    await tool().catch(() => undefined);
    return "done";
  },
  { ...options, name: "agent", tags: ["js"], metadata: { customer: "acme", thread_id: "t-1" } },
);

await agent("why");
const dataset = await client.createDataset(`js ${Date.now()}`);
await client.createExamples(
  [1, 2].map((n) => ({ dataset_id: dataset.id, inputs: { n }, outputs: { answer: 1 } })),
);
const experiment = await evaluate(async ({ n }) => ({ answer: n }), {
  data: dataset.name,
  evaluators: [
    ({ outputs, referenceOutputs }) => ({ key: "correct", score: outputs.answer === referenceOutputs.answer }),
  ],
  client,
});
const uploaded = await client.uploadCsv({
  csvFile: "question,answer\nwhat,one\n",
  fileName: "questions.csv",
  inputKeys: ["question"],
  outputKeys: ["answer"],
  name: `csv ${Date.now()}`,
});
const { share_token } = await client.shareDataset(uploaded.id);
await client.clonePublicDataset(share_token, { datasetName: "copy" });
for await (const example of client.listExamples({ datasetName: "copy" })) {
  console.log(`copied=${JSON.stringify([example.inputs, example.outputs])}`);
}
await client.awaitPendingTraceBatches();
for await (const group of client.listGroupRuns({ projectName: "js", groupBy: "conversation" })) {
  console.log(`group=${group.group_key} ${group.count}`);
}
console.log(`experiment=${experiment.experimentName}`);
