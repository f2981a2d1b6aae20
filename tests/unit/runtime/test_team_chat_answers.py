"""Answers to team chats, through the library: they are posted whatever comes between."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from bench import Bench, act, one, opened
from chatting import ASK, REACHING, Chat, later, looked, opened_door, serving

from wfcore.domain.triggers.webhooks import read_message
from wfcore.runtime.channels.postings import CLAIM_DURATION, FIRST_WAIT, LONGEST_WAIT, MOST_TRIES

pytestmark = pytest.mark.anyio


@pytest.fixture
async def chat() -> AsyncIterator[Chat]:
    async with serving() as made:
        yield made


@pytest.fixture(params=["memory", "sqlite"])
async def bench(request: pytest.FixtureRequest, database: str) -> AsyncIterator[Bench]:
    async with opened("sqlite://" if request.param == "memory" else database, settings=REACHING) as made:
        yield made


class TestAnswers:
    """What goes back."""

    async def test_an_answer_is_posted_signed(self, bench: Bench, chat: Chat) -> None:
        """When its run has ended, once, with the place of its message, under a signature that the secret explains."""
        door = await opened_door(bench, url=chat.url)
        run = await door.rested()
        assert [await looked(bench), await looked(bench)] == [1, 0]
        ((headers, body),) = chat.posted
        message = read_message(headers.items(), bench.clock.now())
        assert message.is_genuine(door.secret, body)
        assert headers["content-type"] == "application/json"
        assert chat.bodies == [
            {
                "type": "answer", "channel": "c", "thread": "t", "messageId": "msg_1", "runId": run.id,
                "status": "done", "output": "hello by grace of teamchat", "error": None, "interrupts": [],
                "text": "hello by grace of teamchat",
            }
        ]  # fmt: skip
        await door.send()
        assert await looked(bench) == 0

    async def test_a_wait_is_told_and_then_the_end(self, bench: Bench, chat: Chat) -> None:
        """A run that asks somebody says so, once; when it was answered its end is told, under another name."""
        door = await opened_door(bench, ASK, chat.url)
        run = await door.rested()
        assert [await looked(bench), await looked(bench)] == [1, 0]
        (asked,) = chat.bodies
        assert (asked["status"], asked["text"]) == ("interrupted", "May hello?")
        assert [one["interruptId"] for one in asked["interrupts"]] == [run.interrupts[0].id]
        await bench.ended(await bench.core.runs.resume(bench.other, run.id, decision="deny"))
        assert [await looked(bench), await looked(bench)] == [1, 0]
        assert [body["status"] for body in chat.bodies] == ["interrupted", "done"]
        assert chat.bodies[1]["runId"] != run.id
        assert len(set(chat.names)) == 2

    async def test_a_wait_that_is_over_is_not_told(self, bench: Bench, chat: Chat) -> None:
        """What was answered before anybody was told leads straight to the end."""
        door = await opened_door(bench, ASK, chat.url)
        run = await door.rested()
        await bench.ended(await bench.core.runs.resume(bench.other, run.id, decision="approve"))
        assert [await looked(bench), await looked(bench)] == [1, 0]
        assert [body["status"] for body in chat.bodies] == ["done"]

    async def test_an_error_and_a_cancelled_run(self, bench: Bench, chat: Chat) -> None:
        """Both are told in words."""
        failing = await opened_door(bench, one(act("core.fail", message="no lamps left")), chat.url)
        waiting = await opened_door(bench, ASK, chat.url)
        await failing.rested()
        await bench.core.runs.cancel(bench.me, (await waiting.rested()).id)
        assert await looked(bench) == 2
        told = {body["status"]: body["text"] for body in chat.bodies}
        assert told.keys() == {"error", "cancelled"}
        assert "no lamps left" in told["error"]
        assert told["cancelled"] == "The run was cancelled."

    async def test_a_wait_that_is_called_off(self, bench: Bench, chat: Chat) -> None:
        """Whoever was told that a run waits is told, under another name, that it was cancelled."""
        door = await opened_door(bench, ASK, chat.url)
        run = await door.rested()
        await looked(bench)
        await bench.core.runs.cancel(bench.me, run.id)
        assert [await looked(bench), await looked(bench)] == [1, 0]
        assert [body["status"] for body in chat.bodies] == ["interrupted", "cancelled"]
        assert len(set(chat.names)) == 2

    async def test_an_answer_that_breaks_its_poster(self, bench: Bench, chat: Chat) -> None:
        """What cannot even be tried to its end is given up like what nobody takes."""
        door = await opened_door(bench, url=chat.url)
        await door.rested()
        bench.core.poster._post = broken  # type: ignore[method-assign]
        for _ in range(MOST_TRIES):
            assert await looked(bench) == 1
            bench.clock.advance(CLAIM_DURATION / 1000)
        assert [await looked(bench), await looked(bench)] == [1, 0]
        owner = bench.person("me", role="owner")
        assert len(await bench.core.audit.page(owner, action="interface.give_up")) == 1

    async def test_what_is_not_taken_is_tried_again(self, bench: Bench, chat: Chat) -> None:
        """Later and later, under the same name and a new signature, until it is taken."""
        chat.status = 503
        door = await opened_door(bench, url=chat.url)
        await door.rested()
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

    async def test_it_is_given_up_in_the_end(self, bench: Bench, chat: Chat) -> None:
        """After so many tries, which the audit tells; a wait that was given up hides no end."""
        chat.status = 500
        door = await opened_door(bench, ASK, chat.url)
        run = await door.rested()
        for _ in range(MOST_TRIES):
            await looked(bench)
            bench.clock.advance(LONGEST_WAIT / 1000)
        assert (await looked(bench), len(chat.posted)) == (0, MOST_TRIES)
        owner = bench.person("me", role="owner")
        rows = [view.row for view in await bench.core.audit.page(owner, action="interface.give_up")]
        assert [(row.resource_id, row.details) for row in rows] == [(door.id, {"runId": run.id, "tries": MOST_TRIES})]
        chat.status = 200
        await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="approve"))
        await looked(bench)
        assert chat.bodies[-1]["status"] == "done"

    async def test_nobody_to_tell(self, bench: Bench, chat: Chat) -> None:
        """Without a `postUrl`, and when the row or the workflow has gone, nothing is posted and nothing is owed."""
        quiet, removed, deleted = [await opened_door(bench, url=url) for url in (None, chat.url, chat.url)]
        for door in (quiet, removed, deleted):
            await door.rested()
        await bench.core.workflows.interfaces.clear(bench.me, removed.workflow)
        await bench.core.workflows.delete(bench.me, deleted.workflow)
        assert [await looked(bench), await looked(bench)] == [3, 0]
        assert chat.posted == []

    async def test_where_the_guard_lets_nobody(self, database: str, chat: Chat) -> None:
        """An address that is not public gets nothing, unless the operator lets it through."""
        async with opened(database) as bench:
            door = await opened_door(bench, url=chat.url)
            await door.rested()
            assert await looked(bench) == 1
            assert chat.posted == []
        async with opened(database, settings=REACHING, org=bench.org, clock=bench.clock) as bench:
            await later(bench, FIRST_WAIT)
            assert len(chat.posted) == 1


class TestCrashes:
    """Whatever comes between."""

    async def test_what_is_owed_outlives_the_process(self, database: str, chat: Chat) -> None:
        """A run that ended before anybody looked is told by the next process, as its first deed."""
        async with opened(database, settings=REACHING) as bench:
            await (await opened_door(bench, url=chat.url)).rested()
        assert chat.posted == []
        async with opened(database, settings=REACHING, org=bench.org, clock=bench.clock), asyncio.timeout(10):
            await chat.came.wait()
        assert [body["status"] for body in chat.bodies] == ["done"]

    async def test_a_message_whose_run_was_never_begun(self, database: str, chat: Chat) -> None:
        """A process that died before the run began owes nothing; the message that comes again is answered."""
        async with opened(database, settings=REACHING) as bench:
            door = await opened_door(bench, url=chat.url)
            begin = bench.core.ports.journal.begin
            bench.core.ports.journal.begin = crash  # type: ignore[method-assign]
            with pytest.raises(asyncio.CancelledError):
                await door.send()
            bench.core.ports.journal.begin = begin  # type: ignore[method-assign]
            assert await looked(bench) == 0
            await door.rested()
            assert await looked(bench) == 1
        assert [body["status"] for body in chat.bodies] == ["done"]

    async def test_an_answer_that_was_cut_off(self, database: str, chat: Chat) -> None:
        """What nobody wrote down as told is told again after a while, under the same name."""
        chat.status = 0
        async with opened(database, settings=REACHING) as bench:
            await (await opened_door(bench, url=chat.url)).rested()
            await bench.core.poster.poll()
            async with asyncio.timeout(10):
                await chat.came.wait()
        chat.status = 200
        async with opened(database, settings=REACHING, org=bench.org, clock=bench.clock) as bench:
            assert await looked(bench) == 0
            await later(bench, CLAIM_DURATION)
            assert await looked(bench) == 0
        assert len(chat.names) == 2
        assert len(set(chat.names)) == 1

    async def test_of_two_processes_one_posts(self, database: str, chat: Chat) -> None:
        """However many look at once, an answer is posted once."""
        async with opened(database, settings=REACHING) as bench:
            door = await opened_door(bench, url=chat.url)
            for n in range(5):
                await door.rested(id=f"m{n}")
            async with opened(database, settings=REACHING, org=bench.org, clock=bench.clock) as other:
                await asyncio.gather(*(looked(one) for one in (bench, other, bench, other)))
                await asyncio.gather(*other.core.poster._under_way.values())
        assert len(chat.posted) == 5


async def crash(*_: object) -> None:
    raise asyncio.CancelledError


async def broken(*_: object) -> bool:
    raise RuntimeError
