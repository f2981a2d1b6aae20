import { type ReactNode, useCallback, useEffect, useRef, useState } from "react";
import { MOST_NEXT, type Scheduled } from "../../api/records";
import type { Caller } from "../../api/types";
import { problemOf, useChanges, useHost, useLatest, useLoaded } from "../../elements/context";
import { Icon } from "../../kit/icons";
import { Empty, Failure, Loading, Tabs, VirtualRows } from "../../kit/kit";
import { Named, Refusal } from "../../kit/named";
import { brief, visible } from "../../kit/safe";
import { PlaceLink } from "../parts";
import { type Context } from "./collection";
import { calendarOf } from "./calendar";
import { Title, useContextOf, useFocusReturn } from "./CollectionPage";

const TEMPLATE = "100px minmax(120px, 1.6fr) minmax(120px, 1.6fr) minmax(60px, 0.8fr)";
/** Pages that are read, and again as many on demand. */
const PAGES = 4;
/** The next times that the details show. */
const TIMES = 10;
const MOST_SLOTS = 3;

interface Found {
  schedules: Scheduled[];
  /** Whether there are more. */
  isCut: boolean;
}

const stateOf = ({ paused }: Scheduled) => (!paused ? "on" : paused.reason === "disabled" ? "off" : "paused");

/** All schedules of the workflows that the caller can see, as a list and as a calendar of four weeks. */
export function SchedulesPage({ me }: { me: Caller }) {
  const context = useContextOf(me);
  const { t, records } = context;
  const pages = useRef(PAGES);
  const [view, setView] = useState("list");
  const { value, problem, loading, reload } = useLoaded<Found>(`schedules ${view}`, async () => {
    const rows: Scheduled[] = [];
    let next: string | null = null;
    for (let page = 0; page < pages.current; page++) {
      const found: { rows: Scheduled[]; next: string | null } = await records.schedules(view === "list" ? TIMES : MOST_NEXT, next);
      rows.push(...found.rows);
      if ((next = found.next) === null) break;
    }
    return { schedules: rows.sort((a, b) => (a.nextAt ?? "9").localeCompare(b.nextAt ?? "9") || a.id - b.id), isCut: next !== null };
  });
  const more = () => {
    pages.current += PAGES;
    reload();
  };
  const cut = value?.isCut && <Cut count={value.schedules.length} busy={loading} context={context} onMore={more} />;
  const [chosen, setChosen] = useState<number | null>(null);
  useChanges(["workflow"], reload, 800);
  const box = useFocusReturn(chosen === null ? null : String(chosen));
  const one = value?.schedules.find((found) => found.id === chosen);
  return (
    <div className="page admin" ref={box}>
      <div className="head"><h1>{t("nav.schedules")}</h1></div>
      <Tabs label={t("schedules.views")} value={view} onChange={setView} panel="schedules" items={["list", "calendar"].map((name) => ({ id: name, text: t(`schedules.${name}`) }))} />
      <div className={`split${one ? "" : " alone"}`}>
        <div className="main" id="schedules" role="tabpanel" aria-label={t(`schedules.${view}`)}>
          {problem && !value ? <Failure problem={problem} onRetry={reload} /> : loading && !value ? <Loading rows={8} />
            : !value?.schedules.length ? <Empty icon="clock" title={t("schedules.empty")} hint={t("schedules.hint")} />
            : view === "list" ? <List found={value} chosen={chosen} context={context} cut={cut} onChoose={setChosen} />
            : <Calendar found={value} context={context} cut={cut} onChoose={setChosen} />}
        </div>
        <aside className="side" aria-label={t("admin.details")} tabIndex={0} hidden={!one}>
          {one && <Details key={one.id} one={one} context={context} onClose={() => setChosen(null)} onChanged={reload} />}
        </aside>
      </div>
    </div>
  );
}

/** The time on the wall where the schedule is, such as 2026-11-23 07:30 +01:00. */
const localTime = (local: string) => visible(local).replace(/^([\d-]+)T([\d:]{5}):\d\d(?:\.\d+)?/, "$1 $2 ");

function StateOf({ one, context }: { one: Scheduled; context: Context }) {
  const state = stateOf(one);
  const [tone, icon] = { on: ["ok", "done"], paused: ["wait", "pause"], off: ["", "skipped"] }[state]!;
  return <span className={`status ${tone}`}><Icon name={icon!} />{context.t(`schedules.${state}`)}</span>;
}

/** Tells that only some of the schedules are shown. */
function Cut({ count, busy, context, onMore }: { count: number; busy: boolean; context: Context; onMore: () => void }) {
  const { t } = context;
  return (
    <div className="row wrap pad">
      <p className="hint">{t("schedules.more", { count })}</p>
      <button type="button" className="button small" disabled={busy} onClick={onMore}>{busy && <Icon name="running" spin />}{t("common.more")}</button>
    </div>
  );
}

function List({ found, chosen, context, cut, onChoose }: { found: Found; chosen: number | null; context: Context; cut: ReactNode; onChoose: (id: number) => void }) {
  const { t, dateTime, number } = context;
  return (
    <>
      <div className="columns" aria-hidden="true" style={{ gridTemplateColumns: TEMPLATE }}>
        <span>{t("admin.status")}</span><span>{t("admin.name")}</span><span className="wide">{t("schedules.next")}</span><span className="wide">{t("schedules.missed")}</span>
      </div>
      <VirtualRows count={found.schedules.length} height={47} label={t("nav.schedules")} footer={cut} row={(index) => {
        const one = found.schedules[index]!;
        const { id } = one;
        return (
          <div role="listitem" key={id} data-record={id} style={{ height: 47 }}>
            <button type="button" className={`line record${id === chosen ? " current" : ""}`} aria-pressed={id === chosen} style={{ gridTemplateColumns: TEMPLATE }} onClick={() => onChoose(id)}>
              <StateOf one={one} context={context} />
              <b className="title clip">{brief(one.name, 120)}</b>
              <span className="clip wide num">{one.nextAt ? dateTime(one.nextAt) : "–"}</span>
              <span className="clip wide num">{one.missed.length ? <span className="errortext">{number(one.missed.length)}</span> : "–"}</span>
            </button>
          </div>
        );
      }} />
    </>
  );
}

function Calendar({ found, context, cut, onChoose }: { found: Found; context: Context; cut: ReactNode; onChoose: (id: number) => void }) {
  const { t, locale } = context;
  const [now] = useState(context.now);
  const days = calendarOf(found.schedules, now);
  const dayName = new Intl.DateTimeFormat(locale, { weekday: "short", day: "numeric", month: "short" });
  const time = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit" });
  const isToday = (at: number) => new Date(at).toDateString() === new Date(now).toDateString();
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={t("schedules.calendar")}>
      {days.every((day) => !day.slots.length) && <p className="pad muted">{t("schedules.nothing")}</p>}
      <ol className="calendar">
        {days.map((day) => (
          <li key={day.at} className={`${isToday(day.at) ? "today" : day.at < now ? "past" : ""}${day.slots.length ? "" : " free"}`} aria-current={isToday(day.at) ? "date" : undefined}>
            <h2 className="label muted"><time dateTime={new Date(day.at).toISOString()}>{dayName.format(day.at)}</time></h2>
            <ul>
              {day.slots.slice(0, MOST_SLOTS).map((slot) => (
                <li key={slot.of.id} data-record={slot.of.id}>
                  <button type="button" className={`slot${stateOf(slot.of) === "on" ? "" : " off"}`} onClick={() => onChoose(slot.of.id)}>
                    <span className="num">{slot.count > 1 ? `×${slot.count}` : time.format(slot.at)}</span>
                    <span className="clip">{brief(slot.of.name, 60)}</span>
                    {stateOf(slot.of) !== "on" && <span className="sr">{t(`schedules.${stateOf(slot.of)}`)}</span>}
                  </button>
                </li>
              ))}
            </ul>
            {day.slots.length > MOST_SLOTS && <span className="hint">{t("schedules.further", { count: day.slots.length - MOST_SLOTS })}</span>}
          </li>
        ))}
      </ol>
      {found.schedules.some((one) => one.nextRuns.length >= MOST_NEXT) && <p className="pad hint">{t("schedules.horizon", { count: MOST_NEXT })}</p>}
      {cut}
    </div>
  );
}

/** The schedule of one workflow, and the switch for who manages the workflow. */
function Details({ one, context, onClose, onChanged }: { one: Scheduled; context: Context; onClose: () => void; onChanged: () => void }) {
  const { t, dateTime, me, records } = context;
  const host = useHost();
  const [etag, setEtag] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const begin = useLatest();
  const read = useCallback(() => {
    const isLatest = begin();
    void records.workflow(one.id).then((found) => isLatest() && setEtag(found.etag), () => undefined);
  }, [begin, records, one]);
  useEffect(read, [read]);
  const offered = !host.readonly && host.wants("manage") && me.scopes.includes("workflows:write");
  const toggle = async () => {
    setProblem(null);
    try {
      const changed = await records.toggle(one.id, !one.isEnabled, etag);
      begin(); // what was read before is older
      setEtag(changed.etag);
    } catch (error) {
      setProblem(problemOf(error).message);
      read();
    }
    onChanged();
  };
  return (
    <>
      <div className="section">
        <Title text={<span className="text">{visible(one.name)}</span>} onClose={onClose} />
        <dl className="facts">
          <div className="fact"><dt>{t("admin.status")}</dt><dd><StateOf one={one} context={context} /></dd></div>
          {one.paused && one.paused.reason !== "disabled" && <div className="fact"><dt>{t("schedules.why")}</dt><dd className="text"><Named text={visible(one.paused.message)} /></dd></div>}
          <div className="fact"><dt>{t("schedules.next")}</dt><dd>{one.nextAt ? dateTime(one.nextAt) : t("schedules.never")}</dd></div>
          <div className="fact"><dt>{t("schedules.overlap")}</dt><dd>{t(`schedules.overlap.${one.overlap}`)}</dd></div>
          {one.lastRunId && <div className="fact"><dt>{t("schedules.lastRun")}</dt><dd><PlaceLink to={{ page: "run", id: one.lastRunId }}><span className="mono">{one.lastRunId}</span></PlaceLink></dd></div>}
        </dl>
        <Refusal text={problem} />
        <div className="row wrap">
          {offered && one.canManage && <button type="button" className="button" onClick={() => void toggle()}>{t(one.isEnabled ? "schedules.turnOff" : "schedules.turnOn")}</button>}
          <PlaceLink to={{ page: "workflow", id: String(one.id) }} className="button">{t("schedules.builder")}</PlaceLink>
        </div>
        {offered && !one.canManage && <p className="hint">{t("schedules.denied")}</p>}
      </div>
      {one.missed.length > 0 && (
        <div className="section">
          <h3>{t("schedules.missed")}</h3>
          <ul className="stack">{one.missed.map((slot) => <li key={slot.at}><span className="num">{dateTime(slot.at)}</span> <span className="muted">{t(`schedules.reason.${slot.reason}`)}</span></li>)}</ul>
        </div>
      )}
      <div className="section">
        <h3>{t("schedules.times")}</h3>
        <ol className="stack" style={{ gap: 4 }}>
          {one.nextRuns.slice(0, TIMES).map((run) => (
            <li key={run.at}><time className="num" dateTime={run.at}>{localTime(run.local)}</time>{run.note && <span className="hint"> {visible(run.note)}</span>}</li>
          ))}
        </ol>
        {!one.nextRuns.length && <p className="muted">{t("schedules.never")}</p>}
      </div>
    </>
  );
}
