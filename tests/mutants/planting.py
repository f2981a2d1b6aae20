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

from planted import MUTANTS, Mutant

ROOT: Final = Path(__file__).parents[2]
COPIED: Final = ("src", "tests", "examples", "docs", "pyproject.toml")
CORES: Final = min(os.cpu_count() or 1, 4)
LIMIT: Final = 180
"""Seconds that the tests of one mutant can take: a test that does not end notices the fault."""

FAILED: Final = 1
"""The exit status of pytest when a test failed; others mean that no test has run."""


def main(words: Sequence[str]) -> int:
    """Plant the faults that have one of the words in their name or file, or all of them, and print the results."""
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.name + mutant.file for word in words)]
    missed, began = 0, time.monotonic()
    for mutant, result in results(chosen):
        missed += result != "caught"
        print(f"{result:<10} {Path(mutant.file).name:<24} {mutant.name}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} caught in {time.monotonic() - began:.0f} s")
    return int(missed > 0)


def results(mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, str]]:
    """Each mutant, and whether it was `caught`, `missed`, or is `stale`."""
    with tempfile.TemporaryDirectory(prefix="wfcore-mutants-") as root, ThreadPoolExecutor(CORES) as pool:
        copies: queue.Queue[Path] = queue.Queue()
        for number in range(min(CORES, len(mutants))):
            copies.put(copied(Path(root, str(number))))

        def tried(mutant: Mutant) -> str:
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


def result_of(mutant: Mutant, copy: Path) -> str:
    """Plant the fault in the copy, run its tests, and undo it."""
    file = copy / mutant.file
    text = file.read_text()
    if not applies(mutant, text):
        return "stale"
    file.write_text(text.replace(mutant.old, mutant.new))
    try:
        status = run(mutant.tests, copy)
    finally:
        file.write_text(text)
    return "caught" if status == FAILED else "missed" if status == 0 else f"status {status}"


def applies(mutant: Mutant, text: str) -> bool:
    return text.count(mutant.old) == 1


def run(tests: Sequence[str], copy: Path) -> int:
    """The exit status of the tests, with the source of the copy."""
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *tests]
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return FAILED
    return done.returncode
