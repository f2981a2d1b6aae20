import { useState } from "react";
import { Editing } from "../api/editing";
import type { Pasted } from "../builder/document";
import { counted, countOf } from "../builder/Problems";
import type { Editor, EditorState } from "../builder/editor";
import { problemOf, useHost } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { Status } from "../kit/kit";
import { Named, Refusal } from "../kit/named";
import { brief } from "../kit/safe";
import { PlaceLink, Restore } from "./parts";

/** The name of the workflow and what can be done with it. */
export function Toolbar({ editor, state, canEdit, open, onTidy, onPalette, onProblems, onAside, onDeploy, onRun, onSettings, onLastRun }: {
  editor: Editor; state: EditorState; canEdit: boolean; open: string | null; onTidy: () => void; onPalette: () => void; onProblems: () => void;
  onAside: (what: "simulate" | "ask") => void; onDeploy: () => void; onRun: () => void; onSettings: () => void;
  onLastRun: (() => void) | undefined;
}) {
  const { t } = useLanguage();
  const host = useHost();
  const workflow = state.workflow!;
  const may = (feature: string) => !host.readonly && host.wants(feature);
  const count = countOf(state.issues);
  const isDeployed = !workflow.hasUnpublishedChanges && state.saving === "saved";
  return (
    <div className="head" part="toolbar">
      <div style={{ minWidth: 0, marginInlineEnd: "auto" }} className="row wrap">
        <h1 className="clip">{brief(workflow.name, 120)}</h1>
        <Status value={workflow.status} />
        {workflow.hasUnpublishedChanges && workflow.status === "active" && <span className="tag wait">{t("workflows.unpublished")}</span>}
        {canEdit && <span className={`saving ${state.saving}`} role="status">{t(`builder.saving.${state.saving}`)}</span>}
      </div>
      {canEdit && (
        // `aria-disabled`, below too: a disabled button would keep the focus and swallow the keys.
        <div className="row" role="group" aria-label={t("builder.edit")}>
          <button type="button" className="button small-only" aria-expanded={open === "palette"} onClick={onPalette}><Icon name="plus" />{t("builder.add")}</button>
          <button type="button" className="button square" aria-label={t("builder.undo")} title={t("builder.undo")} aria-disabled={!state.canUndo} onClick={() => editor.undo()}><Icon name="undo" /></button>
          <button type="button" className="button square" aria-label={t("builder.redo")} title={t("builder.redo")} aria-disabled={!state.canRedo} onClick={() => editor.redo()}><Icon name="redo" /></button>
          <button type="button" className="button hide-small" onClick={onTidy}>{t("builder.tidy")}</button>
        </div>
      )}
      {!canEdit && <button type="button" className="button small-only" aria-expanded={open === "palette"} onClick={onPalette}>{t("builder.find")}</button>}
      {canEdit && (
        <button type="button" className={`button${count.errors ? " danger" : ""}`} aria-expanded={open === "problems"} onClick={onProblems}>
          <Icon name={count.errors ? "error" : count.warnings ? "waiting" : "done"} />{counted(count, t)}
        </button>
      )}
      {canEdit && may("propose") && <button type="button" className="button" aria-expanded={open === "ask"} onClick={() => onAside("ask")}>{t("ask.open")}</button>}
      {host.wants("simulate") && <button type="button" className="button" aria-expanded={open === "simulate"} onClick={() => onAside("simulate")}>{t("simulate.title")}</button>}
      {canEdit && may("settings") && <button type="button" className="button" onClick={onSettings}>{t("settings.title")}</button>}
      {host.wants("runs") && <PlaceLink to={{ page: "runs", query: { workflowId: String(workflow.id) } }} className="button hide-small">{t("workflows.runs")}</PlaceLink>}
      {onLastRun && <button type="button" className="button" onClick={onLastRun}>{t("builder.lastRun")}</button>}
      {may("run") && workflow.canUse !== false && (canEdit || workflow.activeVariationId) && <button type="button" className="button" onClick={onRun}><Icon name="start" />{t("builder.run")}</button>}
      {canEdit && may("deploy") && <button type="button" className="button primary" aria-disabled={isDeployed} onClick={() => isDeployed || onDeploy()}>{t("builder.deploy")}</button>}
    </div>
  );
}

const MOST = 5;

/** Whether the workflow is deployed with a schedule that is off, as every new one is. */
const isIdle = ({ workflow }: EditorState) =>
  workflow?.status === "active" && !workflow.hasUnpublishedChanges && !workflow.isEnabled && workflow.variation?.trigger?.trigger_type === "schedule";

function SwitchOn({ editor }: { editor: Editor }) {
  const { t } = useLanguage();
  const [problem, setProblem] = useState<string | null>(null);
  const act = () => editor.toggle().catch((error: unknown) => setProblem(problemOf(error).message));
  return (
    <div className="notice wait" role="status">
      <Icon name="clock" /><span className="grow">{t("settings.idle")} <Refusal text={problem} /></span>
      <button type="button" className="button small" onClick={() => void act()}>{t("settings.switchOn")}</button>
    </div>
  );
}

/** What the user has to know of the draft. */
export function Notices({ editor, state, unpasted, onConflict, onPasted, onSettings }: {
  editor: Editor; state: EditorState; unpasted: Pasted["left"]; onConflict: () => void; onPasted: () => void; onSettings: (() => void) | undefined;
}) {
  const { t } = useLanguage();
  const host = useHost();
  const id = state.workflow?.id ?? 0;
  const message = state.error ? problemOf(state.error).message : "";
  const mayChange = editor.canEdit && !host.readonly && host.wants("settings");
  if (state.workflow?.status === "deleted") {
    return (
      <div className="notices">
        <div className="notice bad" role="alert"><Icon name="error" /><span className="grow">{t("builder.deleted")} {editor.isUnsaved && t("builder.deletedHint")}</span>
          {state.workflow.canManage && !host.readonly && host.wants("settings") && <Restore restore={() => new Editing(host.client).restore(id)} onRestored={() => void editor.start()} />}
        </div>
      </div>
    );
  }
  return (
    <div className="notices">
      {!editor.canEdit && (
        <div className="notice"><Icon name="user" /><span>{t(state.workflow?.manageDenial === "not_owner" ? "builder.notOwner" : "builder.readOnly")}</span></div>
      )}
      {unpasted.length > 0 && (
        <div className="notice wait" role="alert">
          <Icon name="waiting" />
          <ul className="grow text">
            {unpasted.slice(0, MOST).map(({ what, why }, index) => <li key={index}>{t(`paste.${why}`, { name: brief(what, 60) })}</li>)}
            {unpasted.length > MOST && <li>{t("common.moreRows", { count: unpasted.length - MOST })}</li>}
          </ul>
          <button type="button" className="button plain square small" aria-label={t("common.close")} onClick={onPasted}><Icon name="close" /></button>
        </div>
      )}
      {onSettings && mayChange && (
        <div className="notice wait">
          <Icon name="waiting" /><span className="grow">{t("settings.typed")}</span>
          <button type="button" className="button small" onClick={onSettings}>{t("settings.open")}</button>
        </div>
      )}
      {isIdle(state) && mayChange && <SwitchOn editor={editor} />}
      {state.restored && (
        <div className="notice wait">
          <Icon name="retry" /><span className="grow">{t("builder.restored")}</span>
          <button type="button" className="button small" onClick={() => editor.discard()}>{t("builder.discard")}</button>
          <button type="button" className="button small" onClick={() => void editor.save()}>{t("builder.save")}</button>
        </div>
      )}
      {state.saving === "conflict" && (
        <div className="notice wait">
          <Icon name="waiting" /><span className="grow">{t("builder.conflictOpen")}</span>
          <button type="button" className="button small" onClick={onConflict}>{t("builder.conflictChoose")}</button>
        </div>
      )}
      {state.outdated && state.saving !== "conflict" && (
        <div className="notice wait" role="status">
          <Icon name="waiting" /><span className="grow">{t("builder.outdated")}</span>
          <button type="button" className="button small" onClick={() => void editor.reread().catch(() => undefined)}>{t("builder.showNewer")}</button>
        </div>
      )}
      {state.saving === "failed" && (
        <div className="notice wait" role="alert">
          <Icon name="waiting" /><span className="grow">{t("builder.failedHint")}</span>
          <button type="button" className="button small" onClick={() => void editor.save()}>{t("common.retry")}</button>
        </div>
      )}
      {state.saving === "refused" && <div className="notice bad" role="alert"><Icon name="error" /><span className="text">{t("builder.refusedHint")} <Named text={brief(message, 400)} /></span></div>}
    </div>
  );
}
