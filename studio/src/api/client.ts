import { readDocument } from "../kit/json";
import type { ErrorBody, JsonObject } from "./types";

/** Null: the cookie of the page is the credential. */
export type GetToken = () => Promise<string | null> | string | null;
export type Query = Record<string, string | number | boolean | null | undefined>;

/** An error response of the API, or a request that did not reach it (`status` 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly info: JsonObject = {},
    readonly code = "",
    readonly requestId = "",
  ) {
    super(message);
  }
}

/** Whether the same request can succeed a moment later. */
export const mayPass = (error: unknown) => error instanceof ApiError && (error.status === 0 || error.status === 429 || error.status >= 500);

/** A list, which is empty for a caller who may not read it. Other failures stay: what looks like nothing must be nothing. */
export const orNone = <T>(list: Promise<T[]>): Promise<T[]> =>
  list.catch((error: unknown) => {
    if (error instanceof ApiError && error.status === 403) return [];
    throw error;
  });

/** The `Date` of a response is a whole second, and took a while to arrive: a smaller difference is none. */
const LEAST_DIFFERENCE_MS = 10_000;

/** Of the servers: what one client has learned holds for the first request of the next one. */
const ahead = new Map<string, number>();

/** The seconds since the epoch at which a JWT expires; null for another token. */
export function expiryOf(token: string): number | null {
  const body = token.split(".")[1];
  if (!body) return null;
  try {
    const claims = JSON.parse(atob(body.replace(/-/g, "+").replace(/_/g, "/"))) as { exp?: unknown };
    return typeof claims.exp === "number" ? claims.exp : null;
  } catch {
    return null;
  }
}

/** A name that nobody guesses. `crypto.randomUUID` is not there over plain HTTP. */
export const randomId = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

export interface Tagged<T> {
  value: T;
  etag: string | null;
}

export interface ClientOptions {
  baseUrl: string;
  getToken: () => GetToken | undefined;
  /** Called when a token and a renewed one are refused, or a cookie; true if `getToken` will return another one. */
  onAuthRequired: () => boolean;
  /** What is said of a server that cannot be reached, in the language of the page. */
  offline?: () => string;
}

/**
 * Calls the API of one server with one credential.
 *
 * A token is kept in memory until it expires or a response is 401; then it is requested once more. A request that is
 * refused nevertheless, or with a cookie, waits for `getToken` if that will have another credential: the server has done
 * nothing for it.
 */
export class Client {
  /** The keys of requests whose response did not arrive, by path and body. */
  private readonly keys = new Map<string, string>();
  /** Changes that are under way, by all that is sent. */
  private readonly changes = new Map<string, Promise<Tagged<unknown>>>();
  private token: { value: string | null; from: GetToken; expires: number | null } | null = null;
  /** The call of `getToken` that is under way: all requests meanwhile wait for it. */
  private called: { from: GetToken; value: Promise<string | null> } | null = null;

  constructor(private readonly options: ClientOptions) {}

  get baseUrl(): string {
    return this.options.baseUrl.replace(/\/$/, "");
  }

  /** How many milliseconds the clock of the server is ahead of that of this computer, as its responses tell. */
  get ahead(): number {
    return ahead.get(this.baseUrl) ?? 0;
  }

  /** What identifies the credential: two clients with the same one can share a stream. */
  get credential(): unknown {
    return this.options.getToken() ?? "cookie";
  }

  /** The time by the clock of the server, in milliseconds since the epoch: that of this computer can be wrong. */
  now(): number {
    return Date.now() + this.ahead;
  }

  get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
    return this.value<T>("GET", path, undefined, query, signal);
  }

  /** What an address in a response has; it includes the path prefix of the server. Rejects one of another server: no credential goes there. */
  async at<T>(address: string): Promise<T> {
    const base = new URL(`${this.baseUrl}/`, location.href);
    const url = new URL(address, base);
    if (url.origin !== base.origin || !url.pathname.startsWith(base.pathname)) throw new TypeError("an address of another server");
    return this.get(`/${url.pathname.slice(base.pathname.length)}${url.search}`);
  }

  /** A POST that changes something: see `tagged`. */
  async post<T>(path: string, body: unknown = {}, headers: Record<string, string> = {}): Promise<T> {
    return (await this.tagged<T>("POST", path, body, { headers })).value;
  }

  /** A POST that only reads, such as a search. */
  read<T>(path: string, body: unknown = {}): Promise<T> {
    return this.value<T>("POST", path, body);
  }

  /** A POST with an `Idempotency-Key`. The same one again after its response was lost has the same key: the server handles it once. */
  async once<T>(path: string, body: unknown): Promise<T> {
    const what = JSON.stringify([path, body]);
    const key = this.keys.get(what) ?? randomId();
    this.keys.set(what, key);
    try {
      const found = await this.post<T>(path, body, { "Idempotency-Key": key });
      this.keys.delete(what);
      return found;
    } catch (error) {
      if (error instanceof ApiError && error.status >= 400 && error.status < 500) this.keys.delete(what);
      throw error;
    }
  }

  /**
   * A request whose response has an `ETag`. With `keepalive` it is sent even if the page is closed meanwhile. The same change
   * again while it is under way, as by a double click, is that one: it is sent once.
   */
  tagged<T>(
    method: string, path: string, body?: unknown,
    { query = {}, headers = {}, keepalive = false }: { query?: Query; headers?: Record<string, string>; keepalive?: boolean } = {},
  ): Promise<Tagged<T>> {
    const request = () => this.request<T>(method, path, body, query, undefined, headers, keepalive);
    // A file has no text to compare, and a request of a page that stays ends with it.
    if (method === "GET" || keepalive || body instanceof Blob) return request();
    const what = JSON.stringify([method, path, body, query, headers]);
    const known = this.changes.get(what) as Promise<Tagged<T>> | undefined;
    if (known) return known;
    const sent = request().finally(() => this.changes.delete(what));
    this.changes.set(what, sent);
    return sent;
  }

  /** The stream of a path; with a body, of what a POST of it begins. */
  async open(path: string, headers: Record<string, string>, signal: AbortSignal, body?: unknown): Promise<Response> {
    const response = await this.send(body === undefined ? "GET" : "POST", path, body, {}, signal, headers);
    if (!response.ok) throw await errorOf(response);
    return response;
  }

  private async value<T>(method: string, path: string, body: unknown, query: Query = {}, signal?: AbortSignal): Promise<T> {
    return (await this.request<T>(method, path, body, query, signal)).value;
  }

  private async request<T>(
    method: string, path: string, body: unknown, query: Query, signal?: AbortSignal, headers: Record<string, string> = {}, keepalive = false,
  ): Promise<Tagged<T>> {
    const response = await this.send(method, path, body, query, signal, { Accept: "application/json", ...headers }, keepalive);
    if (!response.ok) throw await errorOf(response);
    return { value: (response.status === 204 ? null : readDocument(await response.text())) as T, etag: response.headers.get("ETag") };
  }

  private async send(
    method: string,
    path: string,
    body: unknown,
    query: Query,
    signal: AbortSignal | undefined,
    headers: Record<string, string>,
    keepalive = false,
  ): Promise<Response> {
    const request = (token: string | null) => this.fetch(method, path, body, query, signal, headers, token, keepalive);
    let token = await this.currentToken();
    let response = await request(token);
    for (let attempt = 0; response.status === 401; attempt++) {
      const refused = token;
      if (this.token?.value === refused) this.token = null;
      const hasToken = this.options.getToken() !== undefined;
      if ((attempt > 0 || refused === null) && !(this.options.onAuthRequired() && hasToken)) return response;
      token = await this.currentToken();
      if (attempt > 0 && token === refused) return response;
      response = await request(token);
    }
    return response;
  }

  private async fetch(
    method: string,
    path: string,
    body: unknown,
    query: Query,
    signal: AbortSignal | undefined,
    headers: Record<string, string>,
    token: string | null,
    keepalive: boolean,
  ): Promise<Response> {
    const sent = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
    const search = new URLSearchParams(sent.map(([name, value]) => [name, String(value)]));
    try {
      const response = await fetch(this.baseUrl + path + (sent.length ? `?${search}` : ""), {
        method,
        cache: "no-store",
        ...(keepalive ? { keepalive } : {}),
        credentials: token === null ? "same-origin" : "omit",
        headers: {
          ...headers,
          ...(body === undefined || body instanceof Blob ? {} : { "Content-Type": "application/json" }),
          ...(token === null ? {} : { Authorization: `Bearer ${token}` }),
        },
        ...(body === undefined ? {} : { body: body instanceof Blob ? body : JSON.stringify(body) }),
        ...(signal ? { signal } : {}),
      });
      const found = Date.parse(response.headers.get("Date") ?? "") - Date.now();
      if (!Number.isNaN(found)) ahead.set(this.baseUrl, Math.abs(found) < LEAST_DIFFERENCE_MS ? 0 : found);
      return response;
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new ApiError(0, this.options.offline?.() ?? "the server cannot be reached");
    }
  }

  private async currentToken(): Promise<string | null> {
    const from = this.options.getToken();
    if (!from) return null;
    const kept = this.token;
    if (kept?.from === from && (kept.expires === null || kept.expires * 1000 > this.now() + 10_000)) return kept.value;
    if (this.called?.from !== from) this.called = { from, value: Promise.resolve().then(() => this.call(from)) };
    return this.called.value;
  }

  private async call(from: GetToken): Promise<string | null> {
    try {
      const value = await from();
      this.token = { value, from, expires: value === null ? null : expiryOf(value) };
      return value;
    } finally {
      if (this.called?.from === from) this.called = null;
    }
  }
}

async function errorOf(response: Response): Promise<ApiError> {
  let text = await response.text().catch(() => "");
  if (response.headers.get("Content-Type")?.startsWith("text/event-stream")) {
    text = /^data: ?(.*)$/m.exec(text)?.[1] ?? "";
  }
  try {
    const error = (readDocument(text) as { error: ErrorBody }).error;
    return new ApiError(response.status, error.message, error.info ?? {}, error.code, error.requestId ?? "");
  } catch {
    return new ApiError(response.status, `HTTP ${response.status}`);
  }
}
