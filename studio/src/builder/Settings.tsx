import { type ReactNode, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { ApiError } from "../api/client";
import type { Editing } from "../api/editing";
import { type Member, MOST_PEOPLE } from "../api/people";
import type { AccessConfig, GraphDiff, Json, JsonObject, Variation } from "../api/types";
import { problemOf, useHost, useKept, useLatest, useLoaded, useUnsaved } from "../elements/context";
import { focusUnreadable, Form, Message, useInvalidFocus } from "../forms/Form";
import { type FieldError, fieldOf, withValue } from "../forms/schema";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { Dialog, Failure, Loading, type Problem, Tabs } from "../kit/kit";
import { Refusal } from "../kit/named";
import { useFound } from "../kit/Picker";
import { brief } from "../kit/safe";
import { DiffView, RollBackDialog, ScheduleInput } from "./dialogs";
import type { Editor, EditorState } from "./editor";
import { Interfaces } from "./Interfaces";
import { addressed, finderOf } from "./references";
import { ChatAddress, WebhookAddress } from "./Starts";

interface Props {
  editor: Editor;
  state: EditorState;
  editing: Editing;
}

/** What a workflow has beside its graph: when it starts, its versions, and who may use it. */
export function SettingsDialog({ editor, state, editing, onClose }: Props & { onClose: () => void }) {
  const { t } = useLanguage();
  const [tab, setTab] = useState("general");
  const Panel = PANELS[tab]!;
  return (
    <Dialog title={t("settings.title")} onClose={onClose} actions={<button type="button" className="button" onClick={onClose}>{t("common.close")}</button>}>
      <Tabs label={t("settings.title")} value={tab} onChange={setTab} panel="settings" items={Object.keys(PANELS).map((id) => ({ id, text: t(`settings.${id}`) }))} />
      <div id="settings" role="tabpanel" aria-label={t(`settings.${tab}`)} className="stack settings">
        <Panel editor={editor} state={state} editing={editing} onClose={onClose} />
      </div>
    </Dialog>
  );
}

const PANELS: Record<string, (props: Props & { onClose: () => void }) => ReactNode> = { general: General, trigger: Trigger, interfaces: Interfaces, versions: Versions, sharing: Sharing };

/** Sends changes of the workflow, and keeps what the server says about each field of `box`. `prefix` is the path of the fields. */
function useUpdate(editor: Editor, prefix: string) {
  const [problem, setProblem] = useState<Problem | null>(null);
  const [errors, setErrors] = useState<Map<string, FieldError>>(new Map());
  const [saved, setSaved] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const focusInvalid = useInvalidFocus(box, errors, false);
  /** `then` is called once the server has the changes. */
  const send = async (work: () => Promise<unknown>, then?: () => void) => {
    setProblem(null);
    setErrors(new Map());
    setSaved(false);
    try {
      await editor.save();
      await work();
      then?.();
      setSaved(true);
    } catch (error) {
      setProblem(problemOf(error));
      const found = error instanceof ApiError && Array.isArray(error.info.errors) ? (error.info.errors as { path: string; message: string }[]) : [];
      const issues = new Map(found.map((one): [string, FieldError] => {
        const rest = one.path.startsWith(prefix) ? one.path.slice(prefix.length).replace(/^\./, "").replace(/\[(\d+)\]/g, ".$1") : "";
        return [rest ? `/${rest.split(".").join("/")}` : "", { rule: "server", message: one.message }];
      }));
      setErrors(issues);
      focusInvalid(issues);
    }
  };
  return { problem, errors, saved, send, box, change: () => setSaved(false) };
}

/** What a tab shows: what is typed and not saved, whichever tab or page is shown meanwhile, else what the server has. */
function useTyped<T>(name: string, given: T) {
  const [kept, setKept, discard] = useKept<T | null>(name, null);
  useUnsaved(() => (kept === null ? null : "kept"));
  return { value: kept ?? given, edit: (next: Partial<T>) => setKept((old) => ({ ...(old ?? given), ...next })), discard, isTyped: kept !== null };
}

const TABS = ["general of", "trigger of", "access of"];

/** Whether the settings of a workflow have changes that are not saved. */
export function useTypedSettings(id: number): boolean {
  const { unsaved } = useHost();
  return useSyncExternalStore(unsaved.subscribe, () => TABS.some((tab) => Boolean(unsaved.get(`${tab} ${id}`)?.value)));
}

/** The button that saves a tab, and beside it whether that is still to be done. */
function Save({ onSave, onDiscard, isTyped, saved }: { onSave: () => void; onDiscard: () => void; isTyped: boolean; saved: string | false }) {
  const { t } = useLanguage();
  return (
    <div className="row wrap">
      <button type="button" className="button primary" onClick={onSave}>{t("builder.save")}</button>
      {isTyped && <button type="button" className="button" onClick={(event) => { (event.currentTarget.previousElementSibling as HTMLElement).focus(); onDiscard(); }}>{t("builder.discard")}</button>}
      <span className="muted" role="status">{isTyped ? t("builder.saving.dirty") : saved}</span>
    </div>
  );
}

const FIELDS = ["name", "description"];

/** Whether all errors are at these fields, which show them. */
const areAt = (names: string[], errors: Map<string, FieldError>) => errors.size > 0 && [...errors.keys()].every((pointer) => names.includes(pointer.split("/")[1] ?? ""));

/** How the field of a workflow tells its error; `Message` shows it. */
const wrong = (errors: Map<string, FieldError>, name: string) =>
  errors.has(`/${name}`) ? { "aria-invalid": true, "aria-describedby": `workflow-${name}-problem` } : {};

/** The name and the description, and the end of the workflow. */
function General({ editor, state, editing }: Props) {
  const { t } = useLanguage();
  const host = useHost();
  const workflow = state.workflow!;
  const typed = useTyped(`general of ${workflow.id}`, { name: workflow.name, description: workflow.description ?? "" });
  const { name, description } = typed.value;
  const { problem, errors, saved, send, change, box } = useUpdate(editor, "");
  const [isAsking, setAsking] = useState(false);
  const edit = (next: { name?: string; description?: string }) => {
    typed.edit(next);
    change();
  };
  const save = () => send(() => editor.update({ name: name.trim(), description: description.trim() || null }), typed.discard);
  const remove = async () => {
    setAsking(false);
    await send(async () => {
      await editing.remove(workflow.id);
      typed.discard();
      host.navigate({ page: "workflows" });
    });
  };
  return (
    <>
      <div className="stack" ref={box}>
        <div className="field">
          <label htmlFor="workflow-name">{t("workflows.name")}</label>
          <input id="workflow-name" className="input" maxLength={200} value={name} {...wrong(errors, "name")} onChange={(event) => edit({ name: event.target.value })} />
          <Message error={errors.get("/name")} id="workflow-name-problem" />
        </div>
        <div className="field">
          <label htmlFor="workflow-description">{t("settings.description")} <span className="hint">· {t("form.optional")}</span></label>
          <textarea id="workflow-description" className="input" value={description} {...wrong(errors, "description")} onChange={(event) => edit({ description: event.target.value })} />
          <Message error={errors.get("/description")} id="workflow-description-problem" />
        </div>
      </div>
      <Refusal text={areAt(FIELDS, errors) ? t("approval.fix") : problem?.message} />
      <Save isTyped={typed.isTyped} onDiscard={typed.discard} saved={saved && t("builder.saving.saved")} onSave={() => void save()} />
      <div><button type="button" className="button danger small" onClick={() => setAsking(true)}>{t("settings.delete")}</button></div>
      {isAsking && (
        <Dialog title={t("settings.deleteAsk")} onClose={() => setAsking(false)} actions={
          <>
            <button type="button" className="button" autoFocus onClick={() => setAsking(false)}>{t("common.cancel")}</button>
            <button type="button" className="button danger solid" onClick={() => void remove()}>{t("settings.delete")}</button>
          </>
        }><p className="muted text">{brief(workflow.name, 120)}</p><p className="hint">{t("settings.deleteHint")}</p></Dialog>
      )}
    </>
  );
}

const KINDS = ["manual", "schedule", "webhook", "api", "chatapp"];
const FREQUENCIES = ["hourly", "daily", "weekly", "monthly", "custom"];
const WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/** The time zones that the browser knows; the server can know others. */
const ZONES = [...new Set(["UTC", ...Intl.supportedValuesOf("timeZone")])];

/** The fields of a schedule that its frequency has. */
function scheduleSchema(frequency: string, t: (key: string) => string): JsonObject {
  const choice = (names: string[], group: string): JsonObject => ({ oneOf: names.map((name) => ({ const: name, title: t(`${group}.${name}`) })) });
  const titled = (name: string, schema: JsonObject): [string, JsonObject] => [name, { ...schema, title: t(`schedule.${name}`) }];
  const fields = [titled("frequency", choice(FREQUENCIES, "frequency")), titled("timezone", { anyOf: [{ enum: ZONES }, { type: "string", pattern: "^(UTC|[^/\\s]+/\\S+)$" }] })];
  const needed = ["frequency", "timezone"];
  if (frequency === "custom") {
    fields.push(titled("cron_expressions", { type: "array", items: { type: "string" } }), titled("cron_description", { type: "string" }));
    needed.push("cron_expressions", "cron_description");
  } else {
    fields.push(titled("time_of_day", { type: "string", format: "time" }));
    needed.push("time_of_day");
  }
  if (frequency === "weekly") fields.push(titled("weekdays", { type: "array", items: choice(WEEKDAYS, "weekday") }));
  if (frequency === "monthly") fields.push(titled("day_of_month", { type: "integer", minimum: 1, maximum: 31 }));
  if (frequency === "weekly") needed.push("weekdays");
  if (frequency === "monthly") needed.push("day_of_month");
  return { type: "object", required: needed, properties: Object.fromEntries(fields) };
}

function Trigger({ editor, state, editing }: Props) {
  const { t, dateTime } = useLanguage();
  const workflow = state.workflow!;
  const given = workflow.variation?.trigger;
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const daily: JsonObject = { frequency: "daily", timezone: zone, time_of_day: "09:00" };
  const typed = useTyped(`trigger of ${workflow.id}`, { kind: String(given?.trigger_type ?? "manual"), schedule: given?.schedule ?? daily });
  const { kind, schedule } = typed.value;
  const [edition, setEdition] = useState(0);
  const discard = () => {
    typed.discard();
    setEdition(edition + 1); // the inputs keep what is typed
  };
  const { problem, errors, saved, send, change, box } = useUpdate(editor, "trigger.schedule");
  const field = useMemo(() => fieldOf(scheduleSchema(String(schedule.frequency), t)), [schedule.frequency, t]);
  const next = useLoaded(`next ${workflow.activeVariationId} ${workflow.isEnabled}`, () => editing.nextRuns(workflow.id));
  const names = field.kind === "group" ? field.fields.map((one) => one.name) : [];
  const trigger: JsonObject = kind === "schedule"
    ? { trigger_type: kind, schedule: Object.fromEntries(Object.entries(schedule).filter(([name]) => names.includes(name))) } : { ...(given?.trigger_type === kind ? given : {}), trigger_type: kind };
  return (
    <>
      <div className="field">
        <label htmlFor="trigger-kind">{t("settings.startedBy")}</label>
        <select id="trigger-kind" className="input" value={kind} onChange={(event) => { typed.edit({ kind: event.target.value }); change(); }}>
          {KINDS.map((one) => <option key={one} value={one}>{t(`trigger.${one}`)}</option>)}
        </select>
      </div>
      {kind === "schedule" && <ScheduleInput structure={state.structure} />}
      {kind === "schedule" && (
        <div ref={box}>
          <Form key={edition} field={field} value={schedule} errors={errors} disabled={false} onChange={(pointer, value) => { change(); typed.edit({ schedule: (withValue(schedule, pointer, value) ?? {}) as JsonObject }); }} />
        </div>
      )}
      <Refusal text={kind === "schedule" && areAt(names, errors) ? t("approval.fix") : problem?.message} />
      <Save isTyped={typed.isTyped} onDiscard={discard} saved={saved && t("settings.savedDraft")} onSave={() => focusUnreadable(box.current) || void send(() => editor.update({ trigger }), typed.discard)} />
      {kind === "webhook" && <WebhookAddress editor={editor} state={state} editing={editing} />}
      {kind === "chatapp" && <ChatAddress editor={editor} state={state} editing={editing} />}
      {workflow.status === "active" && next.value && next.value.length > 0 && (
        <div className="stack" style={{ gap: 6 }}>
          <div className="row between">
            <h3>{t("settings.nextRuns")}</h3>
            <button type="button" className="button small" onClick={() => void send(() => editor.toggle())}>
              {t(workflow.isEnabled ? "settings.switchOff" : "settings.switchOn")}
            </button>
          </div>
          {!workflow.isEnabled && <p className="hint">{t("settings.isOff")}</p>}
          <ol className="changes">{next.value.map((one) => <li key={one.at} className="num">{dateTime(one.at)}{one.note ? ` · ${brief(one.note, 80)}` : ""}</li>)}</ol>
        </div>
      )}
    </>
  );
}

function Versions({ editor, state, editing, onClose }: Props & { onClose: () => void }) {
  const { t, dateTime } = useLanguage();
  const workflow = state.workflow!;
  const loaded = useLoaded<Variation[]>(`variations ${workflow.activeVariationId}`, () => editing.variations(workflow.id));
  const [shown, setShown] = useState<string | null>(null);
  const [diff, setDiff] = useState<GraphDiff | null>(null);
  const [asked, setAsking] = useState<Variation | null>(null);
  const { problem, send } = useUpdate(editor, "");
  const begin = useLatest();
  const compare = async (id: string) => {
    const isLatest = begin();
    setDiff(null);
    setShown(shown === id ? null : id);
    if (shown === id) return;
    await send(async () => {
      await editor.ensureSaved(t("builder.unsaved"));
      const found = await editing.diff(workflow.id, id);
      if (isLatest()) setDiff(found);
    });
  };
  if (loaded.problem) return <Failure problem={loaded.problem} onRetry={loaded.reload} />;
  if (!loaded.value) return <Loading rows={3} />;
  if (!loaded.value.length) return <p className="muted">{t("settings.noVersions")}</p>;
  return (
    <>
      <Refusal text={problem?.message} />
      <ul className="stack" style={{ gap: 8 }}>
        {loaded.value.map((one) => (
          <li key={one.id} className="stack" style={{ gap: 6 }}>
            <div className="row wrap">
              <span className="grow"><span className="num">{dateTime(one.deployedAt)}</span> <span className="muted">{brief(one.deployedBy ?? "", 60)}</span></span>
              {one.isActive && <span className="tag">{t("status.active")}</span>}
              <button type="button" className="button small" aria-expanded={shown === one.id} onClick={() => void compare(one.id)}>{t("settings.compare")}</button>
              {!one.isActive && <button type="button" className="button small" onClick={() => setAsking(one)}>{t("settings.rollBack")}</button>}
            </div>
            {shown === one.id && diff && <DiffView diff={diff} structure={state.structure} />}
          </li>
        ))}
      </ul>
      {asked && <RollBackDialog version={asked} editor={editor} state={state} editing={editing} onDeployed={onClose} onClose={() => setAsking(null)} />}
    </>
  );
}

function Sharing({ editor, state, editing }: Props) {
  const { t } = useLanguage();
  const workflow = state.workflow!;
  const typed = useTyped<AccessConfig>(`access of ${workflow.id}`, workflow.accessConfig ?? { visibility: "shared", groupPermissions: {}, sharedWith: [] });
  const access = typed.value;
  const groups = useLoaded("groups", () => editing.groups().catch(() => []));
  const { problem, saved, send, change } = useUpdate(editor, "accessConfig");
  const input = useRef<HTMLInputElement>(null);
  const [email, setEmail, forgetEmail] = useKept(`access of ${workflow.id}: person`, "");
  const listed = useLoaded("people", () => (editing.listed("members") as Promise<Member[]>).catch(() => []));
  const searched = useFound((listed.value?.length ?? 0) >= MOST_PEOPLE ? finderOf(editing) : undefined, email);
  const offered = new Map([...addressed(listed.value ?? []), ...(searched?.options ?? [])].map((one) => [one.key, one]));
  const edit = (next: Partial<AccessConfig>) => {
    typed.edit(next);
    change();
  };
  const known = new Map((groups.value ?? []).map((group) => [group.id, group.name]));
  const rows = [workflow.orgUuid ?? "", ...known.keys(), ...Object.keys(access.groupPermissions)].filter((id, index, all) => id && all.indexOf(id) === index);
  const nameOf = (id: string) => (id === workflow.orgUuid ? t("settings.everyone") : brief(known.get(id) ?? id, 80));
  const set = (id: string, what: "use" | "manage", on: boolean) => {
    const now = { use: false, manage: false, ...access.groupPermissions[id], [what]: on };
    const others = Object.fromEntries(Object.entries(access.groupPermissions).filter(([one]) => one !== id));
    edit({ groupPermissions: now.use || now.manage ? { ...others, [id]: now } : others });
  };
  const person = email.trim().toLowerCase();
  const people = person ? [...access.sharedWith, { email: person }] : access.sharedWith;
  const addPerson = () => {
    if (!person) return;
    edit({ sharedWith: people });
    forgetEmail();
    input.current?.focus(); // the button is disabled without a text
  };
  const discard = () => {
    typed.discard();
    forgetEmail();
  };
  return (
    <>
      <fieldset className="stack" style={{ gap: 2 }}>
        <legend>{t("settings.visibility")}</legend>
        {(["shared", "private"] as const).map((one) => (
          <label key={one} className="check"><input type="radio" name="visibility" checked={access.visibility === one} onChange={() => edit({ visibility: one })} />{t(`settings.${one}`)}</label>
        ))}
      </fieldset>
      {access.visibility === "shared" ? (
        <div className="grants" role="group" aria-label={t("settings.groups")}>
          {rows.map((id) => (
            <div className="row between" key={id} role="group" aria-label={nameOf(id)}>
              <span className="clip">{nameOf(id)}</span>
              <span className="row">
                {(["use", "manage"] as const).map((what) => (
                  <label key={what} className="check"><input type="checkbox" checked={access.groupPermissions[id]?.[what] === true} onChange={(event) => set(id, what, event.target.checked)} />{t(`settings.${what}`)}</label>
                ))}
              </span>
            </div>
          ))}
        </div>
      ) : (
        <div className="stack" style={{ gap: 6 }} role="group" aria-label={t("settings.people")}>
          {access.sharedWith.map((person, index) => (
            <div className="row between" key={person.email}>
              <span className="clip">{brief(person.email, 120)}</span>
              <button type="button" className="button plain square" aria-label={t("settings.removePerson", { name: brief(person.email, 60) })}
                onClick={() => edit({ sharedWith: access.sharedWith.filter((_, other) => other !== index) })}><Icon name="close" /></button>
            </div>
          ))}
          <div className="row">
            <label className="sr" htmlFor="share-with">{t("settings.email")}</label>
            <input id="share-with" ref={input} type="email" className="input" list="share-names" placeholder={t("settings.email")} value={email} onChange={(event) => { setEmail(() => event.target.value); change(); }} onKeyDown={(event) => event.key === "Enter" && addPerson()} />
            <datalist id="share-names">{[...offered.values()].map((one) => <option key={one.key} value={one.hint ?? one.title}>{one.hint ? one.title : ""}</option>)}</datalist>
            <button type="button" className="button" disabled={!email.trim()} onClick={addPerson}><Icon name="plus" />{t("form.add")}</button>
          </div>
        </div>
      )}
      <Refusal text={problem?.message} />
      <Save isTyped={typed.isTyped || person !== ""} onDiscard={discard} saved={saved && t("builder.saving.saved")}
        onSave={() => void send(() => editor.update({ accessConfig: toBody({ ...access, sharedWith: people }) as unknown as Json }), discard)} />
    </>
  );
}

/** What a private workflow has in groups, and a shared one in people, is left out. */
const toBody = (access: AccessConfig): AccessConfig =>
  access.visibility === "private" ? { ...access, groupPermissions: {} } : { ...access, sharedWith: [] };
