"""The benchmarks run: nothing is asserted of time. `make bench QUICK=1` runs all of them as the suite runs some."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import ROWS

ROOT = Path(__file__).parents[2]

SLICES = [
    ("memory", "durable-parallel", "postgres", "parked"),
    ("frames", "http-starts", "throughput"),
]
"""Rows of each kind."""


@pytest.mark.parametrize("rows", SLICES, ids="-".join)
def test_quick(rows: tuple[str, ...]) -> None:
    """Every row of the table is measured, every figure is a number, and every goal has an answer."""
    command = [sys.executable, "-m", "benchmarks", "--quick", "--json", *rows]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    figures = json.loads(ran.stdout)
    measured = [line.split()[1] for line in ran.stderr.splitlines() if line.startswith("measuring ")]
    assert measured == list(rows)
    assert set(rows) < set(ROWS)
    assert len({figure["work"] for figure in figures}) >= len(measured)
    assert all(isinstance(figure["value"], float | int) for figure in figures)
    assert all((figure["met"] is None) == (figure["goal"] == "") for figure in figures)
