"""Plant known faults one at a time, and see which the tests notice.

It works on copies of the repository. The exit status is 1 when a fault is missed, or its text is not in the source any
more.
"""

import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import attrs
from hardening import HARDENING
from planted import PLANTED, Mutant

ROOT: Final = Path(__file__).parents[2]
COPIED: Final = ("src", "tests", "examples", "docs", "pyproject.toml")
CORES: Final = min(os.cpu_count() or 1, 4)
MUTANTS: Final = [*PLANTED, *HARDENING]

LIMIT: Final = 180
"""Seconds that the tests of one mutant can take: a test that does not end notices the fault."""

FAILED: Final = 1
"""The exit status of pytest when a test failed; others mean that no test has run."""

SUMMARY: Final = ("FAILED tests", "ERROR tests")
"""How the line of a failed test begins, in the summary of pytest."""


@attrs.frozen
class Result:
    """What became of a planted fault: it was `caught` or `missed`, or is `stale`. `by` is the test that failed."""

    status: str
    by: str = ""

    @property
    def shown(self) -> str:
        return f"\n{'':<11}{self.by}" if self.by else ""


def main(words: Sequence[str]) -> int:
    """Plant the faults that have one of the words in their name or file, or all of them, and print the results."""
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.name + mutant.file for word in words)]
    missed, began = 0, time.monotonic()
    for mutant, result in results(chosen):
        missed += result.status != "caught"
        print(f"{result.status:<10} {Path(mutant.file).name:<24} {mutant.name}{result.shown}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} caught in {time.monotonic() - began:.0f} s")
    return int(missed > 0)


def results(mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, Result]]:
    """Each mutant with what became of it."""
    with tempfile.TemporaryDirectory(prefix="wfcore-mutants-") as root, ThreadPoolExecutor(CORES) as pool:
        copies: queue.Queue[Path] = queue.Queue()
        for number in range(min(CORES, len(mutants))):
            copies.put(copied(Path(root, str(number))))

        def tried(mutant: Mutant) -> Result:
            copy = copies.get()
            try:
                return result_of(mutant, copy)
            finally:
                copies.put(copy)

        yield from zip(mutants, pool.map(tried, mutants), strict=True)


def copied(place: Path) -> Path:
    """A copy of what is tested."""
    place.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "static", "node_modules")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, place / name)
    return place


def result_of(mutant: Mutant, copy: Path) -> Result:
    """Plant the fault in the copy, run its tests, and undo it."""
    file = copy / mutant.file
    text = file.read_text()
    if not applies(mutant, text):
        return Result("stale")
    file.write_text(text.replace(mutant.old, mutant.new))
    try:
        return run(mutant.tests, copy)
    finally:
        file.write_text(text)


def applies(mutant: Mutant, text: str) -> bool:
    return text.count(mutant.old) == 1


def run(tests: Sequence[str], copy: Path) -> Result:
    """The result of the tests, with the source of the copy."""
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *tests]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, check=False, timeout=LIMIT, text=True
        )
    except subprocess.TimeoutExpired:
        return Result("caught", f"the tests did not end within {LIMIT} s")
    if done.returncode == FAILED:
        return Result("caught", next((line for line in done.stdout.splitlines() if line.startswith(SUMMARY)), ""))
    return Result("missed" if done.returncode == 0 else f"status {done.returncode}")
