import { useEffect, useRef } from "react";
import type { ChatAppRow } from "../api/chats";
import type { PageElement } from "../elements/base";
import { useHost } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { language } from "../i18n/texts";
import { Icon } from "../kit/icons";
import { type Config, localeOf } from "./config";
import { Front, useSession } from "./SignIn";

/** The page of an interface of kind `chatapp`: one chat, after the sign-in. */
export function ChatApp({ element, config }: { element: PageElement; config: Config }) {
  const { t } = useLanguage();
  const { client } = useHost();
  const session = useSession(element, config);
  const { me, signOut } = session;
  const isShown = me !== null;
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    document.documentElement.lang = language(localeOf(config), config.labels).locale;
    if (!isShown) return;
    const id = decodeURIComponent(location.pathname.replace(/\/+$/, "").split("/").at(-1) ?? "");
    const chat = document.createElement(`${config.prefix}-chat`);
    chat.setAttribute("interface-id", id);
    box.current?.replaceChildren(chat);
    void client.get<ChatAppRow>(`/interfaces/chatapp/${encodeURIComponent(id)}/workflow`).then((app) => (document.title = app.name), () => undefined);
    return () => chat.remove();
  }, [isShown, client, config, element]);
  return (
    <>
      {isShown && (
        <div className="chatapp">
          <main ref={box} />
          {signOut && <button type="button" className="button plain small out" onClick={signOut}><Icon name="signOut" />{t("nav.signOut")}</button>}
        </div>
      )}
      <Front session={session} config={config} />
    </>
  );
}
