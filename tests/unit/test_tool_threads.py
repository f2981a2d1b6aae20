"""The threads of tools."""

import asyncio
import threading
from typing import Any

import anyio.to_thread
import pytest
from waiting import until

import wfcore
from wfcore.tool_threads import THREADS, in_tool_thread

pytestmark = pytest.mark.anyio


async def test_tools_that_block_leave_the_threads_of_others_free() -> None:
    """Of asyncio, of anyio, and so of sync views; further tools wait for the first ones."""
    release, begun = threading.Event(), list[int]()

    def hold(number: int) -> Any:
        begun.append(number)
        release.wait()
        return number

    async with wfcore.open("sqlite://", tools=[hold]) as core:
        me = core.principal((await core.directory.create_organization("one")).uuid, "me")
        try:
            runs = [
                await core.runs.act(me, action={"toolId": "hold", "params": {"number": number}})
                for number in range(THREADS + 1)
            ]
            await until(lambda: len(begun) == THREADS)
            assert await asyncio.to_thread(lambda: "asyncio") == "asyncio"
            assert await anyio.to_thread.run_sync(lambda: "anyio") == "anyio"
            assert len(begun) == THREADS
        finally:
            release.set()
        assert [await core.runs.result(run) for run in runs] == list(range(THREADS + 1))


async def test_a_cancellation_does_not_wait_for_the_thread() -> None:
    """It ends by itself."""
    release, begun = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        release.wait()

    waiting = asyncio.create_task(in_tool_thread(hold))
    await until(begun.is_set)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    release.set()
