import type { Api } from "../api/api";
import { attachmentsOf, type Chats, type Conversation } from "../api/chats";
import { ApiError, mayPass, randomId } from "../api/client";
import { follow } from "../api/sse";
import type { Decision, InboxItem, Json, JsonObject, RunEvent, RunRecord, Target, Upload } from "../api/types";
import { Chain, type Entry, entriesOf, runOf } from "./transcript";
import { readDocument } from "../kit/json";
import { forget, keep, kept } from "../kit/tab";

/** How many executions of a thread are shown with their events, at most. */
const MOST_CHAINS = 20;
const TERMINAL = new Set(["done", "error", "cancelled"]);

/** The other side of a chat. `takesMessage`: the input of a workflow has the message too. */
export interface Partner {
  target: Target;
  name: string;
  description: string;
  takesMessage: boolean;
  draft: boolean;
}

export interface Snapshot {
  loading: boolean;
  /** Why messages could not be read, if another attempt can succeed; `read` makes it. */
  failure: unknown;
  older: string | null;
  entries: { entry: Entry; chain: Chain | null }[];
  /** Turns are under way. */
  busy: boolean;
  connection: "live" | "reconnecting" | "offline";
}

interface Pending {
  key: string;
  body: JsonObject;
  files: string[];
}

export interface Hooks {
  /** Called with the body before a run begins; false refuses it. */
  onStart: (body: JsonObject) => boolean;
  onRun: (runId: string) => void;
  onEnd: (runId: string, status: string) => void;
}

/**
 * One thread: its stored messages, and the executions that began here or have not ended.
 *
 * A message begins a run with a key of its own. The same request joins that run after the stream broke or the page was
 * loaded again, so nothing is sent twice.
 */
export class ChatSession {
  private snapshot: Snapshot = { loading: true, failure: null, older: null, entries: [], busy: false, connection: "live" };
  private readonly listeners = new Set<() => void>();
  private stored: Conversation["messages"] = [];
  private chains: Chain[] = [];
  private readonly streams = new Map<Chain, Set<() => void>>();
  /** The latest turn of each chain, once it has begun. */
  private readonly turns = new WeakMap<Chain, Promise<{ runId: string }>>();
  private decisions: Promise<unknown> = Promise.resolve();
  private frame: number | ReturnType<typeof setTimeout> | null = null;
  private closed = false;
  private isReading = false;

  constructor(
    private readonly api: Api, private readonly chats: Chats, private readonly partner: Partner,
    readonly thread: string, private readonly hooks: Hooks,
  ) {}

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };
  current = () => this.snapshot;

  /** Read what was said, and continue what has not ended. Without the right to read, the chat begins empty. */
  async start(): Promise<void> {
    this.closed = false;
    this.set({ loading: true, failure: null });
    const pending = this.pending();
    let failure: unknown = null;
    const without = (error: unknown) => {
      if (mayPass(error)) failure = error;
      return null;
    };
    const [conversation, found] = await Promise.all([
      this.chats.conversation(this.thread).catch(without), this.chats.runs(this.thread).catch(without),
    ]);
    if (this.closed) return;
    if (failure) return this.set({ loading: false, failure });
    const records = found ?? [];
    this.stored = conversation?.messages ?? [];
    const begun = new Set(this.chains.map((chain) => chain.key)); // by messages that were sent meanwhile
    const executions = executionsOf(records).filter((turns) => {
      if (begun.has(turns[0]!.runId)) return false;
      const isStored = this.stored.some((message) => runOf(message) === turns[0]!.runId && message.type !== "human");
      return turns.at(-1)!.status !== "done" || !isStored;
    });
    for (const turns of executions.slice(-MOST_CHAINS)) await this.replay(turns, pending);
    if (this.closed) return;
    if (pending && !records.some((record) => record.runId === pending.key)) this.begin(pending);
    this.set({ loading: false, older: conversation?.nextPageToken ?? null });
  }

  stop() {
    this.closed = true;
    for (const stops of this.streams.values()) stops.forEach((stop) => stop());
    this.streams.clear();
  }

  /** Read the messages before those that are shown, or again what could not be read. */
  async read(): Promise<void> {
    const { older } = this.snapshot;
    if (older === null) return this.start();
    if (this.isReading) return;
    this.isReading = true;
    this.set({ failure: null });
    try {
      const page = await this.chats.conversation(this.thread, older);
      this.stored = [...page.messages, ...this.stored];
      this.set({ older: page.nextPageToken ?? null });
    } catch (failure) {
      this.set({ failure });
    }
    this.isReading = false;
  }

  /** False if the host refuses it. */
  send(text: string, uploads: { name: string; upload: Upload }[]): boolean {
    const { target, takesMessage } = this.partner;
    const body: JsonObject = { message: text, fileThreadId: this.thread, origin: "chatapp", streamProtocolVersion: 2 };
    if (target.type === "assistant") body.assistant = true;
    else if (target.type === "skill") body.skillId = target.id;
    else Object.assign(body, { workflowId: target.id, input: takesMessage ? { message: text } : {} });
    if (this.partner.draft) body.version = "draft";
    if (uploads.length) body.attachments = attachmentsOf(uploads);
    if (!this.hooks.onStart(body)) return false;
    const pending = { key: randomId(), body, files: uploads.map((one) => one.name) };
    this.keep(pending);
    this.begin(pending);
    return true;
  }

  /** Decide a request of this chat; resolves when the turn has begun. One decision is sent after the other. */
  decide(chain: Chain, item: InboxItem, decision: Decision["decision"], data?: Json): Promise<{ runId: string }> {
    const body: JsonObject = { interruptId: item.interruptId, decision, origin: "chatapp", streamProtocolVersion: 2 };
    if (data !== undefined) body.data = data;
    const sent = this.decisions.then(() => this.turn(chain, `${pathOf(chain.runId ?? item.runId)}/resume`, body, randomId()));
    this.decisions = sent.catch(() => undefined);
    return sent;
  }

  /** Cancel the latest turn that is under way, as soon as it has begun. */
  async cancel(): Promise<void> {
    const chain = this.chains.findLast((one) => this.streams.has(one));
    const turn = chain && (await this.turns.get(chain));
    if (turn) await this.api.cancel(turn.runId);
  }

  /** Something changed on the server: follow what others have decided. */
  async refresh(): Promise<void> {
    await this.decisions;
    for (const chain of this.chains) {
      if (chain.status !== "interrupted" || this.streams.has(chain) || !chain.runId) continue;
      const turn = chain.runId;
      const record = await this.api.run(turn).catch(() => null);
      if (!record || this.closed || chain.runId !== turn || this.streams.has(chain)) continue;
      const next = record.resumedBy ?? record.retriedBy;
      if (next) void this.turn(chain, `${pathOf(next)}/events`).catch(() => undefined);
      else if (record.status === "cancelled") chain.cancel();
      this.changed();
    }
  }

  private begin(pending: Pending) {
    const chain = new Chain(pending.key, this.partner.target, { text: String(pending.body.message), files: pending.files });
    this.stored = this.stored.filter((message) => runOf(message) !== pending.key);
    this.chains.push(chain);
    this.turn(chain, "/agent/v1/runs", pending.body, pending.key).then(({ runId }) => this.hooks.onRun(runId), (error: Error) => {
      chain.fail(error.message);
      this.keep(null);
      this.changed();
    });
    this.changed();
  }

  /** Show an execution by its events, and follow it if it is under way. */
  private async replay(turns: RunRecord[], pending: Pending | null) {
    if (this.closed) return;
    const root = turns[0]!;
    const own = this.stored.find((message) => runOf(message) === root.runId && message.type === "human");
    const sent = pending?.key === root.runId ? pending : null;
    const text = own?.content ?? (sent ? String(sent.body.message) : null);
    const chain = new Chain(root.runId, this.partner.target, text === null ? null : { text, files: sent?.files ?? [] });
    for (const turn of turns) {
      if (turn !== turns.at(-1) || TERMINAL.has(turn.status) || turn.status === "interrupted") {
        chain.apply(await this.api.events(turn.runId).catch(() => []));
        if (this.closed) return;
      }
    }
    this.chains.push(chain);
    const last = turns.at(-1)!;
    if (last.status === "queued" || last.status === "running") void this.turn(chain, `${pathOf(last.runId)}/events`).catch(() => undefined);
    else await this.settled(chain, last.runId);
  }

  /** Follow one turn. Resolves at its first event; rejects if the server refuses it. */
  private turn(chain: Chain, path: string, body?: JsonObject, key?: string): Promise<{ runId: string }> {
    const turn = new Promise<{ runId: string }>((resolve, reject) => {
      let begun = false;
      const stops = this.streams.get(chain) ?? new Set();
      this.streams.set(chain, stops);
      const over = () => {
        stops.delete(stop);
        if (!stops.size) this.streams.delete(chain);
        this.set({ connection: "live" });
      };
      const stop = follow({
        client: this.chats.client, path,
        ...(body ? { body } : {}),
        ...(key ? { headers: { "Idempotency-Key": key } } : {}),
        onFrames: (frames) => {
          const events = frames.map((frame) => readDocument(frame.data) as RunEvent);
          chain.apply(events);
          const first = events[0]!;
          begun = true;
          resolve({ runId: first.runId });
          const last = events.findLast((event) => !event.nodeId && TERMINAL.has(event.kind));
          if (last) {
            over();
            if (last.runId === chain.runId) void this.settled(chain, last.runId);
          }
          this.changed();
          return Boolean(last);
        },
        onState: (state, error) => {
          if (state === "waiting" || state === "live") this.set({ connection: state === "live" ? "live" : navigator.onLine ? "reconnecting" : "offline" });
          if (state !== "failed") return;
          over();
          if (begun) chain.fail(error?.message ?? "");
          reject(error ?? new ApiError(0, ""));
        },
      });
      stops.add(stop);
      this.changed();
    });
    this.turns.set(chain, turn);
    return turn;
  }

  /** A turn has ended: the message needs no repeat, and missing connections can be authorized. */
  private async settled(chain: Chain, runId: string) {
    if (this.pending()?.key === chain.key) this.keep(null);
    this.hooks.onEnd(runId, chain.status);
    if (!chain.open.some((item) => item.type === "connect")) return;
    const record = await this.api.run(runId).catch(() => null);
    chain.connectAt(record?.interrupts ?? []);
    this.changed();
  }

  private get storageKey(): string {
    return `studio-chat ${this.chats.client.baseUrl} ${this.thread}`;
  }

  private pending(): Pending | null {
    try {
      return readDocument(kept(this.storageKey) ?? "null") as Pending | null;
    } catch {
      return null;
    }
  }

  private keep(pending: Pending | null) {
    if (pending) keep(this.storageKey, JSON.stringify(pending));
    else forget(this.storageKey);
  }

  /** The stored messages with the executions in their places. */
  private shown(): Snapshot["entries"] {
    const byRun = new Map(this.chains.map((chain) => [chain.key, chain]));
    const found: Snapshot["entries"] = [];
    const placed = new Set<Chain>();
    const place = (chain: Chain) => {
      if (placed.has(chain)) return;
      placed.add(chain);
      found.push(...chain.entries.map((entry) => ({ entry, chain })));
    };
    let run: Conversation["messages"] = [];
    const flush = () => {
      found.push(...entriesOf(run).map((entry) => ({ entry, chain: null })));
      run = [];
    };
    for (const message of this.stored) {
      const chain = byRun.get(runOf(message));
      if (!chain) run.push(message);
      else {
        flush();
        place(chain);
      }
    }
    flush();
    this.chains.forEach(place);
    return found;
  }

  private set(change: Partial<Snapshot>) {
    if (this.closed) return;
    this.snapshot = { ...this.snapshot, ...change, busy: this.streams.size > 0, entries: this.shown() };
    this.listeners.forEach((listener) => listener());
  }

  private changed() {
    if (this.frame !== null) return;
    const flush = () => {
      this.frame = null;
      this.set({});
    };
    this.frame = document.hidden ? setTimeout(flush, 100) : requestAnimationFrame(flush);
  }
}

/** The turns of each execution in order, the oldest execution first. */
export function executionsOf(records: RunRecord[]): RunRecord[][] {
  const byId = new Map(records.map((record) => [record.runId, record]));
  const roots = records.filter((record) => !record.parentRunId || !byId.has(record.parentRunId)).reverse();
  return roots.map((root) => {
    const turns = [root];
    for (let next = nextOf(root); next && byId.has(next) && turns.length <= records.length; next = nextOf(turns.at(-1)!)) turns.push(byId.get(next)!);
    return turns;
  });
}

const nextOf = (run: RunRecord) => run.resumedBy ?? run.retriedBy ?? null;
const pathOf = (runId: string) => `/agent/v1/runs/${encodeURIComponent(runId)}`;
