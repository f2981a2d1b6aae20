import { describe, expect, it } from "vitest";
import builderDe from "../builder/de.json";
import builderEn from "../builder/en.json";
import de from "./de.json";
import en from "./en.json";
import { outcomeName, toolName } from "./names";
import { language } from "./texts";

const german = language("de");

describe("names of what is built in", () => {
  it("are in the language of the page", () => {
    expect(["approved", "denied", "expired"].map((one) => outcomeName(german, one, "humanApproval"))).toEqual(["genehmigt", "abgelehnt", "abgelaufen"]);
    expect([outcomeName(german, "error", "action"), outcomeName(german, "else", "condition")]).toEqual(["Fehler", "sonst"]);
    expect([toolName(german, { id: "core.wait", name: "Wait" }), toolName(language("en"), { id: "core.wait", name: "Wait" })]).toEqual(["Warten", "Wait"]);
  });

  it("are those of their authors otherwise", () => {
    expect([outcomeName(german, "approved", "condition"), outcomeName(german, "large", "condition")]).toEqual(["approved", "large"]);
    expect([toolName(german, { id: "send_refund", name: "Send a refund" }), toolName(german, { id: "send_refund", name: "" })]).toEqual(["Send a refund", "send_refund"]);
  });

  it("can be replaced", () => {
    expect(toolName(language("de", { de: { "tool.send_refund": "Erstatten" } }), { id: "send_refund", name: "Send a refund" })).toBe("Erstatten");
  });
});

describe("texts of the builder", () => {
  it("exist in both languages, with the same values, and only there", () => {
    const values = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort();
    expect(Object.keys(builderDe)).toEqual(Object.keys(builderEn));
    expect(Object.keys(builderEn).filter((key) => key in en || key in de)).toEqual([]);
    for (const [key, text] of Object.entries(builderEn)) {
      if (!/_(one|other)$/.test(key)) expect(values((builderDe as Record<string, string>)[key]!), key).toEqual(values(text));
    }
  });
});
