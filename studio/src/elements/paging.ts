import { useEffect, useMemo, useSyncExternalStore } from "react";
import type { Page } from "../api/api";
import type { Further, Problem, Top } from "../kit/kit";
import { problemOf, reported, useChanges, useHost } from "./context";

export interface Shown<T> {
  rows: T[];
  next: string | null;
  total: number | undefined;
  loading: boolean;
  /** Why the rows could not be read. */
  problem: Problem | null;
  /** Why the page after the last row could not be read. */
  failed: Problem | null;
  /** Something has changed in a long list, which is read again on demand only. */
  isOutdated: boolean;
}

/** What is left of a list when its page is left: enough to show it again where it was. */
export interface Left<T> {
  shown: Shown<T>;
  pages: number;
  top: Top | null;
}

/** How many pages are read again after each change: a change must not cost more, the further down a list is shown. */
const MOST_PAGES = 5;

/**
 * The rows of a list that the API has in pages. At most one page is requested at a time. A page that failed is requested
 * again by `retry` only.
 */
export class Paging<T> {
  private shown: Shown<T> = { rows: [], next: null, total: undefined, loading: true, problem: null, failed: null, isOutdated: false };
  private pages = 1;
  private isBusy = false;
  private isStale = false;
  private isStopped = false;
  private readonly listeners = new Set<() => void>();
  /** The ids of the rows. */
  private known = new Set<string>();
  /** The first row in sight. */
  readonly top: { current: Top | null } = { current: null };

  /** `problemIn` is called with each error of a request; what it makes of it is shown. A list that was left begins where it was. */
  constructor(
    private readonly load: (pageToken: string | null) => Promise<Page<T>>, readonly idOf: (row: T) => string,
    private readonly problemIn: (error: unknown) => Problem = problemOf, left?: Left<T>,
  ) {
    if (!left?.shown.rows.length) return;
    this.shown = left.shown;
    this.pages = left.pages;
    this.top.current = left.top;
    this.known = new Set(left.shown.rows.map(idOf));
  }

  left = (): Left<T> => ({ shown: this.shown, pages: this.pages, top: this.top.current });

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };
  current = () => this.shown;

  stop = () => {
    this.isStopped = true;
  };

  /** Reads as many pages again as are shown, unless these are many. The rows before stay until all of them are there. */
  refresh = async () => {
    this.isStopped = false;
    if (this.pages > MOST_PAGES) return this.set({ isOutdated: true });
    this.isStale = true;
    if (this.isBusy) return;
    this.isBusy = true;
    while (this.isStale && !this.isStopped) {
      this.isStale = false;
      await this.again();
    }
    this.isBusy = false;
  };

  /** The next page; nothing if there is none, if it failed, or while another request is under way. */
  more = async () => {
    const { next, failed } = this.shown;
    if (this.isBusy || next === null || failed) return;
    this.isBusy = true;
    try {
      const page = await this.read(next);
      this.pages++;
      this.set({ rows: [...this.shown.rows, ...this.without(this.known, page.rows)], next: page.next });
    } catch (error) {
      if (!this.isStopped) this.set({ failed: this.problemIn(error) });
    }
    this.isBusy = false;
    if (this.isStale && !this.isStopped) await this.refresh();
  };

  retry = () => {
    this.set({ failed: null });
    void this.more();
  };

  /** On demand of the user, after a problem too. */
  reload = () => {
    if (this.shown.problem) this.set({ problem: null, loading: true });
    void this.refresh();
  };

  /** Reads a list again whose rows are outdated: from its beginning. */
  renew = () => {
    this.pages = 1;
    this.set({ isOutdated: false });
    void this.refresh();
  };

  private async again() {
    try {
      let page = await this.read(null);
      const known = new Set<string>();
      const rows = this.without(known, page.rows);
      let pages = 1;
      for (; pages < this.pages && page.next !== null; pages++) {
        page = await this.read(page.next);
        rows.push(...this.without(known, page.rows));
      }
      this.pages = pages;
      this.known = known;
      const failed = page.next === null ? null : this.shown.failed;
      this.set({ rows, next: page.next, total: page.total, loading: false, problem: null, failed });
    } catch (error) {
      if (!this.isStopped) this.set({ loading: false, problem: this.problemIn(error) });
    }
  }

  /** One page; those without rows are passed over. */
  private async read(pageToken: string | null): Promise<Page<T>> {
    let page = await this.load(pageToken);
    while (!page.rows.length && page.next !== null && !this.isStopped) page = await this.load(page.next);
    return page;
  }

  /** The rows that are not known; they are known now. */
  private without(known: Set<string>, rows: T[]): T[] {
    return rows.filter((row) => {
      const id = this.idOf(row);
      return !known.has(id) && known.add(id);
    });
  }

  private set(changed: Partial<Shown<T>>) {
    if (this.isStopped) return;
    this.shown = { ...this.shown, ...changed };
    this.listeners.forEach((listener) => listener());
  }
}

export interface Pages<T> extends Shown<T>, Further {
  reload: () => void;
}

/**
 * The pages of a list, from its beginning when `key` changes, and refreshed in place after changes of these kinds.
 * `key` has all that `load` depends on, except for the host.
 */
export function usePages<T>(
  key: string, load: (pageToken: string | null) => Promise<Page<T>>, idOf: (row: T) => string, kinds: string[], wait = 400,
): Pages<T> {
  const host = useHost();
  const name = `list ${kinds.join()} ${key}`;
  const paging = useMemo(() => new Paging(load, idOf, (error) => reported(host, error), host.view.get(name) as Left<T> | undefined), [host.client, key]);
  useEffect(() => {
    void paging.refresh();
    return () => {
      paging.stop();
      host.view.set(name, paging.left());
    };
  }, [paging]);
  useChanges(kinds, () => void paging.refresh(), wait);
  const shown = useSyncExternalStore(paging.subscribe, paging.current);
  return { ...shown, top: paging.top, keyOf: (index) => idOf(shown.rows[index]!), more: () => void paging.more(), retry: paging.retry, renew: paging.renew, reload: paging.reload };
}
