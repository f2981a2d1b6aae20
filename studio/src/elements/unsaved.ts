import { flushSync } from "react-dom";

/** What becomes of the text in a form when its page is left. */
export type Typed = "kept" | "lost" | null;

/** The answers to requests, which can be left alone, as by another chat beside a form that stays. */
export type Part = "answers";

interface Entry {
  typed: () => Typed;
  /** Ends the form, as a cancel does. */
  discard: () => void;
  part?: Part | undefined;
}

interface Asked {
  part: Part | undefined;
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

  isLost = (part?: Part) => !this.isOver && this.of(part).some((entry) => entry.typed() === "lost");

  /** Adds a form that is shown; returns what removes it. */
  add(entry: Entry): () => void {
    this.entries.add(entry);
    return () => {
      this.entries.delete(entry);
      if (this.asked && !this.isLost(this.asked.part)) this.stay();
    };
  }

  /** Goes to another place, at once if no form of the part, or of all, is lost by that; otherwise the user is asked, and may `stay`. */
  leave(go: () => void, stay = NOTHING, part?: Part): void {
    if (this.isLost(part)) this.set({ part, go, stay });
    else this.end(go, part);
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
    if (asked) this.end(asked.go, asked.part);
  };

  get = (name: string) => this.kept.get(name);

  keep(name: string, value: unknown): void {
    this.kept.set(name, { value });
    this.tell();
  }

  /** Forgets a value that `get` gave, unless there is another one meanwhile. */
  forget(name: string, kept: { value: unknown } | undefined): void {
    if (kept && this.kept.get(name) === kept && this.kept.delete(name)) this.tell();
  }

  /** Forgets all texts, as of somebody else. */
  clear(): void {
    this.kept.clear();
    this.tell();
  }

  private of(part: Part | undefined): Entry[] {
    return [...this.entries].filter((entry) => part === undefined || entry.part === part);
  }

  private end(go: () => void, part: Part | undefined) {
    for (const entry of this.of(part)) entry.discard();
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
