import type { Json, JsonObject } from "../api/types";
import { isObject, Exact } from "../kit/json";

/** What is known of a value that an expression reads: its JSON Schema, and the value that it had. */
export interface Shape {
  schema?: JsonObject | undefined;
  value?: Json | undefined;
  /** Parts that are known by name, before those of the schema and of the value. */
  parts?: Map<string, Shape>;
}

export type Mode = "expression" | "template";

export interface Option {
  /** What is shown and, with `[` and quotes where a name needs them, inserted. */
  label: string;
  insert: string;
  detail: string;
}

export interface Completions {
  /** Where the text begins that an option replaces; it ends at the caret. */
  from: number;
  options: Option[];
}

const MOST = 50;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
/** A path of names, indices and quoted keys that ends at the caret. */
const PATH = /(?:^|[^A-Za-z0-9_.\])"'])([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*|\[\d+\]|\["[^"\n]*"\]|\['[^'\n]*'\])*(?:\.|\[)?)$/;
const STEP = /\.?([A-Za-z_][A-Za-z0-9_]*)|\[(\d+)\]|\["([^"\n]*)"\]|\['([^'\n]*)'\]/g;

const FUNCTIONS = ["size", "has", "string", "int", "double", "bool", "matches", "timestamp", "duration", "type"];
const METHODS: Record<string, string[]> = {
  array: ["size()", "map(x, x)", "filter(x, x)", "exists(x, x)", "all(x, x)", "exists_one(x, x)"],
  string: ["size()", 'contains("")', 'startsWith("")', 'endsWith("")', 'matches("")'],
};


/** The type of a shape as JSON Schema names it; empty if it is not known. */
function typeOf({ value, schema, parts }: Shape): string {
  if (parts) return "object";
  if (value !== undefined) return Array.isArray(value) ? "array" : value === null ? "null" : isObject(value) ? "object" : value instanceof Exact ? "number" : typeof value;
  const type = Array.isArray(schema?.type) ? schema.type.find((one) => one !== "null") : schema?.type;
  return typeof type === "string" ? type : schema?.properties ? "object" : schema?.items ? "array" : "";
}

/** The part of a shape by its name or index; null if nothing is known of it. */
function partOf(shape: Shape, step: string | number): Shape | null {
  const { schema, value, parts } = shape;
  if (typeof step === "number") {
    const item = Array.isArray(value) ? value[step] : undefined;
    const items = isObject(schema?.items) ? schema.items : undefined;
    return item === undefined && !items ? null : { schema: items, value: item };
  }
  const named = parts?.get(step);
  if (named) return named;
  const held = isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined;
  const properties = isObject(schema?.properties) ? schema.properties : {};
  const inner = Object.hasOwn(properties, step) && isObject(properties[step]) ? properties[step] : undefined;
  return held === undefined && !inner ? null : { schema: inner, value: held };
}

/** The names of what is known within a shape. */
function namesOf({ schema, value, parts }: Shape): string[] {
  const properties = isObject(schema?.properties) ? Object.keys(schema.properties) : [];
  return [...new Set([...(parts?.keys() ?? []), ...properties, ...(isObject(value) ? Object.keys(value) : [])])];
}

function detailOf(shape: Shape): string {
  const { value } = shape;
  const type = typeOf(shape);
  if (value === undefined || Array.isArray(value) || isObject(value)) return type;
  const text = JSON.stringify(value);
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}

/** Where the expression begins that the caret is in; null outside of one. */
function startOf(text: string, caret: number, mode: Mode): number | null {
  if (mode === "expression") return 0;
  const open = text.lastIndexOf("{{", caret - 1);
  if (open < 0 || open + 2 > caret) return null;
  return text.slice(open + 2, caret).includes("}}") ? null : open + 2;
}

/** Whether the text ends within a string literal. */
function isInString(source: string): boolean {
  const rest = source.replace(/\\./g, "").replace(/"[^"\n]*"|'[^'\n]*'/g, "");
  return /["']/.test(rest);
}

const pathOf = (path: string): (string | number)[] =>
  [...path.matchAll(STEP)].map(([, name, index, double, single]) => (index === undefined ? (name ?? double ?? single ?? "") : Number(index)));

const optionOf = (name: string, shape: Shape | null, dotted: boolean): Option => {
  const insert = NAME.test(name) ? `${dotted ? "." : ""}${name}` : `[${JSON.stringify(name)}]`;
  return { label: name, insert, detail: shape ? detailOf(shape) : "" };
};

/**
 * What can stand at the caret: names of `root` and of what they have, by schema and by value, then functions.
 *
 * Without `all`, nothing is offered where nothing has been typed. Null where nothing fits.
 */
export function complete(text: string, caret: number, mode: Mode, root: Shape, all = false): Completions | null {
  const start = startOf(text, caret, mode);
  if (start === null) return null;
  const source = text.slice(start, caret);
  if (isInString(source)) return null;
  const path = PATH.exec(source)?.[1] ?? "";
  const cut = Math.max(path.lastIndexOf("."), path.endsWith("[") ? path.length - 1 : -1);
  if (cut < 0) {
    if (!path && !all && !(mode === "template" && !source.trim())) return null;
    if (!path && /[A-Za-z0-9_\])"'.]$/.test(source)) return null;
    const names = namesOf(root).map((name) => optionOf(name, partOf(root, name), false));
    const functions = FUNCTIONS.map((name): Option => ({ label: `${name}()`, insert: `${name}(`, detail: "" }));
    return fitting([...names, ...functions], path, caret - path.length);
  }
  let shape: Shape | null = root;
  for (const step of pathOf(path.slice(0, cut))) shape = shape && partOf(shape, step);
  if (!shape) return null;
  const owner = shape;
  const names = namesOf(owner).map((name) => optionOf(name, partOf(owner, name), true));
  const methods = path.endsWith("[") ? [] : (METHODS[typeOf(owner)] ?? []).map((name): Option => ({ label: name, insert: `.${name}`, detail: "" }));
  const from = caret - (path.length - cut);
  return fitting([...names.map((one) => (path.endsWith("[") ? { ...one, insert: `[${JSON.stringify(one.label)}]` } : one)), ...methods], path.slice(cut + 1), from);
}

function fitting(options: Option[], typed: string, from: number): Completions | null {
  const word = typed.toLowerCase();
  const found = options.filter((one) => one.label.toLowerCase().includes(word) && one.label !== typed);
  const first = found.filter((one) => one.label.toLowerCase().startsWith(word));
  const rest = found.filter((one) => !first.includes(one));
  return found.length ? { from, options: [...first, ...rest].slice(0, MOST) } : null;
}

/** Whether a text has something to evaluate. */
export const isEvaluated = (text: string, mode: Mode): boolean => (mode === "expression" ? text.trim() !== "" : text.includes("{{"));
