"""The contract of stores of attachments for each adapter, and properties of a directory only."""

import os
from pathlib import Path

import pytest

from wfcore.adapters.blobs import LocalBlobs
from wfcore.adapters.inmemory.blobs import InMemoryBlobs
from wfcore.domain.kernel.errors import Invalid, Unavailable
from wfcore.ports.blobs import Blobs
from wfcore.testing.contracts.blobs import KEY, ORG, OTHER_ORG, BlobsContract, BlobsCrashContract

pytestmark = pytest.mark.anyio


def files(place: Path) -> list[Path]:
    return [path for path in place.rglob("*") if path.is_file()]


class TestInMemoryBlobs(BlobsContract):
    async def open_blobs(self, place: Path) -> Blobs:
        return InMemoryBlobs()


class TestCrashesOfFiles(BlobsCrashContract):
    async def open_blobs(self, place: Path) -> Blobs:
        return LocalBlobs(place / "blobs")


class TestLocalBlobs(BlobsContract):
    async def open_blobs(self, place: Path) -> Blobs:
        return LocalBlobs(place / "deep" / "blobs")

    async def test_contents_outlive_the_store(self, tmp_path: Path) -> None:
        """Another process that opens the directory finds them, readable by this user only, without drafts."""
        await LocalBlobs(tmp_path).put(ORG, KEY, b"x")
        assert await LocalBlobs(tmp_path).get(ORG, KEY) == b"x"
        [file] = files(tmp_path)
        assert (file.name, file.stat().st_mode & 0o777) == (KEY, 0o600)

    async def test_no_link_is_followed(self, tmp_path: Path) -> None:
        """A linked file, a linked organization, and a directory instead of a file have no content."""
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

    async def test_the_root_can_be_a_link(self, tmp_path: Path) -> None:
        """The operator who configured the root directory can make it a link."""
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        blobs = LocalBlobs(tmp_path / "link")
        await blobs.put(ORG, KEY, b"x")
        assert await blobs.get(ORG, KEY) == b"x"

    async def test_a_write_that_fails_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """When the disk fails, `put` raises Unavailable with the reason; neither half a file nor its draft remains."""
        blobs = LocalBlobs(tmp_path)

        def full(_: int) -> None:
            raise OSError("no space left")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(Unavailable, match=r"attachments does not answer: no space left$"):
                await blobs.put(ORG, KEY, b"x")
        assert files(tmp_path) == []
        assert await blobs.get(ORG, KEY) is None

    async def test_without_a_directory_put_is_refused(self) -> None:
        """`put` names the setting: a repetition, which a 503 suggests, cannot help. Nothing is found."""
        blobs = LocalBlobs(None)
        with pytest.raises(Invalid, match="`attachments`: this installation has no directory for them: set `blobs`"):
            await blobs.put(ORG, KEY, b"x")
        assert (await blobs.get(ORG, KEY), await blobs.size(ORG, KEY), await blobs.delete(ORG, KEY)) == (
            None, None, False,
        )  # fmt: skip
