import type { Language } from "../i18n/texts";

/** What the server says of a graph, and the key of what the page says. */
const MESSAGES: [RegExp, string][] = [
  [/^a graph must have a `start` node$/, "noStart"],
  [/^a graph must have only one `start` node$/, "oneStart"],
  [/^an edge cannot lead to a `start` node$/, "toStart"],
  [/^it cannot be reached from the `start` node$/, "unreached"],
  [/^an edge needs a `sourceHandle`: use (.*)$/, "noOutcome"],
  [/^unknown handle `(.*?)`: use (.*)$/, "unknownOutcome"],
  [/^a cycle must contain a condition or a humanApproval: (.*)$/, "cycle"],
  [/^without `agent_id`, a `message` or `instructions` is required$/, "noWork"],
  [/^must name an e-mail or a group; .*$/, "noApprovers"],
  [/^`else` is reserved for the case that no branch holds$/, "reservedElse"],
  [/^must be at most (\d+), the number of approvers$/, "mostApprovers"],
  [/^is required with `(\w+)`$/, "neededWith"],
  [/^must be less than `timeoutSeconds` \((.*)\)$/, "beforeLimit"],
  [/^(?:reads the )?unknown node `(.*)`$/, "unknownNode"],
  [/^reads `item`, .*$/, "item"],
  [/^it has no `else` edge: .*$/, "noElse"],
  [/^`(\w+)` has no effect without `(\w+)`$/, "idle"],
  [/^`(\w+)` has no effect on `(.*)`$/, "idleOn"],
  [/^`expired` is never taken without `timeoutSeconds`$/, "neverExpires"],
  [/^(?:unknown|there is no) tool `(.*)`$/, "unknownTool"],
  [/^there is no model `(.*)`$/, "unknownModel"],
  [/^there is no group `(.*)`$/, "unknownGroup"],
  [/^unknown skill `\d+`$/, "noSkill"],
  [/^`(.*)` is not a valid e-mail address$/, "noMail"],
  [/^`(.*)` is not a UUID in lower case$/, "noGroupId"],
  [/^is required$/, "required"],
  [/^`(.*)` is missing$/, "missing"],
  [/^must not be empty$/, "empty"],
  [/^the expression is empty$/, "emptyExpression"],
  [/^syntax error at column (\d+)$/, "syntax"],
  [/^must be (?:at least) (\S+) and at most (\S+)$/, "range"],
  [/^must be more than (\S+) and at most (\S+)$/, "above"],
  [/^(.*) is less than the minimum of (\S+)$/, "atLeast"],
  [/^(.*) is greater than the maximum of (\S+)$/, "atMost"],
  [/^must have at least (\d+)$/, "fewest"],
  [/^must be an integer$/, "whole"],
  [/^must be (?:a )?number(?:, not .*)?$/, "number"],
  [/^must be (?:a )?string(?:, not .*)?$/, "text"],
  [/^must be (?:an )?object(?:, not .*)?$/, "object"],
  [/^must be (?:an )?array(?:, not .*)?$/, "list"],
  [/^`(.*)` is not one of (.*)$/, "choice"],
  [/^`(.*)` is (?:not allowed|an unknown key.*)$/, "extra"],
  [/^`(.*)` is already used$/, "taken"],
];

/** Whose parts are names of fields. */
const OF_FIELDS = ["idle", "idleOn", "neededWith"];

/** A name of `data` in backticks that is not that of a node, tool or something else. */
const FIELD = /(?<!\b(?:branch|edge|group|handle|model|node|outcome|parameter|skill|tool) )`(\w+)`/g;

/** A problem of a graph in the language of the page, with the names that its fields have there; an unknown one in the words of the server. */
export function problemText(message: string, { t, has }: Pick<Language, "t" | "has">): string {
  const fieldName = (name: string) => (has(`data.${name}`) ? t(`data.${name}`) : name);
  for (const [pattern, key] of MESSAGES) {
    const found = pattern.exec(message);
    if (!found) continue;
    const parts = found.map((part, index) => [index, OF_FIELDS.includes(key) ? fieldName(part) : part] as const);
    // The last part lists the cases in which a connection can be taken, or counts them.
    const listed = found.at(-1)!;
    const [, count] = /^one of its (\d+) handles$/.exec(listed) ?? [];
    const cases = [...(listed.match(/`[^`]*`/g) ?? []), ...(/\bnone$/.test(listed) ? [t("builder.next")] : [])].join(", ");
    return t(`problem.${key}`, { ...Object.fromEntries(parts), cases: count ? t("problem.cases", { count: Number(count) }) : cases });
  }
  return message.replace(FIELD, (_, name: string) => `\`${fieldName(name)}\``);
}
