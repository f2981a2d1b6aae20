import { type KeyboardEvent, type RefObject, useEffect, useLayoutEffect, useRef, useState } from "react";
import { ApiError } from "../api/client";
import type { Decision, InboxItem, JsonObject } from "../api/types";
import { type Opening, problemOf, useChoice, useHost, useOpened } from "../elements/context";
import { type Pages, usePages } from "../elements/paging";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { Dialog, Empty, Failure, Loading, Tabs, VirtualRows } from "../kit/kit";
import { Named, unmarked } from "../kit/named";
import { brief } from "../kit/safe";
import { Approval, Deadline, type Skin, useMessage } from "./Approval";
import { Target, useActorName } from "./parts";

type Box = "open" | "decided";
const ROW = 74;

export interface InboxProps extends Opening {
  skin: Skin;
  workflowId?: string;
}

/** The requests that wait for the caller, and those that the caller decided. */
export default function InboxPage({ skin, workflowId, ...opening }: InboxProps) {
  const { t } = useLanguage();
  const host = useHost();
  const { api } = host;
  const [box, setBox] = useChoice<Box>("box", "open");
  const [order, setOrder] = useChoice("order", "");
  const list = useInbox(box, order, workflowId);
  const [id, openId] = useOpened(opening);
  const [selected, setSelected] = useState<InboxItem | null>(null);
  const [checked, setChecked] = useState(new Set<string>());
  const [asked, setAsked] = useState<Asked | null>(null);
  const listed = list.rows.find((row) => row.interruptId === id);
  const shown = listed ?? (selected?.interruptId === id ? selected : null);
  useEffect(() => {
    if (listed) setSelected(listed); // it stays when it leaves the list, with what its decision became
  }, [listed]);
  // No longer in the list: somebody may have decided it. Or it is further down.
  const gone = listed || list.loading || id === null ? undefined : id;
  useEffect(() => {
    let live = true;
    if (gone !== undefined) void api.interrupt(gone).then((found) => live && (found ? setSelected(found) : openId(null)), () => undefined);
    return () => void (live = false);
  }, [api, gone]);
  const decidable = (item: InboxItem) => box === "open" && item.type === "approval" && !item.formSchema;
  const picked = list.rows.filter((item) => checked.has(item.interruptId) && decidable(item));
  const toggle = (item: InboxItem) => setChecked((old) => {
    const next = new Set(old);
    if (!next.delete(item.interruptId)) next.add(item.interruptId);
    return next;
  });
  const change = (next: Box) => {
    setBox(next);
    openId(null);
    setChecked(new Set());
  };
  const open = (item: InboxItem) => {
    if (item.interruptId !== shown?.interruptId) host.unsaved.leave(() => openId(item.interruptId));
  };
  const rows = useRef<HTMLDivElement>(null);
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    const target = event.target as HTMLElement;
    if (target.matches("input[type=checkbox]") ? step === undefined : !target.matches(".open")) return;
    if (step !== undefined) {
      event.preventDefault();
      const all = [...(rows.current?.querySelectorAll<HTMLElement>(".open") ?? [])];
      all[all.findIndex((one) => one === target || one.closest(".request") === target.closest(".request")) + step]?.focus();
    } else if ((event.key === "a" || event.key === "d") && box === "open") {
      // Opens the request and goes to its decision: a second key takes it, with the arguments in sight.
      const item = list.rows.find((row) => row.interruptId === target.closest<HTMLElement>(".request")?.dataset.id);
      if (!item) return;
      event.preventDefault();
      open(item);
      setWanted(event.key === "a" ? ["approve", "connected"] : ["deny", "cancelled"]);
    }
  };
  const detail = useRef<HTMLDivElement>(null);
  useFocusOfTheShown(rows, detail, shown?.interruptId);
  const [wanted, setWanted] = useState<string[] | null>(null);
  // Before the next key can arrive.
  useLayoutEffect(() => {
    if (!wanted) return;
    for (const one of wanted) rows.current?.parentElement?.querySelector<HTMLElement>(`[data-decision="${one}"]`)?.focus();
    setWanted(null);
  }, [wanted]);

  return (
    <div className="page">
      <div className="head">
        <h1>{t("inbox.title")}</h1>
        <span className="muted num" role="status">{box === "open" && !list.loading && t("inbox.count", { count: list.total ?? list.rows.length })}</span>
        <label className="sr" htmlFor="order">{t("inbox.order")}</label>
        <select id="order" className="input" style={{ width: "auto" }} value={order} onChange={(event) => setOrder(event.target.value)}>
          <option value="">{t("inbox.newest")}</option>
          <option value="deadline">{t("inbox.deadline")}</option>
        </select>
      </div>
      <Tabs label={t("inbox.title")} value={box} onChange={(one) => host.unsaved.leave(() => change(one as Box))} {...(list.rows.length || shown ? { panel: "inbox-list" } : {})} items={[
        { id: "open", text: t("inbox.open") }, { id: "decided", text: t("inbox.decided") },
      ]} />
      {list.problem && !list.rows.length ? <Failure problem={list.problem} onRetry={list.reload} />
        : list.loading && !list.rows.length ? <Loading rows={8} />
        : !list.rows.length && !shown ? <Empty icon="inbox" title={t(box === "open" ? "inbox.empty" : "inbox.emptyDecided")} {...(box === "open" ? { hint: t("inbox.emptyHint") } : {})} />
        : (
          <div className={`inbox${shown ? " has-detail" : ""}`}>
            <div className="list" id="inbox-list" role="tabpanel" aria-label={t(`inbox.${box}`)} onKeyDown={onKey} ref={rows}>
              {picked.length > 0 && !host.readonly && <Batch count={picked.length} onAsk={(decision) => setAsked({ decision, items: picked })} />}
              <VirtualRows count={list.rows.length} height={ROW} label={t("inbox.list")} pages={list} row={(index) => {
                const item = list.rows[index]!;
                return (
                  <Request key={item.interruptId} item={item} current={item.interruptId === shown?.interruptId} checked={checked.has(item.interruptId)}
                    checkable={decidable(item) && !host.readonly && host.wants("batch")} onToggle={() => toggle(item)} onOpen={() => open(item)} />
                );
              }} />
            </div>
            <div className="detail" ref={detail} tabIndex={0} role="region" aria-label={t("approval.details")}>
              {shown ? (
                <>
                  <div className="bar small-only">
                    <button type="button" className="button plain small" onClick={() => host.unsaved.leave(() => openId(null))}><Icon name="back" />{t("common.back")}</button>
                  </div>
                  <Approval key={shown.interruptId} item={shown} skin={skin} onDecided={list.reload} />
                </>
              ) : <Empty icon="inbox" title={t("inbox.select")} />}
            </div>
          </div>
        )}
      {asked && <BatchDialog {...asked} onClose={(isSent) => {
        setAsked(null);
        if (!isSent) return;
        setChecked(new Set());
        list.reload();
      }} />}
    </div>
  );
}

const isHidden = (part: HTMLElement) => part.getClientRects().length === 0;

/** In a narrow page a request takes the place of the list, and the list of the request: with it, the focus would be lost. */
function useFocusOfTheShown(list: RefObject<HTMLElement | null>, detail: RefObject<HTMLElement | null>, shown: string | undefined) {
  const before = useRef(shown);
  useLayoutEffect(() => {
    const [last, rows, request] = [before.current, list.current, detail.current];
    before.current = shown;
    if (last === shown || !rows || !request) return;
    const focused = (rows.getRootNode() as ShadowRoot).activeElement;
    if (focused && !rows.contains(focused) && !request.contains(focused)) return;
    if (shown !== undefined && isHidden(rows)) request.focus();
    if (shown !== undefined || !isHidden(request)) return;
    const row = [...rows.querySelectorAll<HTMLElement>("[data-id]")].find((one) => one.dataset.id === last);
    (row?.querySelector<HTMLElement>(".open") ?? rows.querySelector<HTMLElement>(".scroll"))?.focus();
  }, [list, detail, shown]);
}

function Request({ item, current, checked, checkable, onToggle, onOpen }: {
  item: InboxItem; current: boolean; checked: boolean; checkable: boolean; onToggle: () => void; onOpen: () => void;
}) {
  const { t, ago } = useLanguage();
  const actor = useActorName();
  const message = useMessage()(item);
  return (
    <div role="listitem" className={`request${current ? " current" : ""}`} data-id={item.interruptId}>
      <span className="check">
        {checkable ? <input type="checkbox" checked={checked} onChange={onToggle} aria-label={t("inbox.selectRow", { name: brief(unmarked(message), 80) })} />
          : <span className="muted"><Icon name={item.type === "connect" ? "link" : item.toolId ? "tool" : "humanApproval"} /></span>}
      </span>
      <span style={{ minWidth: 0 }}>
        <button type="button" className="open clip" aria-current={current || undefined} onClick={onOpen}><Named text={brief(message, 160)} /></button>
        <span className="meta">
          <span className="clip">{item.workflowName ? brief(item.workflowName, 80) : <Target of={item.target} />}</span>
          {actor(item.requestedBy) && <span className="clip">· {actor(item.requestedBy)}</span>}
          {item.createdAt && <span className="num" style={{ whiteSpace: "nowrap", marginInlineStart: "auto" }}>{ago(item.createdAt)}</span>}
        </span>
        <span className="meta">
          {item.expiresAt && !item.decidedAt && <Deadline at={item.expiresAt} />}
          {(item.requiredApprovals ?? 1) > 1 && <span className="tag">{t("approval.quorumOf", { count: item.approvals ?? 0, required: item.requiredApprovals ?? 1 })}</span>}
          {item.decision && <span className="tag">{t(item.decision === "deny" ? "approval.denied" : "approval.approved")}</span>}
          {item.toolId && <span className="mono clip">{brief(item.toolId, 60)}</span>}
        </span>
      </span>
    </div>
  );
}

function Batch({ count, onAsk }: { count: number; onAsk: (decision: Asked["decision"]) => void }) {
  const { t } = useLanguage();
  return (
    <div className="batch" role="region" aria-label={t("inbox.selected", { count })}>
      <span className="grow num">{t("inbox.selected", { count })}</span>
      <button type="button" className="button small primary" onClick={() => onAsk("approve")}>{t("inbox.approveMany", { count })}</button>
      <button type="button" className="button small danger" onClick={() => onAsk("deny")}>{t("inbox.denyMany", { count })}</button>
    </div>
  );
}

interface Asked {
  decision: "approve" | "deny";
  items: InboxItem[];
}

/** Decides several requests at once, after a look at what each of them is, and shows which could not be decided. */
function BatchDialog({ decision, items, onClose }: Asked & { onClose: (isSent: boolean) => void }) {
  const { t } = useLanguage();
  const host = useHost();
  const message = useMessage();
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState<{ ok: number; bad: string[] } | null>(null);
  const send = async () => {
    const decisions = items.map((item): Decision => ({ interruptId: item.interruptId, decision }));
    const allowed = items.filter((item) => host.emit("before-decide", { interruptId: item.interruptId, runId: item.runId, decision, data: null }));
    setBusy(true);
    const bad = await decideAll(host.api, allowed, decisions.filter((one) => allowed.some((item) => item.interruptId === one.interruptId)));
    for (const item of allowed) if (!bad.has(item.interruptId)) host.emit("decided", { interruptId: item.interruptId, runId: item.runId, decision });
    if (!bad.size) return onClose(true);
    setBusy(false);
    setFailed({ ok: allowed.length - bad.size, bad: [...bad.values()] });
  };
  const close = () => onClose(failed !== null);
  return (
    <Dialog title={t("inbox.batchAsk")} onClose={close} actions={
      <>
        <button type="button" className="button" onClick={close}>{t(failed ? "common.close" : "common.cancel")}</button>
        {!failed && (
          <button type="button" className={`button ${decision === "approve" ? "primary" : "danger solid"}`} disabled={busy} onClick={() => void send()}>
            {t(decision === "approve" ? "inbox.approveMany" : "inbox.denyMany", { count: items.length })}
          </button>
        )}
      </>
    }>
      {failed ? (
        <div role="alert" className="stack">
          <p>{t("inbox.batchDone", { ok: failed.ok, bad: failed.bad.length })}</p>
          <ul>{[...new Set(failed.bad)].slice(0, 10).map((text) => <li key={text} className="problem"><span className="text"><Named text={brief(text, 200)} /></span></li>)}</ul>
        </div>
      ) : (
        <ul className="stack" style={{ gap: 8 }}>
          {items.map((item) => (
            <li key={item.interruptId}>
              <b className="text"><Named text={brief(message(item), 160)} /></b>
              {item.toolId && <div className="mono muted">{brief(item.toolId, 60)} {brief(JSON.stringify(item.arguments ?? {}), 300)}</div>}
            </li>
          ))}
        </ul>
      )}
    </Dialog>
  );
}

/** The reasons of those that could not be decided, by interrupt. */
async function decideAll(api: ReturnType<typeof useHost>["api"], items: InboxItem[], decisions: Decision[]): Promise<Map<string, string>> {
  const bad = new Map<string, string>();
  try {
    for (let from = 0; from < decisions.length; from += 100) {
      for (const outcome of await api.decideAll(decisions.slice(from, from + 100))) {
        const error = outcome.error as JsonObject | undefined | null;
        if (error) bad.set(String(outcome.interruptId), String(error.message ?? ""));
      }
    }
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) {
      for (const one of decisions) bad.set(one.interruptId, problemOf(error).message);
      return bad;
    }
    for (const one of decisions) {
      const item = items.find((other) => other.interruptId === one.interruptId)!;
      await api.decide(item, one.decision).catch((reason: unknown) => void bad.set(one.interruptId, problemOf(reason).message));
    }
  }
  return bad;
}

function useInbox(box: Box, order: string, workflowId: string | undefined): Pages<InboxItem> {
  const { api } = useHost();
  const load = (pageToken: string | null) => api.inbox(box, order, workflowId ?? "", pageToken);
  return usePages(JSON.stringify([box, order, workflowId]), load, (item) => item.interruptId, ["interrupt", "run"], 300);
}
