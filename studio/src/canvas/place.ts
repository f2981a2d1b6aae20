import { layout, type LayoutEdge, type LayoutNode } from "./layout";
import workerUrl from "./layout.worker.ts?worker&url";

type Positions = Map<string, { x: number; y: number }>;
interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL: (url: string) => string }): { createScriptURL(url: string): string };
}

const IN_WORKER = 1_000;
let policy: { createScriptURL(url: string): string } | undefined;

/** The address of our own worker, trusted where the page requires Trusted Types. */
function trusted(url: string): string {
  const types = (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes;
  policy ??= types?.createPolicy("studio", {
    createScriptURL: (given) => {
      if (new URL(given, location.href).href !== new URL(workerUrl, import.meta.url).href) throw new TypeError("unknown script");
      return given;
    },
  });
  return policy ? policy.createScriptURL(url) : url;
}

/** The positions of the nodes; those of large graphs are computed in a worker where the page allows one. */
export async function positions(nodes: LayoutNode[], edges: LayoutEdge[]): Promise<Positions> {
  if (nodes.length < IN_WORKER) return layout(nodes, edges);
  try {
    const worker = new Worker(trusted(new URL(workerUrl, import.meta.url).href), { type: "module" });
    try {
      return await new Promise<Positions>((resolve, reject) => {
        worker.onmessage = (event: MessageEvent<[string, { x: number; y: number }][]>) => resolve(new Map(event.data));
        worker.onerror = reject;
        worker.postMessage({ nodes, edges });
      });
    } finally {
      worker.terminate();
    }
  } catch {
    return layout(nodes, edges); // a page of another origin cannot start our worker
  }
}
