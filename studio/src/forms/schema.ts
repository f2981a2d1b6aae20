import { Validator } from "@cfworker/json-schema";
import type { Json, JsonObject } from "../api/types";
import { asNumber, Exact, isEqual, isObject, rounded } from "../kit/json";

/** What a form shows of a JSON Schema. */
export type Field = {
  /** The JSON Pointer of the value. */
  pointer: string;
  name: string;
  title: string;
  description: string;
  required: boolean;
  schema: JsonObject;
} & (
  | { kind: "text" | "long" | "number" | "integer" | "boolean" | "json" }
  | ({ kind: "choice" } & Choices)
  | ({ kind: "several" } & Choices)
  | { kind: "list"; item: Field }
  | { kind: "group"; fields: Field[]; hidden: number; cases: Case[] }
);

/** What can be chosen, by index with its name, what tells it from others of this name, and why it is gone. */
interface Choices {
  choices: Json[];
  labels: string[];
  hints: (string | undefined)[];
  missing: (string | undefined)[];
  /** Of texts that can be entered too. */
  others?: JsonObject;
}

/** Further fields of a group while its field `name` has this value. */
interface Case {
  name: string;
  value: Json;
  fields: Field[];
}

/** The fields of a group for what it holds. */
export function fieldsFor(group: Extract<Field, { kind: "group" }>, held: JsonObject): Field[] {
  const fitting = group.cases.filter((one) => Object.hasOwn(held, one.name) && isEqual(held[one.name], one.value));
  return [...group.fields, ...fitting.flatMap((one) => one.fields)];
}

export const MOST_FIELDS = 200;
const DEEPEST = 6;
const TEXT_LIMIT = 160;

const asText = (value: unknown) => (typeof value === "string" ? value : "");

/** The schema behind local references; null for a reference that leads nowhere or in a circle. */
function resolve(schema: unknown, root: JsonObject): JsonObject | null {
  let current = schema;
  for (let step = 0; step < 16; step++) {
    if (!isObject(current)) return current === true ? {} : null;
    const ref = current.$ref;
    if (typeof ref !== "string") return current;
    if (!ref.startsWith("#")) return null;
    let found: unknown = root;
    for (const part of ref.slice(1).split("/").filter(Boolean)) {
      const name = decodeURIComponent(part).replace(/~1/g, "/").replace(/~0/g, "~");
      found = isObject(found) && Object.hasOwn(found, name) ? found[name] : undefined;
    }
    current = found;
  }
  return null;
}

const escape = (name: string) => name.replace(/~/g, "~0").replace(/\//g, "~1");
export const nameOf = (value: Json) => (typeof value === "string" ? value : JSON.stringify(value));

/** The fields of a schema. What has no field of its own is shown as JSON: nothing of the schema is lost. */
export function fieldOf(schema: JsonObject): Field {
  let left = MOST_FIELDS;
  const make = (given: unknown, pointer: string, name: string, required: boolean, depth: number): Field => {
    left--;
    const found = resolve(given, schema);
    const one = found ?? {};
    const own = isObject(given) ? given : one; // beside a reference
    const shared = { pointer, name, required, schema: one, title: asText(own.title) || asText(one.title) || name, description: asText(own.description) || asText(one.description) };
    const types = Array.isArray(one.type) ? one.type.filter((type) => type !== "null") : [one.type];
    const type = types.length === 1 ? types[0] : undefined;
    const conditions = Array.isArray(one.allOf) ? one.allOf.map(conditionOf) : [];
    const choices = choicesOf(one);
    if (!found || depth > DEEPEST || (one.anyOf && !choices) || one.not || one.if || (one.allOf && !conditions.every((each) => each !== null))) return { ...shared, kind: "json" };
    if (choices) return { ...shared, kind: "choice", ...choices };
    if (type === "object" || (type === undefined && isObject(one.properties))) {
      const properties = isObject(one.properties) ? Object.entries(one.properties) : [];
      if (!properties.length) return { ...shared, kind: depth ? "json" : "group", fields: [], hidden: 0, cases: [] } as Field;
      const fieldsOf = (given: [string, unknown][], required: unknown) => {
        const fields: Field[] = [];
        for (const [key, value] of given) {
          if (left <= 0) break;
          fields.push(make(value, `${pointer}/${escape(key)}`, key, Array.isArray(required) && required.includes(key), depth + 1));
        }
        return fields;
      };
      const fields = fieldsOf(properties, one.required);
      const cases = conditions.flatMap((each) => (each ? [{ name: each.name, value: each.value, fields: fieldsOf(Object.entries(each.then.properties as JsonObject), each.then.required) }] : []));
      return { ...shared, kind: "group", fields, hidden: properties.length - fields.length, cases };
    }
    if (type === "array") {
      const item = resolve(one.items, schema);
      const several = item && choicesOf(item);
      if (several) return { ...shared, kind: "several", ...several };
      if (!item || left <= 0) return { ...shared, kind: "json" };
      return { ...shared, kind: "list", item: make(one.items, `${pointer}/*`, "", true, depth + 1) };
    }
    if (type === "string") {
      const long = one.format === "textarea" || (asNumber(one.maxLength) ?? 0) > TEXT_LIMIT;
      return { ...shared, kind: long ? "long" : "text" };
    }
    // Nobody's choice is submitted: a boolean that is required and has no default begins without one.
    if (type === "boolean" && required && one.default === undefined && one.const === undefined) {
      return { ...shared, kind: "choice", choices: [true, false], labels: ["true", "false"], hints: [], missing: [] };
    }
    if (type === "number" || type === "integer" || type === "boolean") return { ...shared, kind: type };
    return { ...shared, kind: "json" };
  };
  return make(schema, "", "", true, 0);
}

/** A condition on one value of one field, and the fields that it brings; null for any other schema. */
function conditionOf(schema: Json): { name: string; value: Json; then: JsonObject } | null {
  if (!isObject(schema) || !isObject(schema.if) || !isObject(schema.if.properties) || !isObject(schema.then) || !isObject(schema.then.properties) || schema.else) return null;
  const [given, ...more] = Object.entries(schema.if.properties);
  if (!given || more.length || !isObject(given[1]) || given[1].const === undefined) return null;
  return { name: given[0], value: given[1].const, then: schema.then };
}

/**
 * The choices of a schema: of `enum`, of the `const` in each of `oneOf`, or of `anyOf` with these and a schema of other texts.
 * What is `deprecated` cannot be chosen any more, for the reason in its description.
 */
function choicesOf({ enum: values, oneOf, anyOf }: JsonObject): Choices | null {
  if (Array.isArray(anyOf)) {
    const [named, others, ...more] = anyOf;
    const isOpen = !more.length && isObject(named) && isObject(others) && others.type === "string";
    if (!isOpen) return null;
    const choices = choicesOf(named);
    return choices && { ...choices, others };
  }
  if (Array.isArray(values) && values.length) {
    return { choices: values, labels: values.map(nameOf), hints: [], missing: [] };
  }
  if (Array.isArray(oneOf) && oneOf.every((one) => isObject(one) && "const" in one)) {
    const options = oneOf as JsonObject[];
    const texts = (isGone: boolean) => options.map((one) => ((one.deprecated === true) === isGone ? asText(one.description) || undefined : undefined));
    return { choices: options.map((one) => one.const!), labels: options.map((one) => asText(one.title) || nameOf(one.const!)), hints: texts(false), missing: texts(true) };
  }
  return null;
}

/** Which of the choices the value is: one that is written alike, else an equal one, as `1` and `1.0` are; -1 for none. */
export function choiceOf(choices: Json[], value: Json | undefined): number {
  const same = choices.findIndex((one) => JSON.stringify(one) === JSON.stringify(value));
  return same >= 0 ? same : choices.findIndex((one) => isEqual(one, value));
}

/** The value that a form starts with: the defaults of the schema. */
export function initial(field: Field): Json | undefined {
  if (field.schema.default !== undefined) return field.schema.default;
  if (field.kind !== "group") return undefined;
  const found: JsonObject = {};
  for (const one of field.fields) {
    const value = initial(one);
    if (value !== undefined) found[one.name] = value;
  }
  return Object.keys(found).length || field.required ? found : undefined;
}

export interface FieldError {
  rule: string;
  limit?: number | string;
  message: string;
  /** The value is valid: this is only to be known. */
  isWarning?: boolean;
}

/** Of several findings an error, else a warning: a field shows one. */
export const gravest = (found: FieldError[]): FieldError | undefined => found.find((one) => !one.isWarning) ?? found[0];

const LIMITS: Record<string, string> = {
  minimum: "min", exclusiveMinimum: "min", maximum: "max", exclusiveMaximum: "max", minLength: "minLength", maxLength: "maxLength",
};

/** The errors of a value, by the JSON Pointer of the field. The server decides; this only shows them earlier. */
export function check(schema: JsonObject, value: Json | undefined): Map<string, FieldError> {
  const errors = new Map<string, FieldError>();
  let result;
  try {
    result = new Validator(rounded(schema) as never, "2020-12", false).validate(rounded(value ?? {}));
  } catch {
    return errors; // a schema that this validator cannot read: the server checks the value
  }
  for (const error of result.errors) {
    const at = error.instanceLocation.replace(/^#/, "");
    if (error.keyword === "required") {
      const name = /"([^"]*)"/.exec(error.error)?.[1];
      if (name !== undefined) errors.set(`${at}/${escape(name)}`, { rule: "required", message: error.error });
    } else if (!["properties", "items", "$ref", "allOf", "anyOf", "oneOf", "additionalProperties", "prefixItems", "false", "if"].includes(error.keyword)) {
      const limit = limitOf(schema, at, error.keyword);
      if (!errors.has(at)) {
        errors.set(at, { rule: LIMITS[error.keyword] ?? (error.keyword === "type" ? "type" : "invalid"), message: error.error, ...(limit === undefined ? {} : { limit }) });
      }
    }
  }
  return errors;
}

function limitOf(schema: JsonObject, pointer: string, keyword: string): number | string | undefined {
  let current: JsonObject | null = schema;
  for (const part of pointer.split("/").slice(1)) {
    const name = part.replace(/~1/g, "/").replace(/~0/g, "~");
    const properties: unknown = current?.properties;
    const next: unknown = isObject(properties) && Object.hasOwn(properties, name) ? properties[name] : current?.items;
    current = resolve(next, schema);
  }
  const found = current?.[keyword];
  return found instanceof Exact ? found.source : typeof found === "number" || typeof found === "string" ? found : undefined;
}

/** The value with `next` at this place; undefined removes it. */
export function withValue(value: Json | undefined, pointer: string, next: Json | undefined): Json | undefined {
  const parts = pointer.split("/").slice(1).map((part) => part.replace(/~1/g, "/").replace(/~0/g, "~"));
  const set = (current: Json | undefined, index: number): Json | undefined => {
    const part = parts[index];
    if (part === undefined) return next;
    if (Array.isArray(current)) {
      return current.map((one, at) => (at === Number(part) ? (set(one, index + 1) ?? null) : one));
    }
    const entries = Object.entries(isObject(current) ? current : {}).filter(([name]) => name !== part);
    const changed = set(isObject(current) && Object.hasOwn(current, part) ? current[part] : undefined, index + 1);
    return Object.fromEntries(changed === undefined ? entries : [...entries, [part, changed]]);
  };
  return set(value, 0);
}

/** The pointer of an issue path of the server, such as `data.items[2].name` below `data`; null if it is elsewhere. */
export function pointerOf(path: string, below = "data"): string | null {
  const whole = below ? path : `.${path}`;
  if (below && path === below) return "";
  if (below && !(path.startsWith(below) && /^[.[]/.test(path.slice(below.length)))) return null;
  return whole.slice(below.length).replace(/\[(\d+)\]/g, ".$1").split(".").slice(1).map((part) => `/${escape(part)}`).join("");
}

/** The issues of an error response (`info.errors`) by the pointer of their field. */
export function issuesOf(info: JsonObject, below = "data"): Map<string, FieldError> {
  const found = new Map<string, FieldError>();
  for (const issue of Array.isArray(info.errors) ? info.errors : []) {
    const { path, message } = issue as { path?: string; message?: string };
    const pointer = pointerOf(path ?? "", below);
    if (pointer !== null) found.set(pointer, { rule: "server", message: message ?? "" });
  }
  return found;
}

/**
 * What a patch has to contain to change `before` into `after`: the fields that differ, null for one that is gone. With
 * `inside`, also within objects, as a merge patch (RFC 7396); else these are replaced. Lists are always replaced.
 */
export function patchOf(before: JsonObject, after: JsonObject, inside = false): JsonObject {
  const patch: JsonObject = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [old, now] = [before[name], after[name]];
    if (now === undefined) patch[name] = null;
    else if (inside && isObject(old) && isObject(now)) {
      const inner = patchOf(old, now, true);
      if (Object.keys(inner).length) patch[name] = inner;
    } else if (JSON.stringify(old) !== JSON.stringify(now)) patch[name] = now;
  }
  return patch;
}
