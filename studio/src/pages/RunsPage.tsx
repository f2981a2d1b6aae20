import { type ReactNode, useEffect, useMemo, useState } from "react";
import type { Page, RunFilters } from "../api/api";
import { RUN_STATUSES, type RunRecord, type Workflow } from "../api/types";
import { useHost, useNow } from "../elements/context";
import { type Pages, usePages } from "../elements/paging";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { Empty, Failure, Loading, Status, VirtualRows } from "../kit/kit";
import { Named } from "../kit/named";
import { brief } from "../kit/safe";
import { durationOf, isOpen, PlaceLink, Target, useActorName } from "./parts";

const SINCE: Record<string, number> = { hour: 3_600_000, day: 86_400_000, week: 604_800_000 };
const ROW = 47;
const MOST_PAGES = 10;

export interface RunsProps {
  workflowId?: string;
  /** The filters of the address; without them the page keeps its own. */
  query?: Record<string, string>;
  onQuery?: (query: Record<string, string>) => void;
}

/** The runs that the caller may read, newest first. Turns that were carried on stand with their last one. */
export default function RunsPage({ workflowId, query, onQuery }: RunsProps) {
  const { t } = useLanguage();
  const host = useHost();
  const [own, setOwn] = useState<Record<string, string>>({});
  const chosen = query ?? own;
  const list = useRuns(workflowId, chosen);
  const filtered = Object.values(chosen).some(Boolean);
  const set = (name: string, value: string) => {
    const next = Object.fromEntries(Object.entries({ ...chosen, [name]: value }).filter(([, one]) => one));
    setOwn(next);
    onQuery?.(next);
  };
  const now = useNow(list.rows.some(isOpen) ? 1_000 : 30_000);

  return (
    <div className="page">
      <div className="head">
        <h1>{t("runs.title")}</h1>
        <span className="muted num" role="status">
          {!list.loading && (list.next ? t("runs.countMore", { count: list.rows.length }) : t("runs.count", { count: list.rows.length }))}
        </span>
      </div>
      {host.wants("filters") && <Filters chosen={chosen} set={set} clear={() => { setOwn({}); onQuery?.({}); }} fixed={workflowId} />}
      {list.problem && !list.rows.length ? <Failure problem={list.problem} onRetry={list.reload} />
        : list.loading && !list.rows.length ? <Loading rows={10} />
        : !list.rows.length ? (
          <Empty icon="runs" title={filtered ? t("runs.noMatch") : t("runs.empty")} {...(filtered ? {} : { hint: t("runs.emptyHint"), action: <PlaceLink to={{ page: "workflows" }} className="button">{t("runs.toWorkflows")}</PlaceLink> })} />
        ) : (
          <>
            <div className="columns" aria-hidden="true">
              <span>{t("runs.status")}</span><span>{t("runs.target")}</span><span>{t("runs.by")}</span><span>{t("runs.origin")}</span>
              <span className="end">{t("runs.started")}</span><span className="end">{t("runs.duration")}</span>
            </div>
            <VirtualRows count={list.rows.length} height={ROW} label={t("runs.title")} pages={list}
              row={(index) => <Line key={list.rows[index]!.runId} run={list.rows[index]!} now={now} />} />
          </>
        )}
    </div>
  );
}

function Line({ run, now }: { run: RunRecord; now: number }) {
  const { t, has, ago, dateTime, duration } = useLanguage();
  const actor = useActorName();
  const took = durationOf(run, now);
  return (
    <div role="listitem" style={{ height: ROW }}>
      <PlaceLink to={{ page: "run", id: run.runId }} className="line">
        <span className="c-status"><Status value={run.status} /></span>
        <span className="c-target" style={{ minWidth: 0 }}>
          <span className="title clip" style={{ display: "block" }}><Target of={run.target} /></span>
          <span className="sub clip" style={{ display: "block" }}>
            {run.error && run.status === "error" ? <span className="errortext" style={{ fontFamily: "var(--font)" }}><Named text={brief(run.error.message, 160)} /></span> : run.runId}
          </span>
        </span>
        <span className="c-by clip muted">{actor(run.executionStartedBy ?? run.startedBy)}</span>
        <span className="c-origin clip muted">{has(`origin.${run.origin}`) ? t(`origin.${run.origin}`) : brief(run.origin ?? "", 40)}</span>
        <time className="c-started end muted num" dateTime={run.createdAt} title={dateTime(run.createdAt)}>{ago(run.createdAt, Math.max(now, Date.parse(run.createdAt)))}</time>
        <span className="c-duration end num">{took === null ? "" : duration(took)}<span className="sr"> {t("runs.duration")}</span></span>
      </PlaceLink>
    </div>
  );
}

function Filters({ chosen, set, clear, fixed }: {
  chosen: Record<string, string>; set: (name: string, value: string) => void; clear: () => void; fixed: string | undefined;
}) {
  const { t } = useLanguage();
  const workflows = useWorkflows(fixed === undefined, chosen.workflowId);
  const select = (name: string, label: string, options: [string, string][], further?: ReactNode) => (
    <div className="field">
      <label htmlFor={`f-${name}`}>{label}</label>
      <select id={`f-${name}`} className="input" value={chosen[name] ?? ""} onChange={(event) => set(name, event.target.value)}>
        <option value="">{t("common.all")}</option>
        {options.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
        {further}
      </select>
    </div>
  );
  return (
    <div className="filters" role="search" aria-label={t("runs.filters")}>
      {select("status", t("runs.status"), RUN_STATUSES.map((status) => [status, t(`status.${status}`)]))}
      {fixed === undefined && select("workflowId", t("runs.workflow"), workflows.rows.map((one) => [String(one.id), brief(one.name, 80)]),
        workflows.cut !== null && <option disabled>{t("runs.furtherWorkflows", { count: workflows.cut })}</option>)}
      {select("since", t("runs.since"), [["hour", t("runs.hour")], ["day", t("runs.day")], ["week", t("runs.week")]])}
      {Object.keys(chosen).length > 0 && <button type="button" className="button plain" onClick={clear}><Icon name="close" />{t("common.clear")}</button>}
    </div>
  );
}

interface Choices {
  rows: Workflow[];
  /** How many were read, if there are more. */
  cut: number | null;
}

/** The workflows to choose from, at most 500, and the chosen one in any case. */
function useWorkflows(wanted: boolean, chosen: string | undefined): Choices {
  const { api } = useHost();
  const [found, setFound] = useState<Choices>({ rows: [], cut: null });
  const [one, setOne] = useState<Workflow | null>(null);
  useEffect(() => {
    let live = true;
    const read = async () => {
      const rows: Workflow[] = [];
      for (let next: string | null = null, pages = 0; live && pages < MOST_PAGES; pages++) {
        const page: Page<Workflow> = await api.workflowPage({}, next);
        rows.push(...page.rows);
        next = page.next;
        if (live) setFound({ rows: [...rows], cut: next === null ? null : rows.length });
        if (next === null) break;
      }
    };
    if (wanted) void read().catch(() => undefined);
    return () => void (live = false);
  }, [api, wanted]);
  useEffect(() => {
    let live = true;
    if (wanted && chosen) void api.workflow(Number(chosen)).then((workflow) => live && setOne(workflow));
    return () => void (live = false);
  }, [api, wanted, chosen]);
  const isMissing = one && String(one.id) === chosen && !found.rows.some((workflow) => workflow.id === one.id);
  return isMissing ? { ...found, rows: [one, ...found.rows] } : found;
}

function useRuns(workflowId: string | undefined, chosen: Record<string, string>): Pages<RunRecord> {
  const { api, client } = useHost();
  const key = JSON.stringify([workflowId, chosen]);
  const filters = useMemo<RunFilters>(() => {
    const since = SINCE[chosen.since ?? ""];
    const { since: _, ...rest } = chosen;
    // A whole minute, so that the next pages ask with the same filter.
    return { ...rest, ...(workflowId ? { workflowId } : {}), ...(since ? { since: new Date(Math.floor((client.now() - since) / 60_000) * 60_000).toISOString() } : {}) };
  }, [key]);
  const load = async (pageToken: string | null) => {
    const page = await api.runs(filters, pageToken);
    return { ...page, rows: page.rows.filter((run) => run.resumedBy === null) };
  };
  return usePages(key, load, (run) => run.runId, ["run", "interrupt"]);
}
