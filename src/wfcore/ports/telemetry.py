"""What is told of work as it happens, to whoever measures and traces it: how long it took and how it ended.

`labels` have few values, which this program chooses: they become labels of metrics. `ids` tell one thing from the
next and go to traces only. Neither ever carries arguments, outputs, or text that somebody wrote.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from enum import StrEnum
from types import TracebackType
from typing import Final, Protocol, Self

RUN: Final[ContextVar[str]] = ContextVar("wfcore_run", default="")
"""The run that is being driven here, for whoever logs; "" outside of any."""

Labels = Mapping[str, str]
Ids = Mapping[str, str | int]
NONE: Final[Mapping[str, str]] = {}


class WorkKind(StrEnum):
    """The kinds of work that have a beginning and an end here."""

    request = "request"
    """One HTTP request, to its answer. Labels `method`, `route`; ended with `status` beside."""
    stream = "stream"
    """One event stream that is being read."""
    turn = "turn"
    """An execution in the hands of this process, until it waits or ends. Ids `run`, `org`."""
    node = "node"
    """One visit of a node that has something done, from its first effect to its last."""
    effect = "effect"
    """One attempt of a call. Label `kind`: `core`, `app`, `mcp`, `model`, `child` or `context`; id `tool`."""


class Timed(StrEnum):
    """What is only timed, with how it ended."""

    append = "append"
    """One append to a journal: `written`, refused for a `conflict`, or `failed`."""
    commit = "commit"
    """One commit of the store, which many appends may share."""


class Counted(StrEnum):
    """What is only counted."""

    run_started = "run_started"
    run_ended = "run_ended"
    """Label `status`: the state in which a turn came to rest."""


class Level(StrEnum):
    """What goes up and down."""

    dispatch_lag = "dispatch_lag"
    """Seconds since the execution was due that has waited longest for somebody to take it up."""


class Span(Protocol):
    """Work under way. In a `with` block of it, other work is part of it; leaving the block does not end it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def end(self, outcome: str, labels: Labels = NONE, *, seconds: float | None = None) -> None:
        """It is over; `seconds` after it began when that was not just now. Once only.

        `labels` are those that were not known at its beginning.
        """
        ...


class Telemetry(Protocol):
    """Implementers: never raise and never wait. What is of no interest costs next to nothing."""

    @property
    def traces(self) -> bool:
        """Whether nodes and ids are of interest; if not, effects are told without them."""
        ...

    def begin(self, kind: WorkKind, labels: Labels = NONE, ids: Ids = NONE, *, parent: Span | None = None) -> Span:
        """Work begins. It is part of `parent`, else of the work in whose block this is called."""
        ...

    def took(self, what: Timed, seconds: float, outcome: str) -> None: ...

    def count(self, what: Counted, labels: Labels = NONE) -> None: ...

    def level(self, what: Level, value: float) -> None: ...


class Exposition(Protocol):
    """Metrics as text, for whoever scrapes them."""

    @property
    def content_type(self) -> str: ...

    def text(self) -> bytes: ...
