import { describe, expect, it } from "vitest";
import type { Api } from "../api/api";
import type { RunRecord } from "../api/types";
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
});
