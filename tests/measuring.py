"""Measures which lines and branches of wfcore the tests run, by SlipCover.

The tracer of coverage.py nearly doubles the time of a test on Python 3.11; this costs a tenth, and some seconds at the
start of each process.
"""

import json
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import attrs
from slipcover import FileMatcher, Slipcover, merge_coverage
from slipcover.importer import SlipcoverLoader, wrap_spec_from_file_location

PACKAGE: Final = Path(__file__).parent.parent / "src/wfcore"

EXCLUDED: Final = (r"\.\.\.$", "@abstractmethod", r"class .*\bProtocol\b.*:", "if __name__ == .__main__.:")
"""Lines that no test can run, with their blocks, besides those that SlipCover excludes."""

_NEVER: Final = 1 << 30
"""How often a line has to run before SlipCover searches all modules to replace code: it would cost more than it saves,
and fail while another thread imports a module.
"""


def measured(source: list[str] | None = None) -> Slipcover:
    return Slipcover(branch=True, d_miss_threshold=_NEVER, source=source, exclude_also=list(EXCLUDED))


@attrs.frozen(eq=False)
class Finder(MetaPathFinder):
    """Measures the modules of wfcore, also those whose assertions pytest would rewrite: it runs before its finder."""

    measurement: Slipcover

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "wfcore":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = SlipcoverLoader(self.measurement, spec.loader, spec.loader.path)
        return spec


def begin() -> Slipcover:
    """Measure each module of wfcore that is imported from now on, also those that Alembic loads from their files."""
    found = measured()
    sys.meta_path.insert(0, Finder(found))
    wrap_spec_from_file_location(found, FileMatcher(sources=[PACKAGE]))
    return found


def write(found: Slipcover, folder: Path, process: str) -> None:
    """Write what this process has run."""
    folder.mkdir(exist_ok=True)
    (folder / f"{process}.json").write_text(json.dumps(found.get_coverage()))


def merged(folder: Path) -> dict[str, Any]:
    """What all processes have run, as `files` of SlipCover's JSON report; modules that none has imported too."""
    report = measured([str(PACKAGE)]).get_coverage()
    for path in sorted(folder.glob("*.json")):
        merge_coverage(report, json.loads(path.read_text()))
    files: dict[str, Any] = report["files"]
    return files
