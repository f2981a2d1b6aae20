"""The shapes of variations, their differences, proposals, and the impact of a deploy (interface, Impact)."""

from typing import Annotated, Final, Literal, NotRequired, TypedDict

from msgspec import Meta

from wfcore.api.choices import MAX_RULES, SimulationDto
from wfcore.api.management import NextRun
from wfcore.api.repairs import DifferenceDto
from wfcore.api.resources import Body
from wfcore.domain.json.codec import JsonObject, Time
from wfcore.domain.json.values import UNSET, UnsetType, value
from wfcore.domain.kernel.errors import Severity
from wfcore.domain.rules.rules import MAX_RULE
from wfcore.domain.run.events import ModelUsage

MAX_REQUEST: Final = 10_000
"""The most characters of a request for a proposal."""


class VariationRecord(TypedDict):
    """One variation. `variation` is its content, as in a read of its resource."""

    id: str
    deployedAt: Time | None
    deployedBy: str | None
    createdAt: Time
    createdBy: str
    isActive: bool
    variation: JsonObject


class ChangedElement(TypedDict):
    """An element that both have, and the paths in it whose values differ."""

    id: str
    paths: list[str]


class ElementDifference(TypedDict):
    """Added and removed ids, and changed elements."""

    added: list[str]
    removed: list[str]
    changed: list[ChangedElement]


class VariationDifference(TypedDict):
    """`fields` are the paths outside of nodes and edges. Positions are not compared."""

    nodes: ElementDifference
    edges: ElementDifference
    fields: list[str]


class ProposalFields(TypedDict, total=False):
    """`ProposeChange` as keyword arguments."""

    request: str
    model: str
    rules: list[str]


@value
class ProposeChange(Body):
    """What to change, in words, for the configured model that is named, else for the default one.

    `rules` about runs hold for the proposal, such as `never pay without approved ask`.
    """

    request: Annotated[str, Meta(min_length=1, max_length=MAX_REQUEST)]
    model: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    rules: Annotated[list[Annotated[str, Meta(max_length=MAX_RULE)]], Meta(max_length=MAX_RULES)] | UnsetType = UNSET


class ProposalDto(TypedDict):
    """A graph that could be deployed, how it differs from the draft, and the simulation of its runs.

    Nothing is saved: a PATCH of the workflow with `workflowStructure` applies it. `runIds` are the runs that called the
    model, one for each attempt, and `usage` is that of all of them.
    """

    explanation: str
    workflowStructure: JsonObject
    diff: VariationDifference
    simulation: SimulationDto
    runIds: list[str]
    usage: ModelUsage


class ImpactIssue(TypedDict):
    """An issue of the draft, as `validate` lists it."""

    path: str
    message: str
    rule: str
    severity: Severity
    counterExample: NotRequired[list[str]]


class WaitingRunsDto(TypedDict):
    """The waiting runs of one variation that fit the draft, or do not.

    `fits` is null for what was not checked: beyond the newest 1,000, and while the draft has errors.
    """

    variationId: str | None
    count: int
    fits: bool | None
    differences: list[DifferenceDto]


class PlannedScheduleDto(TypedDict):
    """A trigger, and when its schedule fires next, enabled or not."""

    trigger: JsonObject | None
    isEnabled: bool
    nextRuns: list[NextRun]


class SchedulesDto(TypedDict):
    """Before and after the deploy."""

    before: PlannedScheduleDto
    after: PlannedScheduleDto


class PolicyImpact(TypedDict):
    """The verdict on a policy. `unknown`: the draft has errors. `counterExample`: node ids of a path that breaks it."""

    policyId: str
    name: str
    severity: Severity
    status: Literal["kept", "broken", "unknown"]
    counterExample: list[str] | None


class EvaluationImpact(TypedDict):
    """The state of a case of a skill that the graph uses, and that the caller can manage."""

    skillId: int
    caseId: str
    name: str | None
    required: bool
    state: Literal["passed", "failed", "running", "never_ran"]
    runId: str | None


class MeanUsage(TypedDict):
    """The mean of a run; null without runs. `cost` is null without prices."""

    inputTokens: int | None
    outputTokens: int | None
    cost: float | None


class CostImpact(TypedDict):
    """What models consumed in the newest runs of the last 30 days, at most 1,000."""

    runs: int
    perRun: MeanUsage


class DeployImpact(TypedDict):
    """What a deploy of the draft would change."""

    diff: VariationDifference
    issues: list[ImpactIssue]
    waiting: list[WaitingRunsDto]
    schedule: SchedulesDto
    policies: list[PolicyImpact]
    evaluations: list[EvaluationImpact]
    cost: CostImpact
