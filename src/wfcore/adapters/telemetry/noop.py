"""A span that records nothing."""

from types import TracebackType
from typing import Self

from wfcore.ports.telemetry import NONE, Labels


class NoopSpan:
    """A span that records nothing. Only `end` ends a span: leaving the `with` block does nothing."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Does nothing."""

    def end(self, outcome: str, labels: Labels = NONE, *, seconds: float | None = None) -> None:
        """Does nothing."""
