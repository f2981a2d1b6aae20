import { describe, expect, it, vi } from "vitest";
import type { Api } from "../api/api";
import type { RunEvent, RunRecord } from "../api/types";
import { Execution } from "./execution";

const record = (status: string) => ({ runId: "r", parentRunId: null, resumedBy: null, retriedBy: null, status, target: { type: "action", id: null }, interrupts: [] }) as unknown as RunRecord;

describe("Execution", () => {
  it("shows no record that is older than the one that it shows", async () => {
    const waiting: ((run: RunRecord) => void)[] = [];
    let first: RunRecord | null = record("interrupted");
    const api = {
      run: () => (first ? Promise.resolve(first) : new Promise<RunRecord>((resolve) => waiting.push(resolve))),
      events: async () => [], graph: async () => ({ nodes: [], edges: [] }),
    };
    const one = new Execution(api as unknown as Api, "r", () => undefined);
    await one.start();
    first = null;
    const [earlier, later] = [one.refresh(), one.refresh()];
    waiting[1]!(record("done"));
    await later;
    waiting[0]!(record("interrupted"));
    await earlier;
    expect(one.current().record!.status).toBe("done");
    one.stop();
  });

  it("opens no stream of a new turn for a page that was left meanwhile", async () => {
    const opened: string[] = [];
    vi.stubGlobal("document", { hidden: false, addEventListener: () => {} });
    vi.stubGlobal("addEventListener", () => {});
    let [begin, answer] = [() => {}, (_: RunEvent[]) => {}];
    const begun = new Promise<void>((resolve) => (begin = resolve));
    let turns: Record<string, RunRecord> = { r: record("interrupted") };
    const api = {
      run: async (id: string) => turns[id]!,
      events: () => (turns.r!.resumedBy ? new Promise<RunEvent[]>((resolve) => { answer = resolve; begin(); }) : Promise.resolve([])),
      graph: async () => ({ nodes: [], edges: [] }),
      client: { open: async (path: string) => { opened.push(path); throw new Error("not wanted"); } },
    };
    const one = new Execution(api as unknown as Api, "r", () => undefined);
    await one.start();
    turns = { r: { ...record("interrupted"), resumedBy: "s" }, s: { ...record("running"), runId: "s", parentRunId: "r" } };
    const refreshing = one.refresh();
    await begun;
    one.stop();
    answer([]);
    await refreshing;
    expect(opened).toEqual([]);
    vi.unstubAllGlobals();
  });
});
