import { useState } from "react";
import type { Member } from "../../api/people";
import type { Group } from "../../api/records";
import { problemOf } from "../../elements/context";
import { usePages } from "../../elements/paging";
import { Icon } from "../../kit/icons";
import { Picker } from "../../kit/Picker";
import { Refusal } from "../../kit/named";
import { brief } from "../../kit/safe";
import { PlaceLink } from "../parts";
import { type Context, memberName } from "./collection";
import { peopleIn } from "./PersonChoice";

/** Members of a group that are listed at first, and further ones at once. */
const MOST_LISTED = 100;

/** Below a group: its members, who can be added by name and taken out. */
export function GroupExtra({ one, context, mayChange }: { one: Group; context: Context; mayChange: boolean }) {
  const { t, records } = context;
  const listed = usePages(`members of ${one.id}`, (pageToken) => records.page<Member>("members", { groupId: one.id }, pageToken, MOST_LISTED), (member) => member.userId, ["member", "group"]);
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const members = listed.rows;
  const { options, ...people } = peopleIn(context);
  const others = options.filter((person) => !members.some((member) => member.userId === person.key));
  const set = async (userId: string, isMember: boolean) => {
    setProblem(null);
    setBusy(true);
    try {
      const now = await records.read<Member>("members", userId);
      const rest = now.value.groups.filter((group) => group !== one.id);
      await records.change<Member>("members", userId, { groups: isMember ? [...rest, one.id] : rest }, now.etag);
      listed.reload();
    } catch (error) {
      setProblem(problemOf(error).message);
    }
    setBusy(false);
  };
  return (
    <section className="section" aria-label={t("groups.members")}>
      <h3>{t("groups.members")}</h3>
      {!listed.loading && !listed.problem && !members.length && <p className="muted">{t("groups.noMembers")}</p>}
      <ul className="taken" aria-label={t("groups.members")}>
        {members.map((person) => (
          <li key={person.userId} className="row between">
            <PlaceLink to={{ page: "administration", section: "members", id: person.userId }}>{brief(memberName(person), 80)}</PlaceLink>
            {mayChange && <button type="button" className="button plain small square" disabled={busy} aria-label={t("pick.remove", { name: brief(memberName(person), 60) })} onClick={() => void set(person.userId, false)}><Icon name="close" /></button>}
          </li>
        ))}
      </ul>
      <Refusal text={(listed.problem ?? listed.failed)?.message} />
      {listed.isOutdated ? <div className="row wrap"><p className="hint" role="status">{t("common.outdated")}</p><button type="button" className="button small" onClick={listed.renew}>{t("common.renew")}</button></div>
        : listed.problem ? <div><button type="button" className="button small" onClick={listed.reload}>{t("common.retry")}</button></div>
        : listed.next !== null && <div><button type="button" className="button small" onClick={listed.failed ? listed.retry : listed.more}>{t("common.more")}</button></div>}
      {mayChange && (
        <div className="field">
          <label htmlFor="group-add">{t("groups.add")}</label>
          <Picker shared={{ id: "group-add", disabled: busy }} options={others} {...people} chosen={[]} many={false} canClear={false} onChange={([userId]) => userId !== undefined && void set(userId, true)} />
        </div>
      )}
      <Refusal text={problem} />
    </section>
  );
}
