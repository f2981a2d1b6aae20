"""The key beside an embedded database."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from wfcore.cli.commands.secret import key_beside
from wfcore.settings.installation import BadSettings, load


def test_the_key_is_made_once_and_kept(tmp_path: Path) -> None:
    """The first start makes it, readable by its owner alone; later starts find the same."""
    made = key_beside(tmp_path / "app.db")
    assert len(made) == 32
    assert key_beside(tmp_path / "app.db") == made
    assert key_beside(tmp_path / "other.db") != made
    assert stat.S_IMODE((tmp_path / "app.db.key").stat().st_mode) == 0o600


def test_many_first_starts_agree_on_one_key(tmp_path: Path) -> None:
    """However many begin at once, all get the same whole key, and no draft is left behind."""
    for round_ in range(20):
        start, file = Barrier(8), tmp_path / f"{round_}.db"

        def begin(start: Barrier = start, file: Path = file) -> bytes:
            start.wait()
            return key_beside(file)

        with ThreadPoolExecutor(8) as pool:
            keys = {future.result() for future in [pool.submit(begin) for _ in range(8)]}
        assert len(keys) == 1
    assert len(list(tmp_path.iterdir())) == 20


def test_a_file_that_holds_no_key_is_refused_by_name(tmp_path: Path) -> None:
    """A damaged key file is told and not replaced: what it sealed would be lost."""
    (tmp_path / "app.db.key").write_text("short\n")
    with pytest.raises(BadSettings, match=r"app\.db\.key"):
        key_beside(tmp_path / "app.db")


def test_a_database_in_memory_has_a_passing_key() -> None:
    """Nothing outlives the process, so each has a key of its own and no file is written."""
    assert key_beside(None) != key_beside(None)


def test_former_keys_are_a_list() -> None:
    """They come from the environment with commas between them; what is no key is refused and not shown."""
    assert load(environ={}).previous_secrets() == []
    keys = {"WFCORE_PREVIOUS_SECRET_KEYS": f"{'A' * 43}, {'_' * 42}8"}
    assert load(environ=keys).previous_secrets() == [bytes(32), b"\xff" * 32]
    with pytest.raises(BadSettings, match="previous_secret_keys") as caught:
        load(environ={"WFCORE_PREVIOUS_SECRET_KEYS": "canary"})
    assert "canary" not in str(caught.value)
