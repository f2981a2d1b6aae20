import { useEffect, useMemo, useState } from "react";
import { ApiError } from "../api/client";
import { type SkillRecord, Skills } from "../api/skills";
import type { JsonObject } from "../api/types";
import { problemOf, useChanges, useHost, useLoaded } from "../elements/context";
import { LanguageContext, useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { Dialog, Empty, Failure, Loading, type Problem, Status, Tabs } from "../kit/kit";
import { Refusal } from "../kit/named";
import { brief } from "../kit/safe";
import { ContextPreview } from "../skill/ContextPreview";
import de from "../skill/de.json";
import en from "../skill/en.json";
import { Evaluations } from "../skill/Evaluations";
import { Memories } from "../skill/Memories";
import { Settings } from "../skill/Settings";
import adminDe from "./admin/de.json";
import adminEn from "./admin/en.json";
import ChatPage from "./ChatPage";
import { Confirm, Restore } from "./parts";

const TABS = ["try", "settings", "context", "memories", "evaluations"] as const;

/** One skill: to try, change and deploy it, with its context, memories and evaluations. */
export default function SkillPage({ skillId }: { skillId: string }) {
  const language = useLanguage();
  const extended = useMemo(() => language.extend({ en: { ...adminEn, ...en }, de: { ...adminDe, ...de } }), [language]);
  const id = Number(skillId);
  return (
    <LanguageContext value={extended}>
      {Number.isInteger(id) && id > 0 ? <One key={id} id={id} /> : <Empty icon="skills" title="skill-id" />}
    </LanguageContext>
  );
}

function One({ id }: { id: number }) {
  const { t } = useLanguage();
  const host = useHost();
  const skills = useMemo(() => new Skills(host.client), [host.client]);
  const found = useLoaded(`skill:${id}`, () => skills.read(id));
  const [tab, setTab] = useState<string>("try");
  // Settings that are not saved stay, whatever view is shown.
  const [isEdited, setEdited] = useState(false);
  useEffect(() => {
    if (!isEdited) return;
    const leave = (event: BeforeUnloadEvent) => void (host.unsaved.isLost() && event.preventDefault());
    addEventListener("beforeunload", leave);
    return () => removeEventListener("beforeunload", leave);
  }, [isEdited, host]);
  useChanges(["skill"], (changes) => changes.some((change) => change.kind === "poll" || String(change.id) === String(id)) && found.reload());
  if (found.problem && !found.value) return <Failure isPage problem={found.problem} onRetry={found.reload} />;
  if (!found.value) return <Loading rows={8} />;
  const { value: skill, etag } = found.value;
  const mayEdit = skill.canManage && !host.readonly && skill.status !== "deleted";
  const shared = { skill, skills, mayEdit };
  return (
    <div className="page skill">
      <div className="head">
        <div style={{ minWidth: 0, marginInlineEnd: "auto" }} className="row wrap">
          <h1 className="clip">{brief(skill.name, 120)}</h1>
          <Status value={skill.status} />
          {skill.hasUnpublishedChanges && <span className="tag wait"><Icon name="pending" />{t("workflows.unpublished")}</span>}
        </div>
        {mayEdit && host.wants("deploy") && skill.hasUnpublishedChanges && <Deploy skill={skill} skills={skills} onDone={found.reload} />}
        {mayEdit && host.wants("settings") && <Delete skill={skill} skills={skills} />}
      </div>
      {skill.status === "deleted" && (
        <div className="notices">
          <div className="notice bad" role="alert"><Icon name="error" /><span className="grow">{t("skill.deleted")}</span>
            {skill.canManage && !host.readonly && host.wants("settings") && <Restore restore={() => skills.restore(id)} onRestored={found.reload} />}
          </div>
        </div>
      )}
      <Tabs label={t("skill.views")} value={tab} onChange={setTab} panel="skill-panel" items={TABS.map((one) => ({ id: one, text: t(`skill.${one}`) }))} />
      <div className="skillpanel" id="skill-panel" role="tabpanel" aria-label={t(`skill.${tab}`)} tabIndex={tab === "try" ? -1 : 0}>
        {(tab === "settings" || isEdited) && <Settings {...shared} etag={etag} hidden={tab !== "settings"} onEdited={setEdited} onSaved={found.reload} />}
        {tab === "try" ? <ChatPage key={String(mayEdit && skill.hasUnpublishedChanges)} skillId={String(id)} embedded draft={mayEdit && skill.hasUnpublishedChanges} />
          : tab === "settings" ? null
          : tab === "context" ? <ContextPreview {...shared} />
          : tab === "memories" ? <Memories {...shared} />
          : <Evaluations {...shared} />}
      </div>
    </div>
  );
}

function Delete({ skill, skills }: { skill: SkillRecord; skills: Skills }) {
  const { t } = useLanguage();
  const host = useHost();
  const [isAsking, setAsking] = useState(false);
  return (
    <>
      <button type="button" className="button danger" onClick={() => setAsking(true)}>{t("skill.delete")}</button>
      {isAsking && (
        <Confirm title={t("skill.deleteAsk")} action={t("skill.delete")} act={() => skills.remove(skill.id)} onDone={() => host.navigate({ page: "skills" })} onClose={() => setAsking(false)}>
          <p className="muted text">{brief(skill.name, 120)}</p><p className="hint">{t("skill.deleteHint")}</p>
        </Confirm>
      )}
    </>
  );
}

interface Unmet {
  caseId: string;
  name?: string | null;
  state: string;
}

function Deploy({ skill, skills, onDone }: { skill: SkillRecord; skills: Skills; onDone: () => void }) {
  const { t, has } = useLanguage();
  const host = useHost();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [unmet, setUnmet] = useState<Unmet[] | null>(null);
  const deploy = async (force: boolean) => {
    if (!host.emit("before-deploy", { skillId: skill.id })) return;
    setBusy(true);
    setProblem(null);
    try {
      const deployed = await skills.deploy(skill.id, force);
      host.emit("deployed", { skillId: skill.id, variationId: deployed.activeVariationId });
      setUnmet(null);
      onDone();
    } catch (error) {
      const info: JsonObject = error instanceof ApiError ? error.info : {};
      if (info.reason === "evaluations") setUnmet(info.cases as unknown as Unmet[]);
      else setProblem(problemOf(error));
    }
    setBusy(false);
  };
  const stateOf = (one: Unmet) => (has(`evaluation.${one.state}`) ? t(`evaluation.${one.state}`) : one.state);
  return (
    <>
      <Refusal text={problem?.message} />
      <button type="button" className="button primary" disabled={busy} onClick={() => void deploy(false)}>{t("builder.deploy")}</button>
      {unmet && (
        <Dialog title={t("skill.unmet")} onClose={() => setUnmet(null)} actions={
          <>
            <button type="button" className="button" autoFocus onClick={() => setUnmet(null)}>{t("common.cancel")}</button>
            <button type="button" className="button danger solid" disabled={busy} onClick={() => void deploy(true)}>{t("skill.force")}</button>
          </>
        }>
          <ul className="stack" style={{ gap: 4 }}>
            {unmet.map((one) => <li key={one.caseId} className="row"><span className="clip">{brief(one.name || one.caseId, 120)}</span><span className="tag wait">{stateOf(one)}</span></li>)}
          </ul>
          <p className="hint">{t("skill.forceHint")}</p>
        </Dialog>
      )}
    </>
  );
}
