import { describe, expect, it } from "vitest";
import type { RunGraph, Structure, Tool } from "../api/types";
import { complete, type Mode, type Shape } from "./completion";
import { ancestors, type Sample, sampleOf, scopeOf, valuesFor } from "./scope";

const GRAPH: Structure = {
  nodes: [
    { id: "start", type: "start", data: { inputSchema: { type: "object", properties: { order: { type: "integer" }, "is vip": { type: "boolean" } } } } },
    { id: "load", type: "action", data: { toolId: "shop.load" } },
    { id: "ask", type: "humanApproval", data: { formSchema: { type: "object", properties: { reason: { type: "string" } } } } },
    { id: "pay", type: "action", data: { toolId: "shop.pay", forEach: "nodes.load.output.lines" } },
    { id: "other", type: "action", data: {} },
  ],
  edges: [
    { id: "1", source: "start", target: "load" }, { id: "2", source: "load", target: "ask" }, { id: "3", source: "ask", target: "pay", sourceHandle: "approved" },
    { id: "4", source: "pay", target: "load", sourceHandle: "error" },
  ],
};
const TOOLS = [{ id: "shop.load", outputSchema: { type: "object", properties: { lines: { type: "array", items: { type: "object", properties: { sku: { type: "string" } } } } } } }] as unknown as Tool[];
const RUN = { id: "r1", at: "2026-11-22T12:00:00Z" };
const SAMPLE: Sample = { input: { order: 7 }, outputs: { load: { lines: [{ sku: "A", qty: 2 }], total: 9 } }, run: RUN };

const labels = (text: string, root: Shape, mode: Mode = "expression", all = false) => complete(text, text.length, mode, root, all)?.options.map((one) => one.label) ?? null;
const taken = (text: string, root: Shape, label: string, mode: Mode = "expression") => {
  const found = complete(text, text.length, mode, root)!;
  return text.slice(0, found.from) + found.options.find((one) => one.label === label)!.insert;
};

describe("what an expression can read", () => {
  const pay = GRAPH.nodes[3]!;
  it("is the input, the nodes on the paths to it and the item", () => {
    const root = scopeOf(pay, GRAPH, TOOLS, null);
    expect(ancestors(GRAPH, "pay").sort()).toEqual(["ask", "load"]);
    expect(labels("n", root)).toEqual(["nodes", "input", "run", "string()", "int()", "duration()"]);
    expect(labels("nodes.", root)).toEqual(expect.arrayContaining(["load", "ask"]));
    expect(labels("nodes.", root)).not.toContain("other");
    expect(labels("ite", root)).toEqual(["item"]);
    expect(labels("ite", scopeOf(GRAPH.nodes[1]!, GRAPH, TOOLS, null))).toBeNull();
  });

  it("has the names of schemas and of values", () => {
    const root = scopeOf(pay, GRAPH, TOOLS, SAMPLE);
    expect(labels("input.", root)).toEqual(["order", "is vip"]);
    expect(labels("nodes.load.output.", root)).toEqual(["lines", "total"]);
    expect(labels("nodes.load.output.lines[0].", root)).toEqual(["sku", "qty"]);
    expect(labels("nodes.load.output.lines.", root)).toContain("map(x, x)");
    expect(labels("nodes.ask.output.data.", root)).toEqual(["reason"]);
    expect(labels("size(nodes.load.output.to", root)).toEqual(["total"]);
    expect(complete("input.o", 7, "expression", root)!.options[0]!.detail).toBe("7");
    expect(labels("nodes.pay.", root)).toBeNull();
  });

  it("is inserted as CEL needs it", () => {
    const root = scopeOf(pay, GRAPH, TOOLS, SAMPLE);
    expect(taken("1 + input.or", root, "order")).toBe("1 + input.order");
    expect(taken("input.is", root, "is vip")).toBe('input["is vip"]');
    expect(taken("nodes[", root, "load")).toBe('nodes["load"]');
    expect(taken("Hello {{ input.", root, "order", "template")).toBe("Hello {{ input.order");
  });

  it("is offered where an expression is", () => {
    const root = scopeOf(pay, GRAPH, TOOLS, SAMPLE);
    expect(labels("input.", root, "template")).toBeNull();
    expect(labels("{{ ", root, "template")).toContain("input");
    expect(labels("{{ input.order }} input.", root, "template")).toBeNull();
    expect(labels('input.order == "input.', root)).toBeNull();
    expect(labels("", root)).toBeNull();
    expect(labels("", root, "expression", true)).toContain("nodes");
    expect(labels("input.order ", root)).toBeNull();
    expect(labels("input.order + ", root, "expression", true)).toContain("input");
  });
});

describe("values of a run", () => {
  it("are the last ones of each node, without what was cut and what failed", () => {
    const visit = (more: object) => ({ visit: 1, finishedAt: "2026-11-22T12:00:00Z", ...more });
    const graph = { edges: [], nodes: [
      { id: "start", type: "start", status: "done", items: null, visits: [visit({ output: { order: 7 } })] },
      { id: "a", type: "action", status: "done", items: null, visits: [visit({ output: 1 }), visit({ output: 2 })] },
      { id: "b", type: "action", status: "done", items: null, visits: [visit({ output: { truncated: true, bytes: 9, preview: "", url: "" } })] },
      { id: "c", type: "action", status: "error", items: null, visits: [visit({ output: null, error: { message: "no" } })] },
    ] } as unknown as RunGraph;
    expect(sampleOf(graph, RUN)).toEqual({ input: { order: 7 }, outputs: { a: 2 }, run: RUN });
    expect(sampleOf({ nodes: [], edges: [] }, RUN)).toBeNull();
  });

  it("are sent for the nodes that the text names", () => {
    const sample = { ...SAMPLE, outputs: { load: 1, other: 2 } };
    expect(valuesFor("nodes.load.output", sample, 3)).toEqual({ input: { order: 7 }, nodes: { load: { output: 1 } }, run: { id: "r1", startedAt: RUN.at, userId: "" }, item: 3 });
  });
});
