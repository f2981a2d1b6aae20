"""The figures of a row, and the table of all rows."""

import json
from collections.abc import Iterable, Sequence

import attrs


@attrs.frozen
class Figure:
    """One measured figure of a piece of work. `at_most` and `at_least` are goals; without a goal it is only shown."""

    work: str
    what: str
    value: float
    unit: str = ""
    raw: str = ""
    ours: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def goal(self) -> str:
        if self.at_least is not None:
            return f">= {_number(self.at_least, self.unit)}"
        return "" if self.at_most is None else f"<= {_number(self.at_most, self.unit)}"

    @property
    def met(self) -> bool | None:
        """None without a goal."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.at_most is None else self.value <= self.at_most

    def of(self, work: str) -> "Figure":
        """One more figure of the same work."""
        return attrs.evolve(self, work=work)

    def to_json(self) -> dict[str, object]:
        return {**attrs.asdict(self), "goal": self.goal, "met": self.met}


def as_json(figures: Iterable[Figure]) -> str:
    return json.dumps([figure.to_json() for figure in figures], indent=1)


def as_table(figures: Sequence[Figure]) -> str:
    """Plain text: one line for each figure, with the name of the work once."""
    head = ("work", "figure", "raw", "wfcore", "measured", "goal", "met")
    lines = [head, *(_cells(figure, before) for figure, before in zip(figures, [None, *figures], strict=False))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([text[0], "-" * max(map(len, text)), *text[1:]])


def _cells(figure: Figure, before: Figure | None) -> tuple[str, ...]:
    work = "" if before is not None and before.work == figure.work else figure.work
    met = {True: "yes", False: "NO", None: ""}[figure.met]
    return work, figure.what, figure.raw, figure.ours, _number(figure.value, figure.unit), figure.goal, met


def rate(count: float, seconds: float) -> str:
    """A rate per second, with three digits."""
    a_second = count / max(seconds, 1e-9)
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if a_second >= size:
            return f"{a_second / size:.3g} {letter}/s"
    return f"{a_second:.3g}/s"


def _number(value: float, unit: str) -> str:
    if unit == "%":
        return f"{value * 100:.3g} %"
    return f"{value:.4g} {unit}".rstrip()
