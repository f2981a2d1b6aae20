// Code of an embedding product. tsc must refuse exactly the lines that follow a `@ts-expect-error`; then node runs it.
import { ApiError, Client, type Event, type Workflow } from "./client.js";

declare const process: { argv: string[] };

const client = new Client({ baseUrl: process.argv[2]!, token: async () => process.argv[3]! });

const structure = {
  nodes: [
    { id: "start", type: "start" as const },
    { id: "ask", type: "humanApproval" as const, data: { message: "Pay?" } },
  ],
  edges: [{ id: "1", source: "start", target: "ask" }],
};

const flow: Workflow = await client.workflows.create({ name: "Refunds", type: "workflow", workflowStructure: structure });
await client.workflows.deploy(flow.id);

const kinds: string[] = [];
let runId = "";
for await (const event of client.runs.startStream({ workflowId: flow.id, input: {} }, { "Idempotency-Key": "key-1" })) {
  kinds.push(event.kind);
  runId = event.runId;
}
const accepted = await client.runs.resume(runId, { decision: "approve" });
for await (const event of client.runs.eventsStream(accepted.runId)) kinds.push(event.kind);
const run = await client.runs.get(accepted.runId);

function output(event: Event): unknown {
  // @ts-expect-error an event of another kind has no output
  event.output;
  return event.kind === "done" ? event.output : undefined;
}
output({} as Event);

async function refused(): Promise<void> {
  // @ts-expect-error the field is misspelt
  await client.runs.start({ workflowid: 7 });
  // @ts-expect-error the id is a number
  await client.workflows.get("7");
  // @ts-expect-error there is no such decision
  await client.runs.resume("r", { decision: "approved" });
  // @ts-expect-error a member that can be missing
  run.error.message;
}
void refused;

let status = 0;
try {
  await client.workflows.get(999);
} catch (error) {
  if (error instanceof ApiError) status = error.status;
}
const text = await client.uploads.create("hello", { contentType: "text/plain" });
console.log(JSON.stringify({ kinds, status: run.status, missing: status, me: (await client.server.me()).userId, text }));
