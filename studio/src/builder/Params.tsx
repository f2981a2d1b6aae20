import { useId, useMemo, useState } from "react";
import type { Json, JsonObject } from "../api/types";
import { ExpressionInput } from "../expressions/ExpressionInput";
import { Choice, isPicked, missingOf } from "../forms/Choice";
import { Gone, Message, reasoned } from "../forms/Form";
import { type FieldError, type Field, fieldOf, gravest } from "../forms/schema";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { isJson, isObject, readJson } from "../kit/json";
import { Named } from "../kit/named";
import { visible } from "../kit/safe";
import { TimeSpan, unitOf } from "../kit/TimeSpan";
import type { References } from "./references";

const escape = (name: string) => name.replace(/~/g, "~0").replace(/\//g, "~1");
const isTemplate = (text: string) => text.includes("{{");

/** The value that a text stands for: of a field for text the text itself, else JSON, else a template. */
function valueOf(text: string, field: Field): Json | undefined {
  if (text === "") return undefined;
  if (field.kind === "text" || field.kind === "long" || isTemplate(text.trim().slice(0, 2))) return text;
  return isJson(text) ? (readJson(text) as Json) : text;
}

const textOf = (value: Json | undefined, field: Field): string =>
  value === undefined ? "" : typeof value === "string" && (field.kind === "text" || field.kind === "long" || isTemplate(value) || !isJson(value)) ? value
    : JSON.stringify(value, null, 2);

interface Props {
  schema: JsonObject;
  /** What parameters refer to, by their JSON Pointer in the data of the node. */
  references: References;
  value: JsonObject;
  errors: Map<string, FieldError>;
  disabled: boolean;
  onChange: (name: string, value: Json | undefined) => void;
}

/** The parameters of a tool. Each takes a value of its type, or text with `{{ expressions }}`. */
export function Params({ schema, references, value, errors, disabled, onChange }: Props) {
  const { t } = useLanguage();
  const whole = useMemo(() => {
    const properties = Object.entries(isObject(schema.properties) ? schema.properties : {});
    const referring = properties.map(([name, one]) => {
      const reference = references.get(`/params/${name}`);
      return [name, reference ? { ...reference, title: t(`data.${name}`) } : one];
    });
    return fieldOf(properties.length ? { ...schema, properties: Object.fromEntries(referring) } : schema);
  }, [schema, references, t]);
  const fields = whole.kind === "group" ? whole.fields : [];
  const known = new Set(fields.map((field) => field.name));
  const others = Object.keys(value).filter((name) => !known.has(name));
  const ordered = [...fields.filter((field) => field.required), ...fields.filter((field) => !field.required)];
  const free = whole.kind === "group" && schema.additionalProperties !== false && !fields.length;
  return (
    <div className="form">
      {ordered.map((field) => (
        <Param key={field.name} field={field} value={value[field.name]} error={errorOf(errors, field.name)} disabled={disabled} onChange={(next) => onChange(field.name, next)} />
      ))}
      {others.map((name) => (
        <Param key={name} field={{ kind: "json", pointer: `/${escape(name)}`, name, title: name, description: "", required: false, schema: {} }} value={value[name]}
          error={errorOf(errors, name)} disabled={disabled} onChange={(next) => onChange(name, next)} />
      ))}
      {!fields.length && !free && <p className="hint">{t("builder.noParams")}</p>}
      {free && <NewParam taken={Object.keys(value)} disabled={disabled} onAdd={(name) => onChange(name, "")} />}
      {(fields.length > 0 || others.length > 0) && <p className="hint">{t("builder.paramsHint")}</p>}
    </div>
  );
}

/** What is found at the parameter or within it. */
function errorOf(errors: Map<string, FieldError>, name: string): FieldError | undefined {
  const at = `/params/${escape(name)}`;
  return gravest([...errors].filter(([pointer]) => `${pointer}/`.startsWith(`${at}/`)).map(([, error]) => error));
}

function Param({ field, value, error: given, disabled, onChange }: {
  field: Field; value: Json | undefined; error: FieldError | undefined; disabled: boolean; onChange: (value: Json | undefined) => void;
}) {
  const { t } = useLanguage();
  const id = useId();
  const [text, setText] = useState(() => textOf(value, field));
  const choices = field.kind === "choice" ? field.choices : field.kind === "boolean" ? [true, false] : null;
  const isChoice = choices !== null && (value === undefined || choices.some((one) => JSON.stringify(one) === JSON.stringify(value)));
  const picked = field.kind === "choice" && isPicked(field, undefined) ? field : null;
  const [asText, setAsText] = useState(picked ? typeof value === "string" && isTemplate(value) : !isChoice);
  const missing = picked && !asText ? missingOf(picked, value, t("pick.missing")) : undefined;
  const error = reasoned(given, missing);
  const described = [field.description && `${id}-hint`, error && `${id}-problem`].filter(Boolean).join(" ") || undefined;
  const shared = { id, disabled, "aria-invalid": (error && !error.isWarning) || undefined, "aria-describedby": described, "aria-required": field.required || undefined } as const;
  const type = (next: string) => {
    setText(next);
    onChange(valueOf(next, field));
  };
  return (
    <div className="field" data-at={`/params/${escape(field.name)}`}>
      <label htmlFor={id}>{visible(field.title)}{!field.required && <span className="hint"> · {t("form.optional")}</span>}</label>
      {choices && !asText ? (
        <div className="row">
          {picked ? <div className="grow"><Choice field={picked} value={value} shared={shared} onChange={onChange} /></div> : <select className="input" {...shared} value={choices.findIndex((one) => JSON.stringify(one) === JSON.stringify(value))}
            onChange={(event) => onChange(choices[Number(event.target.value)])}>
            <option value={-1}>{t("form.choose")}</option>
            {choices.map((one, index) => <option key={index} value={index}>{visible(typeof one === "string" ? one : JSON.stringify(one))}</option>)}
          </select>}
          <button type="button" className="button plain small" disabled={disabled} onClick={() => { setAsText(true); setText(textOf(value, field)); }}>{"{{ }}"}<span className="sr">{t("builder.asExpression")}</span></button>
        </div>
      ) : (
        <ExpressionInput mode="template" className={field.kind === "text" || field.kind === "long" ? "" : "mono"} shared={shared} value={text} onChange={type}
          content={(next) => valueOf(next, field)} />
      )}
      {!choices && <TimeSpan value={value} unit={unitOf(field.name)} />}
      {choices && asText && <div><button type="button" className="button plain small" disabled={disabled} onClick={() => { setAsText(false); if (!isChoice) onChange(undefined); }}>{t("pick.choose")}</button></div>}
      <Gone text={error ? undefined : missing} />
      {field.description && <p className="hint text" id={`${id}-hint`}><Named text={visible(field.description)} /></p>}
      <Message error={error} id={`${id}-problem`} />
    </div>
  );
}

function NewParam({ taken, disabled, onAdd }: { taken: string[]; disabled: boolean; onAdd: (name: string) => void }) {
  const { t } = useLanguage();
  const id = useId();
  const [name, setName] = useState("");
  const add = () => {
    if (!name.trim() || taken.includes(name.trim())) return;
    onAdd(name.trim());
    setName("");
  };
  return (
    <div className="row">
      <label className="sr" htmlFor={id}>{t("builder.paramName")}</label>
      <input id={id} className="input" placeholder={t("builder.paramName")} disabled={disabled} value={name} onChange={(event) => setName(event.target.value)} onKeyDown={(event) => event.key === "Enter" && add()} />
      <button type="button" className="button" disabled={disabled || !name.trim()} onClick={add}><Icon name="plus" /> {t("form.add")}</button>
    </div>
  );
}
