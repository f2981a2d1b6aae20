"""The span of what is of no interest."""

from types import TracebackType
from typing import Self

from wfcore.ports.telemetry import NONE, Labels


class Unheeded:
    """A span that tells nobody. Only `end` ends a span, so that its block does nothing in those that tell, too."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing."""

    def end(self, outcome: str, labels: Labels = NONE, *, seconds: float | None = None) -> None:
        """Nothing."""
