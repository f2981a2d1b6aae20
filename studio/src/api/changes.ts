import type { Client } from "./client";
import { follow } from "./sse";

export interface Change {
  kind: string;
  id?: string | number;
  what?: string;
}

interface Shared {
  listeners: Set<(changes: Change[]) => void>;
  stop: () => void;
}

const POLL_MS = 5_000;
const open = new Map<string, Map<unknown, Shared>>();

/**
 * Calls `listener` with changes of resources, runs and interrupts that the caller may see. All listeners of one server
 * and credential share one connection. `listener` gets a `poll`, which means that anything can have changed, when the
 * stream begins, and now and then while there is no stream.
 */
export function onChanges(client: Client, listener: (changes: Change[]) => void): () => void {
  const byCredential = open.get(client.baseUrl) ?? new Map<unknown, Shared>();
  open.set(client.baseUrl, byCredential);
  const credential = client.credential;
  const shared = byCredential.get(credential) ?? start(client);
  byCredential.set(credential, shared);
  shared.listeners.add(listener);
  return () => {
    shared.listeners.delete(listener);
    if (shared.listeners.size === 0) {
      shared.stop();
      byCredential.delete(credential);
    }
  };
}

function start(client: Client): Shared {
  const listeners = new Set<(changes: Change[]) => void>();
  const notify = (changes: Change[]) => listeners.forEach((listener) => listener(changes));
  let interval: ReturnType<typeof setInterval> | undefined;
  const poll = () => document.hidden || notify([{ kind: "poll" }]);
  const end = follow({
    client,
    path: "/api/v1/changes",
    onFrames: (frames) => {
      notify(frames.map((frame) => JSON.parse(frame.data) as Change).map((one) => (one.kind === "hello" ? { kind: "poll" } : one)));
      return false;
    },
    onState: (state) => {
      clearInterval(interval);
      if (state === "failed" || state === "waiting") interval = setInterval(poll, POLL_MS);
    },
  });
  return {
    listeners,
    stop: () => {
      clearInterval(interval);
      end();
    },
  };
}
