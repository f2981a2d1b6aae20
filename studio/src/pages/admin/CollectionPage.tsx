import { type ReactNode, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { flushSync } from "react-dom";
import { mayPass, randomId, type Tagged } from "../../api/client";
import { MOST_CHOICES, Records } from "../../api/records";
import type { Caller, JsonObject } from "../../api/types";
import { problemOf, readingOf, useChanges, useChoice, useHost, useIsShown, useLatest, useLoaded } from "../../elements/context";
import { type Pages, usePages } from "../../elements/paging";
import { patchOf } from "../../forms/schema";
import { useLanguage } from "../../i18n/context";
import { Icon } from "../../kit/icons";
import { CopyButton, Dialog, Empty, Failure, Loading, type Problem, VirtualRows } from "../../kit/kit";
import { Refusal } from "../../kit/named";
import { Picker } from "../../kit/Picker";
import { MOST_LISTED } from "../../forms/Choice";
import { brief, visible } from "../../kit/safe";
import { PlaceLink } from "../parts";
import type { Collection, Context } from "./collection";
import { peopleIn, PersonChoice, useNames } from "./PersonChoice";
import { RecordForm } from "./RecordForm";

const ROW = 47;

const NO_CHOICES: Record<string, JsonObject[]> = {};

/** `prepare` reads what forms choose from, again after changes of these kinds. */
export function useContextOf(me: Caller, prepare?: (records: Records, me: Caller) => Promise<Record<string, JsonObject[]>>, kinds: string[] = []): Context {
  const language = useLanguage();
  const { client } = useHost();
  const records = useMemo(() => new Records(client), [client]);
  const prepared = useLoaded("choices", async () => prepare?.(records, me) ?? NO_CHOICES);
  useChanges(kinds, () => kinds.length && prepared.reload(), 400);
  const { value: choices = NO_CHOICES, problem } = prepared;
  return useMemo(() => ({ ...language, me, records, choices, reading: readingOf(prepared) }), [language, me, records, choices, prepared.value, problem]);
}

/**
 * Moves the focus with what is shown: to the details where they take the place of the list or of a form, and back to the
 * row of the record whose details are closed (or to the first button, after a form).
 */
export function useFocusReturn(open: string | null) {
  const box = useRef<HTMLDivElement>(null);
  const last = useRef<string | null>(null);
  useLayoutEffect(() => {
    const page = box.current;
    const closed = last.current;
    last.current = open;
    if (!page || open === closed) return;
    if (open === null) {
      if (closed === NEW && page.querySelector(".main :focus")) return;
      const row = [...page.querySelectorAll<HTMLElement>("[data-record]")].find((one) => one.dataset.record === closed);
      (row?.querySelector<HTMLElement>("a, button") ?? page.querySelector<HTMLElement>(".head .button, .head input, .scroll"))?.focus();
    } else if (closed === NEW || (open !== NEW && page.querySelector<HTMLElement>(".main")?.offsetParent === null)) {
      page.querySelector<HTMLElement>("aside")?.focus();
    }
  }, [open]);
  return box;
}

const NEW = "\u0000new";

/** A page of records: the list, and beside it the one at the address or a form. */
export function CollectionPage<T extends object>({ of, me, section, recordId }: { of: Collection<T>; me: Caller; section: string; recordId: string | undefined }) {
  const host = useHost();
  const context = useContextOf(me, of.prepare, of.kinds ?? ["poll"]);
  const { t } = context;
  const [chosen, setChosen] = useChoice<Record<string, string>>("filters", {});
  const list = useRecords(of, context.records, chosen);
  const [making, setMaking] = useState(false);
  const [secret, setSecret] = useState<string | null>(null);
  const mayChange = !host.readonly && host.wants("manage") && of.mayChange(me);
  const open = (id?: string) => host.navigate({ page: "administration", section, ...(id === undefined ? {} : { id }) });
  const key = useRef({ body: "", key: "" });
  const begin = useLatest();
  const endMaking = () => {
    begin();
    setMaking(false);
  };
  const create = async (value: JsonObject) => {
    const isWanted = begin();
    const body = of.form!.body?.(value) ?? value;
    const written = JSON.stringify(body);
    if (key.current.body !== written) key.current = { body: written, key: randomId() };
    const made = await context.records.create<T>(of.list, body, key.current.key);
    key.current = { body: "", key: "" };
    list.reload();
    if (!isWanted()) return; // the form was cancelled
    // The form is gone before the record is opened: nothing is left unsaved then.
    flushSync(() => setMaking(false));
    setSecret(of.secret?.(made.value as JsonObject) ?? null);
    open(of.id(made.value));
  };
  const person = of.personFilter?.(context);
  const template = of.columns.map((column) => column.width).join(" ");
  const side = making || recordId !== undefined;
  const box = useFocusReturn(making ? NEW : (recordId ?? null));
  return (
    <div className="page admin" ref={box}>
      <div className="head">
        <h1>{t(`nav.${section}`)}</h1>
        {mayChange && of.form && (
          <button type="button" className="button primary" onClick={() => making || host.unsaved.leave(() => { setMaking(true); setSecret(null); })}><Icon name="plus" />{t(`${section}.new`)}</button>
        )}
      </div>
      {(of.filters || of.personFilter || of.findsPeople) && (
        <div className="filters" role="search" aria-label={t("runs.filters")}>
          {of.findsPeople && (
            <div className="field">
              <label htmlFor="f-find">{t(of.findsPeople.text)}</label>
              <Picker shared={{ id: "f-find", disabled: false }} {...peopleIn(context)} chosen={[]} many={false} canClear={false} onChange={([id]) => id !== undefined && open(id)} />
            </div>
          )}
          {person && (
            <div className="field">
              <label htmlFor="f-person">{t(person.text)}</label>
              <PersonChoice id="f-person" none={t(person.none)} without={me.userId} value={chosen[person.name] ?? ""} context={context} onChange={(value) => setChosen({ ...chosen, [person.name]: value })} />
            </div>
          )}
          {(of.filters?.(context) ?? []).map((filter) => (
            <div className="field" key={filter.name}>
              <label htmlFor={`f-${filter.name}`}>{t(filter.text)}</label>
              <FilterChoice id={`f-${filter.name}`} options={[["", t(filter.none ?? "common.all")], ...filter.options]} value={chosen[filter.name] ?? ""}
                onChange={(value) => setChosen({ ...chosen, [filter.name]: value })} />
            </div>
          ))}
        </div>
      )}
      <div className={`split${side ? "" : " alone"}`}>
        <div className="main">
          {list.problem && !list.rows.length ? <Failure problem={list.problem} onRetry={list.reload} />
            : list.loading && !list.rows.length ? <Loading rows={8} />
            : !list.rows.length ? <Empty icon={of.icon} title={t(`${section}.empty`)} hint={t(`${section}.hint`)} />
            : (
              <>
                <div className="columns" aria-hidden="true" style={{ gridTemplateColumns: template }}>
                  {of.columns.map((column) => <span key={column.text} className={column.wide ? "wide" : ""}>{t(column.text)}</span>)}
                </div>
                <VirtualRows count={list.rows.length} height={ROW} label={t(`nav.${section}`)} pages={list} row={(index) => {
                  const one = list.rows[index] as T;
                  const id = of.id(one);
                  return (
                    <div role="listitem" key={id} data-record={id} style={{ height: ROW }}>
                      <PlaceLink to={{ page: "administration", section, id }} className={`line record${id === recordId ? " current" : ""}`}
                        style={{ gridTemplateColumns: template }}>
                        {of.columns.map((column) => <span key={column.text} className={`clip${column.wide ? " wide" : ""}`}>{column.show(one, context)}</span>)}
                      </PlaceLink>
                    </div>
                  );
                }} />
              </>
            )}
        </div>
        <aside className="side" aria-label={t("admin.details")} tabIndex={0} hidden={!side}>
          {secret !== null && !making && <Once text={secret} hint={t(of.secretHint ?? "")} onClose={() => setSecret(null)} />}
          {making ? (
            <div className="section">
              <Title text={t(`${section}.new`)} onClose={() => host.unsaved.leave(endMaking)} />
              <RecordForm form={of.form!} before={null} context={context} save={create} onCancel={endMaking} />
            </div>
          ) : recordId !== undefined && (
            <Details key={recordId} of={of} id={recordId} context={context} mayChangeSome={mayChange} onClose={() => { setSecret(null); open(); }}
              onChanged={() => { list.reload(); context.reading?.retry(); }} />
          )}
        </aside>
      </div>
    </div>
  );
}

/** One of a filter's choices: by search if there are many. */
export function FilterChoice({ id, options, value, onChange }: { id: string; options: [string, string][]; value: string; onChange: (value: string) => void }) {
  const { t } = useLanguage();
  if (options.length <= MOST_LISTED) {
    return (
      <select id={id} className="input" value={value} onChange={(event) => onChange(event.target.value)}>
        {options.map(([key, title]) => <option key={key} value={key}>{brief(title, 80)}</option>)}
      </select>
    );
  }
  const rows = options.map(([key, title]) => ({ key, title }));
  return (
    <>
      <Picker shared={{ id, disabled: false }} options={rows} chosen={rows.filter(({ key }) => key === value)} many={false} canClear={false} onChange={([key]) => onChange(key ?? "")} />
      {options.length >= MOST_CHOICES && <p className="hint">{t("runs.furtherWorkflows", { count: options.length - 1 })}</p>}
    </>
  );
}

export function Title({ text, onClose }: { text: ReactNode; onClose: () => void }) {
  const { t } = useLanguage();
  return (
    <div className="row between">
      <h2>{text}</h2>
      <button type="button" className="button plain square" aria-label={t("common.close")} onClick={onClose}><Icon name="close" /></button>
    </div>
  );
}

/** A secret that is not shown again. */
function Once({ text, hint, onClose }: { text: string; hint: string; onClose: () => void }) {
  const { t } = useLanguage();
  return (
    <div className="section">
      <div className="notice ok" role="status">
        <Icon name="done" />
        <div className="grow stack">
          <strong>{hint}</strong>
          <div className="block secret"><CopyButton text={() => text} /><code>{text}</code></div>
          <div><button type="button" className="button small" onClick={onClose}>{t("admin.secretDone")}</button></div>
        </div>
      </div>
    </div>
  );
}

function Details<T extends object>({ of, id, context, mayChangeSome, onClose, onChanged }: {
  of: Collection<T>; id: string; context: Context; mayChangeSome: boolean; onClose: () => void; onChanged: () => void;
}) {
  const { t } = context;
  const [found, setFound] = useState<Tagged<T> | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [editing, setEditing] = useState(0);
  const [removing, setRemoving] = useState(false);
  const [refused, setRefused] = useState<string | null>(null);
  const edit = useRef<HTMLButtonElement>(null);
  const wasEditing = useRef(0);
  useLayoutEffect(() => {
    // Unless the form was left by something that has the focus.
    const page = edit.current?.getRootNode() as ShadowRoot | undefined;
    if (wasEditing.current && !editing && !page?.activeElement) edit.current?.focus();
    wasEditing.current = editing;
  }, [editing]);
  const isShown = useIsShown();
  const isEditing = useRef(false);
  isEditing.current = editing > 0;
  const begin = useLatest();
  const read = useCallback(async (isNews = false) => {
    const isLatest = begin();
    try {
      const next = await context.records.read<T>(of.list, id);
      if (!isLatest()) return null;
      // A form that was opened meanwhile belongs to the version that it began with.
      if (isNews && isEditing.current) return null;
      setFound(next);
      setProblem(null);
      return next;
    } catch (error) {
      if (isLatest() && (!isNews || !(isEditing.current || mayPass(error)))) setProblem(problemOf(error));
      return null;
    }
  }, [begin, of, id, context.records]);
  useEffect(() => void read(), [read]);
  useChanges(of.kinds ?? ["poll"], (changes) => {
    if (!editing && changes.some((change) => change.kind === "poll" || String(change.id) === id)) void read(true);
  });
  useNames(found ? (of.people?.(found.value) ?? []) : [], context);
  if (problem) return <><div className="section"><Title text="" onClose={onClose} /></div><Failure problem={problem} onRetry={() => void read()} /></>;
  if (!found) return <Loading rows={6} />;
  const one = found.value;
  const mayChange = mayChangeSome && (of.mayChangeOne?.(one, context.me) ?? true);
  const onRemoved = () => {
    onChanged();
    if (isShown()) onClose(); // another one may be shown meanwhile
  };
  const save = async (value: JsonObject) => {
    const bodyOf = of.form!.body ?? ((given: JsonObject) => given);
    const patch = patchOf(bodyOf(of.form!.value(one, context)), bodyOf(value), of.form!.merges);
    if (Object.keys(patch).length) {
      const changed = await context.records.change<T>(of.list, id, patch, found.etag);
      begin(); // what was read before is older
      setFound(changed);
    }
    setEditing(0);
    onChanged();
  };
  const remove = async () => {
    setRemoving(false);
    try {
      await context.records.remove<T>(of.list, id, found.etag);
      onRemoved();
    } catch (error) {
      setRefused(problemOf(error).message);
      await read();
    }
  };
  const texts = of.remove ?? { text: "admin.remove", ask: "admin.removeAsk", hint: "admin.removeHint" };
  return (
    <>
      <div className="section">
        <Title text={<span className="text">{visible(of.name(one, context))}</span>} onClose={onClose} />
        {editing ? (
          <RecordForm key={editing} form={of.form!} before={one} context={context} save={save} onCancel={() => { setEditing(0); void read(true); }}
            onKeep={async () => { const now = await context.records.read<T>(of.list, id); setFound({ value: one, etag: now.etag }); }}
            onDiscard={() => void read().then((next) => next && setEditing(editing + 1))} />
        ) : (
          <>
            <dl className="facts">
              {of.details(one, context).map(([name, value]) => <div key={name} className="fact"><dt>{t(name)}</dt><dd>{value}</dd></div>)}
            </dl>
            <Refusal text={refused} />
            {mayChange && (
              <div className="row wrap">
                {of.form && of.canEdit !== false && <button type="button" className="button" ref={edit} onClick={() => setEditing(1)}>{t("admin.edit")}</button>}
                {(of.canRemove?.(one) ?? true) && <button type="button" className="button danger" onClick={() => { setRefused(null); setRemoving(true); }}>{t(texts.text)}</button>}
              </div>
            )}
          </>
        )}
      </div>
      {!editing && of.Extra && <of.Extra one={one} context={context} mayChange={mayChange} reload={() => void read()} onRemoved={onRemoved} />}
      {removing && (
        <Dialog title={t(texts.ask, { name: brief(of.name(one, context), 80) })} onClose={() => setRemoving(false)} actions={
          <>
            <button type="button" className="button" autoFocus onClick={() => setRemoving(false)}>{t("common.cancel")}</button>
            <button type="button" className="button danger solid" onClick={() => void remove()}>{t(texts.text)}</button>
          </>
        }>
          <p className="muted">{t(texts.hint)}</p>
        </Dialog>
      )}
    </>
  );
}

/** The records, page after page. */
export function useRecords<T>(of: Pick<Collection<T>, "list" | "kinds" | "id">, records: Records, chosen: Record<string, string>): Pages<T> {
  const given = Object.fromEntries(Object.entries(chosen).filter(([, value]) => value));
  return usePages(`${of.list} ${JSON.stringify(given)}`, (pageToken) => records.page<T>(of.list, given, pageToken), of.id, of.kinds ?? ["poll"]);
}
