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

const POLL_MS = 15_000;
const open = new Map<string, Map<unknown, Shared>>();

/**
 * Calls `listener` with changes of resources, runs and interrupts that the caller may see. All listeners of one server
 * and credential share one connection. Where the server has no such stream, `listener` gets a `poll` now and then.
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
  let first = true;
  const end = follow({
    client,
    path: "/api/v1/changes",
    onFrames: (frames) => {
      const changes = frames.map((frame) => JSON.parse(frame.data) as Change);
      const rejoined = !first && changes.some((change) => change.kind === "hello");
      first = false;
      const real = changes.filter((change) => change.kind !== "hello");
      if (rejoined) real.push({ kind: "poll" });
      if (real.length) notify(real);
      return false;
    },
    onState: (state) => {
      if (state === "failed") interval = setInterval(() => document.hidden || notify([{ kind: "poll" }]), POLL_MS);
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
