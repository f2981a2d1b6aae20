import { createContext, type ReactNode, type RefObject, useContext, useEffect, useId, useLayoutEffect, useRef, useState } from "react";
import type { Json, JsonObject } from "../api/types";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { isJson, numberOf, readJson } from "../kit/json";
import { Named } from "../kit/named";
import { brief, visible } from "../kit/safe";
import { TimeSpan, unitOf } from "../kit/TimeSpan";
import { Choice, isPicked, missingOf } from "./Choice";
import { check, choiceOf, type Field, type FieldError, fieldsFor, gravest, initial } from "./schema";

type Errors = Map<string, FieldError>;

interface Props {
  field: Field;
  value: Json | undefined;
  errors: Errors;
  disabled: boolean;
  onChange: (pointer: string, value: Json | undefined) => void;
}

/** An input for texts of one `format`, in the place of a plain one. */
export type TextInput = (props: { value: string; schema: JsonObject; shared: { id: string; disabled: boolean }; onChange: (text: string) => void }) => ReactNode;

/** Inputs of the page for texts, by the `format` of their schema. */
export const TextInputs = createContext<Record<string, TextInput>>({});

/**
 * Whether text that is no value of its field yet is kept as the value: in a draft, which the server then refuses to run.
 * Elsewhere only the input has it, and `focusUnreadable` leads there.
 */
export const KeepsText = createContext(false);

const INPUT_TYPES: Record<string, string> = { date: "date", time: "time", "date-time": "datetime-local", email: "email", uri: "url", password: "password" };

/** The inputs with an error, of a choice its first one. */
const INVALID = "[aria-invalid=true]:not(fieldset), [data-invalid]";

/**
 * Focuses the first invalid field of the box, once its error is rendered and it is not disabled. Returns what requests
 * that, together with the errors.
 */
export function useInvalidFocus(box: RefObject<HTMLElement | null>, errors: Errors, disabled: boolean): (found: Errors) => void {
  const requested = useRef<Errors>(null);
  useEffect(() => {
    // An effect of an earlier rendering can come after the request.
    if (requested.current !== errors || disabled) return;
    requested.current = null;
    box.current?.querySelector<HTMLElement>(INVALID)?.focus();
  });
  return (found) => void (requested.current = found);
}

/** The first input of the box whose text is not a value yet. */
export function unreadableIn(box: HTMLElement | null): HTMLElement | undefined {
  const inputs = box?.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>("input, textarea") ?? [];
  return [...inputs].find((one) => one.dataset.unreadable !== undefined || one.validity.badInput);
}

/** Focuses the first input of the box whose text is not a value yet; false if there is none. */
export function focusUnreadable(box: HTMLElement | null): boolean {
  const found = unreadableIn(box);
  found?.focus();
  return found !== undefined;
}

/** The inputs of a JSON Schema. `errors` are shown at their fields. */
export function Form(props: Props) {
  return <Part {...props} at={props.field.pointer} top />;
}

function Part({ field, value, errors, disabled, onChange, at, top = false }: Props & { at: string; top?: boolean }) {
  const { t } = useLanguage();
  if (field.kind === "group") {
    const held = (value ?? {}) as JsonObject;
    const inner = fieldsFor(field, held).map((one) => (
      <Part key={`${one.name} ${one.kind}`} field={one} value={Object.hasOwn(held, one.name) ? held[one.name] : undefined} errors={errors} disabled={disabled}
        onChange={onChange} at={`${at}/${one.pointer.slice(one.pointer.lastIndexOf("/") + 1)}`} />
    ));
    const hidden = field.hidden > 0 && <p className="hint">{t("form.tooMany", { count: field.hidden })}</p>;
    if (top) return <div className="form">{inner}{hidden}<Message error={errors.get(at)} id={`${at}-problem`} /></div>;
    return (
      <fieldset className="group" data-at={at}>
        <legend>{visible(field.title)}</legend>
        {field.description && <p className="hint text">{visible(field.description)}</p>}
        <div className="form">{inner}{hidden}</div>
        <Message error={errors.get(at)} id={`${at}-problem`} />
      </fieldset>
    );
  }
  if (field.kind === "list") return <List {...{ field, value, errors, disabled, onChange, at }} />;
  return <Leaf field={field} at={at} value={value} error={errorAt(errors, at, field)} disabled={disabled} onChange={(next) => onChange(at, next)} />;
}

/** The error at a field. One whose parts have no fields of their own shows theirs too. */
function errorAt(errors: Errors, at: string, field: Field): FieldError | undefined {
  const isHere = field.kind === "json" || field.kind === "several" ? (pointer: string) => `${pointer}/`.startsWith(`${at}/`) : (pointer: string) => pointer === at;
  return gravest([...errors].filter(([pointer]) => isHere(pointer)).map(([, error]) => error));
}

/** A key for each of `count` entries, which stays with its entry when another one is removed. */
function useKeys(count: number): { keys: number[]; remove: (index: number) => void } {
  const kept = useRef<{ keys: number[]; next: number }>({ keys: [], next: 0 }).current;
  while (kept.keys.length < count) kept.keys.push(kept.next++);
  kept.keys.length = count;
  return { keys: kept.keys, remove: (index) => void kept.keys.splice(index, 1) };
}

function List({ field, value, errors, disabled, onChange, at }: Omit<Props, "field"> & { field: Extract<Field, { kind: "list" }>; at: string }) {
  const { t } = useLanguage();
  const items = Array.isArray(value) ? value : [];
  // The inputs keep what is typed: with its place as the key, an entry would show the text of the one before.
  const { keys, remove } = useKeys(items.length);
  const box = useRef<HTMLFieldSetElement>(null);
  const isAdded = useRef(false);
  useLayoutEffect(() => {
    if (!isAdded.current) return;
    isAdded.current = false;
    [...(box.current?.querySelectorAll(":scope > .entry") ?? [])].at(-1)?.querySelector<HTMLElement>("input, select, textarea")?.focus();
  }, [items.length]);
  return (
    <fieldset className="group" data-at={at} ref={box}>
      <legend>{visible(field.title)}</legend>
      {field.description && <p className="hint text">{visible(field.description)}</p>}
      {items.map((one, index) => (
        <div className="row entry" key={keys[index]}>
          <div className="grow">
            <Part field={{ ...field.item, name: `${index + 1}`, title: field.item.title || `${index + 1}` }} value={one} errors={errors}
              disabled={disabled} onChange={onChange} at={`${at}/${index}`} />
          </div>
          <button type="button" className="button plain square" disabled={disabled} aria-label={t("form.remove", { n: index + 1 })}
            onClick={() => { remove(index); onChange(at, items.filter((_, other) => other !== index)); }}>
            <Icon name="close" />
          </button>
        </div>
      ))}
      <div>
        <button type="button" className="button small" disabled={disabled}
          onClick={() => { isAdded.current = true; onChange(at, [...items, initial(field.item) ?? (field.item.kind === "group" ? {} : "")]); }}>
          <Icon name="plus" /> {t("form.add")}
        </button>
      </div>
      <Message error={errors.get(at)} id={`${at}-problem`} />
    </fieldset>
  );
}

/** What is wrong at a field, or to be known of it. */
export function Message({ error, id }: { error: FieldError | undefined; id?: string }) {
  const { t, has } = useLanguage();
  if (!error) return null;
  const key = `form.${error.rule}`;
  const text = has(key) && (error.rule === "required" || error.rule === "json" || error.limit !== undefined)
    ? t(key, { n: error.limit ?? "", type: error.limit ?? "" })
    : error.rule === "server" ? error.message : t("form.invalid");
  return (
    <p className={`problem${error.isWarning ? " warning" : ""}`} id={id}>
      <Icon name={error.isWarning ? "waiting" : "error"} />
      <span className="text">{error.isWarning && <span className="sr">{t("form.warning")}: </span>}<Named text={visible(text)} /></span>
    </p>
  );
}

function Leaf({ field, at, value, error: given, disabled, onChange }: {
  field: Exclude<Field, { kind: "group" | "list" }>; at: string; value: Json | undefined; error: FieldError | undefined; disabled: boolean;
  onChange: (value: Json | undefined) => void;
}) {
  const { t } = useLanguage();
  const id = useId();
  // Without it the value of before would be sent: the owner of the form asks for it with `focusUnreadable`.
  const [unread, setUnreadable] = useState(false);
  const keeps = useContext(KeepsText);
  const unreadable = keeps ? isKeptText(field, value) : unread;
  const missing = field.kind === "choice" ? missingOf(field, value, t("pick.missing")) : undefined;
  const error: FieldError | undefined = unreadable ? (field.kind === "json" ? { rule: "json", message: "" } : { rule: "type", limit: field.kind, message: "" }) : reasoned(given, missing);
  const Custom = useContext(TextInputs)[String(field.schema.format)];
  const isTime = field.schema.format === "date-time";
  const described = [field.description && `${id}-hint`, error && `${id}-problem`].filter(Boolean).join(" ") || undefined;
  const shared = { id, disabled, "data-unreadable": unreadable || undefined, "aria-invalid": (error && !error.isWarning) || undefined, "aria-describedby": described, "aria-required": field.required || undefined } as const;
  const label = <>{visible(field.title)}{!field.required && field.kind !== "boolean" && <span className="hint"> · {t("form.optional")}</span>}</>;
  const below = (
    <>
      {field.description && <p className="hint text" id={`${id}-hint`}><Named text={visible(field.description)} /></p>}
      <Message error={error} id={`${id}-problem`} />
    </>
  );
  if (field.kind === "boolean") {
    return (
      <div className="field" data-at={at}>
        <div className="check">
          <input type="checkbox" {...shared} checked={(value ?? field.schema.default) === true} onChange={(event) => onChange(event.target.checked)} />
          <label htmlFor={id} className="label">{label}</label>
        </div>
        {below}
      </div>
    );
  }
  const text = (index: number) => {
    const choice = "choices" in field ? field.choices[index] : undefined;
    return typeof choice === "boolean" ? t(choice ? "form.yes" : "form.no") : visible("labels" in field ? (field.labels[index] ?? "") : "");
  };
  if ((field.kind === "several" || field.kind === "choice") && isPicked(field, value)) {
    return (
      <div className="field" data-at={at}>
        <label htmlFor={id}>{label}</label>
        <Choice field={field} value={value} shared={shared} onChange={onChange} />
        <Gone text={error ? undefined : missing} />
        {below}
      </div>
    );
  }
  if (field.kind === "several" || (field.kind === "choice" && field.choices.length <= 4)) {
    const many = field.kind === "several";
    const held = many ? (Array.isArray(value) ? value : []) : value === undefined ? [] : [value];
    const chosen = new Set(held.map((one) => choiceOf(field.choices, one)));
    return (
      <fieldset className="field" data-at={at} aria-describedby={described} {...(many ? {} : { role: "radiogroup", "aria-required": shared["aria-required"], "aria-invalid": shared["aria-invalid"] })}>
        <legend>{label}</legend>
        {field.choices.map((choice, index) => (
          <div className="check" key={index}>
            <input type={many ? "checkbox" : "radio"} id={`${id}-${index}`} name={id} disabled={disabled} checked={chosen.has(index)}
              data-invalid={(error && !error.isWarning && index === 0) || undefined} aria-invalid={(many && shared["aria-invalid"]) || undefined}
              aria-describedby={error && `${id}-problem`}
              onChange={() => onChange(!many ? choice : chosen.has(index) ? held.filter((one) => choiceOf(field.choices, one) !== index) : [...held, choice])} />
            <label htmlFor={`${id}-${index}`}>{text(index)}{field.hints[index] && <span className="hint"> · {brief(field.hints[index], 80)}</span>}</label>
          </div>
        ))}
        {!many && !field.required && (
          <div className="check">
            <input type="radio" id={`${id}-none`} name={id} disabled={disabled} checked={value === undefined} onChange={() => onChange(undefined)} />
            <label htmlFor={`${id}-none`}>{t("form.noChoice")}</label>
          </div>
        )}
        <Gone text={error ? undefined : missing} />
        {below}
      </fieldset>
    );
  }
  return (
    <div className="field" data-at={at}>
      <label htmlFor={id}>{label}</label>
      {field.kind === "choice" ? (
        <select className="input" {...shared} value={choiceOf(field.choices, value)}
          onChange={(event) => onChange(field.choices[Number(event.target.value)])}>
          <option value={-1}>{t("form.choose")}</option>
          {field.choices.map((_, index) => <option key={index} value={index}>{text(index)}</option>)}
        </select>
      ) : field.kind === "json" ? (
        <JsonInput shared={shared} value={value} onUnreadable={setUnreadable} onChange={onChange} />
      ) : Custom && (field.kind === "text" || field.kind === "long") ? (
        <Custom shared={shared} schema={field.schema} value={typeof value === "string" ? value : ""} onChange={(next) => onChange(next || undefined)} />
      ) : field.kind === "long" ? (
        <textarea className="input" {...shared} value={typeof value === "string" ? value : ""} onChange={(event) => onChange(event.target.value || undefined)} />
      ) : field.kind === "number" || field.kind === "integer" ? (
        <NumberInput shared={shared} value={value} step={field.kind === "integer" ? 1 : "any"} onUnreadable={setUnreadable} onChange={onChange} />
      ) : (
        <input className="input" {...shared} type={INPUT_TYPES[String(field.schema.format)] ?? "text"}
          {...(field.schema.format === "password" ? { autoComplete: "new-password" } : {})} value={typeof value === "string" ? (isTime ? localTime(value) : value) : ""}
          onChange={(event) => onChange((isTime ? instant(event.target.value) : event.target.value) || undefined)} />
      )}
      {(field.kind === "number" || field.kind === "integer") && <TimeSpan value={value} unit={unitOf(field.name)} />}
      <Gone text={error ? undefined : missing} />
      {below}
    </div>
  );
}

/** An error of the server at a choice that refers to nothing: why that is, rather than that it is not known. */
export const reasoned = (error: FieldError | undefined, missing: string | undefined): FieldError | undefined =>
  error?.rule === "server" && missing ? { ...error, message: missing } : error;

/** Why what is chosen is not there. */
export function Gone({ text }: { text: string | undefined }) {
  return text ? <p className="problem warning"><Icon name="waiting" /><span className="text">{text}</span></p> : null;
}

/** An instant in the time zone of the browser, as its control shows it. */
function localTime(text: string): string {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? "" : new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

const instant = (local: string) => (local ? new Date(local).toISOString() : "");

interface TypedProps {
  shared: object;
  value: Json | undefined;
  /** Whether the text that is typed is not a value. */
  onUnreadable: (unreadable: boolean) => void;
  onChange: (value: Json | undefined) => void;
}

/** Whether the value is text that `KeepsText` kept. */
function isKeptText(field: Field, value: Json | undefined): boolean {
  if (typeof value !== "string") return false;
  return field.kind === "number" || field.kind === "integer" || (field.kind === "json" && !isJson(value) && check(field.schema, value).size > 0);
}

const NUMBER = /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/;

/** Keeps what is typed, so that an unfinished number is not lost. */
function NumberInput({ shared, value, step, onUnreadable, onChange }: TypedProps & { step: number | "any" }) {
  const [text, setText] = useState(value === undefined || value === null ? "" : String(value));
  // A number input does not give the text of what is no number.
  if (useContext(KeepsText)) {
    return (
      <input className="input num" {...shared} type="text" inputMode="decimal" value={text}
        onChange={(event) => {
          const next = event.target.value.trim();
          setText(event.target.value);
          onChange(next === "" ? undefined : NUMBER.test(next) ? numberOf(next) : next);
        }} />
    );
  }
  return (
    <input className="input num" {...shared} type="number" step={step} value={text} onInput={(event) => onUnreadable(event.currentTarget.validity.badInput)}
      onChange={(event) => {
        setText(event.target.value);
        onChange(event.target.value === "" ? undefined : numberOf(event.target.value));
      }} />
  );
}

function JsonInput({ shared, value, onUnreadable, onChange }: TypedProps) {
  const { t } = useLanguage();
  const keeps = useContext(KeepsText);
  const [text, setText] = useState(value === undefined ? "" : keeps && typeof value === "string" && !isJson(value) ? value : JSON.stringify(value, null, 2));
  const change = (next: string) => {
    setText(next);
    const isRead = !next.trim() || isJson(next);
    onUnreadable(!isRead);
    if (isRead || keeps) onChange(!next.trim() ? undefined : isRead ? (readJson(next) as Json) : next);
  };
  return <textarea className="input mono" {...shared} spellCheck={false} placeholder={t("form.jsonHint")} value={text} onChange={(event) => change(event.target.value)} />;
}
