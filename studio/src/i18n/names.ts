import type { Language } from "./texts";

type Words = Pick<Language, "t" | "has">;

/** The name of a tool: that of a text `tool.ID` if there is one, as of the built-in tools, else its own. */
export const toolName = ({ t, has }: Words, { id, name }: { id: string; name?: string | null }) => (has(`tool.${id}`) ? t(`tool.${id}`) : name || id);

/** The name of an outcome of a node of this type. A branch of a condition has the name that its author has chosen. */
export function outcomeName({ t, has }: Words, outcome: string, type: string | undefined): string {
  const key = `outcome.${outcome}`;
  return (type !== "condition" || outcome === "else") && has(key) ? t(key) : outcome;
}
