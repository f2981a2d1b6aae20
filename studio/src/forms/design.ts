import type { Json, JsonObject } from "../api/types";
import { isEqual, isObject } from "../kit/json";

/** The kinds of questions that a form is made of without JSON, and the JSON Schema of their values. */
const KINDS: Record<string, JsonObject> = {
  text: { type: "string" },
  long: { type: "string", maxLength: 5000 },
  number: { type: "number" },
  integer: { type: "integer" },
  boolean: { type: "boolean" },
  choice: { type: "string" },
  date: { type: "string", format: "date" },
  email: { type: "string", format: "email" },
};

export const KIND_NAMES = Object.keys(KINDS);

/** One question of a form. Without a `name`, it is named after its title. */
export interface Question {
  name?: string;
  title: string;
  kind: string;
  required: boolean;
  choices?: string[];
}

export const NEW = { title: "", kind: "text", required: true } satisfies Question;

/** A name for expressions, such as `amount_due` for `Amount due`, which no other question has. */
function nameFor(title: string, taken: Set<string>): string {
  const plain = title.normalize("NFKD").replace(/[\u0300-\u036f]/g, "").toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_+|_+$/g, "");
  const base = /^[a-z]/.test(plain) ? plain : `field${plain && `_${plain}`}`;
  let name = base;
  for (let next = 2; taken.has(name); next++) name = `${base}_${next}`;
  return name;
}

/** The questions that can be asked, with their names. Those without a title, and choices without text, are not finished. */
export function finished(questions: Question[]): (Question & { name: string })[] {
  const asked = questions.filter((one) => one.title.trim());
  const taken = new Set(asked.flatMap((one) => one.name ?? []));
  return asked.map((one) => {
    const name = one.name ?? nameFor(one.title, taken);
    taken.add(name);
    return { ...one, name };
  });
}

/** The JSON Schema of a form; undefined without questions. */
export function schemaOf(questions: Question[]): JsonObject | undefined {
  const asked = finished(questions);
  if (!asked.length) return undefined;
  const required = asked.filter((one) => one.required).map((one) => one.name);
  const properties = Object.fromEntries(asked.map((one): [string, JsonObject] => {
    const choices = [...new Set((one.choices ?? []).map((choice) => choice.trim()).filter(Boolean))];
    const title = one.title.trim();
    return [one.name, { ...(title === one.name ? {} : { title }), ...KINDS[one.kind], ...(one.kind === "choice" && choices.length ? { enum: choices } : {}) }];
  }));
  return { type: "object", properties, ...(required.length ? { required } : {}) };
}

/** The questions of a JSON Schema; null if it says more than questions can. */
export function questionsOf(schema: Json | undefined): Question[] | null {
  if (schema === undefined) return [];
  if (!isObject(schema) || !isObject(schema.properties)) return null;
  const required = Array.isArray(schema.required) ? schema.required : [];
  const questions: Question[] = [];
  for (const [name, one] of Object.entries(schema.properties)) {
    if (!isObject(one)) return null;
    const { title = name, enum: choices, ...rest } = one;
    const kind = choices === undefined ? Object.keys(KINDS).find((each) => isEqual(KINDS[each], rest)) : "choice";
    if (kind === undefined || typeof title !== "string") return null;
    questions.push({ name, title, kind, required: required.includes(name), ...(Array.isArray(choices) ? { choices: choices.map(String) } : {}) });
  }
  const again = schemaOf(questions);
  const sorted = (of: Json | undefined) => (isObject(of) && Array.isArray(of.required) ? { ...of, required: [...of.required].sort() } : of);
  return again !== undefined && isEqual(sorted(again), sorted(schema)) ? questions : null;
}
