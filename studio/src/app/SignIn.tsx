import { type FormEvent, useCallback, useEffect, useRef, useState } from "react";
import { Api } from "../api/api";
import { Client } from "../api/client";
import type { Caller } from "../api/types";
import { problemOf } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import type { Problem } from "../kit/kit";
import { Brand } from "./Brand";
import type { Config, SessionElement } from "./config";
import { beginSignIn, endSignIn, forgetToken, shareSession, type Sharing, storedToken, storeToken } from "./session";

export interface Session {
  state: "checking" | "away" | "out" | "in";
  /** Why the user has to sign in: the key of a text. */
  reason: string | null;
  me: Caller | null;
  /** Why the server does not say who the user is; it is asked again after a while. */
  away: Problem | null;
  askAgain: () => void;
  /** Why the token does not sign in: the key of a text; null if it does. */
  onToken: (token: string) => Promise<string | null>;
  /** Undefined for a session of the product, which only the product ends. */
  signOut: (() => void) | undefined;
  /** Where a sign-in with OAuth began, once it has ended: empty if it failed. */
  returned: string | null;
}

const LONGEST_PAUSE_MS = 30_000;

const isDenied = ({ status }: Problem) => status === 401 || status === 403;
const textOf = (problem: Problem) => (isDenied(problem) ? "signIn.bad" : problem.status === 0 ? "error.offline" : "signIn.unavailable");

/** Who uses the page: by the cookie of the product, the token of this tab, that of another tab, or a new sign-in. */
export function useSession(element: SessionElement, config: Config): Session {
  const [state, setState] = useState<Session["state"]>("checking");
  const [reason, setReason] = useState<string | null>(null);
  const [me, setMe] = useState<Caller | null>(null);
  const [returned, setReturned] = useState<string | null>(null);
  const [away, setAway] = useState<{ problem: Problem; tries: number } | null>(null);
  const sharing = useRef<Sharing | null>(null);
  // A client of its own: a missing session is a normal answer here, not an event.
  const enter = useCallback(async (): Promise<Problem | null> => {
    const probe = new Client({ baseUrl: config.baseUrl, getToken: () => (storedToken() ? () => storedToken() ?? "" : undefined), onAuthRequired: () => undefined });
    try {
      setMe(await new Api(probe).me());
      setReason(null);
      setState("in");
      return null;
    } catch (error) {
      return problemOf(error);
    }
  }, [config.baseUrl]);
  const leave = useCallback((why: string | null) => {
    setReason((old) => why ?? old);
    forgetToken();
    element.useToken();
    setState("out");
  }, [element]);
  const onToken = useCallback(async (token: string, isShared = false) => {
    storeToken(config.baseUrl, token);
    element.useToken();
    const problem = await enter();
    if (problem) {
      forgetToken();
      element.useToken();
      return textOf(problem);
    }
    if (!isShared) sharing.current?.signedIn(token);
    return null;
  }, [element, enter, config.baseUrl]);
  const begin = useCallback(async () => {
    const problem = await enter();
    if (!problem) return;
    if (!isDenied(problem)) {
      setAway((old) => ({ problem, tries: (old?.tries ?? -1) + 1 }));
      return setState("away");
    }
    const token = storedToken() ? null : await sharing.current?.request();
    if (!token || (await onToken(token, true))) leave(storedToken() ? "signIn.expired" : null);
  }, [enter, onToken, leave]);
  useEffect(() => {
    const out = (event: Event) => {
      event.stopPropagation();
      leave(storedToken() ? "signIn.expired" : null);
    };
    element.addEventListener(`${config.prefix}-auth-required`, out);
    const shared = shareSession(config.baseUrl, (token) => void onToken(token, true), () => leave(null));
    sharing.current = shared;
    return () => {
      element.removeEventListener(`${config.prefix}-auth-required`, out);
      shared.close();
    };
  }, [element, config.prefix, config.baseUrl, leave, onToken]);
  useEffect(() => {
    void (async () => {
      const query = new URL(location.href).searchParams;
      if (config.oauth && location.pathname === new URL(`${config.baseUrl}/studio/sign-in`, location.href).pathname) {
        try {
          const back = await endSignIn(config.oauth, config.baseUrl, query);
          element.useToken();
          if (storedToken()) sharing.current?.signedIn(storedToken()!);
          setReturned(back ?? "");
        } catch {
          setReason("signIn.failed");
          setReturned("");
        }
      }
      await begin();
    })();
  }, []);
  useEffect(() => {
    if (state !== "away" || !away) return;
    const timer = setTimeout(() => void begin(), Math.min(1_000 * 2 ** away.tries, LONGEST_PAUSE_MS));
    return () => clearTimeout(timer);
  }, [state, away, begin]);
  const signOut = () => {
    sharing.current?.signedOut();
    leave(null);
    setReason(null);
  };
  return { state, reason, me, away: away?.problem ?? null, askAgain: () => void begin(), onToken, signOut: storedToken() ? signOut : undefined, returned };
}

export function SignIn({ config, reason, onToken }: {
  config: Config; reason: string | null; onToken: Session["onToken"];
}) {
  const { t } = useLanguage();
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<string | null>(reason);
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(await onToken(token.trim()));
    setBusy(false);
  };
  const redirect = new URL(`${config.baseUrl}/studio/sign-in`, location.href).href;
  const start = () => beginSignIn(config.oauth!, redirect, location.pathname + location.search).catch(() => setProblem("signIn.failed"));
  return (
    <main className="signin">
      <form onSubmit={(event) => void submit(event)}>
        <Brand config={config} />
        <h1>{t("signIn.title")}</h1>
        {config.oauth && (
          <>
            <button type="button" className="button primary" onClick={() => void start()}>{t("signIn.oauth")}</button>
            <div className="or">{t("signIn.or")}</div>
          </>
        )}
        <div className="field">
          <label htmlFor="token">{t("signIn.token")}</label>
          <input id="token" className="input mono" type="password" autoComplete="off" spellCheck={false} required value={token} aria-invalid={problem === "signIn.bad" || undefined}
            aria-describedby="token-hint" autoFocus onChange={(event) => setToken(event.target.value)} />
          <p className="hint" id="token-hint">{t("signIn.hint")}</p>
        </div>
        {problem && <p className="problem" role="alert"><Icon name="error" />{t(problem)}</p>}
        <button type="submit" className={`button${config.oauth ? "" : " primary"}`} disabled={busy || !token.trim()}>{t("signIn.submit")}</button>
      </form>
    </main>
  );
}
