import type { GraphEdge, Step, Structure } from "../api/types";

/** What the canvas shows of a simulated run: how nodes ended, the edges that were taken, and the node of this step. */
export interface Marks {
  outcomes: Map<string, string>;
  taken: Set<string>;
  current: string | null;
  /** Nodes that no run reaches. */
  never: Set<string>;
}

/** A run to be shown step by step. `what` says what it shows. */
export interface Play {
  what: string;
  steps: Step[];
}

const leftBy = (edge: GraphEdge, outcome: string | undefined): boolean => {
  const handle = edge.sourceHandle ?? null;
  return handle === null ? outcome !== undefined && outcome !== "failed" && outcome !== "expression" : handle === outcome || (handle === "error" && (outcome === "failed" || outcome === "expression"));
};

/** The marks after the first `count` steps. A node that runs again has its last outcome. */
export function marksOf(structure: Structure, steps: Step[], count: number, never: string[] = []): Marks {
  const outcomes = new Map<string, string>();
  if (count) for (const node of structure.nodes) if (node.type === "start") outcomes.set(node.id, "done");
  for (const step of steps.slice(0, count)) outcomes.set(step.nodeId, step.outcome);
  const taken = new Set(structure.edges.filter((edge) => leftBy(edge, outcomes.get(edge.source))).map((edge) => edge.id));
  return { outcomes, taken, current: steps[count - 1]?.nodeId ?? null, never: new Set(never) };
}

/** The steps along a path of node ids, each left by the edge to the next one. */
export function stepsAlong(structure: Structure, path: string[]): Step[] {
  return path.flatMap((nodeId, index): Step[] => {
    const edge = structure.edges.find((one) => one.source === nodeId && one.target === path[index + 1]);
    const handle = edge?.sourceHandle ?? "done";
    const node = structure.nodes.find((one) => one.id === nodeId);
    return node?.type === "start" ? [] : [{ nodeId, outcome: handle === "error" ? "failed" : handle }];
  });
}

/** The tone of an outcome: how a node that ended so is coloured. */
export const toneOfOutcome = (outcome: string): string =>
  outcome === "failed" || outcome === "expression" ? "bad" : outcome === "denied" || outcome === "expired" || outcome === "changed" ? "wait" : "ok";
