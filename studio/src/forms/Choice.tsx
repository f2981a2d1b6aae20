import { createContext, useContext } from "react";
import type { Json, JsonObject } from "../api/types";
import { useLanguage } from "../i18n/context";
import type { Reading } from "../kit/kit";
import { type Find, type Option, Picker } from "../kit/Picker";
import { visible } from "../kit/safe";
import { check, choiceOf, type Field, nameOf } from "./schema";

export type Choosable = Extract<Field, { kind: "choice" | "several" }>;

/** Up to as many choices are a list, and up to as many of several are boxes to check; more are found by a search. */
export const MOST_LISTED = 12;
const MOST_CHECKED = 30;

const heldBy = (field: Choosable, value: Json | undefined): Json[] =>
  value === undefined ? [] : field.kind === "choice" ? [value] : Array.isArray(value) ? value : [];

/** Whether the field takes a search: it refers to records, there are many choices, other values are possible too, or it holds one that is no choice. */
export const isPicked = (field: Choosable, value: Json | undefined): boolean =>
  field.schema.format === "reference" || field.others !== undefined || field.choices.length > (field.kind === "choice" ? MOST_LISTED : MOST_CHECKED) || heldBy(field, value).some((one) => choiceOf(field.choices, one) < 0);

/** What is wrong with the choice that is held: what it refers to is gone. */
export function missingOf(field: Choosable, value: Json | undefined, gone: string): string | undefined {
  if (value === undefined || field.others) return undefined;
  const index = choiceOf(field.choices, value);
  return index < 0 ? gone : field.missing[index];
}

const written = (value: Json) => JSON.stringify(value);
const isMail = (schema: JsonObject | undefined) => schema?.format === "email";

/** What finds further options of a field, by the `format` of its schema. Their keys are the values, written as JSON. */
export const Finders = createContext<Record<string, Find>>({});

/** How far the choices are read of the fields whose schema says `isRead: false`. */
export const ChoicesReading = createContext<Reading | undefined>(undefined);

/** A choice, or several, by search. */
export function Choice({ field, value, shared, onChange }: {
  field: Choosable; value: Json | undefined; shared: { id: string; disabled: boolean }; onChange: (value: Json | undefined) => void;
}) {
  const { t } = useLanguage();
  const { choices, labels, hints, missing, others } = field;
  const reading = useContext(ChoicesReading);
  const find = useContext(Finders)[String(field.schema.format)];
  const optionAt = (index: number): Option => {
    const [hint, gone] = [hints[index], missing[index]];
    return { key: written(choices[index]!), title: visible(labels[index] ?? ""), ...(hint ? { hint: visible(hint) } : {}), ...(gone ? { missing: gone } : {}) };
  };
  const optionOf = (held: Json): Option => {
    const index = choiceOf(choices, held);
    if (index >= 0) return optionAt(index);
    return { key: written(held), title: visible(nameOf(held)), ...(others && typeof held === "string" ? {} : { missing: t("pick.missing") }) };
  };
  const held = heldBy(field, value);
  const byKey = new Map([...held, ...choices].map((one) => [written(one), one]));
  const other = others && ((text: string): Option | null => {
    const taken = isMail(others) ? text.toLowerCase() : text;
    return check({ type: "object", properties: { taken: others } }, { taken }).size ? null : { key: written(taken), title: visible(taken) };
  });
  const change = (keys: string[]) => {
    const next = keys.map((key) => byKey.get(key) ?? (JSON.parse(key) as Json));
    onChange(field.kind === "choice" ? next[0] : next);
  };
  return (
    <Picker shared={shared} options={choices.map((_, index) => optionAt(index)).filter((one) => !one.missing)} chosen={held.map(optionOf)} many={field.kind === "several"}
      canClear={!field.required} reading={field.schema.isRead === false ? reading : undefined} {...(other ? { other } : {})} {...(find ? { find } : {})} onChange={change} />
  );
}
