import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { ApiError } from "../api/client";
import type { Editing } from "../api/editing";
import type { GraphDiff, Impact, Json, JsonObject, Structure, Variation } from "../api/types";
import { problemOf, useHost, useLoaded } from "../elements/context";
import { focusUnreadable, Form, useInvalidFocus } from "../forms/Form";
import { check, type FieldError, fieldOf, initial, withValue } from "../forms/schema";
import { useLanguage } from "../i18n/context";
import { outcomeName } from "../i18n/names";
import { Icon } from "../kit/icons";
import { isObject } from "../kit/json";
import { Dialog, Loading, type Problem } from "../kit/kit";
import { Named, Refusal } from "../kit/named";
import { brief } from "../kit/safe";
import { differences, requiredInputs, titleOf } from "./document";
import type { Conflict, Editor, EditorState, Found } from "./editor";
import { countOf, Problems } from "./Problems";

const MOST = 12;

function Changes({ title, tone, names }: { title: string; tone: string; names: string[] }) {
  const { t } = useLanguage();
  if (!names.length) return null;
  return (
    <div>
      <h3>{title}</h3>
      <ul className="changes">
        {names.slice(0, MOST).map((name) => <li key={name} className={`text ${tone}`}><Named text={brief(name, 120)} /></li>)}
        {names.length > MOST && <li className="muted">{t("common.moreRows", { count: names.length - MOST })}</li>}
      </ul>
    </div>
  );
}

const isEmpty = (diff: GraphDiff) =>
  ![diff.nodes, diff.edges].some((part) => part.added.length + part.removed.length + part.changed.length) && !diff.fields.length;

/** What differs between two versions. Nodes and edges that `structure` has are named as on the canvas, the others by their ids. */
export function DiffView({ diff, structure }: { diff: GraphDiff; structure: Structure }) {
  const language = useLanguage();
  const { t, has } = language;
  if (isEmpty(diff)) return <p>{t("builder.noChanges")}</p>;
  const nodes = new Map(structure.nodes.map((node) => [node.id, node]));
  const nodeName = (id: string) => (nodes.has(id) ? titleOf(nodes.get(id)!) : id);
  const edgeName = (id: string) => {
    const edge = structure.edges.find((one) => one.id === id);
    return edge ? `${nodeName(edge.source)} → ${nodeName(edge.target)}${edge.sourceHandle ? ` (${outcomeName(language, edge.sourceHandle, nodes.get(edge.source)?.type)})` : ""}` : id;
  };
  const fieldName = (path: string) => {
    const [name = "", ...rest] = path.replace(/^data\./, "").split(/(?=[.[])/);
    return has(`data.${name}`) ? [t(`data.${name}`), ...rest].join("") : path;
  };
  const edges = [
    ...diff.edges.added.map((id) => `+ ${edgeName(id)}`), ...diff.edges.removed.map((id) => `− ${edgeName(id)}`), ...diff.edges.changed.map((one) => `~ ${edgeName(one.id)}`),
  ];
  return (
    <div className="stack">
      <Changes title={t("builder.added")} tone="ok" names={diff.nodes.added.map(nodeName)} />
      <Changes title={t("builder.removed")} tone="bad" names={diff.nodes.removed} />
      <Changes title={t("builder.changed")} tone="" names={diff.nodes.changed.map((one) => `${nodeName(one.id)}: ${one.paths.map(fieldName).join(", ")}`)} />
      <Changes title={t("builder.edges")} tone="" names={edges} />
      <Changes title={t("builder.fields")} tone="" names={diff.fields} />
    </div>
  );
}

/** Says that scheduled runs lack what the start needs; nothing if they do not. */
export function ScheduleInput({ structure }: { structure: Structure }) {
  const { t } = useLanguage();
  const names = requiredInputs(structure);
  return names.length ? <p className="problem warning"><Icon name="waiting" /><span className="text">{t("settings.scheduleInput", { names: brief(names.join(", "), 200) })}</span></p> : null;
}

/** What deploying the draft means, before it is done. The deploy is bound to what was shown. `onSettings` leads to settings that are not saved. */
export function DeployDialog({ editor, state, editing, onProblem, onSettings, onClose }: {
  editor: Editor; state: EditorState; editing: Editing; onProblem: (issue: Found) => void; onSettings: (() => void) | undefined; onClose: () => void;
}) {
  const { t } = useLanguage();
  const host = useHost();
  const workflow = state.workflow!;
  const [impact, setImpact] = useState<{ value: Impact; etag: string | null } | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [hasChanged, setChanged] = useState(false);
  const [moves, setMoves] = useState(false);
  const [busy, setBusy] = useState(false);
  const { errors, warnings } = countOf(state.issues);
  const load = useCallback(async () => {
    try {
      await editor.ensureSaved(t("builder.unsaved"));
      const found = await editing.impact(workflow.id);
      // What somebody else saved is in the impact: it has to be on the canvas too.
      await editor.reread();
      setImpact(found);
    } catch (error) {
      setProblem(problemOf(error));
    }
  }, [editor, editing, workflow.id, t]);
  useEffect(() => void load(), [load]);
  const deploy = async () => {
    if (!host.emit("before-deploy", { workflowId: workflow.id })) return;
    setBusy(true);
    setProblem(null);
    setChanged(false);
    try {
      await editor.deploy(impact?.etag ?? null);
      host.emit("deployed", { workflowId: workflow.id, variationId: editor.current().workflow?.activeVariationId ?? null });
      if (moves) await editing.moveRuns(workflow.id);
      return onClose();
    } catch (error) {
      if (error instanceof ApiError && error.status === 409 && error.info.reason === "stale") {
        setChanged(true);
        await load();
      } else setProblem(problemOf(error));
      await editor.validate();
    }
    setBusy(false);
  };
  return (
    <Dialog title={t("builder.deployAsk")} onClose={onClose} actions={
      <>
        <button type="button" className="button" onClick={onClose}>{t("common.cancel")}</button>
        <button type="button" className="button primary" disabled={busy || errors > 0 || !impact} onClick={() => void deploy()}>{t("builder.deploy")}</button>
      </>
    }>
      <p className="muted">{t("builder.deployHint")}</p>
      {onSettings && (
        <div className="row wrap">
          <p className="problem warning grow"><Icon name="waiting" />{t("settings.typedDeploy")}</p>
          <button type="button" className="button small" onClick={onSettings}>{t("settings.open")}</button>
        </div>
      )}
      {workflow.variation?.trigger?.trigger_type === "schedule" && <ScheduleInput structure={state.structure} />}
      {errors > 0 && <p className="problem" role="alert"><Icon name="error" />{t("builder.fixFirst", { count: errors })}</p>}
      {warnings > 0 && <p>{t("builder.warnings", { count: warnings })}</p>}
      {errors + warnings > 0 && <Problems issues={state.issues} structure={state.structure} onSelect={onProblem} />}
      {hasChanged && <p className="problem" role="alert"><Icon name="error" />{t("impact.changed")}</p>}
      <Refusal text={problem?.message} />
      {!impact && !problem && <Loading rows={2} />}
      {impact && <DiffView diff={impact.value.diff} structure={state.structure} />}
      {impact && <ImpactView impact={impact.value} moves={moves} onMoves={setMoves} />}
    </Dialog>
  );
}

/** What deploying a version of before means, before it is done. */
export function RollBackDialog({ version, editor, state, editing, onDeployed, onClose }: {
  version: Variation; editor: Editor; state: EditorState; editing: Editing; onDeployed: () => void; onClose: () => void;
}) {
  const { t, dateTime } = useLanguage();
  const host = useHost();
  const workflow = state.workflow!;
  const found = useLoaded(`diff ${workflow.activeVariationId} ${version.id}`, () => editing.diff(workflow.id, "active", version.id));
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const deploy = async () => {
    if (!host.emit("before-deploy", { workflowId: workflow.id })) return;
    setBusy(true);
    setProblem(null);
    try {
      await editor.save();
      await editor.rollBack(version.id);
      host.emit("deployed", { workflowId: workflow.id, variationId: version.id });
      return onDeployed();
    } catch (error) {
      setProblem(problemOf(error));
    }
    setBusy(false);
  };
  const shown = problem ?? found.problem;
  return (
    <Dialog title={t("settings.rollBackAsk")} onClose={onClose} actions={
      <>
        <button type="button" className="button" onClick={onClose}>{t("common.cancel")}</button>
        <button type="button" className="button primary" disabled={busy || !found.value} onClick={() => void deploy()}>{t("settings.rollBack")}</button>
      </>
    }>
      <p>{dateTime(version.deployedAt)} <span className="muted">{brief(version.deployedBy ?? "", 60)}</span></p>
      <p className="muted">{t("settings.rollBackHint")}</p>
      <Refusal text={shown?.message} />
      {!found.value && !shown && <Loading rows={2} />}
      {found.value && <DiffView diff={found.value} structure={state.structure} />}
    </Dialog>
  );
}

/** What a deploy means for runs that wait, the schedule, policies and evaluations, and what a run has cost. */
function ImpactView({ impact, moves, onMoves }: { impact: Impact; moves: boolean; onMoves: (moves: boolean) => void }) {
  const { t, dateTime, number } = useLanguage();
  const count = (fits: boolean) => impact.waiting.filter((one) => one.fits === fits).reduce((sum, one) => sum + one.count, 0);
  const reasons = impact.waiting.filter((one) => !one.fits).flatMap((one) => one.differences.map((difference) => `${difference.nodeId}: ${difference.message}`));
  const next = impact.schedule.after.nextRuns.map((one) => dateTime(one.at));
  const isNewSchedule = JSON.stringify(impact.schedule.before.nextRuns) !== JSON.stringify(impact.schedule.after.nextRuns);
  const { cost, inputTokens, outputTokens } = impact.cost.perRun;
  const broken = impact.policies.filter((one) => one.status === "broken").map((one) => (one.counterExample ? `${one.name}: ${one.counterExample.join(" → ")}` : one.name));
  const unmet = impact.evaluations.filter((one) => one.state !== "passed").map((one) => `${one.name ?? one.caseId}: ${t(`evaluation.${one.state}`)}`);
  const tokens = (inputTokens ?? 0) + (outputTokens ?? 0);
  return (
    <div className="stack">
      {count(true) > 0 && (
        <label className="check"><input type="checkbox" checked={moves} onChange={(event) => onMoves(event.target.checked)} />{t("impact.move", { count: count(true) })}</label>
      )}
      {count(false) > 0 && <p className="muted">{t("impact.stay", { count: count(false) })}</p>}
      <Changes title={t("run.differences")} tone="bad" names={[...new Set(reasons)]} />
      {isNewSchedule && <Changes title={t(impact.schedule.after.isEnabled ? "settings.nextRuns" : "impact.scheduleOff")} tone="" names={next} />}
      <Changes title={t("impact.policies")} tone="bad" names={broken} />
      <Changes title={t("impact.evaluations")} tone="bad" names={unmet} />
      {impact.cost.runs > 0 && (tokens > 0 || cost !== null) && (
        <p className="muted">{t("impact.cost", { count: impact.cost.runs, tokens: number(tokens), cost: cost === null ? "–" : number(cost, { maximumFractionDigits: 4 }) })}</p>
      )}
    </div>
  );
}

/** Two versions of one draft: the user says which one stands, or decides later. */
export function ConflictDialog({ conflict, mine, onResolve, onClose }: {
  conflict: Conflict; mine: Structure; onResolve: (mine: boolean) => void; onClose: () => void;
}) {
  const { t } = useLanguage();
  const differs = useMemo(() => differences(conflict.structure, mine), [conflict, mine]);
  return (
    <Dialog title={t("builder.conflict")} onClose={onClose} actions={
      <>
        <button type="button" className="button" onClick={() => onResolve(false)}>{t("builder.takeTheirs")}</button>
        <button type="button" className="button primary" onClick={() => onResolve(true)}>{t("builder.keepMine")}</button>
      </>
    }>
      <p>{t("builder.conflictHint")}</p>
      <div className="stack">
        <Changes title={t("builder.onlyMine")} tone="ok" names={differs.added} />
        <Changes title={t("builder.onlyTheirs")} tone="bad" names={differs.removed} />
        <Changes title={t("builder.differs")} tone="" names={differs.changed} />
      </div>
    </Dialog>
  );
}

/** A run whose results are taken over up to a node. */
export interface From {
  node: string;
  runId: string;
  input: Json;
}

/** The input of a run of the draft, as a form of the start node's `inputSchema`; with `from`, it begins at a node. */
export function RunDialog({ editor, state, editing, from, onStarted, onClose }: {
  editor: Editor; state: EditorState; editing: Editing; from?: From | undefined; onStarted: (runId: string) => void; onClose: () => void;
}) {
  const { t } = useLanguage();
  const host = useHost();
  const given = state.structure.nodes.find((node) => node.type === "start")?.data?.inputSchema;
  const schema = useMemo<JsonObject>(
    () => (isObject(given) ? given : { type: "object", properties: { input: { title: t("builder.input") } } }), [given, t],
  );
  const hasSchema = schema === given;
  const field = useMemo(() => fieldOf(schema), [schema]);
  const [value, setValue] = useState<Json | undefined>(() => (!from ? initial(field) : hasSchema ? from.input : { input: from.input }));
  const [errors, setErrors] = useState<Map<string, FieldError>>(new Map());
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const focusInvalid = useInvalidFocus(box, errors, busy);
  const start = async () => {
    if (focusUnreadable(box.current)) return;
    const held = (value ?? {}) as JsonObject;
    const input = hasSchema ? held : (held.input ?? {});
    const found = hasSchema ? check(schema, input) : new Map<string, FieldError>();
    setErrors(found);
    if (found.size) return focusInvalid(found);
    const body: JsonObject = { workflowId: state.workflow!.id, version: host.readonly || !editor.canEdit ? "published" : "draft", input };
    if (!host.emit("before-run", body)) return;
    setBusy(true);
    setProblem(null);
    try {
      await editor.ensureSaved(t("builder.unsaved"));
      const changed: JsonObject = from && JSON.stringify(from.input) !== JSON.stringify(input) ? { input } : {};
      const run = await (from ? editing.fork(from.runId, { before: from.node, version: "draft", ...changed }) : editing.start(body));
      host.emit("run-start", { runId: run.runId, workflowId: state.workflow!.id });
      onStarted(run.runId);
    } catch (error) {
      setProblem(problemOf(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={from ? t("builder.runFromAsk", { name: brief(from.node, 60) }) : t("builder.runAsk")} onClose={onClose} actions={
      <>
        <button type="button" className="button" onClick={onClose}>{t("common.cancel")}</button>
        <button type="button" className="button primary" disabled={busy} onClick={() => void start()}><Icon name="start" />{t("builder.run")}</button>
      </>
    }>
      <p className="muted">{t(from ? "builder.runFromHint" : editor.canEdit ? "builder.runHint" : "builder.runPublished")}</p>
      <Refusal text={problem?.message} />
      <div ref={box}><Form field={field} value={value} errors={errors} disabled={busy} onChange={(pointer, next) => setValue((old) => withValue(old, pointer, next))} /></div>
    </Dialog>
  );
}
