import type { GraphNode, Json, JsonObject, RunGraph, Structure, Tool } from "../api/types";
import type { Shape } from "./completion";
import { isObject } from "../kit/json";

/** The values that expressions of the builder are shown with: those of a run, or such as the user has given. */
export interface Sample {
  input: Json;
  /** The outputs of nodes by their id. */
  outputs: Record<string, Json>;
  /** The run that they are of; null for values of the user's own. */
  run: { id: string; at: string } | null;
}

const asSchema = (value: Json | undefined): JsonObject | undefined => (isObject(value) ? value : undefined);
const TEXT: JsonObject = { type: "string" };

/** Whether the server has cut the value: it is not what an expression would read. */
const isCut = (value: Json | undefined): boolean => isObject(value) && value.truncated === true && "preview" in value && "bytes" in value;

/** The values that a run has had; null if it has none. */
export function sampleOf(graph: RunGraph, run: { id: string; at: string }): Sample | null {
  const outputs: Record<string, Json> = {};
  let input: Json = {};
  for (const node of graph.nodes) {
    const last = node.visits.filter((visit) => visit.finishedAt && !visit.error).at(-1);
    if (last?.output === undefined || isCut(last.output)) continue;
    if (node.type === "start") input = last.output ?? {};
    else outputs[node.id] = last.output;
  }
  return graph.nodes.some((node) => node.visits.length) ? { input, outputs, run } : null;
}

/** The nodes whose output an expression of the node can read: those on the paths to it, the nearest last. */
export function ancestors(structure: Structure, id: string): string[] {
  const before = new Map<string, string[]>();
  for (const edge of structure.edges) before.set(edge.target, [...(before.get(edge.target) ?? []), edge.source]);
  const found = new Set<string>();
  const waiting = [id];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    for (const source of before.get(next) ?? []) {
      if (found.has(source) || source === id) continue;
      found.add(source);
      waiting.push(source);
    }
  }
  const types = new Map(structure.nodes.map((node) => [node.id, node.type]));
  return [...found].filter((one) => types.has(one) && types.get(one) !== "start").reverse();
}

/** The JSON Schema of what a node gives; undefined if it is not known. */
function outputSchema(node: GraphNode, tools: Tool[]): JsonObject | undefined {
  const { data = {} } = node;
  switch (node.type) {
    case "agent":
      return asSchema(data.outputSchema) ?? TEXT;
    case "condition":
      return { type: "object", properties: { handle: TEXT } };
    case "humanApproval": {
      const answer = asSchema(data.formSchema) ?? {};
      return { type: "object", properties: { decision: TEXT, data: answer, decidedBy: { type: "array" }, decidedAt: TEXT } };
    }
    case "action": {
      const one = asSchema(tools.find((tool) => tool.id === data.toolId)?.outputSchema ?? undefined);
      return typeof data.forEach === "string" && data.forEach ? { type: "array", items: one ?? {} } : one;
    }
    default:
      return undefined;
  }
}

/** What expressions of a node can read: `input`, `nodes`, `run`, and with `forEach` the `item`. */
export function scopeOf(node: GraphNode, structure: Structure, tools: Tool[], sample: Sample | null, item?: Json): Shape {
  const byId = new Map(structure.nodes.map((one) => [one.id, one]));
  const start = structure.nodes.find((one) => one.type === "start");
  const nodes = ancestors(structure, node.id).map((id): [string, Shape] => {
    const schema = outputSchema(byId.get(id)!, tools);
    const output: Shape = { schema, value: sample && Object.hasOwn(sample.outputs, id) ? sample.outputs[id] : undefined };
    return [id, { parts: new Map([["output", output]]) }];
  });
  const parts = new Map<string, Shape>([
    ["input", { schema: asSchema(start?.data?.inputSchema), value: sample?.input }],
    ["nodes", { parts: new Map(nodes.reverse()) }],
    ["run", { parts: new Map([["id", { schema: TEXT }], ["userId", { schema: TEXT }], ["startedAt", { schema: TEXT }]]) }],
  ]);
  if (typeof node.data?.forEach === "string" && node.data.forEach) parts.set("item", { value: item });
  return { parts };
}

/** The variables that an expression is evaluated with: of nodes, only those that the text names. */
export function valuesFor(text: string, sample: Sample, item?: Json): JsonObject {
  const nodes = Object.entries(sample.outputs).filter(([id]) => text.includes(id)).map(([id, output]) => [id, { output }]);
  const run: JsonObject = sample.run ? { id: sample.run.id, startedAt: sample.run.at, userId: "" } : {};
  return { input: sample.input, nodes: Object.fromEntries(nodes) as JsonObject, run, ...(item === undefined ? {} : { item }) };
}
