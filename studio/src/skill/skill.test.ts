import { describe, expect, it } from "vitest";
import type { SkillRecord } from "../api/skills";
import type { Json } from "../api/types";
import { bodyOf, valueOf } from "./Settings";

const skill = (variation: SkillRecord["variation"]) => ({ name: "Clerk", description: null, variation }) as SkillRecord;
const CONTENT = {
  instructions: ["Help."], model: "", evaluations: [],
  toolset: { "a.read": { enabled: true }, "a.write": { enabled: true, requiresApproval: true }, "a.drop": { enabled: false } },
  supervisionSubordinateIds: ["3"], interfaces: [{ kind: "chatapp", config: { frameAncestors: ["https://a.test"] }, url: "/x" }],
};

describe("the settings of a skill", () => {
  it("show what it has, and nothing that nobody chose", () => {
    expect(valueOf(skill(CONTENT))).toEqual({
      name: "Clerk", instructions: ["Help."], tools: [{ tool: "a.read" }, { tool: "a.write", requiresApproval: true }], subordinates: ["3"], interfaces: ["chatapp"],
    });
    expect(valueOf(skill(null))).toEqual({ name: "Clerk" });
  });

  it("change nothing when nothing was changed", () => expect(bodyOf(skill(CONTENT), valueOf(skill(CONTENT)))).toEqual({}));

  it("keep what the form does not show", () => {
    const value = { ...valueOf(skill(CONTENT)), tools: [{ tool: "a.read", requiresApproval: true }], interfaces: ["chatapp", "mcp"], description: "x" };
    expect(bodyOf(skill(CONTENT), value)).toEqual({
      description: "x", toolset: { "a.drop": { enabled: false }, "a.read": { enabled: true, requiresApproval: true } },
      interfaces: [{ kind: "chatapp", config: { frameAncestors: ["https://a.test"] } }, { kind: "mcp" }],
    });
  });

  it("send only what belongs to the kind of a check", () => {
    const cases: Json = [{ id: "a", required: false, input: { message: "hi" }, checks: [{ kind: "matches", value: "old", pattern: "x" }, { kind: "toolCalled", tool: "t", args: {} }] }];
    expect(bodyOf(skill(CONTENT), { ...valueOf(skill(CONTENT)), evaluations: cases })).toEqual({
      evaluations: [{ id: "a", input: { message: "hi" }, checks: [{ kind: "matches", pattern: "x" }, { kind: "toolCalled", tool: "t", args: {} }] }],
    });
  });

  it("empty a list that was emptied", () => {
    expect(bodyOf(skill(CONTENT), { name: "Clerk" })).toEqual({
      instructions: null, toolset: { "a.drop": { enabled: false } }, supervisionSubordinateIds: [], interfaces: [],
    });
  });
});
