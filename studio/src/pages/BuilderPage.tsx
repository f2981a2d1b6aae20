import { type ClipboardEvent, type KeyboardEvent, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { Editing } from "../api/editing";
import type { Structure } from "../api/types";
import { Ask, type Preview } from "../builder/Ask";
import { addNote, grouped, groupKey, groupOf, groupsOf, members, movedAll, NOTE, noteKey, noteOf, notesOf, withoutMarks, withText } from "../builder/annotations";
import { addNode, connect, copied, exceeded, handlesOf, moved, NO_LIMITS, type Pasted, pasted, type Point, removable, renamed, withData, without } from "../builder/document";
import de from "../builder/de.json";
import { ConflictDialog, DeployDialog, type From, RunDialog } from "../builder/dialogs";
import { SettingsDialog, useTypedSettings } from "../builder/Settings";
import { Editor, type Found } from "../builder/editor";
import { type CanvasHandle, EditorCanvas } from "../builder/EditorCanvas";
import type { Marks } from "../builder/playing";
import { Simulate } from "../builder/Simulate";
import { TryNode } from "../builder/TryNode";
import en from "../builder/en.json";
import { keeperOf } from "../builder/keeper";
import { type Catalog, NodeEditor } from "../builder/NodeEditor";
import { NoteEditor, SeveralEditor } from "../builder/Marks";
import { type Entry, entryIn, Palette } from "../builder/Palette";
import { countOf, focusField, Problems } from "../builder/Problems";
import { type Opening, problemOf, useChanges, useHost, useLoaded, useOpened } from "../elements/context";
import { focusOfNow } from "../elements/focus";
import { NodeExpressions, useSample } from "../expressions/NodeExpressions";
import { LanguageContext, useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { isObject } from "../kit/json";
import { Empty, Failure, Loading } from "../kit/kit";
import { Notices, Toolbar } from "./BuilderToolbar";
import { usePanelInSight } from "./parts";
import RunPage from "./RunPage";

export interface BuilderProps extends Opening {
  workflowId: string;
  /** Called with the methods of the element. */
  onEditor?: (methods: BuilderMethods | null) => void;
}

export interface BuilderMethods {
  save: () => Promise<void>;
  validate: () => Promise<unknown>;
  deploy: () => Promise<void>;
  fitView: () => void;
  focusNode: (id: string) => void;
  undo: () => void;
  redo: () => void;
}

export default function BuilderPage({ workflowId, onEditor, ...opening }: BuilderProps) {
  const language = useLanguage();
  const extended = useMemo(() => language.extend({ en, de }), [language]);
  const id = Number(workflowId);
  return (
    <LanguageContext value={extended}>
      {Number.isInteger(id) && id > 0 ? <OneBuilder key={id} id={id} opening={opening} {...(onEditor ? { onEditor } : {})} /> : <Empty icon="workflows" title="workflow-id" />}
    </LanguageContext>
  );
}

function useEditor(id: number, editing: Editing): Editor {
  const { api, client, emit } = useHost();
  const editor = useMemo(
    () => new Editor(editing, id, keeperOf(client.baseUrl, id, () => api.me()), (what) => void (what === "dirty" ? emit("dirty", { workflowId: id }) : emit("saved", { workflowId: id }))), [editing, id, api, client, emit],
  );
  useEffect(() => {
    void editor.start();
    const hide = () => document.visibilityState === "hidden" && editor.flush();
    const leave = (event: BeforeUnloadEvent) => {
      editor.flush();
      if (editor.isUnsaved) event.preventDefault();
    };
    document.addEventListener("visibilitychange", hide);
    addEventListener("beforeunload", leave);
    return () => {
      document.removeEventListener("visibilitychange", hide);
      removeEventListener("beforeunload", leave);
      editor.stop();
    };
  }, [editor]);
  return editor;
}

/** Looks for changes of others; those that come while the settings are open, which belong to what was read, when they are closed. */
function useOthers(id: number, editor: Editor, isLater: boolean) {
  const isMissed = useRef(false);
  useChanges(["workflow"], (changes) => {
    if (!changes.some((change) => change.kind === "poll" || String(change.id) === String(id))) return;
    if (isLater) isMissed.current = true;
    else void editor.look();
  });
  useEffect(() => {
    if (isLater || !isMissed.current) return;
    isMissed.current = false;
    void editor.look();
  }, [editor, isLater]);
}

/** A key for each node, which stays when its id is changed: the panel keeps the focus and what is typed. */
function useKeys() {
  return useMemo(() => {
    const known = new Map<string, number>();
    let next = 0;
    const of = (id: string) => known.get(id) ?? (known.set(id, next), next++);
    const rename = (from: string, to: string) => {
      known.set(to, of(from));
      known.delete(from);
    };
    return { of, rename };
  }, []);
}

const NO_CATALOG: Catalog = { types: new Map(), tools: [], models: [], limits: NO_LIMITS };

/** What nodes can be made of. Lists that the caller may not read are empty. */
function useCatalog(editing: Editing) {
  const loaded = useLoaded<Catalog>("catalog", async () => {
    const none = () => [];
    const [{ nodeTypes, limits }, tools, models] = await Promise.all([
      editing.nodeTypes(), editing.tools().catch(none), editing.models().catch(none),
    ]);
    return { types: new Map(nodeTypes.map((type) => [type.type, type])), tools, models, limits: limits ?? NO_LIMITS };
  });
  return { catalog: loaded.value ?? NO_CATALOG, problem: loaded.problem, reload: loaded.reload };
}

const isField = (event: { nativeEvent: Event }) => {
  const target = event.nativeEvent.composedPath()[0];
  return target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
};

function OneBuilder({ id, opening, onEditor }: { id: number; opening: Opening; onEditor?: (methods: BuilderMethods | null) => void }) {
  const { t } = useLanguage();
  const host = useHost();
  const editing = useMemo(() => new Editing(host.client), [host.client]);
  const editor = useEditor(id, editing);
  const state = useSyncExternalStore(editor.subscribe, editor.current);
  const { catalog, problem, reload } = useCatalog(editing);
  const canvas = useRef<CanvasHandle>(null);
  const panel = useRef<HTMLElement>(null);
  const parts = useRef<HTMLDivElement>(null);
  const keys = useKeys();
  const [selected, setSelected] = useState<string[]>([]);
  const [open, setOpen] = useState<"palette" | "problems" | "simulate" | "ask" | null>(null);
  const [preview, setPreview] = useState<Preview | null>(null);
  const [marks, setMarks] = useState<Marks | null>(null);
  const [asking, setAsking] = useState<"deploy" | "run" | "settings" | null>(null);
  // The choice between two versions is put off: a notice leads back to it.
  const [isPutOff, setPutOff] = useState(false);
  const [unpasted, setUnpasted] = useState<Pasted["left"]>([]);
  const [from, setFrom] = useState<From | undefined>();
  const [shownRun, showRun] = useOpened(opening);
  const [lastRun, setLastRun] = useState<string | null>(null);
  const runId = shownRun ?? lastRun;
  const canEdit = editor.canEdit && !host.readonly;
  const { structure } = state;
  const { sample, last, isReading, setSample } = useSample(id, `${runId} ${shownRun}`);

  useEffect(() => {
    onEditor?.({
      save: () => editor.save(), validate: () => editor.validate().then(() => editor.current().issues), deploy: () => editor.deploy(),
      fitView: () => canvas.current?.fit(), focusNode: (node) => select(node), undo: () => editor.undo(), redo: () => editor.redo(),
    });
    return () => onEditor?.(null);
  }, [editor, onEditor]);

  // A dialog that was left while its request was under way closes no other one.
  const end = (dialog: typeof asking) => setAsking((now) => (now === dialog ? null : now));
  const asked = useRef(asking);
  asked.current = asking;
  const openSettings = useTypedSettings(id) ? () => setAsking("settings") : undefined;
  useOthers(id, editor, asking === "settings");
  const save = () => editor.ensureSaved(t("builder.unsaved"));
  const select = useCallback((node: string, isNew = false) => {
    setSelected([node]);
    setOpen((old) => (old === "simulate" || old === "ask" ? old : null));
    const canMove = focusOfNow();
    requestAnimationFrame(() => {
      if (!isNew) canvas.current?.jump(node);
      if (canMove()) canvas.current?.show(node);
    });
  }, []);
  const lead = useCallback((issue: Found) => {
    const node = issue.at.node!;
    setSelected([node]);
    setOpen(null);
    const canMove = focusOfNow();
    requestAnimationFrame(() => {
      canvas.current?.jump(node);
      if (canMove() && !focusField(panel.current, issue.at.pointer)) canvas.current?.show(node);
    });
  }, []);
  /** The structure with a place for every node: what is beside a node that is added must not move. */
  const placed = () => {
    const now = editor.current().structure;
    return now.nodes.every((node) => node.position) ? now : moved(now, canvas.current?.places() ?? new Map());
  };
  /** Changes the graph, unless the server would not store one of that size. */
  const grow = useCallback((next: Structure): boolean => {
    const over = exceeded(next.nodes.length, next.edges.length, catalog.limits);
    if (over) setUnpasted([over]);
    else editor.change(next);
    return !over;
  }, [editor, catalog.limits]);
  const choose = useCallback((ids: string[]) => setSelected((old) => (old.join("\n") === ids.join("\n") ? old : ids)), []);
  const add = (entry: Entry, position?: Point) => {
    if (entry.type === NOTE) {
      const made = addNote(placed(), "", position ?? canvas.current?.middle() ?? { x: 0, y: 0 });
      editor.change(made.structure);
      return select(noteKey(made.id), true);
    }
    const last = structure.nodes.find((node) => node.id === selected.at(-1)) ?? (structure.nodes.length === 1 ? structure.nodes[0] : undefined);
    const taken = new Set(structure.edges.filter((edge) => edge.source === last?.id).map((edge) => edge.sourceHandle ?? null));
    const free = last ? handlesOf(last, catalog.types).filter((handle) => handle !== "error") : [];
    const after = last && !position && free.length ? { id: last.id, handle: free.find((handle) => !taken.has(handle)) ?? free[0]! } : undefined;
    const at = position ?? (after ? undefined : canvas.current?.middle());
    const made = addNode(placed(), { ...entry, after, position: at });
    if (grow(made.structure)) select(made.id, true);
  };
  const drop = (text: string, at: Point) => {
    const entry = entryIn(text, [...catalog.types.values()]);
    if (entry) add(entry, at);
  };
  const remove = useCallback((chosen: string[], edges: string[] = []) => {
    const before = editor.current().structure;
    const nodes = removable(before, chosen);
    // The edges of chosen nodes go with them: those of a start that stays are kept.
    if (nodes.length || !chosen.length) editor.change(without(withoutMarks(before, nodes), nodes, chosen.length ? [] : edges));
    // The focus goes to a node that is left: on nothing, keys would be lost.
    const left = before.nodes.filter((node) => !nodes.includes(node.id)).map((node) => node.id);
    const next = before.edges.find((edge) => nodes.includes(edge.target) && left.includes(edge.source))?.source ?? left[0];
    if (nodes.length && next !== undefined) canvas.current?.show(next);
    setSelected((old) => old.filter((one) => !nodes.includes(one)));
  }, [editor]);
  const move = useCallback((places: Map<string, Point>) => editor.change(movedAll(editor.current().structure, places), `move ${[...places.keys()].join()}`), [editor]);
  const link = useCallback((source: string, handle: string | null, target: string) => void grow(connect(editor.current().structure, source, handle, target)), [editor, grow]);
  const tidy = async () => {
    const places = await canvas.current?.tidy();
    if (!places) return;
    editor.change(moved(editor.current().structure, places));
    requestAnimationFrame(() => canvas.current?.fit());
  };

  const onKey = (event: KeyboardEvent) => {
    if (isField(event) || !(event.ctrlKey || event.metaKey) || !canEdit) return;
    const key = event.key.toLowerCase();
    if (key === "z" && !event.shiftKey) editor.undo();
    else if (key === "y" || (key === "z" && event.shiftKey)) editor.redo();
    else if (key === "a") setSelected(structure.nodes.map((node) => node.id));
    else return;
    event.preventDefault();
  };
  const onCopy = (event: ClipboardEvent) => {
    if (isField(event) || host.readonly) return;
    const chosen = members(structure, selected);
    const text = copied(structure, chosen);
    if (!text) return;
    event.clipboardData.setData("text/plain", text);
    event.preventDefault();
    if (event.type === "cut" && canEdit) remove(chosen.filter((one) => structure.nodes.find((node) => node.id === one)?.type !== "start"));
  };
  const onPaste = (event: ClipboardEvent) => {
    if (isField(event) || !canEdit) return;
    const made = pasted(placed(), event.clipboardData.getData("text/plain"), catalog.types, catalog.limits);
    event.preventDefault();
    setUnpasted(made.left);
    if (!made.ids.length) return;
    editor.change(made.structure);
    setSelected(made.ids);
  };

  const problems = useMemo(() => {
    const found = new Map<string, Found[]>();
    for (const issue of state.issues) if (issue.at.node) found.set(issue.at.node, [...(found.get(issue.at.node) ?? []), issue]);
    return new Map([...found].map(([node, issues]) => [node, countOf(issues)]));
  }, [state.issues]);
  const one = selected.length === 1 ? structure.nodes.find((node) => node.id === selected[0]) : undefined;
  const note = selected.length === 1 ? notesOf(structure).find((each) => each.id === noteOf(selected[0])) : undefined;
  const group = selected.length === 1 && groupsOf(structure).has(groupOf(selected[0]) ?? "") ? groupOf(selected[0]) : null;
  const chosen = new Set(one ? [] : members(structure, selected));
  const several = structure.nodes.filter((node) => chosen.has(node.id));
  const isAside = Boolean(one ?? note) || several.length > 0;
  const isTool = open === "simulate" || open === "ask";
  // Between the button that opens it and the panel are all nodes of the graph.
  useLayoutEffect(() => {
    if (isTool) parts.current?.querySelector<HTMLElement>(":scope > .side:not([hidden])")?.focus({ preventScroll: true });
  }, [open, isTool]);
  const closeTool = () => {
    parts.current?.closest(".page")?.querySelector<HTMLElement>(".head [aria-expanded=true]")?.focus();
    setOpen(null);
  };
  usePanelInSight(parts, isAside ? selected.join("\n") : isTool ? open : null);
  const close = () => {
    const last = selected.at(-1);
    setSelected([]);
    if (last !== undefined) canvas.current?.show(last);
  };

  if (!state.workflow) {
    return state.error ? <Failure isPage problem={problemOf(state.error)} onRetry={() => void editor.start()} /> : <Loading rows={9} />;
  }
  if (problem && !catalog.types.size) return <Failure isPage problem={problem} onRetry={reload} />;
  if (!catalog.types.size) return <Loading rows={9} />;
  if (shownRun !== null) {
    return (
      <div className="page">
        <div className="crumbs"><button type="button" onClick={() => { setLastRun(shownRun); showRun(null); }}><Icon name="back" /> {t("builder.backToDraft")}</button></div>
        <RunPage runId={shownRun} />
      </div>
    );
  }
  return (
    <div className="page builder" onKeyDown={onKey} onCopy={onCopy} onCut={onCopy} onPaste={onPaste}>
      <Toolbar {...{ editor, state, canEdit }} onTidy={() => void tidy()} onPalette={() => setOpen(open === "palette" ? null : "palette")}
        onProblems={() => setOpen(open === "problems" ? null : "problems")} open={open} onAside={(what) => { setSelected([]); setOpen(open === what ? null : what); }} onDeploy={() => setAsking("deploy")} onRun={() => { setFrom(undefined); setAsking("run"); }} onSettings={() => setAsking("settings")} onLastRun={runId === null ? undefined : () => showRun(runId)} />
      <Notices editor={editor} state={state} onConflict={() => setPutOff(false)} onSettings={openSettings} unpasted={unpasted}
        onPasted={() => { setUnpasted([]); canvas.current?.show(selected.at(-1) ?? structure.nodes[0]?.id ?? ""); }} />
      {open === "problems" && <Problems issues={state.issues} structure={structure} onSelect={lead} />}
      <div ref={parts} className={`studiobuild${open === "palette" ? " adding" : ""}${isAside || isTool ? " chosen" : ""}`}>
        <div className="left"><Palette nodes={structure.nodes} onFind={select} types={[...catalog.types.values()]} hasStart={structure.nodes.some((each) => each.type === "start")} tools={catalog.tools} onAdd={canEdit ? (entry) => add(entry) : undefined} /></div>
        <EditorCanvas ref={canvas} structure={preview?.structure ?? structure} types={catalog.types} problems={problems} marks={preview?.marks ?? marks} selected={selected} canEdit={canEdit && !preview} label={t("run.graph")}
          onSelect={choose} onMove={move} onConnect={link} onDelete={remove} onDrop={drop} />
        {one && (
          <aside className="side" ref={panel} aria-label={t("node.details")}>
            <NodeExpressions node={one} structure={structure} tools={catalog.tools} sample={sample} editing={editing}>
              <NodeEditor key={`${keys.of(one.id)} ${state.revision}`} node={one} structure={structure} catalog={catalog} editing={editing} organization={state.workflow?.orgUuid ?? ""} canEdit={canEdit}
                issues={state.issues.filter((issue) => issue.at.node === one.id)}
                onData={(data, key) => editor.change(withData(editor.current().structure, one.id, data), key)}
                onRename={(to) => { keys.rename(one.id, to); editor.change(renamed(editor.current().structure, one.id, to)); setSelected([to]); }}
                onConnect={(handle, target) => link(one.id, handle, target)} onCut={(edge) => remove([], [edge])}
                onSelect={select} onDelete={() => remove([one.id])}
                trial={canEdit && one.type !== "start" && host.wants("run") ? (
                  <TryNode workflowId={id} node={one.id} structure={structure} editing={editing} save={save} sample={sample} last={last} isReading={isReading} onSample={setSample}
                    onRunFrom={last?.run ? () => { setFrom({ node: one.id, runId: last.run!.id, input: last.input }); setAsking("run"); } : undefined} />
                ) : null}
                onClose={close} />
            </NodeExpressions>
          </aside>
        )}
        {open === "ask" && (
          <aside className="side" aria-label={t("ask.title")} tabIndex={-1} hidden={isAside}>
            <Ask workflowId={id} structure={structure} models={catalog.models} editing={editing} save={save} onPreview={setPreview} onClose={closeTool}
              onApply={(next) => { editor.change(next); closeTool(); requestAnimationFrame(() => canvas.current?.fit()); }} />
          </aside>
        )}
        {open === "simulate" && (
          <aside className="side" aria-label={t("simulate.title")} tabIndex={-1} hidden={isAside}>
            <Simulate structure={structure} editing={editing} input={isObject(last?.input) ? last.input : null} onMarks={setMarks} onSelect={select} onClose={closeTool}
              policies={async () => { await save(); return canEdit ? (await editing.impact(id)).value.policies : []; }} />
          </aside>
        )}
        {note && (
          <aside className="side" aria-label={t("node.details")}>
            <NoteEditor note={note} canEdit={canEdit} onText={(text) => editor.change(withText(editor.current().structure, note.id, text), `note ${note.id}`)}
              onDelete={() => remove([noteKey(note.id)])} onClose={close} />
          </aside>
        )}
        {several.length > 0 && (
          <aside className="side" aria-label={t("node.details")}>
            <SeveralEditor structure={structure} nodes={several} group={group} canEdit={canEdit} onSelect={select} onClose={close}
              onGroup={(name) => { editor.change(grouped(placed(), chosen, name)); setSelected(name ? [groupKey(name)] : [...chosen]); }} onDelete={() => remove([...chosen])} />
          </aside>
        )}
      </div>
      {state.conflict && !isPutOff && (
        <ConflictDialog conflict={state.conflict} mine={structure} onClose={() => setPutOff(true)} onResolve={(mine) => { setPutOff(false); editor.resolve(mine); }} />
      )}
      {asking === "settings" && <SettingsDialog editor={editor} state={state} editing={editing} onClose={() => end("settings")} />}
      {asking === "deploy" && <DeployDialog editor={editor} state={state} editing={editing} onSettings={openSettings} onProblem={(issue) => { setAsking(null); lead(issue); }} onClose={() => end("deploy")} />}
      {asking === "run" && <RunDialog editor={editor} state={state} editing={editing} from={from} onClose={() => end("run")}
        onStarted={(run) => { setLastRun(run); end("run"); if (asked.current === "run") showRun(run); }} />}
    </div>
  );
}
