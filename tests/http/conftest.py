"""The same tests in process over the store in memory, and over real sockets on a SQLite file."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial

import httpx
import pytest
from clients import Connect, World, count, hold, new_world, serving

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.bootstrap import Core

SECRET = b"s" * 32


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
async def memory_server(anyio_backend: str) -> AsyncIterator[tuple[Core, Connect]]:
    async with wfcore.bootstrap.open("sqlite://", tools=[count, hold]) as core:
        transport = httpx.ASGITransport(app(core, secret=SECRET))
        yield core, partial(httpx.AsyncClient, transport=transport, base_url="http://wfcore", trust_env=False)


@pytest.fixture(scope="session")
async def socket_server(
    anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Core, Connect]]:
    place = tmp_path_factory.mktemp("http")
    database = f"sqlite:///{place}/wfcore.db"
    async with (
        wfcore.bootstrap.open(database, tools=[count, hold], synchronous="NORMAL", grace=0) as core,
        serving(app(core, secret=SECRET)) as port,
    ):
        url = f"http://127.0.0.1:{port}"
        yield core, partial(httpx.AsyncClient, base_url=url, timeout=10, verify=False, trust_env=False)


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


@pytest.fixture(params=["in process", "over sockets"])
async def either(
    request: pytest.FixtureRequest, memory_server: tuple[Core, Connect], socket_server: tuple[Core, Connect]
) -> AsyncIterator[World]:
    """A new organization, on each of the two."""
    server = memory_server if request.param == "in process" else socket_server
    async with AsyncExitStack() as closing:
        yield await new_world(*server, closing)
