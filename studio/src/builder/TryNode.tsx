import { useState } from "react";
import type { Editing } from "../api/editing";
import type { Json, JsonObject, NodeTrial, Structure } from "../api/types";
import { problemOf } from "../elements/context";
import { Form } from "../forms/Form";
import { fieldOf, withValue } from "../forms/schema";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { JsonBlock } from "../kit/JsonView";
import type { Problem } from "../kit/kit";
import { visible } from "../kit/safe";

/** The nodes whose output an expression of the node can read: those on the paths to it. */
function ancestors(structure: Structure, id: string): string[] {
  const found = new Set<string>();
  const waiting = [id];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    for (const edge of structure.edges) {
      if (edge.target !== next || found.has(edge.source) || edge.source === id) continue;
      found.add(edge.source);
      waiting.push(edge.source);
    }
  }
  const types = new Map(structure.nodes.map((node) => [node.id, node.type]));
  return [...found].filter((one) => types.get(one) !== "start" && types.get(one) !== "condition").reverse();
}

/** Tries one node of the draft on given values: what it would send, or, with effects, what it gives. */
export function TryNode({ workflowId, node, structure, editing, save }: {
  workflowId: number; node: string; structure: Structure; editing: Editing; save: () => Promise<void>;
}) {
  const { t } = useLanguage();
  const before = ancestors(structure, node);
  const schema: JsonObject = {
    type: "object",
    properties: {
      input: { title: t("builder.input") },
      ...(before.length ? { outputs: { type: "object", title: t("try.outputs"), properties: Object.fromEntries(before.map((id) => [id, { title: id }])) } } : {}),
    },
  };
  const [value, setValue] = useState<Json | undefined>({});
  const [perform, setPerform] = useState(false);
  const [result, setResult] = useState<NodeTrial | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await save();
      setResult(await editing.tryNode(workflowId, node, { ...(value as JsonObject), perform }));
    } catch (error) {
      setResult(null);
      setProblem(problemOf(error));
    }
    setBusy(false);
  };
  return (
    <details>
      <summary>{t("try.title")}</summary>
      <div className="stack" style={{ marginTop: 12 }}>
        <p className="hint">{t("try.hint")}</p>
        <Form field={fieldOf(schema)} value={value} errors={new Map()} disabled={busy} onChange={(pointer, next) => setValue((old) => withValue(old, pointer, next))} />
        <label className="check"><input type="checkbox" checked={perform} onChange={(event) => setPerform(event.target.checked)} />{t("try.perform")}</label>
        <div><button type="button" className="button" disabled={busy} onClick={() => void run()}><Icon name="start" />{t("try.run")}</button></div>
        {problem && <p className="problem" role="alert"><Icon name="error" />{visible(problem.message)}</p>}
        {result && (
          <div className="stack" role="status">
            {result.error && <p className="problem"><Icon name="error" />{visible(result.error.message)}</p>}
            {result.handle !== null && <p>{t("builder.on", { handle: visible(result.handle) })}</p>}
            {result.wouldSend.length > 0 && <JsonBlock value={result.wouldSend} label={t("try.wouldSend")} open={3} />}
            {result.output !== null && <JsonBlock value={result.output} label={t("node.output")} open={3} />}
          </div>
        )}
      </div>
    </details>
  );
}
