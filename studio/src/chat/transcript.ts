import type { ConversationMessage } from "../api/chats";
import type { ErrorBody, InboxItem, Interrupt, Json, RunEvent, Target } from "../api/types";
import { asNumber } from "../kit/json";

/** Who wrote a message: a subordinate skill by its tool id, or the place of a node; empty for the agent of the chat. */
export interface Author {
  skills: { toolId: string; name: string }[];
  place: string[];
}

export interface Step {
  key: string;
  toolId: string | null;
  name: string;
  input?: Json;
  output?: Json;
  error?: string;
  /** What the tool last reported. */
  progress?: string;
  state: "running" | "waiting" | "done" | "error";
}

export type Entry =
  | { kind: "message"; key: string; own: boolean; author: Author | null; text: string; state: "open" | "done" | "broken"; files: string[] }
  | { kind: "steps"; key: string; steps: Step[] }
  | { kind: "interrupt"; key: string; item: InboxItem; state: "open" | "closed" }
  | { kind: "output"; key: string; value: Json; open: boolean }
  | { kind: "failed"; key: string; text: string }
  | { kind: "cancelled"; key: string };

export type Message = Extract<Entry, { kind: "message" }>;
type Asked = Extract<Entry, { kind: "interrupt" }>;

const TERMINAL = new Set(["done", "error", "cancelled"]);

/** The id of the run whose execution wrote a message of a conversation. */
export const runOf = (message: ConversationMessage) => message.id.split(":")[0] ?? "";

/** The entries of the stored messages of a conversation. */
export function entriesOf(messages: ConversationMessage[]): Entry[] {
  const found: Entry[] = [];
  const steps = new Map<string, Step>();
  for (const message of messages) {
    const own = message.type === "human";
    if ((own || message.type === "ai") && (message.content || own)) {
      const files = [
        ...(message.attachments?.images ?? []).map((image) => image.mimeType),
        ...(message.attachments?.documents ?? []).map((one) => one.name ?? one.storageKey ?? ""),
      ];
      found.push({ kind: "message", key: message.id, own, author: null, text: message.content, state: "done", files });
    }
    for (const call of message.toolCalls) {
      const step: Step = { key: `${message.id} ${call.id}`, toolId: null, name: call.name, input: call.args, state: "done" };
      steps.set(call.id, step);
      stepsAt(found, step.key).push(step);
    }
    const answered = message.type === "tool" ? steps.get(message.toolCallId ?? "") : undefined;
    if (answered) answered.output = message.content;
  }
  return found;
}

/** The steps at the end of the entries, begun with this key if something else is there. */
function stepsAt(entries: Entry[], key: string): Step[] {
  const last = entries.at(-1);
  if (last?.kind === "steps") return last.steps;
  const made: Entry = { kind: "steps", key: `steps ${key}`, steps: [] };
  entries.push(made);
  return made.steps;
}

/**
 * One execution of a chat: what its events show, through all of its turns.
 *
 * The events of a turn are applied in the order of `seq`, each once, so a stream can be joined again at any point.
 */
export class Chain {
  readonly entries: Entry[] = [];
  /** The latest turn; null before its first event. */
  runId: string | null = null;
  status: "running" | "interrupted" | "done" | "error" | "cancelled" = "running";
  private readonly seqs = new Map<string, number>();
  private readonly messages = new Map<string, Message>();
  private readonly steps = new Map<string, Step>();
  /** The calls of subordinates that are under way, by the place of their agent. */
  private readonly calls = new Map<string, Map<string, { toolId: string; name: string }>>();

  constructor(readonly key: string, private readonly target: Target, own: { text: string; files: string[] } | null) {
    if (own) this.own(own.text, own.files);
  }

  /** The last `seq` that was applied of a turn. */
  seq(runId: string): number {
    return this.seqs.get(runId) ?? 0;
  }

  apply(events: RunEvent[]): void {
    for (const event of events) {
      // A refusal has no run, and is the only event without a place in the order.
      if (event.seq && event.seq <= this.seq(event.runId)) continue;
      this.seqs.set(event.runId, event.seq);
      this.one(event);
    }
  }

  get open(): InboxItem[] {
    return this.entries.flatMap((entry) => (entry.kind === "interrupt" && entry.state === "open" ? [entry.item] : []));
  }

  own(text: string, files: string[]) {
    this.entries.unshift({ kind: "message", key: `${this.key} own`, own: true, author: null, text, state: "done", files });
  }

  fail(text: string) {
    this.status = "error";
    this.entries.push({ kind: "failed", key: `${this.key} failed ${this.entries.length}`, text });
    this.closeAll();
  }

  /** A turn that waited was cancelled: it has no further event. */
  cancel() {
    this.status = "cancelled";
    this.closeAll();
    this.entries.push({ kind: "cancelled", key: `${this.key} cancelled` });
  }

  /** Where the user can authorize the connections that are missing. */
  connectAt(interrupts: Interrupt[]) {
    for (const one of interrupts) {
      const entry = this.asked(one.interruptId);
      if (entry && one.connectUrl) entry.item = { ...entry.item, connectUrl: one.connectUrl };
    }
  }

  private one(event: RunEvent) {
    const place = JSON.stringify([event.path, event.items, event.nodeId]);
    switch (event.kind) {
      case "run_started":
        this.runId = event.runId;
        this.status = "running";
        break;
      case "node_started":
        if (this.isShown(event)) this.step(place, { toolId: null, name: [...(event.path ?? []), event.nodeId].join(" › ") });
        break;
      case "node_finished":
        this.finishNode(event, place);
        break;
      case "node_failed":
        this.step(place, { toolId: null, name: [...(event.path ?? []), event.nodeId].join(" › ") }, { state: "error", error: messageOf(event) });
        this.interrupted(event);
        break;
      case "node_retrying":
        this.interrupted(event);
        break;
      case "tool_call":
        this.call(event, place);
        break;
      case "tool_progress": {
        const step = this.steps.get(event.toolCallId === undefined ? place : `${place} ${String(event.toolCallId)}`);
        if (step) step.progress = progressOf(event);
        break;
      }
      case "tool_result":
        this.result(event, place);
        break;
      case "message_delta":
        this.message(event).text += String(event.delta);
        break;
      case "message":
      case "message_replaced":
        Object.assign(this.message(event), { text: String(event.content), state: "done" });
        break;
      case "interrupt":
        this.ask(event as unknown as Interrupt);
        break;
      default:
        if (TERMINAL.has(event.kind)) this.end(event);
    }
  }

  /** Nodes are steps of a workflow; those of an agent's own frame are not worth a line. */
  private isShown(event: RunEvent): boolean {
    return this.target.type === "workflow" && !event.path?.length && event.nodeId !== "start";
  }

  private finishNode(event: RunEvent, place: string) {
    const output = event.output as { message?: unknown } | null;
    const isFirst = !event.path?.length && !this.steps.size && this.entries[0]?.kind !== "message";
    if (isFirst && typeof output?.message === "string") this.own(output.message, []);
    const step = this.steps.get(place);
    if (step) Object.assign(step, { state: "done", output: event.output as Json });
    this.forget(event);
  }

  private step(key: string, made: { toolId: string | null; name: string; input?: Json }, change: Partial<Step> = {}) {
    let step = this.steps.get(key);
    if (!step) {
      step = { key: `${this.key} ${key}`, state: "running", ...made };
      this.steps.set(key, step);
      stepsAt(this.entries, step.key).push(step);
    }
    Object.assign(step, { state: "running" }, change);
  }

  private call(event: RunEvent, place: string) {
    const name = String(event.name);
    const toolId = typeof event.toolId === "string" ? event.toolId : null;
    this.step(`${place} ${String(event.toolCallId)}`, { toolId, name, input: event.arguments as Json });
    if (!toolId?.startsWith("skill:")) return;
    const calls = this.calls.get(place) ?? new Map<string, { toolId: string; name: string }>();
    this.calls.set(place, calls.set(String(event.toolCallId), { toolId, name }));
  }

  private result(event: RunEvent, place: string) {
    const step = this.steps.get(`${place} ${String(event.toolCallId)}`);
    const failed = Boolean(event.error);
    if (step) Object.assign(step, failed ? { state: "error", error: messageOf(event) } : { state: "done", output: event.output as Json });
    const skill = this.calls.get(place)?.get(String(event.toolCallId));
    if (skill) {
      // Among several that work at once, the one whose result it is wrote the message.
      const said = [...this.messages.values()].find((one) => one.author && one.author.skills.length > 1 && one.text === event.output);
      if (said) said.author = { place: said.author!.place, skills: [skill] };
      this.calls.get(place)!.delete(String(event.toolCallId));
    }
    this.forget(event);
  }

  private message(event: RunEvent): Message {
    const key = JSON.stringify([event.path, event.items, event.messageId]);
    let found = this.messages.get(key);
    if (!found) {
      found = { kind: "message", key: `${this.key} ${key}`, own: false, author: this.author(event), text: "", state: "open", files: [] };
      this.messages.set(key, found);
      this.entries.push(found);
    }
    return found;
  }

  private author(event: RunEvent): Author | null {
    const path = event.path ?? [];
    if (!path.length) return null;
    const agent = JSON.stringify([path.length > 1 ? path.slice(0, -1) : undefined, event.items?.slice(0, -1), path.at(-1)]);
    const calls = this.calls.get(agent) ?? this.calls.get(JSON.stringify([path.length > 1 ? path.slice(0, -1) : undefined, undefined, path.at(-1)]));
    return { skills: [...(calls?.values() ?? [])], place: path };
  }

  /** What an attempt that has failed has written of a message is not its text. */
  private interrupted(event: RunEvent) {
    for (const [key, message] of this.messages) {
      const [path, items] = JSON.parse(key) as unknown[];
      if (message.state === "open" && same(path, event.path) && same(items, event.items)) message.state = "broken";
    }
  }

  private asked(interruptId: string): Asked | undefined {
    return this.entries.find((entry): entry is Asked => entry.kind === "interrupt" && entry.item.interruptId === interruptId);
  }

  private ask(interrupt: Interrupt) {
    const entry = this.asked(interrupt.interruptId);
    const item: InboxItem = { ...interrupt, target: this.target };
    const place = JSON.stringify([interrupt.path, (interrupt as unknown as RunEvent).items, interrupt.nodeId]);
    const step = this.steps.get(interrupt.toolCallId === undefined ? place : `${place} ${interrupt.toolCallId}`);
    if (step) step.state = "waiting";
    if (entry) Object.assign(entry, { item: { ...entry.item, ...item }, state: "open" });
    else this.entries.push({ kind: "interrupt", key: `${this.key} ${interrupt.interruptId}`, item, state: "open" });
  }

  /** The waits that end with what happened here. */
  private forget(event: RunEvent) {
    for (const entry of this.entries) {
      if (entry.kind !== "interrupt" || !same(entry.item.path, event.path) || entry.item.nodeId !== event.nodeId) continue;
      if (entry.item.toolCallId !== undefined && entry.item.toolCallId !== event.toolCallId) continue;
      const decision = (event.output as { decision?: unknown } | null)?.decision;
      if (typeof decision === "string") entry.item = { ...entry.item, decision };
      entry.state = "closed";
    }
  }

  private closeAll(except: string[] = []) {
    for (const entry of this.entries) {
      if (entry.kind === "interrupt" && !except.includes(entry.item.interruptId)) entry.state = "closed";
    }
  }

  private end(event: RunEvent) {
    if (event.seq === 0) return this.fail(messageOf(event));
    if (event.runId !== this.runId) return; // a decision has already begun the next turn
    if (event.kind === "done" && event.status === "interrupted") {
      const interrupts = (event.interrupts ?? []) as Interrupt[];
      this.status = "interrupted";
      this.closeAll(interrupts.map((one) => one.interruptId));
      for (const one of interrupts) this.ask({ ...one, runId: event.runId });
      return;
    }
    for (const message of this.messages.values()) if (message.state === "open") message.state = event.kind === "done" ? "done" : "broken";
    this.closeAll();
    if (event.kind === "error") return this.fail(messageOf(event));
    if (event.kind === "cancelled") return this.cancel();
    this.status = "done";
    this.conclude(event.output as Json);
  }

  private conclude(output: Json) {
    const said = [...this.messages.values()].filter((one) => one.author === null);
    if (output === null || output === undefined || said.at(-1)?.text === output) return;
    if (typeof output === "string") {
      this.entries.push({ kind: "message", key: `${this.key} output`, own: false, author: null, text: output, state: "done", files: [] });
    } else this.entries.push({ kind: "output", key: `${this.key} output`, value: output, open: !said.length });
  }
}

const progressOf = ({ message, progress, total }: RunEvent) =>
  [typeof message === "string" ? message : "", asNumber(progress) === null ? "" : `${progress}${asNumber(total) === null ? "" : ` / ${total}`}`].filter(Boolean).join(" · ");
const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);
const messageOf = (event: RunEvent) => String((event.error as ErrorBody | undefined)?.message ?? "");
