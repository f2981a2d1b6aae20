import { describe, expect, it } from "vitest";
import type { Json } from "../api/types";
import { finished, type Question, questionsOf, schemaOf } from "./design";

const ask = (title: string, kind = "text", more: Partial<Question> = {}): Question => ({ title, kind, required: true, ...more });

describe("a form without JSON", () => {
  it("has a property for each question, named after its title", () => {
    const schema = schemaOf([ask("Amount due", "number"), ask("Why?", "long", { required: false }), ask("Account", "choice", { choices: ["main", " main", ""] })]);
    expect(schema).toEqual({
      type: "object", required: ["amount_due", "account"],
      properties: {
        amount_due: { title: "Amount due", type: "number" }, why: { title: "Why?", type: "string", maxLength: 5000 },
        account: { title: "Account", type: "string", enum: ["main"] },
      },
    });
  });

  it("leaves out what is not finished, and is no schema without questions", () => {
    expect(schemaOf([])).toBeUndefined();
    expect(schemaOf([ask("  ")])).toBeUndefined();
  });

  it("has a name of its own for each question, whatever the script of the title", () => {
    expect(finished([ask("Größe"), ask("größe"), ask("金額"), ask("1st"), ask("Größe", "text", { name: "size" })]).map((one) => one.name))
      .toEqual(["gro_e", "gro_e_2", "field", "field_1st", "size"]);
  });

  it("keeps the name of a question whose title changes", () => {
    const [amount] = questionsOf(schemaOf([ask("Amount", "number")]))!;
    expect(Object.keys(schemaOf([{ ...amount!, title: "Sum" }])!.properties as object)).toEqual(["amount"]);
  });

  it("reads again what it has written, and nothing that says more", () => {
    const questions = ["text", "long", "number", "integer", "boolean", "date", "email"].map((kind) => ask(`A ${kind}`, kind));
    const schema = schemaOf([...questions, ask("One of", "choice", { choices: ["a", "b"] })]);
    expect(schemaOf(questionsOf(schema)!)).toEqual(schema);
    expect(questionsOf(undefined)).toEqual([]);
    expect(questionsOf({ type: "object", properties: { a: { type: "number" } }, required: [] })).toBeNull();
    const others: Json[] = [
      true, "{", { type: "object" }, { type: "object", properties: {} }, { type: "object", properties: { a: { type: "string", minLength: 2 } } },
      { type: "object", properties: { a: { type: "string" } }, additionalProperties: false },
      { type: "object", properties: { a: { type: "string", enum: [1, 2] } } }, { type: "object", properties: { a: { type: "string" } }, required: ["b"] },
    ];
    for (const other of others) expect(questionsOf(other)).toBeNull();
  });
});
