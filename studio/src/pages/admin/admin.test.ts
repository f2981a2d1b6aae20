import { describe, expect, it } from "vitest";
import type { Policy, UsageReport } from "../../api/records";
import { language } from "../../i18n/texts";
import de from "./de.json";
import en from "./en.json";
import { policies, policyBody } from "./policies";
import { everyDay } from "./UsagePage";

describe("texts of the administration", () => {
  it("exist in both languages, with the same values", () => {
    const values = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort();
    expect(Object.keys(de).sort()).toEqual(Object.keys(en).sort());
    for (const [key, text] of Object.entries(en)) {
      if (!/_(one|other)$/.test(key)) expect(values((de as Record<string, string>)[key]!), key).toEqual(values(text));
    }
  });

  it("can be replaced", () => {
    const found = language("de", { "hooks.on": "Aktiv" }).extend({ en, de });
    expect([found.t("hooks.on"), found.t("hooks.off"), found.t("nav.hooks")]).toEqual(["Aktiv", "Aus", "Hooks"]);
  });
});

describe("policies", () => {
  const rules: Pick<Policy, "when" | "require">[] = [
    { when: { tool: "send_*" }, require: { approval: { groups: ["g"], requiredApprovals: 2 } } }, { when: { agent: true }, require: { notTogether: ["a.*", "b"] } },
    { when: { external: true }, require: { timeout: true } }, { when: { tool: "x" }, require: { retry: true } }, { when: { tool: "y" }, require: { approval: {} } },
  ];

  it("are the same after their form", () => {
    for (const [index, rule] of rules.entries()) {
      const one = { id: "1", name: `p${index}`, severity: "warning", ...rule };
      const { id: _, ...body } = one;
      expect(policyBody(policies.form!.value(one, {} as never))).toEqual(body);
    }
  });

  it("show the issues of the server at the fields of the form", () => {
    expect(["/when/tool", "/when", "/require/approval/groups/0", "/require/notTogether/1", "/name"].map(policies.form!.pointer!)).toEqual(
      ["/tool", "/when", "/groups", "/notTogether", "/name"],
    );
  });
});

describe("usage", () => {
  const report = (from: string, to: string): UsageReport => ({
    from, to, groupBy: "day", totals: { calls: 1, inputTokens: 1, outputTokens: 1, durationMs: 1, cost: 1 },
    usage: [{ key: "2026-02-28", calls: 1, inputTokens: 2, outputTokens: 3, durationMs: 4, cost: 5 }],
  });

  it("has every day, also those without calls", () => {
    const days = everyDay(report("2026-02-27T23:30:00Z", "2026-03-01T00:10:00Z"));
    expect(days.map((one) => [one.key, one.calls])).toEqual([["2026-02-27", 0], ["2026-02-28", 1], ["2026-03-01", 0]]);
    expect(everyDay(report("2020-01-01T00:00:00Z", "2026-03-01T00:10:00Z"))).toHaveLength(92);
  });
});
