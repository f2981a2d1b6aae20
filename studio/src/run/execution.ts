import type { Api } from "../api/api";
import { ApiError, mayPass } from "../api/client";
import { follow, type StreamState } from "../api/sse";
import type { RunEvent, RunGraph, RunRecord, Structure } from "../api/types";
import { partOf, RunModel } from "./model";
import { asNumber, readDocument } from "../kit/json";

const MOST_TURNS = 500;
const GRAPH_AFTER_MS = 600;

export interface Snapshot {
  turns: RunRecord[];
  record: RunRecord | null;
  structure: Structure | null;
  stream: StreamState | "idle";
  error: ApiError | Error | null;
  loaded: boolean;
  version: number;
}

/**
 * One execution: the records of all of its turns, the events of each, and the graph.
 *
 * Finished turns are read at once; the last one is followed. Changes are collected for a frame before listeners are
 * called, so that a burst of thousands of events is one update.
 */
export class Execution {
  readonly model = new RunModel();
  private readonly listeners = new Set<() => void>();
  private readonly graphs = new Map<string, RunGraph>();
  private readonly children = new Map<string, Structure | null>();
  private readonly loadingGraphs = new Set<string>();
  private snapshot: Snapshot = {
    turns: [], record: null, structure: null, stream: "idle", error: null, loaded: false, version: 0,
  };
  private stopStream: (() => void) | null = null;
  private frame: number | ReturnType<typeof setTimeout> | null = null;
  private graphTimer: ReturnType<typeof setTimeout> | undefined;
  private closed = false;
  /** The refreshes that have begun, and the latest of them that has an answer. */
  private begun = 0;
  private answered = 0;

  constructor(private readonly api: Api, private readonly runId: string, private readonly onEnd: (run: RunRecord) => void) {}

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };
  current = () => this.snapshot;

  async start(): Promise<void> {
    this.closed = false;
    try {
      const turns = await this.chain(this.runId);
      if (this.closed) return;
      const last = turns.at(-1)!;
      this.set({ turns, record: last });
      const ended = last.status !== "queued" && last.status !== "running";
      const { type, id } = last.target;
      let error: Error | null = null;
      // What could be read is shown beside the error.
      const or = <T>(otherwise: T) => (reason: Error) => {
        if (!isHidden(reason)) error = reason;
        return otherwise;
      };
      const [structure, ...found] = await Promise.all([
        type === "workflow" && id !== null ? this.api.structure(id, last.variationId).catch(or(null)) : null,
        ...(ended ? turns : turns.slice(0, -1)).map((turn) => this.api.events(turn.runId).catch(or<RunEvent[]>([]))),
      ]);
      for (const events of found) this.model.apply(events);
      if (this.closed) return;
      this.set({ structure, error, loaded: true });
      await this.loadGraph([]);
      if (!ended && !this.closed && this.snapshot.record?.runId === last.runId) this.followRun(last);
    } catch (error) {
      if (!this.closed) this.set({ error: error as Error, loaded: true });
    }
  }

  stop() {
    this.closed = true;
    this.stopStream?.();
    this.stopStream = null;
    clearTimeout(this.graphTimer);
  }

  /** The run has a new turn, or the record changed: continue with what is new, or read what could not be read before. */
  async refresh(): Promise<void> {
    if (this.closed) return;
    const before = this.snapshot;
    if (before.error && !this.stopStream) return this.start();
    const known = before.record?.runId ?? this.runId;
    const mine = ++this.begun;
    try {
      const turns = await this.chain(known, before.turns.slice(0, -1));
      if (this.closed || mine < this.answered) return;
      this.answered = mine;
      const last = turns.at(-1)!;
      this.set({ turns, record: last, error: null });
      if (last.runId === known) return;
      this.stopStream?.();
      const from = turns.findIndex((turn) => turn.runId === known);
      for (const turn of turns.slice(from, -1)) this.model.apply(await this.api.events(turn.runId).catch(() => []));
      if (!this.closed) this.followRun(last);
    } catch {
      // the stream, or the next change, shows it
    }
  }

  /** What the server knows of this place: inputs, outputs and items, which no event has. */
  graph(path: string[]): RunGraph | null {
    const key = path.join("\u0000");
    const found = this.graphs.get(key);
    if (!found && !this.loadingGraphs.has(key) && this.snapshot.loaded) void this.loadGraph(path);
    return found ?? null;
  }

  /** The graph of a child, from the workflow that its node names; null while it is read or when it names none. */
  childStructure(path: string[]): Structure | null {
    const key = path.join("\u0000");
    const found = this.children.get(key);
    if (found !== undefined) return found;
    const above = path.length > 1 ? this.childStructure(path.slice(0, -1)) : this.snapshot.structure;
    const caller = above?.nodes.find((node) => node.id === partOf(path.at(-1)!).id);
    if (!caller) return null;
    this.children.set(key, null);
    const id = asNumber((caller.data?.params as { workflowId?: unknown } | undefined)?.workflowId);
    if (id !== null) {
      void this.api.structure(id, null).then((structure) => {
        this.children.set(key, structure);
        this.changed();
      }, () => this.children.delete(key));
    }
    return null;
  }

  private async loadGraph(path: string[]): Promise<void> {
    const key = path.join("\u0000");
    const run = this.snapshot.record;
    if (!run) return;
    this.loadingGraphs.add(key);
    try {
      const graph = { ...(await this.api.graph(run.runId, path.map((part) => partOf(part).id))), path };
      if (path.some((part) => partOf(part).item !== null)) return; // the states of one item come from its events
      if (this.closed) return;
      this.graphs.set(key, graph);
      this.model.applyGraph(graph);
      this.changed();
    } catch (error) {
      // The events are enough to show the states.
      if (mayPass(error)) this.loadingGraphs.delete(key);
    }
  }

  /** The turns from the first to the last. `known` are those before `runId` that need not be read again. */
  private async chain(runId: string, known: RunRecord[] = []): Promise<RunRecord[]> {
    const start = await this.api.run(runId);
    const found = [...known, start];
    const seen = new Set(found.map((turn) => turn.runId));
    while (found[0]!.parentRunId && !seen.has(found[0]!.parentRunId) && found.length < MOST_TURNS) {
      const parent = await this.api.run(found[0]!.parentRunId).catch(() => null);
      if (!parent) break;
      seen.add(parent.runId);
      found.unshift(parent);
    }
    for (let next = nextOf(found.at(-1)!); next && !seen.has(next) && found.length < MOST_TURNS; next = nextOf(found.at(-1)!)) {
      const turn = await this.api.run(next);
      seen.add(turn.runId);
      found.push(turn);
    }
    return found;
  }

  private followRun(run: RunRecord) {
    this.stopStream?.();
    this.stopStream = follow({
      client: this.api.client,
      path: `/agent/v1/runs/${encodeURIComponent(run.runId)}/events`,
      after: String(this.model.turns.get(run.runId)?.seq ?? ""),
      onFrames: (frames) => {
        const events = frames.map((frame) => readDocument(frame.data) as RunEvent);
        this.model.apply(events);
        this.changed();
        clearTimeout(this.graphTimer);
        const over = events.some((event) => !event.nodeId && ["done", "error", "cancelled"].includes(event.kind));
        this.graphTimer = setTimeout(() => void this.reloadGraphs(), over ? 0 : GRAPH_AFTER_MS);
        if (over) void this.ended(run.runId);
        return over;
      },
      onState: (stream, error) => {
        if (stream === "failed" && error) this.set({ error });
        this.set({ stream });
      },
    });
  }

  private async ended(runId: string) {
    await this.refresh();
    const record = this.snapshot.record;
    if (record?.runId === runId) this.onEnd(record);
  }

  private async reloadGraphs() {
    await Promise.all([...this.graphs.keys()].map((key) => this.loadGraph(key ? key.split("\u0000") : [])));
  }

  private set(change: Partial<Snapshot>) {
    this.snapshot = { ...this.snapshot, ...change, version: this.snapshot.version + 1 };
    this.listeners.forEach((listener) => listener());
  }

  private changed() {
    if (this.frame !== null) return;
    const flush = () => {
      this.frame = null;
      if (!this.closed) this.set({});
    };
    this.frame = document.hidden ? setTimeout(flush, 100) : requestAnimationFrame(flush);
  }
}

/** Who can only decide sees the record without the events. */
const isHidden = (error: Error) => error instanceof ApiError && (error.status === 403 || error.status === 404);

const nextOf = (run: RunRecord) => run.resumedBy ?? run.retriedBy ?? null;
