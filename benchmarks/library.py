"""An open wfcore on a separate database, as the rows use it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import attrs

from benchmarks.graphs import Structure
from benchmarks.measure import Cost, Stopwatch
from wfcore.adapters.tools.catalog import tool
from wfcore.bootstrap import open as open_core
from wfcore.core import Core
from wfcore.domain.resources.access import Principal
from wfcore.runtime.common.installation import Settings

ORG = "00000000-0000-4000-8000-000000000001"


@tool(idempotent=True)
async def step() -> dict[str, int]:
    """The trivial tool."""
    return {"n": 500}


@tool(idempotent=True)
async def nap() -> None:
    """A tool that takes 10 ms."""
    await asyncio.sleep(0.01)


@attrs.frozen
class Library:
    """An open wfcore with a member of its only organization."""

    core: Core
    me: Principal

    async def deploy(self, structure: Structure) -> int:
        flow = await self.core.workflows.create(self.me, name="Bench", structure=structure)
        return (await self.core.workflows.deploy(self.me, flow.id)).id

    async def start(self, flow: int, count: int = 1, **given: int) -> list[str]:
        starts = (self.core.runs.start(self.me, workflow=flow, input=dict(given)) for _ in range(count))
        return [run.id for run in await asyncio.gather(*starts)]

    async def at_rest(self) -> None:
        """Wait until this process drives no run."""
        while driven := list(self.core.ports.dispatcher._active.values()):
            await asyncio.wait(driven)

    async def run(self, flow: int, count: int = 1) -> None:
        """Complete `count` simultaneous runs; AssertionError if a run fails."""
        await self._verify(await self._driven(flow, count))

    async def timed(self, flow: int, count: int = 1, times: int = 1, **given: int) -> Cost:
        """Complete `count` simultaneous runs, `times` times, one after the other. Verifying them is not measured."""
        with Stopwatch() as watch:
            ids = [run_id for _ in range(times) for run_id in await self._driven(flow, count, **given)]
        await self._verify(ids)
        return watch.cost

    async def _driven(self, flow: int, count: int, **given: int) -> list[str]:
        ids = await self.start(flow, count, **given)
        await self.at_rest()
        return ids

    async def _verify(self, ids: list[str]) -> None:
        for run_id in ids:
            row = await self.core.ports.journal.find_run(self.me.org_uuid, run_id)
            assert row is not None
            assert row.status == "done", row

    async def followed(self, flow: int) -> Cost:
        """Complete a run whose events a reader follows; AssertionError if its last event is another than `done`."""
        with Stopwatch() as watch:
            (run_id,) = await self.start(flow)
            kinds = [event.kind async for event in await self.core.runs.follow(self.me, run_id)]
            await self.at_rest()
        assert kinds[-1] == "done"
        return watch.cost


@asynccontextmanager
async def opened(
    place: Path | str | None, synchronous: Literal["FULL", "NORMAL"] = "FULL", *, again: bool = False
) -> AsyncIterator[Library]:
    """On a SQLite file, at another URL, or in memory; `again` if the place was opened before."""
    url = f"sqlite:///{place}" if isinstance(place, Path) else place or "sqlite://"
    settings = Settings(synchronous=synchronous, grace=0)
    async with open_core(url, tools=(step, nap), settings=settings) as core:
        if not again:
            await core.directory.create_organization("Bench", id=ORG)
        yield Library(core, core.principal(ORG, user="u1"))
