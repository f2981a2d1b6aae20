"""The benchmarks run: nothing is asserted of time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import ROWS

ROOT = Path(__file__).parents[2]


NAMES = list(ROWS)


@pytest.mark.parametrize("first", range(0, len(NAMES), 10))
def test_quick(first: int) -> None:
    """Every row of the table is measured, every figure is a number, and every goal has an answer."""
    rows = NAMES[first : first + 10]
    command = [sys.executable, "-m", "benchmarks", "--quick", "--json", *rows]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    figures = json.loads(ran.stdout)
    measured = [line.split()[1] for line in ran.stderr.splitlines() if line.startswith("measuring ")]
    assert measured == rows
    assert len({figure["work"] for figure in figures}) >= len(measured)
    assert all(isinstance(figure["value"], float | int) for figure in figures)
    assert all((figure["met"] is None) == (figure["goal"] == "") for figure in figures)
