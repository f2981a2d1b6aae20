import { useEffect, useState } from "react";
import { ApiError } from "../api/client";
import type { Difference, RunRecord } from "../api/types";
import { problemOf, useHost } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { Dialog, type Problem, Status } from "../kit/kit";
import { Named } from "../kit/named";
import { brief, visible } from "../kit/safe";
import { PlaceLink, useActorName } from "./parts";

/** How the execution came to its present turn: who started it, continued it and retried it; and what it was forked from. */
export function Story({ turns }: { turns: RunRecord[] }) {
  const { t, dateTime } = useLanguage();
  const actor = useActorName();
  const source = turns[0]?.forkedFrom;
  if (turns.length < 2 && !source) return null;
  const began = (index: number) => (index === 0 ? "run.turnStarted" : turns[index - 1]!.retriedBy === turns[index]!.runId ? "run.turnRetried" : "run.turnContinued");
  return (
    <div className="story">
      {source && (
        <p className="row"><Icon name="link" /><span className="muted">{t("run.forkedFrom")}</span>
          <PlaceLink to={{ page: "run", id: source }} className="mono clip">{source}</PlaceLink></p>
      )}
      {turns.length > 1 && (
        <details>
          <summary>{t("run.turns", { count: turns.length })}</summary>
          <ol>
            {turns.map((turn, index) => (
              <li key={turn.runId} className="row wrap">
                <Status value={turn.status} />
                <span>{t(began(index))} {actor(turn.startedBy) && <b>{actor(turn.startedBy)}</b>}</span>
                <time className="muted num" dateTime={turn.createdAt}>{dateTime(turn.createdAt)}</time>
              </li>
            ))}
          </ol>
        </details>
      )}
    </div>
  );
}

const VERSIONS = ["pinned", "published", "draft"] as const;

/** Asks with which version a run is retried, and shows what keeps it from fitting. */
export function RetryDialog({ run, onClose, onRetried }: { run: RunRecord; onClose: () => void; onRetried: () => Promise<void> }) {
  const { t } = useLanguage();
  const { api } = useHost();
  const [version, setVersion] = useState<(typeof VERSIONS)[number]>("pinned");
  const [canManage, setCanManage] = useState(false);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    if (run.target.type === "workflow" && run.target.id !== null) void api.workflow(run.target.id).then((found) => setCanManage(found?.canManage === true));
  }, [api, run.target.type, run.target.id]);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [differences, setDifferences] = useState<Difference[]>([]);
  const send = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await api.retry(run.runId, version);
      await onRetried();
      return onClose();
    } catch (error) {
      setProblem(problemOf(error));
      setDifferences(error instanceof ApiError && Array.isArray(error.info.differences) ? (error.info.differences as unknown as Difference[]) : []);
      if (error instanceof ApiError && error.status === 409) await onRetried();
    }
    setBusy(false);
  };
  return (
    <Dialog title={t("run.retryAsk")} onClose={onClose} actions={
      <>
        <button type="button" className="button" onClick={onClose}>{t("common.cancel")}</button>
        <button type="button" className="button primary" autoFocus disabled={busy} onClick={() => void send()}>{t("run.retry")}</button>
      </>
    }>
      <p className="muted">{t("run.retryHint")}</p>
      {run.target.type === "workflow" && (
        <fieldset className="stack" style={{ gap: 2 }}>
          <legend>{t("run.retryVersion")}</legend>
          {VERSIONS.filter((one) => one !== "draft" || canManage).map((one) => (
            <label key={one} className="check">
              <input type="radio" name="version" checked={version === one} onChange={() => { setVersion(one); setProblem(null); setDifferences([]); }} />
              {t(`run.retry.${one}`)}
            </label>
          ))}
        </fieldset>
      )}
      {problem && (
        <div className="notice bad" role="alert">
          <Icon name="error" />
          <div className="grow stack" style={{ gap: 6 }}>
            <strong className="text"><Named text={visible(problem.message)} /></strong>
            {differences.length > 0 && (
              <ul aria-label={t("run.differences")}>
                {differences.slice(0, 20).map((one, index) => (
                  <li key={index}><span className="mono">{brief(one.nodeId, 60)}</span> <span className="muted"><Named text={brief(one.message, 200)} /></span></li>
                ))}
              </ul>
            )}
          </div>
        </div>
      )}
    </Dialog>
  );
}
