import { flushSync } from "react-dom";

/** What becomes of the text in a form when its page is left. */
export type Typed = "kept" | "lost" | null;

interface Entry {
  typed: () => Typed;
  /** Ends the form, as a cancel does. */
  discard: () => void;
}

interface Asked {
  go: () => void;
  stay: () => void;
}

const NOTHING = (): void => undefined;

/** What is typed in one element or application and not sent: texts that are kept in memory, and forms that are lost when they are left. */
export class Unsaved {
  /** Whether the element is a page of its own, which the browser asks about before it is closed. */
  isPage = false;
  /** Nobody is asked about the pages of a session that has ended. */
  isOver = false;
  private readonly entries = new Set<Entry>();
  private readonly kept = new Map<string, { value: unknown }>();
  private readonly listeners = new Set<() => void>();
  private asked: Asked | null = null;

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };

  isAsked = () => this.asked !== null;

  isLost = () => !this.isOver && [...this.entries].some((entry) => entry.typed() === "lost");

  /** Adds a form that is shown; returns what removes it. */
  add(entry: Entry): () => void {
    this.entries.add(entry);
    return () => {
      this.entries.delete(entry);
      if (this.asked && !this.isLost()) this.stay();
    };
  }

  /** Goes to another place, at once if no form is lost by that; otherwise the user is asked, and may `stay`. */
  leave(go: () => void, stay = NOTHING): void {
    if (this.isLost()) this.set({ go, stay });
    else this.end(go);
  }

  stay = () => {
    const asked = this.asked;
    this.set(null);
    asked?.stay();
  };

  discard = () => {
    const asked = this.asked;
    // The focus returns before the next page can take it.
    flushSync(() => this.set(null));
    if (asked) this.end(asked.go);
  };

  get = (name: string) => this.kept.get(name);

  keep(name: string, value: unknown): void {
    this.kept.set(name, { value });
    this.tell();
  }

  forget(name: string): void {
    if (this.kept.delete(name)) this.tell();
  }

  /** Forgets all texts, as of somebody else. */
  clear(): void {
    this.kept.clear();
    this.tell();
  }

  private end(go: () => void) {
    for (const entry of this.entries) entry.discard();
    go();
  }

  private set(asked: Asked | null) {
    this.asked = asked;
    this.tell();
  }

  private tell() {
    for (const listener of this.listeners) listener();
  }
}
