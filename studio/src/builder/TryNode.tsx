import { useRef, useState } from "react";
import type { Editing } from "../api/editing";
import type { Json, JsonObject, NodeTrial, Structure } from "../api/types";
import { problemOf } from "../elements/context";
import { ancestors, type Sample } from "../expressions/scope";
import { focusUnreadable, Form } from "../forms/Form";
import { fieldOf, withValue } from "../forms/schema";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { JsonBlock } from "../kit/JsonView";
import type { Problem } from "../kit/kit";
import { Named, Refusal } from "../kit/named";
import { visible } from "../kit/safe";

/** Tries one node of the draft on given values: what it would send, or, with effects, what it gives. */
export function TryNode({ workflowId, node, structure, editing, save, sample, last, isReading, onSample, onRunFrom }: {
  workflowId: number; node: string; structure: Structure; editing: Editing; save: () => Promise<void>;
  sample: Sample | null; last: Sample | null; onSample: (sample: Sample | null) => void;
  /** The values of the last run are not there yet: a trial would be without them. */
  isReading: boolean;
  /** Runs the draft from this node on, with what the last run came to before; undefined without one. */
  onRunFrom: (() => void) | undefined;
}) {
  const { t, dateTime } = useLanguage();
  const types = new Map(structure.nodes.map((one) => [one.id, one.type]));
  const before = ancestors(structure, node).filter((id) => types.get(id) !== "condition");
  const schema: JsonObject = {
    type: "object",
    properties: {
      input: { title: t("builder.input") },
      ...(before.length ? { outputs: { type: "object", title: t("try.outputs"), properties: Object.fromEntries(before.map((id) => [id, { title: id }])) } } : {}),
    },
  };
  const [resets, setResets] = useState(0);
  const held: Sample = sample ?? { input: {}, outputs: {}, run: null };
  const outputs = Object.fromEntries(before.filter((id) => Object.hasOwn(held.outputs, id)).map((id) => [id, held.outputs[id]!]));
  const value: JsonObject = { ...(sample ? { input: held.input } : {}), outputs };
  const change = (pointer: string, next: Json | undefined) => {
    const changed = withValue({ input: held.input, outputs: held.outputs }, pointer, next) as { input?: Json; outputs?: Record<string, Json> };
    onSample({ input: changed.input ?? {}, outputs: changed.outputs ?? {}, run: null });
  };
  const [perform, setPerform] = useState(false);
  const [result, setResult] = useState<NodeTrial | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const box = useRef<HTMLDetailsElement>(null);
  const run = async () => {
    if (focusUnreadable(box.current)) return;
    setBusy(true);
    setProblem(null);
    try {
      await save();
      setResult(await editing.tryNode(workflowId, node, { ...value, perform }));
    } catch (error) {
      setResult(null);
      setProblem(problemOf(error));
    }
    setBusy(false);
  };
  return (
    <details ref={box}>
      <summary>{t("try.title")}</summary>
      <div className="stack" style={{ marginTop: 12 }}>
        <p className="hint">{t("try.hint")}</p>
        <p className="hint">{!sample ? t("expression.noValues") : sample.run ? t("expression.ofRun", { at: dateTime(sample.run.at) }) : t("expression.ofOwn")}</p>
        <Form key={`${last?.run?.id} ${resets}`} field={fieldOf(schema)} value={value} errors={new Map()} disabled={busy} onChange={change} />
        {sample && !sample.run && last && <div><button type="button" className="button small" onClick={() => { onSample(null); setResets(resets + 1); }}>{t("try.reset")}</button></div>}
        <label className="check"><input type="checkbox" checked={perform} onChange={(event) => setPerform(event.target.checked)} />{t("try.perform")}</label>
        <div className="row wrap">
          <button type="button" className="button" disabled={busy || isReading} onClick={() => void run()}><Icon name="start" />{t("try.run")}</button>
          {onRunFrom && <button type="button" className="button" disabled={busy} onClick={onRunFrom}>{t("builder.runFrom")}</button>}
        </div>
        <Refusal text={problem?.message} />
        <div className="stack" role="status">
          {result && (
            <>
              {result.error && <p className="problem"><Icon name="error" /><span className="text"><Named text={visible(result.error.message)} /></span></p>}
              {result.handle !== null && <p>{t("builder.on", { handle: visible(result.handle) })}</p>}
              {result.wouldSend.length > 0 && <JsonBlock value={result.wouldSend} label={t("try.wouldSend")} open={3} />}
              {result.output !== null && <JsonBlock value={result.output} label={t("node.output")} open={3} />}
            </>
          )}
        </div>
      </div>
    </details>
  );
}
