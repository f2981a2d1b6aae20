"""Events for hooks and handlers: which, to whom, how often, and what follows from failures."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest
from bench import Bench, act, ask, graph, one, opened, private, start
from chatting import REACHING, Chat, serving
from hooking import ALL, delivered, hooked, messages
from scheduling import HOUR, later, scheduled
from waiting import HANG

from wfcore.domain.channels.hooks import FIRST_WAIT, MOST_TRIES, OLD_SECRET_MS, wait_after
from wfcore.domain.triggers.webhooks import read_message
from wfcore.ports.repositories.hooks import DueDelivery
from wfcore.runtime.channels import delivery_loop as module
from wfcore.runtime.channels.delivery_loop import CLAIM_DURATION, Answer
from wfcore.runtime.channels.notifier import KEPT_FOR, Notifier
from wfcore.runtime.common.handlers import HookEvent

pytestmark = pytest.mark.anyio

ASK = graph("s>a a:approved>b", a=ask(), b=act("echo", value="paid"))
ECHO = one(act("echo", value=1))
FAIL = one(act("core.fail", message="no lamps left"))


@pytest.fixture
async def chat() -> AsyncIterator[Chat]:
    async with serving() as made:
        yield made


@pytest.fixture(params=["memory", "sqlite"])
async def bench(request: pytest.FixtureRequest, database: str) -> AsyncIterator[Bench]:
    settings = attrs.evolve(REACHING, public_url="https://flows.example.org/")
    async with opened("sqlite://" if request.param == "memory" else database, settings=settings) as made:
        yield made


class TestEvents:
    """What is reported."""

    async def test_an_approval(self, bench: Bench, chat: Chat) -> None:
        """The interrupt opens, is resolved in the turn that it interrupted, and the execution finishes."""
        await hooked(bench, chat)
        number = await bench.deployed(ASK)
        run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        assert await delivered(bench) == 1
        last = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="approve"))
        assert await delivered(bench) == 2
        interrupt, common = run.interrupts[0].id, {"orgUuid": bench.org, "workflowId": number}
        resolved, finished = sorted(messages(chat)[1:])
        assert messages(chat)[0] == (
            "interrupt.opened",
            {**common, "runId": run.id, "interruptId": interrupt, "status": "interrupted",
             "url": f"https://flows.example.org/studio/inbox/{interrupt}"},
        )  # fmt: skip
        assert resolved == (
            "interrupt.resolved",
            {**common, "runId": run.id, "interruptId": interrupt, "status": "running", "decision": "approve",
             "url": f"https://flows.example.org/studio/runs/{run.id}"},
        )  # fmt: skip
        assert finished == (
            "run.finished",
            {**common, "runId": last.id, "status": "done", "url": f"https://flows.example.org/studio/runs/{last.id}"},
        )
        assert all(body["timestamp"].endswith("Z") for body in chat.bodies)
        assert await delivered(bench) == 0

    async def test_an_interrupt_beside_an_active_branch(self, bench: Bench, chat: Chat) -> None:
        """It is reported while the turn is open, once; a cancel resolves it and finishes the run."""
        await hooked(bench, chat)
        run = await bench.started(graph("s>a s>b", a=ask(), b=act("hold")))
        await bench.until("it")
        await delivered(bench)
        assert [kind for kind, _ in messages(chat)] == ["interrupt.opened"]
        await bench.core.runs.cancel(bench.me, run.id)
        await bench.ended(run)
        await delivered(bench)
        ends = {kind: data.get("decision") or data["status"] for kind, data in messages(chat)[1:]}
        assert ends == {"interrupt.resolved": "cancelled", "run.finished": "cancelled"}
        assert len(chat.posted) == 3

    async def test_a_deadline(self, bench: Bench, chat: Chat) -> None:
        """An expired interrupt is resolved with `expired`, also when the system begins the turn."""
        await hooked(bench, chat)
        run = await bench.started(graph("s>a a:expired>b", a=ask(timeoutSeconds=60), b=act("echo")))
        await bench.ended(run)
        bench.clock.advance(61)
        await bench.ended(await bench.resumed_by(run))
        await delivered(bench)
        assert [data["decision"] for kind, data in messages(chat) if kind == "interrupt.resolved"] == ["expired"]

    async def test_a_reminder(self, bench: Bench, chat: Chat) -> None:
        """It has the link to the approval; a delivery comes once."""
        await hooked(bench, chat)
        run = await bench.ran(one(ask(remindAfterSeconds=60)))
        await delivered(bench)
        bench.clock.advance(61)
        turn = await bench.resumed_by(run)
        await bench.ended(turn)
        assert await delivered(bench) == 1
        kind, data = messages(chat)[-1]
        interrupt = run.interrupts[0].id
        assert (kind, data["interruptId"], data["runId"]) == ("interrupt.reminded", interrupt, turn)
        assert data["url"] == f"https://flows.example.org/studio/inbox/{interrupt}"

    async def test_ends(self, bench: Bench, chat: Chat) -> None:
        """An error is `run.failed`; a child of a run reports nothing of its own."""
        await hooked(bench, chat)
        child = await bench.deployed(ECHO)
        await bench.ran(FAIL)
        await bench.ran(one(act("core.workflow", workflowId=child)))
        await delivered(bench)
        assert sorted(kind for kind, _ in messages(chat)) == ["run.failed", "run.finished"]

    async def test_a_schedule_that_the_system_switches_off(self, bench: Bench, chat: Chat) -> None:
        """With the reason; a user's toggle is not reported."""
        await hooked(bench, chat, events=["schedule.paused"])
        got: list[HookEvent] = []
        bench.core.on("schedule.paused", got.append, name="paused")
        needy = graph("s>a", s=start(required=["n"]), a=act("echo"))
        number = await scheduled(bench, needy)
        await bench.core.workflows.toggle(bench.me, number, is_enabled=False)
        await bench.core.workflows.toggle(bench.me, number, is_enabled=True)
        assert await delivered(bench) == 0
        await later(bench, HOUR)
        assert await delivered(bench) == 2
        assert messages(chat) == [
            ("schedule.paused", {"orgUuid": bench.org, "workflowId": number, "status": "input_refused"})
        ]
        assert got[0].data == chat.bodies[0]["data"]

    async def test_filters(self, bench: Bench, chat: Chat) -> None:
        """Only the events and the workflow of the hook; nothing while it is switched off."""
        first, second = await bench.deployed(ECHO), await bench.deployed(FAIL)
        hook = await hooked(bench, chat, events=["run.failed"])
        own = await hooked(bench, chat, filter={"workflowId": first})
        for number in (first, second):
            await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        assert await delivered(bench) == 2
        assert sorted((kind, data["workflowId"]) for kind, data in messages(chat)) == [
            ("run.failed", second), ("run.finished", first)
        ]  # fmt: skip
        for one_hook in (hook, own):
            await bench.core.hooks.patch(bench.me, one_hook.id, is_enabled=False)
        for number in (first, second):
            await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        assert await delivered(bench) == 0


class TestMakers:
    """A hook reports what its maker may use when it is delivered."""

    async def test_what_the_maker_cannot_use(self, bench: Bench, chat: Chat) -> None:
        """It is dropped, and the log of the hook does not show it."""
        hook = await hooked(bench, chat, by=bench.other)
        number = await bench.deployed(ECHO, access=private())
        await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        assert await delivered(bench) == 1
        assert chat.posted == []
        assert await bench.core.hooks.deliveries(bench.other, hook.id) == []

    async def test_a_former_member(self, bench: Bench, chat: Chat) -> None:
        """The hook of a removed member reports nothing."""
        boss, ann = await bench.joined("boss", "owner"), await bench.joined("ann")
        await hooked(bench, chat, by=ann)
        number = await bench.deployed(ECHO)
        await bench.core.members.delete(boss, "ann")
        await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        await delivered(bench)
        assert chat.posted == []

    async def test_a_change_makes_the_caller_the_maker(self, bench: Bench, chat: Chat) -> None:
        """Nobody can redirect what only another member may see."""
        hook = await hooked(bench, chat)
        number = await bench.deployed(ECHO, access=private())
        await bench.core.hooks.patch(bench.other, hook.id, events=ALL)
        await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        await delivered(bench)
        assert chat.posted == []


class TestMessages:
    """Standard Webhooks, at least once."""

    async def test_a_message_is_signed(self, bench: Bench, chat: Chat) -> None:
        """With the secret of the hook; for a day after a rotation with both."""
        hook = await hooked(bench, chat)
        renewed = await bench.core.hooks.rotate(bench.me, hook.id)
        assert hook.secret != renewed.secret
        number = await bench.deployed(ECHO)
        for wait, signers in ((0, 2), (OLD_SECRET_MS, 1)):
            bench.clock.advance(wait / 1000)
            await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
            await delivered(bench)
            headers, body = chat.posted[-1]
            message = read_message(headers.items(), bench.clock.now())
            assert len(message.signatures) == signers
            genuine = [message.is_genuine(str(one.secret), body) for one in (renewed, hook)]
            assert genuine == [True, signers == 2]

    async def test_a_crash_before_the_record(self, bench: Bench, chat: Chat) -> None:
        """Delivered, but not recorded: it is delivered again with the same id and body, when the claim ends."""
        await hooked(bench, chat)
        await bench.ran(ECHO)
        notifier = Notifier(bench.core.ports)

        async def crash(*_: object, **__: object) -> None:
            raise asyncio.CancelledError

        notifier._record = crash  # type: ignore[method-assign]
        await asyncio.gather(*await notifier.poll(), return_exceptions=True)
        assert len(chat.posted) == 1
        for _ in range(2):  # until the claim is due, and then until it has not changed for as long
            await delivered(bench)
            assert len(chat.posted) == 1
            bench.clock.advance(CLAIM_DURATION / 1000)
        assert await delivered(bench) == 1
        assert len(chat.posted) == 2
        assert len(set(chat.names)) == 1
        assert chat.posted[0][1] == chat.posted[1][1]

    @pytest.mark.parametrize("step", [3_600, -3_600])
    async def test_a_wall_clock_that_steps_during_a_delivery(self, database: str, chat: Chat, step: int) -> None:
        """By an hour, forward or back: another process does not deliver the event too, and later ones are delivered."""
        chat.status = 0
        async with opened(database, settings=REACHING) as bench:
            await hooked(bench, chat)
            await bench.ran(ECHO)
            await bench.core.notifier.poll()
            async with asyncio.timeout(HANG):
                await chat.came.wait()
            bench.clock.step(step)
            async with opened(database, settings=REACHING, org=bench.org, clock=bench.clock) as other:
                for _ in range(5):
                    await delivered(other)
                    bench.clock.advance(CLAIM_DURATION / 1000 / 10)
                assert len(chat.names) == 1
                chat.status = 200
                await bench.ran(ECHO)
                await delivered(other)
                assert len(set(chat.names)) == len(chat.names) == 2

    async def test_an_attempt_that_ends_after_its_claim(self, bench: Bench, chat: Chat) -> None:
        """Its outcome does not count: another process has made an attempt since, and has recorded it."""
        hook = await hooked(bench, chat)
        await bench.ran(ECHO)
        notifier, began, release = Notifier(bench.core.ports), asyncio.Event(), asyncio.Event()

        async def late(*_: object) -> Answer:
            began.set()
            await release.wait()
            return Answer(200)

        notifier._post = late  # type: ignore[method-assign]
        tasks = await notifier.poll()
        await began.wait()
        chat.status = 500
        for _ in range(3):  # the last one after the claim was seen for as long as it lasts
            await delivered(bench)
            bench.clock.advance(CLAIM_DURATION / 1000)
        (before,) = await bench.core.hooks.deliveries(bench.me, hook.id)
        assert {attempt.status for attempt in before.row.attempts} == {500}
        release.set()
        await asyncio.gather(*tasks)
        (after,) = await bench.core.hooks.deliveries(bench.me, hook.id)
        assert (after.row.state, after.row.attempts) == ("pending", before.row.attempts)
        await delivered(bench)  # an attempt that the bench's own notifier has begun ends before the server does

    async def test_a_failed_delivery_is_retried(self, bench: Bench, chat: Chat) -> None:
        """First within 10 s, then with growing intervals, with the same id and body; only 2xx is a success."""
        chat.status = 302
        hook = await hooked(bench, chat)
        await bench.ran(ECHO)
        assert await delivered(bench) == 1
        for wait in (FIRST_WAIT, 2 * FIRST_WAIT):
            bench.clock.advance((wait - 1) / 1000)
            assert await delivered(bench) == 0
            bench.clock.advance(0.001)
            assert await delivered(bench) == 1
        chat.status = 204
        bench.clock.advance(4 * FIRST_WAIT / 1000)
        assert await delivered(bench) == 1
        assert len(set(chat.names)) == 1
        assert len({body for _, body in chat.posted}) == 1
        (view,) = await bench.core.hooks.deliveries(bench.me, hook.id)
        wire = view.to_wire()
        assert wire["status"] == "delivered"
        assert wire["nextAttemptAt"] is None
        assert [attempt["status"] for attempt in wire["attempts"]] == [302, 302, 302, 204]
        assert wire["webhookId"] == chat.names[0]

    async def test_a_delivery_is_given_up_in_the_end(self, bench: Bench, chat: Chat) -> None:
        """After three days, which the audit records; it can be delivered again with the same id."""
        chat.status = 500
        hook = await hooked(bench, chat)
        await bench.ran(ECHO)
        begun = bench.clock.now()
        for tries in range(1, MOST_TRIES + 1):
            assert await delivered(bench) == 1
            bench.clock.advance((wait_after(tries) or 0) / 1000)
        assert 2.9 <= (bench.clock.now() - begun) / 86_400_000 <= 3.1
        assert await delivered(bench) == 0
        owner = bench.person("me", role="owner")
        assert len(await bench.core.audit.page(owner, action="hook.give_up")) == 1
        (view,) = await bench.core.hooks.deliveries(bench.me, hook.id)
        assert view.row.state == "failed"
        chat.status = 200
        again = await bench.core.hooks.redeliver(bench.me, hook.id, view.id)
        assert (again.row.state, again.row.tries) == ("pending", 0)
        wire = again.to_wire()
        assert wire["nextAttemptAt"] == view.to_wire()["attempts"][-1]["at"] > wire["createdAt"]
        assert await delivered(bench) == 1
        assert len(set(chat.names)) == 1
        assert len({body for _, body in chat.posted}) == 1

    async def test_an_address_that_is_gone(self, bench: Bench, chat: Chat) -> None:
        """410 switches the hook off, and its other deliveries fail without an attempt."""
        chat.status = 410
        hook = await hooked(bench, chat, events=["run.finished"])
        await bench.ran(ECHO)
        await delivered(bench)
        assert not (await bench.core.hooks.get(bench.me, hook.id)).is_enabled
        await bench.ran(ECHO)
        assert await delivered(bench) == 0
        assert [view.row.state for view in await bench.core.hooks.deliveries(bench.me, hook.id)] == ["failed"]
        owner = bench.person("me", role="owner")
        assert [row.row.details for row in await bench.core.audit.page(owner, action="hook.disable")] == [
            {"reason": "gone"}
        ]

    async def test_a_hook_that_is_switched_off_meanwhile(self, bench: Bench, chat: Chat) -> None:
        """What is pending fails without an attempt."""
        hook = await hooked(bench, chat)
        await bench.ran(ECHO)
        await bench.core.hooks.patch(bench.me, hook.id, is_enabled=False)
        await delivered(bench)
        (view,) = await bench.core.hooks.deliveries(bench.me, hook.id)
        assert (view.row.state, view.row.attempts, chat.posted) == ("failed", (), [])

    async def test_an_address_that_is_refused(self, database: str, chat: Chat) -> None:
        """A private address is not reached unless the operator allows it; the log says so."""
        async with opened(database) as bench:
            hook = await hooked(bench, chat)
            await bench.ran(ECHO)
            await delivered(bench)
            (view,) = await bench.core.hooks.deliveries(bench.me, hook.id)
            (attempt,) = view.row.attempts
            assert chat.posted == []
            assert attempt.status is None
            assert "127.0.0.1" in str(attempt.error)

    async def test_old_deliveries_are_deleted(self, bench: Bench, chat: Chat) -> None:
        """The log keeps thirty days."""
        hook = await hooked(bench, chat)
        await bench.ran(ECHO)
        await delivered(bench)
        bench.clock.advance(KEPT_FOR / 1000 + 60)
        await bench.ran(ECHO)
        await delivered(bench)
        assert len(await bench.core.hooks.deliveries(bench.me, hook.id)) == 1

    async def test_an_organization_has_a_bounded_number_under_way(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Beyond it, deliveries of that organization wait, so that those of others need not."""
        monkeypatch.setattr(module, "MAX_PER_ORGANIZATION", 2)
        due = [DueDelivery(org, str(number)) for org in ("a", "b") for number in range(4)]

        async def listed(*_: object) -> list[DueDelivery]:
            return due

        notifier, release = Notifier(bench.core.ports), asyncio.Event()
        monkeypatch.setattr(notifier, "_due", listed)
        monkeypatch.setattr(notifier, "_try", lambda _: release.wait())
        monkeypatch.setattr(notifier, "_correct", lambda *_: asyncio.sleep(0))
        assert [len(await notifier.poll()) for _ in range(2)] == [4, 0]
        release.set()
        await notifier.stop()


class TestHandlers:
    """Functions of the embedding program."""

    async def test_a_handler_is_called(self, bench: Bench) -> None:
        """A coroutine function and a function, each once, with the message's data, for every organization."""
        got: list[HookEvent] = []

        async def note(event: HookEvent) -> None:
            got.append(event)

        bench.core.on("run.finished", note, name="later")
        bench.core.on("run.finished", got.append, name="now")
        run = await bench.ran(ECHO)
        assert await delivered(bench) == 2
        assert await delivered(bench) == 0
        first, second = got
        assert first.id != second.id
        assert (first.type, first.data["runId"], first.data["orgUuid"]) == ("run.finished", run.id, bench.org)
        assert first.timestamp.tzinfo is not None

    async def test_a_handler_that_fails(self, bench: Bench) -> None:
        """It is called again with the same id; afterwards no row is left."""
        got: list[str] = []

        def flaky(event: HookEvent) -> None:
            got.append(event.id)
            if len(got) == 1:
                raise RuntimeError("mail server down")

        bench.core.on("run.failed", flaky)
        await bench.ran(FAIL)
        assert await delivered(bench) == 1
        bench.clock.advance(FIRST_WAIT / 1000)
        assert await delivered(bench) == 1
        assert len(got) == 2
        assert len(set(got)) == 1
        async with bench.core.ports.storage.reading(bench.org) as work:
            assert await work.deliveries.page("", limit=9) == []

    @pytest.mark.parametrize(
        ("error", "is_async"),
        [
            *((error, is_async) for error in (SystemExit(2), BaseException("a panic")) for is_async in (True, False)),
            (asyncio.CancelledError(), True),
            (KeyboardInterrupt(), False),
            (StopIteration(), False),
        ],
    )
    async def test_whatever_a_handler_raises(self, bench: Bench, error: BaseException, is_async: bool) -> None:
        """It is called again, and the process goes on."""
        got: list[str] = []

        def fail(event: HookEvent) -> None:
            got.append(event.id)
            raise error

        async def fail_on_loop(event: HookEvent) -> None:
            fail(event)

        bench.core.on("run.finished", fail_on_loop if is_async else fail, name="failing")
        await bench.ran(ECHO)
        assert await delivered(bench) == 1
        bench.clock.advance(FIRST_WAIT / 1000)
        assert await delivered(bench) == 1
        assert len(got) == 2
        assert len(set(got)) == 1

    async def test_a_handler_of_an_earlier_process(self, database: str) -> None:
        """The events of a registered name are kept while no process has it; `off` ends that and deletes them."""
        got: list[Any] = []
        async with opened(database) as bench:
            bench.core.on("run.finished", got.append, name="mail")
            await bench.core.notifier.register()
            number, org = await bench.deployed(ECHO), bench.org
        for use in ("keep", "off"):
            async with opened(database, org=org, ids=None) as bench:
                await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
                assert await delivered(bench) == 0
                if use == "off":
                    await bench.core.off("mail")
                else:
                    bench.core.on("run.finished", got.append, name="mail")
                    assert await delivered(bench) == 1
        async with opened(database, org=org, ids=None) as bench:
            bench.core.on("run.finished", got.append, name="mail")
            assert await delivered(bench) == 0
        assert len(got) == 1

    async def test_what_is_refused(self, bench: Bench) -> None:
        """An unknown event, a name that is taken, an empty name."""
        bench.core.on("run.finished", print, name="mail")
        for event, name, message in (("run.begun", "x", "unknown event `run.begun`"),
                                     ("run.failed", "mail", "`mail` is taken"),
                                     ("run.failed", "", "1 to 100 characters")):  # fmt: skip
            with pytest.raises(ValueError, match=message):
                bench.core.on(event, print, name=name)  # type: ignore[arg-type]
        for handler in (lambda: None, lambda event, core: None):  # print has parameters, some functions of C tell none
            with pytest.raises(TypeError, match="must be a function of one event: it would be called with that alone"):
                bench.core.on("run.failed", handler, name="x")  # type: ignore[arg-type]
        for number, usual in enumerate((lambda event, core=None: None, lambda *events: None, dict, type)):
            bench.core.on("run.failed", usual, name=f"usual {number}")
