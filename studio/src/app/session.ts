/** The credential of this tab: a token that it keeps, which open tabs share, or the cookie of the product. */

import { randomId } from "../api/client";
import { forget, keep, kept } from "../kit/tab";

const KEY = "studio-token";
const SEEN = "studio-sign-out";
const FLOW = "studio-sign-in";

export interface OAuth {
  issuer: string;
  clientId: string;
  scope: string;
  resource: string;
}

export const storedToken = () => kept(KEY);
export const storeToken = (baseUrl: string, token: string) => {
  keep(KEY, token);
  keep(SEEN, lastSignOut(baseUrl));
};
export const forgetToken = () => forget(KEY);

const signOutKey = (baseUrl: string) => `${SEEN} ${baseUrl}`;

/** The last sign-out in this browser, as a random text; empty without one. */
function lastSignOut(baseUrl: string): string {
  try {
    return localStorage.getItem(signOutKey(baseUrl)) ?? "";
  } catch {
    return "";
  }
}

/** A sign-out ends the session of each tab, also of one that showed another site then, was asleep or was closed. */
export function forgetSignedOut(baseUrl: string): void {
  if (storedToken() && (kept(SEEN) ?? "") !== lastSignOut(baseUrl)) forgetToken();
}

function rememberSignOut(baseUrl: string): void {
  try {
    localStorage.setItem(signOutKey(baseUrl), randomId());
  } catch {
    // without storage, only the open tabs learn of it
  }
}

interface Metadata {
  authorization_endpoint: string;
  token_endpoint: string;
}

const base64url = (bytes: Uint8Array) => btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

async function metadata(issuer: string): Promise<Metadata> {
  const base = issuer.replace(/\/$/, "");
  for (const path of ["/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"]) {
    const response = await fetch(base + path).catch(() => null);
    if (response?.ok) return (await response.json()) as Metadata;
  }
  throw new Error("the issuer has no metadata");
}

/** Go to the issuer (authorization code with PKCE, RFC 7636); `back` is where the user continues. */
export async function beginSignIn(oauth: OAuth, redirect: string, back: string): Promise<void> {
  const { authorization_endpoint } = await metadata(oauth.issuer);
  const verifier = random();
  const state = random();
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  keep(FLOW, JSON.stringify({ verifier, state, back, redirect }));
  const url = new URL(authorization_endpoint);
  const query = {
    response_type: "code", client_id: oauth.clientId, redirect_uri: redirect, scope: oauth.scope, state, resource: oauth.resource,
    code_challenge: base64url(new Uint8Array(digest)), code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  location.assign(url.href);
}

/** The place to continue at after the issuer sent the user here; null when this is no such address. */
export async function endSignIn(oauth: OAuth, baseUrl: string, query: URLSearchParams): Promise<string | null> {
  const flow = kept(FLOW);
  const code = query.get("code");
  if (!code || !flow) return null;
  forget(FLOW);
  const { verifier, state, back, redirect } = JSON.parse(flow) as Record<string, string>;
  if (query.get("state") !== state) throw new Error("unknown state");
  const { token_endpoint } = await metadata(oauth.issuer);
  const response = await fetch(token_endpoint, {
    method: "POST",
    headers: { "Content-Type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({
      grant_type: "authorization_code", code, redirect_uri: redirect!, client_id: oauth.clientId, code_verifier: verifier!, resource: oauth.resource,
    }),
  });
  const answer = (await response.json()) as { access_token?: string };
  if (!response.ok || !answer.access_token) throw new Error("no access token");
  storeToken(baseUrl, answer.access_token);
  return back ?? null;
}

const OTHER_TABS_MS = 200;

export interface Sharing {
  /** The token of another open tab; null if none has one. */
  request: () => Promise<string | null>;
  signedIn: (token: string) => void;
  signedOut: () => void;
  close: () => void;
}

/** Null where the browser denies it, as storage, to the page: then no other tab takes part. */
function channelOf(name: string): BroadcastChannel | null {
  try {
    return new BroadcastChannel(name);
  } catch {
    return null;
  }
}

/** One sign-in for the open tabs of a server: a token is only sent between pages of this origin, and never stored. */
export function shareSession(baseUrl: string, onToken: (token: string) => void, onSignOut: () => void): Sharing {
  const channel = channelOf(`studio-session ${baseUrl}`);
  let answer: ((token: string) => void) | null = null;
  const receive = ({ data }: MessageEvent<{ kind: "request" | "out" } | { kind: "token"; token: string }>) => {
    const token = storedToken();
    if (data.kind === "request" && token) channel?.postMessage({ kind: "token", token });
    else if (data.kind === "out") onSignOut();
    else if (data.kind === "token" && answer) answer(data.token);
    else if (data.kind === "token" && !token) onToken(data.token);
  };
  if (channel) channel.onmessage = receive;
  return {
    request: () => new Promise((resolve) => {
      const end = (token: string | null) => {
        answer = null;
        clearTimeout(timer);
        resolve(token);
      };
      const timer = setTimeout(() => end(null), OTHER_TABS_MS);
      answer = end;
      channel?.postMessage({ kind: "request" });
    }),
    signedIn: (token) => channel?.postMessage({ kind: "token", token }),
    signedOut: () => {
      rememberSignOut(baseUrl);
      channel?.postMessage({ kind: "out" });
    },
    close: () => channel?.close(),
  };
}
