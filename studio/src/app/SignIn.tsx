import { type FormEvent, type ReactNode, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { Api } from "../api/api";
import { ApiError, Client } from "../api/client";
import type { Caller } from "../api/types";
import type { PageElement } from "../elements/base";
import { problemOf, useHost } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { Failure, Loading, type Problem } from "../kit/kit";
import { Brand } from "./Brand";
import type { Config } from "./config";
import { personOf } from "./Shell";
import { beginSignIn, endSignIn, forgetSignedOut, forgetToken, shareSession, type Sharing, storedToken, storeToken } from "./session";

export interface Session {
  state: "checking" | "away" | "out" | "in";
  /** Why the user has to sign in: the key of a text. */
  reason: string | null;
  /** Whose pages are shown or covered. */
  me: Caller | null;
  /** Why the server does not say who the user is; it is asked again after a while. */
  away: Problem | null;
  askAgain: () => void;
  /** Why the token does not sign in: the key of a text; null if it does. */
  onToken: (token: string) => Promise<string | null>;
  /** Undefined for a session of the product, which only the product ends. */
  signOut: (() => void) | undefined;
  /** Whether the pages are shown by a session of the product. */
  isByCookie: boolean;
  /** Where a sign-in with OAuth began, once it has ended: empty if it failed. */
  returned: string | null;
}

const LONGEST_PAUSE_MS = 30_000;

const isDenied = ({ status }: Problem) => status === 401 || status === 403;
const textOf = (problem: Problem) => (isDenied(problem) ? "signIn.bad" : problem.status === 0 ? "error.offline" : "signIn.unavailable");

/** Whose pages are shown, whether by a token, and whether that or the cookie was refused since. */
interface Entered {
  person: string;
  isByToken: boolean;
  isOver: boolean;
}

/**
 * Who uses the page: by the cookie of the product, the token of this tab, that of another tab, or a new sign-in.
 *
 * Pages whose token or cookie is refused stay as they are, and their requests wait until the same person has signed in again.
 */
export function useSession(element: PageElement, config: Config): Session {
  const { baseUrl } = config;
  const { unsaved } = useHost();
  const [state, setState] = useState<Session["state"]>("checking");
  const [reason, setReason] = useState<string | null>(null);
  const [me, setMe] = useState<Caller | null>(null);
  const [returned, setReturned] = useState<string | null>(null);
  const [away, setAway] = useState<{ problem: Problem; tries: number } | null>(null);
  const sharing = useRef<Sharing | null>(null);
  const entered = useRef<Entered | null>(null);
  const checked = useRef<Promise<void> | null>(null);
  const waiting = useRef<(() => void)[]>([]);
  const wake = useCallback(() => waiting.current.splice(0).forEach((resolve) => resolve()), []);
  const credential = useCallback((mine: Entered) => async () => {
    await checked.current;
    while (entered.current === mine && (mine.isOver || (mine.isByToken && !storedToken()))) await new Promise<void>((resolve) => waiting.current.push(resolve));
    if (entered.current !== mine) throw new ApiError(401, "signed out");
    return mine.isByToken ? storedToken() : null;
  }, []);
  /** Enters with a token that is stored, or will be, or by the cookie. */
  const enter = useCallback(async (token: string | null, isNew = false): Promise<Problem | null> => {
    // A client of its own: a missing session is a normal answer here, not an event.
    const probe = new Client({ baseUrl, getToken: () => (token === null ? undefined : () => token), onAuthRequired: () => false });
    try {
      const found = await new Api(probe).me();
      if (isNew) storeToken(baseUrl, token!);
      else if (token !== storedToken()) throw new ApiError(401, "signed out");
      const now = { person: personOf(found), isByToken: token !== null, isOver: false };
      if (entered.current?.person === now.person) Object.assign(entered.current, now);
      else {
        entered.current = now;
        unsaved.clear();
        element.getToken = credential(now);
        await null; // the elements take it over first
      }
      wake();
      setMe(found);
      setReason(null);
      setState("in");
      return null;
    } catch (error) {
      return problemOf(error);
    }
  }, [baseUrl, element, credential, wake, unsaved]);
  /** The pages are gone with the session, unless the same person can continue it. */
  const leave = useCallback((isExpired: boolean) => {
    forgetToken();
    if (isExpired) {
      setReason("signIn.expired");
      if (entered.current) entered.current.isOver = true;
    } else {
      entered.current = null;
      element.getToken = undefined;
      unsaved.clear();
      setMe(null);
      wake();
    }
    setState("out");
  }, [element, wake, unsaved]);
  const onToken = useCallback(async (token: string, isShared = false) => {
    const problem = await enter(token, true);
    if (problem) return textOf(problem);
    if (!isShared) sharing.current?.signedIn(token);
    return null;
  }, [enter]);
  const begin = useCallback(async () => {
    const own = storedToken();
    const problem = await enter(own);
    if (!problem) return;
    if (!isDenied(problem)) {
      setAway((old) => ({ problem, tries: (old?.tries ?? -1) + 1 }));
      return setState("away");
    }
    const token = await sharing.current?.request();
    if (token && token !== own && !(await onToken(token, true))) return;
    if (storedToken() !== own) return; // somebody has signed in or out meanwhile
    const before = entered.current;
    leave(own !== null || (before !== null && (before.isOver || !before.isByToken)));
  }, [enter, onToken, leave]);
  const check = useCallback(() => {
    checked.current ??= begin().finally(() => (checked.current = null));
    return checked.current;
  }, [begin]);
  /** Once more, as what is under way may have begun before the user signed in. */
  const askAgain = useCallback(() => void Promise.resolve(checked.current).then(check), [check]);
  useEffect(() => {
    const out = (event: Event) => {
      event.stopPropagation();
      if (entered.current) event.preventDefault();
      void check();
    };
    const onSignOut = () => {
      if (storedToken() || entered.current?.isByToken) leave(false);
    };
    // From the back/forward cache: as it was, and maybe of somebody who has signed out since.
    const onRestored = ({ persisted }: PageTransitionEvent) => {
      if (!persisted) return;
      forgetSignedOut(baseUrl);
      if (entered.current?.isByToken && !storedToken()) return leave(false);
      setState("checking");
      void check();
    };
    element.addEventListener(`${config.prefix}-auth-required`, out);
    addEventListener("pageshow", onRestored);
    const shared = shareSession(baseUrl, (token) => void onToken(token, true), onSignOut);
    sharing.current = shared;
    return () => {
      element.removeEventListener(`${config.prefix}-auth-required`, out);
      removeEventListener("pageshow", onRestored);
      shared.close();
    };
  }, [element, config.prefix, baseUrl, leave, onToken, check]);
  useEffect(() => {
    void (async () => {
      const query = new URL(location.href).searchParams;
      if (config.oauth && location.pathname === new URL(`${baseUrl}/studio/sign-in`, location.href).pathname) {
        try {
          const back = await endSignIn(config.oauth, baseUrl, query);
          if (storedToken()) sharing.current?.signedIn(storedToken()!);
          setReturned(back ?? "");
        } catch {
          setReason("signIn.failed");
          setReturned("");
        }
      }
      await check();
    })();
  }, []);
  useEffect(() => {
    if (state !== "away" || !away) return;
    const timer = setTimeout(() => void check(), Math.min(1_000 * 2 ** away.tries, LONGEST_PAUSE_MS));
    return () => clearTimeout(timer);
  }, [state, away, check]);
  useLayoutEffect(() => {
    unsaved.isPage = true;
    unsaved.isOver = state !== "in";
  }, [unsaved, state]);
  const isByCookie = entered.current?.isByToken === false;
  useEffect(() => {
    if (state !== "out" || !isByCookie) return;
    // The user comes back from the sign-in of the product, in another tab or window.
    const look = () => document.hidden || askAgain();
    addEventListener("focus", look);
    document.addEventListener("visibilitychange", look);
    return () => {
      removeEventListener("focus", look);
      document.removeEventListener("visibilitychange", look);
    };
  }, [state, isByCookie, askAgain]);
  const signOut = () => {
    sharing.current?.signedOut();
    leave(false);
    setReason(null);
  };
  return { state, reason, me, away: away?.problem ?? null, askAgain, onToken, signOut: storedToken() ? signOut : undefined, isByCookie, returned };
}

/** What is shown instead of the pages while nobody is in; over them if their session can be continued. */
export function Front({ session, config }: { session: Session; config: Config }) {
  const { state, reason, me, away, askAgain, onToken, isByCookie } = session;
  if (state === "in") return null;
  const shown = state === "checking" ? <Loading rows={8} />
    : state === "away" ? <Failure problem={away!} onRetry={askAgain} />
    : <SignIn config={config} reason={reason} onToken={onToken} isOver={me !== null} onContinue={me && isByCookie ? askAgain : undefined} />;
  return me ? <Cover>{shown}</Cover> : shown;
}

/** Hides the pages without an end of them: what was typed stays. A modal dialog is above the dialogs of the pages. */
function Cover({ children }: { children: ReactNode }) {
  const { t } = useLanguage();
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  // Browsers close a dialog at the second Escape, whatever becomes of the event before.
  const reopen = () => dialog.current?.showModal();
  return <dialog ref={dialog} className="cover" aria-label={t("signIn.title")} onCancel={(event) => event.preventDefault()} onClose={reopen}>{children}</dialog>;
}

function SignIn({ config, reason, onToken, isOver, onContinue }: {
  config: Config; reason: string | null; onToken: Session["onToken"];
  /** Over pages that a sign-in continues, which the address of an issuer would end. */
  isOver: boolean;
  /** Looks whether the session of the product is there again. */
  onContinue: (() => void) | undefined;
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
  const Place = isOver ? "div" : "main";
  return (
    <Place className="signin">
      <form onSubmit={(event) => void submit(event)}>
        <Brand config={config} />
        <h1>{t("signIn.title")}</h1>
        {onContinue && (
          <>
            <p>{t("signIn.product")}</p>
            <button type="button" className="button primary" onClick={onContinue}>{t("signIn.continue")}</button>
            <div className="or">{t("signIn.or")}</div>
          </>
        )}
        {config.oauth && (
          <>
            {isOver ? (
              <>
                <a className="button primary" href={location.href} target="_blank" rel="noopener" aria-describedby="new-tab">{t("signIn.oauth")}</a>
                <p className="hint" id="new-tab">{t("signIn.newTab")}</p>
              </>
            ) : <button type="button" className="button primary" onClick={() => void start()}>{t("signIn.oauth")}</button>}
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
        <button type="submit" className={`button${config.oauth || onContinue ? "" : " primary"}`} disabled={busy || !token.trim()}>{t("signIn.submit")}</button>
      </form>
    </Place>
  );
}
