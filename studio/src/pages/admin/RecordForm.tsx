import { useEffect, useMemo, useRef, useState } from "react";
import { ApiError } from "../../api/client";
import type { Json, JsonObject } from "../../api/types";
import { problemOf, useUnsaved } from "../../elements/context";
import { focusUnreadable, Form, TextInputs, unreadableIn, useInvalidFocus } from "../../forms/Form";
import { check, fieldOf, type FieldError, initial, issuesOf, patchOf, withValue } from "../../forms/schema";
import { Icon } from "../../kit/icons";
import { Loading } from "../../kit/kit";
import { Refusal } from "../../kit/named";
import { type Context, type FormOf, RecordContext } from "./collection";
import { PersonInput } from "./PersonChoice";

const INPUTS = { person: PersonInput };

interface Props<T> {
  form: FormOf<T>;
  before: T | null;
  context: Context;
  save: (value: JsonObject) => Promise<void>;
  onCancel: () => void;
  /** After a conflict: read the newer tag and keep what was typed, or show what is there now. */
  onKeep?: () => Promise<void>;
  onDiscard?: () => void;
  autoFocus?: boolean;
  /** Called with every change of a value. */
  onEdit?: () => void;
}

/** A form of a record, once its choices are read. `save` gets the value; issues of the server are shown at their fields. */
export function RecordForm<T>(props: Props<T>) {
  const { reading } = props.context;
  return reading && !reading.isDone && !reading.problem ? <Loading rows={3} /> : <Fields {...props} />;
}

function Fields<T>({ form, before, context, save, onCancel, onKeep, onDiscard, autoFocus = true, onEdit }: Props<T>) {
  const { t } = context;
  const start = useMemo(() => (before ? form.value(before, context) : ((initial(fieldOf(form.schema({}, context, null))) ?? {}) as JsonObject)), [before]);
  const [value, setValue] = useState<JsonObject>(start);
  const [errors, setErrors] = useState(new Map<string, FieldError>());
  const [problem, setProblem] = useState<{ text: string; stale: boolean } | null>(null);
  const [busy, setBusy] = useState(false);
  const box = useRef<HTMLFormElement>(null);
  const focusInvalid = useInvalidFocus(box, errors, busy);
  useUnsaved(() => (unreadableIn(box.current) || Object.keys(patchOf(start, value, true)).length ? "lost" : null), onCancel);
  useEffect(() => {
    if (autoFocus) box.current?.querySelector<HTMLElement>("input, select, textarea")?.focus();
  }, []);
  const schema = form.schema(value, context, before);
  const known = JSON.stringify(schema);
  const field = useMemo(() => fieldOf(schema), [known]);
  const change = (pointer: string, next: Json | undefined) => {
    onEdit?.();
    const changed = (withValue(value, pointer, next) ?? {}) as JsonObject;
    const after = form.schema(changed, context, before);
    // A choice that brings other fields brings their defaults too.
    setValue(JSON.stringify(after) === known ? changed : { ...(initial(fieldOf(after)) as JsonObject | undefined), ...changed });
    if (errors.has(pointer)) setErrors(new Map([...errors].filter(([at]) => at !== pointer)));
  };
  const fail = (found: Map<string, FieldError>) => {
    setErrors(found);
    focusInvalid(found);
  };
  const submit = async () => {
    setProblem(null);
    if (focusUnreadable(box.current)) return;
    const found = check(schema, value);
    if (found.size) return fail(found);
    setBusy(true);
    try {
      await save(value);
    } catch (error) {
      const issues = new Map<string, FieldError>();
      const info = error instanceof ApiError ? error.info : {};
      for (const [pointer, issue] of issuesOf(info, "")) issues.set(form.pointer?.(pointer) ?? pointer, issue);
      const shown = new Set(pointersOf(field));
      const elsewhere = [...issues].filter(([pointer]) => !shown.has(pointer)).map(([, issue]) => issue.message);
      if (issues.size) fail(issues);
      if (!issues.size || elsewhere.length) setProblem({ text: elsewhere.join(" ") || problemOf(error).message, stale: info.reason === "stale" });
    }
    setBusy(false);
  };
  // Saved before the newer tag is read, the record would conflict again.
  const keep = async () => {
    setBusy(true);
    try {
      await onKeep?.();
      setProblem(null);
    } catch (error) {
      setProblem({ text: problemOf(error).message, stale: false });
    }
    setBusy(false);
  };
  return (
    <form className="recordform" ref={box} noValidate onSubmit={(event) => { event.preventDefault(); void submit(); }}>
      <RecordContext value={context}>
        <TextInputs value={INPUTS}><Form field={field} value={value} errors={errors} disabled={busy} onChange={change} /></TextInputs>
      </RecordContext>
      <Refusal text={problem?.stale ? null : problem?.text} />
      {problem?.stale && (
        <div className="notice wait" role="alert">
          <Icon name="waiting" />
          <div className="grow stack">
            <span>{t("admin.stale")}</span>
            <div className="row wrap">
              <button type="button" className="button small" onClick={onDiscard}>{t("admin.staleTheirs")}</button>
              <button type="button" className="button small" disabled={busy} onClick={() => void keep()}>{t("admin.staleMine")}</button>
            </div>
          </div>
        </div>
      )}
      <div className="actions">
        <button type="button" className="button" onClick={onCancel}>{t("common.cancel")}</button>
        <button type="submit" className="button primary" disabled={busy}>{t(before ? "admin.save" : "admin.create")}</button>
      </div>
    </form>
  );
}

/** Where the fields of a form are. */
function pointersOf(field: ReturnType<typeof fieldOf>): string[] {
  return field.kind === "group" ? field.fields.flatMap(pointersOf) : [field.pointer];
}
