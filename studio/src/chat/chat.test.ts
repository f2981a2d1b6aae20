import { describe, expect, it, vi } from "vitest";
import type { Api } from "../api/api";
import type { Chats, ConversationMessage } from "../api/chats";
import type { RunEvent, RunRecord } from "../api/types";
import { parse, safeAddress } from "./Markdown";
import { ChatSession, executionsOf, type Partner } from "./session";
import { Chain, entriesOf, runOf } from "./transcript";

const TARGET = { type: "skill", id: 2 };
let seq = 0;
const event = (kind: string, fields: object = {}): RunEvent => ({ kind, runId: "r1", seq: ++seq, at: "2026-01-01T00:00:00Z", ...fields });
const chainOf = (events: RunEvent[], target = TARGET) => {
  const chain = new Chain("r1", target, { text: "hello", files: [] });
  chain.apply(events);
  return chain;
};
const kinds = (chain: Chain) => chain.entries.map((entry) => entry.kind);
const ASK = { interruptId: "i1", type: "approval", nodeId: "agent", toolCallId: "c1", message: "May I?", approvals: 0 };

function turn(): RunEvent[] {
  seq = 0;
  return [
    event("run_started"),
    event("node_started", { nodeId: "agent", visit: 1 }),
    event("message_delta", { nodeId: "agent", messageId: "m1", delta: "I " }),
    event("message_delta", { nodeId: "agent", messageId: "m1", delta: "look" }),
    event("message", { nodeId: "agent", messageId: "m1", content: "I look." }),
    event("tool_call", { nodeId: "agent", toolCallId: "c1", toolId: "crm.find", name: "crm_find", arguments: { id: 7 } }),
    event("interrupt", ASK),
    event("done", { status: "interrupted", output: null, interrupts: [ASK] }),
  ];
}

describe("an execution", () => {
  it("is a message, a folded step and a request", () => {
    const chain = chainOf(turn());
    expect(kinds(chain)).toEqual(["message", "message", "steps", "interrupt"]);
    expect([chain.status, chain.open.length]).toEqual(["interrupted", 1]);
    expect(chain.entries[2]).toMatchObject({ steps: [{ toolId: "crm.find", input: { id: 7 }, state: "waiting" }] });
  });

  it("shows what a tool reports while it works", () => {
    const chain = chainOf(turn().slice(0, 6));
    chain.apply([event("tool_progress", { nodeId: "agent", toolCallId: "c1", progress: 3, total: 10, message: "page 3", seq: 7 })]);
    expect(chain.entries.at(-1)).toMatchObject({ steps: [{ progress: "page 3 · 3 / 10", state: "running" }] });
  });

  it("is the same in any pieces, with events twice", () => {
    const events = turn();
    const whole = JSON.stringify(chainOf(events).entries);
    for (let cut = 0; cut <= events.length; cut++) {
      const chain = chainOf(events.slice(0, cut));
      for (const one of events.slice(Math.max(0, cut - 2))) chain.apply([one]);
      expect(JSON.stringify(chain.entries)).toBe(whole);
    }
  });

  it("goes on in the next turn, which closes what was decided", () => {
    const chain = chainOf(turn());
    seq = 0;
    const next = (kind: string, fields: object = {}) => ({ ...event(kind, fields), runId: "r2" });
    chain.apply([next("run_started"), next("tool_result", { nodeId: "agent", toolCallId: "c1", output: 3 }), next("done", { status: "done", output: "Three." })]);
    expect([chain.runId, chain.status, chain.open]).toEqual(["r2", "done", []]);
    expect(chain.entries.at(-1)).toMatchObject({ kind: "message", text: "Three.", own: false });
    expect(chain.entries[2]).toMatchObject({ steps: [{ output: 3, state: "done" }] });
  });

  it("keeps the status of the newest turn when an older one ends later", () => {
    const chain = chainOf(turn().slice(0, -1));
    chain.apply([{ ...event("run_started"), runId: "r2", seq: 1 }, { ...event("done", { status: "interrupted", interrupts: [ASK] }), seq: 99 }]);
    expect([chain.runId, chain.status]).toEqual(["r2", "running"]);
  });

  it("shows a request again when a further approval is needed", () => {
    const chain = chainOf(turn());
    chain.apply([{ ...event("run_started"), runId: "r2", seq: 1 }, { ...event("done", { status: "interrupted", interrupts: [{ ...ASK, approvals: 1 }] }), runId: "r2", seq: 2 }]);
    expect(chain.open).toMatchObject([{ approvals: 1, runId: "r2" }]);
    chain.cancel();
    expect([chain.open, chain.status]).toEqual([[], "cancelled"]);
  });

  it("shows where a missing connection is authorized", () => {
    const ask = { interruptId: "i2", type: "connect", nodeId: "agent", provider: "crm", runId: "r1" } as const;
    seq = 0;
    const chain = chainOf([event("run_started"), event("interrupt", ask), event("done", { status: "interrupted", interrupts: [ask] })]);
    chain.connectAt([{ ...ask, connectUrl: "https://a.test/connect" }]);
    expect(chain.open).toMatchObject([{ connectUrl: "https://a.test/connect", target: TARGET }]);
  });

  it("marks what an attempt that failed has written", () => {
    seq = 0;
    const chain = chainOf([event("run_started"), event("message_delta", { nodeId: "agent", messageId: "m", delta: "Half" }), event("node_retrying", { nodeId: "agent" }),
      event("error", { error: { message: "the model failed" } })]);
    expect(chain.entries.slice(1)).toMatchObject([{ state: "broken" }, { kind: "failed", text: "the model failed" }]);
  });

  it("replaces a message that a guardrail withdrew", () => {
    seq = 0;
    const chain = chainOf([event("run_started"), event("message_delta", { nodeId: "agent", messageId: "m", delta: "Secret" }),
      event("message_replaced", { nodeId: "agent", messageId: "m", content: "Withheld" }), event("done", { status: "done", output: "Withheld" })]);
    expect(chain.entries.slice(1)).toMatchObject([{ text: "Withheld", state: "done" }]);
  });

  it("names subordinates, and finds the one of several by its result", () => {
    seq = 0;
    const call = (id: string, skill: number) => event("tool_call", { nodeId: "agent", toolCallId: id, toolId: `skill:${skill}`, name: `skill_${skill}`, arguments: {} });
    const say = (id: string, content: string) => event("message", { nodeId: "agent", path: ["agent"], messageId: id, content });
    const chain = chainOf([event("run_started"), call("a", 1), call("b", 2), say("x", "from two"), event("tool_result", { nodeId: "agent", toolCallId: "b", output: "from two" }), say("y", "from one")]);
    const authors = chain.entries.flatMap((entry) => (entry.kind === "message" && entry.author ? [entry.author.skills.map((skill) => skill.toolId)] : []));
    expect(authors).toEqual([["skill:2"], ["skill:1"]]);
  });

  it("of a workflow shows its nodes, the message of its input and a result that is no text", () => {
    seq = 0;
    const chain = new Chain("r1", { type: "workflow", id: 1 }, null);
    chain.apply([event("run_started"), event("node_started", { nodeId: "start" }), event("node_finished", { nodeId: "start", output: { message: "go" } }),
      event("node_started", { nodeId: "book" }), event("node_finished", { nodeId: "book", output: 1 }), event("done", { status: "done", output: { booked: 1 } })]);
    expect(chain.entries).toMatchObject([{ own: true, text: "go" }, { kind: "steps", steps: [{ name: "book", state: "done" }] }, { kind: "output", open: true }]);
  });
});

describe("stored messages", () => {
  it("are entries with folded calls and their results", () => {
    const messages: ConversationMessage[] = [
      { id: "r1:agent:1.0", type: "human", content: "hi", toolCalls: [], attachments: { images: [], documents: [{ name: "a.txt" }] } },
      { id: "r1:agent:1.1:1", type: "ai", content: "", toolCalls: [{ id: "c", name: "find", args: { id: 1 } }] },
      { id: "r1:agent:1.2", type: "tool", content: "found", toolCalls: [], toolCallId: "c" },
      { id: "r1:agent:1.3:1", type: "ai", content: "There.", toolCalls: [] },
    ];
    expect(entriesOf(messages)).toMatchObject([{ own: true, files: ["a.txt"] }, { kind: "steps", steps: [{ output: "found" }] }, { text: "There." }]);
    expect(runOf(messages[0]!)).toBe("r1");
  });

  it("are grouped by execution, oldest first", () => {
    const record = (runId: string, parentRunId: string | null, resumedBy: string | null) => ({ runId, parentRunId, resumedBy }) as RunRecord;
    const turns = executionsOf([record("c", null, null), record("b", "a", null), record("a", null, "b")]);
    expect(turns.map((one) => one.map((run) => run.runId))).toEqual([["a", "b"], ["c"]]);
  });
});

describe("Markdown", () => {
  it.each(["javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\nscript:alert(1)", "javascript&#58;alert(1)", "&#x6a;avascript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc", "//evil.test", "/x", "blob:https://a/b", ""])(
    "follows no link to %j", (href) => expect(safeAddress(href)).toBeNull(),
  );
  it.each(["https://a.test/?x=1&amp;y=2", "http://a.test", "mailto:a@b.test"])("follows a link to %j", (href) => expect(safeAddress(href)).not.toBeNull());
  it("leaves out what is too long or too deep", () => {
    expect(parse("x".repeat(50_001))).toBeNull();
    for (const one of [">", "> - ", "* "]) expect(parse(one.repeat(10_000))).toBeNull();
    expect(parse(`|${"-".repeat(80)}|\n\n${"* ".repeat(20)}`)).not.toBeNull();
  });
});

describe("a chat", () => {
  it("follows no run when it is removed while it reads what was said", async () => {
    const record = (runId: string, status: string) => ({ runId, status, target: TARGET });
    vi.stubGlobal("document", Object.assign(new EventTarget(), { hidden: false }));
    vi.stubGlobal("addEventListener", () => undefined);
    const opened: string[] = [];
    let session: ChatSession | undefined;
    let started: Promise<void> | undefined;
    let answer: (events: RunEvent[]) => void = () => undefined;
    const asked = new Promise<void>((resolve) => {
      const events = () => new Promise<RunEvent[]>((found) => { answer = found; resolve(); });
      const chats = {
        client: { baseUrl: "", open: (path: string) => { opened.push(path); return new Promise(() => undefined); } },
        conversation: () => Promise.resolve(null), runs: () => Promise.resolve([record("r2", "running"), record("r1", "error")]),
      };
      const hooks = { onStart: () => true, onRun: () => undefined, onEnd: () => undefined };
      session = new ChatSession({ events } as unknown as Api, chats as unknown as Chats, { target: TARGET } as Partner, "t", hooks);
      started = session.start();
    });
    await asked;
    session!.stop();
    answer([]);
    await started;
    expect(opened).toEqual([]);
    vi.unstubAllGlobals();
  });
});
