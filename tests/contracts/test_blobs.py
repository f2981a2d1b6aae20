"""The contract of stores of attachments, kept by each adapter; and what only a directory can show."""

import os
from pathlib import Path

import pytest

from wfcore.adapters.blobs import LocalBlobs
from wfcore.adapters.inmemory.blobs import InMemoryBlobs
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.blobs import Blobs
from wfcore.testing.contracts.blobs import KEY, ORG, OTHER_ORG, BlobsContract

pytestmark = pytest.mark.anyio


def files(place: Path) -> list[Path]:
    return [path for path in place.rglob("*") if path.is_file()]


class TestInMemoryBlobs(BlobsContract):
    async def open_blobs(self, place: Path) -> Blobs:
        return InMemoryBlobs()


class TestLocalBlobs(BlobsContract):
    async def open_blobs(self, place: Path) -> Blobs:
        return LocalBlobs(place / "deep" / "blobs")

    async def test_what_was_put_outlives_the_store(self, tmp_path: Path) -> None:
        """Another process that opens the directory finds it, readable by this user alone, and no draft beside it."""
        await LocalBlobs(tmp_path).put(ORG, KEY, b"x")
        assert await LocalBlobs(tmp_path).get(ORG, KEY) == b"x"
        [file] = files(tmp_path)
        assert (file.name, file.stat().st_mode & 0o777) == (KEY, 0o600)

    async def test_no_link_is_followed(self, tmp_path: Path) -> None:
        """Neither a linked file, nor a linked organization, nor a directory in a file's place, is content."""
        blobs, outside = LocalBlobs(tmp_path / "blobs"), tmp_path / "outside"
        await blobs.put(ORG, KEY, b"x")
        outside.mkdir()
        (outside / KEY).write_bytes(b"secret")
        place = tmp_path / "blobs" / ORG / KEY[:2]
        link, folder = f"{KEY[:2]}-link", f"{KEY[:2]}-folder"
        (place / link).symlink_to(outside / KEY)
        (place / folder).mkdir()
        for name in (link, folder):
            assert (await blobs.get(ORG, name), await blobs.size(ORG, name)) == (None, None)
        (tmp_path / "blobs" / OTHER_ORG).symlink_to(tmp_path / "blobs" / ORG)
        assert await blobs.get(OTHER_ORG, KEY) is None
        assert not await blobs.delete(OTHER_ORG, KEY)
        with pytest.raises(Unavailable):
            await blobs.put(OTHER_ORG, KEY, b"y")
        with pytest.raises(Unavailable):
            await blobs.put(ORG, link, b"y")
        assert (await blobs.get(ORG, KEY), (outside / KEY).read_bytes()) == (b"x", b"secret")

    async def test_a_link_to_the_whole_directory_is_the_operators(self, tmp_path: Path) -> None:
        """The directory itself may be a link: who configured it made it."""
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        blobs = LocalBlobs(tmp_path / "link")
        await blobs.put(ORG, KEY, b"x")
        assert await blobs.get(ORG, KEY) == b"x"

    async def test_a_write_that_fails_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """When the disk refuses, the store does not answer; neither half a file nor its draft stays."""
        blobs = LocalBlobs(tmp_path)

        def full(_: int) -> None:
            raise OSError("no space left")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(Unavailable):
                await blobs.put(ORG, KEY, b"x")
        assert files(tmp_path) == []
        assert await blobs.get(ORG, KEY) is None

    async def test_without_a_directory_nothing_is_kept(self) -> None:
        """A put says that none is configured; there is nothing to be found."""
        blobs = LocalBlobs(None)
        with pytest.raises(Unavailable, match="no directory"):
            await blobs.put(ORG, KEY, b"x")
        assert (await blobs.get(ORG, KEY), await blobs.size(ORG, KEY), await blobs.delete(ORG, KEY)) == (
            None, None, False,
        )  # fmt: skip
