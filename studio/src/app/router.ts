import type { Place } from "../elements/context";

export interface Route {
  page: string;
  id: string | null;
  query: Record<string, string>;
}

/** The place that an address below `base` shows. */
export function routeOf(url: URL, base: string): Route {
  const [page = "", id] = url.pathname.slice(base.length).split("/");
  return { page: decode(page), id: id ? decode(id) : null, query: Object.fromEntries(url.searchParams) };
}

/** The sections of the administration, in the order of the navigation. */
export const SECTIONS = ["connections", "tools", "schedules", "members", "groups", "delegations", "tokens", "hooks", "policies", "usage", "audit"];

export function addressOf(place: Place, base: string): string {
  if (place.page === "administration") return `${base}${place.section}${place.id === undefined ? "" : `/${encodeURIComponent(place.id)}`}`;
  const search = "query" in place && place.query ? new URLSearchParams(place.query).toString() : "";
  const one = "id" in place ? `/${encodeURIComponent(place.id)}` : "";
  const page = {
    run: "runs", runs: "runs", inbox: "inbox", approval: "inbox", chat: "chat", workflows: "workflows", workflow: "workflows",
    skills: "skills", skill: "skills",
  }[place.page];
  return `${base}${page}${one}${search ? `?${search}` : ""}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
