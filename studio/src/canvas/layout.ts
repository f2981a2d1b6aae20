/** A layered layout: longest path, barycentre sweeps, back edges from one depth-first search. No recursion. */

export interface LayoutNode {
  id: string;
  width: number;
  height: number;
}

export interface LayoutEdge {
  source: string;
  target: string;
  /** A text that is shown in the middle of the edge. */
  label?: string;
}

const GAP_X = 48;
const GAP_Y = 24;
/** The most letters of a label that are shown. */
export const LONGEST_LABEL = 24;
const SWEEPS = 8;
const LETTER = 6.6;
/** How much of a gap curves and an arrow take beside a label. */
const BESIDE = 30;

/** The edges that close a cycle, by position. */
export function backEdges(nodes: LayoutNode[], edges: LayoutEdge[]): Set<number> {
  const out = new Map<string, { to: string; edge: number }[]>(nodes.map((node) => [node.id, []]));
  const incoming = new Map<string, number>(nodes.map((node) => [node.id, 0]));
  edges.forEach(({ source, target }, edge) => {
    if (!out.has(source) || !out.has(target)) return;
    out.get(source)!.push({ to: target, edge });
    incoming.set(target, incoming.get(target)! + 1);
  });
  const state = new Map<string, 1 | 2>();
  const back = new Set<number>();
  const order = [...nodes].sort((a, b) => Math.sign(incoming.get(a.id)!) - Math.sign(incoming.get(b.id)!));
  for (const root of order) {
    if (state.has(root.id)) continue;
    const stack: [string, number][] = [[root.id, 0]];
    state.set(root.id, 1);
    while (stack.length) {
      const top = stack[stack.length - 1]!;
      const next = out.get(top[0])![top[1]++];
      if (!next) {
        state.set(top[0], 2);
        stack.pop();
      } else if (state.get(next.to) === 1) {
        back.add(next.edge);
      } else if (!state.has(next.to)) {
        state.set(next.to, 1);
        stack.push([next.to, 0]);
      }
    }
  }
  return back;
}

/** The upper left corner of each node, from left to right along the edges. */
export function layout(nodes: LayoutNode[], edges: LayoutEdge[]): Map<string, { x: number; y: number }> {
  const back = backEdges(nodes, edges);
  const after = new Map<string, string[]>(nodes.map((node) => [node.id, []]));
  const before = new Map<string, string[]>(nodes.map((node) => [node.id, []]));
  const waiting = new Map<string, number>(nodes.map((node) => [node.id, 0]));
  edges.forEach(({ source, target }, index) => {
    if (back.has(index) || !after.has(source) || !after.has(target)) return;
    after.get(source)!.push(target);
    before.get(target)!.push(source);
    waiting.set(target, waiting.get(target)! + 1);
  });
  const layer = new Map<string, number>();
  const ready = nodes.filter((node) => waiting.get(node.id) === 0).map((node) => node.id);
  for (const id of ready) layer.set(id, 0);
  for (let index = 0; index < ready.length; index++) {
    const id = ready[index]!;
    for (const next of after.get(id)!) {
      layer.set(next, Math.max(layer.get(next) ?? 0, layer.get(id)! + 1));
      waiting.set(next, waiting.get(next)! - 1);
      if (waiting.get(next) === 0) ready.push(next);
    }
  }
  const layers: string[][] = [];
  for (const id of ready) (layers[layer.get(id)!] ??= []).push(id);

  const place = new Map<string, number>();
  const number = (ids: string[]) => ids.forEach((id, index) => place.set(id, index - (ids.length - 1) / 2));
  layers.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    const near = down ? before : after;
    for (const ids of down ? layers : [...layers].reverse()) {
      const weight = new Map(ids.map((id) => {
        const around = near.get(id)!;
        return [id, around.length ? around.reduce((sum, one) => sum + place.get(one)!, 0) / around.length : place.get(id)!];
      }));
      ids.sort((a, b) => weight.get(a)! - weight.get(b)!);
      number(ids);
    }
  }

  const gaps = layers.map(() => GAP_X);
  for (const { source, label } of edges) {
    const from = label ? layer.get(source) : undefined;
    if (from !== undefined) gaps[from] = Math.max(gaps[from]!, Math.min(label!.length, LONGEST_LABEL) * LETTER + BESIDE);
  }
  const sizes = new Map(nodes.map((node) => [node.id, node]));
  const found = new Map<string, { x: number; y: number }>();
  let x = 0;
  for (const [index, ids] of layers.entries()) {
    const widest = Math.max(...ids.map((id) => sizes.get(id)!.width));
    const height = ids.reduce((sum, id) => sum + sizes.get(id)!.height + GAP_Y, -GAP_Y);
    let y = -height / 2;
    for (const id of ids) {
      found.set(id, { x, y });
      y += sizes.get(id)!.height + GAP_Y;
    }
    x += widest + gaps[index]!;
  }
  return found;
}
