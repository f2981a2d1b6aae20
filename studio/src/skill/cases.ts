import type { Json, JsonObject } from "../api/types";
import type { Translate } from "../i18n/texts";

/** For each kind of check, the fields that it needs and those that it can have. */
const CHECKS: Record<string, [needed: string, ...more: string[]]> = {
  contains: ["value"], equals: ["value"], matches: ["pattern"], jsonSchema: ["schema"], cel: ["expression"],
  toolCalled: ["tool", "args"], notToolCalled: ["tool", "args"], judge: ["criteria", "model"],
};

const LONG = new Set(["expression", "criteria"]);

/** The schema of the evaluation cases, as the form shows them. */
export function casesSchema(t: Translate, tools: { id: string }[]): JsonObject {
  const field = (kind: string, name: string): JsonObject => {
    const title = t(`case.${kind === "equals" ? "exact" : name}`);
    if (name === "tool" && tools.length) return { title, enum: tools.map((one) => one.id) };
    if (name === "args") return { title, type: "object" };
    if (name === "schema") return { title, type: ["object", "boolean"] };
    if (kind === "equals") return { title };
    return { title, type: "string", minLength: 1, ...(LONG.has(name) ? { format: "textarea" } : {}) };
  };
  const check = {
    type: "object", title: t("case.check"), required: ["kind"],
    properties: { kind: { title: t("case.kind"), oneOf: Object.keys(CHECKS).map((kind) => ({ const: kind, title: t(`case.kind.${kind}`) })), default: "contains" } },
    allOf: Object.entries(CHECKS).map(([kind, names]) => ({
      if: { required: ["kind"], properties: { kind: { const: kind } } },
      then: { required: [names[0]], properties: Object.fromEntries(names.map((name) => [name, field(kind, name)])) },
    })),
  };
  return {
    type: "array", title: t("skill.cases"), items: {
      type: "object", title: t("case.title"), required: ["id", "input", "checks"],
      properties: {
        id: { type: "string", title: t("case.id"), minLength: 1 },
        name: { type: "string", title: t("skill.name") },
        required: { type: "boolean", title: t("case.required") },
        input: {
          type: "object", title: t("case.input"), required: ["message"],
          properties: { message: { type: "string", title: t("case.message"), format: "textarea", minLength: 1 }, userContext: { type: "object", title: t("case.userContext") } },
        },
        tools: { type: "object", title: t("case.tools"), description: t("case.toolsHint") },
        checks: { type: "array", title: t("case.checks"), minItems: 1, items: check, default: [{ kind: "contains" }] },
      },
    },
  } as Json as JsonObject;
}

/** The cases without what belongs to another kind of check, and without what is off. */
export function casesOf(value: Json): Json {
  return (value as JsonObject[]).map(({ required, ...one }) => ({
    ...one, ...(required === true ? { required } : {}),
    checks: ((one.checks ?? []) as JsonObject[]).map((check) => {
      const kept = ["kind", ...(CHECKS[String(check.kind)] ?? Object.keys(check))];
      return Object.fromEntries(Object.entries(check).filter(([name]) => kept.includes(name)));
    }),
  }));
}
