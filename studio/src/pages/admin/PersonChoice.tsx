import { useEffect, useState } from "react";
import { MOST_PEOPLE } from "../../api/people";
import { MOST_LISTED } from "../../forms/Choice";
import type { JsonObject } from "../../api/types";
import type { TextInput } from "../../forms/Form";
import type { Reading } from "../../kit/kit";
import { type Find, type Option, Picker } from "../../kit/Picker";
import { brief } from "../../kit/safe";
import { type Context, memberName, optionsOf, useRecordContext } from "./collection";

/** There are more people than those that were read: others are found by a search. */
export const isCut = ({ choices }: Pick<Context, "choices">) => (choices.members ?? []).length >= MOST_PEOPLE;

/** What a choice offers of the people, except for one: those that were read, and how the others are found. */
export function peopleIn(context: Context, without?: unknown): { options: Option[]; reading: Reading | undefined; find?: Find } {
  const offered = (people: JsonObject[]) => optionsOf(people).filter((one) => one.key !== without);
  const find: Find = async (text) => offered(await context.records.people(text));
  return { options: offered(context.choices.members ?? []), reading: context.reading, ...(isCut(context) ? { find } : {}) };
}

/** The name of a person that was read, else the id. */
export function nameOf(userId: string, { choices, records }: Context): string {
  const known = choices.members?.find((one) => one.userId === userId);
  return brief(known ? memberName(known) : (records.names.known(userId) ?? userId), 80);
}

/** Reads the names of these people, unless they are known, and renders again then: `nameOf` has them. */
export function useNames(userIds: string[], context: Context) {
  const [, setRead] = useState(0);
  const { choices, records } = context;
  const wanted = isCut(context) ? userIds.filter((id) => records.names.known(id) === undefined && !choices.members!.some((one) => one.userId === id)) : [];
  const key = JSON.stringify(wanted);
  useEffect(() => {
    let live = true;
    void Promise.all((JSON.parse(key) as string[]).map((id) => records.names.read(id))).then((found) => live && found.length && setRead((count) => count + 1));
    return () => void (live = false);
  }, [key, records]);
}

export function Person({ id, context }: { id: string; context: Context }) {
  useNames([id], context);
  return <>{nameOf(id, context)}</>;
}

/** The choice of a person, or of nobody: `none` says what that means. */
export function PersonChoice({ id, none, without, value, context, onChange }: {
  id: string; none: string; without?: string; value: string; context: Context; onChange: (userId: string) => void;
}) {
  useNames(value ? [value] : [], context);
  const { options: people, reading, ...further } = peopleIn(context, without);
  const options: Option[] = [{ key: "", title: none }, ...people];
  const held = options.find((one) => one.key === value) ?? { key: value, title: nameOf(value, context) };
  if (options.length <= MOST_LISTED && !reading?.problem) {
    return (
      <select id={id} className="input" disabled={reading?.isDone === false} value={value} onChange={(event) => onChange(event.target.value)}>
        {(options.includes(held) ? options : [...options, held]).map((one) => <option key={one.key} value={one.key}>{brief(one.title, 80)}</option>)}
      </select>
    );
  }
  return <Picker shared={{ id, disabled: false }} options={options} reading={reading} {...further} chosen={[held]} many={false} canClear={false} onChange={([key]) => onChange(key ?? "")} />;
}

/** The input of a form for the user id of a person; `without` of the schema cannot be chosen. */
export const PersonInput: TextInput = ({ value, schema, shared, onChange }) => {
  const context = useRecordContext();
  useNames(value ? [value] : [], context);
  return <Picker shared={shared} {...peopleIn(context, schema.without)} chosen={value ? [{ key: value, title: nameOf(value, context) }] : []} many={false} canClear={false} onChange={([key]) => onChange(key ?? "")} />;
};
