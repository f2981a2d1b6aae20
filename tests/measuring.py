"""Measures which lines and branches of wfcore the tests run, by SlipCover.

The tracer of coverage.py nearly doubles the time of a test on Python 3.11; this costs a tenth, and some seconds at the
start of each process.
"""

import ast
import importlib.util
import json
import sys
from collections.abc import Sequence
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

import attrs
from slipcover import Slipcover, __version__, merge_coverage
from slipcover.branch import preinstrument

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
    probed: dict[str, CodeType] = attrs.field(factory=dict)
    """The modules with probes, by path: Alembic runs the steps of the schema anew for each database."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return self.watched(PathFinder.find_spec(fullname, path, target)) if _is_ours(fullname) else None

    def watched(self, spec: ModuleSpec | None) -> ModuleSpec | None:
        """The spec, with a loader that measures if it is one of a source file."""
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = Loader(spec.loader.name, spec.loader.path, self)
        return spec


class Loader(SourceFileLoader):
    """Runs a module with probes.

    SlipCover marks the branches in the source, and makes probes of the marks in what is compiled of it. That with marks
    is kept beside other compiled modules: no other process has to parse and compile the source.
    """

    def __init__(self, fullname: str, path: str, finder: Finder) -> None:
        super().__init__(fullname, path)
        self.finder = finder

    def exec_module(self, module: ModuleType) -> None:
        probed = self.finder.probed
        if self.path not in probed:
            probed[self.path] = self.finder.measurement.instrument(self.get_code(self.name))
        exec(probed[self.path], module.__dict__)

    def source_to_code(self, data: Any, path: Any, **_: Any) -> CodeType:  # type: ignore[override]
        return compile(preinstrument(ast.parse(data)), path, "exec", dont_inherit=True)

    def get_data(self, path: str) -> bytes:
        return super().get_data(_kept(path))

    def set_data(self, path: str, data: Any, **options: Any) -> None:
        super().set_data(_kept(path), data, **options)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "wfcore"


def _kept(path: str) -> str:
    """The path of a compiled module with marks; of other files, their own."""
    return f"{path.removesuffix('.pyc')}-slipcover-{__version__}.pyc" if path.endswith(".pyc") else path


def begin() -> Slipcover:
    """Measure each module of wfcore that is imported from now on, also those that Alembic loads from their files."""
    finder = Finder(measured())
    sys.meta_path.insert(0, finder)
    spec_from = importlib.util.spec_from_file_location

    @wraps(spec_from)
    def spec_from_file_location(name: str, location: Any = None, **options: Any) -> ModuleSpec | None:
        spec = spec_from(name, location, **options)
        return finder.watched(spec) if location and Path(location).is_relative_to(PACKAGE) else spec

    importlib.util.spec_from_file_location = spec_from_file_location
    return finder.measurement


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
