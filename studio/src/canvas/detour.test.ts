import { describe, expect, it } from "vitest";
import { bendsOf, type Box, type Curve, detours, pointOf, type Way } from "./detour";
import { layout } from "./layout";

const SIZE = { width: 188, height: 54 };

function drawn(ids: string[], pairs: [string, string][]): { boxes: Box[]; ways: Way[] } {
  const places = layout(ids.map((id) => ({ id, ...SIZE })), pairs.map(([source, target]) => ({ source, target })));
  const boxes = ids.map((id) => ({ id, ...places.get(id)!, ...SIZE }));
  const [byId, half] = [new Map(boxes.map((box) => [box.id, box])), SIZE.height / 2];
  const ways = pairs.map(([source, target], index): Way => {
    const [from, to] = [byId.get(source)!, byId.get(target)!];
    return { id: `${index}`, source, target, start: { x: from.x + SIZE.width, y: from.y + half }, end: { x: to.x, y: to.y + half }, isDown: false };
  });
  return { boxes, ways };
}

/** The nodes that an edge runs behind, its own included. */
function behind({ boxes, ways }: { boxes: Box[]; ways: Way[] }, id: string): string[] {
  const { start, end } = ways.find((way) => way.id === id)!;
  const detour = detours(boxes, ways).get(id);
  const half = (end.x - start.x) / 2;
  const straight: Curve = [start, { x: start.x + half, y: start.y }, { x: end.x - half, y: end.y }, end];
  const bends = detour && bendsOf(start, end, false, detour)!;
  const level: Curve[] = bends ? [[bends[0][3], bends[0][3], bends[1][0], bends[1][0]]] : [];
  const points = (bends ? [bends[0], ...level, bends[1]] : [straight]).flatMap((curve) => Array.from({ length: 101 }, (_, at) => pointOf(curve, at / 100)));
  return boxes.filter((box) => points.some(({ x, y }) => x > box.x + 0.1 && x < box.x + box.width - 0.1 && y > box.y + 0.1 && y < box.y + box.height - 0.1)).map((box) => box.id);
}

describe("detours", () => {
  it("leaves edges alone that pass no node", () => {
    const { boxes, ways } = drawn(["a", "b", "c"], [["a", "b"], ["a", "c"], ["b", "c"]].slice(0, 2) as [string, string][]);
    expect(detours(boxes, ways).size).toBe(0);
  });

  it("passes the node that a branch skips", () => {
    const graph = drawn(["start", "large", "approve", "pay", "refuse"], [["start", "large"], ["large", "approve"], ["large", "pay"], ["approve", "pay"], ["approve", "refuse"]]);
    expect([...detours(graph.boxes, graph.ways).keys()]).toEqual(["2"]);
    expect(behind(graph, "2")).toEqual([]);
  });

  it("leads back around all nodes of a loop", () => {
    const graph = drawn(["start", "try", "check", "done"], [["start", "try"], ["try", "check"], ["check", "done"], ["check", "try"]]);
    expect(behind(graph, "3")).toEqual([]);
  });

  it("tells edges apart that pass the same nodes", () => {
    const ids = ["start", "a", "b", "c", "x", "y"];
    const graph = drawn(ids, [["start", "a"], ["a", "b"], ["b", "c"], ["start", "b"], ["a", "c"], ["start", "c"]]);
    const found = [...detours(graph.boxes, graph.ways).values()];
    expect(found.length).toBeGreaterThan(1);
    for (const id of detours(graph.boxes, graph.ways).keys()) expect(behind(graph, id)).toEqual([]);
  });

  it("passes every node of random graphs", () => {
    let state = 7;
    const draw = (below: number) => (state = (state * 48_271) % 2_147_483_647) % below;
    for (let round = 0; round < 60; round++) {
      const ids = Array.from({ length: 4 + draw(10) }, (_, index) => `n${index}`);
      const pairs = ids.slice(1).map((id, index): [string, string] => [`n${draw(index + 1)}`, id]);
      for (let more = 0; more < 4; more++) pairs.push([`n${draw(ids.length)}`, `n${draw(ids.length)}`]);
      const graph = drawn(ids, pairs.filter(([source, target]) => source !== target));
      for (const { id } of graph.ways) expect(behind(graph, id), `${round} ${id} ${JSON.stringify(pairs)}`).toEqual([]);
    }
  });

  it("is not drawn while a node is dragged beyond it", () => {
    const detour = { y: 0, from: 100, to: 200 };
    expect(bendsOf({ x: 50, y: 50 }, { x: 250, y: 50 }, false, detour)).not.toBeNull();
    expect(bendsOf({ x: 150, y: 50 }, { x: 250, y: 50 }, false, detour)).toBeNull();
    expect(bendsOf({ x: 300, y: 50 }, { x: 250, y: 50 }, false, detour)).toBeNull();
  });
});
