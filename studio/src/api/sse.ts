import { ApiError, type Client } from "./client";

export interface Frame {
  id: string;
  data: string;
}

/** Splits the text of an event stream into frames, whatever the chunks (WHATWG HTML, Server-sent events). */
export class FrameParser {
  private rest = "";
  private id = "";
  private data: string[] = [];

  push(text: string): Frame[] {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    const frames: Frame[] = [];
    for (const line of lines) {
      if (line === "") {
        if (this.data.length) frames.push({ id: this.id, data: this.data.join("\n") });
        this.data = [];
      } else if (!line.startsWith(":")) {
        const colon = line.indexOf(":");
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (field === "id") this.id = value;
        if (field === "data") this.data.push(value);
      }
    }
    return frames;
  }
}

export type StreamState = "connecting" | "live" | "waiting" | "ended" | "failed";

export interface StreamOptions {
  client: Client;
  path: string;
  /** The stream of a POST with this body, which a repeated request joins: `headers` has its `Idempotency-Key`. */
  body?: unknown;
  headers?: Record<string, string>;
  after?: string;
  /** Called with the frames of each chunk; returns true when the stream has ended by its own terminal event. */
  onFrames: (frames: Frame[]) => boolean;
  onState?: (state: StreamState, error?: ApiError) => void;
}

const FIRST_WAIT = 400;
const LONGEST_WAIT = 8_000;
const FATAL = new Set([400, 401, 403, 404, 405, 409, 413, 422]);

/**
 * Reads an event stream with `fetch`, since `EventSource` cannot send a credential. A stream that breaks is joined
 * again after the last frame, at once when the browser is online again; it is closed while the page is hidden. Returns
 * the function that ends it.
 */
export function follow(options: StreamOptions): () => void {
  const { client, path, onFrames, onState } = options;
  let last = options.after ?? "";
  let current: AbortController | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let failures = 0;
  let over = false;

  const finish = (state: StreamState, error?: ApiError) => {
    over = true;
    clearTimeout(timer);
    unwatch();
    onState?.(state, error);
  };
  const again = () => {
    if (over || document.hidden) return;
    onState?.("waiting");
    timer = setTimeout(run, Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** failures++) * (0.75 + Math.random() / 2));
  };
  const run = async () => {
    const control = new AbortController();
    let began = Number.POSITIVE_INFINITY;
    current = control;
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream", ...options.headers };
      if (last) headers["Last-Event-ID"] = last;
      const response = await client.open(path, headers, control.signal, options.body);
      if (response.status === 204 || !response.body) return finish("ended");
      onState?.("live");
      began = Date.now();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new FrameParser();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        const frames = parser.push(value);
        const newest = frames.at(-1);
        if (newest?.id) last = newest.id;
        if (frames.length && onFrames(frames)) return finish("ended");
      }
    } catch (error) {
      if (control.signal.aborted) return;
      if (error instanceof ApiError && FATAL.has(error.status)) return finish("failed", error);
    }
    // One that is cut as soon as it begins has failed again.
    if (Date.now() - began > LONGEST_WAIT) failures = 0;
    again();
  };
  const onVisibility = () => {
    clearTimeout(timer);
    current?.abort();
    if (!document.hidden) void run();
  };

  const unwatch = () => {
    document.removeEventListener("visibilitychange", onVisibility);
    removeEventListener("online", onVisibility);
  };

  document.addEventListener("visibilitychange", onVisibility);
  addEventListener("online", onVisibility);
  onState?.("connecting");
  if (!document.hidden) void run();
  return () => {
    if (over) return;
    over = true;
    clearTimeout(timer);
    current?.abort();
    unwatch();
  };
}
