"""The sync face: the same names, from any thread, without an event loop of one's own."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from waiting import HANG

import wfcore
from wfcore.adapters.inmemory.journal.journal import MemoryJournal
from wfcore.adapters.inmemory.maintenance import MemoryMaintenance
from wfcore.adapters.inmemory.storage import MemoryStorage
from wfcore.domain.kernel.errors import closed

ASKING = {
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "ask", "type": "humanApproval", "data": {"message": "Pay?"}},
        {"id": "pay", "type": "action", "data": {"toolId": "pay", "params": {"sum": "{{ input.sum }}"}}},
    ],
    "edges": [
        {"id": "1", "source": "start", "target": "ask"},
        {"id": "2", "source": "ask", "target": "pay", "sourceHandle": "approved"},
    ],
}


WAIT = {"toolId": "core.wait", "params": {"seconds": 3600}}


def pay(sum: int, ctx: wfcore.RunContext[str]) -> str:
    return f"{ctx.deps} pays {sum}"


@pytest.fixture
def core() -> Iterator[wfcore.SyncCore]:
    with wfcore.open_sync("sqlite://", tools=[pay], deps="Ann") as core:
        yield core


def flow_of(core: wfcore.SyncCore) -> tuple[wfcore.Principal, Any]:
    org = core.directory.create_organization("Acme")
    me = core.principal(org.uuid, user="u1")
    flow = core.workflows.create(me, name="Pay", structure=ASKING)
    return me, core.workflows.deploy(me, flow.id)


def test_a_run_from_start_to_result(core: wfcore.SyncCore) -> None:
    """Start, follow its events, answer, wait for the result; records have plain attributes."""
    me, flow = flow_of(core)
    assert (flow.name, flow.slug, flow.status, flow.is_enabled, flow.description) == (
        "Pay", "pay", "active", False, None,
    )  # fmt: skip
    assert (flow.can_use, flow.can_manage, flow.has_unpublished_changes, flow.deleted_at) == (True, True, False, None)
    assert (flow.active_variation_id is None, flow.draft_variation_id) == (False, None)
    assert flow.created_at <= flow.updated_at <= datetime.now(UTC)
    run = core.runs.start(me, workflow=flow.id, input={"sum": 7})
    events = list(core.runs.follow(me, run.id))
    assert [(event.kind, event.node_id) for event in events][-2:] == [("interrupt", "ask"), ("done", None)]
    assert events[-2].interrupt_id
    answer = core.runs.resume(me, run.id, decision="approve")
    assert core.runs.result(answer, timeout=HANG) == "Ann pays 7"
    first, last = core.runs.get(me, run.id), core.runs.get(me, answer.id)
    assert (first.resumed_by, last.parent_run_id, last.resumed_by) == (answer.id, run.id, None)
    assert (last.retried_by, last.forked_from, last.origin) == (None, None, "api")
    assert (last.thread_id, last.variation_id) == (first.thread_id, flow.active_variation_id)
    assert last.created_at <= last.updated_at == last.finished_at
    waiting = core.runs.act(me, action=WAIT)
    assert waiting.finished_at is None
    assert last.usage == {}


def test_events_have_plain_attributes(core: wfcore.SyncCore) -> None:
    """The text of a message, the output of a node, the error of a failure."""
    me, _ = flow_of(core)
    skill = core.skills.create(me, name="Greeter", instructions=["Greet."])
    core.skills.deploy(me, skill.id)
    run = core.runs.chat(me, skill.id, message="hello")
    events = list(core.runs.follow(me, run.id))
    assert "".join(event.text for event in events if event.kind == "message_delta")
    assert next(event for event in events if event.kind == "done").output
    failing = core.runs.act(me, action={"toolId": "core.fail", "params": {"message": "no"}})
    last = list(core.runs.follow(me, failing.id))[-1]
    assert last.error["message"] == "no"
    assert last.text == ""


def test_an_iteration_can_be_left_early(core: wfcore.SyncCore) -> None:
    """Its stream is closed, and the core closes without waiting for it."""
    me, flow = flow_of(core)
    run = core.runs.start(me, workflow=flow.id, input={"sum": 7})
    for event in core.runs.follow(me, run.id):
        assert event.seq == 1
        break
    changes = core.changes.follow(me)
    assert next(changes)
    changes.close()


def test_a_closed_core_is_unavailable() -> None:
    """As the async one; an iteration that was left open ends without an error."""
    with wfcore.open_sync("sqlite://", tools=[pay], deps="Ann") as core:
        me, _ = flow_of(core)
        changes = core.changes.follow(me)
        assert next(changes)
    with pytest.raises(wfcore.Unavailable, match="closed"):
        core.directory.create_organization("Other")
    with pytest.raises(wfcore.Unavailable, match="closed"):
        core.call(lambda _: None)
    changes.close()


@pytest.mark.parametrize("database", ["sqlite://", "sqlite:///app.db"])
@pytest.mark.parametrize("way", ["result", "follow"])
def test_what_waits_for_a_run_ends_with_the_core(
    database: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that waits gets Unavailable, and the block of the core ends."""
    monkeypatch.chdir(tmp_path)
    outcomes: Queue[object] = Queue()

    def wait(core: wfcore.SyncCore, me: wfcore.Principal, run: Any, waits: threading.Event) -> None:
        try:
            if way == "follow":
                for _ in core.runs.follow(me, run.id):
                    waits.set()
            waits.set()
            core.runs.result(run)
        except wfcore.WfcoreError as error:
            outcomes.put(type(error))

    def program() -> None:
        with wfcore.open_sync(database, tools=[pay], deps="Ann", settings=wfcore.Settings(grace=0)) as core:
            me, _ = flow_of(core)
            run, waits = core.runs.act(me, action=WAIT), threading.Event()
            threading.Thread(target=wait, args=(core, me, run, waits), daemon=True).start()
            waits.wait(HANG)
        outcomes.put("closed")

    threading.Thread(target=program, daemon=True).start()
    assert {outcomes.get(timeout=HANG), outcomes.get(timeout=HANG)} == {wfcore.Unavailable, "closed"}


def test_errors_are_those_of_wfcore(core: wfcore.SyncCore) -> None:
    """The exception of a use case, with its traceback; an unknown name is an AttributeError."""
    me, flow = flow_of(core)
    with pytest.raises(wfcore.NotFound):
        core.workflows.get(me, flow.id + 1)
    with pytest.raises(ValueError, match="org"):
        core.principal("acme", user="u1")
    with pytest.raises(AttributeError):
        _ = core.workflows.nothing_such
    with pytest.raises(AttributeError):
        _ = core.nothing_such
    with pytest.raises(TypeError, match="needs `deps`"), wfcore.open_sync("sqlite://", tools=[pay]):
        pass


def test_many_threads_share_one_core(core: wfcore.SyncCore) -> None:
    """Each call waits in its own thread; the loop has one of its own."""
    me, flow = flow_of(core)

    def one(number: int) -> Any:
        run = core.runs.start(me, workflow=flow.id, input={"sum": number})
        return core.runs.result(core.runs.resume(me, run.id, decision="approve"), timeout=HANG)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(one, range(16))) == [f"Ann pays {number}" for number in range(16)]
    assert core.call(lambda _: threading.current_thread().name) != threading.current_thread().name


def test_call_gives_the_async_core(core: wfcore.SyncCore) -> None:
    """For what has no sync form: a coroutine function, or a plain one, on the event loop."""

    async def count(core: wfcore.Core, me: wfcore.Principal) -> int:
        return len(await core.workflows.page(me))

    me, _ = flow_of(core)
    assert core.call(count, me) == 1
    assert core.workflows.page.__name__ == "page"
    assert "start" in dir(core.runs)
    assert "_target" not in dir(core)


class Interrupted(BaseException):
    """What a handler of a signal raises, as KeyboardInterrupt."""


@pytest.fixture
def interrupt() -> Iterator[Callable[[], None]]:
    """Interrupts the main thread from another one."""

    def handler(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, handler)
    yield lambda: os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_ends_the_wait_and_cancels_the_call(core: wfcore.SyncCore, interrupt: Callable[[], None]) -> None:
    """The call has ended when the exception arrives, and the core can be used further."""
    ended = []

    async def forever(_: wfcore.Core) -> None:
        try:
            interrupt()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("forever")

    with pytest.raises(Interrupted):
        core.call(forever)
    assert ended == ["forever"]
    flow_of(core)


def test_a_signal_ends_an_iteration(core: wfcore.SyncCore, interrupt: Callable[[], None]) -> None:
    """The stream is closed."""
    ended = []

    async def items(_: wfcore.Core) -> AsyncIterator[int]:
        try:
            yield 1
            interrupt()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("items")

    with pytest.raises(Interrupted):
        list(core.call(items))
    assert ended == ["items"]
    flow_of(core)


class Unreachable(MemoryStorage):
    """A store whose upgrade never ends."""

    def __init__(self, when_it_waits: Callable[[], None]) -> None:
        super().__init__()
        self._when_it_waits = when_it_waits
        self.is_closed = False

    async def upgrade(self) -> None:
        self._when_it_waits()
        await asyncio.Event().wait()

    async def close(self) -> None:
        self.is_closed = True


def test_a_signal_ends_the_opening(interrupt: Callable[[], None]) -> None:
    """What was opened is closed, and the thread of the loop ends."""
    storage, journal, before = Unreachable(interrupt), MemoryJournal(), threading.active_count()
    storage.maintenance = MemoryMaintenance(storage, journal)
    ports = wfcore.Overrides(storage=storage, journal=journal)
    with pytest.raises(Interrupted), wfcore.open_sync("sqlite://", ports=ports):
        pass
    assert storage.is_closed
    assert threading.active_count() == before


def test_an_exception_that_ends_programs_is_that_of_its_caller(core: wfcore.SyncCore) -> None:
    """SystemExit of a called function does not end the loop."""
    with pytest.raises(SystemExit):
        core.call(lambda _: sys.exit(3))
    flow_of(core)


@pytest.mark.parametrize("fails", [True, False])
def test_what_still_waits_at_the_end_of_the_core_ends(fails: bool) -> None:
    """The thread gets Unavailable, and the block of the core ends, whether it fails or not."""
    outcomes, waits = Queue[object](), threading.Event()

    async def endless(_: wfcore.Core) -> None:
        waits.set()
        await asyncio.Event().wait()

    def wait(core: wfcore.SyncCore) -> None:
        try:
            core.call(endless)
        except wfcore.Unavailable as error:
            outcomes.put(error.message)

    def program() -> None:
        with suppress(KeyError), wfcore.open_sync("sqlite://") as core:
            threading.Thread(target=wait, args=(core,), daemon=True).start()
            waits.wait(HANG)
            if fails:
                raise KeyError
        outcomes.put("closed")

    threading.Thread(target=program, daemon=True).start()
    assert {outcomes.get(timeout=HANG), outcomes.get(timeout=HANG)} == {closed().message, "closed"}


FORKED = """
import os, sys, wfcore
from contextlib import ExitStack

with ExitStack() as stack:
    core = stack.enter_context(wfcore.open_sync("sqlite://"))
    org = core.directory.create_organization("Acme")
    me = core.principal(org.uuid, user="u1")
    changes = core.changes.follow(me)
    next(changes)
    if child := os.fork():
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    try:
        core.workflows.page(me)
    except RuntimeError as error:
        print(error)
    changes.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_that_forked_is_told_so() -> None:
    """Its calls raise at once, and it ends as any other process."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, text=True, check=False, timeout=HANG
    )
    said = "wfcore was opened before this process was forked: open it after the fork\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, said, "")


def test_in_the_transaction_of_the_product(tmp_path: Path) -> None:
    """On a connection of sqlite3 that several threads can use: the run exists after the commit alone."""
    file = tmp_path / "app.db"
    with wfcore.open_sync(f"sqlite:///{file}", tools=[pay], deps="Ann") as core:
        me, flow = flow_of(core)
        connection = sqlite3.connect(file, check_same_thread=False)
        run = core.runs.start(me, workflow=flow.id, input={"sum": 7}, connection=connection)
        connection.rollback()
        with pytest.raises(wfcore.NotFound):
            core.runs.get(me, run.id)
        run = core.runs.start(me, workflow=flow.id, input={"sum": 7}, connection=connection)
        connection.commit()
        connection.close()
        assert core.runs.get(me, run.id).id == run.id


def test_an_area_within_an_area() -> None:
    """Its methods wait for their results too."""
    with wfcore.open_sync("sqlite://", worker=False) as core:
        me = core.principal(core.directory.create_organization("Acme").uuid, user="u1")
        flow = core.workflows.create(me, name="Refunds")
        assert core.workflows.interfaces.page(me, flow.id) == []
        assert core.workflows.area == "workflows"


def test_a_function_that_is_called_with_the_async_core_takes_keywords() -> None:
    """As a call of the function itself does."""

    async def members(core: wfcore.Core, org: str, *, suffix: str) -> str:
        return (await core.directory.ensure_organization("Acme" + suffix, id=org)).name

    with wfcore.open_sync("sqlite://", worker=False) as core:
        assert core.call(members, "6f2d8a52-6b0e-4b7c-9a55-0d6a3c1e9f01", suffix=" Inc") == "Acme Inc"
