"""Prints the branch coverage of each package of wfcore, and fails when one is below its floor.

It reads `.coverage`, the folder that the tests write if the environment has `MEASURE=.coverage`.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import measuring

FLOORS: Final = {
    "wfcore": 95.0,
    "wfcore.domain": 100.0,
    "wfcore.flows": 99.0,
    "wfcore.adapters": 99.0,
    "wfcore.adapters.dispatch": 97.0,
    "wfcore.adapters.http": 98.0,
    "wfcore.adapters.inmemory": 99.0,
    "wfcore.adapters.mem0": 99.0,
    "wfcore.adapters.models": 97.0,
    "wfcore.adapters.oauth": 98.0,
    "wfcore.adapters.outbound": 97.0,
    "wfcore.adapters.sql": 94.0,
    "wfcore.adapters.telemetry": 99.0,
    "wfcore.adapters.tools": 97.0,
    "wfcore.api": 100.0,
    "wfcore.cli": 96.0,
    "wfcore.cli.commands": 80.0,  # servers and workers run as processes of their own, which are not measured
    "wfcore.ports": 100.0,
    "wfcore.runtime": 99.0,
    "wfcore.runtime.agents": 96.0,
    "wfcore.runtime.channels": 96.0,
    "wfcore.runtime.common": 98.0,
    "wfcore.runtime.data": 96.0,
    "wfcore.runtime.execution": 95.0,
    "wfcore.runtime.organization": 98.0,
    "wfcore.runtime.resources": 97.0,
    "wfcore.runtime.runs": 95.0,
    "wfcore.runtime.tools": 98.0,
    "wfcore.runtime.triggers": 95.0,
    "wfcore.settings": 98.0,
    "wfcore.testing": 96.0,
    "wfcore.testing.contracts": 98.0,
}
"""Percent of lines and branches of a package that the tests must run. The nearest enclosing package counts."""


FOLDER: Final = Path(__file__).parent.parent / ".coverage"


class Part(NamedTuple):
    """Lines and branches: how many there are, and how many ran."""

    total: int
    ran: int

    def percent(self) -> float:
        return 100.0 * self.ran / self.total if self.total else 100.0


def package_of(file: str) -> str:
    """The package of a file `src/wfcore/domain/run/plan.py`, at most three levels deep: `wfcore.domain.run`."""
    parts = Path(file).with_suffix("").parts
    return ".".join(parts[parts.index("wfcore") : -1][:3])


def measured(files: Mapping[str, Any]) -> dict[str, Part]:
    """The parts of each package, from the `files` of SlipCover's JSON report."""
    found: dict[str, list[Part]] = defaultdict(list)
    for file, report in files.items():
        ran = len(report["executed_lines"]) + len(report["executed_branches"])
        missing = len(report["missing_lines"]) + len(report["missing_branches"])
        found[package_of(file)].append(Part(ran + missing, ran))
    return {name: _sum(found[name]) for name in sorted(found)}


def floor_of(package: str, floors: Mapping[str, float] = FLOORS) -> float:
    """The floor of the package itself, or of the nearest package around it."""
    while package not in floors:
        package = package.rpartition(".")[0]
    return floors[package]


def _sum(parts: Iterable[Part]) -> Part:
    totals, rans = zip(*parts, strict=True)
    return Part(sum(totals), sum(rans))


def missing(files: Mapping[str, Any], package: str) -> Iterator[str]:
    """What no test runs of a package: a line for each of its files that has such lines or branches."""
    for file, report in sorted(files.items()):
        lines, branches = report["missing_lines"], report["missing_branches"]
        if package_of(file) == package and (lines or branches):
            yield f"{file}: lines {lines}, branches {branches}"


def main() -> int:
    """Print the table, what is below its floor at the end, and return the exit status."""
    files = measuring.merged(FOLDER)
    packages = measured(files)
    for name, part in packages.items():
        print(f"{name:<36}{part.percent():7.2f} %  floor {floor_of(name):6.2f} %")
    print(f"{'all':<36}{_sum(packages.values()).percent():7.2f} %")
    low = [name for name, part in packages.items() if part.percent() < floor_of(name)]
    for name in low:
        print(f"TOO LOW: {name}: {packages[name].percent():.2f} % instead of {floor_of(name):.2f} %; not run:")
        print("\n".join(missing(files, name)))
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
