"""Mistakes with the block of a core, its event loop and `await` are errors that say what to do."""

import asyncio
import gc
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import psycopg
import pytest
from postgres_server import new_database
from waiting import until

import wfcore
from wfcore.testing import sketch

GRAPH: Any = sketch("start -> pay", pay={"toolId": "pay", "params": {}})

pytestmark = pytest.mark.anyio

ASYNC_BLOCK = r"open it with `async with wfcore\.open\(\.\.\.\) as core:`"
SYNC_BLOCK = r"open it with `with wfcore\.open_sync\(\.\.\.\) as core:`"


def pay() -> int:
    return 7


async def prepared(core: wfcore.Core) -> tuple[wfcore.Principal, int]:
    me = core.principal((await core.directory.create_organization("Acme")).uuid, user="ann")
    flow = await core.workflows.create(me, name="Pay", structure=GRAPH)
    await core.workflows.deploy(me, flow.id)
    return me, flow.id


def test_a_core_without_a_block_names_the_block() -> None:
    """The error for its first attribute shows the block that is missing, async and sync."""
    opening: Any = wfcore.open("sqlite://")
    with pytest.raises(AttributeError, match=f"has no `directory`: {ASYNC_BLOCK}"):
        opening.directory.create_organization("Acme")
    sync: Any = wfcore.open_sync("sqlite://")
    with pytest.raises(AttributeError, match=f"has no `runs`: {SYNC_BLOCK}"):
        _ = sync.runs


async def test_an_awaited_open_names_the_block() -> None:
    """`await wfcore.open(...)` shows `async with`."""
    opening: Any = wfcore.open("sqlite://")
    with pytest.raises(TypeError, match=ASYNC_BLOCK):
        await opening


async def test_a_core_opens_once() -> None:
    """A second block with the same object says to call `open` again; the first core was closed as usual."""
    opening = wfcore.open("sqlite://")
    async with opening as core:
        await core.directory.create_organization("Acme")
    with pytest.raises(RuntimeError, match="opens once: call the function again"):
        async with opening:
            pass
    sync = wfcore.open_sync("sqlite://")
    with sync:
        pass
    with pytest.raises(RuntimeError, match="opens once: call the function again"), sync:
        pass


def test_an_event_loop_of_another_library_is_refused() -> None:
    """As under trio, whose coroutines run without a loop of asyncio."""
    with pytest.raises(RuntimeError, match="needs an event loop of asyncio, and trio is none"):
        wfcore.open("sqlite://").__aenter__().send(None)  # type: ignore[attr-defined]  # it is a coroutine


async def test_a_forgotten_await_is_named() -> None:
    """The record of a run that was not awaited, and a coroutine among the arguments or in a body."""
    async with wfcore.open("sqlite://", tools=[pay]) as core:
        me, flow = await prepared(core)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # Python's own, for the coroutines of the mistakes
            turn: Any = core.runs.start(me, workflow=flow, input={})
            with pytest.raises(AttributeError, match=r"has no `id`: await it first, as in `run = await core\.runs"):
                _ = turn.id
            with pytest.raises(wfcore.Malformed, match="not `Turn`: await it first"):
                await core.runs.result(turn)
            forgotten: Any = core.workflows.get(me, flow)
            with pytest.raises(wfcore.Malformed, match="not `coroutine`: await it first"):
                await core.runs.start(me, workflow=forgotten, input={})
            del turn, forgotten


def test_python_warns_of_a_forgotten_await_by_the_name_of_the_use_case() -> None:
    """One warning, and not one for each function in between."""

    async def forget() -> None:
        async with wfcore.open("sqlite://") as core:
            _ = core.workflows.page(core.principal(str(UUID(int=1)), user="ann"))

    with pytest.warns(RuntimeWarning) as found:
        asyncio.run(forget())
    assert [str(each.message).split(" was")[0] for each in found] == ["coroutine 'ResourceUseCases.page'"]


async def test_a_task_that_is_cancelled_before_it_begins_leaves_no_warning() -> None:
    """As that of a request whose client has gone: pytest makes an error of the warning about its coroutine."""
    async with wfcore.open("sqlite://") as core:
        me = core.principal(str(UUID(int=1)), user="ann")
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            task = asyncio.ensure_future(core.workflows.page(me))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            del task
            gc.collect()
        assert [str(each.message) for each in found] == []


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///{}/app.db"])
async def test_a_core_after_its_block_names_the_block(url: str, tmp_path: Path) -> None:
    """The error of a core that is used after its end, async and sync."""
    async with wfcore.open(url.format(tmp_path)) as core:
        me = core.principal((await core.directory.create_organization("Acme")).uuid, user="ann")
    with pytest.raises(wfcore.Unavailable, match="only inside its `with` block"):
        await core.workflows.page(me)
    with wfcore.open_sync(url.format(tmp_path)) as sync:
        pass
    with pytest.raises(wfcore.Unavailable, match="only inside its `with` block"):
        sync.workflows.page(me)


def open_files(place: Path) -> list[Path]:
    """Those that a database file has beside it while it is open."""
    return [path for path in place.iterdir() if path.name.endswith(("-wal", ".processes"))]


async def _in_a_scope(url: str) -> None:
    """What this scope holds is cancelled at each of its waits."""
    with anyio.CancelScope() as scope:
        async with wfcore.open(url):
            scope.cancel()
            await anyio.sleep_forever()


async def _again_and_again(url: str) -> None:
    is_open = asyncio.Event()

    async def hold() -> None:
        async with wfcore.open(url):
            is_open.set()
            await anyio.sleep_forever()

    task = asyncio.create_task(hold())
    await is_open.wait()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    assert task.cancelled()


@pytest.mark.parametrize("cancelled", [_in_a_scope, _again_and_again])
@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///{}/app.db", pytest.param("", marks=pytest.mark.service)])
async def test_a_core_is_closed_however_often_it_is_cancelled(
    cancelled: Callable[[str], Awaitable[None]], url: str, tmp_path: Path
) -> None:
    """No task of it goes on, and no connection or file stays open."""
    others, place = asyncio.all_tasks(), url.format(tmp_path) or new_database()
    await cancelled(place)
    await until(lambda: asyncio.all_tasks() == others)
    assert open_files(tmp_path) == []
    if not url:
        with psycopg.connect(place) as connection:
            count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            await until(lambda: connection.execute(count).fetchone() == (1,))


async def _page(core: wfcore.Core, me: wfcore.Principal, _: int) -> object:
    return await core.workflows.page(me)


async def _start(core: wfcore.Core, me: wfcore.Principal, flow: int) -> object:
    return await core.runs.start(me, workflow=flow, input={})


async def _follow(core: wfcore.Core, me: wfcore.Principal, flow: int) -> object:
    return [event async for event in core.runs.start(me, workflow=flow, input={})]


@pytest.mark.parametrize("use", [_page, _start, _follow])
@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///{}/app.db"])
async def test_a_use_case_on_another_event_loop_is_refused(
    use: Callable[[wfcore.Core, wfcore.Principal, int], Awaitable[object]], url: str, tmp_path: Path
) -> None:
    """A loop of another thread: it would wait for ever for what only the first loop can wake. The core goes on."""
    async with wfcore.open(url.format(tmp_path), tools=[pay]) as core:
        me, flow = await prepared(core)

        async def elsewhere() -> object:
            return await use(core, me, flow)

        with pytest.raises(RuntimeError, match=r"opened on another event loop: use it there, .* `wfcore\.open_sync`"):
            await asyncio.to_thread(asyncio.run, elsewhere())
        assert await core.runs.result(await core.runs.start(me, workflow=flow, input={})) == 7


async def test_a_result_on_another_event_loop_is_refused() -> None:
    """`result` takes no caller, and is refused as the others; so are the operations of an operator."""
    async with wfcore.open("sqlite://", tools=[pay]) as core:
        me, flow = await prepared(core)
        run = await core.runs.start(me, workflow=flow, input={})

        for use in (lambda: core.runs.result(run), lambda: core.directory.ensure_organization("Acme", id=me.org_uuid)):

            async def elsewhere(use: Callable[[], Awaitable[object]] = use) -> object:
                return await use()

            with pytest.raises(RuntimeError, match="opened on another event loop"):
                await asyncio.to_thread(asyncio.run, elsewhere())
            await use()


async def test_another_thread_can_send_a_use_case_to_the_loop() -> None:
    """A coroutine that a thread without a loop makes, and that the loop of the core runs, is like any other."""
    async with wfcore.open("sqlite://", tools=[pay]) as core:
        me, flow = await prepared(core)
        loop = asyncio.get_running_loop()

        def in_thread() -> object:
            return asyncio.run_coroutine_threadsafe(core.workflows.get(me, flow), loop).result().id

        assert await asyncio.to_thread(in_thread) == flow
