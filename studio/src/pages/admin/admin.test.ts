import { describe, expect, it } from "vitest";
import type { Policy, Scheduled, UsageReport } from "../../api/records";
import { language } from "../../i18n/texts";
import auditDe from "./audit.de.json";
import auditEn from "./audit.en.json";
import de from "./de.json";
import en from "./en.json";
import { policies, policyBody } from "./policies";
import { calendarOf } from "./calendar";
import { everyDay } from "./UsagePage";

describe("texts of the administration", () => {
  it("exist in both languages, with the same values", () => {
    const values = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort();
    expect(Object.keys(de).sort()).toEqual(Object.keys(en).sort());
    expect(Object.keys(auditDe)).toEqual(Object.keys(auditEn));
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

describe("the calendar", () => {
  const planned = (id: number, ...times: string[]) => ({
    id, name: String(id), paused: null, nextRuns: times.map((at) => ({ at, local: at, note: null })),
  }) as unknown as Scheduled;
  const local = (text: string) => new Date(text).toISOString();

  it("has four weeks from Monday, and each schedule once a day", () => {
    const now = new Date("2026-11-22T12:00:00").getTime();
    const hourly = planned(1, ...["13", "14", "15"].map((hour) => local(`2026-11-22T${hour}:00:00`)), local("2026-11-23T00:00:00"));
    const daily = planned(2, local("2026-11-22T09:00:00"), local("2026-12-13T23:59:59"), local("2026-12-14T00:00:00"), local("2026-11-15T23:00:00"));
    const days = calendarOf([hourly, daily], now);
    expect(days).toHaveLength(28);
    expect(new Date(days[0]!.at).toDateString()).toBe(new Date("2026-11-16T00:00:00").toDateString());
    expect(days.map((day) => day.slots.map((slot) => [slot.of.id, slot.count])).filter((slots) => slots.length)).toEqual(
      [[[2, 1], [1, 3]], [[1, 1]], [[2, 1]]],
    );
    expect(days[27]!.slots[0]!.of).toBe(daily);
  });

  it("puts times on their own day where a day has 23 or 25 hours", () => {
    for (const first of ["2026-03-23", "2026-10-19"]) {
      const from = new Date(`${first}T12:00:00`).getTime();
      const times = Array.from({ length: 20 }, (_, index) => {
        const at = new Date(`${first}T00:30:00`);
        at.setDate(at.getDate() + index);
        return at.toISOString();
      });
      expect(calendarOf([planned(1, ...times)], from).map((day) => day.slots.length)).toEqual([...Array(20).fill(1), ...Array(8).fill(0)]);
    }
  });
});
