import { createContext, useCallback, useContext, useEffect, useLayoutEffect, useRef, useState, useSyncExternalStore } from "react";
import { Api } from "../api/api";
import { type Change, onChanges } from "../api/changes";
import { ApiError, type Client } from "../api/client";
import type { Problem, Reading } from "../kit/kit";
import type { Part, Typed, Unsaved } from "./unsaved";

export type View = Map<string, unknown>;

/** What a page gets from the element that shows it. */
export interface Host {
  /** Of the tags and events of the elements. */
  prefix: string;
  client: Client;
  api: Api;
  readonly: boolean;
  /** Whether the host wants this feature; a feature list hides and never grants. */
  wants: (feature: string) => boolean;
  /** What is typed and not sent, in all of the application or in this element. */
  unsaved: Unsaved;
  /** What the page leaves for when the user comes back to this place: its list, and what was chosen. */
  view: View;
  /** Dispatches `PREFIX-NAME`; false when the host prevented it. */
  emit: (name: string, detail?: object) => boolean;
  /** Where the application shows this place; undefined in elements outside of the application. */
  href: (place: Place) => string | undefined;
  navigate: (place: Place) => void;
}

export type Place =
  | { page: "runs"; query?: Record<string, string> }
  | { page: "run"; id: string }
  | { page: "chat"; query?: Record<string, string> }
  | { page: "skills" }
  | { page: "skill"; id: string }
  | { page: "inbox" }
  | { page: "approval"; id: string }
  | { page: "workflows" }
  | { page: "workflow"; id: string }
  | { page: "administration"; section: string; id?: string };

export const HostContext = createContext<Host | null>(null);

export function useHost(): Host {
  const host = useContext(HostContext);
  if (!host) throw new Error("a page is shown outside of an element");
  return host;
}

export const problemOf = (error: unknown): Problem =>
  error instanceof ApiError ? error : { status: -1, message: error instanceof Error ? error.message : String(error) };

/**
 * A form that is shown: what becomes of its text when it is left, and what ends it then. The user is asked before text is
 * lost; before a page of the server is closed, about all text.
 */
export function useUnsaved(typed: () => Typed, discard?: () => void, part?: Part): void {
  const { unsaved } = useHost();
  const latest = useRef({ typed, discard });
  latest.current = { typed, discard };
  useLayoutEffect(() => {
    const remove = unsaved.add({ typed: () => latest.current.typed(), discard: () => latest.current.discard?.(), part });
    const onUnload = (event: BeforeUnloadEvent) => {
      if (unsaved.isPage && !unsaved.isOver && latest.current.typed()) event.preventDefault();
    };
    addEventListener("beforeunload", onUnload);
    return () => {
      removeEventListener("beforeunload", onUnload);
      remove();
    };
  }, [unsaved, part]);
}

/**
 * A value that is typed, kept in memory for when its page is shown again, until it is sent and forgotten: `forget` of one
 * rendering forgets the value of that rendering, and not what is typed while it is sent.
 */
export function useKept<T>(name: string, start: T): [value: T, change: (next: (before: T) => T) => void, forget: () => void] {
  const { unsaved } = useHost();
  const valueOf = (kept: { value: unknown } | undefined) => (kept ? (kept.value as T) : start);
  const kept = useSyncExternalStore(unsaved.subscribe, () => unsaved.get(name));
  return [valueOf(kept), (next) => unsaved.keep(name, next(valueOf(unsaved.get(name)))), () => unsaved.forget(name, kept)];
}

/** A choice of the page, such as a filter, which is there again when the user comes back. */
export function useChoice<T>(name: string, start: T): [value: T, choose: (next: T) => void] {
  const { view } = useHost();
  const [value, setValue] = useState(() => (view.has(name) ? (view.get(name) as T) : start));
  const choose = useCallback((next: T) => {
    view.set(name, next);
    setValue(next);
  }, [view, name]);
  return [value, choose];
}

export interface Opening {
  /** What is shown in the place of the list or graph of a page, as the address has it. */
  opened?: string;
  onOpen?: (id: string | null) => void;
}

/** What is shown in the place of the list or graph of a page: at once, and in the address where there is one, so that Back leads to the list. */
export function useOpened({ opened, onOpen }: Opening): [id: string | null, open: (id: string | null) => void] {
  const [id, setId] = useState(opened ?? null);
  useLayoutEffect(() => setId(opened ?? null), [opened]);
  const open = (next: string | null) => {
    if (next === id) return;
    setId(next);
    onOpen?.(next);
  };
  return [id, open];
}

/** The problem of a request that failed, of which the page around the element is notified. */
export function reported(host: Host, error: unknown): Problem {
  const problem = problemOf(error);
  host.emit("error", { status: problem.status, message: problem.message });
  return problem;
}

/** Begins another attempt to read something: what it returns says whether an answer is still wanted, as there is no later attempt. */
export function useLatest(): () => () => boolean {
  const turn = useRef(0);
  useEffect(() => () => void turn.current++, []);
  return useCallback(() => {
    const mine = ++turn.current;
    return () => mine === turn.current;
  }, []);
}

/** Whether the dialog or page of the caller is still shown: what it began can end later. */
export function useIsShown(): () => boolean {
  const isShown = useRef(true);
  useEffect(() => {
    isShown.current = true;
    return () => void (isShown.current = false);
  }, []);
  return useCallback(() => isShown.current, []);
}

export interface Loaded<T> {
  value: T | undefined;
  problem: Problem | null;
  loading: boolean;
  reload: () => void;
}

/** The result of `load`, read again when `key` changes; the value before stays until the next one is there. */
export function useLoaded<T>(key: string, load: () => Promise<T>): Loaded<T> {
  const [state, setState] = useState<{ key: string; value?: T; problem: Problem | null; loading: boolean }>({
    key, problem: null, loading: true,
  });
  const host = useHost();
  const loader = useRef(load);
  loader.current = load;
  const turn = useRef(0);
  const reload = useCallback(() => {
    const mine = ++turn.current;
    setState((old) => (old.key === key ? { ...old, loading: true } : { key, problem: null, loading: true }));
    loader.current().then(
      (value) => mine === turn.current && setState({ key, value, problem: null, loading: false }),
      (error: unknown) => {
        if (mine !== turn.current) return;
        const problem = reported(host, error);
        setState((old) => ({ ...(old.value === undefined ? {} : { value: old.value }), key, problem, loading: false }));
      },
    );
  }, [key, host]);
  useEffect(() => {
    reload();
    return () => void turn.current++;
  }, [reload]);
  const current = state.key === key;
  return {
    value: current ? state.value : undefined,
    problem: current ? state.problem : null,
    loading: !current || state.loading,
    reload,
  };
}

/** How far a choice is read. */
export const readingOf = ({ value, problem, reload }: Loaded<unknown>): Reading => ({
  isDone: value !== undefined, problem: value === undefined ? problem : null, retry: reload,
});

/** Calls `listener` with changes of these kinds, collected for a moment. */
export function useChanges(kinds: string[], listener: (changes: Change[]) => void, wait = 250): void {
  const { client } = useHost();
  const latest = useRef(listener);
  latest.current = listener;
  const wanted = kinds.join();
  useEffect(() => {
    let collected: Change[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = onChanges(client, (changes) => {
      const fitting = changes.filter((change) => change.kind === "poll" || wanted.split(",").includes(change.kind));
      if (!fitting.length) return;
      collected.push(...fitting);
      timer ??= setTimeout(() => {
        const all = collected;
        collected = [];
        timer = undefined;
        latest.current(all);
      }, wait);
    });
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [client, wanted, wait]);
}

const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Whether this moment has come, by the clock of the server; the page is rendered again when it comes. */
export function useIsOver(at: string | null | undefined): boolean {
  const { client } = useHost();
  const [, setTurns] = useState(0);
  const left = () => (at ? Date.parse(at) - client.now() : Number.POSITIVE_INFINITY);
  const isOver = left() <= 0;
  useEffect(() => {
    const wait = left(); // it may have come since this was rendered
    if (isOver || wait > LONGEST_TIMER_MS) return;
    const timer = setTimeout(() => setTurns((turns) => turns + 1), wait);
    return () => clearTimeout(timer);
  });
  return isOver;
}

/** The current time by the clock of the server, again every `every` milliseconds while the page is visible. */
export function useNow(every: number): number {
  const { client } = useHost();
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now + client.ahead;
}
