"""Responses to team chats, through the library: they are delivered after any failure."""

import asyncio
from collections.abc import AsyncIterator

import attrs
import pytest
from bench import Bench, act, one, opened
from chatting import ASK, REACHING, Chat, later, looked, opened_channel, serving
from waiting import HANG

from wfcore.adapters.sealing import Sealing
from wfcore.domain.kernel.errors import Unavailable
from wfcore.domain.triggers.webhooks import read_message
from wfcore.ports.repositories.postings import DuePosting
from wfcore.runtime.channels import delivery_loop as module
from wfcore.runtime.channels.delivery_loop import CLAIM_DURATION
from wfcore.runtime.channels.postings import FIRST_WAIT, LONGEST_WAIT, MOST_TRIES, Poster

pytestmark = pytest.mark.anyio


@pytest.fixture
async def chat() -> AsyncIterator[Chat]:
    async with serving() as made:
        yield made


@pytest.fixture(params=["memory", "sqlite"])
async def bench(request: pytest.FixtureRequest, database: str) -> AsyncIterator[Bench]:
    async with opened("sqlite://" if request.param == "memory" else database, settings=REACHING) as made:
        yield made


class TestResponses:
    """The delivered responses."""

    async def test_a_response_is_posted_with_a_signature(self, bench: Bench, chat: Chat) -> None:
        """After the run's end, once, with the message's `place`, signed with the interface's secret."""
        channel = await opened_channel(bench, url=chat.url)
        run = await channel.rested()
        assert [await looked(bench), await looked(bench)] == [1, 0]
        ((headers, body),) = chat.posted
        message = read_message(headers.items(), bench.clock.now())
        assert message.is_genuine(channel.secret, body)
        assert headers["content-type"] == "application/json"
        assert chat.bodies == [
            {
                "type": "answer", "channel": "c", "thread": "t", "messageId": "msg_1", "runId": run.id,
                "status": "done", "output": "hello by grace of teamchat", "error": None, "interrupts": [],
                "text": "hello by grace of teamchat",
            }
        ]  # fmt: skip
        await channel.send()
        assert await looked(bench) == 0

    async def test_an_organization_has_a_bounded_number_under_way(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Beyond it, responses of that organization wait, so that those of others need not."""
        monkeypatch.setattr(module, "MAX_PER_ORGANIZATION", 2)
        due = [DuePosting(org, f"p-{number}") for org in ("a", "b") for number in range(4)]

        async def listed(*_: object, **__: object) -> list[DuePosting]:
            return due

        poster, release = Poster(bench.core.ports), asyncio.Event()
        monkeypatch.setattr(poster, "_due", listed)
        monkeypatch.setattr(poster, "_try", lambda _: release.wait())
        monkeypatch.setattr(poster, "_correct", lambda *_: asyncio.sleep(0))
        assert [len(await poster.poll()) for _ in range(2)] == [4, 0]
        release.set()
        await asyncio.gather(*poster.under_way)
        assert len(await poster.poll()) == 4
        await poster.stop()

    async def test_an_interrupt_is_reported_and_then_the_end(self, bench: Bench, chat: Chat) -> None:
        """An interrupted run is reported once; after the decision its end is reported with another id."""
        channel = await opened_channel(bench, ASK, chat.url)
        run = await channel.rested()
        assert [await looked(bench), await looked(bench)] == [1, 0]
        (asked,) = chat.bodies
        assert (asked["status"], asked["text"]) == ("interrupted", "May hello?")
        assert [one["interruptId"] for one in asked["interrupts"]] == [run.interrupts[0].id]
        await bench.ended(await bench.core.runs.resume(bench.other, run.id, decision="deny"))
        assert [await looked(bench), await looked(bench)] == [1, 0]
        assert [body["status"] for body in chat.bodies] == ["interrupted", "done"]
        assert chat.bodies[1]["runId"] != run.id
        assert len(set(chat.names)) == 2

    async def test_a_resolved_interrupt_is_not_reported(self, bench: Bench, chat: Chat) -> None:
        """An interrupt that was resolved before its report leads directly to the end."""
        channel = await opened_channel(bench, ASK, chat.url)
        run = await channel.rested()
        await bench.ended(await bench.core.runs.resume(bench.other, run.id, decision="approve"))
        assert [await looked(bench), await looked(bench)] == [1, 0]
        assert [body["status"] for body in chat.bodies] == ["done"]

    async def test_an_error_and_a_cancelled_run(self, bench: Bench, chat: Chat) -> None:
        """Both are reported as text."""
        failing = await opened_channel(bench, one(act("core.fail", message="no lamps left")), chat.url)
        waiting = await opened_channel(bench, ASK, chat.url)
        await failing.rested()
        await bench.core.runs.cancel(bench.me, (await waiting.rested()).id)
        assert await looked(bench) == 2
        reported = {body["status"]: body["text"] for body in chat.bodies}
        assert reported.keys() == {"error", "cancelled"}
        assert "no lamps left" in reported["error"]
        assert reported["cancelled"] == "The run was cancelled."

    async def test_a_reported_interrupt_that_is_cancelled(self, bench: Bench, chat: Chat) -> None:
        """After the report of an interrupt, the cancellation is reported with another id."""
        channel = await opened_channel(bench, ASK, chat.url)
        run = await channel.rested()
        await looked(bench)
        await bench.core.runs.cancel(bench.me, run.id)
        assert [await looked(bench), await looked(bench)] == [1, 0]
        assert [body["status"] for body in chat.bodies] == ["interrupted", "cancelled"]
        assert len(set(chat.names)) == 2

    async def test_a_response_that_raises(self, bench: Bench, chat: Chat) -> None:
        """A response that cannot even be tried is retried and given up like one that is never accepted."""
        channel = await opened_channel(bench, url=chat.url)
        await channel.rested()
        bench.core.poster._post = broken  # type: ignore[method-assign]
        for _ in range(MOST_TRIES):
            assert await looked(bench) == 1
            bench.clock.advance(LONGEST_WAIT / 1000)
        assert await looked(bench) == 0
        owner = bench.person("me", role="owner")
        assert len(await bench.core.audit.page(owner, action="interface.give_up")) == 1

    async def test_a_response_that_is_not_accepted_is_retried(self, bench: Bench, chat: Chat) -> None:
        """With growing intervals, the same id and a new signature, until it is accepted."""
        chat.status = 503
        channel = await opened_channel(bench, url=chat.url)
        await channel.rested()
        assert await looked(bench) == 1
        for wait in (FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT):
            bench.clock.advance((wait - 1) / 1000)
            assert await looked(bench) == 0
            bench.clock.advance(0.001)
            assert await looked(bench) == 1
        chat.status = 204
        await later(bench, 8 * FIRST_WAIT)
        assert len(chat.posted) == 5
        assert len(set(chat.names)) == 1
        assert len({headers["webhook-timestamp"] for headers, _ in chat.posted}) == 5
        assert await looked(bench) == 0

    async def test_without_the_key_of_its_secret(self, bench: Bench, chat: Chat) -> None:
        """The response is not sent unsigned: it is tried again, by a process that has the key. Neither is a message
        accepted whose signature cannot be checked.
        """
        channel = await opened_channel(bench, url=chat.url)
        await channel.rested()
        ports = attrs.evolve(bench.core.ports, sealer=Sealing(lambda: [b"x" * 32]))
        without = Poster(ports)
        await without.poll()
        await asyncio.gather(*without._under_way.values())
        assert chat.posted == []
        bench.clock.advance(FIRST_WAIT / 1000)
        assert (await looked(bench), len(chat.posted)) == (1, 1)
        bench.core.team_chats._ports = ports
        with pytest.raises(Unavailable, match="the interface's secret cannot be read"):
            await channel.send(id="msg_2")

    async def test_a_response_is_given_up_in_the_end(self, bench: Bench, chat: Chat) -> None:
        """After a number of tries, which the audit records; a given-up interrupt does not prevent the report of the
        end.
        """
        chat.status = 500
        channel = await opened_channel(bench, ASK, chat.url)
        run = await channel.rested()
        for _ in range(MOST_TRIES):
            await looked(bench)
            bench.clock.advance(LONGEST_WAIT / 1000)
        assert (await looked(bench), len(chat.posted)) == (0, MOST_TRIES)
        owner = bench.person("me", role="owner")
        rows = [view.row for view in await bench.core.audit.page(owner, action="interface.give_up")]
        assert [(row.resource_id, row.details) for row in rows] == [
            (channel.id, {"runId": run.id, "tries": MOST_TRIES})
        ]
        chat.status = 200
        await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="approve"))
        await looked(bench)
        assert chat.bodies[-1]["status"] == "done"

    async def test_without_an_address(self, bench: Bench, chat: Chat) -> None:
        """Without a `postUrl`, and after the row or the workflow was deleted, nothing is posted and nothing stays
        pending.
        """
        quiet, removed, deleted = [await opened_channel(bench, url=url) for url in (None, chat.url, chat.url)]
        for channel in (quiet, removed, deleted):
            await channel.rested()
        await bench.core.workflows.interfaces.clear(bench.me, removed.workflow)
        await bench.core.workflows.delete(bench.me, deleted.workflow)
        assert [await looked(bench), await looked(bench)] == [3, 0]
        assert chat.posted == []

    async def test_a_private_address(self, database: str, chat: Chat) -> None:
        """It gets nothing, unless the operator allows it."""
        async with opened(database) as bench:
            channel = await opened_channel(bench, url=chat.url)
            await channel.rested()
            assert await looked(bench) == 1
            assert chat.posted == []
        async with opened(database, settings=REACHING, org=bench.org, clock=bench.clock) as bench:
            await later(bench, FIRST_WAIT)
            assert len(chat.posted) == 1


class TestCrashes:
    """Failures between the steps."""

    async def test_a_pending_response_outlives_the_process(self, database: str, chat: Chat) -> None:
        """A run that ended before a poll is reported by the next process when it starts."""
        async with opened(database, settings=REACHING) as bench:
            await (await opened_channel(bench, url=chat.url)).rested()
        assert chat.posted == []
        again = opened(database, settings=REACHING, org=bench.org, clock=bench.clock, polls=True)
        async with again, asyncio.timeout(HANG):
            await chat.came.wait()
        assert [body["status"] for body in chat.bodies] == ["done"]

    async def test_a_crash_before_the_run_begins(self, database: str, chat: Chat) -> None:
        """Nothing is delivered for the message; when it is sent again, it gets its response."""
        async with opened(database, settings=REACHING) as bench:
            channel = await opened_channel(bench, url=chat.url)
            begin = bench.core.ports.journal.begin
            bench.core.ports.journal.begin = crash  # type: ignore[method-assign]
            with pytest.raises(asyncio.CancelledError):
                await channel.send()
            bench.core.ports.journal.begin = begin  # type: ignore[method-assign]
            assert await looked(bench) == 0
            await channel.rested()
            assert await looked(bench) == 1
        assert [body["status"] for body in chat.bodies] == ["done"]

    async def test_a_delivery_that_was_interrupted(self, database: str, chat: Chat) -> None:
        """A response whose delivery was not recorded is posted again after a while, with the same id."""
        chat.status = 0
        async with opened(database, settings=REACHING) as bench:
            await (await opened_channel(bench, url=chat.url)).rested()
            await bench.core.poster.poll()
            async with asyncio.timeout(HANG):
                await chat.came.wait()
        chat.status = 200
        async with opened(database, settings=REACHING, org=bench.org, clock=bench.clock) as bench:
            assert await looked(bench) == 0
            for _ in range(2):  # until the claim is due, and then until it has not changed for as long
                await later(bench, CLAIM_DURATION)
            assert await looked(bench) == 0
        assert len(chat.names) == 2
        assert len(set(chat.names)) == 1

    @pytest.mark.parametrize("step", [3_600, -3_600])
    async def test_a_wall_clock_that_steps_during_a_delivery(self, database: str, chat: Chat, step: int) -> None:
        """By an hour, forward or back: another process does not post the response too, and later ones are posted."""
        chat.status = 0
        async with opened(database, settings=REACHING) as bench:
            channel = await opened_channel(bench, url=chat.url)
            await channel.rested()
            await bench.core.poster.poll()
            async with asyncio.timeout(HANG):
                await chat.came.wait()
            bench.clock.step(step)
            async with opened(database, settings=REACHING, org=bench.org, clock=bench.clock) as other:
                for _ in range(5):
                    await looked(other)
                    bench.clock.advance(CLAIM_DURATION / 1000 / 10)
                assert len(chat.names) == 1
                chat.status = 200
                await channel.rested(id="m2")
                await looked(other)
                assert len(set(chat.names)) == len(chat.names) == 2

    async def test_a_retry_after_a_step_back(self, bench: Bench, chat: Chat) -> None:
        """A response that was refused after the step is retried by the new time."""
        chat.status = 503
        await (await opened_channel(bench, url=chat.url)).rested()
        bench.clock.step(-3_600)
        assert await looked(bench) == 1
        chat.status = 200
        await later(bench, FIRST_WAIT)
        assert len(chat.posted) == 2

    async def test_of_two_processes_one_posts(self, database: str, chat: Chat) -> None:
        """However many poll at once, a response is posted once."""
        async with opened(database, settings=REACHING) as bench:
            channel = await opened_channel(bench, url=chat.url)
            for n in range(5):
                await channel.rested(id=f"m{n}")
            async with opened(database, settings=REACHING, org=bench.org, clock=bench.clock) as other:
                await asyncio.gather(*(looked(one) for one in (bench, other, bench, other)))
                await asyncio.gather(*other.core.poster._under_way.values())
        assert len(chat.posted) == 5


async def crash(*_: object) -> None:
    raise asyncio.CancelledError


async def broken(*_: object) -> bool:
    raise RuntimeError
