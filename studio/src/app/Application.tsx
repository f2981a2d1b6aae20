import { type FormEvent, type ReactNode, useCallback, useEffect, useRef, useState } from "react";
import { ApiError, Client } from "../api/client";
import { StudioElement } from "../elements/base";
import { type Place, useChanges, useHost } from "../elements/context";
import { Deferred, pages } from "../elements/deferred";
import type { RunsElement } from "../elements/wfcore";
import { useLanguage } from "../i18n/context";
import { language } from "../i18n/texts";
import { Icon } from "../kit/icons";
import { Empty, Loading } from "../kit/kit";
import { addressOf, type Route, routeOf } from "./router";
import { beginSignIn, endSignIn, forgetToken, type OAuth, storedToken, storeToken } from "./session";
import shellCss from "./shell.css?inline";

export interface Config {
  title: string;
  logo: string | null;
  theme: Record<string, string>;
  links: { text: string; url: string }[];
  locale: string | null;
  baseUrl: string;
  oauth: OAuth | null;
}

const PAGES: Record<string, string> = {
  "runs/": "wfcore-runs", "runs/1": "wfcore-run", "inbox/": "wfcore-inbox", "inbox/1": "wfcore-approval", "workflows/": "wfcore-workflows", "workflows/1": "wfcore-builder",
};
const ID_OF: Record<string, string> = { "wfcore-run": "run-id", "wfcore-builder": "workflow-id" };
const THEME = "wfcore-studio-theme";

/** The application of the pages: navigation, sign-in, and one element for each page. */
export class ApplicationElement extends StudioElement {
  declare config: Config;

  override connectedCallback() {
    this.setAttribute("base-url", this.config.baseUrl);
    if (this.config.locale) this.setAttribute("locale", this.config.locale);
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
    return { page: APP, props: { element: this, config: this.config }, css: [shellCss] };
  }
}

const APP = new Deferred(() => Promise.resolve({ default: App }), App);

/** Loads the code of the page at this address, while the session is still checked. */
export function preload(address: URL, baseUrl: string): void {
  const route = routeOf(address, `${baseUrl}/studio/`);
  const name = PAGES[`${route.page}/${route.id === null ? "" : "1"}`]?.slice("wfcore-".length);
  if (name) void pages[name as keyof typeof pages].load().catch(() => undefined);
}

type State = "checking" | "out" | "in";

function App({ element, config }: { element: ApplicationElement; config: Config }) {
  const { t } = useLanguage();
  const host = useHost();
  const base = `${config.baseUrl}/studio/`;
  const [route, setRoute] = useState(() => routeOf(new URL(location.href), base));
  const [state, setState] = useState<State>("checking");
  const [reason, setReason] = useState<string | null>(null);
  const [who, setWho] = useState("");
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
    const out = (event: Event) => {
      event.stopPropagation();
      setReason((old) => old ?? (storedToken() ? "signIn.expired" : null));
      forgetToken();
      element.useToken();
      setState("out");
    };
    element.addEventListener("wfcore-navigate", show);
    element.addEventListener("wfcore-auth-required", out);
    return () => {
      element.removeEventListener("wfcore-navigate", show);
      element.removeEventListener("wfcore-auth-required", out);
    };
  }, [element, go, base]);

  // A client of its own: a missing session is a normal answer here, not an event.
  const signIn = useCallback(async (): Promise<boolean> => {
    const probe = new Client({ baseUrl: config.baseUrl, getToken: () => (storedToken() ? () => storedToken() ?? "" : undefined), onAuthRequired: () => undefined });
    try {
      const me = await probe.get<{ email: string | null; userId: string }>("/api/v1/me");
      setWho(me.email ?? me.userId);
      setReason(null);
      setState("in");
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.status === 0) setReason("error.offline");
      setState("out");
      return false;
    }
  }, [config.baseUrl]);
  useEffect(() => {
    void (async () => {
      if (config.oauth && route.page === "sign-in") {
        try {
          const back = await endSignIn(config.oauth, new URL(location.href).searchParams);
          element.useToken();
          go(back ?? base, true);
        } catch {
          setReason("signIn.failed");
          go(base, true);
        }
      }
      await signIn();
    })();
  }, []);
  useEffect(() => {
    if (state === "in" && (route.page === "" || route.page === "sign-in")) go(`${base}runs`, true);
  }, [state, route.page, base, go]);
  useEffect(() => {
    const name = t(`nav.${["runs", "inbox", "workflows"].includes(route.page) ? route.page : "runs"}`);
    document.title = `${name} · ${config.title}`;
    document.documentElement.lang = language(config.locale ?? navigator.language).locale;
  }, [route.page, config, t]);

  if (state === "checking") return <Loading rows={8} />;
  if (state === "out") {
    return (
      <SignIn config={config} reason={reason} base={base} onToken={async (token) => {
        storeToken(token);
        element.useToken();
        if (await signIn()) return true;
        forgetToken();
        element.useToken();
        return false;
      }} />
    );
  }
  return (
    <div className="shell">
      <Nav config={config} route={route} who={who} base={base} theme={element.getAttribute("color-scheme") ?? "auto"} onTheme={(theme) => element.setTheme(theme)}
        onSkip={() => main.current?.focus()} onSignOut={storedToken() ? () => { forgetToken(); element.useToken(); setReason(null); setState("out"); } : undefined} />
      <main className="view" id="main" ref={main} tabIndex={-1}>
        <Page route={route} base={base} go={go} element={element} config={config} token={host.client} />
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
  const key = `${name}/${route.id}`;
  const shown = useRef<(HTMLElement & { getToken?: unknown; hrefOf?: unknown }) | null>(null);
  useEffect(() => {
    if (!name) return;
    const one = document.createElement(name) as HTMLElement & { getToken?: unknown; hrefOf?: unknown };
    one.setAttribute("base-url", config.baseUrl);
    if (config.locale) one.setAttribute("locale", config.locale);
    if (route.id !== null) one.setAttribute(ID_OF[name] ?? "interrupt-id", route.id);
    one.getToken = element.getToken;
    one.hrefOf = (place: Place) => addressOf(place, base);
    shown.current = one;
    box.current?.replaceChildren(one);
    return () => one.remove();
  }, [key, token]);
  const query = JSON.stringify(route.query);
  useEffect(() => {
    if (name !== "wfcore-runs") return;
    const runs = shown.current as RunsElement;
    runs.query = route.query;
    runs.onQuery = (next) => go(addressOf({ page: "runs", query: next }, base), true);
  }, [key, token, query]);
  useEffect(() => {
    const scheme = element.getAttribute("color-scheme");
    if (scheme && shown.current) shown.current.setAttribute("color-scheme", scheme);
  });
  if (!name) {
    return <Empty icon="error" title={t("page.notFound")} action={<a className="button" href={`${base}runs`}>{t("page.toRuns")}</a>} />;
  }
  return <div ref={box} style={{ height: "100%" }} />;
}

function Brand({ config }: { config: Config }) {
  return (
    <div className="brand">
      {config.logo ? <img src={config.logo} alt="" /> : <span className="mark"><Icon name="workflows" /></span>}
      <span className="clip">{config.title}</span>
    </div>
  );
}

function Nav({ config, route, who, base, theme, onTheme, onSkip, onSignOut }: {
  config: Config; route: Route; who: string; base: string; theme: string; onTheme: (theme: string) => void; onSkip: () => void; onSignOut: (() => void) | undefined;
}) {
  const { t } = useLanguage();
  const host = useHost();
  const [count, setCount] = useState(0);
  const [chosen, setChosen] = useState(theme);
  const read = useCallback(() => void host.api.inboxCount().then(setCount, () => undefined), [host]);
  useEffect(read, [read]);
  useChanges(["interrupt"], read, 500);
  const entry = (place: Place, icon: string, text: string, badge?: number): ReactNode => (
    <a className="entry" href={addressOf(place, base)} aria-current={route.page === place.page ? "page" : undefined}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        host.navigate(place);
      }}>
      <Icon name={icon} />{text}
      {badge ? <span className="badge num" aria-label={t("inbox.count", { count: badge })}>{badge > 99 ? "99+" : badge}</span> : null}
    </a>
  );
  return (
    <nav className="nav" aria-label={t("nav.main")}>
      <button type="button" className="button skip" onClick={onSkip}>{t("nav.skip")}</button>
      <Brand config={config} />
      {entry({ page: "runs" }, "runs", t("nav.runs"))}
      {entry({ page: "inbox" }, "inbox", t("nav.inbox"), count)}
      {entry({ page: "workflows" }, "workflows", t("nav.workflows"))}
      {config.links.map((link) => <a key={link.url} className="entry" href={link.url}><Icon name="link" />{link.text}</a>)}
      <div className="foot">
        <span className="muted clip" title={who}>{who}</span>
        <label className="sr" htmlFor="theme">{t("menu.theme")}</label>
        <select id="theme" className="input" value={chosen} onChange={(event) => { setChosen(event.target.value); onTheme(event.target.value); }}>
          {["auto", "light", "dark"].map((one) => <option key={one} value={one}>{t(`theme.${one}`)}</option>)}
        </select>
        {onSignOut && <button type="button" className="button plain small" onClick={onSignOut} style={{ justifyContent: "flex-start" }}><Icon name="signOut" />{t("nav.signOut")}</button>}
      </div>
    </nav>
  );
}

function SignIn({ config, reason, base, onToken }: {
  config: Config; reason: string | null; base: string; onToken: (token: string) => Promise<boolean>;
}) {
  const { t } = useLanguage();
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<string | null>(reason);
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem((await onToken(token.trim())) ? null : "signIn.bad");
    setBusy(false);
  };
  const redirect = new URL(`${base}sign-in`, location.href).href;
  const start = () => beginSignIn(config.oauth!, redirect, location.pathname + location.search).catch(() => setProblem("signIn.failed"));
  return (
    <main className="signin">
      <form onSubmit={(event) => void submit(event)}>
        <Brand config={config} />
        <h1>{t("signIn.title")}</h1>
        {config.oauth && (
          <>
            <button type="button" className="button primary" onClick={() => void start()}>{t("signIn.oauth")}</button>
            <div className="or">{t("signIn.or")}</div>
          </>
        )}
        <div className="field">
          <label htmlFor="token">{t("signIn.token")}</label>
          <input id="token" className="input mono" type="password" autoComplete="off" spellCheck={false} required value={token} aria-invalid={problem === "signIn.bad" || undefined}
            aria-describedby="token-hint" autoFocus onChange={(event) => setToken(event.target.value)} />
          <p className="hint" id="token-hint">{t("signIn.hint")}</p>
        </div>
        {problem && <p className="problem" role="alert"><Icon name="error" />{t(problem)}</p>}
        <button type="submit" className={`button${config.oauth ? "" : " primary"}`} disabled={busy || !token.trim()}>{t("signIn.submit")}</button>
      </form>
    </main>
  );
}

