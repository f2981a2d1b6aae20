import { type KeyboardEvent, type MouseEvent, type ReactNode, useEffect, useId, useLayoutEffect, useRef, useState } from "react";
import { useLanguage } from "../i18n/context";
import { Icon } from "./icons";
import { Named } from "./named";
import { visible } from "./safe";

const TONE: Record<string, string> = {
  done: "ok", connected: "ok", error: "bad", expired: "bad", needs_authorization: "wait", interrupted: "wait", waiting: "wait", running: "busy", queued: "busy",
};
const GLYPH: Record<string, string> = {
  interrupted: "waiting", queued: "pending", draft: "pending", active: "done", deleted: "cancelled", connected: "done", expired: "error", needs_authorization: "waiting", disabled: "skipped",
};

export const toneOf = (status: string) => TONE[status] ?? "";

export function Status({ value }: { value: string }) {
  const { t, has } = useLanguage();
  const key = `status.${value}`;
  return (
    <span className={`status ${toneOf(value)}`}>
      <Icon name={GLYPH[value] ?? value} spin={value === "running"} />
      {has(key) ? t(key) : value}
    </span>
  );
}

/** With `isPage` it takes the place of a page, which has no other heading. */
export function Empty({ icon, title, hint, action, isPage = false }: { icon: string; title: string; hint?: string; action?: ReactNode; isPage?: boolean }) {
  const Heading = isPage ? "h1" : "strong";
  return (
    <div className="state">
      <Icon name={icon} />
      <Heading>{title}</Heading>
      {hint && <span>{hint}</span>}
      {action}
    </div>
  );
}

export interface Problem {
  status: number;
  message: string;
  requestId?: string;
}

/** How far something is read; what failed can be tried again. */
export interface Reading {
  isDone: boolean;
  problem: Problem | null;
  retry: () => void;
}

/** Why something could not be shown; `isPage` as of `Empty`. */
export function Failure({ problem, onRetry, isPage = false }: { problem: Problem; onRetry?: () => void; isPage?: boolean }) {
  const { t } = useLanguage();
  const known: Record<number, string> = { 0: "error.offline", 401: "error.auth", 403: "error.forbidden", 404: "error.notFound" };
  const text = known[problem.status];
  const Heading = isPage ? "h1" : "strong";
  return (
    <div className="state" role="alert">
      <Icon name="error" />
      <Heading>{text ? t(text) : t("error.title")}</Heading>
      {!text && <span className="text"><Named text={visible(problem.message)} /></span>}
      {problem.requestId && <span className="mono">{t("error.requestId", { id: problem.requestId })}</span>}
      {onRetry && problem.status !== 401 && (
        <button type="button" className="button" onClick={onRetry}>{t("common.retry")}</button>
      )}
    </div>
  );
}

export function Loading({ rows = 6 }: { rows?: number }) {
  const { t } = useLanguage();
  return (
    <div className="pad stack" role="status" aria-label={t("common.loading")}>
      {Array.from({ length: rows }, (_, index) => (
        <div key={index} className="skeleton" style={{ width: `${88 - ((index * 17) % 45)}%` }} />
      ))}
    </div>
  );
}

export interface TabItem {
  id: string;
  text: ReactNode;
}

export function Tabs({ items, value, onChange, label, panel }: {
  items: TabItem[]; value: string; onChange: (id: string) => void; label: string; panel?: string;
}) {
  const list = useRef<HTMLDivElement>(null);
  const onKey = (event: KeyboardEvent) => {
    const at = items.findIndex((item) => item.id === value);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: items.length - 1 }[event.key];
    const next = to === undefined ? undefined : items[(to + items.length) % items.length];
    if (!next) return;
    event.preventDefault();
    onChange(next.id);
    list.current?.querySelector<HTMLElement>(`[data-tab="${next.id}"]`)?.focus();
  };
  return (
    <div className="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={onKey}>
      {items.map((item) => (
        <button key={item.id} type="button" role="tab" className="tab" data-tab={item.id} aria-selected={item.id === value}
          aria-controls={panel} tabIndex={item.id === value ? 0 : -1} onClick={() => onChange(item.id)}>
          {item.text}
        </button>
      ))}
    </div>
  );
}

/** A modal dialog: the browser keeps the focus inside, and returns it when the dialog is closed, not when it is removed. */
export function Dialog({ title, children, actions, onClose }: {
  title: string; children?: ReactNode; actions: ReactNode; onClose: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const name = useId();
  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={name} onClose={onClose} onCancel={onClose}>
      <div className="dialog">
        <h2 id={name}>{title}</h2>
        {children}
        <div className="actions">{actions}</div>
      </div>
    </dialog>
  );
}

/** Whether the text is in the clipboard now. The browser offers its own one in secure contexts only. */
async function copied(text: string, near: HTMLElement): Promise<boolean> {
  if (await navigator.clipboard?.writeText(text).then(() => true, () => false)) return true;
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr";
  near.after(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  near.focus();
  return isDone;
}

export function CopyButton({ text, label }: { text: () => string; label?: string }) {
  const { t } = useLanguage();
  const [outcome, setOutcome] = useState<"copied" | "notCopied" | null>(null);
  const copy = async (event: MouseEvent<HTMLElement>) => {
    if (!(await copied(text(), event.currentTarget))) return setOutcome("notCopied");
    setOutcome("copied");
    setTimeout(() => setOutcome(null), 1_500);
  };
  const name = outcome ? t(`common.${outcome}`) : (label ?? t("common.copy"));
  return (
    <button type="button" className="button plain small square copy" onClick={(event) => void copy(event)}
      aria-label={name} title={name}>
      <Icon name={outcome === "copied" ? "done" : outcome === "notCopied" ? "error" : "copy"} />
    </button>
  );
}

/** How many rows are rendered before the height of the list is known. */
const FIRST_ROWS = 16;
/** The most height of the rows, in pixels, where the page leaves it to them: the others are scrolled to. */
const MOST_UNBOUND = 480;

/** The first row in sight of a list, and how much of it is above. */
export interface Top {
  index: number;
  key: string;
  offset: number;
}

/** What a list of rows needs of the pages that they come from. */
export interface Further {
  /** What tells a row from the others, before and after a refresh. */
  keyOf: (index: number) => string;
  /** Kept here, so that a list that is shown again begins where it was. */
  top: { current: Top | null };
  more: () => void;
  /** Null if there are no further rows. */
  next: string | null;
  /** Why the next page could not be read. */
  failed: Problem | null;
  retry: () => void;
  /** Whether the rows are read again only on demand, from the beginning of the list. */
  isOutdated: boolean;
  renew: () => void;
}

/**
 * Rows of one height, of which only those in sight are in the document. When rows of `pages` come or go above the first
 * one in sight, that one stays where it is, except at the beginning of the list.
 */
export function VirtualRows({ count, height, row, pages, footer, label, role = "list" }: {
  count: number; height: number; row: (index: number) => ReactNode; pages?: Further; footer?: ReactNode; label: string; role?: string;
}) {
  const { t } = useLanguage();
  const box = useRef<HTMLDivElement>(null);
  const isNew = useRef(true);
  const [range, setRange] = useState({ from: 0, to: FIRST_ROWS });
  const hold = () => {
    const before = pages?.top.current;
    if (!box.current || !pages || !before) return;
    const isThere = before.index < count && pages.keyOf(before.index) === before.key;
    if (!isNew.current && (before.index === 0 || isThere)) return;
    isNew.current = false;
    const now = Array.from({ length: count }, (_, index) => index).find((index) => pages.keyOf(index) === before.key);
    if (now !== undefined) box.current.scrollTop = now * height + before.offset;
  };
  const measure = () => {
    const element = box.current;
    if (!element) return;
    const top = Math.max(0, Math.floor(element.scrollTop / height));
    if (pages) pages.top.current = top < count ? { index: top, key: pages.keyOf(top), offset: element.scrollTop - top * height } : null;
    const from = Math.max(0, top - 8);
    const to = Math.ceil((element.scrollTop + (element.clientHeight || 600)) / height) + 8;
    setRange((old) => (old.from === from && old.to === to ? old : { from, to }));
    if (pages?.isOutdated && top === 0) pages.renew();
    else if (element.scrollTop + element.clientHeight > count * height - 400) pages?.more();
  };
  useLayoutEffect(() => {
    hold();
    measure();
  });
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    return () => watch.disconnect();
  });
  const to = Math.min(count, range.to);
  const isCut = range.from > 0 || to < count || Boolean(pages?.next);
  return (
    <div className="scroll" ref={box} onScroll={measure} tabIndex={-1} style={{ overflowAnchor: "none", flexBasis: Math.min(count * height, MOST_UNBOUND) }}>
      <div role={role} aria-label={label} className="rows" style={{ height: count * height, position: "relative" }}>
        <div role="presentation" style={{ transform: `translateY(${range.from * height}px)` }}>
          {Array.from({ length: Math.max(0, to - range.from) }, (_, index) => row(range.from + index))}
        </div>
      </div>
      {isCut && <p className="print-only pad">{t("common.printed", { from: range.from + 1, to })}</p>}
      {pages?.failed && (
        <div className="row wrap pad" role="alert">
          <span className="problem"><Icon name="error" />{t("common.moreFailed")}</span>
          <button type="button" className="button small" onClick={pages.retry}>{t("common.retry")}</button>
        </div>
      )}
      {pages?.isOutdated && (
        <div className="row wrap pad outdated" role="status">
          <span><Icon name="waiting" />{t("common.outdated")}</span>
          <button type="button" className="button small" onClick={() => { box.current?.focus(); box.current?.scrollTo(0, 0); }}>{t("common.renew")}</button>
        </div>
      )}
      {footer}
    </div>
  );
}
