"""A store that is unavailable for a while, as during a restart of its server: nothing is lost."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from bench import Bench, act, agent, eventually, graph, kinds, one, opened

from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.providers import Delta, Finished, ModelRequest, TextDelta

pytestmark = pytest.mark.anyio


class Away:
    """The bench's journal, whose next appends fail: before they are `done`, or with the response lost."""

    def __init__(self, bench: Bench, *, done: bool) -> None:
        journal = bench.core.ports.journal
        self.left = self.failed = 0
        self._done = done
        self._append = journal.append
        journal.append = self._try  # type: ignore[method-assign]

    async def _try(self, *args: Any) -> None:
        if not self.left:
            return await self._append(*args)
        self.left -= 1
        self.failed += 1
        if self._done:
            self.left = 0
            await self._append(*args)
        raise Unavailable("the store does not answer")


class Poet:
    """A model that streams three words; the store becomes unavailable before the second."""

    def __init__(self) -> None:
        self.asked = 0
        self.away: Away | None = None

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        self.asked += 1
        yield TextDelta("one ")
        if self.away:
            self.away.left = 3
        yield TextDelta("two ")
        yield TextDelta("three")
        yield Finished("stop")


@pytest.mark.parametrize("done", [False, True])
async def test_a_result_waits_for_the_store(database: str, done: bool) -> None:
    """A non-idempotent tool is called once, and the run continues with its result."""
    calls: list[str] = []

    async def charge() -> str:
        calls.append("charge")
        away.left = 3
        return "charged"

    async with opened(database, tools=[charge]) as bench:
        away = Away(bench, done=done)
        run = await bench.started(
            graph("s>a a>b", a=act("charge"), b=act("core.transform", value="{{ nodes.a.output }}"))
        )
        await passing(bench, run.id)
        assert (await bench.ended(run)).output == "charged"
        assert (calls, away.failed) == (["charge"], 1 if done else 3)
        assert kinds(await bench.events(run.id)).count("node_finished") == 3


@pytest.mark.parametrize("done", [False, True])
async def test_text_is_published_once(database: str, done: bool) -> None:
    """Clients get each word once, whether it was written or not when the response was lost."""
    poet = Poet()
    async with opened(database, models={"default": poet}) as bench:
        poet.away = Away(bench, done=done)
        run = await bench.started(one(agent(message="a poem")))
        await passing(bench, run.id)
        assert (await bench.ended(run)).output == "one two three"
        events = await bench.events(run.id)
        said = [event.data["delta"] for event in events if event.kind == "message_delta"]
        assert ("".join(said), poet.asked, poet.away.failed > 0) == ("one two three", 1, True)


async def passing(bench: Bench, run_id: str) -> None:
    """Advance the clock until the run is done."""

    async def done() -> bool:
        bench.clock.advance(1)
        return (await bench.core.runs.get(bench.me, run_id)).status == "done"

    await eventually(done)
