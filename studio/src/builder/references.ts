import { useMemo } from "react";
import { ApiError } from "../api/client";
import type { Editing, Listed } from "../api/editing";
import { type Member, MOST_PEOPLE } from "../api/people";
import type { GraphNode, Json, JsonObject } from "../api/types";
import { readingOf, useLoaded } from "../elements/context";
import { useLanguage } from "../i18n/context";
import type { Translate } from "../i18n/texts";
import { isEqual, isObject } from "../kit/json";
import type { Reading } from "../kit/kit";
import type { Find, Option } from "../kit/Picker";

/** The fields of a node that refer to something of the organization: where they are in its data, and to what list. */
const REFERENCES: Record<string, Listed> = {
  "agent /agent_id": "skills",
  "humanApproval /approvers/emails": "members", "humanApproval /approvers/groups": "groups",
  "humanApproval /escalateTo/emails": "members", "humanApproval /escalateTo/groups": "groups",
  "core.workflow /params/workflowId": "workflows", "core.http /params/connection": "connections",
};

/** The schema of a field that refers to something, by its JSON Pointer in the data of the node. */
export type References = Map<string, JsonObject>;

interface Row {
  id?: Json;
  userId?: string;
  name: string | null;
  email?: string | null;
  description?: string | null;
  status?: string;
  provider?: string;
  canUse?: boolean;
}

const listsOf = (node: GraphNode): [pointer: string, list: Listed][] =>
  Object.entries(REFERENCES).flatMap(([place, list]) => {
    const [of, pointer] = place.split(" ") as [string, string];
    return of === (node.type === "action" ? node.data?.toolId : node.type) ? [[pointer, list]] : [];
  });

/** What the field holds: values that refer, and no expressions. */
function heldAt(node: GraphNode, pointer: string): Json[] {
  let found: Json | undefined = node.data ?? undefined;
  for (const part of pointer.split("/").slice(1)) found = isObject(found) ? found[part] : undefined;
  const all = found === undefined ? [] : Array.isArray(found) ? found : [found];
  return all.filter((one) => typeof one !== "string" || !one.includes("{{"));
}

/** A row as an entry of `oneOf`. A person is known by the e-mail; one without an address cannot be chosen. */
function entryOf(list: Listed, row: Row, t: Translate = String): JsonObject[] {
  if (list === "members") return row.email ? [{ const: row.email, title: row.name || row.email, ...(row.name ? { description: row.email } : {}) }] : [];
  if (row.canUse === false) return [];
  const hint = row.status === "draft" ? t("pick.draft") : (row.description ?? row.provider);
  return [{ const: row.id!, title: row.name ?? String(row.id), ...(hint ? { description: hint } : {}) }];
}

/** The entry of a person by the e-mail, who need not be a member. */
async function personOf(editing: Editing, held: Json): Promise<JsonObject> {
  const found = typeof held === "string" ? await editing.people(held).catch(() => []) : [];
  const row = found.find((one) => one.email === held);
  return (row && entryOf("members", row)[0]) ?? { const: held, title: String(held) };
}

/** The entry of a value that no run could use, and why. */
async function goneOf(editing: Editing, list: Listed, held: Json, t: Translate): Promise<JsonObject> {
  if (list === "members") return personOf(editing, held);
  const none = { const: held, title: String(held), deprecated: true, description: t("pick.missing") };
  if (list !== "skills" && list !== "workflows") return none;
  try {
    const found = await editing.referred(list, String(held));
    const why = found.status === "deleted" || found.status === "draft" ? t(`pick.${found.status}`) : found.canUse === false ? t("pick.noUse") : null;
    return { const: held, title: found.name, ...(why ? { deprecated: true, description: why } : {}) };
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return none;
    return { const: held, title: String(held) };
  }
}

/** What a list offers. There are more people than those that were read if it `isCut`. */
interface Entries {
  all: JsonObject[];
  isCut: boolean;
}

/** The entries of a list; null if the caller may not read it. */
async function entriesOf(editing: Editing, list: Listed, organization: string, t: Translate): Promise<Entries | null> {
  try {
    const rows = (await editing.listed(list)) as Row[];
    const all = rows.flatMap((row) => entryOf(list, row, t));
    const everyone = list === "groups" && organization ? [{ const: organization, title: t("settings.everyone") }] : [];
    return { all: [...everyone, ...all], isCut: list === "members" && rows.length >= MOST_PEOPLE };
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return null;
    throw error;
  }
}

function schemaOf(list: Listed, entries: JsonObject[], isCut: boolean, isRead: boolean): JsonObject {
  return { ...plainOf(list, entries, isCut), isRead };
}

function plainOf(list: Listed, entries: JsonObject[], isCut: boolean): JsonObject {
  const one: JsonObject = { format: "reference", oneOf: entries };
  if (list === "members") return { format: isCut ? "people" : "reference", type: "array", items: { anyOf: [one, { type: "string", format: "email" }] } };
  return list === "groups" ? { format: "reference", type: "array", items: one } : one;
}

/** People as options for a field of their e-mails. */
export const addressed = (people: Member[]): Option[] =>
  people.flatMap(({ email, name }) => (email ? [{ key: JSON.stringify(email), title: name || email, ...(name ? { hint: email } : {}) }] : []));

export const finderOf = (editing: Editing): Find => async (text) => addressed(await editing.people(text));

/** The schemas of the fields of a node that refer to something. What they hold is shown at once, by name once it is read. */
export function useReferences(node: GraphNode, organization: string, editing: Editing): { references: References; reading: Reading } {
  const { t, locale } = useLanguage();
  const places = listsOf(node);
  const lists = [...new Set(places.map(([, list]) => list))];
  const loaded = useLoaded(`references ${lists.join()} ${locale}`, async () =>
    new Map(await Promise.all(lists.map(async (list) => [list, await entriesOf(editing, list, organization, t)] as const))));
  const read = loaded.value;
  const isKnown = (list: Listed, one: Json) => read?.get(list)?.all.some((entry) => isEqual(entry.const, one) && entry.description !== t("pick.draft")) ?? false;
  const unknown = places.flatMap(([pointer, list]) => heldAt(node, pointer).filter((one) => (list !== "members" || read?.get(list)?.isCut) && !isKnown(list, one)).map((one) => [list, one] as const));
  const key = JSON.stringify(unknown);
  const { value: gone } = useLoaded(`gone ${read !== undefined} ${key} ${locale}`, async () =>
    (read ? Promise.all(unknown.map(async ([list, one]) => [list, await goneOf(editing, list, one, t)] as const)) : []));
  const references = useMemo(() => {
    const found: References = new Map();
    for (const [pointer, list] of places) {
      if (read?.get(list) === null) continue;
      const others = unknown.filter(([of]) => of === list).map(([, one]): JsonObject => gone?.find(([of, entry]) => of === list && isEqual(entry.const, one))?.[1] ?? { const: one, title: String(one) });
      const usable = (read?.get(list)?.all ?? []).filter((entry) => !others.some((one) => isEqual(one.const, entry.const)));
      found.set(pointer, schemaOf(list, [...usable, ...others], read?.get(list)?.isCut ?? false, read !== undefined));
    }
    return found;
  }, [read, gone, key, places.map(String).join()]);
  return { references, reading: readingOf(loaded) };
}
