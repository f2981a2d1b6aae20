import { Validator } from "@cfworker/json-schema";
import type { Json, JsonObject } from "../api/types";

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
  | { kind: "choice"; choices: Json[]; labels: string[] }
  | { kind: "several"; choices: Json[]; labels: string[] }
  | { kind: "list"; item: Field }
  | { kind: "group"; fields: Field[]; hidden: number }
);

export const MOST_FIELDS = 200;
const DEEPEST = 6;
const TEXT_LIMIT = 160;

const isObject = (value: unknown): value is JsonObject => typeof value === "object" && value !== null && !Array.isArray(value);
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
const nameOf = (value: Json) => (typeof value === "string" ? value : JSON.stringify(value));

/** The fields of a schema. What has no field of its own is shown as JSON: nothing of the schema is lost. */
export function fieldOf(schema: JsonObject): Field {
  let left = MOST_FIELDS;
  const make = (given: unknown, pointer: string, name: string, required: boolean, depth: number): Field => {
    left--;
    const found = resolve(given, schema);
    const one = found ?? {};
    const shared = { pointer, name, required, schema: one, title: asText(one.title) || name, description: asText(one.description) };
    const types = Array.isArray(one.type) ? one.type.filter((type) => type !== "null") : [one.type];
    const type = types.length === 1 ? types[0] : undefined;
    if (!found || depth > DEEPEST || one.anyOf || one.allOf || one.not || one.if) return { ...shared, kind: "json" };
    const choices = choicesOf(one);
    if (choices) return { ...shared, kind: "choice", ...choices };
    if (type === "object" || (type === undefined && isObject(one.properties))) {
      const properties = isObject(one.properties) ? Object.entries(one.properties) : [];
      if (!properties.length) return { ...shared, kind: depth ? "json" : "group", fields: [], hidden: 0 } as Field;
      const needed = Array.isArray(one.required) ? one.required : [];
      const fields: Field[] = [];
      for (const [key, value] of properties) {
        if (left <= 0) break;
        fields.push(make(value, `${pointer}/${escape(key)}`, key, needed.includes(key), depth + 1));
      }
      return { ...shared, kind: "group", fields, hidden: properties.length - fields.length };
    }
    if (type === "array") {
      const item = resolve(one.items, schema);
      const several = item && choicesOf(item);
      if (several) return { ...shared, kind: "several", ...several };
      if (!item || left <= 0) return { ...shared, kind: "json" };
      return { ...shared, kind: "list", item: make(one.items, `${pointer}/*`, "", true, depth + 1) };
    }
    if (type === "string") {
      const long = one.format === "textarea" || (typeof one.maxLength === "number" && one.maxLength > TEXT_LIMIT);
      return { ...shared, kind: long ? "long" : "text" };
    }
    // Nobody's choice is submitted: a boolean that is required and has no default begins without one.
    if (type === "boolean" && required && one.default === undefined && one.const === undefined) {
      return { ...shared, kind: "choice", choices: [true, false], labels: ["true", "false"] };
    }
    if (type === "number" || type === "integer" || type === "boolean") return { ...shared, kind: type };
    return { ...shared, kind: "json" };
  };
  return make(schema, "", "", true, 0);
}

function choicesOf(schema: JsonObject): { choices: Json[]; labels: string[] } | null {
  if (Array.isArray(schema.enum) && schema.enum.length) {
    return { choices: schema.enum, labels: schema.enum.map(nameOf) };
  }
  if (Array.isArray(schema.oneOf) && schema.oneOf.length && schema.oneOf.every((one) => isObject(one) && "const" in one)) {
    const options = schema.oneOf as JsonObject[];
    return { choices: options.map((one) => one.const!), labels: options.map((one) => asText(one.title) || nameOf(one.const!)) };
  }
  return null;
}

/** The value that a form starts with: the defaults of the schema. */
export function initial(field: Field): Json | undefined {
  if (field.schema.default !== undefined) return structuredClone(field.schema.default);
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
}

const LIMITS: Record<string, string> = {
  minimum: "min", exclusiveMinimum: "min", maximum: "max", exclusiveMaximum: "max", minLength: "minLength", maxLength: "maxLength",
};

/** The errors of a value, by the JSON Pointer of the field. The server decides; this only shows them earlier. */
export function check(schema: JsonObject, value: Json | undefined): Map<string, FieldError> {
  const errors = new Map<string, FieldError>();
  let result;
  try {
    result = new Validator(schema as never, "2020-12", false).validate(value ?? {});
  } catch {
    return errors; // a schema that this validator cannot read: the server checks the value
  }
  for (const error of result.errors) {
    const at = error.instanceLocation.replace(/^#/, "");
    if (error.keyword === "required") {
      const name = /"([^"]*)"/.exec(error.error)?.[1];
      if (name !== undefined) errors.set(`${at}/${escape(name)}`, { rule: "required", message: error.error });
    } else if (!["properties", "items", "$ref", "allOf", "anyOf", "oneOf", "additionalProperties", "prefixItems", "false"].includes(error.keyword)) {
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
  return typeof found === "number" || typeof found === "string" ? found : undefined;
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
