import { useState } from "react";
import { type Group, type Member, MOST_CHOICES } from "../../api/records";
import { problemOf } from "../../elements/context";
import { Icon } from "../../kit/icons";
import { Picker } from "../../kit/Picker";
import { Refusal } from "../../kit/named";
import { brief } from "../../kit/safe";
import { PlaceLink } from "../parts";
import { type Context, memberName, optionsOf } from "./collection";

/** Members of a group that are listed at once. */
const MOST_LISTED = 100;

/** Below a group: its members, who can be added by name and taken out. */
export function GroupExtra({ one, context, mayChange }: { one: Group; context: Context; mayChange: boolean }) {
  const { t, records, choices, number } = context;
  const [changed, setChanged] = useState<Map<string, string[]>>(new Map()); // the groups that the server has since
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const people = (choices.members ?? []) as unknown as Member[];
  const groupsOf = (person: Member) => changed.get(person.userId) ?? person.groups;
  const members = people.filter((person) => groupsOf(person).includes(one.id));
  const others = people.filter((person) => !groupsOf(person).includes(one.id));
  const set = async (userId: string, isMember: boolean) => {
    setProblem(null);
    setBusy(true);
    try {
      const now = await records.read<Member>("members", userId);
      const rest = now.value.groups.filter((group) => group !== one.id);
      const after = await records.change<Member>("members", userId, { groups: isMember ? [...rest, one.id] : rest }, now.etag);
      setChanged((old) => new Map(old).set(userId, after.value.groups));
    } catch (error) {
      setProblem(problemOf(error).message);
    }
    setBusy(false);
  };
  return (
    <section className="section" aria-label={t("groups.members")}>
      <h3>{t("groups.members")}</h3>
      {!members.length && <p className="muted">{t("groups.noMembers")}</p>}
      <ul className="taken" aria-label={t("groups.members")}>
        {members.slice(0, MOST_LISTED).map((person) => (
          <li key={person.userId} className="row between">
            <PlaceLink to={{ page: "administration", section: "members", id: person.userId }}>{brief(memberName(person), 80)}</PlaceLink>
            {mayChange && <button type="button" className="button plain small square" disabled={busy} aria-label={t("pick.remove", { name: brief(memberName(person), 60) })} onClick={() => void set(person.userId, false)}><Icon name="close" /></button>}
          </li>
        ))}
      </ul>
      {members.length > MOST_LISTED && <p className="hint">{t("groups.further", { count: members.length - MOST_LISTED })}</p>}
      {mayChange && (
        <div className="field">
          <label htmlFor="group-add">{t("groups.add")}</label>
          <Picker shared={{ id: "group-add", disabled: busy }} options={optionsOf(others)} chosen={[]} many={false} canClear={false} onChange={([userId]) => userId !== undefined && void set(userId, true)} />
          {people.length >= MOST_CHOICES && <p className="hint">{t("runs.furtherWorkflows", { count: number(people.length) })}</p>}
        </div>
      )}
      <Refusal text={problem} />
    </section>
  );
}
