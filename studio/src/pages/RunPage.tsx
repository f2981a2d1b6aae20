import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import type { GraphNode, JsonObject, RunGraph, RunRecord } from "../api/types";
import { type CanvasEdge, type CanvasNode, GraphView, type States } from "../canvas/GraphView";
import { type Place, problemOf, useChanges, useHost, useNow } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { outcomeName } from "../i18n/names";
import type { Language } from "../i18n/texts";
import { Icon } from "../kit/icons";
import { asNumber } from "../kit/json";
import { CopyButton, Dialog, Empty, Failure, Loading, Status, Tabs } from "../kit/kit";
import { JsonBlock } from "../kit/JsonView";
import { Named, Refusal } from "../kit/named";
import { brief, visible } from "../kit/safe";
import { Execution, type Snapshot } from "../run/execution";
import { keyOf, placeName, type ShownStructure } from "../run/model";
import { NodePanel } from "./NodePanel";
import { durationOf, isOpen, PlaceLink, useActorName, usePanelInSight, useTargetName } from "./parts";
import { EventList, Timeline } from "./RunLists";
import { RetryDialog, Story } from "./turns";

export interface RunProps {
  runId: string;
}

export default function RunPage({ runId }: RunProps) {
  return runId ? <OneRun key={runId} runId={runId} /> : <Empty icon="runs" title="run-id" />;
}

function useExecution(runId: string): Execution {
  const { api, emit } = useHost();
  const execution = useMemo(
    () => new Execution(api, runId, (run) => void emit("run-end", { runId: run.runId, status: run.status })), [api, emit, runId],
  );
  useEffect(() => {
    void execution.start();
    return () => execution.stop();
  }, [execution]);
  return execution;
}

function OneRun({ runId }: RunProps) {
  const { t } = useLanguage();
  const host = useHost();
  const execution = useExecution(runId);
  const snapshot = useSyncExternalStore(execution.subscribe, execution.current);
  const [view, setView] = useState("graph");
  const [path, setPath] = useState<string[]>([]);
  const [selected, setSelected] = useState<string | null>(null);
  const shownView = useRef<HTMLDivElement>(null);
  const parts = useRef<HTMLDivElement>(null);
  usePanelInSight(parts, selected);
  // What opened the details gets the focus when they are closed.
  const opener = useRef<HTMLElement | null>(null);
  const turnIds = new Set(snapshot.turns.map((turn) => turn.runId));
  useChanges(["run", "interrupt"], (changes) => {
    const mine = new Set([...turnIds, ...(snapshot.record?.interrupts ?? []).map((one) => one.interruptId)]);
    if (changes.some((change) => change.kind === "poll" || mine.has(String(change.id)))) void execution.refresh();
  });
  const run = snapshot.record;
  if (!run) return snapshot.error ? <Failure isPage problem={problemOf(snapshot.error)} onRetry={() => void execution.start()} /> : <Loading rows={9} />;

  const model = execution.model;
  const structure = structureAt(execution, snapshot, path);
  const select = (at: string[], id: string | null) => {
    const focused = (shownView.current?.getRootNode() as ShadowRoot | undefined)?.activeElement;
    if (selected === null && focused instanceof HTMLElement) opener.current = focused;
    setPath(at);
    setSelected(id);
  };
  const close = () => {
    setSelected(null);
    (opener.current?.isConnected ? opener.current : shownView.current)?.focus();
    opener.current = null;
  };
  const failed = [...model.nodes.values()].filter((node) => node.status === "error");
  const inputs = { execution, snapshot, path, structure, selected };
  return (
    <div className="page">
      <Header run={run} snapshot={snapshot} execution={execution} />
      <div className="notices">
        {snapshot.error && (
          <div className="notice bad" role="alert">
            <Icon name="error" /><span className="grow text"><Named text={visible(snapshot.error.message)} /></span>
            <button type="button" className="button small" onClick={() => void execution.start()}>{t("common.retry")}</button>
          </div>
        )}
        {run.status === "error" && run.error && (
          <div className="notice bad">
            <Icon name="error" />
            <div className="grow">
              <strong className="text"><Named text={visible(run.error.message)} /></strong>
              {failed.length > 0 && (
                <div className="row wrap" style={{ marginTop: 4 }}>
                  <span className="muted">{t("run.failedAt")}</span>
                  {failed.slice(0, 5).map((node) => (
                    <button key={node.key} type="button" className="button small" onClick={() => select(node.path, node.id)}>
                      {brief(placeName(node.path, node.id), 60)}
                    </button>
                  ))}
                </div>
              )}
            </div>
          </div>
        )}
        {run.interrupts.map((one) => (
          <div className="notice wait" key={one.interruptId}>
            <Icon name="waiting" />
            <div className="grow"><strong className="text"><Named text={brief(one.message || one.toolId || t("run.waits"), 300)} /></strong></div>
            {host.wants("decide") && <PlaceLink to={{ page: "approval", id: one.interruptId }} className="button small">{t("run.open")}</PlaceLink>}
          </div>
        ))}
        {run.status === "interrupted" && !run.interrupts.length && !run.resumedBy && (
          <div className="notice wait"><Icon name="pause" /><span>{t("run.parked")}</span></div>
        )}
      </div>
      <Tabs label={t("run.views")} value={view} onChange={setView} panel="run-view" items={[
        ...(structure || !snapshot.loaded ? [{ id: "graph", text: t("run.graph") }] : []), { id: "timeline", text: t("run.timeline") },
        { id: "events", text: t("run.events") }, { id: "output", text: t("run.output") },
      ]} />
      {path.length > 0 && <Crumbs path={path} onPath={(at) => select(at, null)} />}
      <div ref={parts} className={`split${selected === null ? " alone" : ""}`}>
        <div className="main">
          <div className="panelbody" id="run-view" role="tabpanel" aria-label={t(`run.${view}`)} tabIndex={-1} ref={shownView}>
            {!snapshot.loaded ? <Loading rows={8} />
              : view === "graph" && structure ? <Overlay {...inputs} onSelect={(id) => select(path, id)} />
              : view === "output" ? <Output run={run} />
              : view === "events" ? <EventList model={model} version={snapshot.version} onSelect={select} />
              : <Timeline model={model} version={snapshot.version} live={isOpen(run)} selected={selected === null ? null : keyOf(path, selected)} onSelect={select} />}
          </div>
        </div>
        <aside className="side" aria-label={t("node.details")} tabIndex={0} hidden={selected === null}>
          {selected !== null && <NodePanel key={keyOf(path, selected)} {...inputs} id={selected} onSelect={select} onClose={close} />}
        </aside>
      </div>
    </div>
  );
}

/** The graph at a place: that of the server if it has the ends of edges, else the pinned structure, else the events. */
function structureAt(execution: Execution, snapshot: Snapshot, path: string[]): ShownStructure | null {
  const graph = execution.graph(path);
  const pinned = path.length ? execution.childStructure(path) : snapshot.structure;
  const drawable = graph?.edges.some((edge) => edge.source && edge.target);
  if (!drawable && pinned?.nodes.length) return pinned;
  if (graph) return { nodes: merged(graph.nodes, pinned?.nodes), edges: graph.edges.filter((edge) => edge.source && edge.target) as ShownStructure["edges"] };
  if (!snapshot.loaded) return null;
  const here = [...execution.model.nodes.values()].filter((node) => keyOf(node.path, "") === keyOf(path, ""));
  if (!here.length) return null;
  return { nodes: here.map((node) => ({ id: node.id, type: "action" })), edges: [] };
}

/** The nodes of the graph, with the data and positions that only the structure has. */
function merged(nodes: GraphNode[], known: GraphNode[] | undefined): GraphNode[] {
  const byId = new Map(known?.map((node) => [node.id, node]));
  return nodes.map((node) => ({ ...byId.get(node.id), ...node }));
}

function Header({ run, snapshot, execution }: { run: RunRecord; snapshot: Snapshot; execution: Execution }) {
  const { t, duration, dateTime, number } = useLanguage();
  const host = useHost();
  const actor = useActorName();
  const name = useTargetName(run.target);
  const place = placeOf(run);
  const first = snapshot.turns[0] ?? run;
  const under = run.status === "running" || run.status === "queued";
  const now = useNow(under || isOpen(run) ? 1_000 : 60_000);
  const [asking, setAsking] = useState(false);
  const [retrying, setRetrying] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const act = async (action: () => Promise<unknown>) => {
    setProblem(null);
    try {
      await action();
      await execution.refresh();
    } catch (error) {
      setProblem(problemOf(error).message);
    }
  };
  const total = usageOf(snapshot.turns);
  const took = durationOf({ ...run, createdAt: first.createdAt }, now);
  const may = (feature: string) => !host.readonly && host.wants(feature);
  const parked = run.status === "interrupted" && !run.interrupts.length && !run.resumedBy;
  const canRetry = (run.status === "error" || run.status === "cancelled") && !run.retriedBy && !run.resumedBy;
  return (
    <>
      <div className="head">
        <div style={{ minWidth: 0, marginInlineEnd: "auto" }} className="row wrap">
          <h1 className="clip">{place && host.href(place) ? <PlaceLink to={place}>{name}</PlaceLink> : name}</h1>
          <span role="status"><Status value={run.status} /></span>
          {under && <span className={`live live-${snapshot.stream}`} role="status" aria-label={t("run.live")}>
            {t(snapshot.stream === "waiting" ? "live.waiting" : snapshot.stream === "live" ? "live.live" : "live.connecting")}
          </span>}
        </div>
        <Refusal text={problem} />
        {parked && may("resume") && <button type="button" className="button primary" onClick={() => void act(() => host.api.resume(run.runId, {}))}><Icon name="start" />{t("run.resume")}</button>}
        {under && may("park") && <button type="button" className="button" onClick={() => void act(() => host.api.park(run.runId))}><Icon name="pause" />{t("run.park")}</button>}
        {canRetry && may("retry") && <button type="button" className="button" onClick={() => setRetrying(true)}><Icon name="retry" />{t("run.retry")}</button>}
        {(under || run.status === "interrupted") && !run.resumedBy && may("cancel") && (
          <button type="button" className="button danger" onClick={() => setAsking(true)}>{t("run.cancel")}</button>
        )}
      </div>
      <div className="summary">
        <span className="row" style={{ gap: 2 }}><span className="mono clip" style={{ maxWidth: 320 }}>{run.runId}</span><CopyButton text={() => run.runId} label={t("run.copyId")} /></span>
        {actor(first.executionStartedBy ?? first.startedBy) && <span>{t("run.startedBy")} <b>{actor(first.executionStartedBy ?? first.startedBy)}</b></span>}
        <span>{t("run.started")} <b className="num">{dateTime(first.createdAt)}</b></span>
        {took !== null && <span>{t("run.duration")} <b className="num">{duration(took)}</b></span>}
        {run.variationId && <span>{t("run.version")} <b className="mono" title={run.variationId}>{run.variationId.slice(0, 13)}</b></span>}
        {total.tokens > 0 && <span>{t("run.tokens")} <b className="num">{number(total.tokens)}</b></span>}
        {total.cost > 0 && <span>{t("run.cost")} <b className="num">{number(total.cost, { maximumFractionDigits: 4 })}</b></span>}
        <Story turns={snapshot.turns} />
      </div>
      {retrying && <RetryDialog run={run} onClose={() => setRetrying(false)} onRetried={() => execution.refresh()} />}
      {asking && (
        <Dialog title={t("run.cancelAsk")} onClose={() => setAsking(false)} actions={
          <>
            <button type="button" className="button" autoFocus onClick={() => setAsking(false)}>{t("run.keep")}</button>
            <button type="button" className="button danger solid" onClick={() => { setAsking(false); void act(() => host.api.cancel(run.runId)); }}>{t("run.cancel")}</button>
          </>
        }>
          <p className="muted">{t("run.cancelHint")}</p>
        </Dialog>
      )}
    </>
  );
}

/** The page of the workflow or the skill that the run executes. */
function placeOf({ target }: RunRecord): Place | null {
  return target?.type === "workflow" || target?.type === "skill" ? { page: target.type, id: String(target.id) } : null;
}

export function usageOf(turns: { usage: JsonObject | null }[]): { tokens: number; cost: number } {
  const sum = (name: string) => turns.reduce((all, turn) => all + (asNumber(turn.usage?.[name]) ?? 0), 0);
  return { tokens: sum("totalTokens") || sum("inputTokens") + sum("outputTokens"), cost: sum("cost") };
}

function Crumbs({ path, onPath }: { path: string[]; onPath: (path: string[]) => void }) {
  const { t } = useLanguage();
  return (
    <nav className="crumbs" aria-label={t("run.path")}>
      <button type="button" onClick={() => onPath([])}>{t("run.root")}</button>
      {path.map((one, index) => (
        <span key={index} className="row" style={{ gap: 4 }}>
          <Icon name="chevron" />
          {index === path.length - 1 ? <b>{brief(placeName([one]), 60)}</b>
            : <button type="button" onClick={() => onPath(path.slice(0, index + 1))}>{brief(placeName([one]), 60)}</button>}
        </span>
      ))}
    </nav>
  );
}

function Output({ run }: { run: RunRecord }) {
  const { t } = useLanguage();
  return (
    <div className="scroll pad stack">
      {run.error && <JsonBlock value={run.error} label={t("run.error")} />}
      {run.output === null && !run.error ? <Empty icon="pending" title={t("node.noOutput")} /> : run.output !== null && <JsonBlock value={run.output} label={t("run.output")} open={3} />}
    </div>
  );
}

interface OverlayProps {
  execution: Execution;
  path: string[];
  structure: ShownStructure | null;
  selected: string | null;
  onSelect: (id: string | null) => void;
}

export function canvasOf(structure: ShownStructure, words: Pick<Language, "t" | "has">): { nodes: CanvasNode[]; edges: CanvasEdge[] } {
  const nodes = structure.nodes.map((node) => {
    const data = node.data ?? {};
    const title = [data.label, data.name, data.title].find((one) => typeof one === "string" && one);
    const subtitle = [data.toolId, title ? node.id : undefined].find((one) => typeof one === "string");
    return { id: node.id, type: node.type, title: String(title ?? node.id), subtitle: String(subtitle ?? ""), position: node.position ?? null };
  });
  const types = new Map(structure.nodes.map((node) => [node.id, node.type]));
  const edges = structure.edges.map((edge) => ({
    id: edge.id, source: edge.source, target: edge.target, ...(edge.sourceHandle ? { label: outcomeName(words, edge.sourceHandle, types.get(edge.source)) } : {}),
  }));
  return { nodes, edges };
}

function Overlay({ execution, path, structure, selected, onSelect }: OverlayProps) {
  const language = useLanguage();
  const { t } = language;
  const shape = JSON.stringify(structure && [structure.nodes.map((node) => [node.id, node.type]), structure.edges.map((edge) => edge.id)]);
  const canvas = useMemo(() => canvasOf(structure!, language), [shape, language]);
  const states = useMemo(() => statesOf(execution, path, structure!), [execution, path, shape]);
  return <GraphView nodes={canvas.nodes} edges={canvas.edges} states={states} selected={selected} onSelect={onSelect} label={t("run.graph")} />;
}

const takenByGraph = new WeakMap<RunGraph, Map<string, boolean | null>>();

/** The edges that the server has decided, by id. */
function takenOf(graph: RunGraph | null): Map<string, boolean | null> | null {
  if (!graph) return null;
  const found = takenByGraph.get(graph) ?? new Map(graph.edges.map((edge) => [edge.id, edge.taken]));
  takenByGraph.set(graph, found);
  return found;
}

const PENDING = { status: "pending", note: "" };

function statesOf(execution: Execution, path: string[], structure: ShownStructure): States {
  const cache = new Map<string, { status: string; note: string }>();
  const ends = new Map(structure.edges.map((edge) => [edge.id, edge]));
  return {
    subscribe: execution.subscribe,
    version: () => execution.current().version,
    of: (id) => {
      const node = execution.model.nodes.get(keyOf(path, id));
      if (!node) return PENDING;
      const attempts = node.visits.at(-1)?.attempts ?? 1;
      const note = node.visits.length > 1 ? `×${node.visits.length}` : attempts > 1 ? `↻${attempts}` : "";
      const old = cache.get(id);
      if (old && old.status === node.status && old.note === note) return old;
      const fresh = { status: node.status, note };
      cache.set(id, fresh);
      return fresh;
    },
    taken: (id) => {
      const known = takenOf(execution.graph(path))?.get(id);
      if (known !== null && known !== undefined) return known;
      const edge = ends.get(id);
      const from = edge && execution.model.nodes.get(keyOf(path, edge.source));
      const to = edge && execution.model.nodes.get(keyOf(path, edge.target));
      if (to?.status === "skipped" || from?.status === "skipped") return false;
      return from?.status === "done" && to !== undefined && to.status !== "pending" && !edge!.sourceHandle ? true : null;
    },
  };
}
