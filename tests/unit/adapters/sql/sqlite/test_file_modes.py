"""The files of a SQLite database can be read by their owner alone."""

import stat
from pathlib import Path

import pytest

import wfcore.bootstrap

pytestmark = pytest.mark.anyio


def modes_below(directory: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.rglob("*")}


async def test_new_files_are_private(tmp_path: Path) -> None:
    """The database, its log and index, the key and the attachments: no access for groups and others."""
    database = tmp_path / "app.db"
    async with wfcore.bootstrap.open(f"sqlite:///{database}", worker=False) as core:
        org = (await core.directory.create_organization("Acme")).uuid
        await core.ports.blobs.put(org, "key", b"content")
        me = core.principal(org, user="ada")
        await core.connections.create(me, name="c", provider="p", kind="api_key", config={"apiKey": "secret"})
        modes = modes_below(tmp_path)
    assert {"app.db", "app.db-shm", "app.db-wal", "app.db.blobs", "app.db.key"} <= modes.keys()
    assert {mode & 0o077 for mode in modes.values()} == {0}


async def test_the_mode_of_an_existing_file_is_kept(tmp_path: Path) -> None:
    """The operator can share a file with a group."""
    database = tmp_path / "app.db"
    database.touch(0o660)
    database.chmod(0o660)
    async with wfcore.bootstrap.open(f"sqlite:///{database}", worker=False):
        assert modes_below(tmp_path)["app.db"] == 0o660
