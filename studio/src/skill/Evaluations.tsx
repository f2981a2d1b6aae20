import { useEffect, useMemo, useState } from "react";
import type { EvaluationResult, SkillRecord, Skills, View } from "../api/skills";
import { problemOf, useHost, useLoaded } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { JsonBlock } from "../kit/JsonView";
import { Empty, type Problem } from "../kit/kit";
import { Named, Refusal } from "../kit/named";
import { brief, readable } from "../kit/safe";
import { PlaceLink } from "../pages/parts";

const POLL_MS = 1_000;

/** The cases of the skill, their runs, and their results by variation. */
export function Evaluations({ skill, skills, mayEdit }: { skill: SkillRecord; skills: Skills; mayEdit: boolean }) {
  const { t, dateTime } = useLanguage();
  const host = useHost();
  const [other, setOther] = useState("");
  const [selected, setSelected] = useState<string | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const versions = useLoaded("versions", () => skills.variations(skill.id).catch(() => []));
  const shown = useMemo(() => [...new Set([skill.activeVariationId, skill.hasUnpublishedChanges ? skill.draftVariationId : null, other])].filter((one) => one !== null && one !== "") as string[], [skill, other]);
  const found = useLoaded(`results:${shown.join()}`, () => skills.results(skill.id, shown));
  const results = found.value?.results ?? [];
  const isRunning = results.some((one) => one.passed === null);
  const { reload } = found;
  useEffect(() => {
    if (!isRunning) return;
    const timer = setInterval(() => document.hidden || reload(), POLL_MS);
    return () => clearInterval(timer);
  }, [isRunning, reload]);
  const run = async (view: View) => {
    setBusy(true);
    setProblem(null);
    try {
      await skills.evaluate(skill.id, view);
      reload();
    } catch (error) {
      setProblem(problemOf(error));
    }
    setBusy(false);
  };
  const nameOf = (id: string) => (id === skill.draftVariationId ? t("skill.draft") : id === skill.activeVariationId ? t("skill.active")
    : dateTime(versions.value?.find((one) => one.id === id)?.deployedAt ?? 0));
  const cases = new Map((skill.variation?.evaluations ?? []).map((one) => [one.id, { name: one.name ?? one.id, required: one.required === true, message: one.input.message }]));
  for (const one of found.value?.comparison ?? []) if (!cases.has(one.caseId)) cases.set(one.caseId, { name: one.name ?? one.caseId, required: false, message: "" });
  const resultOf = (caseId: string, variation: string) => results.find((one) => one.caseId === caseId && one.variationId === variation);
  const older = (versions.value ?? []).filter((one) => !one.isActive);
  const mayRun = !host.readonly && host.wants("run") && !busy && !isRunning;
  if (!cases.size) return <div className="scroll pad"><Empty icon="policy" title={t("evaluations.empty")} hint={t("evaluations.emptyHint")} /></div>;
  return (
    <div className="scroll pad stack">
      <div className="row wrap">
        {mayEdit && skill.hasUnpublishedChanges && <button type="button" className="button primary" disabled={!mayRun} onClick={() => void run("draft")}>{t("evaluations.runDraft")}</button>}
        {skill.activeVariationId && <button type="button" className="button" disabled={!mayRun} onClick={() => void run("active")}>{t("evaluations.runActive")}</button>}
        {isRunning && <span className="status busy" role="status"><Icon name="running" spin />{t("evaluation.running")}</span>}
        {older.length > 0 && (
          <div className="row">
            <label htmlFor="versions" className="label">{t("evaluations.compare")}</label>
            <select id="versions" className="input" style={{ width: "auto" }} value={other} onChange={(event) => setOther(event.target.value)}>
              <option value="">–</option>
              {older.map((one) => <option key={one.id} value={one.id}>{dateTime(one.deployedAt)}</option>)}
            </select>
          </div>
        )}
      </div>
      <Refusal text={(problem ?? found.problem)?.message} />
      <div className="tablebox" role="group" aria-label={t("skill.evaluations")} tabIndex={0}>
        <table>
          <thead><tr><th scope="col">{t("evaluations.case")}</th>{shown.map((id) => <th scope="col" key={id}>{nameOf(id)}</th>)}</tr></thead>
          <tbody>
            {[...cases].map(([id, one]) => (
              <tr key={id}>
                <th scope="row">
                  <button type="button" className="button plain small" aria-expanded={selected === id} onClick={() => setSelected(selected === id ? null : id)}>{brief(one.name, 120)}</button>
                  {one.required && <span className="tag">{t("evaluations.required")}</span>}
                </th>
                {shown.map((variation) => <td key={variation}><Verdict result={resultOf(id, variation)} /></td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {selected !== null && (
        <section className="stack" aria-label={brief(cases.get(selected)?.name ?? selected, 120)}>
          {cases.get(selected)?.message && <p className="text muted">{readable(cases.get(selected)!.message)}</p>}
          <div className="results">
            {shown.map((variation) => <Result key={variation} name={nameOf(variation)} result={resultOf(selected, variation)} />)}
          </div>
        </section>
      )}
    </div>
  );
}

function Verdict({ result }: { result: EvaluationResult | undefined }) {
  const { t } = useLanguage();
  if (!result) return <span className="muted">{t("evaluation.never_ran")}</span>;
  if (result.passed === null) return <span className="status busy"><Icon name="running" spin />{t("evaluation.running")}</span>;
  return <span className={`status ${result.passed ? "ok" : "bad"}`}><Icon name={result.passed ? "done" : "error"} />{t(result.passed ? "evaluations.passed" : "evaluation.failed")}</span>;
}

function Result({ name, result }: { name: string; result: EvaluationResult | undefined }) {
  const { t, number } = useLanguage();
  return (
    <div className="card pad stack">
      <div className="row between"><h2>{name}</h2><Verdict result={result} /></div>
      {result?.error && <p className="problem"><span className="text"><Named text={readable(result.error)} /></span></p>}
      {result && (
        <>
          <ul className="stack" style={{ gap: 4 }}>
            {result.checks.map((check, index) => (
              <li key={index} className={`status ${check.passed ? "ok" : "bad"}`}><Icon name={check.passed ? "done" : "error"} /><span className="mono">{check.kind}</span> <span className="text"><Named text={readable(check.message)} /></span></li>
            ))}
          </ul>
          {result.output !== null && result.output !== undefined && <JsonBlock value={result.output} label={t("evaluations.output")} />}
          {result.toolCalls.length > 0 && <details><summary>{t("evaluations.calls", { count: result.toolCalls.length })}</summary><JsonBlock value={result.toolCalls} label={t("skill.tools")} /></details>}
          <div className="row between">
            {result.cost !== null ? <span className="hint num">{t("evaluations.cost", { cost: number(result.cost, { maximumFractionDigits: 4 }) })}</span> : <span />}
            <PlaceLink to={{ page: "run", id: result.runId }} className="button plain small">{t("approval.openRun")}</PlaceLink>
          </div>
        </>
      )}
    </div>
  );
}
