"""One `Telemetry` in front of several."""

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from wfcore.ports.telemetry import NONE, Counted, Ids, Labels, Level, Span, Telemetry, Timed, WorkKind


class FanOut:
    """Implements the port `Telemetry` by forwarding each call to every one of `targets`."""

    def __init__(self, targets: Sequence[Telemetry]) -> None:
        self._targets = tuple(targets)
        self.traces = any(one.traces for one in targets)

    def begin(self, kind: WorkKind, labels: Labels = NONE, ids: Ids = NONE, *, parent: Span | None = None) -> Span:
        parents = parent.spans if isinstance(parent, _FanOutSpan) else [None] * len(self._targets)
        pairs = zip(self._targets, parents, strict=True)
        return _FanOutSpan([one.begin(kind, labels, ids, parent=above) for one, above in pairs])

    def record_duration(self, what: Timed, seconds: float, outcome: str) -> None:
        for one in self._targets:
            one.record_duration(what, seconds, outcome)

    def count(self, what: Counted, labels: Labels = NONE) -> None:
        for one in self._targets:
            one.count(what, labels)

    def level(self, what: Level, value: float) -> None:
        for one in self._targets:
            one.level(what, value)


class _FanOutSpan:
    """The spans of one piece of work, one for each target."""

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
