"""The shapes of repairs: retrying, forking, moving and deleting runs (interface, Retry, Fork, Move-runs, Delete)."""

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from wfcore.api.resources import Body
from wfcore.api.runs import Channel, Key, Screen
from wfcore.domain.json.codec import JsonObject, NonEmpty, Positive
from wfcore.domain.json.values import UNSET, UnsetType, creation, value
from wfcore.domain.run.state import RunStatusName

Version = Literal["pinned", "published", "draft"]
NodeIds = Annotated[list[NonEmpty], Meta(max_length=1_000)]
Instant = Annotated[str, Meta(description="RFC 3339", extra_json_schema={"format": "date-time"})]
VariationId = Annotated[str, Meta(extra_json_schema={"format": "uuid"})]


class RetryFields(TypedDict, total=False):
    """`RetryRun` as keyword arguments; `nodes` is its `from`."""

    version: Version
    nodes: list[str]
    outputs: JsonObject
    skip: list[str]


class ForkFields(TypedDict, total=False):
    """`ForkRun` as keyword arguments."""

    before: str
    version: Version
    input: JsonObject


@creation
class RetryRun(Body):
    """How a failed or cancelled run goes on.

    `from` names nodes that run again with all that follows them. `outputs` gives nodes an output by hand, `skip` counts
    them as done with the output null; a condition or a humanApproval needs `outputs` with its `handle` or `decision`.
    """

    version: Version | UnsetType = UNSET
    from_: NodeIds | UnsetType = UNSET
    outputs: JsonObject | UnsetType = UNSET
    skip: NodeIds | UnsetType = UNSET


@creation
class ForkRun(Body):
    """A new execution with the results of a run, which continues before the last visit of a node."""

    before: NonEmpty
    version: Version | UnsetType = UNSET
    input: JsonObject | UnsetType = UNSET


@value
class RunSelection:
    """The filters of a list of runs. Only one of `workflowId`, `skillId` and `assistant` can be given."""

    status: RunStatusName | UnsetType = UNSET
    workflow_id: Positive | UnsetType = UNSET
    skill_id: Positive | UnsetType = UNSET
    assistant: Annotated[bool, Meta(extra_json_schema={"const": True})] | UnsetType = UNSET
    thread_id: Key | UnsetType = UNSET
    started_by: Key | UnsetType = UNSET
    origin: Literal[Screen, Channel, "automation"] | UnsetType = UNSET
    variation_id: VariationId | UnsetType = UNSET
    since: Instant | UnsetType = UNSET
    until: Instant | UnsetType = UNSET


@value
class RetryRuns(Body):
    """Retry the runs that a filter selects, the newest 1,000 at most; with `preview` only report what would happen."""

    filter: RunSelection
    version: Version | UnsetType = UNSET
    preview: bool | UnsetType = UNSET


class MoveFields(TypedDict, total=False):
    """`MoveRuns` as keyword arguments; `runs` is its `runIds`."""

    runs: list[str]
    all: bool


@value
class MoveRuns(Body):
    """Move waiting runs of a workflow to its active variation: those named, or all of them."""

    run_ids: Annotated[list[Key], Meta(min_length=1, max_length=1_000)] | UnsetType = UNSET
    all: Annotated[bool, Meta(extra_json_schema={"const": True})] | UnsetType = UNSET


class DifferenceDto(TypedDict):
    """Why what a run has done does not fit a graph.

    `arguments`: a node waits in a visit that has begun with other parameters than the graph gives it.
    """

    nodeId: str
    what: Literal["removed", "type", "edge", "arguments"]
    message: str


class MoveOutcomeDto(TypedDict):
    """What became of one run. `reason` is why it was not moved: `incompatible` (with differences), `not_found`,
    `not_waiting`, `ended`, `already_resumed`, `already_retried`, `already_active`, `access` or `busy`.
    """

    runId: str
    moved: bool
    differences: list[DifferenceDto]
    reason: str | None


class MoveOutcomes(TypedDict):
    """The outcome for each run: in the order of `runIds`, or newest first."""

    runs: list[MoveOutcomeDto]


class RepairOutcomeDto(TypedDict):
    """What became of one run. `moved`: it goes on, or would in a preview; `retriedBy` is the new turn."""

    runId: str
    moved: bool
    differences: list[DifferenceDto]
    reason: str | None
    retriedBy: str | None


class RepairOutcomes(TypedDict):
    """The outcome for each run, newest first."""

    runs: list[RepairOutcomeDto]
