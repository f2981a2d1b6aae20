"""The types of nodes, each declared once (interface, WorkflowStructure).

A class of values declares the `data` of a type. From it come the check of a deploy (`NODE_DATA`), the JSON Schema of
the OpenAPI document and of `GET /node-types`, and the value from which a plan is compiled.

Unknown keys of `data` and of a branch are kept verbatim: a builder may store its own there. `retry`, `approvers`
and `modelSettings` refuse unknown keys, which are probably misspelled.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal

import attrs
from msgspec import Meta

from wfcore.domain.graph.checks import (
    Check,
    Known,
    agent_tool,
    email,
    expression,
    found,
    known_skill,
    known_tool,
    must,
    schema,
    template,
    unique,
    uuid,
)
from wfcore.domain.graph.declared import Rule, check_of, value_classes
from wfcore.domain.json.codec import JsonObject, NonEmpty, Positive, closed, component_name, schemas_of
from wfcore.domain.json.values import UNSET, UnsetType, is_open, open_value, value, wire
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_readers import as_number, as_object, as_texts
from wfcore.domain.kernel.json_type import JSON

MAX_SECONDS = 100 * 365 * 86_400
"""A hundred years: a longer wait is a mistake."""

ELSE = "else"


class NodeType(StrEnum):
    """The kinds of nodes (interface, WorkflowStructure)."""

    START = "start"
    ACTION = "action"
    CONDITION = "condition"
    AGENT = "agent"
    HUMAN_APPROVAL = "humanApproval"


NodeTypeName = Literal["start", "action", "condition", "agent", "humanApproval"]
"""The values of `NodeType`, for shapes."""


# Rules that a type cannot state; they only get values of the declared type.


def has_work(data: JSON, known: Known) -> Sequence[Issue]:
    """An agent has a skill or something to do."""
    agent = as_object(data)
    if "agent_id" in agent or agent.get("message") or agent.get("instructions"):
        return ()
    return found("required_if", "without `agent_id`, a `message` or `instructions` is required", "message")


def names_approvers(data: JSON, known: Known) -> Sequence[Issue]:
    """Approvers are at least one e-mail or group."""
    approvers = as_object(data)
    if approvers.get("emails") or approvers.get("groups"):
        return ()
    message = "must name an e-mail or a group; without `approvers` everyone who can use the workflow may decide"
    return found("minItems", message)


not_else = must(
    lambda handle, _: handle != ELSE,
    "reserved",
    "`else` is reserved for the case that no branch holds",
)


def enough_approvers(data: JSON, known: Known) -> Sequence[Issue]:
    """A humanApproval that names only e-mails cannot require more approvals than it names people."""
    approval = as_object(data)
    approvers = as_object(approval.get("approvers", {}))
    people = len({address.lower() for address in as_texts(approvers.get("emails", ()))})
    if not people or approvers.get("groups") or as_number(approval.get("requiredApprovals", 1)) <= people:
        return ()
    return found("range", f"must be at most {people}, the number of approvers", "requiredApprovals")


def has_escalation(data: JSON, known: Known) -> Sequence[Issue]:
    """`escalateAfterSeconds` and `escalateTo` only have an effect together."""
    keys = ("escalateAfterSeconds", "escalateTo")
    given = [key for key in keys if key in as_object(data)]
    if len(given) != 1:
        return ()
    (missing,) = {*keys} - {*given}
    return found("required_if", f"is required with `{given[0]}`", missing)


def before_timeout(data: JSON, known: Known) -> Sequence[Issue]:
    """A reminder or an escalation after the deadline would have no effect."""
    approval = as_object(data)
    if "timeoutSeconds" not in approval:
        return ()
    longest = as_number(approval["timeoutSeconds"])
    late = [key for key in ("remindAfterSeconds", "escalateAfterSeconds") if as_number(approval.get(key, 0)) >= longest]
    return [Issue(key, f"must be less than `timeoutSeconds` ({longest:g})", "range") for key in late]


# Types of keys.

Seconds = Annotated[float, Meta(gt=0, le=MAX_SECONDS)]
Interval = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
ToolId = Annotated[str, Meta(min_length=1), Rule(known_tool)]
AgentToolId = Annotated[str, Meta(min_length=1), Rule(agent_tool)]
Expression = Annotated[str, Rule(expression)]
Message = Annotated[str, Meta(description="A template: text with `{{ expression }}`"), Rule(template)]
SchemaJson = Annotated[Any, Meta(extra_json_schema={"type": ["object", "boolean"]}), Rule(schema, "instead")]
Timeout = Annotated[Seconds, Meta(description="Without it, the node has no time limit")]


@value
class ModelSettingsDto:
    """Settings of a model; absent ones are those of the model."""

    context_window: Annotated[Positive, Meta(description="The most tokens of a prompt")] | UnsetType = UNSET
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | UnsetType = UNSET


@value
class RetryPolicy:
    """How often a failed call is made again, and after what time."""

    max_attempts: Annotated[int, Meta(ge=1, le=100, description="The first try counts; default 1")] | UnsetType = UNSET
    initial_interval_seconds: Annotated[Interval, Meta(description="Default 1")] | UnsetType = UNSET
    backoff_coefficient: (
        Annotated[float, Meta(ge=1, le=1_000, description="The factor between two intervals; default 2")] | UnsetType
    ) = UNSET
    max_interval_seconds: Annotated[Interval, Meta(description="Default 300")] | UnsetType = UNSET


@value
class Approvers:
    """Who can decide: at least one e-mail or group."""

    emails: list[Annotated[str, Rule(email)]] | UnsetType = UNSET
    groups: list[Annotated[str, Meta(description="The UUID of a group"), Rule(uuid)]] | UnsetType = UNSET


@open_value
class Branch:
    """One branch of a condition."""

    handle: Annotated[
        str, Meta(min_length=1, max_length=255, description="Not `else`, and not that of another branch"),
        Rule(not_else),
    ]  # fmt: skip
    when: Annotated[Expression, Meta(description="An expression: the branch is taken if it is true")]


# The data of each type.


@open_value
class StartData:
    """The data of a start node."""

    input_schema: Annotated[SchemaJson, Meta(description="A JSON Schema of the input of a run")] | UnsetType = UNSET


@open_value
class ActionData:
    """The data of an action."""

    tool_id: Annotated[ToolId, Meta(description="The tool that is called")]
    tool_name: Annotated[str, Meta(description="The name of the tool, shown to approvers")] | UnsetType = UNSET
    ai_description: Annotated[str, Meta(description="What the call is for, shown to approvers")] | UnsetType = UNSET
    params: (
        Annotated[JsonObject, Meta(description="The arguments; texts can have `{{ expression }}`"), Rule(template)]
        | UnsetType
    ) = UNSET
    for_each: (
        Annotated[Expression, Meta(description="An expression for a list: one call for each `item`")] | UnsetType
    ) = UNSET
    max_concurrency: (
        Annotated[Positive, Meta(description="The most calls at the same time with `forEach`; default 50")] | UnsetType
    ) = UNSET
    concurrency_key: (
        Annotated[
            NonEmpty,
            Meta(description="A template: calls of the organization with the same key share `concurrencyLimit`"),
            Rule(template),
        ]
        | UnsetType
    ) = UNSET
    concurrency_limit: (
        Annotated[int, Meta(ge=1, le=1_000, description="The most calls at the same time with the key; default 1")]
        | UnsetType
    ) = UNSET
    requires_approval: (
        Annotated[bool, Meta(description="Whether a person has to approve the exact arguments")] | UnsetType
    ) = UNSET
    retry: RetryPolicy | UnsetType = UNSET
    timeout_seconds: Timeout | UnsetType = UNSET


@open_value
class ConditionData:
    """The data of a condition: the first branch that holds is taken, else the handle `else`."""

    branches: Annotated[list[Branch], Meta(min_length=1), Rule(unique("handle"), "every")]


@open_value
class AgentData:
    """The data of an agent. Without a skill it needs a message or instructions."""

    agent_id: Annotated[Positive, Meta(description="The id of a skill"), Rule(known_skill)] | UnsetType = attrs.field(
        default=UNSET, metadata=wire("agent_id")
    )
    message: Message | UnsetType = UNSET
    instructions: str | list[str] | UnsetType = UNSET
    tool_restrictions: (
        Annotated[list[AgentToolId], Meta(description="The only tools that the agent can use")] | UnsetType
    ) = attrs.field(default=UNSET, metadata=wire("tool_restrictions"))
    model: Annotated[NonEmpty, Meta(description="The name of a configured model")] | UnsetType = UNSET
    model_settings: ModelSettingsDto | UnsetType = UNSET
    output_schema: (
        Annotated[SchemaJson, Meta(description="A JSON Schema: the output is then an object that fits it")] | UnsetType
    ) = UNSET
    retry: RetryPolicy | UnsetType = UNSET
    timeout_seconds: Timeout | UnsetType = UNSET


@open_value
class HumanApprovalData:
    """The data of a humanApproval. Without `approvers` everyone who can use the workflow can decide."""

    message: Message | UnsetType = UNSET
    approvers: Annotated[Approvers, Rule(names_approvers)] | UnsetType = UNSET
    required_approvals: Annotated[Positive, Meta(description="Of different people; default 1")] | UnsetType = UNSET
    allow_self_approval: (
        Annotated[bool, Meta(description="Whether who started the run can decide; default true")] | UnsetType
    ) = UNSET
    form_schema: Annotated[SchemaJson, Meta(description="A JSON Schema of the `data` of an approval")] | UnsetType = (
        UNSET
    )
    timeout_seconds: Annotated[Seconds, Meta(description="Without it, the node waits for ever")] | UnsetType = UNSET
    on_timeout: (
        Annotated[
            Literal["approve", "deny", "error"],
            Meta(description="After the timeout, without an `expired` edge; default `deny`"),
        ]
        | UnsetType
    ) = UNSET
    remind_after_seconds: (
        Annotated[Seconds, Meta(description="When the approvers are reminded, once; less than the timeout")] | UnsetType
    ) = UNSET
    escalate_after_seconds: (
        Annotated[Seconds, Meta(description="When `escalateTo` can decide too; less than the timeout")] | UnsetType
    ) = UNSET
    escalate_to: (
        Annotated[Approvers, Meta(description="Who can decide too after `escalateAfterSeconds`"), Rule(names_approvers)]
        | UnsetType
    ) = UNSET


NodeData = StartData | ActionData | ConditionData | AgentData | HumanApprovalData


# The table.


@attrs.frozen
class KeysRule:
    """A rule between keys of `data`: it only gets data in which none of them has an issue."""

    keys: frozenset[str]
    check: Check


@attrs.frozen
class NodeDeclaration:
    """A type of node: its data, the rules between their keys, its handles with a text for each, and its texts.

    None is the unnamed handle. `handles_from` is the key of `data` whose items each have a further handle.
    """

    kind: NodeType
    title: str
    description: str
    data: type[NodeData]
    handles: Mapping[str | None, str]
    rules: tuple[KeysRule, ...] = ()
    handles_from: str | None = None

    def check(self) -> Check:
        """The check of `data`: each key, and the rules between keys without an issue."""
        of_keys, rules = check_of(self.data), self.rules

        def check(data: JSON, known: Known) -> Sequence[Issue]:
            issues = of_keys(data, known)
            if not rules or not isinstance(data, dict):
                return issues
            faulty = {_key_of(issue.path) for issue in issues}
            return [*issues, *(one for rule in rules if not rule.keys & faulty for one in rule.check(data, known))]

        return check

    def to_wire(self) -> dict[str, JSON]:
        """The declaration as a builder reads it."""
        return {
            "type": self.kind.value,
            "title": self.title,
            "description": self.description,
            "dataSchema": self.schema(),
            "handles": [{"handle": handle, "description": text} for handle, text in self.handles.items()],
            "handlesFrom": self.handles_from,
        }

    def schema(self) -> dict[str, JSON]:
        """The JSON Schema of `data` (2020-12), which has the schemas of its parts as definitions.

        It does not state the rules between keys, and what expressions and ids refer to.
        """
        names = {component_name(cls) for cls in value_classes(self.data) if not is_open(cls)}
        parts = {
            name: closed(part) if name in names else part for name, part in schemas_of([self.data], "#/$defs/").items()
        }
        root = parts.pop(component_name(self.data))
        return {**root, "$defs": parts} if parts else root


def _key_of(path: str) -> str:
    """The first key of a path; the keys of rules are identifiers."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


_DONE = "After the node is done"
_FAILED = "After the node failed; without an edge from here, the run ends in error"

NODE_TYPES: Mapping[NodeType, NodeDeclaration] = {
    one.kind: one
    for one in (
        NodeDeclaration(
            NodeType.START, "Start", "Where a run begins. A graph has exactly one.", StartData, {None: "The first step"}
        ),
        NodeDeclaration(
            NodeType.ACTION,
            "Action",
            "Calls a tool, once or for each item of a list.",
            ActionData,
            {None: _DONE, "error": _FAILED},
        ),
        NodeDeclaration(
            NodeType.CONDITION,
            "Condition",
            "Takes the first branch that holds.",
            ConditionData,
            {ELSE: "If no branch holds"},
            handles_from="branches",
        ),
        NodeDeclaration(
            NodeType.AGENT,
            "Agent",
            "Runs a skill, or calls a model once.",
            AgentData,
            {None: _DONE, "error": _FAILED},
            (KeysRule(frozenset({"agent_id", "message", "instructions"}), has_work),),
        ),
        NodeDeclaration(
            NodeType.HUMAN_APPROVAL,
            "Approval",
            "Waits until people decide.",
            HumanApprovalData,
            {
                "approved": "After enough approvals",
                "denied": "After a denial; without an edge from here, this path ends",
                "expired": "After `timeoutSeconds`; without an edge from here, `onTimeout` decides",
            },
            (
                KeysRule(frozenset({"approvers", "requiredApprovals"}), enough_approvers),
                KeysRule(frozenset({"escalateAfterSeconds", "escalateTo"}), has_escalation),
                KeysRule(frozenset({"timeoutSeconds", "remindAfterSeconds", "escalateAfterSeconds"}), before_timeout),
            ),
        ),
    )
}

NODE_DATA: Mapping[NodeType, Check] = {kind: declared.check() for kind, declared in NODE_TYPES.items()}
"""The check of `data` for each node type."""
