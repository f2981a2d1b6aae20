import { useMemo, useState } from "react";
import { timescale } from "../canvas/timescale";
import { useNow } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { Empty, toneOf, VirtualRows } from "../kit/kit";
import { Named } from "../kit/named";
import { brief } from "../kit/safe";
import { placeName, placeOf, type RunModel } from "../run/model";

interface Shared {
  model: RunModel;
  version: number;
  onSelect: (path: string[], id: string) => void;
}

const toneFor = (status: string) => (status === "done" ? "ok" : toneOf(status));

/** One row for each visit of a node, on one line of time; long idle stretches are cut. */
export function Timeline({ model, version, live, selected, onSelect }: Shared & { live: boolean; selected: string | null }) {
  const { t, duration } = useLanguage();
  const [collapse, setCollapse] = useState(true);
  const now = useNow(live ? 1_000 : 60_000);
  const { rows, scale } = useMemo(() => {
    const found = [...model.nodes.values()].flatMap((node) => node.visits.map((visit) => ({ node, visit })))
      .filter((row) => row.visit.startedAt > 0).sort((a, b) => a.visit.startedAt - b.visit.startedAt);
    const to = live ? Math.max(now, model.latest) : model.latest;
    const whole = { from: Math.min(model.started, found[0]?.visit.startedAt ?? to), to };
    const busy = found.flatMap(({ visit }) => {
      const end = visit.finishedAt ?? to;
      const spans = [];
      let from = visit.startedAt;
      for (const wait of visit.waits) {
        spans.push({ from, to: wait.from });
        from = wait.to ?? end;
      }
      return [...spans, { from, to: end }];
    });
    return { rows: found, scale: timescale(busy, whole, collapse) };
  }, [model, version, collapse, live, live ? now : 0]);
  if (!rows.length) return <Empty icon="clock" title={t("status.pending")} />;
  const percent = (value: number) => `${(value * 100).toFixed(3)}%`;
  return (
    <>
      <div className="bar">
        <label className="check"><input type="checkbox" checked={collapse} onChange={(event) => setCollapse(event.target.checked)} />{t("run.idle")}</label>
      </div>
      <VirtualRows count={rows.length} height={32} label={t("run.timeline")} row={(index) => {
        const { node, visit } = rows[index]!;
        const end = visit.finishedAt ?? Math.max(model.latest, live ? now : 0);
        const bars: { from: number; to: number; tone: string }[] = [];
        let from = visit.startedAt;
        for (const wait of visit.waits) {
          bars.push({ from, to: wait.from, tone: "busy" }, { from: wait.from, to: wait.to ?? end, tone: "wait" });
          from = wait.to ?? end;
        }
        bars.push({ from, to: end, tone: toneFor(visit.status) });
        const name = placeName(node.path, node.id);
        return (
          <div role="listitem" key={`${node.key}/${visit.visit}`}>
            <button type="button" className="trow" aria-current={node.key === selected} onClick={() => onSelect(node.path, node.id)}>
              <span className="row" style={{ gap: 6, paddingInlineStart: Math.min(Math.max(0, node.path.length - 1), 5) * 12 }}>
                <span className={`status ${toneFor(visit.status)}`}><Icon name={visit.status} spin={visit.status === "running"} /></span>
                {node.path.length > 0 && <span className="above clip muted">{brief(placeName(node.path.slice(-1)), 40)} ›</span>}
                <span className="clip">{brief(node.id, 60)}{node.visits.length > 1 ? ` ×${visit.visit}` : ""}</span>
                <span className="sr">{node.path.length ? name : ""} {t(`status.${visit.status}`)}</span>
              </span>
              <span className="track" aria-hidden="true">
                {index === 0 && scale.cuts.map((cut) => <span key={cut.from} className="cut" style={{ insetInlineStart: percent(cut.at) }} title={t("run.idleCut", { time: duration(cut.to - cut.from) })} />)}
                {bars.filter((bar) => bar.to >= bar.from).map((bar, at) => (
                  <span key={at} className={`span ${bar.tone}`} style={{ insetInlineStart: percent(scale.at(bar.from)), width: percent(Math.max(0, scale.at(bar.to) - scale.at(bar.from))) }} />
                ))}
              </span>
              <span className="end muted num">{duration(end - visit.startedAt)}</span>
            </button>
          </div>
        );
      }} />
    </>
  );
}

export function EventList({ model, version, onSelect }: Shared) {
  const { t, has, clock } = useLanguage();
  const events = useMemo(() => model.log.filter((event) => event.kind !== "message_delta"), [model, version]);
  if (!events.length) return <Empty icon="runs" title={t("status.pending")} />;
  return (
    <VirtualRows count={events.length} height={30} label={t("run.events")} row={(index) => {
      const event = events[index]!;
      const key = `event.${event.kind}`;
      const error = event.error as { message?: string } | undefined;
      const text = error?.message ?? event.message ?? event.content ?? event.name ?? "";
      return (
        <div role="listitem" className="erow" key={index}>
          <span className="num muted">{clock(event.at)}</span>
          <span className={event.kind.includes("fail") || event.kind === "error" ? "errortext" : ""}>{has(key) ? t(key) : event.kind}</span>
          <span className="clip">
            {event.nodeId && <button type="button" className="button plain small" onClick={() => onSelect(placeOf(event), event.nodeId!)}>{brief(placeName(placeOf(event), event.nodeId), 60)}</button>}
          </span>
          <span className="clip muted">{typeof text === "string" ? <Named text={brief(text, 200)} /> : brief(JSON.stringify(text), 200)}</span>
        </div>
      );
    }} />
  );
}
