import { useState } from "react";
import type { ItemState, Visit } from "../api/types";
import { useHost, useNow } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { asNumber } from "../kit/json";
import { Status, toneOf } from "../kit/kit";
import { JsonBlock } from "../kit/JsonView";
import { Named } from "../kit/named";
import { brief, visible } from "../kit/safe";
import type { Execution, Snapshot } from "../run/execution";
import { keyOf, type NodeState, partOf, placeName, placeOf, type ShownStructure } from "../run/model";
import { isOpen } from "./parts";

interface Props {
  execution: Execution;
  snapshot: Snapshot;
  path: string[];
  structure: ShownStructure | null;
  id: string;
  onSelect: (path: string[], id: string | null) => void;
  onClose: () => void;
}

export function NodePanel({ execution, snapshot, path, structure, id, onSelect, onClose }: Props) {
  const { t, has, duration, dateTime, number } = useLanguage();
  const run = snapshot.record;
  const now = useNow(run && isOpen(run) ? 1_000 : 60_000);
  const node = execution.model.nodes.get(keyOf(path, id));
  const known = execution.graph(path)?.nodes.find((one) => one.id === id);
  const shape = structure?.nodes.find((one) => one.id === id);
  const type = shape?.type ?? known?.type ?? "action";
  const visits = node?.visits ?? [];
  const [chosen, setChosen] = useState<number | null>(null);
  const at = Math.min(chosen ?? visits.length - 1, visits.length - 1);
  const state = visits[at];
  const full: Visit | undefined = known?.visits[at];
  const error = state?.error ?? full?.error;
  const output = full?.output ?? state?.output;
  const waited = state?.waits.reduce((sum, wait) => sum + (wait.to ?? now) - wait.from, 0) ?? 0;
  const end = state?.finishedAt ?? (run && isOpen(run) ? now : execution.model.latest);
  const attempts = Math.max(state?.attempts ?? 0, full?.attempts ?? 0);
  const cost = asNumber(node?.usage?.cost);
  const tokens = number(["inputTokens", "outputTokens"].reduce((sum, name) => sum + (asNumber(node?.usage?.[name]) ?? 0), 0));
  const tool = shape?.data?.toolId;
  const open = [...execution.model.open.values()].filter((event) => keyOf(placeOf(event), event.nodeId ?? "") === keyOf(path, id));
  return (
    <div>
      <div className="section">
        <div className="row between">
          <h2 className="clip">{brief(id, 80)}</h2>
          <button type="button" className="button plain square" aria-label={t("common.close")} onClick={onClose}><Icon name="close" /></button>
        </div>
        <div className="row wrap">
          <Status value={node?.status ?? known?.status ?? "pending"} />
          <span className="tag"><Icon name={type} />{has(`type.${type}`) ? t(`type.${type}`) : brief(type, 40)}</span>
          {typeof tool === "string" && <span className="tag mono">{brief(tool, 60)}</span>}
        </div>
        {error && <div className="notice bad"><Icon name="error" /><span className="text"><Named text={visible(error.message)} /></span></div>}
        {open.map((event) => (
          <div className="notice wait" key={String(event.interruptId)}><Icon name="waiting" /><span className="text"><Named text={brief(String(event.message ?? event.toolId ?? t("run.waits")), 300)} /></span></div>
        ))}
        {visits.length > 1 && (
          <div className="field">
            <label htmlFor="visit">{t("node.visits")}</label>
            <select id="visit" className="input" value={at} onChange={(event) => setChosen(Number(event.target.value))}>
              {visits.map((visit, index) => <option key={index} value={index}>{t("node.visit", { n: index + 1 })} · {t(`status.${visit.status}`)}</option>)}
            </select>
          </div>
        )}
        {state && (
          <dl className="facts">
            {state.startedAt > 0 && <><dt>{t("run.started")}</dt><dd className="num">{dateTime(state.startedAt)}</dd><dt>{t("run.duration")}</dt><dd className="num">{duration(end - state.startedAt)}</dd></>}
            {waited > 0 && <><dt>{t("node.waited")}</dt><dd className="num">{duration(waited)}</dd></>}
            {attempts > 1 && <><dt>{t("node.attempts")}</dt><dd className="num">{attempts}</dd></>}
            {tokens !== "0" && <><dt>{t("run.tokens")}</dt><dd className="num">{tokens}</dd></>}
            {cost !== null && <><dt>{t("run.cost")}</dt><dd className="num">{number(cost, { maximumFractionDigits: 4 })}</dd></>}
          </dl>
        )}
      </div>
      <Children execution={execution} path={path} id={id} version={snapshot.version} onSelect={onSelect} />
      {known?.items && known.items.length > 0 && <Items items={known.items} />}
      {full && full.input !== undefined && full.input !== null && <Block title={t("node.input")} value={full.input} />}
      {output !== undefined && <Block title={t("node.output")} value={output} />}
      {node && node.steps.length > 0 && <Steps node={node} />}
    </div>
  );
}

function Block({ title, value }: { title: string; value: unknown }) {
  const { client } = useHost();
  const load = (url: string) => client.at<{ value: unknown }>(url).then((found) => found.value);
  return (
    <div className="section">
      <h3>{title}</h3>
      <JsonBlock value={value} label={title} load={load} />
    </div>
  );
}

const MOST_CHILDREN = 20;

/** The children below this node, each folded to one line; those that failed first. */
function Children({ execution, path, id, onSelect }: { execution: Execution; path: string[]; id: string; version: number; onSelect: Props["onSelect"] }) {
  const { t } = useLanguage();
  const [shown, setShown] = useState(MOST_CHILDREN);
  const groups = new Map<string, NodeState[]>();
  for (const node of execution.model.nodes.values()) {
    const part = node.path[path.length];
    if (part === undefined || partOf(part).id !== id || keyOf(node.path.slice(0, path.length), "") !== keyOf(path, "")) continue;
    const group = groups.get(part);
    if (group) group.push(node);
    else groups.set(part, [node]);
  }
  if (!groups.size) return null;
  const rank = (nodes: NodeState[]) => ["error", "waiting", "running"].findIndex((status) => nodes.some((node) => node.status === status)) >>> 0;
  const sorted = [...groups].sort((a, b) => rank(a[1]) - rank(b[1]));
  return (
    <div className="section">
      <h3>{t("node.children")}</h3>
      {sorted.slice(0, shown).map(([part, nodes]) => {
        const status = ["error", "waiting", "running"].find((one) => nodes.some((node) => node.status === one)) ?? "done";
        const worst = nodes.find((node) => node.status === "error");
        const done = nodes.filter((node) => node.status === "done" || node.status === "skipped").length;
        return (
          <div key={part} className="stack" style={{ gap: 4 }}>
            <button type="button" className="child" onClick={() => onSelect([...path, part], null)} aria-label={`${placeName([part])}: ${t("node.openChild")}`}>
              <span className={`status ${status === "done" ? "ok" : toneOf(status)}`}><Icon name={status} spin={status === "running"} /></span>
              <span className="grow clip">{brief(placeName([part]), 60)}</span>
              <span className="muted num">{t("node.itemsDone", { done, total: nodes.length })}</span>
              <Icon name="chevron" />
            </button>
            {worst && (
              <button type="button" className="button plain small" style={{ justifyContent: "flex-start", whiteSpace: "normal", textAlign: "start" }} onClick={() => onSelect(worst.path, worst.id)}>
                <span className="errortext">{brief(worst.id, 60)}: <Named text={brief(worst.visits.at(-1)?.error?.message ?? "", 160)} /></span>
              </button>
            )}
          </div>
        );
      })}
      {sorted.length > shown && <button type="button" className="button small" onClick={() => setShown(shown + 100)}>{t("common.moreRows", { count: sorted.length - shown })}</button>}
    </div>
  );
}

const MOST_ITEMS = 60;

function Items({ items }: { items: ItemState[] }) {
  const { t } = useLanguage();
  const [picked, setPicked] = useState<number | null>(() => items.find((item) => item.status === "error")?.index ?? null);
  const [shown, setShown] = useState(MOST_ITEMS);
  const one = items.find((item) => item.index === picked);
  return (
    <div className="section">
      <div className="row between"><h3>{t("node.items")}</h3><span className="hint num">{t("node.itemsDone", { done: items.filter((item) => item.status === "done").length, total: items.length })}</span></div>
      <div className="items">
        {items.slice(0, shown).map((item) => (
          <button key={item.index} type="button" className={`item ${item.status === "done" ? "ok" : toneOf(item.status)}`} aria-pressed={item.index === picked}
            onClick={() => setPicked(item.index === picked ? null : item.index)}>
            <Icon name={item.status} spin={item.status === "running"} />{item.index + 1}<span className="sr">{t(`status.${item.status}`)}</span>
          </button>
        ))}
      </div>
      {items.length > shown && <button type="button" className="button small" onClick={() => setShown(shown + 500)}>{t("common.moreRows", { count: items.length - shown })}</button>}
      {one && (
        <div className="stack">
          <h3>{t("node.item", { n: one.index + 1 })}{one.attempts && one.attempts > 1 ? ` · ${t("node.attempts", { count: one.attempts })}` : ""}</h3>
          {one.error ? <div className="notice bad"><Icon name="error" /><span className="text">{visible(one.error)}</span></div>
            : one.output !== undefined && <JsonBlock value={one.output} label={t("node.item", { n: one.index + 1 })} />}
        </div>
      )}
    </div>
  );
}

const MOST_STEPS = 50;

function Steps({ node }: { node: NodeState }) {
  const { t, has } = useLanguage();
  const [shown, setShown] = useState(MOST_STEPS);
  const icons: Record<string, string> = { tool_call: "tool", tool_result: "done", message: "agent", node_retrying: "retry", interrupt: "waiting" };
  return (
    <div className="section">
      <h3>{t("node.steps")}</h3>
      {node.steps.slice(0, shown).map((step, index) => (
        <div className="step" key={index}>
          <span className="muted"><Icon name={icons[step.kind] ?? "pending"} /></span>
          <div>
            <div><b>{has(`event.${step.kind}`) ? t(`event.${step.kind}`) : step.kind}</b>{step.kind.startsWith("tool") && <span className="mono"> {brief(step.text, 80)}</span>}</div>
            {!step.kind.startsWith("tool") && <div className="text muted">{visible(step.text.slice(0, 4_000))}</div>}
            {step.detail !== undefined && <details><summary>{t("approval.details")}</summary><JsonBlock value={step.detail} label={step.kind} /></details>}
          </div>
        </div>
      ))}
      {node.steps.length > shown && <button type="button" className="button small" onClick={() => setShown(shown + 500)}>{t("common.moreRows", { count: node.steps.length - shown })}</button>}
    </div>
  );
}
