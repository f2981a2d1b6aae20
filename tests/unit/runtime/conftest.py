"""Cores to test on: in memory, and on a SQLite file."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from bench import Bench, opened


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
async def empty_database(anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the schema in it, made once: to copy it is quicker than to migrate anew."""
    path = tmp_path_factory.mktemp("schema") / "empty.db"
    async with opened(f"sqlite:///{path}", org="none", worker=False):
        return path


@pytest.fixture
async def database(empty_database: Path, tmp_path: Path) -> str:
    """The URL of a new SQLite file."""
    shutil.copy(empty_database, tmp_path / "app.db")
    return f"sqlite:///{tmp_path / 'app.db'}"


@pytest.fixture(params=["memory", "sqlite"])
async def bench(request: pytest.FixtureRequest, database: str) -> AsyncIterator[Bench]:
    async with opened("sqlite://" if request.param == "memory" else database) as made:
        yield made
