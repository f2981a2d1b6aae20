import { describe, expect, it } from "vitest";
import { renamed } from "../builder/document";
import { check, choiceOf, patchOf, withValue } from "../forms/schema";
import { asNumber, Exact, isEqual, isObject, type JsonObject, numberOf, readDocument, readJson, rounded } from "./json";

const TEXT = '{"id":9007199254740993,"low":-9223372036854775807,"rate":1.0,"much":1e+20,"plain":[7,0.5,1e-7,-3],"text":"[9007199254740993, 1.0]"}';

describe("numbers of JSON", () => {
  it("are written as they were read", () => {
    for (const text of [TEXT, "9007199254740993", "1.0", "[-0.0,1E5]", '{"a":{"b":[12345678901234567]}}']) {
      expect(JSON.stringify(readJson(text))).toBe(text);
    }
    expect(JSON.stringify(readJson(TEXT), null, 2)).toContain('"id": 9007199254740993,');
  });

  it("are plain where JavaScript has the same number", () => {
    const { plain, text, id } = readJson(TEXT) as JsonObject;
    expect(plain).toEqual([7, 0.5, 1e-7, -3]);
    expect(text).toBe("[9007199254740993, 1.0]");
    expect([`${id}`, isObject(id), asNumber(id), rounded({ id })]).toEqual(["9007199254740993", false, 9007199254740992, { id: 9007199254740992 }]);
    expect(readJson("9007199254740991")).toBe(9007199254740991);
  });

  it("refuse what is no JSON, as for other numbers", () => {
    for (const text of ["{9007199254740993: 1}", "09007199254740993", "1.0.0", "[1.0,]"]) expect(() => readJson(text)).toThrow(SyntaxError);
  });

  it("come from inputs with all of their digits", () => {
    expect(["9007199254740993", "1.0", "12", ".0", ".5", "1e3"].map((text) => JSON.stringify(numberOf(text)))).toEqual(["9007199254740993", "1.0", "12", "0", "0.5", "1e3"]);
  });

  it("stay when something beside them changes", () => {
    const value = readJson(TEXT) as JsonObject;
    expect(JSON.stringify(withValue(value, "/plain", 1))).toContain('"id":9007199254740993');
    const node = (id: string) => ({ id, type: "action", data: value });
    const structure = renamed({ nodes: [node("a"), node("b")], edges: [] }, "a", "c");
    expect(JSON.stringify(structure.nodes[0]!.data)).toBe(TEXT);
    expect(patchOf(value, readJson(TEXT) as JsonObject, true)).toEqual({});
    expect(JSON.stringify(patchOf(value, readJson(TEXT.replace("0993", "0995")) as JsonObject, true))).toBe('{"id":9007199254740995}');
  });

  it("are checked as numbers", () => {
    const schema = readJson('{"properties":{"id":{"type":"integer","maximum":9007199254740993},"rate":{"type":"number","minimum":2.0}}}') as JsonObject;
    const errors = check(schema, { id: new Exact("9007199254740993"), rate: new Exact("1.0") });
    expect([...errors]).toMatchObject([["/rate", { rule: "min", limit: "2.0" }]]);
  });

  it("are plain in the own fields of a document", () => {
    const text = '{"id":7.0,"visits":[{"visit":1.0,"output":{"usage":1.0}}],"nodes":[{"data":{"n":1.0},"position":{"x":100.0}}]}';
    const found = readDocument(text);
    expect(found).toMatchObject({ id: 7, visits: [{ visit: 1 }], nodes: [{ position: { x: 100 } }] });
    expect(JSON.stringify(found)).toBe(text.replace("7.0", "7").replace('"visit":1.0', '"visit":1').replace("100.0", "100"));
  });

  it("are equal as in a JSON Schema", () => {
    const choices = readJson("[1.0,2,2.0,9007199254740993]") as number[];
    expect([1, 2, new Exact("2.0"), new Exact("2.00"), new Exact("9007199254740992"), "1", undefined].map((one) => choiceOf(choices, one))).toEqual([0, 1, 2, 1, -1, -1, -1]);
    expect(isEqual({ a: [new Exact("1e1")] }, { a: [10] })).toBe(true);
  });
});
