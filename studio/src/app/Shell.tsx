import { type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Caller } from "../api/types";
import type { PageElement } from "../elements/base";
import { HostContext, type Place, useChanges, useHost, useLatest, type View } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { Empty } from "../kit/kit";
import { PlaceLink } from "../pages/parts";
import { type Navigation, pathOf, type Route, routeOf, SECTIONS, withOpened } from "./router";
import { Brand } from "./Brand";

export interface Link {
  text: string;
  url: string;
}

/** What the product chooses of the application. Without a title there is no brand above the navigation. */
export interface ShellConfig {
  title: string;
  logo: string | null;
  links: Link[];
}

const PAGES: Record<string, string> = {
  "runs/": "runs", "runs/1": "run", "inbox/": "inbox", "inbox/1": "approval", "workflows/": "workflows", "workflows/1": "builder", "chat/": "chat", "skills/": "skills", "skills/1": "skill",
  ...Object.fromEntries(SECTIONS.flatMap((section) => [[`${section}/`, "administration"], [`${section}/1`, "administration"]])),
};
/** The attributes of the chat, and their names in the address. */
const CHAT = [["skill-id", "skillId"], ["workflow-id", "workflowId"], ["assistant", "assistant"], ["session-id", "sessionId"]] as const;
const ID_OF: Record<string, string> = { run: "run-id", builder: "workflow-id", skill: "skill-id" };
const ICONS: Record<string, string> = {
  connections: "link", tools: "tool", schedules: "clock", members: "user", groups: "group", delegations: "inbox", tokens: "key", hooks: "hook", policies: "policy", usage: "usage", audit: "audit",
};

const maySeeSkills = (me: Caller) => me.scopes.includes("skills:read");

/** The sections that the caller may see. */
function sectionsOf(me: Caller): string[] {
  const has = (area: string) => me.scopes.includes(`${area}:read`);
  const needs: Record<string, boolean> = {
    connections: has("connections"), tools: has("workflows"), schedules: has("workflows"), members: has("members"), groups: has("members"), delegations: has("workflows"), tokens: me.scopes.includes("tokens:write"),
    hooks: has("hooks"), policies: has("policies"), usage: has("usage"), audit: me.role !== "member" && me.scopes.includes("members:write"),
  };
  return SECTIONS.filter((section) => needs[section]);
}

/** The list of runs, whose filters are in the address. */
interface Filtered extends PageElement {
  query: Record<string, string> | undefined;
  onQuery: ((query: Record<string, string>) => void) | undefined;
}

export const START: Place = { page: "runs" };

/** Pages whose ids are numbers. */
const NUMBERED = ["workflows", "skills"];

/** The name of the element that shows the route; undefined for an unknown page. */
export function elementOf({ page, id }: Route): string | undefined {
  if (id !== null && NUMBERED.includes(page) && !/^[1-9]\d*$/.test(id)) return undefined;
  return PAGES[`${page}/${id === null ? "" : "1"}`];
}

/** A person in an organization: the key of a `Shell`, so that another one finds nothing that the pages have left. */
export const personOf = ({ orgUuid, userId }: Caller) => JSON.stringify([orgUuid, userId]);

/** The navigation, and beside it the element of the route. `tools` is about the session of the user. */
export function Shell({ element, config, navigation, path, me, tools, view: View = "section" }: {
  element: PageElement; config: ShellConfig; navigation: Navigation; path: string; me: Caller; tools?: ReactNode; view?: "main" | "section";
}) {
  const host = useHost();
  const route = useMemo(() => routeOf(path || pathOf(START)), [path]);
  const main = useRef<HTMLElement>(null);
  const open = useCallback((place: Place) => {
    host.unsaved.leave(() => {
      if (host.emit("navigate", { ...place, route: pathOf(place) })) navigation.go(pathOf(place));
    });
  }, [host, navigation]);
  const here = useMemo(() => ({ ...host, href: (place: Place) => navigation.href(pathOf(place)), navigate: open }), [host, navigation, open]);
  useEffect(() => {
    const box = main.current;
    const show = (event: Event) => {
      event.stopPropagation();
      open((event as CustomEvent<Place>).detail);
    };
    box?.addEventListener(`${host.prefix}-navigate`, show);
    return () => box?.removeEventListener(`${host.prefix}-navigate`, show);
  }, [host, open]);
  return (
    <HostContext value={here}>
      <div className="shell">
        <Nav config={config} route={route} me={me} tools={tools} onSkip={() => main.current?.focus()} />
        <View className="view" ref={main} tabIndex={-1}>
          {route.page === "more" ? <More config={config} me={me} tools={tools} /> : <Page route={route} navigation={navigation} element={element} />}
        </View>
      </div>
    </HostContext>
  );
}

/** The elements that show a part in the place of their list or graph. */
const OPENING = ["inbox", "builder"];

/** Of how many entries of the history the views are kept. */
const MOST_VIEWS = 10;

/** What the pages have left, by the entry of the history where they were shown. */
class Views {
  private readonly kept = new Map<string, View>();

  at(entry: string | null, page: string): View {
    return (entry !== null && this.kept.get(`${entry} ${page}`)) || new Map();
  }

  keep(entry: string | null, page: string, view: View) {
    if (entry === null) return;
    this.kept.delete(`${entry} ${page}`);
    this.kept.set(`${entry} ${page}`, view);
    if (this.kept.size > MOST_VIEWS) this.kept.delete(this.kept.keys().next().value!);
  }
}

/** The element of the route. It is a custom element, as a product would use it. */
function Page({ route, navigation, element }: { route: Route; navigation: Navigation; element: PageElement }) {
  const { t } = useLanguage();
  const { client, href, prefix } = useHost();
  const box = useRef<HTMLDivElement>(null);
  const name = elementOf(route);
  const isSection = name === "administration";
  const key = isSection ? `${name}/${route.page}` : `${name}/${route.id}`;
  const shown = useRef<PageElement | null>(null);
  const views = useRef(new Views());
  useEffect(() => {
    if (!name) return;
    const one = document.createElement(`${prefix}-${name}`) as PageElement;
    if (isSection) one.setAttribute("section", route.page);
    else if (route.id !== null) one.setAttribute(ID_OF[name] ?? "interrupt-id", route.id);
    one.hrefOf = href;
    one.view = views.current.at(navigation.entry(), `${key} ${client.baseUrl}`);
    shown.current = one;
    box.current?.replaceChildren(one);
    return () => one.remove();
  }, [key, client]);
  useEffect(() => {
    // Records and filters change the address, and the page stays.
    if (name) views.current.keep(navigation.entry(), `${key} ${client.baseUrl}`, shown.current!.view!);
  }, [key, client, route]);
  useEffect(() => {
    if (isSection) shown.current?.toggleAttribute("record-id", route.id !== null);
    if (isSection && route.id !== null) shown.current?.setAttribute("record-id", route.id);
  }, [key, client, route.id]);
  const query = JSON.stringify(route.query);
  useEffect(() => {
    if (name !== "runs") return;
    const runs = shown.current as Filtered;
    runs.query = route.query;
    runs.onQuery = (next) => navigation.go(pathOf({ page: "runs", query: next }), true);
  }, [key, client, query]);
  useEffect(() => {
    const page = shown.current;
    if (!page || !OPENING.includes(name ?? "")) return;
    page.opened = route.query.open;
    // From one to the next, as in a list, the entry of the history stays: Back leads to the list.
    page.onOpen = (id) => navigation.go(withOpened(route, id), id !== null && route.query.open !== undefined);
  }, [key, client, route, navigation]);
  useEffect(() => {
    if (name !== "chat") return;
    const chat = shown.current!;
    for (const [attribute, field] of CHAT) {
      const value = route.query[field];
      if (value === undefined) chat.removeAttribute(attribute);
      else chat.setAttribute(attribute, value);
    }
    const onThread = (event: Event) => {
      const found = Object.entries((event as CustomEvent<Record<string, unknown>>).detail).filter(([, value]) => value);
      navigation.go(pathOf({ page: "chat", query: Object.fromEntries(found.map(([field, value]) => [field, String(value)])) }), true);
    };
    chat.addEventListener(`${prefix}-thread`, onThread);
    return () => chat.removeEventListener(`${prefix}-thread`, onThread);
  }, [key, client, query, navigation]);
  useEffect(() => {
    const scheme = element.setting("color-scheme");
    if (scheme) shown.current?.setAttribute("color-scheme", scheme);
  });
  if (!name) {
    return <Empty isPage icon="error" title={t("page.notFound")} action={<PlaceLink to={START} className="button">{t("page.toRuns")}</PlaceLink>} />;
  }
  return <div ref={box} style={{ height: "100%" }} />;
}

function Entry({ place, icon, text, current = false, children }: { place: Place; icon: string; text: string; current?: boolean; children?: ReactNode }) {
  return <PlaceLink to={place} className="entry" current={current}><Icon name={icon} />{text}{children}</PlaceLink>;
}

const Links = ({ config }: { config: ShellConfig }) => config.links.map((link) => <a key={link.url} className="entry" href={link.url}><Icon name="link" />{link.text}</a>);

function Nav({ config, route, me, tools, onSkip }: { config: ShellConfig; route: Route; me: Caller; tools: ReactNode; onSkip: () => void }) {
  const { t } = useLanguage();
  const host = useHost();
  const [count, setCount] = useState(0);
  const begin = useLatest();
  const read = useCallback(() => {
    const isLatest = begin();
    void host.api.inboxCount().then((found) => isLatest() && setCount(found), () => undefined);
  }, [begin, host]);
  useEffect(read, [read]);
  useChanges(["interrupt"], read, 500);
  const entry = (page: "runs" | "inbox" | "chat" | "workflows" | "skills", children?: ReactNode) => (
    <Entry place={{ page }} icon={page} text={t(`nav.${page}`)} current={route.page === page}>{children}</Entry>
  );
  const sections = sectionsOf(me);
  return (
    <nav className="nav" aria-label={t("nav.main")}>
      <button type="button" className="button skip" onClick={onSkip}>{t("nav.skip")}</button>
      {config.title && <Brand config={config} />}
      {entry("runs")}
      {entry("inbox", count ? <span className="badge num" aria-label={t("inbox.count", { count })}>{count > 99 ? "99+" : count}</span> : null)}
      {me.scopes.includes("workflows:invoke") && entry("chat")}
      {entry("workflows")}
      {maySeeSkills(me) && <span className="wide">{entry("skills")}</span>}
      <span className="more-entry">
        <Entry place={{ page: "administration", section: "more" }} icon="more" text={t("nav.more")} current={["more", "skills"].includes(route.page) || sections.includes(route.page)} />
      </span>
      <div className="sections">
        {sections.length > 0 && <h2>{t("nav.administration")}</h2>}
        {sections.map((section) => (
          <Entry key={section} place={{ page: "administration", section }} icon={ICONS[section]!} text={t(`nav.${section}`)} current={route.page === section} />
        ))}
        <Links config={config} />
      </div>
      {tools && <div className="foot">{tools}</div>}
    </nav>
  );
}

/** What the narrow navigation of a phone has no room for. */
function More({ config, me, tools }: { config: ShellConfig; me: Caller; tools: ReactNode }) {
  const { t } = useLanguage();
  return (
    <div className="morepage">
      <h1>{t("nav.more")}</h1>
      {maySeeSkills(me) && <Entry place={{ page: "skills" }} icon="skills" text={t("nav.skills")} />}
      {sectionsOf(me).map((section) => (
        <Entry key={section} place={{ page: "administration", section }} icon={ICONS[section]!} text={t(`nav.${section}`)} />
      ))}
      <Links config={config} />
      {tools && <div className="stack session">{tools}</div>}
    </div>
  );
}
