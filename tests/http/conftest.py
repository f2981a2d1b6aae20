"""Servers for the tests: in process on a store in memory, over sockets on a SQLite file, and some on PostgreSQL."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import httpx
import pytest
from clients import Connect, World, count, hold, new_world, serving
from postgres_server import with_schema
from waiting import HANG

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.core import Core

SECRET = b"s" * 32

ON_POSTGRES = "on PostgreSQL"
SERVERS = {"in process": "memory_server", "over sockets": "socket_server", ON_POSTGRES: "postgres_server"}
ALSO_ON_POSTGRES = {"test_conversation_routes", "test_memory_routes", "test_resource_routes", "test_run_routes"}
"""Test modules that run on PostgreSQL too; contract tests cover the stores themselves."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run only `ALSO_ON_POSTGRES` on PostgreSQL."""
    wanted = [item for item in items if ON_POSTGRES not in item.name or item.path.stem in ALSO_ON_POSTGRES]
    items[:] = wanted


@pytest.fixture(scope="module")
async def memory_server(anyio_backend: str) -> AsyncIterator[tuple[Core, Connect]]:
    async with wfcore.bootstrap.open("sqlite://", tools=[count, hold]) as core:
        transport = httpx.ASGITransport(app(core, secret=SECRET))
        yield core, partial(httpx.AsyncClient, transport=transport, base_url="http://wfcore", trust_env=False)


@pytest.fixture(scope="module")
async def socket_server(
    anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Core, Connect]]:
    async with served(f"sqlite:///{tmp_path_factory.mktemp('http')}/wfcore.db") as server:
        yield server


@pytest.fixture(scope="module")
async def postgres_server(anyio_backend: str) -> AsyncIterator[tuple[Core, Connect]]:
    async with served(with_schema(), secrets=SECRET) as server:
        yield server


@asynccontextmanager
async def served(database: str, **options: Any) -> AsyncIterator[tuple[Core, Connect]]:
    settings = wfcore.Settings(synchronous="NORMAL", grace=0)
    async with (
        wfcore.bootstrap.open(database, tools=[count, hold], settings=settings, **options) as core,
        serving(app(core, secret=SECRET)) as port,
    ):
        url = f"http://127.0.0.1:{port}"
        yield core, partial(httpx.AsyncClient, base_url=url, timeout=HANG, verify=False, trust_env=False)


@pytest.fixture
async def world(memory_server: tuple[Core, Connect]) -> AsyncIterator[World]:
    """A new organization, in process."""
    async with AsyncExitStack() as closing:
        yield await new_world(*memory_server, closing)


@pytest.fixture
async def real_world(socket_server: tuple[Core, Connect]) -> AsyncIterator[World]:
    """A new organization, over sockets and on a file."""
    async with AsyncExitStack() as closing:
        yield await new_world(*socket_server, closing)


@pytest.fixture(params=SERVERS)
def chosen(request: pytest.FixtureRequest) -> tuple[Core, Connect]:
    """Each server in turn; only the requested ones are started."""
    found: tuple[Core, Connect] = request.getfixturevalue(SERVERS[request.param])
    return found


@pytest.fixture
async def either(chosen: tuple[Core, Connect]) -> AsyncIterator[World]:
    """A new organization on each server."""
    async with AsyncExitStack() as closing:
        yield await new_world(*chosen, closing)
