"""Several who listen, as one."""

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from wfcore.ports.telemetry import NONE, Counted, Ids, Labels, Level, Span, Telemetry, Timed, WorkKind


class Several:
    """`wfcore.ports.telemetry.Telemetry` that tells each of these."""

    def __init__(self, listening: Sequence[Telemetry]) -> None:
        self._listening = tuple(listening)
        self.traces = any(one.traces for one in listening)

    def begin(self, kind: WorkKind, labels: Labels = NONE, ids: Ids = NONE, *, parent: Span | None = None) -> Span:
        parents = parent.spans if isinstance(parent, _Spans) else [None] * len(self._listening)
        pairs = zip(self._listening, parents, strict=True)
        return _Spans([one.begin(kind, labels, ids, parent=above) for one, above in pairs])

    def took(self, what: Timed, seconds: float, outcome: str) -> None:
        for one in self._listening:
            one.took(what, seconds, outcome)

    def count(self, what: Counted, labels: Labels = NONE) -> None:
        for one in self._listening:
            one.count(what, labels)

    def level(self, what: Level, value: float) -> None:
        for one in self._listening:
            one.level(what, value)


class _Spans:
    """The same work, as each of them knows it."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = spans
        self._entered = ExitStack()

    def __enter__(self) -> Self:
        for span in self.spans:
            self._entered.enter_context(span)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.__exit__(kind, error, trace)

    def end(self, outcome: str, labels: Labels = NONE, *, seconds: float | None = None) -> None:
        for span in self.spans:
            span.end(outcome, labels, seconds=seconds)
