import { useState } from "react";
import type { Delivery, Hook } from "../../api/records";
import { problemOf } from "../../elements/context";
import { usePages } from "../../elements/paging";
import { Icon } from "../../kit/icons";
import { CopyButton, Dialog } from "../../kit/kit";
import { Refusal } from "../../kit/named";
import { brief, visible } from "../../kit/safe";
import type { Collection, Context } from "./collection";

const EVENTS = ["interrupt.opened", "interrupt.reminded", "interrupt.resolved", "run.finished", "run.failed", "schedule.paused", "evaluation.failed"];
const TONES: Record<string, string> = { delivered: "ok", failed: "bad", pending: "wait" };

export const hooks: Collection<Hook> = {
  list: "hooks", kinds: ["hook"], icon: "hook",
  id: (one) => one.id,
  name: (one) => one.url,
  columns: [
    { text: "admin.status", width: "100px", show: (one, { t }) => <span className={`status ${one.isEnabled ? "ok" : ""}`}><Icon name={one.isEnabled ? "done" : "skipped"} />{t(one.isEnabled ? "hooks.on" : "hooks.off")}</span> },
    { text: "hooks.url", width: "minmax(140px, 2fr)", show: (one) => <b className="title">{brief(one.url, 160)}</b> },
    { text: "hooks.events", width: "minmax(100px, 1.4fr)", wide: true, show: (one, { t }) => one.events.map((event) => t(`hooks.event.${event}`)).join(", ") },
  ],
  prepare: async (records) => ({ workflows: await records.workflows() }),
  mayChange: (me) => me.scopes.includes("hooks:write"),
  form: {
    schema: (_, { t, choices }) => ({
      type: "object", required: ["url", "events"],
      properties: {
        url: { type: "string", title: t("hooks.url"), description: t("hooks.urlHint"), minLength: 1 },
        events: { type: "array", title: t("hooks.events"), minItems: 1, items: { oneOf: EVENTS.map((event) => ({ const: event, title: t(`hooks.event.${event}`) })) } },
        workflowId: { title: t("hooks.workflow"), description: t("hooks.workflowHint"), ...(choices.workflows?.length ? { format: "reference", oneOf: choices.workflows.map((one) => ({ const: one.id!, title: one.name! })) } : { type: "integer" }) },
        isEnabled: { type: "boolean", title: t("hooks.enabled"), default: true },
      },
    }),
    value: (before) => ({ url: before.url, events: before.events, isEnabled: before.isEnabled, ...(before.filter.workflowId === null ? {} : { workflowId: before.filter.workflowId }) }),
    body: ({ workflowId, ...rest }) => ({ ...rest, filter: { workflowId: workflowId ?? null } }),
    pointer: (pointer) => (pointer.startsWith("/filter") ? "/workflowId" : pointer.replace(/^(\/events)\/.*/, "$1")),
  },
  secret: (made) => (typeof made.secret === "string" ? made.secret : null),
  secretHint: "hooks.once",
  details: (one, { t, choices }) => [
    ["admin.status", t(one.isEnabled ? "hooks.on" : "hooks.off")],
    ["hooks.url", <span key="u" className="mono">{visible(one.url)}</span>],
    ["hooks.events", one.events.map((event) => t(`hooks.event.${event}`)).join(", ")],
    ["hooks.workflow", one.filter.workflowId === null ? t("common.all") : brief(String(choices.workflows?.find(({ id }) => id === one.filter.workflowId)?.name ?? one.filter.workflowId), 120)],
    ["hooks.by", visible(one.createdBy)],
  ],
  Extra: Deliveries,
};

/** The messages of a hook, the newest first, with their attempts; a new secret. */
function Deliveries({ one, context, mayChange }: { one: Hook; context: Context; mayChange: boolean }) {
  const { t, ago, dateTime, duration } = context;
  const list = usePages<Delivery>(`deliveries ${one.id}`, (pageToken) => context.records.deliveries(one.id, pageToken), (row) => row.id, []);
  const [problem, setProblem] = useState<string | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const [asking, setAsking] = useState(false);
  const act = async (action: () => Promise<unknown>) => {
    setProblem(null);
    try {
      await action();
      list.reload();
    } catch (error) {
      setProblem(problemOf(error).message);
    }
  };
  return (
    <>
      <section className="section" aria-label={t("hooks.deliveries")}>
        <div className="row between">
          <h3>{t("hooks.deliveries")}</h3>
          <button type="button" className="button plain small" onClick={list.renew}><Icon name="retry" />{t("common.refresh")}</button>
        </div>
        <Refusal text={problem ?? list.problem?.message} />
        {list.isOutdated && <p className="hint" role="status">{t("common.outdated")}</p>}
        {!list.loading && !list.problem && !list.rows.length && <p className="muted">{t("hooks.noDeliveries")}</p>}
        <ul className="stack">
          {list.rows.map((row) => (
            <li key={row.id} className="delivery">
              <div className="row wrap">
                <span className={`status ${TONES[row.status] ?? ""}`}><Icon name={row.status === "delivered" ? "done" : row.status === "failed" ? "error" : "waiting"} />{t(`hooks.${row.status}`)}</span>
                <span>{t(`hooks.event.${row.event}`)}</span>
                <time className="muted" dateTime={row.createdAt} title={dateTime(row.createdAt)}>{ago(row.createdAt)}</time>
                {mayChange && row.status !== "pending" && (
                  <button type="button" className="button small" onClick={() => void act(() => context.records.redeliver(one.id, row.id))}>{t("hooks.redeliver")}</button>
                )}
              </div>
              {row.attempts.length > 0 && (
                <details>
                  <summary>{t("hooks.attempts", { count: row.attempts.length })}</summary>
                  <ol className="stack">
                    {row.attempts.map((attempt) => (
                      <li key={attempt.at} className="hint">{dateTime(attempt.at)} · {attempt.status ?? brief(attempt.error ?? "", 200)} · {duration(attempt.ms)}</li>
                    ))}
                  </ol>
                </details>
              )}
              {row.nextAttemptAt && <span className="hint">{t("hooks.next", { when: ago(row.nextAttemptAt) })}</span>}
            </li>
          ))}
        </ul>
        {list.failed && <Refusal text={t("common.moreFailed")} />}
        {list.next !== null && <div><button type="button" className="button small" onClick={list.failed ? list.retry : list.more}>{t("common.more")}</button></div>}
      </section>
      {mayChange && (
        <section className="section" aria-label={t("hooks.secret")} aria-live="polite">
          <h3>{t("hooks.secret")}</h3>
          {secret === null ? <div><button type="button" className="button" onClick={() => setAsking(true)}><Icon name="key" />{t("hooks.rotate")}</button></div> : (
            <>
              <p>{t("hooks.once")}</p>
              <div className="block secret"><CopyButton text={() => secret} /><code>{secret}</code></div>
            </>
          )}
        </section>
      )}
      {asking && (
        <Dialog title={t("hooks.rotateAsk")} onClose={() => setAsking(false)} actions={
          <>
            <button type="button" className="button" autoFocus onClick={() => setAsking(false)}>{t("common.cancel")}</button>
            <button type="button" className="button primary" onClick={() => { setAsking(false); void act(async () => setSecret(await context.records.rotate(one.id))); }}>{t("hooks.rotate")}</button>
          </>
        }>
          <p className="muted">{t("hooks.rotateHint")}</p>
        </Dialog>
      )}
    </>
  );
}
