import { useEffect, useRef } from "react";
import type { ChatAppRow } from "../api/chats";
import { useHost } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { language } from "../i18n/texts";
import { Icon } from "../kit/icons";
import { Failure, Loading } from "../kit/kit";
import { type Config, localeOf, type SessionElement } from "./config";
import { SignIn, useSession } from "./SignIn";

/** The page of an interface of kind `chatapp`: one chat, after the sign-in. */
export function ChatApp({ element, config }: { element: SessionElement; config: Config }) {
  const { t } = useLanguage();
  const { client } = useHost();
  const { state, reason, away, askAgain, onToken, signOut } = useSession(element, config);
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    document.documentElement.lang = language(localeOf(config), config.labels).locale;
    if (state !== "in") return;
    const id = decodeURIComponent(location.pathname.replace(/\/+$/, "").split("/").at(-1) ?? "");
    const chat = document.createElement(`${config.prefix}-chat`);
    chat.setAttribute("interface-id", id);
    box.current?.replaceChildren(chat);
    void client.get<ChatAppRow>(`/interfaces/chatapp/${encodeURIComponent(id)}/workflow`).then((app) => (document.title = app.name), () => undefined);
    return () => chat.remove();
  }, [state, client, config, element]);
  if (state === "checking") return <Loading rows={8} />;
  if (state === "away" && away) return <Failure problem={away} onRetry={askAgain} />;
  if (state === "out") return <SignIn config={config} reason={reason} onToken={onToken} />;
  return (
    <div className="chatapp">
      <main ref={box} />
      {signOut && <button type="button" className="button plain small out" onClick={signOut}><Icon name="signOut" />{t("nav.signOut")}</button>}
    </div>
  );
}
