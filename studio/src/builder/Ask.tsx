import { useEffect, useId, useState } from "react";
import type { Editing } from "../api/editing";
import type { Proposal, Structure } from "../api/types";
import { problemOf } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { Loading, type Problem } from "../kit/kit";
import { Refusal } from "../kit/named";
import { brief, visible } from "../kit/safe";
import { DiffView } from "./dialogs";
import { withPlaces } from "./document";
import type { Marks } from "./playing";

const LONGEST = 10_000;

/** A proposed graph, as the canvas shows it: what is new and what is changed. */
export interface Preview {
  structure: Structure;
  marks: Marks;
}

interface Props {
  workflowId: number;
  structure: Structure;
  models: string[];
  editing: Editing;
  save: () => Promise<void>;
  onPreview: (preview: Preview | null) => void;
  onApply: (structure: Structure) => void;
  onClose: () => void;
}

/** Describes a change in words. A model proposes it; nothing of it is in the draft before it is applied. */
export function Ask({ workflowId, structure, models, editing, save, onPreview, onApply, onClose }: Props) {
  const { t, number } = useLanguage();
  const id = useId();
  const [request, setRequest] = useState("");
  const [model, setModel] = useState("");
  const [found, setFound] = useState<{ proposal: Proposal; placed: Structure; base: Structure } | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const isStale = found !== null && found.base !== structure;
  useEffect(() => {
    onPreview(found && !isStale ? { structure: found.placed, marks: marksOfDiff(found.proposal) } : null);
  }, [found, isStale]);
  useEffect(() => () => onPreview(null), []);
  const ask = async () => {
    setBusy(true);
    setProblem(null);
    setFound(null);
    try {
      await save();
      const proposal = await editing.propose(workflowId, { request, ...(model ? { model } : {}) });
      setFound({ proposal, placed: withPlaces(proposal.workflowStructure), base: structure });
    } catch (error) {
      setProblem(problemOf(error));
    }
    setBusy(false);
  };
  const { usage } = found?.proposal ?? {};
  const tokens = (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0);
  return (
    <div className="nodeeditor">
      <div className="section">
        <div className="row between">
          <h2>{t("ask.title")}</h2>
          <button type="button" className="button plain square" aria-label={t("common.close")} onClick={onClose}><Icon name="close" /></button>
        </div>
        <p className="hint">{t("ask.hint")}</p>
        <div className="field">
          <label htmlFor={id}>{t("ask.request")}</label>
          <textarea id={id} className="input" rows={5} maxLength={LONGEST} disabled={busy} value={request} onChange={(event) => setRequest(event.target.value)}
            onKeyDown={(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && request.trim() && void ask()} />
        </div>
        {models.length > 1 && (
          <div className="field">
            <label htmlFor={`${id}-model`}>{t("data.model")}<span className="hint"> · {t("form.optional")}</span></label>
            <select id={`${id}-model`} className="input" disabled={busy} value={model} onChange={(event) => setModel(event.target.value)}>
              <option value="">{t("form.choose")}</option>
              {models.map((name) => <option key={name} value={name}>{brief(name, 60)}</option>)}
            </select>
          </div>
        )}
        <div><button type="button" className="button primary" disabled={busy || !request.trim()} onClick={() => void ask()}>{t("ask.run")}</button></div>
        {busy && <div role="status"><span className="sr">{t("ask.busy")}</span><Loading rows={2} /></div>}
        <Refusal text={problem && brief(problem.message, 600)} />
      </div>
      {found && (
        <div className="section" role="group" aria-label={t("ask.proposal")}>
          <p className="text" role="status">{visible(brief(found.proposal.explanation, 1_000))}</p>
          <DiffView diff={found.proposal.diff} structure={found.proposal.workflowStructure} />
          <p className="hint">{t("ask.cost", { count: found.proposal.runIds.length, tokens: number(tokens) })}</p>
          {isStale && <p className="hint">{t("ask.stale")}</p>}
          <div className="row wrap">
            <button type="button" className="button primary" disabled={isStale} onClick={() => onApply(found.placed)}>{t("ask.apply")}</button>
            <button type="button" className="button" onClick={() => setFound(null)}>{t("builder.discard")}</button>
          </div>
        </div>
      )}
    </div>
  );
}

function marksOfDiff({ diff }: Proposal): Marks {
  const outcomes = new Map<string, string>([
    ...diff.nodes.added.map((id): [string, string] => [id, "added"]), ...diff.nodes.changed.map(({ id }): [string, string] => [id, "changed"]),
  ]);
  return { outcomes, taken: new Set(diff.edges.added), current: null, never: new Set() };
}
