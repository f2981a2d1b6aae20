"""The key file beside an embedded database."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from wfcore.cli.commands.secret import key_beside
from wfcore.settings.installation import BadSettings


def test_the_key_is_created_once(tmp_path: Path) -> None:
    """The first start creates it, readable by its owner only; later starts read the same key."""
    made = key_beside(tmp_path / "app.db")
    assert len(made) == 32
    assert key_beside(tmp_path / "app.db") == made
    assert key_beside(tmp_path / "other.db") != made
    assert stat.S_IMODE((tmp_path / "app.db.key").stat().st_mode) == 0o600


def test_concurrent_first_starts_get_the_same_key(tmp_path: Path) -> None:
    """All of them get the same complete key, and no temporary file is left."""
    for round_ in range(20):
        start, file = Barrier(8), tmp_path / f"{round_}.db"

        def begin(start: Barrier = start, file: Path = file) -> bytes:
            start.wait()
            return key_beside(file)

        with ThreadPoolExecutor(8) as pool:
            keys = {future.result() for future in [pool.submit(begin) for _ in range(8)]}
        assert len(keys) == 1
    assert len(list(tmp_path.iterdir())) == 20


def test_a_damaged_key_file_is_refused_by_name(tmp_path: Path) -> None:
    """It is reported and not replaced: what its key sealed would be lost."""
    (tmp_path / "app.db.key").write_text("short\n")
    with pytest.raises(BadSettings, match=r"app\.db\.key"):
        key_beside(tmp_path / "app.db")


def test_a_database_in_memory_has_a_temporary_key() -> None:
    """Each has its own key, and no file is written."""
    assert key_beside(None) != key_beside(None)
