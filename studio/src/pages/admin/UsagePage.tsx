import { useEffect, useMemo, useRef, useState } from "react";
import { MOST_PEOPLE } from "../../api/people";
import type { UsageGroup, UsageReport } from "../../api/records";
import type { Caller } from "../../api/types";
import { useChanges, useHost, useLoaded } from "../../elements/context";
import { Empty, Failure, Loading, Tabs } from "../../kit/kit";
import { brief } from "../../kit/safe";
import { type Context, memberName } from "./collection";
import { useContextOf } from "./CollectionPage";

const GROUPS = ["day", "model", "workflow", "skill", "user", "origin"];
const MEASURES = ["cost", "tokens", "calls"] as const;
/** The least time between two reads while runs go on. */
const RELOAD_MS = 2_000;
type Measure = (typeof MEASURES)[number];

const valueOf = (one: UsageGroup, measure: Measure) =>
  measure === "cost" ? (one.cost ?? 0) : measure === "calls" ? one.calls : one.inputTokens + one.outputTokens;

/** What models have cost, as a chart and as a table. Without administration, the caller's own. */
export function UsagePage({ me }: { me: Caller }) {
  const context = useContextOf(me);
  const { t, records } = context;
  const [days, setDays] = useState(30);
  const [by, setBy] = useState("day");
  const [chosen, setMeasure] = useState<Measure | null>(null);
  const from = useMemo(() => new Date(Math.floor(context.now() / 60_000 - days * 1_440) * 60_000).toISOString(), [days]);
  const { value, problem, loading, reload } = useLoaded(`${from} ${by}`, () => records.usage(from, by));
  useChanges(["run"], reload, RELOAD_MS);
  const measure = chosen ?? (value && value.totals.cost === null ? "tokens" : "cost");
  const [shown, setShown] = useState(ROWS);
  useEffect(() => setShown(ROWS), [by]);
  const rows = value?.usage ?? [];
  const names = useNames(value?.groupBy, [...largest(rows, measure), ...rows.slice(0, shown)].map((one) => one.key), context);
  return (
    <div className="page admin">
      <div className="head"><h1>{t("nav.usage")}</h1></div>
      <div className="filters" role="search" aria-label={t("runs.filters")}>
        <div className="field">
          <label htmlFor="f-days">{t("usage.period")}</label>
          <select id="f-days" className="input" value={days} onChange={(event) => setDays(Number(event.target.value))}>
            {[7, 30, 90].map((one) => <option key={one} value={one}>{t("usage.days", { count: one })}</option>)}
          </select>
        </div>
        <div className="field">
          <label htmlFor="f-measure">{t("usage.measure")}</label>
          <select id="f-measure" className="input" value={measure} onChange={(event) => setMeasure(event.target.value as Measure)}>
            {MEASURES.map((one) => <option key={one} value={one}>{t(`usage.${one}`)}</option>)}
          </select>
        </div>
      </div>
      <Tabs label={t("usage.by")} value={by} onChange={setBy} panel="usage" items={GROUPS.map((one) => ({ id: one, text: t(`usage.by.${one}`) }))} />
      <div className="scroll" id="usage" role="tabpanel" aria-label={t(`usage.by.${by}`)} tabIndex={0}>
        {problem && !value ? <Failure problem={problem} onRetry={reload} /> : loading && !value ? <Loading rows={8} />
          : !value?.usage.length ? <Empty icon="usage" title={t("usage.empty")} hint={t("usage.hint")} /> : (
            <div className="usage">
              <Totals report={value} context={context} />
              <Chart report={value} measure={measure} names={names} context={context} />
              <Table report={value} shown={shown} names={names} context={context} onMore={() => setShown(shown + ROWS)} />
            </div>
          )}
      </div>
    </div>
  );
}

/** The names of users and workflows that the report has only the ids of; of workflows, those of `keys`. */
function useNames(groupBy: string | undefined, keys: (string | null)[], { records, t }: Context): (key: string | null) => string {
  const { api } = useHost();
  const [names, setNames] = useState<Record<string, string>>({});
  const known = useRef(names);
  const wanted = JSON.stringify([...new Set(keys)].filter((key) => key !== null && (groupBy === "user" || (groupBy === "workflow" && Number(key) > 0))));
  useEffect(() => {
    let live = true;
    const keep = (found: Record<string, string>) => void (live && setNames((known.current = { ...known.current, ...found })));
    const ids = (JSON.parse(wanted) as string[]).filter((id) => known.current[`${groupBy} ${id}`] === undefined);
    const read = async () => {
      if (!ids.length) return;
      const people = groupBy === "user" ? await records.people() : [];
      keep(Object.fromEntries(people.map((one) => [`user ${one.userId}`, memberName(one)])));
      const rest = ids.filter((id) => known.current[`${groupBy} ${id}`] === undefined);
      const person = async (id: string) => (people.length < MOST_PEOPLE ? id : records.names.read(id).then(() => records.names.known(id)));
      const name = async (id: string) => (groupBy === "user" ? await person(id) : (await api.workflow(Number(id)))?.name) ?? id;
      keep(Object.fromEntries(await Promise.all(rest.map(async (id) => [`${groupBy} ${id}`, await name(id)] as const))));
    };
    read().catch(() => undefined);
    return () => void (live = false);
  }, [groupBy, wanted, records, api]);
  return (key) => brief(key === null ? t("common.none") : (names[`${groupBy} ${key}`] ?? key), 60);
}

const money = (context: Context, value: number | null) => (value === null ? "–" : context.number(value, { maximumFractionDigits: value < 1 ? 4 : 2 }));

function Totals({ report, context }: { report: UsageReport; context: Context }) {
  const { t, number } = context;
  const { totals } = report;
  const tiles: [string, string][] = [
    ["usage.cost", money(context, totals.cost)], ["usage.calls", number(totals.calls)], ["usage.input", number(totals.inputTokens)], ["usage.output", number(totals.outputTokens)],
  ];
  return <dl className="tiles">{tiles.map(([name, value]) => <div key={name} className="card"><dt>{t(name)}</dt><dd className="num">{value}</dd></div>)}</dl>;
}

const MOST_BARS = 92;
const LARGEST = 12;

const largest = (rows: UsageGroup[], measure: Measure) => [...rows].sort((a, b) => valueOf(b, measure) - valueOf(a, measure)).slice(0, LARGEST);

/** Bars over days, or from the largest to the smallest. The table below has the same figures. */
function Chart({ report, measure, names, context }: { report: UsageReport; measure: Measure; names: (key: string | null) => string; context: Context }) {
  const { t, number } = context;
  const daily = report.groupBy === "day";
  const rows = daily ? everyDay(report) : largest(report.usage, measure);
  const most = Math.max(...rows.map((one) => valueOf(one, measure)), 0) || 1;
  const shown = (one: UsageGroup) => (measure === "cost" ? money(context, one.cost) : number(valueOf(one, measure)));
  const label = t("usage.chart", { measure: t(`usage.${measure}`), by: t(`usage.by.${report.groupBy}`) });
  if (!daily) {
    return (
      <div className="hbars" role="img" aria-label={label}>
        {rows.map((one) => (
          <div key={String(one.key)} className="hbar">
            <span className="clip">{names(one.key)}</span>
            <span className="track"><span style={{ width: `${(valueOf(one, measure) / most) * 100}%` }} /></span>
            <span className="num end">{shown(one)}</span>
          </div>
        ))}
      </div>
    );
  }
  const width = 100 / rows.length;
  return (
    <figure className="chart">
      <svg viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label={label}>
        {rows.map((one, index) => {
          const height = (valueOf(one, measure) / most) * 38;
          return (
            <rect key={String(one.key)} x={index * width + width * 0.14} width={width * 0.72} y={40 - height} height={height}>
              <title>{`${one.key}: ${shown(one)}`}</title>
            </rect>
          );
        })}
      </svg>
      <figcaption className="row between muted num"><span>{rows[0]?.key}</span><span>{measure === "cost" ? money(context, most) : number(most)} {t("usage.most")}</span><span>{rows.at(-1)?.key}</span></figcaption>
    </figure>
  );
}

/** Each day of the period; those without calls too. */
export function everyDay(report: UsageReport): UsageGroup[] {
  const known = new Map(report.usage.map((one) => [one.key, one]));
  const days: UsageGroup[] = [];
  const last = report.to.slice(0, 10);
  for (let at = Date.parse(`${report.from.slice(0, 10)}T00:00:00Z`); days.length < MOST_BARS; at += 86_400_000) {
    const key = new Date(at).toISOString().slice(0, 10);
    days.push(known.get(key) ?? { key, calls: 0, inputTokens: 0, outputTokens: 0, durationMs: 0, cost: 0 });
    if (key >= last) break;
  }
  return days;
}

/** How many rows are shown, and how many more each time. */
const ROWS = 50;

function Table({ report, shown, names, context, onMore }: { report: UsageReport; shown: number; names: (key: string | null) => string; context: Context; onMore: () => void }) {
  const { t, number } = context;
  const further = report.usage.length - shown;
  return (
    <div className="tablebox" role="region" aria-label={t(`usage.by.${report.groupBy}`)} tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">{t(`usage.by.${report.groupBy}`)}</th><th scope="col">{t("usage.calls")}</th><th scope="col">{t("usage.input")}</th><th scope="col">{t("usage.output")}</th><th scope="col">{t("usage.cost")}</th>
          </tr>
        </thead>
        <tbody>
          {report.usage.slice(0, shown).map((one) => (
            <tr key={String(one.key)}>
              <th scope="row">{names(one.key)}</th><td>{number(one.calls)}</td><td>{number(one.inputTokens)}</td><td>{number(one.outputTokens)}</td><td>{money(context, one.cost)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {further > 0 && <button type="button" className="button small" onClick={onMore}>{t("common.moreRows", { count: further })}</button>}
    </div>
  );
}
