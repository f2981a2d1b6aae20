import { useMemo, useRef, useState } from "react";
import { ApiError } from "../api/client";
import type { Decision, InboxItem, Json } from "../api/types";
import { problemOf, useHost, useIsOver, useKept, useNow, useUnsaved } from "../elements/context";
import { Form, unreadableIn, useInvalidFocus } from "../forms/Form";
import { check, fieldOf, type FieldError, initial, issuesOf, withValue } from "../forms/schema";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { CopyButton, type Problem } from "../kit/kit";
import { JsonBlock } from "../kit/JsonView";
import { Named, Refusal, unmarked } from "../kit/named";
import { visible } from "../kit/safe";
import { PlaceLink, useActorName, useTargetName } from "./parts";

export type Skin = "detailed" | "minimal";

/** Sends a decision; the turn that it begins. */
export type Decide = (item: InboxItem, decision: Decision["decision"], data?: Json) => Promise<{ runId: string }>;

export interface Outcome {
  decision: string;
  ok: boolean;
}

/** The text of a request: what the approver reads first. */
export function useMessage(): (item: InboxItem) => string {
  const { t } = useLanguage();
  return (item) => visible(item.message || (item.type === "connect" ? t("approval.connect") : item.toolId || t("approval.default")));
}

export function Deadline({ at }: { at: string }) {
  const { t, ago, dateTime } = useLanguage();
  const now = useNow(15_000);
  const over = useIsOver(at);
  const soon = Date.parse(at) - now < 3_600_000;
  return (
    <span className={over || soon ? "tag wait" : "tag"} title={dateTime(at)}>
      <Icon name="clock" />{over ? t("approval.expired") : ago(at, now)}
    </span>
  );
}

/** One request: what would happen, the form of the answer, and the two decisions. */
export function Approval({ item, skin, inline = false, send, onDecided }: {
  item: InboxItem; skin: Skin;
  /** Within another page, whose heading it is below. */
  inline?: boolean;
  /** Instead of the API's own call. */
  send?: Decide; onDecided: (outcome: Outcome) => void;
}) {
  const { t, dateTime } = useLanguage();
  const host = useHost();
  const actor = useActorName();
  const target = useTargetName(item.target);
  const message = useMessage()(item);
  const field = useMemo(() => (item.formSchema ? fieldOf(item.formSchema) : null), [item.formSchema]);
  const start = useMemo(() => (field ? initial(field) : undefined), [field]);
  const [value, setValue, forget] = useKept<Json | undefined>(`approval ${item.interruptId}`, start);
  const [errors, setErrors] = useState(new Map<string, FieldError>());
  const [sending, setSending] = useState<string | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [done, setDone] = useState<string | null>(null);
  const [needsMore, setNeedsMore] = useState(false);
  const form = useRef<HTMLDivElement>(null);
  const focusInvalid = useInvalidFocus(form, errors, sending !== null);
  const expired = useIsOver(item.expiresAt);
  const decided = item.status === "decided" || item.status === "closed" || (item.decidedAt !== undefined && item.decidedAt !== null) || done !== null;
  const connectUrl = item.type === "connect" && /^https?:/.test(item.connectUrl ?? "") ? item.connectUrl : undefined;
  const mayDecide = !decided && !expired && item.canDecide !== false && !host.readonly && host.wants("decide");

  // Text that is no value yet is in its input alone.
  useUnsaved(() => (!mayDecide ? null : unreadableIn(form.current) ? "lost" : value !== start ? "kept" : null), undefined, "answers");

  const showErrors = (found: Map<string, FieldError>) => {
    setErrors(found);
    focusInvalid(found);
  };
  const change = (pointer: string, next: Json | undefined) => {
    const changed = withValue(value, pointer, next);
    setValue(() => changed);
    if (errors.size && item.formSchema) setErrors(check(item.formSchema, changed));
  };
  const decide = async (decision: Decision["decision"]) => {
    const positive = decision === "approve" || decision === "connected";
    setProblem(null);
    const unreadable = unreadableIn(form.current);
    if (positive && unreadable) return unreadable.focus();
    if (positive && item.formSchema) {
      const found = check(item.formSchema, value);
      if (found.size) return showErrors(found);
    }
    const data = field && (positive || value !== undefined) && !(decision === "deny" && (unreadable || check(item.formSchema!, value).size)) ? value : undefined;
    if (!host.emit("before-decide", { interruptId: item.interruptId, runId: item.runId, decision, data: data ?? null })) return;
    setSending(decision);
    try {
      const turn = await (send ?? ((...decided) => host.api.decide(...decided)))(item, decision, data);
      setDone(decision);
      forget();
      setNeedsMore(decision === "approve" && (item.approvals ?? 0) + 1 < (item.requiredApprovals ?? 1));
      host.emit("decided", { interruptId: item.interruptId, runId: turn?.runId ?? item.runId, decision });
      onDecided({ decision, ok: true });
    } catch (error) {
      const fields = error instanceof ApiError ? issuesOf(error.info) : new Map<string, FieldError>();
      if (fields.size) showErrors(fields);
      else setProblem(problemOf(error));
      if (error instanceof ApiError && error.status === 409) onDecided({ decision, ok: false });
    }
    setSending(null);
  };

  // Several requests of one page must not be landmarks of the same name.
  const [Title, Part, Section] = inline ? (["h2", "h3", "div"] as const) : (["h1", "h2", "section"] as const);
  const role = inline ? "group" : undefined;
  const buttons: [Decision["decision"], string, string][] = item.type === "connect"
    ? [["connected", "approval.connected", "primary"], ["cancelled", "approval.cancelled", ""]]
    : [["approve", "approval.approve", "primary"], ["deny", "approval.deny", "danger"]];
  const technical = item.toolId !== undefined && (
    <Section className="stack" aria-label={t("approval.arguments")} role={role}>
      <div className="row wrap between">
        <Part>{t("approval.arguments")}</Part>
        <span className="tag mono"><Icon name="tool" />{visible(item.toolName ?? item.toolId)}</span>
      </div>
      <JsonBlock value={item.arguments ?? {}} label={t("approval.arguments")} open={4} />
      {item.digest && skin === "detailed" && (
        <div className="row" title={t("approval.digestHint")}>
          <span className="hint">{t("approval.digest")}</span><span className="digest clip">{item.digest}</span><CopyButton text={() => item.digest ?? ""} />
        </div>
      )}
    </Section>
  );
  return (
    <article className={`approval ${skin}${inline ? " inline" : ""}`} aria-label={unmarked(message)}>
      <header className="stack" style={{ gap: 10 }}>
        <div className="row wrap">
          {!inline && <span className="tag"><Icon name="workflows" />{item.workflowName ? visible(item.workflowName) : target}</span>}
          {item.expiresAt && <Deadline at={item.expiresAt} />}
          {(item.requiredApprovals ?? 1) > 1 && (
            <span className="tag"><Icon name="user" />{t("approval.quorum")}: {t("approval.quorumOf", { count: item.approvals ?? 0, required: item.requiredApprovals ?? 1 })}</span>
          )}
        </div>
        <Title className="message text"><Named text={message} /></Title>
        {item.type === "connect" && <p className="muted">{t("approval.connectHint", { provider: visible(item.provider ?? "") })}</p>}
        {connectUrl && mayDecide && (
          <div><a className="button" href={connectUrl} target="_blank" rel="noopener noreferrer"><Icon name="link" />{t("approval.connectNow")}</a></div>
        )}
        {skin === "detailed" && (
          <dl className="facts">
            {actor(item.requestedBy) && <><dt>{t("approval.requestedBy")}</dt><dd>{actor(item.requestedBy)}</dd></>}
            {item.createdAt && <><dt>{t("approval.created")}</dt><dd className="num">{dateTime(item.createdAt)}</dd></>}
            {item.expiresAt && <><dt>{t(expired ? "approval.overdue" : "approval.due")}</dt><dd className="num">{dateTime(item.expiresAt)}</dd></>}
            {item.nodeId && <><dt>{t("approval.from")}</dt><dd>{[...(item.path ?? []), item.nodeId].map(visible).join(" › ")}</dd></>}
          </dl>
        )}
        {skin === "minimal" && actor(item.requestedBy) && <p className="muted">{t("approval.requestedBy")} {actor(item.requestedBy)}</p>}
      </header>
      {technical}
      {field && !decided && (
        <Section className="stack" aria-label={t("approval.form")} role={role} ref={form}>
          <Part>{t("approval.form")}</Part>
          <Form field={field} value={value} errors={errors} disabled={!mayDecide || sending !== null} onChange={change} />
        </Section>
      )}
      {(item.decidedBy?.length ?? 0) > 0 && (
        <Section className="stack" aria-label={t("approval.history")} role={role} style={{ gap: 6 }}>
          <Part>{t("approval.history")}</Part>
          <ul>
            {item.decidedBy!.map((who, index) => (
              <li key={index} className="row wrap">
                <Icon name="user" />{actor(who)}
                {who.decision && <span className="muted">{t(who.decision === "approve" ? "approval.approved" : who.decision === "deny" ? "approval.denied" : `approval.${who.decision}`)}</span>}
                {who.at && <span className="muted num">{dateTime(who.at)}</span>}
              </li>
            ))}
          </ul>
        </Section>
      )}
      {skin === "detailed" && host.wants("runs") && (
        <div><PlaceLink to={{ page: "run", id: item.runId }} className="button small"><Icon name="link" />{t("approval.openRun")}</PlaceLink></div>
      )}
      <div className="decide" role="group" aria-label={t(decided ? "inbox.decided" : "approval.default")}>
        {errors.size > 0 && <p className="problem" role="alert"><Icon name="error" />{t("approval.fix")}</p>}
        {problem && !(problem.status === 0 && decided) && <Refused problem={problem} />}
        <div className="outcome" role="status">
          {done !== null ? (
            <p className="status ok"><Icon name="done" />{t("approval.done")} <span className="muted">{t(needsMore ? "approval.needsMore" : "approval.continued")}</span></p>
          ) : item.status === "closed" ? (
            <p className="status"><Icon name="done" />{t("approval.closed")}</p>
          ) : decided ? (
            <p className={`status ${item.decision === "deny" ? "bad" : "ok"}`}><Icon name={item.decision === "deny" ? "error" : "done"} />{t(item.decision === "deny" ? "approval.denied" : item.decision === "approve" || !item.decision ? "approval.approved" : `approval.${item.decision}`)}</p>
          ) : expired ? (
            <p className="status wait"><Icon name="clock" />{t("approval.expired")}</p>
          ) : item.canDecide === false ? (
            <p className="status wait"><Icon name="waiting" />{t("approval.others")}</p>
          ) : null}
        </div>
        {mayDecide && buttons.map(([decision, text, tone]) => (
          <button key={decision} type="button" className={`button ${tone}`} data-decision={decision} disabled={sending !== null} onClick={() => void decide(decision)}>
            {sending === decision ? <><Icon name="running" spin />{t("approval.sending")}</> : t(text)}
          </button>
        ))}
      </div>
    </article>
  );
}

function Refused({ problem }: { problem: Problem }) {
  const { t } = useLanguage();
  return <Refusal text={problem.message} about={problem.status === 409 ? t("approval.decidedElsewhere") : undefined} />;
}
