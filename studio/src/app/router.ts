import type { Place } from "../elements/context";

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

/** Where the application keeps its place. */
export interface Navigation {
  path: () => string;
  go: (path: string, replace?: boolean) => void;
  /** The address of a path, for links. */
  href: (path: string) => string | undefined;
}

/** In the address of the page, below a path such as `/studio/`, or in its fragment, as with `#/`. */
export function byAddress(base: string, onChange: () => void): Navigation {
  return {
    path: () => {
      const at = base.startsWith("#") ? location.hash : location.pathname + location.search;
      return at.startsWith(base) ? at.slice(base.length) : "";
    },
    go: (path, replace = false) => {
      history[replace ? "replaceState" : "pushState"](null, "", base + path);
      onChange();
    },
    href: (path) => base + path,
  };
}

/** In the attribute `route` of the element. */
export function byAttribute(element: Element): Navigation {
  return {
    path: () => element.getAttribute("route") ?? "",
    go: (path) => element.setAttribute("route", path),
    href: () => undefined,
  };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
