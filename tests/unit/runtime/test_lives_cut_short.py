"""What outlives a worker and what it could not do: answers that somebody saw begin, executions that nobody can drive,
keys that mean the same to whoever gets them."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from bench import Bench, act, agent, deployed_skill, eventually, graph, kinds, one, opened, why

from wfcore.domain.run import entries as e
from wfcore.ports.journal import Append, ExecutionRef
from wfcore.ports.providers import Delta, Finished, ModelRequest, TextDelta
from wfcore.runtime.execution.poison_runs import TRIES

pytestmark = pytest.mark.anyio


class Halting:
    """A model that says one word and then waits until it may say the other. `left` is how often it breaks instead;
    a `mute` one says nothing before."""

    def __init__(self, *, free: bool = False, left: int = 0, mute: bool = False) -> None:
        self.free = asyncio.Event()
        self.keys: list[str] = []
        self.left = left
        self.mute = mute
        if free:
            self.free.set()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.keys.append(request.key)
        if not self.mute:
            yield TextDelta("one ")
        await self.free.wait()
        if self.left:
            self.left -= 1
            raise RuntimeError("cut")
        yield TextDelta("two")
        yield Finished()


def deltas(events: Sequence[Any]) -> dict[str, str]:
    """What clients saw stream, by message."""
    said: dict[str, str] = {}
    for event in events:
        if event.kind == "message_delta":
            said[event.data["messageId"]] = said.get(event.data["messageId"], "") + event.data["delta"]
    return said


class TestAnswersBrokenOff:
    """Clients saw a model begin; its worker ended."""

    @pytest.mark.parametrize("beside", [False, True])
    async def test_the_next_life_says_another_message(self, database: str, beside: bool) -> None:
        """What was seen stays as it is; the model is called again under the same key, as a retry, and its message has
        another id. That does not count as a failed attempt: a node that tries once still has its try."""
        structure = graph("s>a" + (" s>w" if beside else ""), a=agent(message="hi"),
                          **({"w": act("core.wait", seconds=0)} if beside else {}))  # fmt: skip
        before, after = Halting(), Halting(free=True)
        async with opened(database, models={"default": before}) as bench:
            run = await bench.started(structure)
            seen = await bench.seen(run, "message_delta")
        async with opened(database, models={"default": after}, org=bench.org) as again:
            ended = await again.ended(run.id)
            events = await again.events(run.id)
        assert ended.status == "done"
        assert deltas(events) == {f"{run.id}:a:1:1": "one ", f"{run.id}:a:1:2": "one two"}
        assert seen in events
        [retried] = [event for event in events if event.kind == "node_retrying"]
        assert (retried.data["attempt"], retried.data["error"]["info"]["cause"]) == (2, "broken_off")
        assert events.index(seen) < events.index(retried)
        [message] = [event.data for event in events if event.kind == "message"]
        assert (message["messageId"], message["content"]) == (f"{run.id}:a:1:2", "one two")
        assert before.keys == after.keys

    async def test_nothing_seen_is_nothing_shown(self, database: str) -> None:
        """A call that was cut before a word was durable is made again as the same attempt."""
        mute = Halting(mute=True)
        async with opened(database, models={"default": mute}) as bench:
            run = await bench.started(one(agent(message="hi")))
            await eventually(lambda: mute.keys)
        async with opened(database, models={"default": Halting(free=True)}, org=bench.org) as again:
            events = await again.events(run.id)
        assert "node_retrying" not in kinds(events)
        assert deltas(events) == {f"{run.id}:a:1:1": "one two"}

    async def test_its_tries_are_left(self, database: str) -> None:
        """Two tries are two failures, however many workers ended in between."""
        model = Halting()
        structure = one(agent(message="hi", retry={"maxAttempts": 2, "initialIntervalSeconds": 0}))
        async with opened(database, models={"default": model}) as bench:
            run = await bench.started(structure)
            await bench.seen(run, "message_delta")
        async with opened(database, models={"default": Halting(free=True, left=1)}, org=bench.org) as again:
            ended = await again.ended(run.id)
            assert ended.status == "done"
            assert list(deltas(await again.events(run.id)).values()) == ["one ", "one ", "one two"]
        async with opened(database, models={"default": Halting(free=True, left=2)}, org=bench.org) as again:
            assert why(await again.ran(structure))[0].endswith("cut")

    async def test_a_live_answer_is_left_alone(self, bench: Bench) -> None:
        """While its worker lives, nothing of it is made anew, whatever else happens in the run."""
        number = await deployed_skill(bench)
        run = await bench.ended(await bench.core.runs.chat(bench.me, number, message="a b c d"))
        events = await bench.events(run.id)
        assert len(deltas(events)) == 1
        assert "node_retrying" not in kinds(events)


class TestExecutionsNobodyCanDrive:
    """The program fails at one of them, every time."""

    async def test_it_ends_in_error(self, caplog: pytest.LogCaptureFixture) -> None:
        """After some tries it is ended, loudly, and nothing of it waits for ever; its followers see the end."""
        async with opened("sqlite://") as bench:
            poisoned(bench)
            with caplog.at_level(logging.ERROR):
                run = await bench.started(one(act("echo", value=1)))
                for number in range(1, TRIES):
                    await eventually(lambda n=number: caplog.text.count("could not be driven") == n)
                    bench.clock.advance(10)
                ended = await bench.ended(run)
            assert why(ended) == ("the run could not be carried on: TypeError", "defect")
            assert kinds(await bench.events(run.id))[-1] == "error"
            assert "an execution was ended, because it cannot be driven" in caplog.text
            assert (await bench.core.ports.journal.execution(run.row.execution)).claimed_by is None

    async def test_tries_that_succeed_between_count_anew(self, caplog: pytest.LogCaptureFixture) -> None:
        """An error that goes away, as with a new version, costs the run nothing."""
        async with opened("sqlite://") as bench:
            heal = poisoned(bench)
            with caplog.at_level(logging.ERROR):
                run = await bench.started(one(act("echo", value=1)))
                for number in range(1, TRIES):
                    await eventually(lambda n=number: caplog.text.count("could not be driven") == n)
                    if number == TRIES - 1:
                        heal()
                    bench.clock.advance(10)
                assert (await bench.ended(run)).output == 1


def poisoned(bench: Bench) -> Any:
    """Have every write of a result fail as a mistake in the program does; the returned function ends that."""
    journal = bench.core.ports.journal
    append = journal.append

    async def broken(ref: ExecutionRef, what: Append) -> None:
        if any(isinstance(entry, e.Succeeded) for entry in what.entries):
            raise TypeError("this cannot be written")
        await append(ref, what)

    journal.append = broken  # type: ignore[method-assign]
    return lambda: setattr(journal, "append", append)


async def test_effects_of_two_organizations_share_no_key(bench: Bench) -> None:
    """Both have a run `order-77` and a node `h`: a provider that they share can distinguish the two calls."""
    other = await bench.core.directory.create_organization("Other")
    they = bench.core.principal(other.uuid, "they", email="they@x.org")
    await bench.ran(one(act("echo", value=1)), key="order-77")
    view = await bench.core.workflows.create(they, name="A flow", structure=one(act("echo", value=1)))
    await bench.core.workflows.deploy(they, view.id)
    run = await bench.core.runs.start(they, workflow=view.id, input={}, key="order-77")
    await eventually(lambda: len(bench.tools.calls) == 2)
    keys = {key for _, _, key, _ in bench.tools.calls}
    assert (run.id, len(keys)) == ("order-77", 2)
    assert {key.partition(":")[2] for key in keys} == {"a:1"}
    assert not any("order-77" in key for key in keys)
