"""The contract of attachment stores (`wfcore.ports.blobs`).

Subclass `BlobsContract` and write `open_blobs`; a store whose content outlives the process inherits
`BlobsCrashContract` too.
"""

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import pytest

from wfcore.ports.blobs import Blobs
from wfcore.testing.contracts.interrupted.calls import (
    PortCall,
    check_at_once,
    check_cancelled,
    check_killed,
    each_of,
    each_with_a_step,
)
from wfcore.testing.on_asyncio import OnAsyncio

ORG = "6f1c2b9e-58c4-4f0b-9f0e-0d4a8c1e7a11"
OTHER_ORG = "6f1c2b9e-58c4-4f0b-9f0e-0d4a8c1e7a12"
KEY = "ab" * 32 + ".txt"

HOSTILE_NAMES = (
    "", ".", "..", "../x", f"../{OTHER_ORG}/{KEY}", f"/etc/{KEY}", "/etc/passwd", "a/b", "a\\b", "..\\x", "C:\\x",
    "a\0", f"{KEY}\0", f"{KEY}\n", f" {KEY}", KEY.upper(), "ä", "٣", "%2e%2e", "~", ".hidden", "a" * 129, "\ud800",
)  # fmt: skip
"""Texts that are neither valid keys nor valid organizations."""


async def _put(blobs: Blobs, org: str) -> None:
    await blobs.put(_org(org), KEY, b"x")


async def _content(blobs: Blobs, org: str) -> object:
    return await blobs.get(_org(org), KEY)


async def _delete(blobs: Blobs, org: str) -> None:
    await blobs.delete(_org(org), KEY)


def _org(scope: str) -> str:
    return str(uuid5(NAMESPACE_URL, scope))


CALLS = (PortCall("put", _put, _content), PortCall("delete", _delete, _content, _put))


class BlobsContract(OnAsyncio):
    """Inherit, name the class `Test...`, and write `open_blobs`."""

    @abstractmethod
    async def open_blobs(self, place: Path) -> Blobs:
        """A new, empty store; `place` is an empty directory for its files."""

    @pytest.fixture
    async def blobs(self, tmp_path: Path, anyio_backend: str) -> Blobs:
        return await self.open_blobs(tmp_path)

    @pytest.mark.anyio
    @pytest.mark.parametrize("data", [b"", b"\0\xff\r\n", b"x" * 300_000])
    async def test_put_content_is_returned(self, blobs: Blobs, data: bytes) -> None:
        """The content is identical, with its size; a repeated put changes nothing."""
        for _ in range(2):
            await blobs.put(ORG, KEY, data)
            assert await blobs.get(ORG, KEY) == data
            assert await blobs.size(ORG, KEY) == len(data)

    @pytest.mark.anyio
    async def test_content_is_found_by_its_age(self, blobs: Blobs) -> None:
        """Content is older than the next moment, and not than the one before; renewed content is new again."""
        other = "cd" * 32 + ".txt"
        for key in (KEY, other):
            await blobs.put(ORG, key, b"x")
        await blobs.put(OTHER_ORG, KEY, b"x")
        then = round(time.time() * 1000) + 100
        assert await blobs.stored_before(ORG, then - 3_600_000) == []
        assert sorted(await blobs.stored_before(ORG, then + 3_600_000)) == sorted([KEY, other])
        await asyncio.sleep(0.15)
        assert await blobs.renew(ORG, KEY) == 1
        assert await blobs.stored_before(ORG, then) == [other]
        await blobs.delete(ORG, other)
        assert (await blobs.stored_before(ORG, then), await blobs.renew(ORG, other)) == ([], None)
        assert await blobs.stored_before("../" + ORG, then) == []

    @pytest.mark.anyio
    async def test_unknown_content_is_absent(self, blobs: Blobs) -> None:
        """Another key, and an empty store."""
        assert (await blobs.get(ORG, KEY), await blobs.size(ORG, KEY), await blobs.delete(ORG, KEY)) == (
            None, None, False,
        )  # fmt: skip
        await blobs.put(ORG, KEY, b"x")
        assert await blobs.get(ORG, f"cd{KEY[2:]}") is None

    @pytest.mark.anyio
    async def test_each_organization_has_its_own(self, blobs: Blobs) -> None:
        """The same key in two organizations has two contents; a delete of one keeps the other."""
        await blobs.put(ORG, KEY, b"one")
        assert (await blobs.get(OTHER_ORG, KEY), await blobs.size(OTHER_ORG, KEY)) == (None, None)
        await blobs.put(OTHER_ORG, KEY, b"another")
        assert (await blobs.get(ORG, KEY), await blobs.get(OTHER_ORG, KEY)) == (b"one", b"another")
        assert await blobs.delete(ORG, KEY)
        assert (await blobs.get(ORG, KEY), await blobs.get(OTHER_ORG, KEY)) == (None, b"another")

    @pytest.mark.anyio
    async def test_deleted_content_is_absent(self, blobs: Blobs) -> None:
        """A delete succeeds once; the content can be put again."""
        await blobs.put(ORG, KEY, b"x")
        assert [await blobs.delete(ORG, KEY) for _ in range(2)] == [True, False]
        assert (await blobs.get(ORG, KEY), await blobs.size(ORG, KEY)) == (None, None)
        await blobs.put(ORG, KEY, b"x")
        assert await blobs.get(ORG, KEY) == b"x"

    @pytest.mark.anyio
    @pytest.mark.parametrize("name", HOSTILE_NAMES, ids=ascii)
    async def test_invalid_names_are_refused(self, blobs: Blobs, name: str) -> None:
        """As key and as organization: a read finds nothing, and a put stores nothing."""
        await blobs.put(OTHER_ORG, KEY, b"another's")
        for org, key in ((ORG, name), (name, KEY)):
            assert (await blobs.get(org, key), await blobs.size(org, key), await blobs.delete(org, key)) == (
                None, None, False,
            )  # fmt: skip
            with pytest.raises(ValueError):
                await blobs.put(org, key, b"x")
        assert await blobs.get(OTHER_ORG, KEY) == b"another's"

    @pytest.mark.anyio
    @each_of(CALLS)
    async def test_a_cancelled_write_is_whole_or_nothing(self, blobs: Blobs, call: PortCall) -> None:
        """Whichever await is cancelled, the content is whole or absent."""
        await check_cancelled(blobs, call)

    @pytest.mark.anyio
    @each_of(CALLS)
    async def test_writes_at_once(self, blobs: Blobs, call: PortCall) -> None:
        """Several of the same write at once are as one."""
        await check_at_once(blobs, call)

    @pytest.mark.anyio
    async def test_many_at_once(self, blobs: Blobs) -> None:
        """A read during a put returns the whole content or nothing."""
        data = b"x" * 200_000

        async def put() -> None:
            await blobs.put(ORG, KEY, data)

        async def read() -> bytes | None:
            return await blobs.get(ORG, KEY)

        found = await asyncio.gather(*(task() for _ in range(8) for task in (put, read)))
        assert {part for part in found if part} <= {data}
        assert await blobs.get(ORG, KEY) == data


class BlobsCrashContract:
    """Inherit it beside `BlobsContract` if content outlives the process."""

    @abstractmethod
    async def open_blobs(self, place: Path) -> Blobs:
        """The store in this directory: a new one, or what a process has left there."""

    @each_with_a_step([*CALLS, *CALLS])
    def test_a_killed_process_leaves_all_or_nothing(self, tmp_path: Path, call: PortCall, step: int) -> None:
        """Content is whole or absent, and what was put is there."""

        @asynccontextmanager
        async def opened() -> AsyncIterator[Blobs]:
            yield await self.open_blobs(tmp_path)

        check_killed(opened, call, step)
