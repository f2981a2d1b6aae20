import { type FormEvent, useState } from "react";
import type { ComposedContext, SkillRecord, Skills, View } from "../api/skills";
import type { JsonObject } from "../api/types";
import { problemOf, useKept } from "../elements/context";
import { useLanguage } from "../i18n/context";
import { JsonBlock } from "../kit/JsonView";
import { CopyButton, type Problem } from "../kit/kit";
import { Refusal } from "../kit/named";
import { brief, readable } from "../kit/safe";

/** What a run would send to its model for a message: each part with its size and reason, and the digest of the whole. */
export function ContextPreview({ skill, skills, mayEdit }: { skill: SkillRecord; skills: Skills; mayEdit: boolean }) {
  const { t } = useLanguage();
  const [message, setMessage] = useKept(`context of ${skill.id}`, "");
  const [userId, setUserId] = useKept(`context of ${skill.id}: user`, "");
  const [view, setView] = useState<View>(mayEdit && skill.hasUnpublishedChanges ? "draft" : "active");
  const [context, setContext] = useState<ComposedContext | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const compose = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      const body: JsonObject = { view };
      if (message.trim()) body.message = message;
      if (userId.trim()) body.userContext = { userId: userId.trim() };
      setContext(await skills.context(skill.id, body));
    } catch (error) {
      setProblem(problemOf(error));
    }
    setBusy(false);
  };
  return (
    <div className="scroll pad stack">
      <form className="stack" onSubmit={(event) => void compose(event)}>
        <div className="field">
          <label htmlFor="context-message">{t("context.message")}</label>
          <textarea id="context-message" className="input" value={message} onChange={(event) => setMessage(() => event.target.value)} />
        </div>
        <div className="row wrap fields">
          <div className="field">
            <label htmlFor="context-user">{t("context.user")}</label>
            <input id="context-user" className="input" value={userId} onChange={(event) => setUserId(() => event.target.value)} />
          </div>
          {mayEdit && (
            <div className="field">
              <label htmlFor="context-view">{t("context.view")}</label>
              <select id="context-view" className="input" value={view} onChange={(event) => setView(event.target.value as View)}>
                <option value="draft">{t("skill.draft")}</option>
                <option value="active">{t("skill.active")}</option>
              </select>
            </div>
          )}
          <button type="submit" className="button primary" disabled={busy}>{t("context.compose")}</button>
        </div>
        <p className="hint">{t("context.hint")}</p>
      </form>
      <Refusal text={problem?.message} />
      {context && <Composed context={context} />}
    </div>
  );
}

function Composed({ context }: { context: ComposedContext }) {
  const { t, number } = useLanguage();
  return (
    <div className="stack composed" aria-live="polite">
      <dl className="facts">
        <dt>{t("context.digest")}</dt><dd className="row"><span className="digest clip">{context.digest}</span><CopyButton text={() => context.digest} /></dd>
        <dt>{t("context.model")}</dt><dd>{brief(context.model, 100)}</dd>
        <dt>{t("context.tokens")}</dt><dd className="num">{t("context.tokensOf", { count: context.tokenEstimate, window: context.contextWindow })}</dd>
      </dl>
      <h2>{t("context.parts")}</h2>
      <div className="tablebox" role="group" aria-label={t("context.parts")} tabIndex={0}>
        <table>
          <thead><tr><th scope="col">{t("context.source")}</th><th scope="col">{t("context.ref")}</th><th scope="col" className="end">{t("context.tokens")}</th><th scope="col">{t("context.why")}</th></tr></thead>
          <tbody>
            {context.segments.map((one, index) => (
              <tr key={index}><td>{one.source}</td><td className="mono">{brief(one.ref ?? "", 60)}</td><td className="num end">{number(one.tokens)}</td><td>{readable(one.why)}</td></tr>
            ))}
            {context.leftOut.map((one, index) => (
              <tr key={`out ${index}`} className="muted"><td>{one.source}</td><td className="mono">{brief(one.ref ?? "", 60)}</td><td className="end">{t("context.leftOut")}</td><td>{readable(one.why)}</td></tr>
            ))}
          </tbody>
        </table>
      </div>
      <h2>{t("context.messages")}</h2>
      {context.messages.map((one, index) => (
        <details key={index}>
          <summary>{one.type} · {brief(one.content, 80)}</summary>
          <div className="block" role="group" aria-label={one.type} tabIndex={0}><p className="text">{readable(one.content)}</p></div>
        </details>
      ))}
      {context.tools.length > 0 && <h2>{t("skill.tools")}</h2>}
      {context.tools.map((tool) => (
        <details key={tool.name}>
          <summary><span className="mono">{brief(tool.title ?? tool.toolId, 80)}</span>{tool.requiresApproval && <span className="tag wait">{t("skill.approval")}</span>}</summary>
          <p className="text">{readable(tool.description)}</p>
          <JsonBlock value={tool.parameters} label={tool.name} open={1} />
          <p className="row"><span className="hint">{t("context.digest")}</span><span className="digest clip">{tool.digest}</span></p>
        </details>
      ))}
    </div>
  );
}
