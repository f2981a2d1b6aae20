import { describe, expect, it } from "vitest";
import type { JsonObject } from "../api/types";
import { check, fieldOf, fieldsFor, initial, issuesOf, MOST_FIELDS, patchOf, pointerOf, withValue } from "./schema";

const ORDER: JsonObject = {
  type: "object",
  required: ["amount", "contact"],
  properties: {
    amount: { type: "number", minimum: 1, default: 3 },
    kind: { enum: ["a", "b"] },
    tags: { type: "array", items: { enum: ["x", "y"] } },
    lines: { type: "array", items: { type: "object", properties: { sku: { type: "string" } } } },
    contact: { $ref: "#/$defs/contact" },
    anything: { anyOf: [{ type: "string" }, { type: "number" }] },
  },
  $defs: { contact: { type: "object", required: ["email"], properties: { email: { type: "string", minLength: 3 } } } },
};

const fields = (schema: JsonObject) => {
  const field = fieldOf(schema);
  return field.kind === "group" ? field.fields : [];
};

describe("fieldOf", () => {
  it("begin a required yes or no without a choice, and keep one that has a default or must be true", () => {
    const kindOf = (schema: JsonObject, required: string[]) => {
      const field = fieldOf({ type: "object", required, properties: { sure: { type: "boolean", ...schema } } });
      return field.kind === "group" ? [field.fields[0]!.kind, initial(field)] : [];
    };
    expect(kindOf({}, ["sure"])).toEqual(["choice", {}]);
    expect(kindOf({}, [])).toEqual(["boolean", {}]);
    expect(kindOf({ default: false }, ["sure"])).toEqual(["boolean", { sure: false }]);
    expect(kindOf({ const: true }, ["sure"])).toEqual(["boolean", {}]);
  });

  it("has the fields of the case that fits, and shows other conditions as JSON", () => {
    const then = (name: string) => ({ required: [name], properties: { [name]: { type: "string" } } });
    const when = (value: string) => ({ if: { properties: { kind: { const: value } } }, then: then(value) });
    const schema: JsonObject = { type: "object", properties: { kind: { enum: ["a", "b"] } }, allOf: [when("a"), when("b")] };
    const field = fieldOf(schema);
    if (field.kind !== "group") throw new Error(field.kind);
    const names = (held: JsonObject) => fieldsFor(field, held).map((one) => one.name);
    expect([names({}), names({ kind: "a" }), names({ kind: "b", a: "" })]).toEqual([["kind"], ["kind", "a"], ["kind", "b"]]);
    expect(fieldsFor(field, { kind: "b" })[1]).toMatchObject({ pointer: "/b", required: true });
    expect([...check(schema, { kind: "b" }).keys()]).toEqual(["/b"]);
    expect([...check(schema, { kind: "b", b: "x" })]).toEqual([]);
    const others: JsonObject[] = [{ required: ["a"] }, { if: { required: ["a"] }, then: then("b") }, { ...when("a"), else: then("b") }, { if: { properties: { kind: { enum: ["a"] } } }, then: then("b") }];
    for (const one of others) expect(fieldOf({ type: "object", properties: { kind: {} }, allOf: [one] }).kind).toBe("json");
  });

  it("finds an input for each kind of schema", () => {
    expect(fields(ORDER).map((field) => [field.name, field.kind])).toEqual([
      ["amount", "number"], ["kind", "choice"], ["tags", "several"], ["lines", "list"], ["contact", "group"], ["anything", "json"],
    ]);
    expect(initial(fieldOf(ORDER))).toEqual({ amount: 3, contact: {} });
  });

  it("shows circles and unknown references as JSON, and many fields in part", () => {
    const circle: JsonObject = { type: "object", properties: { self: { $ref: "#" }, gone: { $ref: "#/$defs/none" }, far: { $ref: "https://x/y" } } };
    expect(fields(circle).slice(1).map((field) => field.kind)).toEqual(["json", "json"]);
    const many = { type: "object", properties: Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`f${index}`, { type: "string" }])) };
    const field = fieldOf(many);
    expect(field.kind === "group" && field.fields.length).toBeLessThan(MOST_FIELDS);
    expect(field.kind === "group" && field.hidden).toBeGreaterThan(9_000);
  });

  it("takes names of prototypes as plain names", () => {
    const hostile = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string","default":"p"},"constructor":{"type":"string"}}}') as JsonObject;
    expect(fields(hostile).map((field) => field.name)).toEqual(["__proto__", "constructor"]);
    const value = withValue({}, "/__proto__", "x");
    expect(Object.keys(value as object)).toEqual(["__proto__"]);
    expect(({} as Record<string, unknown>).x).toBeUndefined();
  });
});

describe("check", () => {
  it("reports each error at its field", () => {
    const errors = check(ORDER, { amount: 0, contact: { email: "a" }, tags: ["z"] });
    expect(errors.get("/amount")).toMatchObject({ rule: "min", limit: 1 });
    expect(errors.get("/contact/email")).toMatchObject({ rule: "minLength", limit: 3 });
    expect(errors.get("/tags/0")?.rule).toBe("invalid");
    expect(check(ORDER, { amount: 2 }).get("/contact")?.rule).toBe("required");
    expect(check(ORDER, { amount: 2, contact: { email: "abc" } }).size).toBe(0);
  });

  it("leaves a schema that it cannot read to the server", () => {
    expect(check({ $ref: "#/nowhere" }, {}).size).toBe(0);
  });
});

describe("values", () => {
  it("are set at their place", () => {
    expect(withValue({ a: [{ b: 1 }] }, "/a/0/b", 2)).toEqual({ a: [{ b: 2 }] });
    expect(withValue({ a: 1, b: 2 }, "/a", undefined)).toEqual({ b: 2 });
    expect(withValue(undefined, "/a~1b", 1)).toEqual({ "a/b": 1 });
  });

  it("have the issues of the server at their pointer", () => {
    expect(pointerOf("data.items[2].name")).toBe("/items/2/name");
    expect(pointerOf("data")).toBe("");
    expect(pointerOf("decision")).toBeNull();
  });
});

describe("changes of a record", () => {
  it("have only what differs, and null for what is gone", () => {
    const before = { name: "a", hosts: ["x"], config: { url: "u", clientId: "c" }, same: { deep: [1] } };
    const after = { name: "b", hosts: ["x", "y"], config: { url: "v" }, same: { deep: [1] } };
    expect(patchOf(before, after)).toEqual({ name: "b", hosts: ["x", "y"], config: { url: "v" } });
    expect(patchOf(before, after, true)).toEqual({ name: "b", hosts: ["x", "y"], config: { url: "v", clientId: null } });
    expect(patchOf(before, before, true)).toEqual({});
    expect(patchOf({ a: 1 }, {})).toEqual({ a: null });
  });

  it("get the issues of the server at their fields", () => {
    const info = { errors: [{ path: "config.hosts[1]", message: "is too long" }, { path: "name", message: "is required" }] };
    expect([...issuesOf(info, "").keys()]).toEqual(["/config/hosts/1", "/name"]);
    expect(issuesOf(info).size).toBe(0);
    expect(issuesOf({}, "").size).toBe(0);
  });
});

describe("choices", () => {
  const [named, other] = [{ const: "a@x.test", title: "Ada", description: "a@x.test" }, { type: "string", format: "email" }];

  it("are those of a list, beside other texts", () => {
    const field = fieldOf({ type: "object", properties: { who: { type: "array", items: { anyOf: [{ oneOf: [named] }, other] } }, any: { anyOf: [other, { type: "number" }] } } }) as Extract<ReturnType<typeof fieldOf>, { kind: "group" }>;
    expect(field.fields.map((one) => one.kind)).toEqual(["several", "json"]);
    expect(field.fields[0]).toMatchObject({ choices: ["a@x.test"], labels: ["Ada"], hints: ["a@x.test"], others: other });
  });

  it("say why one is gone", () => {
    const gone = { const: 7, title: "Old", deprecated: true, description: "Deleted" };
    expect(fieldOf({ type: "object", properties: { one: { oneOf: [gone] } } })).toMatchObject({ fields: [{ kind: "choice", hints: [undefined], missing: ["Deleted"] }] });
  });

  it("have the title beside a reference", () => {
    const schema = { type: "object", properties: { to: { $ref: "#/$defs/People", title: "Escalate to" } }, $defs: { People: { title: "People", type: "object", properties: { a: { type: "string" } } } } };
    expect(fieldOf(schema as never)).toMatchObject({ fields: [{ kind: "group", title: "Escalate to" }] });
  });
});
