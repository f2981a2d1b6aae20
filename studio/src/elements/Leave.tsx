import { useSyncExternalStore } from "react";
import { useLanguage } from "../i18n/context";
import { Dialog } from "../kit/kit";
import type { Unsaved } from "./unsaved";

/** Whether a form with changes is left, while the user has to say so. */
export function Leave({ unsaved }: { unsaved: Unsaved }) {
  const { t } = useLanguage();
  if (!useSyncExternalStore(unsaved.subscribe, unsaved.isAsked)) return null;
  return (
    <Dialog title={t("leave.title")} onClose={unsaved.stay} actions={
      <>
        <button type="button" className="button" autoFocus onClick={unsaved.stay}>{t("leave.stay")}</button>
        <button type="button" className="button danger solid" onClick={unsaved.discard}>{t("leave.discard")}</button>
      </>
    }><p className="muted">{t("leave.hint")}</p></Dialog>
  );
}
