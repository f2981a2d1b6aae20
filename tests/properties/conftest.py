"""Laws of the domain draw random examples, and coverage does not measure that.

The tests of `tests/unit/domain` run the same lines and branches, whatever is drawn. Measured, a law takes twice as
long.
"""

from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = Path(__file__).parent
UNMEASURED: Final = {
    "access", "attachment", "expression", "lifecycle", "move", "narrowing", "repair", "rule", "run", "schedule",
    "straight",
}  # fmt: skip
"""Modules `test_*_laws` that call `wfcore.domain` alone, and there nothing that only other packages use."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give `no_cover` of pytest-cov to the tests that draw examples."""
    for item in items:
        name = item.path.stem.removeprefix("test_").removesuffix("_laws")
        draws = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        if item.path.parent == FOLDER and name in UNMEASURED and draws:
            item.add_marker("no_cover")
