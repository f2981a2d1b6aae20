import type { ComponentType } from "react";

type AnyPage = ComponentType<any>;

/**
 * The page of an element, whose code is loaded when it is first used.
 *
 * Not `React.lazy`: React shows what follows a fallback of `Suspense` only after 300 ms.
 */
export class Deferred {
  private loading: Promise<void> | null = null;

  constructor(private readonly read: () => Promise<{ default: AnyPage }>, public component: AnyPage | null = null) {}

  /** Loads the code once; after a failure, the next call tries again. */
  load(): Promise<void> {
    this.loading ??= this.read().then(
      (module) => void (this.component = module.default),
      (error: unknown) => {
        this.loading = null;
        throw error;
      },
    );
    return this.loading;
  }
}

/** The code of each page: an element loads only what it shows. */
export const pages = {
  run: new Deferred(() => import("../pages/RunPage")),
  runs: new Deferred(() => import("../pages/RunsPage")),
  inbox: new Deferred(() => import("../pages/InboxPage")),
  approval: new Deferred(() => import("../pages/ApprovalPage")),
  chat: new Deferred(() => import("../pages/ChatPage")),
  skills: new Deferred(() => import("../pages/SkillsPage")),
  skill: new Deferred(() => import("../pages/SkillPage")),
  workflows: new Deferred(() => import("../pages/WorkflowsPage")),
  builder: new Deferred(() => import("../pages/BuilderPage")),
  administration: new Deferred(() => import("../pages/admin/AdministrationPage")),
  studio: new Deferred(() => import("../app/Embedded")),
};
