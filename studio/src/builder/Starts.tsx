import { useState } from "react";
import type { Client } from "../api/client";
import type { Editing, Interface, Webhook } from "../api/editing";
import { problemOf, useHost, useLoaded } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { CopyButton, Dialog, type Problem } from "../kit/kit";
import { Refusal } from "../kit/named";
import { PlaceLink } from "../pages/parts";
import type { Editor, EditorState } from "./editor";

interface Props {
  editor: Editor;
  state: EditorState;
  editing: Editing;
}

export function Copied({ title, text }: { title: string; text: string }) {
  const { t } = useLanguage();
  return (
    <div className="stack" style={{ gap: 4 }}>
      <h3>{title}</h3>
      <div className="block secret"><CopyButton text={() => text} label={`${t("common.copy")}: ${title}`} /><code className="text">{text}</code></div>
    </div>
  );
}

export const Missing = ({ text }: { text: string }) => <p className="row hint"><Icon name="waiting" /><span>{text}</span></p>;

export function Refused({ problem }: { problem: Problem | null }) {
  const { t } = useLanguage();
  return <Refusal text={problem?.status === 403 ? t("settings.noRight") : problem?.message} />;
}

/** What the server has or makes for a trigger, and why it could not. */
function useMade<T>() {
  const [made, setMade] = useState<T | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const make = async (work: () => Promise<T>) => {
    setBusy(true);
    setProblem(null);
    try {
      setMade(await work());
    } catch (error) {
      setProblem(problemOf(error));
    }
    setBusy(false);
  };
  return { made, problem, busy, make };
}

/** A message that is signed by Standard Webhooks 1.0.0, as commands of a shell. */
const exampleOf = ({ url, secret }: Webhook) => `body='{"order": 4711}'
id="message-$(date +%s)" at=$(date +%s)
key=$(printf %s '${secret.replace("whsec_", "")}' | base64 -d | od -An -v -tx1 | tr -d ' \\n')
signature=$(printf %s "$id.$at.$body" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64)
curl '${url}' -H 'content-type: application/json' -H "webhook-id: $id" \\
  -H "webhook-timestamp: $at" -H "webhook-signature: v1,$signature" -d "$body"`;

/** The address of the webhook and its secret, on demand: they are made when they are first read. */
export function WebhookAddress({ editor, state, editing }: Props) {
  const { t } = useLanguage();
  const workflow = state.workflow!;
  const [isAsking, setAsking] = useState(false);
  const { made, problem, busy, make } = useMade<Webhook>();
  const active = useLoaded(`trigger ${workflow.activeVariationId}`, () => editing.activeTrigger(workflow.id));
  const rotate = () => make(async () => {
    setAsking(false);
    await editor.save();
    const renewed = await editing.rotateWebhook(workflow.id);
    await editor.reread();
    return renewed;
  });
  return (
    <section className="stack" aria-label={t("trigger.webhook")} aria-live="polite">
      {active.value !== undefined && active.value !== "webhook" && <Missing text={t("settings.webhook.undeployed")} />}
      <Refused problem={problem} />
      {made && (
        <>
          <Copied title={t("settings.webhook.url")} text={made.url} />
          <Copied title={t("settings.webhook.secret")} text={made.secret} />
          <p className="hint">{t("settings.webhook.hint")}</p>
          <details><summary>{t("settings.webhook.example")}</summary><Copied title={t("settings.webhook.shell")} text={exampleOf(made)} /></details>
        </>
      )}
      <div className="row wrap">
        {!made && <button type="button" className="button small" disabled={busy} onClick={() => void make(() => editing.webhook(workflow.id))}>{t("settings.webhook.show")}</button>}
        {(made || problem?.status === 409) && <button type="button" className="button small" disabled={busy} onClick={() => setAsking(true)}><Icon name="key" />{t("settings.webhook.rotate")}</button>}
      </div>
      {isAsking && (
        <Dialog title={t("settings.webhook.rotateAsk")} onClose={() => setAsking(false)} actions={
          <>
            <button type="button" className="button" autoFocus onClick={() => setAsking(false)}>{t("common.cancel")}</button>
            <button type="button" className="button danger solid" onClick={() => void rotate()}>{t("settings.webhook.rotate")}</button>
          </>
        }><p className="hint">{t("settings.webhook.rotateHint")}</p></Dialog>
      )}
    </section>
  );
}

/** The whole address of an interface. */
export const addressOf = (one: Interface, client: Client): string => new URL(one.url, new URL(`${client.baseUrl}/`, location.href)).href;

/** The chat of the workflow, and the link of its chat page, which is made on demand. */
export function ChatAddress({ editor, state, editing }: Props) {
  const { t } = useLanguage();
  const { client } = useHost();
  const workflow = state.workflow!;
  const listed = useLoaded(`interfaces of ${workflow.id}`, () => editing.interfaces(workflow.id));
  const { made, problem, busy, make } = useMade<Interface>();
  const page = made ?? listed.value?.find((one) => one.kind === "chatapp");
  const create = () => make(async () => {
    await editor.save();
    const created = await editing.createInterface(workflow.id, "chatapp", {});
    await editor.reread();
    return created;
  });
  return (
    <section className="stack" aria-label={t("trigger.chatapp")} aria-live="polite">
      {workflow.status === "active"
        ? <div><PlaceLink to={{ page: "chat", query: { workflowId: String(workflow.id) } }} className="button small"><Icon name="chat" />{t("settings.chat.open")}</PlaceLink></div>
        : <Missing text={t("settings.chat.undeployed")} />}
      <Refused problem={problem ?? listed.problem} />
      {page ? <Copied title={t("settings.chat.page")} text={addressOf(page, client)} />
        : listed.value && <div><button type="button" className="button small" disabled={busy} onClick={() => void create()}><Icon name="plus" />{t("settings.chat.create")}</button></div>}
      <p className="hint">{t("settings.chat.hint")}</p>
    </section>
  );
}
