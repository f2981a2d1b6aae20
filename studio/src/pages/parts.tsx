import { type CSSProperties, type MouseEvent, type ReactNode, type RefObject, useEffect, useRef, useState, useSyncExternalStore } from "react";
import type { Actor, RunRecord, Target } from "../api/types";
import { type Place, problemOf, useHost, useIsShown } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { Dialog, type Problem } from "../kit/kit";
import { Refusal } from "../kit/named";
import { brief } from "../kit/safe";

/** A link in the application, a button elsewhere: the host decides what a place is. */
export function PlaceLink({ to, className, children, label, style, current = false }: {
  to: Place; className?: string; children: ReactNode; label?: string; style?: CSSProperties; current?: boolean;
}) {
  const host = useHost();
  const href = host.href(to);
  const go = (event: MouseEvent) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    host.navigate(to);
  };
  const shared = { className, style, "aria-label": label, "aria-current": current ? "page" : undefined } as const;
  return <a {...shared} href={href ?? "#"} onClick={go}>{children}</a>;
}

const LEAST_IN_SIGHT = 60;

/**
 * Scrolls the page to the panel beside what is in `around` when another one is shown and hardly any of it is in sight, as in a
 * low window. What the pointer holds must not move below it: then, when it is released.
 */
export function usePanelInSight(around: RefObject<HTMLElement | null>, shown: string | null) {
  const isHeld = useRef(false);
  useEffect(() => {
    const down = () => void (isHeld.current = true);
    const up = () => void (isHeld.current = false);
    addEventListener("pointerdown", down, true);
    for (const name of ENDS) addEventListener(name, up, true);
    return () => {
      removeEventListener("pointerdown", down, true);
      for (const name of ENDS) removeEventListener(name, up, true);
    };
  }, []);
  useEffect(() => {
    if (shown === null) return;
    const scroll = () => {
      const panel = around.current?.querySelector(":scope > .side:not([hidden])")?.getBoundingClientRect();
      const page = around.current?.closest(".page");
      const { top, bottom } = page?.getBoundingClientRect() ?? { top: 0, bottom: 0 };
      if (panel && Math.min(panel.bottom, bottom) - Math.max(panel.top, top) < LEAST_IN_SIGHT) page!.scrollTop += panel.top - top;
    };
    if (!isHeld.current) return scroll();
    const released = new AbortController();
    for (const name of ENDS) addEventListener(name, scroll, { once: true, signal: released.signal });
    return () => released.abort();
  }, [around, shown]);
}

const ENDS = ["pointerup", "pointercancel"];

const NAME_AFTER_MS = 100;

/** The name of what a run executes. */
export function useTargetName(target: Target | undefined): string {
  const { api } = useHost();
  const { t } = useLanguage();
  const [, setName] = useState<string | undefined>();
  const id = target?.type === "workflow" ? target.id : null;
  const name = id === null ? undefined : api.nameOf(id);
  useEffect(() => {
    if (id === null || api.nameOf(id) !== undefined) return;
    const read = async () => {
      if (api.nameOf(id) === undefined) await api.workflow(id);
      if (timer) setName(api.nameOf(id));
    };
    // Rows that only pass by while a list is scrolled are not worth a request.
    let timer: ReturnType<typeof setTimeout> | null = setTimeout(() => void read(), NAME_AFTER_MS);
    return () => {
      clearTimeout(timer!);
      timer = null;
    };
  }, [api, id]);
  if (!target) return "";
  if (target.type === "workflow") return brief(name ?? t("runs.workflowId", { id: String(target.id) }), 120);
  if (target.type === "skill") return t("runs.skill", { id: String(target.id) });
  return target.type === "assistant" ? t("runs.assistant") : t("runs.action");
}

/** The question before something is done for good. It stays until that is done, and says why it could not be. */
export function Confirm({ title, action, act, onDone, onClose, children }: {
  title: string; action: string; act: () => Promise<unknown>; onDone: () => void; onClose: () => void; children: ReactNode;
}) {
  const { t } = useLanguage();
  const isShown = useIsShown();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const confirm = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await act();
      if (isShown()) onDone();
    } catch (error) {
      setProblem(problemOf(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose} actions={
      <>
        <button type="button" className="button" autoFocus onClick={onClose}>{t("common.cancel")}</button>
        <button type="button" className="button danger solid" disabled={busy} onClick={() => void confirm()}>{action}</button>
      </>
    }>
      {children}
      <Refusal text={problem?.message} />
    </Dialog>
  );
}

/** Undoes a delete, and says why it cannot. */
export function Restore({ restore, onRestored }: { restore: () => Promise<void>; onRestored: () => void }) {
  const { t } = useLanguage();
  const [problem, setProblem] = useState<Problem | null>(null);
  const act = () => restore().then(onRestored, (error: unknown) => setProblem(problemOf(error)));
  return (
    <>
      <Refusal text={problem?.message} />
      <button type="button" className="button small" onClick={() => void act()}><Icon name="undo" />{t("common.restore")}</button>
    </>
  );
}

export function Target({ of: target }: { of: Target | undefined }) {
  return <>{useTargetName(target)}</>;
}

/** The name of who did something. If only the id is known, the name is read and shown then. */
export function useActorName(): (actor: Actor | { userId?: string | null; email?: string | null; name?: string | null; kind?: string } | null | undefined) => string {
  const { t, has } = useLanguage();
  const { people } = useHost().api;
  useSyncExternalStore(people.subscribe, people.size);
  const wanted = new Set<string>();
  useEffect(() => wanted.forEach((userId) => void people.read(userId)));
  return (actor) => {
    if (!actor) return "";
    const named = actor as { name?: string | null; email?: string | null };
    const key = `who.${"kind" in actor ? actor.kind : ""}`;
    if (named.name || named.email) return brief(named.name || named.email || "", 80);
    if (!actor.userId) return has(key) ? t(key) : "";
    wanted.add(actor.userId);
    return brief(people.known(actor.userId) ?? actor.userId, 80);
  };
}

/** Whether the run has not ended: a turn that another one has continued has. */
export const isOpen = (run: RunRecord) => run.status === "queued" || run.status === "running" || (run.status === "interrupted" && !run.resumedBy);

/** How long the run has taken, or takes until now; the time for which it waits is part of it. */
export function durationOf(run: RunRecord, now: number): number | null {
  if (run.status === "queued") return null;
  const end = isOpen(run) ? now : Date.parse(run.finishedAt ?? run.updatedAt);
  return Math.max(0, end - Date.parse(run.createdAt));
}
