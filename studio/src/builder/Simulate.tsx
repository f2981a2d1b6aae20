import { useEffect, useId, useMemo, useState } from "react";
import type { Editing } from "../api/editing";
import type { Impact, JsonObject, Simulation, Step, Structure } from "../api/types";
import { problemOf } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import type { Problem } from "../kit/kit";
import { Refusal } from "../kit/named";
import { brief, visible } from "../kit/safe";
import { titleOf } from "./document";
import { type Marks, marksOf, type Play, stepsAlong } from "./playing";

const MOST_PATHS = 30;
const MOST_RULES = 20;

interface Found {
  structure: Structure;
  simulation: Simulation;
  /** What a deploy would say about policies; empty if that is not known. */
  policies: Impact["policies"];
}

/** Simulates the graph as it is: its ends as paths on the canvas, and the runs that break rules and policies. */
export function Simulate({ structure, editing, policies, input, onMarks, onSelect, onClose }: {
  structure: Structure; editing: Editing; policies: () => Promise<Impact["policies"]>;
  /** The input of the last run; null without one. */
  input: JsonObject | null;
  onMarks: (marks: Marks | null) => void; onSelect: (id: string) => void; onClose: () => void;
}) {
  const { t } = useLanguage();
  const id = useId();
  const [rules, setRules] = useState("");
  const [isBound, setBound] = useState(false);
  const [found, setFound] = useState<Found | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const [play, setPlay] = useState<Play | null>(null);
  const [at, setAt] = useState(0);
  const isStale = found !== null && found.structure !== structure;
  const show = (next: Play, from = next.steps.length) => {
    setPlay(next);
    setAt(from);
  };
  const run = async () => {
    setBusy(true);
    setProblem(null);
    setPlay(null);
    const wanted = rules.split("\n").map((line) => line.trim()).filter(Boolean).slice(0, MOST_RULES);
    try {
      const [simulation, known] = await Promise.all([editing.simulate(structure, isBound ? input : null, wanted), policies().catch(() => [])]);
      setFound({ structure, simulation, policies: known });
    } catch (error) {
      setFound(null);
      setProblem(problemOf(error));
    }
    setBusy(false);
  };
  useEffect(() => void run(), []);
  const marks = useMemo(
    () => (!found || isStale ? null : marksOf(structure, play?.steps ?? [], play ? at : 0, found.simulation.neverReached)), [found, isStale, structure, play, at],
  );
  useEffect(() => onMarks(marks), [marks]);
  useEffect(() => () => onMarks(null), []);
  const names = new Map(structure.nodes.map((node) => [node.id, titleOf(node)]));
  return (
    <div className="nodeeditor simulate">
      <div className="section">
        <div className="row between">
          <h2>{t("simulate.title")}</h2>
          <button type="button" className="button plain square" aria-label={t("common.close")} onClick={onClose}><Icon name="close" /></button>
        </div>
        <p className="hint">{t("simulate.hint")}</p>
        <div className="field">
          <label htmlFor={id}>{t("simulate.rules")}<span className="hint"> · {t("form.optional")}</span></label>
          <textarea id={id} className="input mono" rows={3} spellCheck={false} value={rules} onChange={(event) => setRules(event.target.value)} aria-describedby={`${id}-hint`} />
          <p className="hint" id={`${id}-hint`}>{t("simulate.rulesHint")}</p>
        </div>
        {input !== null && <label className="check"><input type="checkbox" checked={isBound} onChange={(event) => setBound(event.target.checked)} />{t("simulate.bound")}</label>}
        <div><button type="button" className="button" disabled={busy} onClick={() => void run()}><Icon name="retry" />{t("simulate.run")}</button></div>
        <Refusal text={problem && brief(problem.message, 400)} />
        <p className={isStale ? "hint" : "sr"} role="status">{isStale ? t("simulate.stale") : found && !busy ? summaryOf(found, t) : ""}</p>
      </div>
      {play && !isStale && <Player play={play} at={at} names={names} onAt={setAt} />}
      {found && !isStale && <Broken found={found} structure={structure} onPlay={(next) => show(next, Math.min(1, next.steps.length))} />}
      {found && !isStale && <Ends simulation={found.simulation} play={play} names={names} onPlay={show} onSelect={onSelect} />}
    </div>
  );
}

/** The steps of a run, forward and back. */
function Player({ play, at, names, onAt }: { play: Play; at: number; names: Map<string, string>; onAt: (at: number) => void }) {
  const { t } = useLanguage();
  const step = play.steps[at - 1];
  const last = play.steps.length;
  return (
    <div className="section" role="group" aria-label={t("simulate.steps")}>
      <p className="text">{visible(brief(play.what, 300))}</p>
      <div className="row">
        <button type="button" className="button small" aria-disabled={at === 0} onClick={() => onAt(Math.max(0, at - 1))}><Icon name="back" />{t("simulate.back")}</button>
        <button type="button" className="button small" aria-disabled={at === last} onClick={() => onAt(Math.min(last, at + 1))}>{t("simulate.next")}<Icon name="chevron" /></button>
      </div>
      <p role="status" className="num">{t("simulate.at", { n: at, of: last })}{step ? `: ${brief(names.get(step.nodeId) ?? step.nodeId, 60)}, ${outcomeText(step, t)}` : ""}</p>
    </div>
  );
}

type Translate = ReturnType<typeof useLanguage>["t"];
const KNOWN = new Set(["done", "failed", "approved", "denied", "expired", "else", "expression"]);
const outcomeText = (step: Step, t: Translate) => (KNOWN.has(step.outcome) ? t(`outcome.${step.outcome}`) : brief(step.outcome, 40));

/** What came out, as a screen reader says it: how many ends there are, and which rules and policies are not kept. */
function summaryOf({ simulation, policies }: Found, t: Translate): string {
  const unmet = [...simulation.rules.map(({ rule, status }) => ({ name: rule, status: status as string })), ...policies].filter(({ status }) => status === "broken" || status === "unknown");
  return [t("simulate.ends", { count: simulation.paths.length }), ...unmet.map(({ name, status }) => `${visible(brief(name, 80))}: ${t(`verdict.${status}`)}`)].join(". ");
}

/** Rules and policies with their verdicts; a broken one is played. */
function Broken({ found, structure, onPlay }: { found: Found; structure: Structure; onPlay: (play: Play) => void }) {
  const { t } = useLanguage();
  const rows = [
    ...found.simulation.rules.map((one) => ({ name: one.rule, status: one.status as string, play: one.counterExample && {
      what: one.counterExample.what, steps: one.counterExample.steps.length ? one.counterExample.steps : stepsAlong(structure, one.counterExample.path),
    } })),
    ...found.policies.map((one) => ({ name: one.name, status: one.status as string, play: one.counterExample && { what: one.name, steps: stepsAlong(structure, one.counterExample) } })),
  ];
  if (!rows.length) return null;
  return (
    <div className="section">
      <h3>{t("simulate.verdicts")}</h3>
      <ul className="stack">
        {rows.map(({ name, status, play }, index) => (
          <li key={index} className="row between">
            <span className={`text verdict ${status}`}><Icon name={status === "broken" ? "error" : status === "unknown" ? "waiting" : "done"} /> {visible(brief(name, 200))}: {t(`verdict.${status}`)}</span>
            {play && <button type="button" className="button small" aria-label={t("simulate.playOf", { name: brief(name, 80) })} onClick={() => onPlay(play)}><Icon name="start" />{t("simulate.play")}</button>}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** The ends that runs can have, and what no run reaches. */
function Ends({ simulation, play, names, onPlay, onSelect }: {
  simulation: Simulation; play: Play | null; names: Map<string, string>; onPlay: (play: Play) => void; onSelect: (id: string) => void;
}) {
  const { t } = useLanguage();
  const { paths, neverReached, complete } = simulation;
  return (
    <>
      <div className="section">
        <h3>{t("simulate.ends", { count: paths.length })}</h3>
        <ul className="stack ends">
          {paths.slice(0, MOST_PATHS).map((path, index) => {
            const what = path.steps.map((step) => `${names.get(step.nodeId) ?? step.nodeId} (${outcomeText(step, t)})`).join(" → ");
            return (
              <li key={index}>
                <button type="button" className="child" aria-pressed={play?.steps === path.steps} onClick={() => onPlay({ what: t(`simulate.end.${path.end}`), steps: path.steps })}>
                  <Icon name={path.end === "done" ? "done" : path.end === "error" ? "error" : "retry"} />
                  <span className="text">{t(`simulate.end.${path.end}`)}{what && `: ${visible(brief(what, 400))}`}</span>
                </button>
              </li>
            );
          })}
          {paths.length > MOST_PATHS && <li className="muted">{t("common.moreRows", { count: paths.length - MOST_PATHS })}</li>}
        </ul>
        {!complete && <p className="hint">{t("simulate.cut")}</p>}
      </div>
      {neverReached.length > 0 && (
        <div className="section">
          <h3>{t("simulate.never")}</h3>
          <ul>
            {neverReached.slice(0, MOST_PATHS).map((node) => (
              <li key={node}><button type="button" className="child" onClick={() => onSelect(node)}><Icon name="skipped" /><span className="clip">{brief(names.get(node) ?? node, 60)}</span></button></li>
            ))}
          </ul>
        </div>
      )}
    </>
  );
}

