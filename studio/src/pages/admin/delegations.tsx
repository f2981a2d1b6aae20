import { MOST_PEOPLE } from "../../api/people";
import { type Delegation, MOST_WORKFLOWS } from "../../api/records";
import type { Json, JsonObject } from "../../api/types";
import { visible } from "../../kit/safe";
import { type Collection, type Context, isAdmin } from "./collection";
import { nameOf, Person } from "./PersonChoice";

const isOver = (one: Delegation, { now }: Context) => one.until !== null && Date.parse(one.until) <= now();

const untilOf = (one: Delegation, context: Context) =>
  isOver(one, context) ? context.t("delegations.over") : one.until === null ? context.t("delegations.open") : context.dateTime(one.until);

const fromTo = (one: Delegation, context: Context) => context.t("delegations.fromTo", { from: nameOf(one.from, context), to: nameOf(one.to, context) });

/** Who decides for whom. Members see and change their own, admins all. */
export const delegations: Collection<Delegation> = {
  list: "delegations", kinds: ["delegation", "member"], icon: "inbox",
  id: (one) => one.id,
  name: fromTo,
  people: (one) => [one.from, one.to],
  columns: [
    { text: "delegations.from", width: "minmax(110px, 1.4fr)", show: (one, context) => <b className="title"><Person id={one.from} context={context} /></b> },
    { text: "delegations.to", width: "minmax(110px, 1.4fr)", show: (one, context) => <Person id={one.to} context={context} /> },
    { text: "delegations.until", width: "minmax(100px, 1fr)", wide: true, show: (one, context) => <span className={isOver(one, context) ? "muted" : ""}>{untilOf(one, context)}</span> },
    { text: "nav.workflows", width: "110px", wide: true, show: (one, { t, number }) => (one.workflowIds === null ? t("common.all") : number(one.workflowIds.length)) },
  ],
  prepare: async (records, me) => ({
    members: me.scopes.includes("members:read") ? await records.people() : [], workflows: await records.workflows(),
  }),
  mayChange: (me) => me.scopes.includes("workflows:invoke"),
  mayChangeOne: (one, me) => one.from === me.userId || isAdmin(me),
  form: {
    schema: (value, context, before) => {
      const { t, me, choices } = context;
      const people = (choices.members ?? []).map((one) => String(one.userId));
      const delegator = before?.from ?? value.from ?? me.userId;
      const isNamed = me.scopes.includes("members:read");
      const person = (title: string, users: string[], without?: Json): JsonObject =>
        people.length >= MOST_PEOPLE || (isNamed && !people.length) ? { type: "string", format: "person", title, minLength: 1, ...(without === undefined ? {} : { without }) }
          : people.length ? { title, oneOf: users.map((user) => ({ const: user, title: nameOf(user, context) })) } : { type: "string", title, description: t("members.userId"), minLength: 1 };
      const workflows = choices.workflows ?? [];
      return {
        type: "object", required: ["to"],
        properties: {
          ...(before || !isAdmin(me) ? {} : { from: { ...person(t("delegations.from"), people), default: me.userId } }),
          to: person(t("delegations.to"), people.filter((user) => user !== delegator), delegator),
          until: { type: "string", format: "date-time", title: t("delegations.until"), description: t("delegations.untilHint") },
          ...(workflows.length ? {
            workflowIds: { type: "array", title: t("delegations.workflows"), description: `${t("delegations.workflowsHint")}${workflows.length < MOST_WORKFLOWS ? "" : ` ${t("delegations.workflowsCut", { count: MOST_WORKFLOWS })}`}`, items: { oneOf: workflows.map((one) => ({ const: one.id!, title: one.name! })) } },
          } : {}),
        },
      };
    },
    value: (before) => ({
      to: before.to, ...(before.until === null ? {} : { until: before.until }), ...(before.workflowIds === null ? {} : { workflowIds: before.workflowIds }),
    }),
    body: ({ workflowIds, ...rest }) => ({ ...rest, ...((workflowIds as number[] | undefined)?.length ? { workflowIds: workflowIds! } : {}) }),
    pointer: (pointer) => pointer.replace(/^(\/workflowIds)\/.*/, "$1"),
  },
  remove: { text: "delegations.end", ask: "delegations.endAsk", hint: "delegations.endHint" },
  details: (one, context) => [
    ["delegations.from", nameOf(one.from, context)],
    ["delegations.to", nameOf(one.to, context)],
    ["delegations.until", untilOf(one, context)],
    ["delegations.workflows", one.workflowIds === null ? context.t("common.all") : (
      <ul key="w">{one.workflowIds.map((id) => <li key={id}>{visible(String(context.choices.workflows?.find((flow) => flow.id === id)?.name ?? id))}</li>)}</ul>
    )],
  ],
};
