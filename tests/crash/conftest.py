"""Two fork servers, and a database file that is created once and copied for every test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fork_server import ForkServer
from scenarios import Scenario, spec
from stores import SqliteFiles, Store


@pytest.fixture(scope="session")
def fork_servers() -> Iterator[tuple[ForkServer, ForkServer]]:
    pair = ForkServer(), ForkServer()
    yield pair
    for fork_server in pair:
        fork_server.close()


@pytest.fixture(scope="session")
def store(fork_servers: tuple[ForkServer, ForkServer], tmp_path_factory: pytest.TempPathFactory) -> Store:
    place = tmp_path_factory.mktemp("seed")
    files = SqliteFiles(place)
    assert fork_servers[0].run(spec(place, files.url, "seed", "seed")) == 0, (place / "seed.out").read_text()
    return files


@pytest.fixture
def scenario(tmp_path: Path, store: Store) -> Scenario:
    return Scenario(tmp_path, store)
