import { useMemo, useState } from "react";
import type { Json, JsonObject } from "../api/types";
import { finished, KIND_NAMES, NEW, type Question, questionsOf, schemaOf } from "../forms/design";
import { Form, KeepsText, Message, TextInputs } from "../forms/Form";
import { type Field, type FieldError, fieldOf, gravest, withValue } from "../forms/schema";
import { useLanguage } from "../i18n/context";

type Translate = (key: string) => string;

/** The schema of a list of questions, which a form shows like any other. */
function listOf(title: string, t: Translate): JsonObject {
  const titled = (name: string, schema: JsonObject): [string, JsonObject] => [name, { ...schema, title: t(`questions.${name}`) }];
  const kinds = KIND_NAMES.map((kind) => ({ const: kind, title: t(`questions.${kind}`) }));
  const choices = { if: { properties: { kind: { const: "choice" } } }, then: { required: ["choices"], properties: Object.fromEntries([titled("choices", { type: "array", items: { type: "string" } })]) } };
  const one: JsonObject = {
    type: "object", title: t("questions.one"), default: { ...NEW }, required: ["title", "kind"], allOf: [choices],
    properties: Object.fromEntries([titled("title", { type: "string" }), titled("kind", { oneOf: kinds }), titled("required", { type: "boolean" })]),
  };
  return { type: "object", properties: { questions: { type: "array", title, items: one } } };
}

interface Props {
  field: Field;
  /** How expressions read what is answered, such as `input`. */
  reads: string;
  value: Json | undefined;
  errors: Map<string, FieldError>;
  disabled: boolean;
  onChange: (value: Json | undefined) => void;
}

/** A JSON Schema of what people fill in, as a list of questions; one that says more than these is JSON. */
export function Questions({ field, reads, value, errors, disabled, onChange }: Props) {
  const { t } = useLanguage();
  const [questions, setQuestions] = useState(() => questionsOf(value));
  const [isJson, setJson] = useState(questions === null);
  const list = useMemo(() => fieldOf(listOf(t(`questions.${field.name}`), t)), [field.name, t]);
  const change = (pointer: string, next: Json | undefined) => {
    const { questions: changed = [] } = (withValue({ questions: (questions ?? []) as unknown as Json }, pointer, next) ?? {}) as unknown as { questions?: Question[] };
    setQuestions(changed);
    onChange(schemaOf(changed));
  };
  const again = isJson ? questionsOf(value) : null;
  const turn = () => {
    if (isJson) setQuestions(again);
    setJson(!isJson);
  };
  const here = [...errors].filter(([pointer]) => `${pointer}/`.startsWith(`${field.pointer}/`)).map(([, error]) => error);
  const names = finished(questions ?? []).map((one) => `${reads}.${one.name}`);
  return (
    <div className="stack" data-at={isJson ? undefined : field.pointer} tabIndex={-1}>
      {isJson ? (
        <KeepsText value={true}><Form field={{ ...field, kind: "group", pointer: "", fields: [field], hidden: 0, cases: [] }} value={{ [field.name]: value } as JsonObject} errors={errors} disabled={disabled} onChange={(_, next) => onChange(next)} /></KeepsText>
      ) : (
        <TextInputs value={{}}>
          <Form field={list} value={{ questions: (questions ?? []) as unknown as Json }} errors={new Map()} disabled={disabled} onChange={change} />
          {names.length > 0 && <p className="hint text">{t("questions.reads")} <code>{names.join(", ")}</code></p>}
          <Message error={gravest(here)} />
        </TextInputs>
      )}
      {(!isJson || again !== null) && <div><button type="button" className="button small plain" onClick={turn}>{t(isJson ? "questions.asList" : "questions.asJson")}</button></div>}
      {isJson && again === null && value !== undefined && <p className="hint">{t("questions.onlyJson")}</p>}
    </div>
  );
}
