import { describe, expect, it } from "vitest";
import type { Structure } from "../api/types";
import { marksOf, stepsAlong, toneOfOutcome } from "./playing";

const GRAPH: Structure = {
  nodes: ["start", "ask", "pay", "refuse"].map((id) => ({ id, type: id === "start" ? "start" : "action" })),
  edges: [
    { id: "1", source: "start", target: "ask" }, { id: "2", source: "ask", target: "pay", sourceHandle: "approved" },
    { id: "3", source: "ask", target: "refuse", sourceHandle: "denied" }, { id: "4", source: "pay", target: "refuse", sourceHandle: "error" },
  ],
};

describe("a simulated run on the canvas", () => {
  it("has the outcomes so far, and the edges by which they were left", () => {
    const steps = [{ nodeId: "ask", outcome: "approved" }, { nodeId: "pay", outcome: "failed" }];
    expect([...marksOf(GRAPH, steps, 0).taken]).toEqual([]);
    expect([...marksOf(GRAPH, steps, 1).taken]).toEqual(["1", "2"]);
    const whole = marksOf(GRAPH, steps, 2, ["refuse"]);
    expect([...whole.taken]).toEqual(["1", "2", "4"]);
    expect(whole.current).toBe("pay");
    expect(whole.outcomes.get("pay")).toBe("failed");
    expect(whole.never).toEqual(new Set(["refuse"]));
  });

  it("can be a path of nodes", () => {
    expect(stepsAlong(GRAPH, ["start", "ask", "pay", "refuse"])).toEqual([
      { nodeId: "ask", outcome: "approved" }, { nodeId: "pay", outcome: "failed" }, { nodeId: "refuse", outcome: "done" },
    ]);
    expect(["done", "failed", "denied", "big"].map(toneOfOutcome)).toEqual(["ok", "bad", "wait", "ok"]);
  });
});
