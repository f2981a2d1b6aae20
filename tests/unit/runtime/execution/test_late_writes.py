"""A write that begins a turn here, and whose answer comes late: a heartbeat can have driven the execution before."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from bench import Bench, act, ask, graph, one

pytestmark = pytest.mark.anyio

ECHO = one(act("echo", value=1))


def late(bench: Bench, name: str, run_id: str, patch: pytest.MonkeyPatch) -> None:
    """Let this method of the journal return when a heartbeat has found what it wrote, and the run has ended."""
    journal: Any = bench.core.ports.journal
    dispatcher: Any = bench.core.ports.dispatcher
    write: Callable[..., Awaitable[Any]] = getattr(journal, name)

    async def write_late(*args: Any) -> Any:
        patch.setattr(journal, name, write, raising=False)
        found = await write(*args)
        await dispatcher._beat(dispatcher.worker)
        await bench.ended(run_id)
        await settled(bench)
        return found

    patch.setattr(journal, name, write_late, raising=False)


async def settled(bench: Bench) -> None:
    """Wait until nothing is driven."""
    dispatcher: Any = bench.core.ports.dispatcher
    while dispatcher._active:
        await next(iter(dispatcher._active.values()))


async def test_a_start(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the run has done is not done again."""
    number = await bench.deployed(ECHO)
    late(bench, "begin", "k", monkeypatch)
    await bench.core.runs.start(bench.me, workflow=number, input={}, key="k")
    await settled(bench)
    assert (await bench.ended("k")).status == "done"
    assert bench.tools.count("echo") == 1


async def test_a_resume(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for a parked run."""
    run = await bench.ran(graph("s>h h:approved>a", h=ask(), a=act("echo", value=1)))
    late(bench, "append", "k", monkeypatch)
    await bench.core.runs.resume(bench.me, run.id, decision="approve", key="k")
    await settled(bench)
    assert (await bench.ended("k")).status == "done"
    assert bench.tools.count("echo") == 1
