import flowCss from "@xyflow/react/dist/base.css?inline";
import builderCss from "../builder/builder.css?inline";
import graphCss from "../canvas/graph.css?inline";
import chatCss from "../chat/chat.css?inline";
import adminCss from "../pages/admin/admin.css?inline";
import pagesCss from "../pages/pages.css?inline";
import type { Skin } from "../pages/Approval";
import type { BuilderMethods } from "../pages/BuilderPage";
import { ProviderElement, PageElement, upgrade } from "./base";
import shellCss from "../app/shell.css?inline";
import type { Link } from "../app/Shell";
import skillCss from "../skill/skill.css?inline";
import { pages } from "./deferred";

const skinOf = (element: Element): Skin => (element.getAttribute("skin") === "minimal" ? "minimal" : "detailed");
const optional = (element: Element, name: string) => element.getAttribute(name) ?? undefined;

class RunElement extends PageElement {
  static override readonly own = ["run-id"];
  protected override page() {
    return { page: pages.run, props: { runId: this.getAttribute("run-id") ?? "" }, css: [flowCss, graphCss, pagesCss] };
  }
}

class RunsElement extends PageElement {
  static override readonly own = ["workflow-id"];
  #query: Record<string, string> | undefined;
  /** The filters, where the host keeps them; `onQuery` gets the changed ones. */
  override connectedCallback() {
    upgrade(this, ["query"]);
    super.connectedCallback();
  }
  get query() {
    return this.#query;
  }
  set query(value: Record<string, string> | undefined) {
    this.#query = value;
    this.schedule();
  }
  declare onQuery: ((query: Record<string, string>) => void) | undefined;
  protected override page() {
    const props = { workflowId: optional(this, "workflow-id"), query: this.#query, onQuery: (query: Record<string, string>) => this.onQuery?.(query) };
    return { page: pages.runs, props, css: [pagesCss] };
  }
}

class InboxElement extends PageElement {
  static override readonly own = ["skin", "workflow-id"];
  protected override page() {
    return { page: pages.inbox, props: { skin: skinOf(this), workflowId: optional(this, "workflow-id"), ...this.openedProps() }, css: [pagesCss] };
  }
}

class ApprovalElement extends PageElement {
  static override readonly own = ["interrupt-id", "skin"];
  protected override page() {
    return { page: pages.approval, props: { interruptId: this.getAttribute("interrupt-id") ?? "", skin: skinOf(this) }, css: [pagesCss] };
  }
}

class ChatElement extends PageElement {
  static override readonly own = ["skill-id", "workflow-id", "assistant", "interface-id", "session-id"];
  protected override page() {
    const props = {
      skillId: optional(this, "skill-id"), workflowId: optional(this, "workflow-id"), assistant: this.hasAttribute("assistant"),
      interfaceId: optional(this, "interface-id"), sessionId: optional(this, "session-id"),
    };
    return { page: pages.chat, props, css: [pagesCss, chatCss] };
  }
}

class BuilderElement extends PageElement {
  static override readonly own = ["workflow-id"];
  #methods: BuilderMethods | null = null;
  private readonly keep = (methods: BuilderMethods | null) => void (this.#methods = methods);
  protected override page() {
    const props = { workflowId: this.getAttribute("workflow-id") ?? "", onEditor: this.keep, ...this.openedProps() };
    return { page: pages.builder, props, css: [flowCss, graphCss, pagesCss, builderCss] };
  }
  save = () => this.#methods?.save();
  validate = () => this.#methods?.validate();
  deploy = () => this.#methods?.deploy();
  fitView = () => this.#methods?.fitView();
  focusNode = (id: string) => this.#methods?.focusNode(id);
  undo = () => this.#methods?.undo();
  redo = () => this.#methods?.redo();
}

class SkillElement extends PageElement {
  static override readonly own = ["skill-id"];
  protected override page() {
    return { page: pages.skill, props: { skillId: this.getAttribute("skill-id") ?? "" }, css: [pagesCss, adminCss, chatCss, skillCss] };
  }
}

class SkillsElement extends PageElement {
  protected override page() {
    return { page: pages.skills, props: {}, css: [pagesCss] };
  }
}

class WorkflowsElement extends PageElement {
  protected override page() {
    return { page: pages.workflows, props: {}, css: [pagesCss] };
  }
}

class AdministrationElement extends PageElement {
  static override readonly own = ["section", "record-id"];
  protected override page() {
    const props = { section: this.getAttribute("section") ?? "connections", recordId: optional(this, "record-id") };
    return { page: pages.administration, props, css: [pagesCss, adminCss] };
  }
}

/** The whole application, in the page of a product. */
class StudioElement extends PageElement {
  static override readonly own = ["base-path", "route", "heading", "logo"];
  #links: Link[] | undefined;
  override connectedCallback() {
    upgrade(this, ["links"]);
    super.connectedCallback();
  }
  /** Further entries of the navigation. */
  get links() {
    return this.#links;
  }
  set links(value: Link[] | undefined) {
    this.#links = value;
    this.schedule();
  }
  protected override page() {
    const props = {
      element: this, basePath: this.getAttribute("base-path"), route: this.getAttribute("route") ?? "",
      config: { title: this.getAttribute("heading") ?? "", logo: this.getAttribute("logo"), links: this.#links ?? [] },
    };
    return { page: pages.studio, props, css: [shellCss] };
  }
}

const ELEMENTS: Record<string, CustomElementConstructor> = {
  provider: ProviderElement,
  run: RunElement,
  runs: RunsElement,
  inbox: InboxElement,
  approval: ApprovalElement,
  chat: ChatElement,
  skills: SkillsElement,
  skill: SkillElement,
  workflows: WorkflowsElement,
  builder: BuilderElement,
  administration: AdministrationElement,
  studio: StudioElement,
};

/** Defines the elements with this prefix, such as `<acme-run>`. A class has one tag only, so each gets its own. */
export function define(prefix: string): void {
  for (const [name, element] of Object.entries(ELEMENTS)) {
    if (!customElements.get(`${prefix}-${name}`)) customElements.define(`${prefix}-${name}`, class extends element {});
  }
}
