import { useState } from "react";
import { orNone } from "../api/client";
import type { Editing, Interface, Webhook } from "../api/editing";
import { Records } from "../api/records";
import type { Json, JsonObject } from "../api/types";
import { problemOf, useHost, useLoaded } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { Dialog, Loading, type Problem } from "../kit/kit";
import type { Context, FormOf } from "../pages/admin/collection";
import { RecordForm } from "../pages/admin/RecordForm";
import type { Editor, EditorState } from "./editor";
import { addressOf, Copied, Missing, Refused } from "./Starts";

interface Props {
  editor: Editor;
  state: EditorState;
  editing: Editing;
}

/** A team chat in Slack has other fields than one that is called over HTTP. */
const KINDS = ["chatapp", "mcp", "teamchat", "slack"] as const;
type Kind = (typeof KINDS)[number];

const kindOf = (one: Interface): Kind => (one.kind === "teamchat" && one.config.format === "slack" ? "slack" : one.kind);

/** Read as a mark that it is set, which can be written back. */
const SECRET = "signingSecret";

function fieldsOf(kind: Kind, { t, choices }: Context, isNew: boolean): JsonObject {
  const field = (name: string, more: JsonObject): JsonObject => ({ title: t(`interfaces.${name}`), ...more });
  const approvals = field("approvals", { type: "boolean", default: false, description: t(kind === "slack" ? "interfaces.approvalsSlackHint" : "interfaces.approvalsHint") });
  if (kind === "chatapp") {
    const site = field("site", { type: "string", format: "uri" });
    return { frameAncestors: field("frames", { type: "array", description: t("interfaces.framesHint"), items: site }) };
  }
  if (kind === "mcp") {
    const hint = t("interfaces.toolHint");
    return { title: field("toolTitle", { type: "string", description: hint }), description: field("toolDescription", { type: "string", format: "textarea", description: hint }) };
  }
  if (kind === "teamchat") return { postUrl: field("postUrl", { type: "string", format: "uri", description: t("interfaces.postUrlHint") }), approvals };
  const connections = (choices.connections ?? []).map((one) => ({ const: one.id!, title: String(one.name ?? one.id) }));
  return {
    connectionId: field("connection", { description: t("interfaces.connectionHint"), ...(connections.length ? { format: "reference", oneOf: connections } : { type: "string" }) }),
    [SECRET]: field("signingSecret", { type: "string", format: "password", description: isNew ? "" : t("interfaces.keep") }),
    approvals,
  };
}

function formOf(kind: Kind): FormOf<Interface> {
  return {
    schema: (_, context, before) => {
      const required = kind === "slack" ? ["connectionId", ...(before ? [] : [SECRET])] : [];
      return { type: "object", required, properties: fieldsOf(kind, context, before === null) };
    },
    value: (before, context) => {
      const names = Object.keys(fieldsOf(kind, context, false));
      return Object.fromEntries(Object.entries(before.config).filter(([name]) => names.includes(name) && name !== SECRET));
    },
    pointer: (pointer) => pointer.replace(/^\/config/, ""),
  };
}

/** The `config` with this value of the form. Keys that the form does not have stay. */
export function configOf(kind: Kind, value: JsonObject, fields: string[], before: Interface | null): JsonObject {
  const old: JsonObject = before?.config ?? (kind === "slack" ? { format: "slack" } : {});
  const kept = Object.entries(old).filter(([name]) => !fields.includes(name) || name === SECRET);
  const given = Object.entries(value).filter(([, one]) => one !== "" && one !== null);
  return Object.fromEntries([...kept, ...given]) as Record<string, Json>;
}

/** The ways by which people and programs outside the studio use the deployed workflow. */
export function Interfaces({ editor, state, editing }: Props) {
  const { t } = useLanguage();
  const workflow = state.workflow!;
  const [edited, setEdited] = useState<{ kind: Kind; row: Interface | null } | null>(null);
  const [removed, setRemoved] = useState<Interface | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const listed = useLoaded(`interfaces of ${workflow.id}`, () => editing.interfaces(workflow.id));
  /** The change gives the workflow another tag, with which the draft is saved. */
  const change = async (work: () => Promise<unknown>) => {
    await editor.save();
    await work();
    listed.reload();
    await editor.reread();
  };
  const remove = async (row: Interface) => {
    setRemoved(null);
    setProblem(null);
    await change(() => editing.removeInterface(workflow.id, row.id)).catch((error) => setProblem(problemOf(error)));
  };
  const save = async (config: JsonObject) => {
    const { kind, row } = edited!;
    await change(() => (row ? editing.changeInterface(workflow.id, row.id, config) : editing.createInterface(workflow.id, kind === "slack" ? "teamchat" : kind, config)));
    setEdited((now) => (now === edited ? null : now)); // another one may be edited meanwhile
  };
  if (edited) return <InterfaceForm {...edited} editing={editing} save={save} onCancel={() => setEdited(null)} />;
  return (
    <>
      <p className="hint">{t("interfaces.hint")}</p>
      {workflow.status !== "active" && <Missing text={t("interfaces.undeployed")} />}
      <Refused problem={problem ?? listed.problem} />
      {!listed.value && !listed.problem && <Loading rows={2} />}
      <ul className="stack" style={{ gap: 24 }}>
        {listed.value?.map((row) => <Row key={row.id} row={row} workflow={workflow.id} editing={editing} onEdit={() => setEdited({ kind: kindOf(row), row })} onRemove={() => setRemoved(row)} />)}
      </ul>
      {listed.value && (
        <div className="row wrap" role="group" aria-label={t("interfaces.add")}>
          {KINDS.map((kind) => <button key={kind} type="button" className="button small" onClick={() => setEdited({ kind, row: null })}><Icon name="plus" />{t(`interfaces.${kind}`)}</button>)}
        </div>
      )}
      {removed && (
        <Dialog title={t("interfaces.removeAsk")} onClose={() => setRemoved(null)} actions={
          <>
            <button type="button" className="button" autoFocus onClick={() => setRemoved(null)}>{t("common.cancel")}</button>
            <button type="button" className="button danger solid" onClick={() => void remove(removed)}>{t("interfaces.remove")}</button>
          </>
        }><p className="hint">{t("interfaces.removeHint")}</p></Dialog>
      )}
    </>
  );
}

function Row({ row, workflow, editing, onEdit, onRemove }: { row: Interface; workflow: number; editing: Editing; onEdit: () => void; onRemove: () => void }) {
  const { t } = useLanguage();
  const { client } = useHost();
  const kind = kindOf(row);
  const [secret, setSecret] = useState<Webhook | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const show = () => editing.interfaceSecret(workflow, row.id).then(setSecret, (error) => setProblem(problemOf(error)));
  return (
    <li className="stack" aria-label={t(`interfaces.${kind}`)}>
      <Copied title={t(`interfaces.${kind}`)} text={addressOf(row, client)} />
      <p className="hint">{t(`interfaces.${kind}Hint`)}</p>
      {secret && <Copied title={t("settings.webhook.secret")} text={secret.secret} />}
      <Refused problem={problem} />
      <div className="row wrap">
        <button type="button" className="button small" onClick={onEdit}>{t("interfaces.edit")}</button>
        {kind === "teamchat" && !secret && <button type="button" className="button small" onClick={() => void show()}><Icon name="key" />{t("interfaces.secret")}</button>}
        <button type="button" className="button danger small" onClick={onRemove}>{t("interfaces.remove")}</button>
      </div>
    </li>
  );
}

function InterfaceForm({ kind, row, editing, save, onCancel }: { kind: Kind; row: Interface | null; editing: Editing; save: (config: JsonObject) => Promise<void>; onCancel: () => void }) {
  const language = useLanguage();
  const { t } = language;
  const { api, client } = useHost();
  const [form] = useState(() => formOf(kind));
  const loaded = useLoaded(`choices of ${kind}`, async (): Promise<Context> => {
    const connections = kind === "slack" ? await orNone(editing.listed("connections")) : [];
    return { ...language, me: await api.me(), records: new Records(client), choices: { connections: connections as JsonObject[] } };
  });
  if (loaded.problem) return <Refused problem={loaded.problem} />;
  if (!loaded.value) return <Loading rows={3} />;
  const context = { ...loaded.value, ...language };
  const fields = Object.keys(fieldsOf(kind, context, row === null));
  return (
    <section className="stack" aria-label={t(`interfaces.${kind}`)}>
      <h3>{t(`interfaces.${kind}`)}</h3>
      <p className="hint">{t(`interfaces.${kind}Hint`)}</p>
      <RecordForm form={form} before={row} context={context} save={(value) => save(configOf(kind, value, fields, row))} onCancel={onCancel} />
    </section>
  );
}
