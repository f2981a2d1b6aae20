"""Mistakes with the block of a core are errors that say what to do."""

from typing import Any

import pytest

import wfcore

pytestmark = pytest.mark.anyio

ASYNC_BLOCK = r"open it with `async with wfcore\.open\(\.\.\.\) as core:`"
SYNC_BLOCK = r"open it with `with wfcore\.open_sync\(\.\.\.\) as core:`"


def test_a_core_without_a_block_names_the_block() -> None:
    """The error for its first attribute shows the block that is missing, async and sync."""
    opening: Any = wfcore.open("sqlite://")
    with pytest.raises(AttributeError, match=f"has no `directory`: {ASYNC_BLOCK}"):
        opening.directory.create_organization("Acme")
    sync: Any = wfcore.open_sync("sqlite://")
    with pytest.raises(AttributeError, match=f"has no `runs`: {SYNC_BLOCK}"):
        _ = sync.runs


async def test_an_awaited_open_names_the_block() -> None:
    """`await wfcore.open(...)` shows `async with`."""
    opening: Any = wfcore.open("sqlite://")
    with pytest.raises(TypeError, match=ASYNC_BLOCK):
        await opening


async def test_a_core_opens_once() -> None:
    """A second block with the same object says to call `open` again; the first core was closed as usual."""
    opening = wfcore.open("sqlite://")
    async with opening as core:
        await core.directory.create_organization("Acme")
    with pytest.raises(RuntimeError, match="opens once: call the function again"):
        async with opening:
            pass
    sync = wfcore.open_sync("sqlite://")
    with sync:
        pass
    with pytest.raises(RuntimeError, match="opens once: call the function again"), sync:
        pass
