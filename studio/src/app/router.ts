import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { randomId } from "../api/client";
import { type Place, useHost } from "../elements/context";

export interface Route {
  page: string;
  id: string | null;
  query: Record<string, string>;
}

/** The sections of the administration, in the order of the navigation. */
export const SECTIONS = ["connections", "tools", "schedules", "members", "groups", "delegations", "tokens", "hooks", "policies", "usage", "audit"];

const PAGES: Record<Exclude<Place["page"], "administration">, string> = {
  run: "runs", runs: "runs", inbox: "inbox", approval: "inbox", chat: "chat", workflows: "workflows", workflow: "workflows", skills: "skills", skill: "skills",
};

/** The place of a path such as `runs/7?status=done`. */
export function routeOf(path: string): Route {
  const [names = "", search] = path.split("?", 2);
  const [page = "", id] = names.split("/");
  return { page: decode(page), id: id ? decode(id) : null, query: Object.fromEntries(new URLSearchParams(search)) };
}

export function pathOf(place: Place): string {
  const one = "id" in place && place.id !== undefined ? `/${encodeURIComponent(place.id)}` : "";
  if (place.page === "administration") return place.section + one;
  const search = "query" in place && place.query ? new URLSearchParams(place.query).toString() : "";
  return `${PAGES[place.page]}${one}${search && `?${search}`}`;
}

/** The path of the route with another part opened, or none. */
export function withOpened({ page, id, query }: Route, opened: string | null): string {
  const { open: _, ...others } = query;
  const search = new URLSearchParams(opened === null ? others : { ...others, open: opened }).toString();
  return `${page}${id === null ? "" : `/${encodeURIComponent(id)}`}${search && `?${search}`}`;
}

/** Where the application keeps its place. */
export interface Navigation {
  path: () => string;
  go: (path: string, replace?: boolean) => void;
  /** The address of a path, for links. */
  href: (path: string) => string | undefined;
  /** Names the entry in the history of the tab; null where there is none. */
  entry: () => string | null;
}

/** In the address of the page, below a path such as `/studio/`, or in its fragment, as with `#/`. */
export function byAddress(base: string, onChange: () => void): Navigation {
  return {
    path: () => pathBelow(base) ?? "",
    go: (path, replace = false) => {
      history[replace ? "replaceState" : "pushState"](replace ? history.state : { [ENTRY]: randomId() }, "", base + path);
      onChange();
    },
    href: (path) => base + path,
    entry: () => {
      // What the page around keeps there stays; its own addresses are left alone.
      const state: unknown = history.state ?? {};
      if (typeof state !== "object" || pathBelow(base) === null) return null;
      if (!(ENTRY in state!)) history.replaceState({ ...state, [ENTRY]: randomId() }, "");
      return String((history.state as Record<string, unknown>)[ENTRY]);
    },
  };
}

const ENTRY = "pageEntry";

/** The path in the address, below a base; null at an address of something else. */
function pathBelow(base: string): string | null {
  const at = base.startsWith("#") ? location.hash : location.pathname + location.search;
  return at.startsWith(base) ? at.slice(base.length) : null;
}

/** The number of the entry in the history of the tab, where the browser tells it. */
const entryOf = () => (globalThis as { navigation?: { currentEntry?: { index: number } | null } }).navigation?.currentEntry?.index;

/** The place in the address, and what changes it. Back and Forward leave no form with changes before the user says so. */
export function useAddress(base: string): { navigation: Navigation; path: string } {
  const { unsaved } = useHost();
  const [path, setPath] = useState(() => pathBelow(base) ?? "");
  const shown = useRef({ path, entry: entryOf() });
  const first = useRef(location.href);
  const show = useCallback(() => {
    shown.current = { path: pathBelow(base) ?? "", entry: entryOf() };
    setPath(shown.current.path);
  }, [base]);
  useEffect(() => {
    show();
    // The address has changed when the browser tells it: to stay is to go back to the entry that is shown.
    const goBack = () => {
      const { path, entry } = shown.current;
      const now = entryOf();
      if (entry === undefined || now === undefined) history.pushState(null, "", base + path);
      else if (entry !== now) history.go(entry - now);
    };
    const onMove = () => {
      const next = pathBelow(base);
      // The other addresses of a product are its own: it may have hidden the element there.
      const isOwn = next !== null || location.href === first.current;
      if (isOwn && (next ?? "") !== shown.current.path) return unsaved.leave(show, goBack);
      show();
      unsaved.stay();
    };
    addEventListener("popstate", onMove);
    return () => removeEventListener("popstate", onMove);
  }, [base, show, unsaved]);
  return { navigation: useMemo(() => byAddress(base, show), [base, show]), path };
}

/** In the attribute `route` of the element. */
export function byAttribute(element: Element): Navigation {
  return {
    path: () => element.getAttribute("route") ?? "",
    go: (path) => element.setAttribute("route", path),
    href: () => undefined,
    entry: () => null,
  };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
