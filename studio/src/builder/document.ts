import type { GraphEdge, GraphLimits, GraphNode, Issue, Json, JsonObject, NodeType, Structure } from "../api/types";
import { check } from "../forms/schema";
import { Exact, isObject, readDocument } from "../kit/json";

/** Pure functions on a graph that is edited. None changes what it is given: each returns a new structure. */

/** Of a server that does not say it. */
export const NO_LIMITS: GraphLimits = { nodes: Number.POSITIVE_INFINITY, edges: Number.POSITIVE_INFINITY };

const STEP_X = 248;
const STEP_Y = 144;

export interface Point {
  x: number;
  y: number;
}

/** The start of a new workflow. */
export function blank(): Structure {
  return { nodes: [{ id: "start", type: "start", data: {}, position: { x: 0, y: 0 } }], edges: [] };
}

/** The name of a node that people see: a label of the builder, else its id. */
export function titleOf(node: GraphNode): string {
  const given = [node.data?.label, node.data?.name, node.data?.title].find((one) => typeof one === "string" && one);
  return typeof given === "string" ? given : node.id;
}

const branchesOf = (data: JsonObject | undefined): (string | null)[] =>
  (Array.isArray(data?.branches) ? data.branches : []).map((one) => {
    const handle = isObject(one) ? one.handle : null;
    return typeof handle === "string" && handle ? handle : null;
  });

/** The handles from which edges of the node can start; null is the plain one. */
export function handlesOf(node: GraphNode, types: Map<string, NodeType>): (string | null)[] {
  const type = types.get(node.type);
  const own = type?.handlesFrom === "branches" ? branchesOf(node.data).filter((one) => one !== null) : [];
  return [...new Set([...own, ...(type ? type.handles.map((one) => one.handle) : [null])])];
}

/** An id that no node has: words of the base, and a number if it is taken. */
export function freshId(taken: Iterable<string>, base: string): string {
  const known = new Set(taken);
  const word = base.replace(/[^A-Za-z0-9]+/g, "_").replace(/^_+|_+$/g, "").replace(/^(\d)/, "n$1").toLowerCase() || "node";
  if (!known.has(word)) return word;
  let number = 2;
  while (known.has(`${word}_${number}`)) number++;
  return `${word}_${number}`;
}

const ids = (structure: Structure) => structure.nodes.map((node) => node.id);

/** A place near `wanted` that no node covers. */
export function freePlace(structure: Structure, wanted: Point): Point {
  const near = (one: GraphNode, at: Point) =>
    one.position && Math.abs(one.position.x - at.x) < STEP_X - 40 && Math.abs(one.position.y - at.y) < STEP_Y - 20;
  const at = { ...wanted };
  while (structure.nodes.some((one) => near(one, at))) at.y += STEP_Y;
  return at;
}

/** The structure with a place for each node that has none, after the node before it; unchanged if no node has one. */
export function withPlaces(structure: Structure): Structure {
  if (!structure.nodes.some((node) => node.position)) return structure;
  return structure.nodes.filter((node) => !node.position).reduce((now, node) => {
    const before = now.edges.filter((edge) => edge.target === node.id).map((edge) => now.nodes.find((one) => one.id === edge.source)?.position).find(Boolean);
    const at = freePlace(now, { x: (before?.x ?? -STEP_X) + STEP_X, y: before?.y ?? 0 });
    return moved(now, new Map([[node.id, at]]));
  }, structure);
}

/** The structure with an edge more; unchanged if it is there, leads into a start or from a node to itself. */
export function connect(structure: Structure, source: string, handle: string | null, target: string): Structure {
  const to = structure.nodes.find((node) => node.id === target);
  if (!to || to.type === "start" || source === target || !structure.nodes.some((node) => node.id === source)) return structure;
  if (structure.edges.some((edge) => edge.source === source && edge.target === target && (edge.sourceHandle ?? null) === handle)) return structure;
  const id = freshId(structure.edges.map((edge) => edge.id), [source, handle, target].filter(Boolean).join("_"));
  const edge: GraphEdge = { id, source, target, ...(handle === null ? {} : { sourceHandle: handle }) };
  return { ...structure, edges: [...structure.edges, edge] };
}

export interface Addition {
  type: string;
  base: string;
  data: JsonObject;
  /** The node and handle from which an edge leads to the new node. */
  after?: { id: string; handle: string | null } | undefined;
  position?: Point | undefined;
}

/** The structure with a new node, and its id. */
export function addNode(structure: Structure, { type, base, data, after, position }: Addition): { structure: Structure; id: string } {
  const id = freshId(ids(structure), base);
  const before = structure.nodes.find((node) => node.id === after?.id)?.position ?? structure.nodes.at(-1)?.position ?? { x: -STEP_X, y: 0 };
  const at = freePlace(structure, position ?? { x: before.x + STEP_X, y: before.y });
  const added = { ...structure, nodes: [...structure.nodes, { id, type, data, position: at }] };
  return { structure: after ? connect(added, after.id, after.handle, id) : added, id };
}

/** Those of the nodes that can be removed: one start stays, as a graph needs it. */
export function removable(structure: Structure, nodes: string[]): string[] {
  const starts = structure.nodes.filter((node) => node.type === "start").map((node) => node.id);
  const kept = starts.every((id) => nodes.includes(id)) ? starts[0] : undefined;
  return nodes.filter((id) => id !== kept);
}

/** The structure without these nodes, their edges, and these edges. */
export function without(structure: Structure, nodes: Iterable<string>, edges: Iterable<string> = []): Structure {
  const gone = new Set(nodes);
  const cut = new Set(edges);
  return {
    ...structure,
    nodes: structure.nodes.filter((node) => !gone.has(node.id)),
    edges: structure.edges.filter((edge) => !cut.has(edge.id) && !gone.has(edge.source) && !gone.has(edge.target)),
  };
}

/** The structure with nodes at new places, rounded to whole numbers. */
export function moved(structure: Structure, places: Map<string, Point>): Structure {
  const at = (node: GraphNode) => {
    const place = places.get(node.id);
    return place ? { ...node, position: { x: Math.round(place.x), y: Math.round(place.y) } } : node;
  };
  return { ...structure, nodes: structure.nodes.map(at) };
}

/** The structure with other data of a node. Edges follow branches whose handle was renamed. */
export function withData(structure: Structure, id: string, data: JsonObject): Structure {
  const node = structure.nodes.find((one) => one.id === id);
  if (!node) return structure;
  const before = branchesOf(node.data);
  const after = branchesOf(data);
  const renamed = new Map<string, string>();
  if (before.length === after.length) {
    before.forEach((one, index) => {
      const next = after[index];
      if (one && next && one !== next && !after.includes(one) && !before.includes(next)) renamed.set(one, next);
    });
  }
  return {
    ...structure,
    nodes: structure.nodes.map((one) => (one.id === id ? { ...one, data } : one)),
    edges: structure.edges.map((edge) => {
      const next = edge.source === id && edge.sourceHandle ? renamed.get(edge.sourceHandle) : undefined;
      return next === undefined ? edge : { ...edge, sourceHandle: next };
    }),
  };
}

/** A reference to a node, as a name or as a text. What comes after another dot, such as `input.nodes.a`, is none. */
const REFERENCE = /(?<!\.\s*)\bnodes(?:\.([A-Za-z_]\w*)|\[("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\])/g;

/** The text that a literal of an expression stands for; undefined for an escape that JSON does not have. */
function textOf(literal: string): string | undefined {
  const inner = literal.slice(1, -1);
  const json = literal.startsWith('"') ? inner : inner.replace(/\\.|"/g, (one) => (one === '"' ? '\\"' : one === "\\'" ? "'" : one));
  try {
    return JSON.parse(`"${json}"`) as string;
  } catch {
    return undefined;
  }
}

/** Every text of a value with the references to nodes, `nodes.old` and `nodes["old"]`, under their new ids. */
function readdressed(value: Json, names: Map<string, string>): Json {
  if (typeof value === "string") {
    return value.replace(REFERENCE, (whole, plain: string | undefined, literal: string | undefined) => {
      const next = names.get(plain ?? textOf(literal ?? "") ?? "");
      return next === undefined ? whole : /^[A-Za-z_]\w*$/.test(next) ? `nodes.${next}` : `nodes[${JSON.stringify(next)}]`;
    });
  }
  if (Array.isArray(value)) return value.map((one) => readdressed(one, names));
  if (isObject(value)) {
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, readdressed(one, names)]));
  }
  return value;
}

/** The structure with another id of a node, in edges and expressions too; unchanged if the id is empty or taken. */
export function renamed(structure: Structure, from: string, to: string): Structure {
  if (!to || to === from || ids(structure).includes(to)) return structure;
  const names = new Map([[from, to]]);
  return {
    ...structure,
    nodes: structure.nodes.map((node) => ({
      ...node, id: node.id === from ? to : node.id, ...(node.data ? { data: readdressed(node.data, names) as JsonObject } : {}),
    })),
    edges: structure.edges.map((edge) => ({
      ...edge, source: edge.source === from ? to : edge.source, target: edge.target === from ? to : edge.target,
    })),
  };
}

/** What is copied: nodes but starts, and the edges between them, as JSON. */
export function copied(structure: Structure, chosen: Iterable<string>): string {
  const wanted = new Set(chosen);
  const nodes = structure.nodes.filter((node) => wanted.has(node.id) && node.type !== "start");
  const kept = new Set(nodes.map((node) => node.id));
  const edges = structure.edges.filter((edge) => kept.has(edge.source) && kept.has(edge.target));
  return nodes.length ? JSON.stringify({ nodes, edges }, null, 2) : "";
}

/** Why a part of a text is not pasted: the key of a text. */
export type Unpasted = "notJson" | "noNodes" | "form" | "id" | "type" | "start" | "data" | "edges" | "mostNodes" | "mostEdges";

export interface Pasted {
  structure: Structure;
  ids: string[];
  /** What is not pasted: the name of a node or its place in the list, how many edges, or the most that a graph can have. */
  left: { what: string; why: Unpasted }[];
}

const LONGEST_ID = 255;
const DEEPEST = 50;

/** The structure with the nodes of these types that a text has as JSON, under new ids, and what the server would not store. */
export function pasted(structure: Structure, text: string, types: { has: (type: string) => boolean }, most = NO_LIMITS): Pasted {
  const read = graphIn(text);
  if (typeof read === "string") return { structure, ids: [], left: [{ what: "", why: read }] };
  const known = new Set(ids(structure));
  const found: { node: GraphNode; id: string }[] = [];
  const left: Pasted["left"] = [];
  read.nodes.forEach((one, index) => {
    const why = unpasted(one, types);
    if (why) return left.push({ what: isObject(one) && typeof one.id === "string" && one.id ? one.id : String(index + 1), why });
    const node = one as GraphNode;
    const id = known.has(node.id) ? freshId(known, node.id.slice(0, LONGEST_ID - 10)) : node.id;
    known.add(id);
    return found.push({ node, id });
  });
  const over = exceeded(structure.nodes.length + found.length, structure.edges.length + read.edges.length, most);
  if (over) return { structure, ids: [], left: [over] };
  const names = new Map(found.toReversed().map(({ node, id }) => [node.id, id]));
  const changed = new Map([...names].filter(([old, next]) => old !== next));
  let next = structure;
  for (const { node: { type, data, position }, id } of found) {
    const at = freePlace(next, isPoint(position) ? { x: position.x + 32, y: position.y + 32 } : { x: 0, y: 0 });
    next = { ...next, nodes: [...next.nodes, { id, type, position: at, data: readdressed(data ?? {}, changed) as JsonObject }] };
  }
  for (const edge of read.edges.filter(isEdge)) {
    const [source, target] = [names.get(edge.source), names.get(edge.target)];
    if (source && target) next = connect(next, source, edge.sourceHandle ?? null, target);
  }
  const missing = read.edges.length - (next.edges.length - structure.edges.length);
  if (missing) left.push({ what: String(missing), why: "edges" });
  return { structure: next, ids: found.map(({ id }) => id), left };
}

/** The limit that a graph of so many nodes and edges exceeds. */
export function exceeded(nodes: number, edges: number, most: GraphLimits): Pasted["left"][number] | undefined {
  if (nodes > most.nodes) return { what: String(most.nodes), why: "mostNodes" };
  return edges > most.edges ? { what: String(most.edges), why: "mostEdges" } : undefined;
}

const isPoint = (one: unknown): one is Point => isObject(one) && Number.isFinite(one.x) && Number.isFinite(one.y);

const isEdge = (one: unknown): one is GraphEdge =>
  isObject(one) && typeof one.source === "string" && typeof one.target === "string" && (one.sourceHandle == null || (typeof one.sourceHandle === "string" && isStored(one.sourceHandle)));

/** Why a node cannot be pasted: the server would refuse the draft with it. */
function unpasted(one: unknown, types: { has: (type: string) => boolean }): Unpasted | null {
  if (!isObject(one)) return "form";
  if (typeof one.id !== "string" || !one.id || one.id.length > LONGEST_ID || !isStored(one.id)) return "id";
  if (typeof one.type !== "string" || !types.has(one.type)) return "type";
  if (one.type === "start") return "start";
  return one.data == null || (isObject(one.data) && isStored(one.data)) ? null : "data";
}

/** Whether the server stores the value: it refuses texts with NUL or half a character, numbers of more than 64 bits, and deep values. */
function isStored(value: unknown, depth = 0): boolean {
  if (depth > DEEPEST) return false;
  if (typeof value === "string") return !/\0|\p{Surrogate}/u.test(value);
  if (value instanceof Exact) return /^-?\d+$/.test(value.source) ? BigInt.asIntN(64, BigInt(value.source)) === BigInt(value.source) : Number.isFinite(value.valueOf());
  if (typeof value === "number") return Number.isFinite(value);
  if (Array.isArray(value)) return value.every((one) => isStored(one, depth + 1));
  return !isObject(value) || Object.entries(value).every(([name, one]) => isStored(name) && isStored(one, depth + 1));
}

/** The nodes and edges that a text has as JSON, whatever they are. */
function graphIn(text: string): { nodes: unknown[]; edges: unknown[] } | "notJson" | "noNodes" {
  let value: unknown;
  try {
    value = readDocument(text);
  } catch {
    return "notJson";
  }
  const outer = isObject(value) && isObject(value.workflowStructure) ? value.workflowStructure : value;
  if (!isObject(outer) || !Array.isArray(outer.nodes) || !outer.nodes.length) return "noNodes";
  return { nodes: outer.nodes, edges: Array.isArray(outer.edges) ? outer.edges : [] };
}

/** The titles of the fields of the input that a run without one lacks. */
export function requiredInputs(structure: Structure): string[] {
  const schema = structure.nodes.find((node) => node.type === "start")?.data?.inputSchema;
  if (!isObject(schema)) return [];
  const properties = isObject(schema.properties) ? schema.properties : {};
  return [...check(schema, {})].filter(([, error]) => error.rule === "required").map(([pointer]) => {
    const name = pointer.slice(1).replace(/~1/g, "/").replace(/~0/g, "~");
    const field = Object.hasOwn(properties, name) ? properties[name] : undefined;
    return isObject(field) && typeof field.title === "string" && field.title ? field.title : name;
  });
}

/** Where an issue is: the id of a node or edge, and for a node the JSON Pointer within its data. */
export interface IssuePlace {
  node?: string;
  edge?: string;
  pointer: string;
}

export function placeOf(issue: Issue, structure: Structure): IssuePlace {
  const found = /^workflowStructure\.(nodes|edges)\[(\d+)\](?:\.data)?(.*)$/.exec(issue.path);
  const part = found && found[1] === "nodes" ? structure.nodes[Number(found[2])] : undefined;
  const edge = found && found[1] === "edges" ? structure.edges[Number(found[2])] : undefined;
  const escape = (name: string) => name.replace(/~/g, "~0").replace(/\//g, "~1");
  const steps = [...(found?.[3] ?? "").matchAll(/\.([^.[\]]+)|\[(\d+)\]|\["([^"]*)"\]/g)].map((one) => one[1] ?? one[2] ?? one[3] ?? "");
  return { ...(part ? { node: part.id } : {}), ...(edge ? { edge: edge.id, node: edge.source } : {}), pointer: steps.map((one) => `/${escape(one)}`).join("") };
}

/** How two structures differ, by the ids of their nodes and edges. Places do not count. */
export function differences(before: Structure, after: Structure): { added: string[]; removed: string[]; changed: string[] } {
  const content = (structure: Structure) => new Map<string, string>([
    ...structure.nodes.map((node): [string, string] => [node.id, JSON.stringify([node.type, node.data ?? {}])]),
    ...structure.edges.map((edge): [string, string] => [
      `${edge.source}${edge.sourceHandle ? ` (${edge.sourceHandle})` : ""} → ${edge.target}`, "edge",
    ]),
  ]);
  const [old, fresh] = [content(before), content(after)];
  return {
    added: [...fresh.keys()].filter((id) => !old.has(id)),
    removed: [...old.keys()].filter((id) => !fresh.has(id)),
    changed: [...fresh].filter(([id, value]) => old.has(id) && old.get(id) !== value).map(([id]) => id),
  };
}
