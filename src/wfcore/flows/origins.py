"""Where a program describes a part of a flow, so that an error found later points at its line."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from wfcore.domain.kernel.errors import Invalid, Issue

_PACKAGE: Final = __name__.rpartition(".")[0]


@attrs.frozen
class SourceLine:
    """A line of a program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class FlowError(Invalid):
    """A flow that cannot run. `issues` has every reason, with the line where the program describes that part."""

    def __init__(self, issues: Sequence[Issue], lines: Sequence[SourceLine]) -> None:
        found = [f"{line}: {issue.message}" for issue, line in zip(issues, lines, strict=True)]
        errors = [{**issue.to_wire(), "line": str(line)} for issue, line in zip(issues, lines, strict=True)]
        super().__init__("\n".join(found), {"errors": errors})
        self.issues = tuple(issues)
        self.lines = tuple(lines)


def origin() -> SourceLine:
    """The line that called into this package, with its file below the working directory if it is there."""
    frame = sys._getframe(1)  # noqa: SLF001  (the documented way to the caller's line)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame = frame.f_back
    return SourceLine(_short(frame.f_code.co_filename), frame.f_lineno)


def refused(message: str, rule: str = "flow", path: str = "") -> FlowError:
    """An error at the line that called into this package."""
    return FlowError([Issue(path, message, rule)], [origin()])


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
