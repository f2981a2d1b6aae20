import { type CSSProperties, type MouseEvent, type ReactNode, useEffect, useState } from "react";
import type { Actor, RunRecord, Target } from "../api/types";
import { type Place, useHost } from "../elements/context";
import { useLanguage } from "../i18n/context";
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

/** The name of what a run executes. */
export function useTargetName(target: Target | undefined): string {
  const { api } = useHost();
  const { t } = useLanguage();
  const [name, setName] = useState<string | null>(null);
  const id = target?.type === "workflow" ? target.id : null;
  useEffect(() => {
    let live = true;
    setName(null);
    if (id !== null) void api.workflow(id).then((found) => live && found && setName(found.name));
    return () => void (live = false);
  }, [api, id]);
  if (!target) return "";
  if (target.type === "workflow") return brief(name ?? t("runs.workflowId", { id: String(target.id) }), 120);
  if (target.type === "skill") return t("runs.skill", { id: String(target.id) });
  return target.type === "assistant" ? t("runs.assistant") : t("runs.action");
}

export function Target({ of: target }: { of: Target | undefined }) {
  return <>{useTargetName(target)}</>;
}

export function useActorName(): (actor: Actor | { userId?: string | null; email?: string | null; name?: string | null; kind?: string } | null | undefined) => string {
  const { t, has } = useLanguage();
  return (actor) => {
    if (!actor) return "";
    const named = actor as { name?: string | null; email?: string | null };
    const key = `who.${"kind" in actor ? actor.kind : ""}`;
    if (named.name || named.email) return brief(named.name || named.email || "", 80);
    return actor.userId ? brief(actor.userId, 80) : has(key) ? t(key) : "";
  };
}

export function durationOf(run: RunRecord, now: number): number | null {
  if (run.status === "queued") return null;
  const end = run.finishedAt ? Date.parse(run.finishedAt) : run.status === "interrupted" ? Date.parse(run.updatedAt) : now;
  return Math.max(0, end - Date.parse(run.createdAt));
}
