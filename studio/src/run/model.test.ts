import { describe, expect, it } from "vitest";
import type { RunEvent } from "../api/types";
import { growth } from "../kit/growth";
import { keyOf, placeName, placeOf, RunModel } from "./model";

/** A small generator of pseudo-random numbers, so that a failure can be repeated. */
function random(seed: number) {
  return () => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed / 2_147_483_648;
  };
}

function history(next: () => number): RunEvent[] {
  const events: RunEvent[] = [];
  const push = (runId: string, kind: string, more: object = {}) => {
    const seq = events.filter((event) => event.runId === runId).length + 1;
    events.push({ kind, runId, seq, at: new Date(1_000_000 + events.length * 250).toISOString(), ...more });
  };
  for (const turn of ["r1", "r2"]) {
    push(turn, "run_started");
    for (let index = 0; index < 40; index++) {
      const nodeId = `n${Math.floor(next() * 6)}`;
      const where = next() < 0.3 ? { path: ["outer"], items: [Math.floor(next() * 3)] } : {};
      const kind = ["node_started", "node_finished", "node_failed", "node_retrying", "node_skipped", "interrupt", "usage", "message"][Math.floor(next() * 8)]!;
      push(turn, kind, { nodeId, ...where, interruptId: `i${index}`, output: index, usage: { inputTokens: 3 }, content: "x" });
    }
    push(turn, "done", { status: turn === "r1" ? "interrupted" : "done" });
  }
  return events;
}

const stateOf = (model: RunModel) => JSON.stringify([[...model.nodes], [...model.turns], model.log, [...model.open]]);

describe("RunModel", () => {
  it("has the same state for every way in which a stream is cut, joined again and repeated", () => {
    for (let seed = 1; seed <= 200; seed++) {
      const next = random(seed);
      const events = history(next);
      const whole = new RunModel();
      whole.apply(events);
      const cut = new RunModel();
      for (let at = 0; at < events.length; ) {
        const size = 1 + Math.floor(next() * 9);
        const back = Math.floor(next() * 4); // joined again before the last seen event
        cut.apply(events.slice(Math.max(0, at - back), at + size));
        at += size;
      }
      expect(stateOf(cut)).toBe(stateOf(whole));
    }
  });

  it("keeps a visit waiting when its approvers are reminded", () => {
    const model = new RunModel();
    const at = (second: number) => new Date(second * 1000).toISOString();
    model.apply([
      { kind: "node_started", runId: "a", seq: 1, at: at(1), nodeId: "ask" },
      { kind: "interrupt", runId: "a", seq: 2, at: at(2), nodeId: "ask", interruptId: "i" },
      { kind: "interrupt.reminded", runId: "a", seq: 3, at: at(3), nodeId: "ask", interruptId: "i", remindedAt: at(3) },
    ]);
    const node = model.nodes.get("ask");
    expect([node?.status, node?.visits[0]?.waits.length]).toEqual(["waiting", 1]);
    expect(model.open.get("i")?.remindedAt).toBe(at(3));
  });

  it("continues a visit that waited in the next turn", () => {
    const model = new RunModel();
    const at = (second: number) => new Date(second * 1000).toISOString();
    model.apply([
      { kind: "node_started", runId: "a", seq: 1, at: at(1), nodeId: "ask" },
      { kind: "interrupt", runId: "a", seq: 2, at: at(2), nodeId: "ask", interruptId: "i" },
      { kind: "done", runId: "a", seq: 3, at: at(3), status: "interrupted" },
    ]);
    expect(model.nodes.get("ask")?.status).toBe("waiting");
    expect(model.open.size).toBe(1);
    model.apply([{ kind: "node_finished", runId: "b", seq: 1, at: at(9), nodeId: "ask", output: 1 }]);
    const visit = model.nodes.get("ask")?.visits[0];
    expect(visit?.status).toBe("done");
    expect(visit?.waits).toEqual([{ from: 2000, to: 9000 }]);
    expect(model.open.size).toBe(0);
  });

  it("ends what was under way when the run ends", () => {
    const model = new RunModel();
    model.apply([
      { kind: "node_started", runId: "a", seq: 1, at: new Date(0).toISOString(), nodeId: "slow" },
      { kind: "error", runId: "a", seq: 2, at: new Date(5).toISOString(), error: { code: "", status: "", message: "no" } },
    ]);
    expect(model.nodes.get("slow")?.status).toBe("cancelled");
  });

  it("replaces what the graph of the server shows by the events, in any order", () => {
    const next = random(7);
    const events = history(next).filter((event) => !event.path);
    const nodes = ["n0", "n1", "n2", "fresh"].map((id) => ({
      id, type: "action", status: "done" as const, items: null, visits: [{ visit: 1, attempts: 1, startedAt: "2026-01-01T00:00:00Z", finishedAt: "2026-01-01T00:00:01Z" }],
    }));
    const before = new RunModel();
    before.applyGraph({ nodes, edges: [] });
    before.apply(events);
    const after = new RunModel();
    after.apply(events);
    after.applyGraph({ nodes, edges: [] });
    const sorted = (model: RunModel) => JSON.stringify([...model.nodes].sort(([a], [b]) => (a < b ? -1 : 1)));
    expect(sorted(before)).toBe(sorted(after));
    expect(after.nodes.get("fresh")?.status).toBe("done");
  });

  it("keeps the items of a list apart", () => {
    const event = { kind: "node_started", runId: "a", seq: 1, at: "", nodeId: "x", path: ["list", "call"], items: [2, null] };
    expect(keyOf(placeOf(event), "x")).not.toBe(keyOf(placeOf({ ...event, items: [1, null] }), "x"));
    expect(placeName(placeOf(event), "x")).toBe("list [3] › call › x");
  });

  it("applies events in a time that grows with their number, not with its square", () => {
    const work = (count: number) => {
      const events = Array.from({ length: count }, (_, index): RunEvent => ({
        kind: index % 2 ? "node_finished" : "node_started", runId: "a", seq: index + 1, at: "2026-01-01T00:00:00Z", nodeId: `n${Math.floor(index / 2)}`,
      }));
      const model = new RunModel();
      return () => {
        model.apply(events);
        expect(model.nodes.size).toBe(count / 2);
      };
    };
    expect(growth(2_500, work)).toBeLessThan(10);
  });
});
