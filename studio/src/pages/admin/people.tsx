import { type Member, MOST_PEOPLE } from "../../api/people";
import type { Group, Token } from "../../api/records";
import type { Caller, JsonObject } from "../../api/types";
import { useChanges, useLoaded } from "../../elements/context";
import { brief, visible } from "../../kit/safe";
import { type Collection, type Context, isAdmin, memberName } from "./collection";
import { GroupExtra } from "./GroupExtra";
import { MemberExtra } from "./MemberExtra";
import { isCut, nameOf } from "./PersonChoice";

const SCOPES = [
  "workflows:read", "workflows:write", "workflows:invoke", "skills:read", "skills:write", "memories:read", "memories:write", "conversations:read",
  "conversations:write", "connections:read", "connections:write", "context:read", "context:write", "members:read", "members:write", "tokens:write",
  "usage:read", "hooks:read", "hooks:write", "policies:read", "policies:write",
];
const DAY = 86_400;

const administers = (me: Caller) => isAdmin(me) && me.scopes.includes("members:write");
const groupName = (id: string, { choices }: Context) => brief(String(choices.groups?.find((one) => one.id === id)?.name ?? id), 80);

export const members: Collection<Member> = {
  list: "members", kinds: ["member", "group"], icon: "user",
  id: (one) => one.userId,
  name: (one) => memberName(one),
  columns: [
    { text: "admin.name", width: "minmax(120px, 1.6fr)", show: (one) => <b className="title">{brief(memberName(one), 100)}</b> },
    { text: "members.email", width: "minmax(120px, 1.6fr)", wide: true, show: (one) => brief(one.email ?? "", 100) },
    { text: "members.role", width: "100px", show: (one, { t }) => t(`members.role.${one.role}`) },
    { text: "nav.groups", width: "minmax(90px, 1.4fr)", wide: true, show: (one, context) => one.groups.map((id) => groupName(id, context)).join(", ") },
  ],
  filters: ({ choices }) => (choices.groups?.length
    ? [{ name: "groupId", text: "members.group", options: choices.groups.map((one): [string, string] => [String(one.id), String(one.name)]) }] : []),
  findsPeople: { text: "members.find" },
  prepare: async (records) => {
    const [groups, members] = await Promise.all([records.all<JsonObject>("groups"), records.people()]);
    return { groups, members };
  },
  mayChange: administers,
  form: {
    schema: (_, { t, me, choices }, before) => {
      const roles = ["member", "admin", ...(me.role === "owner" || before?.role === "owner" ? ["owner"] : [])];
      const groups = choices.groups ?? [];
      return {
        type: "object", required: before ? ["role"] : ["userId", "role"],
        properties: {
          name: { type: "string", title: t("admin.name") },
          email: { type: "string", title: t("members.email"), format: "email" },
          ...(before ? {} : { userId: { type: "string", title: t("members.userId"), description: t("members.userIdHint"), minLength: 1 } }),
          role: { title: t("members.role"), oneOf: roles.map((role) => ({ const: role, title: t(`members.role.${role}`) })), default: "member" },
          ...(groups.length ? { groups: { type: "array", title: t("nav.groups"), items: { oneOf: groups.map((one) => ({ const: one.id!, title: one.name! })) } } } : {}),
        },
      };
    },
    value: (before) => ({
      ...(before.name === null ? {} : { name: before.name }), ...(before.email === null ? {} : { email: before.email }), role: before.role, groups: before.groups,
    }),
  },
  remove: { text: "members.remove", ask: "members.removeAsk", hint: "members.removeHint" },
  Extra: MemberExtra,
  details: (one, context) => [
    ["members.userId", <span key="i" className="mono">{visible(one.userId)}</span>],
    ["members.email", visible(one.email ?? "–")],
    ["members.role", context.t(`members.role.${one.role}`)],
    ["nav.groups", one.groups.map((id) => groupName(id, context)).join(", ") || "–"],
  ],
};

/** How many members a group has: of those that were read, or of the first page of its own. */
function Size({ of: group, context }: { of: Group; context: Context }) {
  const { choices, records, number } = context;
  const cut = isCut(context);
  const { value, reload } = useLoaded(`size of ${group.id} ${cut}`, async () => (cut ? records.page<Member>("members", { groupId: group.id }, null, MOST_PEOPLE) : null));
  useChanges(["member"], reload, 400);
  if (value) return <>{number(value.rows.length)}{value.next && "+"}</>;
  return <>{!cut && choices.members && number(choices.members.filter((member) => (member.groups as string[]).includes(group.id)).length)}</>;
}

export const groups: Collection<Group> = {
  list: "groups", kinds: ["group", "member"], icon: "group",
  id: (one) => one.id,
  name: (one) => one.name,
  columns: [
    { text: "admin.name", width: "minmax(120px, 2fr)", show: (one) => <b className="title">{brief(one.name, 120)}</b> },
    { text: "groups.members", width: "minmax(90px, 1fr)", show: (one, context) => <Size of={one} context={context} /> },
  ],
  prepare: async (records) => ({ members: await records.people() }),
  mayChange: administers,
  form: {
    schema: (_, { t }) => ({ type: "object", required: ["name"], properties: { name: { type: "string", title: t("admin.name"), minLength: 1 } } }),
    value: (before) => ({ name: before.name }),
  },
  Extra: GroupExtra,
  details: (one) => [
    ["groups.id", <span key="i" className="mono">{one.id}</span>],
  ],
};

const tokenState = (one: Token, { now }: Pick<Context, "now">) =>
  one.revokedAt ? "revoked" : one.expiresAt && Date.parse(one.expiresAt) <= now() ? "expired" : "active";

export const tokens: Collection<Token> = {
  list: "tokens", icon: "key",
  id: (one) => one.id,
  name: (one) => one.name,
  columns: [
    { text: "admin.status", width: "110px", show: (one, context) => <span className={tokenState(one, context) === "active" ? "" : "muted"}>{context.t(`tokens.${tokenState(one, context)}`)}</span> },
    { text: "admin.name", width: "minmax(120px, 2fr)", show: (one) => <b className="title">{brief(one.name, 120)}</b> },
    { text: "tokens.created", width: "minmax(90px, 1fr)", wide: true, show: (one, { ago }) => ago(one.createdAt) },
    { text: "tokens.expires", width: "minmax(90px, 1fr)", wide: true, show: (one, { ago, t }) => (one.expiresAt ? ago(one.expiresAt) : t("tokens.never")) },
  ],
  personFilter: ({ choices }) => (choices.members?.length ? { name: "userId", text: "tokens.of", none: "tokens.mine" } : null),
  people: (one) => [one.userId],
  prepare: async (records, me): Promise<Record<string, JsonObject[]>> => (isAdmin(me) && me.scopes.includes("members:read") ? { members: await records.people() } : {}),
  mayChange: (me) => me.scopes.includes("tokens:write"),
  canEdit: false,
  canRemove: (one) => one.revokedAt === null,
  remove: { text: "tokens.revoke", ask: "tokens.revokeAsk", hint: "tokens.revokeHint" },
  form: {
    schema: (_, { t, me }) => ({
      type: "object", required: ["name", "expiresInSeconds", "scopes"],
      properties: {
        name: { type: "string", title: t("admin.name"), description: t("tokens.nameHint"), minLength: 1 },
        expiresInSeconds: { title: t("tokens.expires"), default: 30 * DAY, oneOf: [7, 30, 90, 365].map((days) => ({ const: days * DAY, title: t("tokens.days", { count: days }) })) },
        scopes: { type: "array", title: t("tokens.scopes"), minItems: 1, items: { oneOf: SCOPES.filter((scope) => me.scopes.includes(scope)).map((scope) => ({ const: scope, title: t(`scope.${scope}`), description: scope })) } },
      },
    }),
    value: (before) => ({ name: before.name, scopes: before.scopes }),
  },
  secret: (made) => (typeof made.token === "string" ? made.token : null),
  secretHint: "tokens.once",
  details: (one, context) => {
    const { t, has, dateTime } = context;
    return [
      ["admin.status", t(`tokens.${tokenState(one, context)}`)],
      ["tokens.user", nameOf(one.userId, context)],
      ["tokens.created", dateTime(one.createdAt)],
      ["tokens.expires", one.expiresAt ? dateTime(one.expiresAt) : t("tokens.never")],
      ["tokens.scopes", <ul key="s">{one.scopes.map((scope) => <li key={scope}>{has(`scope.${scope}`) && <>{t(`scope.${scope}`)} · </>}<span className="hint mono">{visible(scope)}</span></li>)}</ul>],
    ];
  },
};
