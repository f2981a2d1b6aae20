"""Measurements and traces of work: how long it took and how it ended.

`labels` have few values, all chosen by this program, and become labels of metrics. `ids` identify single objects and
go to traces only. Neither ever carries arguments, outputs, or text that a user wrote.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from enum import StrEnum
from types import TracebackType
from typing import Final, Protocol, Self

RUN: Final[ContextVar[str]] = ContextVar("wfcore_run", default="")
"""The id of the run that the current task drives, for log records; "" outside of a run."""

Labels = Mapping[str, str]
Ids = Mapping[str, str | int]
NONE: Final[Mapping[str, str]] = {}


class WorkKind(StrEnum):
    """The kinds of work that are measured from start to end."""

    request = "request"
    """One HTTP request until its response. Labels `method`, `route`; `status` is added at the end."""
    stream = "stream"
    """One event stream that is being read."""
    turn = "turn"
    """An execution that this process drives, until it waits or ends. Ids `run`, `org`."""
    node = "node"
    """One visit of a node that has effects, from its first effect to its last."""
    effect = "effect"
    """One attempt of a call. Label `kind`: `core`, `app`, `mcp`, `model`, `child` or `context`; id `tool`."""


class Timed(StrEnum):
    """Work of which only duration and outcome are measured."""

    append = "append"
    """One append to a journal. Outcomes: `written`, `conflict`, `failed`."""
    commit = "commit"
    """One commit of the store, which many appends can share."""


class Counted(StrEnum):
    """Events that are only counted."""

    run_started = "run_started"
    run_ended = "run_ended"
    """Label `status`: the state in which a turn came to rest."""


class Level(StrEnum):
    """Gauges: values that go up and down."""

    dispatch_lag = "dispatch_lag"
    """For how many seconds the longest waiting execution has been due without being claimed."""


class Span(Protocol):
    """Work in progress. Work that begins in its `with` block is a part of it; leaving the block does not end it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def end(self, outcome: str, labels: Labels = NONE, *, seconds: float | None = None) -> None:
        """End the work, once. `seconds` is its duration when it did not end just now.

        `labels` are those that were unknown when it began.
        """
        ...


class Telemetry(Protocol):
    """Implementers: never raise and never wait. A measurement that is not used costs almost nothing."""

    @property
    def traces(self) -> bool:
        """Whether nodes and ids are used; if not, effects are reported without them."""
        ...

    def begin(self, kind: WorkKind, labels: Labels = NONE, ids: Ids = NONE, *, parent: Span | None = None) -> Span:
        """Begin work, as a part of `parent`, otherwise of the work in whose `with` block this is called."""
        ...

    def record_duration(self, what: Timed, seconds: float, outcome: str) -> None:
        """Record work that has ended, with the outcome of its kind."""
        ...

    def count(self, what: Counted, labels: Labels = NONE) -> None:
        """Count one event."""
        ...

    def level(self, what: Level, value: float) -> None:
        """Set the gauge, in the unit of its kind."""
        ...


class Exposition(Protocol):
    """Metrics as text, for a scraper."""

    @property
    def content_type(self) -> str:
        """The value of the header `Content-Type` for the text."""
        ...

    def text(self) -> bytes:
        """All metrics as they are now."""
        ...
