import { Component, type ReactNode } from "react";
import { createRoot, type Root } from "react-dom/client";
import { Api } from "../api/api";
import { Client, type GetToken } from "../api/client";
import { LanguageContext } from "../i18n/context";
import { type Labels, type Language, language, merged } from "../i18n/texts";
import base from "../kit/base.css?inline";
import { Failure, Loading, type Problem } from "../kit/kit";
import { type Host, HostContext, type Place, problemOf, type View } from "./context";
import type { Deferred } from "./deferred";
import { keepFocus } from "./focus";
import { Leave } from "./Leave";
import { Unsaved } from "./unsaved";

const SHARED = ["base-url", "readonly", "locale", "color-scheme", "features"];
const DEFAULT_BASE = new URL(/* @vite-ignore */ "..", import.meta.url).href.replace(/\/studio\/(assets\/)?$/, "").replace(/\/$/, "");
const sheets = new Map<string, CSSStyleSheet>();

/** A constructed stylesheet of this text: one for all elements, and allowed by every content security policy. */
function sheet(text: string): CSSStyleSheet {
  let found = sheets.get(text);
  if (!found) {
    found = new CSSStyleSheet();
    found.replaceSync(text);
    sheets.set(text, found);
  }
  return found;
}

/** Tags and events of one module have the same prefix: `acme` of `<acme-run>`. */
const prefixOf = (element: Element) => element.localName.slice(0, element.localName.lastIndexOf("-"));

/** What an element takes from the one around it, a provider or a whole application. */
interface Provider extends HTMLElement {
  getToken: GetToken | undefined;
  labels: Labels | undefined;
  setting: (name: string) => string | null;
}

const CHANGED = "settings-change";

/** The settings of the elements inside; any of them can have its own instead. */
export class ProviderElement extends HTMLElement {
  static readonly observedAttributes = SHARED;
  #getToken: GetToken | undefined;
  #labels: Labels | undefined;

  get getToken(): GetToken | undefined {
    return this.#getToken;
  }
  set getToken(value: GetToken | undefined) {
    this.#getToken = value;
    this.attributeChangedCallback();
  }
  get labels(): Labels | undefined {
    return this.#labels;
  }
  set labels(value: Labels | undefined) {
    this.#labels = value;
    this.attributeChangedCallback();
  }

  connectedCallback() {
    upgrade(this, ["getToken", "labels"]);
    this.style.display ||= "contents";
    this.attributeChangedCallback();
  }

  attributeChangedCallback() {
    this.dispatchEvent(new Event(CHANGED));
  }

  setting(name: string): string | null {
    return this.getAttribute(name);
  }
}

/** Properties that were set before the module was loaded become properties of the class. */
export function upgrade(element: HTMLElement, names: string[]) {
  for (const name of names) {
    if (!Object.hasOwn(element, name)) continue;
    const held = element as unknown as Record<string, unknown>;
    const value = held[name];
    delete held[name];
    held[name] = value;
  }
}

class Boundary extends Component<{ children: ReactNode; onError: (error: Error) => void }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };
  static getDerivedStateFromError(error: Error) {
    return { error };
  }
  override componentDidCatch(error: Error) {
    this.props.onError(error);
  }
  override render() {
    return this.state.error
      ? <Failure problem={{ status: -1, message: this.state.error.message }} onRetry={() => this.setState({ error: null })} />
      : this.props.children;
  }
}

/** The base of the elements: an open shadow root with a React tree, and no state that two elements share. */
export abstract class PageElement extends HTMLElement {
  static readonly own: string[] = [];
  static get observedAttributes(): string[] {
    return [...SHARED, ...this.own];
  }

  #root: Root | null = null;
  #client: Client | null = null;
  #host: Host | null = null;
  #settings = "";
  #used: GetToken | undefined;
  readonly #unsaved = new Unsaved();
  #getToken: GetToken | undefined;
  #labels: Labels | undefined;
  #provider: Provider | null = null;
  #pending = false;
  #ready = false;
  #problem: Problem | null = null;
  #texts: Language | null = null;

  protected abstract page(): { page: Deferred; props: Record<string, unknown>; css: string[] };

  /** Set by the application: the address of a place. */
  declare hrefOf: ((place: Place) => string | undefined) | undefined;
  /** Set by the application: what the page left when it was shown at this place before. */
  declare view: View | undefined;
  #opened: string | undefined;
  /** What the page shows in the place of its list or graph, where the application has it in the address; `onOpen` gets another one. */
  get opened() {
    return this.#opened;
  }
  set opened(id: string | undefined) {
    if (id === this.#opened) return;
    this.#opened = id;
    this.schedule();
  }
  declare onOpen: ((id: string | null) => void) | undefined;
  protected readonly openedProps = () => ({ ...(this.opened === undefined ? {} : { opened: this.opened }), onOpen: (id: string | null) => this.onOpen?.(id) });

  get getToken(): GetToken | undefined {
    return this.#getToken ?? this.#provider?.getToken;
  }
  set getToken(value: GetToken | undefined) {
    this.#getToken = value;
    this.schedule();
  }
  get labels(): Labels | undefined {
    return merged(this.#provider?.labels, this.#labels);
  }
  set labels(value: Labels | undefined) {
    this.#labels = value;
    this.schedule();
  }

  connectedCallback() {
    upgrade(this, ["getToken", "labels", "hrefOf"]);
    this.#provider = providerOf(this);
    this.#provider?.addEventListener(CHANGED, this.schedule);
    this.schedule();
  }

  disconnectedCallback() {
    this.#provider?.removeEventListener(CHANGED, this.schedule);
    // A move within the document disconnects and connects again: only a real removal ends the tree.
    queueMicrotask(() => {
      if (this.isConnected) return;
      this.#root?.unmount();
      this.#root = null;
      this.#host = null;
    });
  }

  attributeChangedCallback() {
    this.schedule();
  }

  protected schedule = () => {
    this.dispatchEvent(new Event(CHANGED));
    if (this.#pending) return;
    this.#pending = true;
    queueMicrotask(() => {
      this.#pending = false;
      if (this.isConnected) this.render();
    });
  };

  setting(name: string): string | null {
    return this.getAttribute(name) ?? this.#provider?.setting(name) ?? null;
  }

  /** That of the application around, if there is one. A new `getToken`, as each rendering of a product can make, keeps it. */
  private unsaved(): Unsaved {
    return this.#provider instanceof PageElement ? this.#provider.unsaved() : this.#unsaved;
  }

  private host(): Host {
    const baseUrl = this.setting("base-url") ?? DEFAULT_BASE;
    const features = this.setting("features");
    const isReadonly = this.setting("readonly") !== null;
    const settings = JSON.stringify([baseUrl, features, isReadonly]);
    const token = this.getToken;
    if (this.#host && settings === this.#settings && token === this.#used) return this.#host;
    this.#settings = settings;
    this.#used = token;
    const prefix = prefixOf(this);
    const application = this.#provider instanceof PageElement ? this.#provider : null;
    const emit = (name: string, detail: object = {}) =>
      this.dispatchEvent(new CustomEvent(`${prefix}-${name}`, {
        detail, bubbles: true, composed: true, cancelable: name.startsWith("before-") || name === "navigate" || name === "auth-required",
      }));
    this.#client = new Client({ baseUrl, getToken: () => this.getToken, onAuthRequired: () => !emit("auth-required"), offline: () => this.#texts?.t("error.offline") ?? "" });
    const names = features?.split(/[\s,]+/).filter(Boolean);
    this.#host = {
      prefix,
      client: this.#client,
      api: new Api(this.#client),
      readonly: isReadonly,
      wants: (feature) => !names || names.includes(feature),
      emit,
      unsaved: this.unsaved(),
      view: this.view ?? new Map(),
      href: (place) => this.hrefOf?.(place),
      // An application has to agree for all of its pages.
      navigate: (place) => (application ? void emit("navigate", place) : this.unsaved().leave(() => void emit("navigate", place))),
    };
    return this.#host;
  }

  /** Loads the code of the page, and then shows it. */
  private load(page: Deferred) {
    this.#problem = null;
    page.load().catch((error: unknown) => {
      this.#problem = problemOf(error);
      this.#host?.emit("error", { status: -1, message: this.#problem.message });
    }).finally(this.schedule);
  }

  private render() {
    const { page, props, css } = this.page();
    const Shown = page.component;
    if (!Shown && !this.#problem) this.load(page);
    const scheme = this.setting("color-scheme");
    if (scheme && !this.hasAttribute("color-scheme")) this.setAttribute("color-scheme", scheme);
    if (!this.#root) {
      const shadow = this.shadowRoot ?? this.attachShadow({ mode: "open" });
      shadow.adoptedStyleSheets = [base, ...css].map(sheet);
      const container = shadow.querySelector(".wf") ?? document.createElement("div");
      container.className = "wf";
      container.setAttribute("part", "panel");
      shadow.append(container);
      keepFocus(shadow);
      this.#root = createRoot(container);
    }
    const host = this.host();
    const locale = this.setting("locale") || this.closest("[lang]")?.getAttribute("lang") || navigator.language;
    const texts = language(locale, this.labels, {}, () => host.client.now());
    this.#texts = texts;
    this.shadowRoot?.firstElementChild?.setAttribute("lang", texts.locale);
    this.#root.render(
      <LanguageContext value={texts}>
        <HostContext value={host}>
          <Boundary onError={(error) => void host.emit("error", { status: -1, message: error.message })}>
            {Shown ? <Shown {...props} />
              : this.#problem ? <Failure problem={this.#problem} onRetry={() => this.load(page)} /> : <Loading />}
          </Boundary>
          {!(this.#provider instanceof PageElement) && <Leave unsaved={this.#unsaved} />}
        </HostContext>
      </LanguageContext>,
    );
    if (!this.#ready) {
      this.#ready = true;
      host.emit("ready");
    }
  }
}

/** The nearest provider around the element, or the application that shows it; in the document or in shadow roots. */
function providerOf(element: Element, prefix = prefixOf(element)): Provider | null {
  const found = element.closest<Provider>(`${prefix}-provider`);
  const root = element.getRootNode();
  if (found || !(root instanceof ShadowRoot)) return found;
  return root.host instanceof PageElement ? root.host : providerOf(root.host, prefix);
}
