import { useEffect, useMemo, useState } from "react";
import { orNone } from "../api/client";
import { Records } from "../api/records";
import type { SkillContent, SkillRecord, Skills } from "../api/skills";
import type { Json, JsonObject, Tool } from "../api/types";
import { useHost, useLoaded } from "../elements/context";
import { patchOf } from "../forms/schema";
import { useLanguage } from "../i18n/context";
import { toolName } from "../i18n/names";
import { Icon } from "../kit/icons";
import { isEqual } from "../kit/json";
import { Failure, Loading } from "../kit/kit";
import { brief } from "../kit/safe";
import type { Context, FormOf } from "../pages/admin/collection";
import { RecordForm } from "../pages/admin/RecordForm";
import { casesOf, casesSchema } from "./cases";

const CONTENT = ["instructions", "expectedOutput", "model", "evaluations"] as const;
const INTERFACES = ["chatapp", "mcp"] as const;

/** What the form shows of a skill. */
export function valueOf(skill: SkillRecord): JsonObject {
  const content = (skill.variation ?? {}) as SkillContent;
  const value: JsonObject = { name: skill.name };
  if (skill.description) value.description = skill.description;
  for (const name of CONTENT) if (content[name]?.length) value[name] = content[name] as unknown as Json;
  const tools = Object.entries(content.toolset ?? {}).filter(([, setting]) => setting.enabled);
  if (tools.length) value.tools = tools.map(([tool, setting]) => ({ tool, ...(setting.requiresApproval ? { requiresApproval: true } : {}) }));
  if (content.supervisionSubordinateIds?.length) value.subordinates = content.supervisionSubordinateIds;
  if (content.interfaces?.length) value.interfaces = content.interfaces.map((one) => one.kind);
  return value;
}

/** The body of the change from what was shown to `value`; settings that the form does not show are kept. */
export function bodyOf(skill: SkillRecord, value: JsonObject): JsonObject {
  const content = (skill.variation ?? {}) as SkillContent;
  const { tools, subordinates, interfaces, ...plain } = patchOf(valueOf(skill), value.evaluations ? { ...value, evaluations: casesOf(value.evaluations) } : value);
  const body: JsonObject = { ...plain };
  if (tools !== undefined) {
    const disabled = Object.entries(content.toolset ?? {}).filter(([, setting]) => !setting.enabled);
    const enabled = ((tools ?? []) as { tool: string; requiresApproval?: boolean }[])
      .map(({ tool, requiresApproval }) => [tool, { ...content.toolset?.[tool], enabled: true, requiresApproval: requiresApproval === true }] as const);
    body.toolset = Object.fromEntries([...disabled, ...enabled]) as unknown as Json;
  }
  if (subordinates !== undefined) body.supervisionSubordinateIds = subordinates ?? [];
  if (interfaces !== undefined) {
    body.interfaces = ((interfaces ?? []) as string[]).map((kind) => {
      const { url: _, ...kept } = content.interfaces?.find((one) => one.kind === kind) ?? { kind };
      return kept;
    }) as unknown as Json;
  }
  return body;
}

/** The draft of the skill as a form, which stays with the version that it began with when a newer one is read. */
export function Settings({ skill, skills, etag, mayEdit, hidden, onEdited, onSaved }: {
  skill: SkillRecord; skills: Skills; etag: string | null; mayEdit: boolean;
  /** Another view is shown; what is typed stays here. */
  hidden: boolean;
  /** Whether something is typed that is not saved. */
  onEdited: (isEdited: boolean) => void; onSaved: () => void;
}) {
  const language = useLanguage();
  const { t } = language;
  const { api, client } = useHost();
  /** `tags` are those of this form: each other one is of somebody else. */
  const [base, setBase] = useState({ skill, etag, edition: 0, tags: [etag] });
  const [isSaving, setSaving] = useState(false); // a change can be read before its response is there
  const isOutdated = !isSaving && !base.tags.includes(etag);
  const begin = (value: SkillRecord, tag: string | null, step = 0) =>
    setBase((before) => ({ skill: value, etag: tag, edition: before.edition + step, tags: [...before.tags, tag] }));
  const restart = (value: SkillRecord, tag: string | null) => {
    onEdited(false);
    begin(value, tag, 1);
  };
  useEffect(() => {
    if (isOutdated && isEqual(valueOf(skill), valueOf(base.skill))) begin(skill, etag); // as after a deploy
  }, [isOutdated, etag]);
  const loaded = useLoaded("choices", async () => {
    const records = new Records(client);
    const [me, models, others, tools] = await Promise.all([
      api.me(), orNone(skills.models()), orNone(skills.all()), orNone(records.tools().then((found) => found.tools)),
    ]);
    const choices = { models: models.map((name) => ({ name })), skills: others as unknown as JsonObject[], tools: tools as unknown as JsonObject[] };
    return { ...language, me, records, choices } as Context;
  });
  const form = useMemo(() => formOf(skill.id), [skill.id]);
  if (loaded.problem && !loaded.value) return <Failure problem={loaded.problem} onRetry={loaded.reload} />;
  if (!loaded.value) return <Loading rows={8} />;
  const links = (skill.variation?.interfaces ?? []).flatMap((one) => (one.url && one.kind === "chatapp" ? [one.url] : []));
  return (
    <div className="scroll pad skillform" hidden={hidden}>
      {isOutdated && <div className="notice wait" role="status"><Icon name="waiting" />{t("admin.stale")}</div>}
      {links.map((url) => <p key={url}><a href={new URL(url, new URL(`${client.baseUrl}/`, location.href)).href} target="_blank" rel="noopener">{t("skill.chatPage")}</a></p>)}
      <fieldset disabled={!mayEdit}>
        <RecordForm key={base.edition} form={form} before={base.skill} context={{ ...loaded.value, ...language }} autoFocus={false}
          save={async (value) => {
            setSaving(true);
            try {
              const saved = await skills.change(skill.id, bodyOf(base.skill, value), base.etag);
              begin(saved.value, saved.etag);
            } finally {
              setSaving(false);
            }
            onEdited(false);
            onSaved();
          }}
          onEdit={() => onEdited(true)}
          onCancel={() => (isOutdated ? restart(skill, etag) : restart(base.skill, base.etag))}
          onKeep={async () => begin(base.skill, (await skills.read(skill.id)).etag)}
          onDiscard={() => void skills.read(skill.id).then((now) => restart(now.value, now.etag), () => undefined)} />
      </fieldset>
    </div>
  );
}

function formOf(id: number): FormOf<SkillRecord> {
  const schema = (_: JsonObject, { t, has, choices }: Context, before: SkillRecord | null): JsonObject => {
    const model = before?.variation?.model;
    const models = [...new Set([...(choices.models ?? []).map((one) => String(one.name)), ...(model ? [model] : [])])];
    const tools = choices.tools as unknown as Tool[];
    const others = (choices.skills as unknown as SkillRecord[]).filter((one) => one.id !== id && one.canUse);
    const option = (value: string, title: string) => ({ const: value, title: brief(title, 100) });
    const properties: JsonObject = {
      name: { type: "string", title: t("skill.name"), minLength: 1 },
      description: { type: "string", title: t("skill.description"), format: "textarea" },
      instructions: { type: "array", title: t("skill.instructions"), items: { type: "string", format: "textarea" } },
      expectedOutput: { type: "string", title: t("skill.expectedOutput"), format: "textarea" },
    };
    if (models.length) properties.model = { title: t("skill.model"), enum: models };
    if (tools.length) {
      const tool = { title: t("skill.tool"), oneOf: tools.map((one) => option(one.id, toolName({ t, has }, one))) };
      const approval = { type: "boolean", title: t("skill.approval") };
      properties.tools = { type: "array", title: t("skill.tools"), items: { type: "object", title: t("skill.tool"), required: ["tool"], properties: { tool, requiresApproval: approval } } };
    }
    if (others.length) properties.subordinates = { type: "array", title: t("skill.subordinates"), items: { oneOf: others.map((one) => ({ ...option(String(one.id), one.name), ...(one.description ? { description: one.description } : {}) })) } };
    properties.interfaces = { type: "array", title: t("skill.interfaces"), items: { oneOf: INTERFACES.map((kind) => option(kind, t(`skill.interface.${kind}`))) } };
    properties.evaluations = casesSchema(t, tools);
    return { type: "object", required: ["name"], properties };
  };
  return {
    schema,
    value: valueOf,
    pointer: (pointer) => pointer
      .replace(/^\/toolset\/.*/, "/tools").replace(/^\/supervisionSubordinateIds.*/, "/subordinates").replace(/^\/(interfaces)\/.*/, "/$1"),
  };
}
