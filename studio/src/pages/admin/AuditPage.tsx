import { useMemo, useState } from "react";
import type { AuditEntry, Records } from "../../api/records";
import type { Caller } from "../../api/types";
import { type Place, useChoice } from "../../elements/context";
import { JsonBlock } from "../../kit/JsonView";
import { Empty, Failure, Loading, VirtualRows } from "../../kit/kit";
import { brief, visible } from "../../kit/safe";
import { PlaceLink } from "../parts";
import { FilterChoice, Title, useContextOf, useFocusReturn, useRecords } from "./CollectionPage";
import { PersonChoice } from "./PersonChoice";

const TEMPLATE = "minmax(120px, 0.9fr) minmax(100px, 1fr) minmax(120px, 1.2fr) minmax(120px, 1.4fr)";
const DAYS = [1, 7, 30];
const AUDIT = { list: "audit", id: (one: AuditEntry) => JSON.stringify(one) } as const;

/** What is recorded: the kind of what was changed, and what was done to it. */
const ACTIONS = [
  "workflow.create", "workflow.deploy", "workflow.access", "workflow.ownership", "workflow.delete", "workflow.restore", "workflow.update",
  "workflow.pause", "workflow.clear_interfaces", "workflow.create_webhook", "workflow.rotate_webhook", "skill.create", "skill.deploy",
  "skill.force_deploy", "skill.access", "skill.ownership", "skill.delete", "skill.restore", "run.resume", "run.cancel", "run.interrupt", "run.retry",
  "run.fork", "run.move", "run.delete", "run.remind", "run.escalate", "interface.create", "interface.update", "interface.delete",
  "interface.rotate_secret", "interface.give_up", "hook.create", "hook.update", "hook.delete", "hook.rotate", "hook.redeliver", "hook.give_up",
  "hook.disable", "connection.create", "connection.update", "connection.delete", "connection.authorize", "context_item.create",
  "context_item.update", "context_item.delete", "policy.create", "policy.update", "policy.delete", "delegation.create", "delegation.update",
  "delegation.delete", "group.create", "group.update", "group.delete", "member.create", "member.update", "member.delete", "member.erase",
  "token.create", "token.revoke", "organization.update", "organization.prune", "organization.reencrypt",
];

const people = async (records: Records) => ({ members: await records.people() });

/** The page of what an entry is about, where the studio has one. */
function placeOf({ resource }: AuditEntry): Place | null {
  if (resource.type === "run") return { page: "run", id: resource.id };
  if (resource.type === "workflow") return { page: "runs", query: { workflowId: resource.id } };
  const section: Record<string, string> = { connection: "connections", hook: "hooks", policy: "policies", member: "members", group: "groups" };
  const found = section[resource.type];
  return found ? { page: "administration", section: found, id: resource.id } : null;
}

const label = ({ resource, resourceName }: AuditEntry) => brief(resourceName ?? resource.id, 120);

/** The name with the number, of what has numbers: two can have the same name. */
const labelWithNumber = (one: AuditEntry) => (one.resourceName && /^\d+$/.test(one.resource.id) ? `${label(one)} (${one.resource.id})` : label(one));

/** Who did what, newest first. */
export function AuditPage({ me }: { me: Caller }) {
  const context = useContextOf(me, people, ["member"]);
  const { t, has, ago, dateTime, now, records } = context;
  const [chosen, setChosen] = useChoice<Record<string, string>>("filters", {});
  const filters = useMemo(() => {
    const { days, ...rest } = chosen;
    return { ...rest, ...(days ? { from: new Date(Math.floor(now() / 60_000 - Number(days) * 1_440) * 60_000).toISOString() } : {}) } as Record<string, string>;
  }, [chosen]);
  const list = useRecords<AuditEntry>(AUDIT, records, filters);
  const [at, setAt] = useState<AuditEntry | null>(null);
  const set = (name: string, value: string) => { setChosen({ ...chosen, [name]: value }); setAt(null); };
  const who = (one: AuditEntry) => brief(one.userName ?? one.userId ?? t("who.system"), 80);
  const named = (key: string, name: string) => (has(key) ? t(key) : name);
  const kind = (one: AuditEntry) => named(`audit.kind.${one.resource.type}`, one.resource.type);
  const did = (action: string) => {
    const [of = "", verb = ""] = action.split(".");
    return `${named(`audit.kind.${of}`, of)}: ${named(`audit.did.${verb}`, verb)}`;
  };
  const box = useFocusReturn(at === null ? null : AUDIT.id(at));
  return (
    <div className="page admin" ref={box}>
      <div className="head"><h1>{t("nav.audit")}</h1></div>
      <div className="filters" role="search" aria-label={t("runs.filters")}>
        <div className="field">
          <label htmlFor="f-user">{t("audit.user")}</label>
          <PersonChoice id="f-user" none={t("common.all")} value={chosen.userId ?? ""} context={context} onChange={(userId) => set("userId", userId)} />
        </div>
        <div className="field">
          <label htmlFor="f-action">{t("audit.action")}</label>
          <FilterChoice id="f-action" options={[["", t("common.all")], ...ACTIONS.map((action): [string, string] => [action, did(action)])]} value={chosen.action ?? ""} onChange={(action) => set("action", action)} />
        </div>
        <div className="field">
          <label htmlFor="f-days">{t("runs.since")}</label>
          <select id="f-days" className="input" value={chosen.days ?? ""} onChange={(event) => set("days", event.target.value)}>
            <option value="">{t("common.all")}</option>
            {DAYS.map((days) => <option key={days} value={days}>{t("audit.days", { count: days })}</option>)}
          </select>
        </div>
      </div>
      <div className={`split${at ? "" : " alone"}`}>
        <div className="main">
          {list.problem && !list.rows.length ? <Failure problem={list.problem} onRetry={list.reload} /> : list.loading && !list.rows.length ? <Loading rows={8} />
            : !list.rows.length ? <Empty icon="audit" title={t("audit.empty")} /> : (
              <>
                <div className="columns" aria-hidden="true" style={{ gridTemplateColumns: TEMPLATE }}>
                  <span>{t("audit.at")}</span><span>{t("audit.user")}</span><span className="wide">{t("audit.action")}</span><span className="wide">{t("audit.resource")}</span>
                </div>
                <VirtualRows count={list.rows.length} height={47} label={t("nav.audit")} pages={list} row={(index) => {
                  const one = list.rows[index]!;
                  const id = AUDIT.id(one);
                  const isOpen = at !== null && id === AUDIT.id(at);
                  return (
                    <div role="listitem" key={id} data-record={id} style={{ height: 47 }}>
                      <button type="button" className={`line record${isOpen ? " current" : ""}`} aria-pressed={isOpen} style={{ gridTemplateColumns: TEMPLATE }} onClick={() => setAt(one)}>
                        <span className="clip"><time className="num" dateTime={one.at} title={dateTime(one.at)}>{ago(one.at)}</time><span className="narrow"> · {brief(did(one.action), 60)}{one.resourceName && ` · ${label(one)}`}</span></span>
                        <span className="clip">{who(one)}</span>
                        <span className="clip wide" title={one.action}>{brief(did(one.action), 60)}</span>
                        <span className="clip wide muted">{kind(one)} {labelWithNumber(one)}</span>
                      </button>
                    </div>
                  );
                }} />
              </>
            )}
        </div>
        <aside className="side" aria-label={t("admin.details")} tabIndex={0} hidden={!at}>
          {at && (
            <div className="section">
              <Title text={visible(did(at.action))} onClose={() => setAt(null)} />
              <dl className="facts">
                <div className="fact"><dt>{t("audit.at")}</dt><dd>{dateTime(at.at)}</dd></div>
                <div className="fact"><dt>{t("audit.user")}</dt><dd>{who(at)}</dd></div>
                <div className="fact"><dt>{t("audit.action")}</dt><dd className="mono">{visible(at.action)}</dd></div>
                <div className="fact"><dt>{t("audit.resource")}</dt><dd>{kind(at)}{" "}
                  {placeOf(at) ? <PlaceLink to={placeOf(at)!}>{label(at)}</PlaceLink> : label(at)}
                  {at.resourceName && <span className="hint mono"> · {visible(at.resource.id)}</span>}</dd></div>
                {at.remoteAddress && <div className="fact"><dt>{t("audit.address")}</dt><dd className="mono">{visible(at.remoteAddress)}</dd></div>}
                {at.requestId && <div className="fact"><dt>{t("audit.request")}</dt><dd className="mono">{visible(at.requestId)}</dd></div>}
              </dl>
              <JsonBlock value={at.details} label={t("audit.details")} />
            </div>
          )}
        </aside>
      </div>
    </div>
  );
}
