"""The shapes of decisions over several runs, and of the count of the inbox (interface, `GET /agent/v1/interrupts`)."""

from typing import Annotated, TypedDict

from msgspec import Meta

from wfcore.api.resources import Body, ErrorBody
from wfcore.api.runs import InboxItemDto, InterruptDecision
from wfcore.domain.json.values import value


@value
class DecideInterrupts(Body):
    """Up to 100 decisions on interrupts of any runs."""

    decisions: Annotated[list[InterruptDecision], Meta(min_length=1, max_length=100)]


class InboxPageDto(TypedDict):
    """A page of the inbox. `total` counts the interrupts of all pages."""

    interrupts: list[InboxItemDto]
    nextPageToken: str | None
    total: int


class DecisionOutcomeDto(TypedDict):
    """`runId` and `status` of the new turn, or the `error`."""

    interruptId: str
    runId: str | None
    status: str | None
    error: ErrorBody | None


class DecisionOutcomes(TypedDict):
    """The outcome of each decision, in the order of the request."""

    outcomes: list[DecisionOutcomeDto]


class InboxCount(TypedDict):
    """How many interrupts wait for the caller."""

    count: int
