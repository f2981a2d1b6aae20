"""Two zygotes, and a database file that was made once and is copied for every test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from scenes import Scene, spec
from zygote import Zygote


@pytest.fixture(scope="session")
def zygotes() -> Iterator[tuple[Zygote, Zygote]]:
    pair = Zygote(), Zygote()
    yield pair
    for zygote in pair:
        zygote.close()


@pytest.fixture(scope="session")
def seeded(zygotes: tuple[Zygote, Zygote], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("seed")
    db = place / "wfcore.db"
    assert zygotes[0].run(spec(place, db, "seed", "seed")) == 0, (place / "seed.out").read_text()
    assert not db.with_name("wfcore.db-wal").exists(), "the file is complete by itself"
    return db


@pytest.fixture
def scene(tmp_path: Path, seeded: Path) -> Scene:
    return Scene(tmp_path, seeded)
