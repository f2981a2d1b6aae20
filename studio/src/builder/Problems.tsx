import type { Structure } from "../api/types";
import { useLanguage } from "../i18n/context";
import { Icon } from "../kit/icons";
import { Named } from "../kit/named";
import { brief } from "../kit/safe";
import { titleOf } from "./document";
import type { Found } from "./editor";
import { problemText } from "./problemText";

export interface Count {
  /** What prevents a deploy. */
  errors: number;
  warnings: number;
}

export function countOf(issues: Found[]): Count {
  const warnings = issues.filter((issue) => issue.severity === "warning").length;
  return { errors: issues.length - warnings, warnings };
}

/** Names errors and warnings apart; without any, no errors. */
export function counted({ errors, warnings }: Count, t: (key: string, values: { count: number }) => string): string {
  const parts = [errors || !warnings ? t("builder.problems", { count: errors }) : "", warnings ? t("builder.warnings", { count: warnings }) : ""];
  return parts.filter(Boolean).join(", ");
}

/** The findings of the server's validation, with their fields. Each leads to its node. */
export function Problems({ issues, structure, onSelect }: { issues: Found[]; structure: Structure; onSelect: (issue: Found) => void }) {
  const { t, has } = useLanguage();
  const byId = new Map(structure.nodes.map((node) => [node.id, node]));
  return (
    <ul className="problems" aria-label={t("builder.problemList")}>
      {!issues.length && <li className="muted">{t("builder.noProblems")}</li>}
      {issues.map((issue, index) => (
        <li key={index} className={`row ${issue.severity}`}>
          <Icon name={issue.severity === "warning" ? "waiting" : "error"} />
          <span className="grow text">
            {issue.severity === "warning" && <span className="sr">{t("builder.warnings", { count: 1 })}: </span>}
            {fieldsIn(issue).map((name, place) => <span key={place}><strong>{brief(has(`data.${name}`) ? t(`data.${name}`) : name, 60)}</strong> · </span>)}
            <Named text={brief(problemText(issue.message, { t, has }), 400)} />
          </span>
          {issue.at.node !== undefined && byId.has(issue.at.node) && (
            <button type="button" className="button small" onClick={() => onSelect(issue)}>{brief(titleOf(byId.get(issue.at.node)!), 40)}</button>
          )}
        </li>
      ))}
    </ul>
  );
}

/** The names of the fields that lead to an issue; entries of lists count from one. A connection has no fields on the page. */
function fieldsIn({ at }: Found): string[] {
  if (at.edge !== undefined) return [];
  const steps = at.pointer.split("/").slice(1).map((step) => step.replace(/~1/g, "/").replace(/~0/g, "~"));
  return (steps[0] === "params" ? steps.slice(1) : steps).map((step) => (/^\d+$/.test(step) ? String(Number(step) + 1) : step));
}

/** Focuses the field of a node that an issue is about; false if the panel has none for it. */
export function focusField(panel: HTMLElement | null, pointer: string): boolean {
  const around = [...(panel?.querySelectorAll<HTMLElement>("[data-at]") ?? [])].filter(({ dataset }) => dataset.at && `${pointer}/`.startsWith(`${dataset.at}/`));
  const nearest = around.sort((a, b) => b.dataset.at!.length - a.dataset.at!.length)[0];
  const input = nearest?.querySelector<HTMLElement>("input, textarea, select, button");
  input?.focus();
  return input != null;
}
