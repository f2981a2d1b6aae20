"""Two zygotes, and a database file that was made once and is copied for every test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from scenes import Scene, spec
from stores import SqliteFiles, Store
from zygote import Zygote


@pytest.fixture(scope="session")
def zygotes() -> Iterator[tuple[Zygote, Zygote]]:
    pair = Zygote(), Zygote()
    yield pair
    for zygote in pair:
        zygote.close()


@pytest.fixture(scope="session")
def store(zygotes: tuple[Zygote, Zygote], tmp_path_factory: pytest.TempPathFactory) -> Store:
    place = tmp_path_factory.mktemp("seed")
    files = SqliteFiles(place)
    assert zygotes[0].run(spec(place, files.url, "seed", "seed")) == 0, (place / "seed.out").read_text()
    return files


@pytest.fixture
def scene(tmp_path: Path, store: Store) -> Scene:
    return Scene(tmp_path, store)
