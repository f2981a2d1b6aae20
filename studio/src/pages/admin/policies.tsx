import type { Policy } from "../../api/records";
import type { JsonObject } from "../../api/types";
import { JsonBlock } from "../../kit/JsonView";
import { brief } from "../../kit/safe";
import { type Collection, type Context, isAdmin, text } from "./collection";

const WHENS = ["tool", "agent", "external"];
const REQUIRES = ["approval", "timeout", "retry", "notTogether"];

const whenOf = (one: Policy) => WHENS.find((name) => name in one.when) ?? "tool";
const requireOf = (one: Policy) => REQUIRES.find((name) => name in one.require) ?? "approval";

/** The policy in words, such as: tool `send_*` · needs an approval. */
function sentence(one: Policy, { t }: Context): string {
  const when = whenOf(one);
  const named = when === "tool" ? `${t("policies.when.tool")} ${String(one.when.tool)}` : t(`policies.when.${when}`);
  return brief(`${named} · ${t(`policies.require.${requireOf(one)}`)}`, 200);
}

/** A policy as the flat value of its form. */
function flat(one: Policy): JsonObject {
  const approval = (one.require.approval ?? {}) as JsonObject;
  const value: JsonObject = { name: one.name, severity: one.severity, when: whenOf(one), require: requireOf(one) };
  if ("tool" in one.when) value.tool = one.when.tool!;
  if (approval.groups) value.groups = approval.groups;
  if (approval.requiredApprovals) value.requiredApprovals = approval.requiredApprovals;
  if (one.require.notTogether) value.notTogether = one.require.notTogether;
  return value;
}

export function policyBody(value: JsonObject): JsonObject {
  const when = text(value.when) || "tool";
  const require = text(value.require) || "approval";
  const approval: JsonObject = {};
  if (Array.isArray(value.groups) && value.groups.length) approval.groups = value.groups;
  if (value.requiredApprovals !== undefined) approval.requiredApprovals = value.requiredApprovals;
  return {
    name: value.name ?? "", severity: value.severity ?? "error",
    when: { [when]: when === "tool" ? (value.tool ?? "") : true },
    require: { [require]: require === "approval" ? approval : require === "notTogether" ? (value.notTogether ?? []) : true },
  };
}

export const policies: Collection<Policy> = {
  list: "policies", kinds: ["policy"], icon: "policy",
  id: (one) => one.id,
  name: (one) => one.name,
  columns: [
    { text: "policies.severity", width: "100px", show: (one, { t }) => <span className={`status ${one.severity === "error" ? "bad" : "wait"}`}>{t(`policies.severity.${one.severity}`)}</span> },
    { text: "admin.name", width: "minmax(120px, 1.2fr)", show: (one) => <b className="title">{brief(one.name, 120)}</b> },
    { text: "policies.rule", width: "minmax(140px, 2fr)", wide: true, show: (one, context) => sentence(one, context) },
  ],
  prepare: async (records, me): Promise<Record<string, JsonObject[]>> => (me.scopes.includes("members:read") ? { groups: await records.all<JsonObject>("groups") } : {}),
  mayChange: (me) => isAdmin(me) && me.scopes.includes("policies:write"),
  form: {
    schema: (value, { t, choices }) => {
      const options = (names: string[], prefix: string) => names.map((name) => ({ const: name, title: t(`${prefix}.${name}`) }));
      const known = choices.groups ?? [];
      const groups: JsonObject = known.length
        ? { type: "array", items: { oneOf: known.map((one) => ({ const: one.id!, title: one.name! })) } } : { type: "array", items: { type: "string" } };
      const require = text(value.require) || "approval";
      return {
        type: "object", required: ["name", "severity", "when", "require", ...((text(value.when) || "tool") === "tool" ? ["tool"] : []), ...(require === "notTogether" ? ["notTogether"] : [])],
        properties: {
          name: { type: "string", title: t("admin.name"), minLength: 1 },
          severity: { title: t("policies.severity"), oneOf: options(["error", "warning"], "policies.severity"), default: "error" },
          when: { title: t("policies.when"), oneOf: options(WHENS, "policies.when"), default: "tool" },
          ...((text(value.when) || "tool") === "tool" ? { tool: { type: "string", title: t("policies.tool"), description: t("policies.toolHint"), minLength: 1 } } : {}),
          require: { title: t("policies.require"), oneOf: options(REQUIRES, "policies.require"), default: "approval" },
          ...(require === "approval" ? {
            groups: { ...groups, title: t("policies.groups"), description: t("policies.groupsHint") },
            requiredApprovals: { type: "integer", title: t("policies.count"), minimum: 1 },
          } : {}),
          ...(require === "notTogether" ? { notTogether: { type: "array", title: t("policies.notTogether"), description: t("policies.notTogetherHint"), items: { type: "string" } } } : {}),
        },
      };
    },
    value: flat,
    body: policyBody,
    pointer: (pointer) => {
      const found: [RegExp, string][] = [
        [/^\/when\/tool/, "/tool"], [/^\/when/, "/when"], [/^\/require\/approval\/groups/, "/groups"], [/^\/require\/approval\/requiredApprovals/, "/requiredApprovals"],
        [/^\/require\/notTogether/, "/notTogether"], [/^\/require/, "/require"],
      ];
      return found.find(([pattern]) => pattern.test(pointer))?.[1] ?? pointer;
    },
  },
  details: (one, context) => [
    ["policies.severity", context.t(`policies.severity.${one.severity}`)],
    ["policies.rule", sentence(one, context)],
    ["policies.exact", <JsonBlock key="e" value={{ when: one.when, require: one.require }} label={context.t("policies.exact")} />],
  ],
};
