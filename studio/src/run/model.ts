import type { ErrorBody, GraphEdge, GraphNode, Json, JsonObject, NodeStatus, RunEvent, RunGraph } from "../api/types";
import { asNumber } from "../kit/json";

export interface VisitState {
  visit: number;
  status: NodeStatus;
  startedAt: number;
  finishedAt: number | null;
  attempts: number;
  output?: Json;
  error?: ErrorBody | null;
  /** When a wait of the visit began and ended. */
  waits: { from: number; to: number | null }[];
}

export interface Step {
  at: number;
  kind: string;
  text: string;
  detail?: unknown;
}

export interface NodeState {
  key: string;
  path: string[];
  id: string;
  status: NodeStatus;
  visits: VisitState[];
  usage: JsonObject | null;
  steps: Step[];
  /** The visits are those of the server's graph: the first event of the node replaces them. */
  provisional: boolean;
}

export interface TurnState {
  runId: string;
  seq: number;
  startedAt: number;
  status: string;
  endedAt: number | null;
  output?: Json;
  error?: ErrorBody | null;
}

/** A graph as it is drawn. */
export interface ShownStructure {
  nodes: GraphNode[];
  edges: GraphEdge[];
}

/** Where an event happened: each node that leads there, with the position in its list where it has one. */
export function placeOf(event: RunEvent): string[] {
  return (event.path ?? []).map((id, at) => (typeof event.items?.[at] === "number" ? `${id}\u0001${event.items[at]}` : id));
}

/** One part of a place: the node, and the position of its item or null. */
export function partOf(part: string): { id: string; item: number | null } {
  const [id = "", item] = part.split("\u0001");
  return { id, item: item === undefined ? null : Number(item) };
}

export const placeName = (path: string[], id?: string) =>
  [...path.map(partOf).map((part) => (part.item === null ? part.id : `${part.id} [${part.item + 1}]`)), ...(id === undefined ? [] : [id])].join(" › ");

export const keyOf = (path: string[], id: string) => [...path, id].join("\u0000");

/**
 * The state of an execution, made from the events of all of its turns.
 *
 * The events of a turn are applied in the order of `seq`, each once: the same events in any batches, cut and joined
 * again at any point, give the same state.
 */
export class RunModel {
  readonly nodes = new Map<string, NodeState>();
  readonly turns = new Map<string, TurnState>();
  readonly log: RunEvent[] = [];
  readonly open = new Map<string, RunEvent>();
  /** Counts the changes: a reader compares it. */
  version = 0;

  apply(events: RunEvent[]): Set<string> {
    const changed = new Set<string>();
    for (const event of events) {
      const turn = this.turn(event);
      if (event.seq <= turn.seq) continue;
      turn.seq = event.seq;
      this.log.push(event);
      const key = this.one(event, turn);
      if (key !== null) changed.add(key);
      this.version++;
    }
    return changed;
  }

  /** Take over what only the graph of the server has: states that no event of this client shows. */
  applyGraph(graph: RunGraph): Set<string> {
    const changed = new Set<string>();
    const path = graph.path ?? [];
    for (const one of graph.nodes) {
      const node = this.node(path, one.id);
      if (!node.provisional && (node.visits.length || node.status !== "pending")) continue;
      node.provisional = true;
      node.status = one.status;
      if (node.visits.length < one.visits.length) {
        node.visits = one.visits.map((visit, index) => ({
          visit: visit.visit,
          status: index === one.visits.length - 1 ? one.status : visit.error ? "error" : "done",
          startedAt: time(visit.startedAt) ?? 0,
          finishedAt: time(visit.finishedAt),
          attempts: visit.attempts ?? 1,
          ...(visit.output === undefined ? {} : { output: visit.output }),
          error: visit.error ?? null,
          waits: [],
        }));
      }
      changed.add(node.key);
      this.version++;
    }
    return changed;
  }

  get started(): number {
    return Math.min(...[...this.turns.values()].map((turn) => turn.startedAt), Number.POSITIVE_INFINITY);
  }

  get latest(): number {
    const last = this.log.at(-1);
    return last ? Date.parse(last.at) : 0;
  }

  private turn(event: RunEvent): TurnState {
    let turn = this.turns.get(event.runId);
    if (!turn) {
      turn = { runId: event.runId, seq: 0, startedAt: Date.parse(event.at), status: "running", endedAt: null };
      this.turns.set(event.runId, turn);
    }
    return turn;
  }

  private node(path: string[], id: string): NodeState {
    const key = keyOf(path, id);
    let node = this.nodes.get(key);
    if (!node) {
      node = { key, path, id, status: "pending", visits: [], usage: null, steps: [], provisional: false };
      this.nodes.set(key, node);
    }
    return node;
  }

  private one(event: RunEvent, turn: TurnState): string | null {
    const at = Date.parse(event.at);
    if (!event.nodeId) {
      this.ofTurn(event, turn, at);
      return null;
    }
    const node = this.node(placeOf(event), event.nodeId);
    if (node.provisional) {
      node.provisional = false;
      node.visits = [];
      node.status = "pending";
    }
    const step = stepOf(event, at);
    if (step) node.steps.push(step);
    const visit = node.visits.at(-1);
    switch (event.kind) {
      case "node_started":
        // A turn that carries the execution on may report a visit that is under way once more.
        if (visit && visit.finishedAt === null) this.unwait(node, visit, at);
        else node.visits.push({ visit: node.visits.length + 1, status: "running", startedAt: at, finishedAt: null, attempts: 1, waits: [] });
        node.status = "running";
        break;
      case "node_retrying":
        if (visit) visit.attempts += 1;
        break;
      case "node_skipped":
        node.status = "skipped";
        break;
      case "interrupt":
      case "interrupt.reminded":
        this.open.set(String(event.interruptId), event);
        node.status = "waiting";
        if (visit) {
          visit.status = "waiting";
          if (visit.waits.at(-1)?.to !== null) visit.waits.push({ from: at, to: null });
        }
        break;
      case "node_finished":
      case "node_failed":
        this.close(node, event, at);
        break;
      case "usage":
        node.usage = add(node.usage, event);
        break;
      default:
        if (node.status === "waiting" && visit) this.unwait(node, visit, at);
    }
    return node.key;
  }

  private unwait(node: NodeState, visit: VisitState, at: number) {
    const wait = visit.waits.at(-1);
    if (wait && wait.to === null) wait.to = at;
    visit.status = "running";
    node.status = "running";
    this.forget(node);
  }

  private forget(node: NodeState) {
    for (const [id, event] of this.open) {
      if (keyOf(placeOf(event), event.nodeId ?? "") === node.key) this.open.delete(id);
    }
  }

  private close(node: NodeState, event: RunEvent, at: number) {
    let visit = node.visits.at(-1);
    if (!visit || visit.finishedAt !== null) {
      visit = { visit: node.visits.length + 1, status: "running", startedAt: at, finishedAt: null, attempts: 1, waits: [] };
      node.visits.push(visit);
    }
    const wait = visit.waits.at(-1);
    if (wait && wait.to === null) wait.to = at;
    visit.finishedAt = at;
    visit.status = node.status = event.kind === "node_failed" ? "error" : "done";
    if ("output" in event) visit.output = event.output as Json;
    if ("error" in event) visit.error = event.error as ErrorBody;
    this.forget(node);
  }

  private ofTurn(event: RunEvent, turn: TurnState, at: number) {
    if (event.kind === "run_started") turn.startedAt = at;
    if (event.kind !== "done" && event.kind !== "error" && event.kind !== "cancelled") return;
    turn.endedAt = at;
    turn.status = event.kind === "done" ? String(event.status ?? "done") : event.kind;
    if ("output" in event) turn.output = event.output as Json;
    if ("error" in event) turn.error = event.error as ErrorBody;
    if (turn.status === "interrupted") return;
    this.open.clear();
    for (const node of this.nodes.values()) {
      const visit = node.visits.at(-1);
      if (node.status !== "running" && node.status !== "waiting") continue;
      node.status = "cancelled";
      if (visit && visit.finishedAt === null) {
        visit.finishedAt = at;
        visit.status = "cancelled";
        const wait = visit.waits.at(-1);
        if (wait && wait.to === null) wait.to = at;
      }
    }
  }
}

function time(text: string | null | undefined): number | null {
  return text ? Date.parse(text) : null;
}

function stepOf(event: RunEvent, at: number): Step | null {
  switch (event.kind) {
    case "tool_call":
      return { at, kind: event.kind, text: String(event.name ?? event.toolId ?? ""), detail: event.args ?? event.arguments ?? event };
    case "tool_result":
      return { at, kind: event.kind, text: String(event.name ?? event.toolId ?? ""), detail: event.result ?? event.output ?? event };
    case "message":
      return { at, kind: event.kind, text: String(event.content ?? "") };
    case "node_retrying":
      return { at, kind: event.kind, text: String((event.error as ErrorBody | undefined)?.message ?? "") };
    case "interrupt":
      return { at, kind: event.kind, text: String(event.message ?? event.toolId ?? "") };
    default:
      return null;
  }
}

function add(sum: JsonObject | null, event: RunEvent): JsonObject {
  const total: JsonObject = { ...(sum ?? {}) };
  const nested = event.usage && typeof event.usage === "object" ? (event.usage as JsonObject) : event;
  for (const [name, value] of Object.entries(nested)) {
    const count = asNumber(value);
    if (count !== null && name !== "seq") total[name] = ((total[name] as number | undefined) ?? 0) + count;
  }
  return total;
}
