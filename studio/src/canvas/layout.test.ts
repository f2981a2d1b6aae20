import { describe, expect, it } from "vitest";
import { growth } from "../kit/growth";
import { backEdges, layout } from "./layout";
import { timescale } from "./timescale";

const boxes = (ids: string[]) => ids.map((id) => ({ id, width: 100, height: 40 }));

describe("layout", () => {
  it("puts every node right of the nodes before it, and none over another", () => {
    const edges = [["a", "b"], ["a", "c"], ["b", "d"], ["c", "d"], ["d", "b"]].map(([source, target]) => ({ source: source!, target: target! }));
    const found = layout(boxes(["a", "b", "c", "d"]), edges);
    expect([...backEdges(boxes(["a", "b", "c", "d"]), edges)]).toEqual([4]);
    for (const [index, { source, target }] of edges.entries()) {
      if (index !== 4) expect(found.get(target)!.x).toBeGreaterThan(found.get(source)!.x);
    }
    const places = [...found.values()].map(({ x, y }) => `${x} ${y}`);
    expect(new Set(places).size).toBe(places.length);
  });

  it("places what is in a cycle without a start, what is alone, and edges that lead nowhere", () => {
    const found = layout(boxes(["x", "y", "alone"]), [{ source: "x", target: "y" }, { source: "y", target: "x" }, { source: "x", target: "gone" }]);
    expect([...found.keys()].sort()).toEqual(["alone", "x", "y"]);
  });

  it("leaves room for a label", () => {
    const width = (label?: string) => {
      const found = layout(boxes(["a", "b"]), [{ source: "a", target: "b", ...(label ? { label } : {}) }]);
      return found.get("b")!.x - found.get("a")!.x;
    };
    expect(width("approved")).toBeGreaterThan(width("yes"));
    expect(width("x".repeat(5_000))).toBe(width("x".repeat(24)));
    expect(width("no")).toBe(width());
  });

  it("takes a time that grows with the number of nodes, not with its square", () => {
    const work = (count: number) => {
      const ids = Array.from({ length: count }, (_, index) => `n${index}`);
      const edges = ids.slice(1).map((target, index) => ({ source: `n${Math.floor(index / 3)}`, target }));
      return () => expect(layout(boxes(ids), edges).size).toBe(count);
    };
    expect(growth(1_250, work)).toBeLessThan(10);
  });

  it("does not overflow on a chain of 20,000 nodes", () => {
    const ids = Array.from({ length: 20_000 }, (_, index) => `n${index}`);
    expect(layout(boxes(ids), ids.slice(1).map((target, index) => ({ source: ids[index]!, target }))).size).toBe(20_000);
  });
});

describe("timescale", () => {
  const busy = [{ from: 0, to: 1_000 }, { from: 100_000, to: 102_000 }];
  const whole = { from: 0, to: 102_000 };

  it("is linear without cuts", () => {
    const scale = timescale(busy, whole, false);
    expect(scale.cuts).toEqual([]);
    expect(scale.at(51_000)).toBeCloseTo(0.5);
  });

  it("cuts idle stretches and never goes backwards", () => {
    const scale = timescale(busy, whole, true);
    expect(scale.cuts).toHaveLength(1);
    expect(scale.at(0)).toBe(0);
    expect(scale.at(102_000)).toBeCloseTo(1);
    expect(scale.at(1_000)).toBeGreaterThan(0.3);
    let last = 0;
    for (let time = 0; time <= 102_000; time += 500) {
      expect(scale.at(time)).toBeGreaterThanOrEqual(last - 1e-9);
      last = scale.at(time);
    }
  });
});
