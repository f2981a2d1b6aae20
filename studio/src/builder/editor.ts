import { ApiError, mayPass } from "../api/client";
import type { Editing } from "../api/editing";
import type { Issue, JsonObject, Structure, Workflow } from "../api/types";
import { blank, type IssuePlace, placeOf } from "./document";
import { History } from "./history";
import { readDocument } from "../kit/json";

export type Saving = "saved" | "dirty" | "saving" | "failed" | "refused" | "conflict";

export interface Found extends Issue {
  at: IssuePlace;
}

export interface Conflict {
  workflow: Workflow;
  etag: string | null;
  structure: Structure;
}

export interface EditorState {
  workflow: Workflow | null;
  structure: Structure;
  issues: Found[];
  saving: Saving;
  error: unknown;
  conflict: Conflict | null;
  /** Somebody else has saved another graph, which is not shown yet. */
  outdated: boolean;
  /** Unsaved changes of an earlier page were found and are in the structure. */
  restored: boolean;
  canUndo: boolean;
  canRedo: boolean;
  /** Changes when inputs have to read their values again: after undo, redo and a version of somebody else. */
  revision: number;
}

/** Where changes are kept until the server has them: a text, or null for none. */
export interface Keeper {
  /** Finds out whose changes these are; before, none are kept. */
  open: () => Promise<void>;
  get: () => string | null;
  set: (text: string | null) => void;
}

const SAVE_MS = 600;
const RETRY_MS = 3_000;
const KEEPALIVE_BYTES = 60_000;

/**
 * One workflow that is edited: its draft is saved a moment after each change, under the `ETag` that was read.
 *
 * A change is kept in the browser until the server has it. Nothing is written before the first change.
 */
export class Editor {
  private state: EditorState = {
    workflow: null, structure: blank(), issues: [], saving: "saved", error: null, conflict: null, outdated: false, restored: false,
    canUndo: false, canRedo: false, revision: 0,
  };
  private history = new History(this.state.structure);
  private etag: string | null = null;
  private saved: Structure = this.state.structure;
  /** Graphs whose save had no answer since the last one that had: the server can have any of them. */
  private readonly unanswered = new Set<Structure>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private turn: Promise<void> | null = null;
  private stopped = false;
  private readonly listeners = new Set<() => void>();

  constructor(
    private readonly calls: Editing,
    private readonly id: number,
    private readonly keeper: Keeper,
    private readonly onChange: (what: "dirty" | "saved") => void = () => undefined,
  ) {}

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };

  current = () => this.state;

  /** Whether changes wait that the server did not take, and that need the user. */
  get isUnsaved(): boolean {
    return ["failed", "refused", "conflict"].includes(this.state.saving);
  }

  get canEdit(): boolean {
    return this.state.workflow?.canManage === true && this.state.workflow.status !== "deleted";
  }

  private set(change: Partial<EditorState>) {
    this.state = {
      ...this.state, ...change, structure: this.history.current, canUndo: this.history.canUndo, canRedo: this.history.canRedo,
    };
    for (const listener of this.listeners) listener();
  }

  async start(): Promise<void> {
    this.stopped = false;
    try {
      const [{ workflow, etag }] = await Promise.all([this.calls.read(this.id), this.keeper.open()]);
      this.begin(workflow, etag);
      await this.validate();
    } catch (error) {
      this.set({ error });
    }
  }

  private begin(workflow: Workflow, etag: string | null) {
    const structure = structureOf(workflow);
    this.etag = etag;
    this.saved = structure;
    this.history = new History(structure);
    // Who may not edit neither gets nor clears what is kept.
    const kept = etag === null ? null : this.kept();
    if (kept && canonical(kept.structure) !== canonical(structure)) {
      this.history.change(kept.structure);
      const shown = { workflow, error: null, revision: this.state.revision + 1 };
      if (workflow.status === "deleted") return this.set({ ...shown, saving: "refused" });
      if (kept.etag === etag) return this.set({ ...shown, restored: true, saving: "dirty" });
      return this.set({ ...shown, saving: "conflict", conflict: conflictOf(workflow, etag) });
    }
    this.keeper.set(null);
    this.set({ workflow, error: null, saving: "saved", conflict: null, outdated: false, restored: false, revision: this.state.revision + 1 });
  }

  private kept(): { etag: string | null; structure: Structure } | null {
    try {
      const found = readDocument(this.keeper.get() ?? "null") as { etag: string | null; structure: Structure } | null;
      return found && Array.isArray(found.structure?.nodes) && Array.isArray(found.structure.edges) ? found : null;
    } catch {
      return null;
    }
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    this.flush();
  }

  /** Make another structure the draft. Changes with the same `key` in quick succession are undone together. */
  change(structure: Structure, key?: string) {
    if (!this.canEdit || !this.history.change(structure, key)) return;
    this.edited();
  }

  undo() {
    if (this.canEdit && this.history.undo()) this.edited(true);
  }

  redo() {
    if (this.canEdit && this.history.redo()) this.edited(true);
  }

  private edited(read = false) {
    const revision = this.state.revision + (read ? 1 : 0);
    if (this.state.saving !== "conflict") {
      if (this.state.saving !== "dirty") this.onChange("dirty");
      this.set({ saving: "dirty", revision, issues: this.issuesOf(this.state.issues) });
      this.later(SAVE_MS);
    } else this.set({ revision });
    this.keep();
  }

  /** The issues at the places where their nodes are now. */
  private issuesOf(issues: Found[]): Found[] {
    const nodes = new Set(this.history.current.nodes.map((node) => node.id));
    return issues.filter((issue) => issue.at.node === undefined || nodes.has(issue.at.node));
  }

  private keep() {
    this.keeper.set(JSON.stringify({ etag: this.etag, structure: this.history.current }));
  }

  private later(ms: number) {
    clearTimeout(this.timer);
    if (!this.stopped) this.timer = setTimeout(() => void this.save(), ms);
  }

  /** Save the draft now if it has changed. Saves one after the other; resolves when the last change is saved or refused. */
  async save(): Promise<void> {
    clearTimeout(this.timer);
    while (this.turn) await this.turn;
    if (!this.canEdit || this.state.saving === "conflict") return;
    if (this.history.current === this.saved) return this.settle();
    this.turn = this.write();
    await this.turn;
    if (this.state.saving === "dirty") this.later(SAVE_MS);
  }

  /** There is nothing to save: the structure is again what the server has. */
  private settle() {
    if (this.state.saving === "saved") return;
    this.keeper.set(null);
    this.set({ saving: "saved", error: null, restored: false });
    this.onChange("saved");
  }

  /** Drop what is not saved; it can be undone. */
  discard() {
    if (this.canEdit && this.history.change(this.saved)) this.edited(true);
    this.settle();
  }

  /** Save the draft. Raises an Error with this message if the server does not have the last change then. */
  async ensureSaved(otherwise = "the draft is not saved"): Promise<void> {
    do await this.save();
    while (this.canEdit && this.state.saving === "dirty");
    if (this.isUnsaved) throw new Error(otherwise);
  }

  private async write(keepalive = false): Promise<void> {
    const structure = this.history.current;
    this.set({ saving: "saving" });
    try {
      const { workflow, etag } = await this.calls.save(this.id, structure, this.etag, keepalive);
      this.etag = etag;
      this.saved = structure;
      this.unanswered.clear();
      const behind = this.history.current !== structure;
      if (behind) this.keep();
      else this.keeper.set(null);
      this.set({ workflow: { ...this.state.workflow, ...workflow }, saving: behind ? "dirty" : "saved", error: null, restored: false });
      this.onChange("saved");
      if (!behind && !this.stopped) await this.validate();
    } catch (error) {
      await this.failed(error, structure);
    } finally {
      this.turn = null;
    }
  }

  /** The server has this graph of this page, under another tag: what was changed since is written. */
  private async again(own: Structure, workflow: Workflow, etag: string | null): Promise<void> {
    this.etag = etag;
    this.saved = own;
    this.unanswered.clear();
    this.set({ workflow: { ...this.state.workflow, ...workflow } });
    if (this.history.current !== own) return this.write();
    this.settle();
    await this.validate();
  }

  private async failed(error: unknown, structure: Structure): Promise<void> {
    if (mayPass(error)) this.unanswered.add(structure);
    if (error instanceof ApiError && error.status === 409 && error.info.reason === "stale") {
      const { workflow, etag } = await this.calls.read(this.id).catch(() => ({ workflow: null, etag: null }));
      if (workflow?.status === "deleted") return this.set({ workflow, saving: "refused", error });
      const theirs = workflow && canonical(structureOf(workflow));
      // Other fields have changed, as by a save of the settings; or the server had one of these, and its response was lost.
      const own = [this.saved, ...this.unanswered].find((one) => canonical(one) === theirs);
      if (workflow && own) return this.again(own, workflow, etag);
      if (workflow) return this.set({ saving: "conflict", error: null, outdated: false, conflict: conflictOf(workflow, etag) });
    }
    if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429) {
      const issues = Array.isArray(error.info.errors) ? (error.info.errors as unknown as Issue[]) : [];
      return this.set({ saving: "refused", error, issues: this.found(issues) });
    }
    this.set({ saving: "failed", error });
    this.keep(); // another page can have restored and settled it
    this.later(RETRY_MS);
  }

  private found(issues: Issue[]): Found[] {
    return issues.map((issue) => {
      const at = placeOf(issue, this.history.current);
      // The page shows it at the node, or at a connection of the node.
      return { ...issue, at, message: at.node === undefined && at.edge === undefined ? issue.message : issue.message.replace(/^node `.*?`: /, "") };
    });
  }

  async validate(): Promise<void> {
    if (!this.canEdit) return;
    const structure = this.history.current;
    try {
      const issues = await this.calls.issues(this.id);
      if (structure === this.history.current) this.set({ issues: this.found(issues) });
    } catch {
      // the issues of before stay; the next change asks again
    }
  }

  /** End a conflict: the own version replaces the other one, or the other one is taken. */
  resolve(mine: boolean) {
    const { conflict } = this.state;
    if (!conflict) return;
    this.etag = conflict.etag;
    const workflow = conflict.workflow;
    this.unanswered.clear();
    if (mine) {
      this.saved = conflict.structure;
      this.set({ workflow, conflict: null, saving: "dirty" });
      this.keep();
      void this.save();
      return;
    }
    this.saved = conflict.structure;
    this.history.change(conflict.structure);
    this.keeper.set(null);
    this.set({ workflow, conflict: null, saving: "saved", restored: false, revision: this.state.revision + 1 });
    void this.validate();
  }

  /** The page is closed or hidden: send what is not saved, in a request that outlives the page. */
  flush() {
    if (this.turn) return void this.turn.then(() => this.flush());
    const structure = this.history.current;
    if (!this.canEdit || structure === this.saved || this.state.saving === "conflict" || this.state.saving === "refused") return;
    clearTimeout(this.timer);
    this.turn = this.write(JSON.stringify(structure).length <= KEEPALIVE_BYTES);
  }

  /** Deploy the draft as it is here; with the ETag of an impact, only if that still holds. Raises ApiError, or Error if it cannot be saved. */
  async deploy(impact: string | null = null): Promise<void> {
    await this.ensureSaved();
    await this.calls.deploy(this.id, impact ?? this.etag);
    await this.reread();
  }

  /** Deploy a version of before again. The draft stays. Raises ApiError. */
  async rollBack(variationId: string): Promise<void> {
    await this.calls.rollBack(this.id, variationId);
    await this.reread();
  }

  /** Switch the schedule on or off. Raises ApiError. */
  async toggle(): Promise<void> {
    await this.calls.toggle(this.id);
    await this.reread();
  }

  /** Change fields beside the graph, not while it is written. Raises ApiError. */
  async update(body: JsonObject): Promise<void> {
    while (this.turn) await this.turn;
    const updating = this.calls.update(this.id, body, this.etag).then(({ workflow, etag }) => {
      this.etag = etag;
      this.set({ workflow: { ...this.state.workflow, ...workflow }, error: null });
    });
    this.turn = updating.catch(() => undefined).finally(() => void (this.turn = null));
    await updating;
    await this.validate();
  }

  /** Read what the server has now, not while it is written. Raises ApiError. */
  async reread(): Promise<void> {
    while (this.turn) await this.turn;
    const reading = this.calls.read(this.id).then(({ workflow, etag }) => this.takeOver(workflow, etag));
    this.turn = reading.catch(() => undefined).finally(() => void (this.turn = null));
    await reading;
    await this.validate();
  }

  /** Find out whether somebody else has changed the workflow. Another graph is not shown before the user asks for it. */
  async look(): Promise<void> {
    while (this.turn) await this.turn;
    const etag = this.etag;
    if (!this.canEdit || etag === null || this.state.saving === "conflict") return;
    const found = await this.calls.newer(this.id, etag).catch(() => null);
    if (!found || this.turn || this.etag !== etag) return; // a save of this page says more
    const { workflow } = found;
    const isUnsaved = this.history.current !== this.saved;
    if (workflow.status === "deleted") {
      clearTimeout(this.timer);
      return this.set({ workflow, outdated: false, ...(isUnsaved ? { saving: "refused" } : {}) });
    }
    if (canonical(structureOf(workflow)) === canonical(this.saved)) this.takeOver(workflow, found.etag);
    else this.set({ outdated: true });
  }

  /** A graph that somebody else saved is shown, or offered beside changes of this page: with its ETag alone, the next save would replace it. */
  private takeOver(workflow: Workflow, etag: string | null) {
    const structure = structureOf(workflow);
    const isSame = canonical(structure) === canonical(this.saved);
    if (!isSame && this.history.current !== this.saved) {
      return this.set({ saving: "conflict", outdated: false, conflict: conflictOf(workflow, etag) });
    }
    this.etag = etag;
    this.unanswered.clear();
    if (!isSame) {
      this.saved = structure;
      this.history.change(structure);
    }
    this.set({ workflow: { ...this.state.workflow, ...workflow }, outdated: false, revision: this.state.revision + (isSame ? 0 : 1) });
  }
}

/** The same text for equal values, whatever the order of their keys. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, one: unknown) =>
    one && typeof one === "object" && !Array.isArray(one) ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1))) : one);

const structureOf = (workflow: Workflow): Structure => workflow.variation?.workflowStructure ?? blank();

const conflictOf = (workflow: Workflow, etag: string | null): Conflict => ({ workflow, etag, structure: structureOf(workflow) });
