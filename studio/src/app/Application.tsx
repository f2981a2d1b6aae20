import { useEffect, useState } from "react";
import type { Caller } from "../api/types";
import { PageElement } from "../elements/base";
import { Deferred, pages } from "../elements/deferred";
import { useLanguage } from "../i18n/context";
import { language } from "../i18n/texts";
import { Icon } from "../kit/icons";
import { keep, kept } from "../kit/tab";
import { ChatApp } from "./ChatApp";
import { type Config, localeOf } from "./config";
import { byAddress, pathOf, routeOf, SECTIONS, useAddress } from "./router";
import { forgetSignedOut } from "./session";
import { elementOf, personOf, Shell, START } from "./Shell";
import shellCss from "./shell.css?inline";
import { Front, useSession } from "./SignIn";

const THEME = "studio-theme";
const NAMED = ["runs", "inbox", "chat", "workflows", "skills", "more", ...SECTIONS];

/** The application of the pages: navigation, sign-in, and one element for each page. */
export class ApplicationElement extends PageElement {
  declare config: Config;

  override connectedCallback() {
    this.setAttribute("base-url", this.config.baseUrl);
    this.setAttribute("locale", localeOf(this.config));
    this.setAttribute("color-scheme", kept(THEME) ?? "auto");
    this.labels = this.config.labels;
    for (const [name, value] of Object.entries(this.config.theme)) this.style.setProperty(name, value);
    forgetSignedOut(this.config.baseUrl);
    super.connectedCallback();
  }

  setTheme(theme: string) {
    keep(THEME, theme);
    this.setAttribute("color-scheme", theme);
    document.documentElement.style.colorScheme = theme === "auto" ? "light dark" : theme;
  }

  protected override page() {
    return { page: this.config.chat ? CHAT_APP : APP, props: { element: this, config: this.config }, css: [shellCss] };
  }
}

const APP = new Deferred(() => Promise.resolve({ default: App }), App);
const CHAT_APP = new Deferred(() => Promise.resolve({ default: ChatApp }), ChatApp);

const baseOf = ({ baseUrl }: Config) => new URL(`${baseUrl}/studio/`, location.href).pathname;

/** Loads the code of the page at this address, while the session is still checked. */
export function preload(config: Config): void {
  if (config.chat) return void pages.chat.load().catch(() => undefined);
  const name = elementOf(routeOf(byAddress(baseOf(config), () => undefined).path()));
  if (name) void pages[name as keyof typeof pages].load().catch(() => undefined);
}

function App({ element, config }: { element: ApplicationElement; config: Config }) {
  const { t } = useLanguage();
  const base = baseOf(config);
  const session = useSession(element, config);
  const { state, me, signOut, returned } = session;
  const { navigation, path } = useAddress(base);
  const { page } = routeOf(path);
  useEffect(() => {
    if (returned === null) return;
    // The sign-in may have begun on a page of its own, such as that of a chat.
    if (returned.startsWith(base) || !returned) navigation.go(returned.slice(base.length), true);
    else location.replace(returned);
  }, [returned, base, navigation]);
  useEffect(() => {
    if (state === "in" && (page === "" || (page === "sign-in" && returned === null))) navigation.go(pathOf(START), true);
  }, [state, returned, page, navigation]);
  useEffect(() => {
    document.title = `${t(`nav.${NAMED.includes(page) ? page : "runs"}`)} · ${config.title}`;
    document.documentElement.lang = language(localeOf(config), config.labels).locale;
  }, [page, config, t]);

  const tools = me && <SessionTools me={me} element={element} onSignOut={signOut} />;
  return (
    <>
      {me && <Shell key={personOf(me)} element={element} config={config} navigation={navigation} path={path} me={me} tools={tools} view="main" />}
      <Front session={session} config={config} />
    </>
  );
}

function SessionTools({ me, element, onSignOut }: { me: Caller; element: ApplicationElement; onSignOut: (() => void) | undefined }) {
  const { t } = useLanguage();
  const [chosen, setChosen] = useState(element.getAttribute("color-scheme") ?? "auto");
  const who = me.email ?? me.userId;
  return (
    <>
      <span className="muted clip" title={who}>{who}</span>
      <div className="row">
        <label className="hint" htmlFor="theme">{t("menu.theme")}</label>
        <select id="theme" className="input grow" value={chosen} onChange={(event) => { setChosen(event.target.value); element.setTheme(event.target.value); }}>
          {["auto", "light", "dark"].map((one) => <option key={one} value={one}>{t(`theme.${one}`)}</option>)}
        </select>
      </div>
      {onSignOut && <button type="button" className="button plain small" onClick={onSignOut} style={{ justifyContent: "flex-start" }}><Icon name="signOut" />{t("nav.signOut")}</button>}
    </>
  );
}
