/** `JSON.parse` with source texts and `JSON.rawJSON`, which the types of the compiler do not have yet. */
const exact = JSON as unknown as {
  parse: (text: string, revive: (key: string, value: unknown, context: { source?: string }) => unknown) => unknown;
  rawJSON?: (text: string) => unknown;
};

/**
 * A number of JSON whose text JavaScript would change: an integer beyond 2^53, or one with a fraction or an exponent,
 * such as `1.0`, which expressions tell from `1`. It is written as it was read.
 */
export class Exact {
  constructor(readonly source: string) {}
  valueOf(): number {
    return Number(this.source);
  }
  toString(): string {
    return this.source;
  }
  toJSON(): unknown {
    return exact.rawJSON!(this.source);
  }
}

export type Json = null | boolean | number | Exact | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/** Whether a text can have such a number: most have none, and are read at once. */
const SUSPECT = /(?:^|[:,[])\s*-?(?:\d{16}|\d+\.0+(?!\d)|\d+(?:\.\d+)?[eE])/;

const isChanged = (value: number, source: string) => !Number.isFinite(value) || (Number.isInteger(value) && (/[.eE]/.test(source) || !Number.isSafeInteger(value)));

/** The value of a JSON text, with an `Exact` for each number that would change. Raises SyntaxError. */
export function readJson(text: string): unknown {
  // A browser without `JSON.rawJSON` (before 2025) rounds.
  if (!exact.rawJSON || !SUSPECT.test(text)) return JSON.parse(text);
  return exact.parse(text, (_, value, { source }) => (typeof value === "number" && source !== undefined && isChanged(value, source) ? new Exact(source) : value));
}

/** The keys of the API below which values and schemas of users stand, and texts of errors about these. */
const OF_USERS = new Set([
  "args", "arguments", "config", "data", "dataSchema", "details", "evaluations", "formSchema", "guardrails", "info", "input", "inputSchema", "metadata", "optionsSchema",
  "output", "outputSchema", "parameters", "params", "result", "schema", "value", "wouldSend",
]);

/** The value of a JSON text of the API: values of users are as by `readJson`, and numbers of all other fields are plain. */
export const readDocument = (text: string): unknown => (SUSPECT.test(text) ? rounded(readJson(text), OF_USERS) : JSON.parse(text));

/** Whether the text is JSON. */
export function isJson(text: string): boolean {
  try {
    readJson(text);
    return true;
  } catch {
    return false;
  }
}

/** The number that a text of an input stands for. */
export function numberOf(text: string): number | Exact {
  try {
    return readJson(text) as number | Exact;
  } catch {
    return Number(text); // such as `.5`, which is no JSON
  }
}

/** A number of a value, as a plain one; null for anything else. */
export const asNumber = (value: unknown): number | null => (value instanceof Exact ? value.valueOf() : typeof value === "number" ? value : null);

/** The value with plain numbers, but below the keys `except`: for what only compares and counts. */
export function rounded(value: unknown, except?: Set<string>): unknown {
  if (value instanceof Exact) return value.valueOf();
  if (Array.isArray(value)) return value.map((one) => rounded(one, except));
  return isObject(value) ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, except?.has(name) ? one : rounded(one, except)])) : value;
}

/** A text that is the same for equal values: `1.0` is `1`, and all digits of large integers count. */
const textOf = (value: unknown) =>
  JSON.stringify(value, function (this: Record<string, unknown>, name, one: unknown) {
    const held = this[name];
    return held instanceof Exact && Number.isSafeInteger(held.valueOf()) ? held.valueOf() : one;
  });

/** Whether the values are equal for a JSON Schema. */
export const isEqual = (a: unknown, b: unknown): boolean => textOf(a) === textOf(b);

/** Whether the value is an object of JSON. */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Exact);
