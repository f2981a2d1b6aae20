"""Readiness: the store must take writes, and probes share one write (issue: a full disk, a read-only database)."""

import asyncio

import pytest
from bench import Bench

from wfcore.runtime.common import readiness
from wfcore.runtime.common.readiness import Readiness, SharedCall

pytestmark = pytest.mark.anyio


class Probed:
    """A store whose writes a test controls."""

    def __init__(self) -> None:
        self.writes = 0
        self.refusal: str | None = None
        self.schema: str | None = None
        self.free = asyncio.Event()
        self.free.set()
        self.readable = asyncio.Event()
        self.readable.set()

    async def check(self) -> str | None:
        await self.readable.wait()
        return self.schema

    async def check_writes(self) -> str | None:
        self.writes += 1
        await self.free.wait()
        return self.refusal


def ready(store: Probed, bench: Bench) -> Readiness:
    return Readiness(store, bench.clock)  # type: ignore[arg-type]


async def test_it_follows_the_store(bench: Bench) -> None:
    """Not ready while writes are refused, and ready again after; the schema comes first."""
    store = Probed()
    probes = ready(store, bench)
    assert await probes.problem() is None
    store.refusal = "the disk is full"
    bench.clock.advance(readiness.FRESH / 1_000)
    assert await probes.problem() == "the disk is full"
    store.refusal = None
    bench.clock.advance(readiness.FRESH / 1_000)
    assert await probes.problem() is None
    store.schema = "the schema is old"
    assert await probes.problem() == "the schema is old"


async def test_many_probes_cause_one_write(bench: Bench) -> None:
    """Concurrent probes, and those within a second, share one write. A wall clock that is set back changes nothing."""
    store = Probed()
    probes = ready(store, bench)
    assert await asyncio.gather(*(probes.problem() for _ in range(50))) == [None] * 50
    bench.clock.step(-3_600)
    await probes.problem()
    assert store.writes == 1
    bench.clock.advance(1)
    await probes.problem()
    assert store.writes == 2


async def test_a_write_that_does_not_end_is_not_ready(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stalled write is a refusal, and no probe begins another one beside it."""
    monkeypatch.setattr(readiness, "PATIENCE", 0.01)
    store = Probed()
    probes = ready(store, bench)
    store.free.clear()
    assert "has not ended" in str(await probes.problem())
    bench.clock.advance(5)
    assert "has not ended" in str(await probes.problem())
    assert store.writes == 1
    store.free.set()
    bench.clock.advance(5)
    await asyncio.sleep(0)
    assert await probes.problem() is None


async def test_a_read_that_does_not_end_is_not_ready(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a server that accepts connections and does not respond."""
    monkeypatch.setattr(readiness, "PATIENCE", 0.01)
    store = Probed()
    probes = ready(store, bench)
    store.readable.clear()
    assert "a read has not ended" in str(await probes.problem())
    store.readable.set()
    await asyncio.sleep(0)
    assert await probes.problem() is None


async def test_a_store_that_takes_writes_is_ready(bench: Bench) -> None:
    """The real stores: their own check writes."""
    assert await Readiness(bench.core.ports.storage, bench.clock).problem() is None


async def test_a_call_that_begins_as_one_ends() -> None:
    """Who waited for the call that has ended gets its result, and not that of the next one."""
    free, calls = asyncio.Event(), list[int]()

    async def call() -> int:
        calls.append(len(calls))
        number = calls[-1]
        await free.wait()
        return number

    async def next_one() -> int:
        await free.wait()
        return await shared.result()

    shared = SharedCall(call)
    first = asyncio.create_task(shared.result())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    second = asyncio.create_task(next_one())
    await asyncio.sleep(0)
    free.set()
    assert await asyncio.gather(first, second) == [0, 1]
