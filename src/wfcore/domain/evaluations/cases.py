"""The cases of a skill's `evaluations`: their shape, and the rules that a shape cannot express.

A case sends a message to the skill and checks what its agent does (interface, decisions on evaluations). `tools` has
the output of each stubbed tool; a tool without one is recorded and returns null.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, get_args

from msgspec import Meta

from wfcore.domain.agents.end_users import UserContext, end_user_issues
from wfcore.domain.expressions.cel.library import compiled_pattern
from wfcore.domain.expressions.expression import ExpressionError, compile_expression
from wfcore.domain.json.codec import JsonObject, NonEmpty, check
from wfcore.domain.json.schema import schema_issues
from wfcore.domain.json.values import UNSET, UnsetType, creation, structure
from wfcore.domain.kernel.errors import Issue, join_path
from wfcore.domain.kernel.json_readers import as_object, as_objects, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.content import SkillContent

MOST_CASES: Final = 50
"""The most cases of one skill: each is a run."""
MOST_CHECKS: Final = 20
"""The most checks of one case."""

VARIABLES: Final = ("output", "toolCalls", "cost")
"""What the expression of a `cel` check reads."""

CheckKind = Literal["contains", "matches", "equals", "jsonSchema", "cel", "toolCalled", "notToolCalled", "judge"]

PARAMETERS: Final[Mapping[CheckKind, tuple[str, tuple[str, ...]]]] = {
    "contains": ("value", ()),
    "matches": ("pattern", ()),
    "equals": ("value", ()),
    "jsonSchema": ("schema", ()),
    "cel": ("expression", ()),
    "toolCalled": ("tool", ("args",)),
    "notToolCalled": ("tool", ("args",)),
    "judge": ("criteria", ("model",)),
}
"""For each kind of check the field that it requires, and those that it can have."""

CaseId = Annotated[str, Meta(min_length=1, max_length=100, pattern="^[A-Za-z0-9._-]+$")]


@creation
class EvaluationInput:
    """What the case sends: a message, and the end user whose message it is."""

    message: NonEmpty
    user_context: UserContext | UnsetType = UNSET


@creation
class EvaluationCheck:
    """One check. The kind decides which of the other fields it takes.

    `contains`, `equals`: `value`. `matches`: `pattern`, in RE2. `jsonSchema`: `schema`. `cel`: `expression` over
    `output`, `toolCalls` and `cost`. `toolCalled`, `notToolCalled`: `tool`, and the `args` that the call must have.
    `judge`: `criteria` that a `model` applies.
    """

    kind: CheckKind
    value: Annotated[Any, Meta(description="A string for `contains`, any value for `equals`")] = UNSET
    pattern: NonEmpty | UnsetType = UNSET
    schema: Annotated[Any, Meta(description="A JSON Schema: an object or a boolean")] = UNSET
    expression: NonEmpty | UnsetType = UNSET
    tool: NonEmpty | UnsetType = UNSET
    args: JsonObject | UnsetType = UNSET
    criteria: NonEmpty | UnsetType = UNSET
    model: NonEmpty | UnsetType = UNSET


@creation
class EvaluationCase:
    """One case. A `required` one must pass before its variation can be deployed."""

    id: CaseId
    name: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    input: EvaluationInput
    tools: Annotated[JsonObject, Meta(description="The output of each stubbed tool, by its id")] | UnsetType = UNSET
    checks: Annotated[list[EvaluationCheck], Meta(min_length=1, max_length=MOST_CHECKS)]
    required: Annotated[bool, Meta(description="Default false")] | UnsetType = UNSET


def cases_of(content: SkillContent) -> list[EvaluationCase]:
    """The cases of a skill's content."""
    return [structure(EvaluationCase, case) for case in content.evaluations]


def case_issues(evaluations: JSON) -> list[Issue]:
    """The errors of `evaluations` beyond their shape; what is not of valid shape is skipped."""
    if not isinstance(evaluations, list):
        return []
    issues, seen = list[Issue](), set[str]()
    if len(evaluations) > MOST_CASES:
        issues.append(Issue("evaluations", f"a skill has at most {MOST_CASES} cases", "maxItems"))
    for place, case in enumerate(evaluations[:MOST_CASES]):
        path = f"evaluations[{place}]"
        if not check(EvaluationCase, case):
            issues += _issues_of(path, as_object(case), seen)
    return issues


def _issues_of(path: str, case: Mapping[str, JSON], seen: set[str]) -> Iterator[Issue]:
    name = str(case["id"])
    if name in seen:
        yield Issue(f"{path}.id", f"`{name}` is given twice", "unique")
    seen.add(name)
    for issue in end_user_issues(as_object(case["input"]).get("userContext")):
        yield Issue(f"{path}.input.{issue.path}", issue.message, issue.rule)
    for place, one in enumerate(as_objects(case["checks"])):
        yield from _check_issues(f"{path}.checks[{place}]", one)


def _check_issues(path: str, one: Mapping[str, JSON]) -> Iterator[Issue]:
    kind: Any = one["kind"]
    needed, possible = PARAMETERS[kind]
    if needed not in one:
        yield Issue(join_path(path, needed), f"is required by `{kind}`", "required_if")
    for name in one.keys() - {"kind", needed, *possible}:
        yield Issue(join_path(path, name), f"has no effect on a check of kind `{kind}`", "unsupported")
    if needed in one:
        yield from _value_issues(join_path(path, needed), kind, one[needed])


def _value_issues(path: str, kind: CheckKind, given: JSON) -> Iterator[Issue]:
    """The errors of the field that the kind requires."""
    if kind == "contains" and not (isinstance(given, str) and given):
        yield Issue(path, "must be a string of at least one character", "type_of_value")
    elif kind == "jsonSchema":
        yield from schema_issues(given, path)
    elif kind in ("matches", "cel"):
        try:
            compiled_pattern(as_text(given)) if kind == "matches" else compile_expression(as_text(given), VARIABLES)
        except ExpressionError as error:
            yield Issue(path, error.message, "pattern" if kind == "matches" else "expression")


assert PARAMETERS.keys() == set(get_args(CheckKind))  # noqa: S101  (a new kind needs its fields)
