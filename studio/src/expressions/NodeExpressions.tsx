import { type ReactNode, useCallback, useEffect, useMemo, useState } from "react";
import type { Editing } from "../api/editing";
import type { GraphNode, Json, Structure, Tool } from "../api/types";
import { useHost, useLoaded } from "../elements/context";
import { useLanguage } from "../i18n/context";
import type { Mode } from "./completion";
import { type Expressions, ExpressionScope } from "./ExpressionInput";
import { type Sample, sampleOf, scopeOf, valuesFor } from "./scope";

/** The values of the last run of the workflow, until the user gives others. Read again when `key` changes; `isReading`
 * until they are there for the first time. */
export function useSample(workflowId: number, key: string): {
  sample: Sample | null; last: Sample | null; isReading: boolean; setSample: (sample: Sample | null) => void;
} {
  const { api } = useHost();
  const [own, setOwn] = useState<Sample | null>(null);
  const { value } = useLoaded<Sample | null>(`sample ${workflowId} ${key}`, async () => {
    try {
      const { rows: [run] } = await api.runs({ workflowId: String(workflowId) }, null, 1);
      return run ? sampleOf(await api.graph(run.runId, []), { id: run.runId, at: run.createdAt }) : null;
    } catch {
      return null; // without the right to read runs there are no values
    }
  });
  return { sample: own ?? value ?? null, last: value ?? null, isReading: own === null && value === undefined, setSample: setOwn };
}

/** Gives the inputs of a node what its expressions can read, and their evaluation by the server. */
export function NodeExpressions({ node, structure, tools, sample, editing, children }: {
  node: GraphNode; structure: Structure; tools: Tool[]; sample: Sample | null; editing: Editing; children: ReactNode;
}) {
  const { t, dateTime } = useLanguage();
  const item = useItem(node, sample, editing);
  const evaluate = useCallback((of: Json, mode: Mode) => {
    const values = sample ? valuesFor(JSON.stringify(of), sample, item) : {};
    return editing.evaluate(mode === "expression" ? { source: String(of) } : { template: of }, values);
  }, [sample, item, editing]);
  const scope = useMemo<Expressions>(() => {
    const origin = !sample ? null : sample.run ? t("expression.ofRun", { at: dateTime(sample.run.at) }) : t("expression.ofOwn");
    return { root: scopeOf(node, structure, tools, sample, item), origin, evaluate };
  }, [node, structure, tools, sample, item, evaluate, t, dateTime]);
  return <ExpressionScope value={scope}>{children}</ExpressionScope>;
}

/** The first item of what the node is called for. */
function useItem(node: GraphNode, sample: Sample | null, editing: Editing): Json | undefined {
  const source = typeof node.data?.forEach === "string" ? node.data.forEach : "";
  const [item, setItem] = useState<Json | undefined>(undefined);
  useEffect(() => {
    setItem(undefined);
    if (!source || !sample) return;
    let live = true;
    void editing.evaluate({ source }, valuesFor(source, sample)).then(({ value }) => live && Array.isArray(value) && setItem(value[0]), () => undefined);
    return () => void (live = false);
  }, [source, sample, editing]);
  return item;
}
