"""Cores to test: in memory, and with a SQLite file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from bench import Bench, opened

from wfcore.domain.resources.access import Principal


@pytest.fixture
def database(tmp_path: Path) -> str:
    """The URL of a new SQLite file."""
    return f"sqlite:///{tmp_path / 'app.db'}"


@pytest.fixture(params=["memory", "sqlite"])
async def bench(request: pytest.FixtureRequest, database: str) -> AsyncIterator[Bench]:
    async with opened("sqlite://" if request.param == "memory" else database) as made:
        yield made


@pytest.fixture
async def boss(bench: Bench) -> Principal:
    """An owner of the organization."""
    return await bench.joined("boss", "owner")
