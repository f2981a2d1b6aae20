import { type ReactNode, useCallback, useEffect, useRef, useState } from "react";
import type { Caller } from "../api/types";
import { StudioElement } from "../elements/base";
import { type Place, useChanges, useHost } from "../elements/context";
import { Deferred, pages } from "../elements/deferred";
import type { RunsElement } from "../elements/wfcore";
import { useLanguage } from "../i18n/context";
import { language } from "../i18n/texts";
import { Icon } from "../kit/icons";
import { Empty, Loading } from "../kit/kit";
import { ChatApp } from "./ChatApp";
import { addressOf, type Route, routeOf, SECTIONS } from "./router";
import { type OAuth, storedToken } from "./session";
import shellCss from "./shell.css?inline";
import { Brand, SignIn, useSession } from "./SignIn";

export interface Config {
  title: string;
  logo: string | null;
  theme: Record<string, string>;
  links: { text: string; url: string }[];
  locale: string | null;
  baseUrl: string;
  oauth: OAuth | null;
  /** The page of a chat instead of the studio: its interface is the last part of the address. */
  chat: boolean;
}

const PAGES: Record<string, string> = {
  "runs/": "wfcore-runs", "runs/1": "wfcore-run", "inbox/": "wfcore-inbox", "inbox/1": "wfcore-approval", "workflows/": "wfcore-workflows", "workflows/1": "wfcore-builder", "chat/": "wfcore-chat", "skills/": "wfcore-skills", "skills/1": "wfcore-skill",
  ...Object.fromEntries(SECTIONS.flatMap((section) => [[`${section}/`, "wfcore-administration"], [`${section}/1`, "wfcore-administration"]])),
};
/** The attributes of the chat, and their names in the address. */
const CHAT = [["skill-id", "skillId"], ["workflow-id", "workflowId"], ["assistant", "assistant"], ["session-id", "sessionId"]] as const;
const ID_OF: Record<string, string> = { "wfcore-run": "run-id", "wfcore-builder": "workflow-id", "wfcore-skill": "skill-id" };
const ICONS: Record<string, string> = {
  connections: "link", tools: "tool", schedules: "clock", members: "user", groups: "group", delegations: "inbox", tokens: "key", hooks: "hook", policies: "policy", usage: "usage", audit: "audit",
};

const maySeeSkills = (me: Caller) => me.scopes.includes("skills:read") || me.scopes.includes("skills:write");

/** The sections that the caller may see. */
function sectionsOf(me: Caller): string[] {
  const has = (area: string) => me.scopes.includes(`${area}:read`) || me.scopes.includes(`${area}:write`);
  const needs: Record<string, boolean> = {
    connections: has("connections"), tools: has("workflows"), schedules: has("workflows"), members: has("members"), groups: has("members"), delegations: has("workflows"), tokens: me.scopes.includes("tokens:write"),
    hooks: has("hooks"), policies: has("policies"), usage: has("usage"), audit: me.role !== "member" && me.scopes.includes("members:write"),
  };
  return SECTIONS.filter((section) => needs[section]);
}

/** The language of the pages: that of the operator's setting, else the browser's. */
export const localeOf = (config: Config) => config.locale ?? navigator.language;

const THEME = "wfcore-studio-theme";

/** The application of the pages: navigation, sign-in, and one element for each page. */
export class ApplicationElement extends StudioElement {
  declare config: Config;

  override connectedCallback() {
    this.setAttribute("base-url", this.config.baseUrl);
    this.setAttribute("locale", localeOf(this.config));
    this.setAttribute("color-scheme", sessionStorage.getItem(THEME) ?? "auto");
    for (const [name, value] of Object.entries(this.config.theme)) this.style.setProperty(name, value);
    if (storedToken()) this.useToken();
    super.connectedCallback();
  }

  useToken = () => {
    this.getToken = storedToken() ? () => storedToken() ?? "" : undefined;
  };

  setTheme(theme: string) {
    sessionStorage.setItem(THEME, theme);
    this.setAttribute("color-scheme", theme);
    document.documentElement.style.colorScheme = theme === "auto" ? "light dark" : theme;
  }

  protected override page() {
    return { page: this.config.chat ? CHAT_APP : APP, props: { element: this, config: this.config }, css: [shellCss] };
  }
}

const APP = new Deferred(() => Promise.resolve({ default: App }), App);
const CHAT_APP = new Deferred(() => Promise.resolve({ default: ChatApp }), ChatApp);

/** Loads the code of the page at this address, while the session is still checked. */
export function preload(address: URL, { baseUrl, chat }: Config): void {
  if (chat) return void pages.chat.load().catch(() => undefined);
  const route = routeOf(address, `${baseUrl}/studio/`);
  const name = PAGES[`${route.page}/${route.id === null ? "" : "1"}`]?.slice("wfcore-".length);
  if (name) void pages[name as keyof typeof pages].load().catch(() => undefined);
}

function App({ element, config }: { element: ApplicationElement; config: Config }) {
  const { t } = useLanguage();
  const host = useHost();
  const base = `${config.baseUrl}/studio/`;
  const [route, setRoute] = useState(() => routeOf(new URL(location.href), base));
  const { state, reason, me, onToken, signOut, returned } = useSession(element, config);
  const main = useRef<HTMLElement>(null);

  const go = useCallback((address: string, replace = false) => {
    history[replace ? "replaceState" : "pushState"](null, "", address);
    setRoute(routeOf(new URL(location.href), base));
  }, [base]);
  useEffect(() => {
    const onPop = () => setRoute(routeOf(new URL(location.href), base));
    addEventListener("popstate", onPop);
    return () => removeEventListener("popstate", onPop);
  }, [base]);
  useEffect(() => {
    const show = (event: Event) => {
      event.stopPropagation();
      go(addressOf((event as CustomEvent<Place>).detail, base));
    };
    element.addEventListener("wfcore-navigate", show);
    return () => element.removeEventListener("wfcore-navigate", show);
  }, [element, go, base]);
  useEffect(() => {
    if (returned === null) return;
    // The sign-in may have begun on a page of its own, such as that of a chat.
    if (returned.startsWith(base) || !returned) go(returned || base, true);
    else location.replace(returned);
  }, [returned, base, go]);
  useEffect(() => {
    if (state === "in" && (route.page === "" || (route.page === "sign-in" && returned === null))) go(`${base}runs`, true);
  }, [state, returned, route.page, base, go]);
  useEffect(() => {
    const name = t(`nav.${["runs", "inbox", "chat", "workflows", "skills", "more", ...SECTIONS].includes(route.page) ? route.page : "runs"}`);
    document.title = `${name} · ${config.title}`;
    document.documentElement.lang = language(localeOf(config)).locale;
  }, [route.page, config, t]);

  if (state === "checking") return <Loading rows={8} />;
  if (state === "out" || !me) return <SignIn config={config} reason={reason} onToken={onToken} />;
  const session = {
    me, theme: element.getAttribute("color-scheme") ?? "auto", onTheme: (theme: string) => element.setTheme(theme),
    onSignOut: signOut,
  };
  return (
    <div className="shell">
      <Nav config={config} route={route} session={session} base={base} onSkip={() => main.current?.focus()} />
      <main className="view" id="main" ref={main} tabIndex={-1}>
        {route.page === "more" ? <More config={config} session={session} base={base} /> : <Page route={route} base={base} go={go} element={element} config={config} token={host.client} />}
      </main>
    </div>
  );
}

/** The element of the route. It is a custom element, as a product would use it. */
function Page({ route, base, go, element, config, token }: {
  route: Route; base: string; go: (address: string, replace?: boolean) => void; element: ApplicationElement; config: Config; token: unknown;
}) {
  const { t } = useLanguage();
  const box = useRef<HTMLDivElement>(null);
  const name = PAGES[`${route.page}/${route.id === null ? "" : "1"}`];
  const isSection = name === "wfcore-administration";
  const key = isSection ? `${name}/${route.page}` : `${name}/${route.id}`;
  const shown = useRef<(HTMLElement & { getToken?: unknown; hrefOf?: unknown }) | null>(null);
  useEffect(() => {
    if (!name) return;
    const one = document.createElement(name) as HTMLElement & { getToken?: unknown; hrefOf?: unknown };
    one.setAttribute("base-url", config.baseUrl);
    one.setAttribute("locale", localeOf(config));
    if (isSection) one.setAttribute("section", route.page);
    else if (route.id !== null) one.setAttribute(ID_OF[name] ?? "interrupt-id", route.id);
    one.getToken = element.getToken;
    one.hrefOf = (place: Place) => addressOf(place, base);
    shown.current = one;
    box.current?.replaceChildren(one);
    return () => one.remove();
  }, [key, token]);
  useEffect(() => {
    if (isSection) shown.current?.toggleAttribute("record-id", route.id !== null);
    if (isSection && route.id !== null) shown.current?.setAttribute("record-id", route.id);
  }, [key, token, route.id]);
  const query = JSON.stringify(route.query);
  useEffect(() => {
    if (name !== "wfcore-runs") return;
    const runs = shown.current as RunsElement;
    runs.query = route.query;
    runs.onQuery = (next) => go(addressOf({ page: "runs", query: next }, base), true);
  }, [key, token, query]);
  useEffect(() => {
    if (name !== "wfcore-chat") return;
    const chat = shown.current!;
    for (const [attribute, field] of CHAT) {
      const value = route.query[field];
      if (value === undefined) chat.removeAttribute(attribute);
      else chat.setAttribute(attribute, value);
    }
    const onThread = (event: Event) => {
      const found = Object.entries((event as CustomEvent<Record<string, unknown>>).detail).filter(([, value]) => value);
      go(addressOf({ page: "chat", query: Object.fromEntries(found.map(([field, value]) => [field, String(value)])) }, base), true);
    };
    chat.addEventListener("wfcore-thread", onThread);
    return () => chat.removeEventListener("wfcore-thread", onThread);
  }, [key, token, query, go, base]);
  useEffect(() => {
    const scheme = element.getAttribute("color-scheme");
    if (scheme && shown.current) shown.current.setAttribute("color-scheme", scheme);
  });
  if (!name) {
    return <Empty icon="error" title={t("page.notFound")} action={<a className="button" href={`${base}runs`}>{t("page.toRuns")}</a>} />;
  }
  return <div ref={box} style={{ height: "100%" }} />;
}

interface Session {
  me: Caller;
  theme: string;
  onTheme: (theme: string) => void;
  onSignOut: (() => void) | undefined;
}

function Entry({ place, icon, text, base, current = false, children }: {
  place: Place; icon: string; text: string; base: string; current?: boolean; children?: ReactNode;
}) {
  const host = useHost();
  return (
    <a className="entry" href={addressOf(place, base)} aria-current={current ? "page" : undefined}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        host.navigate(place);
      }}>
      <Icon name={icon} />{text}{children}
    </a>
  );
}

function Nav({ config, route, session, base, onSkip }: { config: Config; route: Route; session: Session; base: string; onSkip: () => void }) {
  const { t } = useLanguage();
  const host = useHost();
  const [count, setCount] = useState(0);
  const read = useCallback(() => void host.api.inboxCount().then(setCount, () => undefined), [host]);
  useEffect(read, [read]);
  useChanges(["interrupt"], read, 500);
  const entry = (page: "runs" | "inbox" | "chat" | "workflows" | "skills", children?: ReactNode) => (
    <Entry place={{ page }} icon={page} text={t(`nav.${page}`)} base={base} current={route.page === page}>{children}</Entry>
  );
  const sections = sectionsOf(session.me);
  return (
    <nav className="nav" aria-label={t("nav.main")}>
      <button type="button" className="button skip" onClick={onSkip}>{t("nav.skip")}</button>
      <Brand config={config} />
      {entry("runs")}
      {entry("inbox", count ? <span className="badge num" aria-label={t("inbox.count", { count })}>{count > 99 ? "99+" : count}</span> : null)}
      {session.me.scopes.includes("workflows:invoke") && entry("chat")}
      {entry("workflows")}
      {maySeeSkills(session.me) && <span className="wide">{entry("skills")}</span>}
      <span className="more-entry">
        <Entry place={{ page: "administration", section: "more" }} icon="more" text={t("nav.more")} base={base} current={["more", "skills"].includes(route.page) || sections.includes(route.page)} />
      </span>
      <div className="sections">
        {sections.length > 0 && <h2>{t("nav.administration")}</h2>}
        {sections.map((section) => (
          <Entry key={section} place={{ page: "administration", section }} icon={ICONS[section]!} text={t(`nav.${section}`)} base={base} current={route.page === section} />
        ))}
        {config.links.map((link) => <a key={link.url} className="entry" href={link.url}><Icon name="link" />{link.text}</a>)}
      </div>
      <div className="foot"><SessionTools session={session} /></div>
    </nav>
  );
}

function SessionTools({ session }: { session: Session }) {
  const { t } = useLanguage();
  const [chosen, setChosen] = useState(session.theme);
  const who = session.me.email ?? session.me.userId;
  return (
    <>
      <span className="muted clip" title={who}>{who}</span>
      <label className="sr" htmlFor="theme">{t("menu.theme")}</label>
      <select id="theme" className="input" value={chosen} onChange={(event) => { setChosen(event.target.value); session.onTheme(event.target.value); }}>
        {["auto", "light", "dark"].map((one) => <option key={one} value={one}>{t(`theme.${one}`)}</option>)}
      </select>
      {session.onSignOut && <button type="button" className="button plain small" onClick={session.onSignOut} style={{ justifyContent: "flex-start" }}><Icon name="signOut" />{t("nav.signOut")}</button>}
    </>
  );
}

/** What the narrow navigation of a phone has no room for. */
function More({ config, session, base }: { config: Config; session: Session; base: string }) {
  const { t } = useLanguage();
  return (
    <div className="morepage">
      <h1>{t("nav.more")}</h1>
      {maySeeSkills(session.me) && <Entry place={{ page: "skills" }} icon="skills" text={t("nav.skills")} base={base} />}
      {sectionsOf(session.me).map((section) => (
        <Entry key={section} place={{ page: "administration", section }} icon={ICONS[section]!} text={t(`nav.${section}`)} base={base} />
      ))}
      {config.links.map((link) => <a key={link.url} className="entry" href={link.url}><Icon name="link" />{link.text}</a>)}
      <div className="stack session"><SessionTools session={session} /></div>
    </div>
  );
}
