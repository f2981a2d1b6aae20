"""Moves of an organization between databases: completed, killed, refused, and while its runs go on."""

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import attrs
import psycopg
import pytest
import sqlalchemy as sa
from bench import act, ask, one
from bench import opened as opened_bench
from filled import SECRET, as_read, fill, rows_of
from shard_databases import installation

from wfcore.adapters.sql.schema.tables import runs
from wfcore.adapters.sql.shards import capture, copying, moving, placements
from wfcore.adapters.sql.shards.capture import run
from wfcore.adapters.sql.shards.moving import Shard, ShardDatabases, listed, move
from wfcore.adapters.system import RandomIds
from wfcore.domain.kernel.errors import Conflict, NotFound, Unavailable
from wfcore.ports.shards import MAIN, STRIDE, Moving
from wfcore.runtime.common.installation import Settings
from wfcore.testing.contracts.dispatcher import eventually

pytestmark = [pytest.mark.service, pytest.mark.anyio]

DAY = 86_400_000
STEPS = ("captured", "fenced", "committed", "final", "placed", "deleted")
NO_ORGANIZATION, OTHER = (f"00000000-0000-4000-8000-00000000dea{digit}" for digit in "de")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the waits for other processes, and with time for what the tests do at a step."""
    monkeypatch.setattr(copying, "WAIT", 60.0)
    monkeypatch.setattr(moving, "GRACE", 0.0)
    monkeypatch.setattr(copying, "LEASE", 0.02)
    monkeypatch.setattr(placements, "LEASE", 0.02)


@pytest.fixture
def shards() -> Iterator[ShardDatabases]:
    with installation() as found:
        yield found


def settings(shards: ShardDatabases) -> Settings:
    return Settings(shards={name: url for name, url in shards.urls.items() if name != MAIN})


def rows_on(shards: ShardDatabases, shard: str) -> Mapping[str, Any]:
    """All rows of a shard but those of workers, of which each shard has its own."""
    engine = sa.create_engine(shards.urls[shard].replace("postgresql:", "postgresql+psycopg:", 1))
    with engine.connect() as connection:
        found = {table: rows for table, rows in rows_of(connection).items() if rows and table != "wfcore_workers"}
    engine.dispose()
    return found


def interrupted_at(shards: ShardDatabases, org: str, to: str, step: str, by: signal.Signals) -> int:
    """Move it in another process, which sends itself this signal at this step. Returns the process."""

    def interrupt(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), by)

    child = os.fork()
    if child == 0:
        try:
            move(shards, org, to, interrupt)
        finally:
            os._exit(1)
    status = os.waitpid(child, os.WUNTRACED)[1]
    assert (os.WSTOPSIG(status) if os.WIFSTOPPED(status) else os.WTERMSIG(status)) == by
    return child


def killed_at(shards: ShardDatabases, org: str, to: str, step: str) -> None:
    """Move it in another process, which is killed at this step."""
    interrupted_at(shards, org, to, step, signal.SIGKILL)
    while not is_unlocked(shards):  # the server notices the end of the process a little later
        pass


def is_unlocked(shards: ShardDatabases) -> bool:
    try:
        with moving._locked(shards):
            return True
    except Conflict:
        return False


async def test_a_move_that_was_killed_is_called_again(shards: ShardDatabases) -> None:
    """It undoes or completes it: the rows are on one shard, all of them and unchanged."""
    bench = await fill(shards.urls[MAIN])
    rows, at, to = rows_on(shards, MAIN), MAIN, "b"
    for step in ("committed", "final", "deleted"):
        killed_at(shards, bench.org, to, step)
        try:
            move(shards, bench.org, to)
        except Conflict:  # it was there already
            assert step in STEPS[STEPS.index("final") :]
        assert rows_on(shards, to) == rows, step
        assert rows_on(shards, at) == {}, step
        at, to = to, "c" if to == "b" else "b"
    async with opened_bench(shards.urls[MAIN], org=bench.org, clock=bench.clock, secrets=SECRET, worker=False,
                            settings=settings(shards)) as after:  # fmt: skip
        found = await as_read(after)
        assert {run["status"] for run in found["runs"]} >= {"done", "error", "interrupted"}
        assert await after.core.ports.storage.schema_differences() == []


async def test_the_rows_have_statistics_after_a_move(shards: ShardDatabases) -> None:
    """The new shard plans with them from the first statement on."""
    bench = await fill(shards.urls[MAIN])
    move(shards, bench.org, "b")
    with shards.connected("b") as database:
        table = shards.name(runs)
        assert run(database, f"SELECT reltuples = (SELECT count(*) FROM {table}) FROM pg_class "
                             f"WHERE oid = '{table}'::regclass").fetchone() == (True,)  # fmt: skip


async def test_an_abandoned_move_ends_by_itself(shards: ShardDatabases, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process undoes or completes it, whether the mover was killed or is suspended; writes go on. What the
    mover does later fails, and changes nothing.
    """
    monkeypatch.setattr(placements, "SILENCE", 0.1)
    monkeypatch.setattr(moving, "BEAT", 0.02)
    bench = await fill(shards.urls[MAIN])
    rows, at, to = rows_on(shards, MAIN), MAIN, "b"
    async with opened_bench(shards.urls[MAIN], org=bench.org, clock=bench.clock, secrets=SECRET, worker=False,
                            settings=settings(shards)) as other:  # fmt: skip
        for step in STEPS:
            for by in (signal.SIGKILL, signal.SIGSTOP)[: 1 + (step in ("fenced", "final"))]:
                mover = interrupted_at(shards, bench.org, to, step, by)
                try:
                    await eventually(lambda: beats(shards) is None)
                finally:
                    if by == signal.SIGSTOP:
                        assert status_of(mover) != 0
                if STEPS.index(step) >= STEPS.index("final"):
                    at, to = to, at
                assert (rows_on(shards, at), rows_on(shards, to)) == (rows, {}), (step, by)
        await other.core.directory.create_group(bench.org, "goes on")


def status_of(suspended: int) -> int:
    """The status with which the process ends once it goes on."""
    os.kill(suspended, signal.SIGCONT)
    return os.waitpid(suspended, 0)[1]


def beats(shards: ShardDatabases) -> int | None:
    with psycopg.connect(shards.urls[MAIN]) as connection:
        ((found,),) = connection.execute("SELECT beats FROM wfcore.placement_changes").fetchall()
    return found


async def test_what_is_not_moved_stays(shards: ShardDatabases, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an error, and when it changes too fast. Unknown names, and a second move at the same time, are refused."""
    bench = await fill(shards.urls[MAIN])
    rows = rows_on(shards, MAIN)

    def fail(reached: str) -> None:
        if reached == step:
            raise Unavailable(step)

    for step in ("copied", "committed", "final"):
        with pytest.raises(Unavailable, match=step):
            move(shards, bench.org, "b", fail)
        assert (rows_on(shards, MAIN), rows_on(shards, "b")) == (rows, {})
    monkeypatch.setattr(copying, "BACK_OFF", 0.0)
    for name, value, message in (
        ("WAIT", 0.0, "the last rows cannot be copied within 0 seconds"),
        ("QUICK", -1.0, "changes faster than it can be copied"),
    ):
        monkeypatch.setattr(copying, name, value)
        with pytest.raises(Unavailable, match=message):
            move(shards, bench.org, "b")
        assert (rows_on(shards, MAIN), rows_on(shards, "b")) == (rows, {})
    with pytest.raises(Conflict, match="is on shard `main`"):
        move(shards, bench.org, MAIN)
    with pytest.raises(NotFound, match="unknown shard `nope`"):
        move(shards, bench.org, "nope")
    of_the_settings = attrs.evolve(shards, urls={**shards.urls, "new": shards.urls["b"]})
    with pytest.raises(NotFound, match="unknown shard `new`: add it with `wfcore shard add new`"):
        move(of_the_settings, bench.org, "new")
    with pytest.raises(NotFound, match="unknown organization"):
        move(shards, NO_ORGANIZATION, "b")
    with moving._locked(shards), pytest.raises(Conflict, match="another organization is being moved"):
        move(shards, bench.org, "b")
    with pytest.raises(Conflict, match="added before"):
        moving.add(shards, "b")
    with pytest.raises(Conflict, match="has organizations"):
        moving.add(attrs.evolve(shards, urls={**shards.urls, "d": shards.urls[MAIN]}), "d")
    with pytest.raises(NotFound, match=r"not in the settings: add it to `\[shards\]`"):
        moving.add(shards, "d")
    assert listed(shards) == [Shard(MAIN, 1), Shard("b", 0), Shard("c", 0)]


async def test_runs_go_on_during_a_move(shards: ShardDatabases, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that begin, wait and are decided meanwhile are all there, with the same events; later numbers differ."""
    monkeypatch.setattr(moving, "GRACE", 0.3)
    async with opened_bench(shards.urls[MAIN], secrets=SECRET, settings=settings(shards)) as bench:
        core, me, journal = bench.core, bench.me, bench.core.ports.journal
        await bench.joined("me", "owner")
        waiting = await bench.ran(one(ask()))
        events = await core.runs.events(me, waiting.id)
        flow = await bench.deployed(one(act("echo", value=1)))
        started, over = list[str](), asyncio.Event()

        async def start_one() -> None:
            started.append((await core.runs.start(me, workflow=flow, input={})).id)
            await bench.ended(started[-1])

        async def start_runs() -> None:
            while not over.is_set():
                await start_one()

        await start_one()
        clients = [asyncio.create_task(start_runs()) for _ in range(3)]
        others = [shard.name for shard in listed(shards) if not shard.organizations]
        for to in others:
            assert (await asyncio.to_thread(move, shards, bench.org, to)).rows
        over.set()
        await asyncio.gather(*clients)
        await start_one()
        found = [await journal.find_run(bench.org, run) for run in started]
        assert [run.status for run in found if run] == ["done"] * len(started)
        assert len({run.execution.id % STRIDE for run in found if run}) > 1
        assert await core.runs.events(me, waiting.id) == events
        answered = await core.runs.resume(me, waiting.id, decision="approve")
        assert (await bench.ended(answered)).status == "done"


async def test_later_rows_have_greater_numbers_on_every_shard(shards: ShardDatabases) -> None:
    """The turns of a run are in order wherever each of them began, and so are lists."""
    async with opened_bench(shards.urls[MAIN], secrets=SECRET, settings=settings(shards)) as bench:
        await bench.joined("me", "owner")
        run = await bench.ran(one(ask()))
        for to in ("c", "b", MAIN):
            await asyncio.to_thread(move, shards, bench.org, to)
            last = await bench.ran(one(ask()))
            assert (await bench.core.runs.page(bench.me, limit=1))[0].id == last.id
        answered = await bench.core.runs.resume(bench.me, run.id, decision="approve")
        assert (await bench.core.runs.page(bench.me, limit=1))[0].id == answered.id


async def test_writes_during_a_move(shards: ShardDatabases) -> None:
    """What is added, changed and deleted meanwhile is so on the target. At the end writes of this organization alone
    are refused.
    """
    bench = await fill(shards.urls[MAIN])
    options: dict[str, Any] = {"org": bench.org, "secrets": SECRET, "worker": False, "ids": RandomIds()}
    expected, dead = list[Any](), list[int]()

    async def change() -> None:
        async with opened_bench(shards.urls[MAIN], **options) as again:
            core, me = again.core, again.person("me", role="owner")
            ended = next(run for run in await core.runs.page(me, limit=100) if run.status == "done")
            await core.runs.delete(me, ended.id)
            await core.groups.create(me, name="New")
            await core.memories.delete(me, 1, (await core.memories.page(me, 1))[0].id)
            await core.directory.create_organization("Other", id=OTHER)
            dead.append(await again.core.ports.journal.register("elsewhere", 1))
            assert len(await again.core.ports.journal.claim_due(dead[0], again.clock.now() + DAY, 1)) == 1
            expected.append(await changed_of(again))

    async def be_refused() -> None:
        async with opened_bench(shards.urls[MAIN], **options) as again:
            await again.core.directory.create_group(OTHER, "goes on")
            assert await changed_of(again) == expected[0]
            with pytest.raises(Moving, match="is being moved to another database: try again"):
                await again.core.directory.create_group(bench.org, "waits")
            await claim_of_others(again)

    async def claim_of_others(again: Any) -> None:
        """Executions of this organization are due, too."""
        journal, other = again.core.ports.journal, again.core.principal(OTHER, "x", role="owner")
        flow = await again.core.workflows.create(other, name="Other", structure=one(act("echo")))
        await again.core.workflows.deploy(other, flow.id)
        await again.core.runs.start(other, workflow=flow.id, input={})
        worker = await journal.register("elsewhere", 2)
        claimed = [await journal.claim_due(worker, again.clock.now() + DAY, limit) for limit in (1, 9)]
        assert [execution.org for execution in claimed[0]] == [OTHER]
        assert await journal.release(worker) == sum(map(len, claimed))
        assert await journal.release(dead[0]) == 0

    def on_step(step: str) -> None:
        if step == "copied":
            asyncio.run(change())
        elif step in ("fenced", "final"):
            asyncio.run(be_refused())

    await asyncio.to_thread(move, shards, bench.org, "b", on_step)
    async with opened_bench(shards.urls[MAIN], **options, settings=settings(shards)) as after:
        assert await changed_of(after) == expected[0]
        assert await after.core.groups.page(after.core.principal(OTHER, "x", role="owner"))


async def changed_of(bench: Any) -> Any:
    core, me = bench.core, bench.person("me", role="owner")
    runs = await core.runs.page(me, limit=100)
    return [run.to_wire() for run in runs], await core.groups.page(me), await core.memories.page(me, 1)


@pytest.mark.parametrize("step", ["fenced", "committed"])
async def test_writes_go_on_beside_a_slow_move(
    shards: ShardDatabases, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The server lifts the fence of a mover that hangs. The last part is tried again, or all of it if the rows were on
    the target.
    """
    bench = await fill(shards.urls[MAIN])
    options: dict[str, Any] = {"org": bench.org, "secrets": SECRET, "worker": False, "ids": RandomIds()}
    steps = list[str]()

    async def wait_for_write() -> Any:
        async with opened_bench(shards.urls[MAIN], **options) as again:

            async def written() -> bool:
                with suppress(Moving):
                    await again.core.directory.create_group(bench.org, "goes on")
                    return True
                return False

            await eventually(written)
            return await changed_of(again)

    expected = list[Any]()

    def on_step(reached: str) -> None:
        steps.append(reached)
        if reached == step and steps.count(step) == 1:
            expected.append(asyncio.run(wait_for_write()))
        if reached == "caught up":
            monkeypatch.setattr(copying, "WAIT", 60.0 if expected else wait)

    wait = 1.0 if step == "fenced" else 2.0  # the latter for the last rows, on a busy machine
    monkeypatch.setattr(copying, "BACK_OFF", 0.0)
    moved = await asyncio.to_thread(move, shards, bench.org, "b", on_step)
    assert steps.count("announced") == (2 if step == "committed" else 1)
    assert moved.waited > 0
    assert rows_on(shards, MAIN) == {}
    async with opened_bench(shards.urls[MAIN], **options, settings=settings(shards)) as after:
        assert await changed_of(after) == expected[0]


async def test_a_move_waits_for_transactions(shards: ShardDatabases, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its fence lifted: other writes of the organization go on. Tables are locked when nobody uses them."""
    bench = await fill(shards.urls[MAIN])
    monkeypatch.setattr(copying, "WAIT", 0.2)
    monkeypatch.setattr(copying, "BACK_OFF", 0.0)
    monkeypatch.setattr(capture, "LOCK_MILLISECONDS", 20)
    steps, pauses = list[str](), list[float]()
    with psycopg.connect(shards.urls[MAIN]) as writer:

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            writer.commit()

        def on_step(reached: str) -> None:
            steps.append(reached)
            if reached in ("announced", "captured"):
                writer.execute("UPDATE wfcore.organizations SET name = 'New' WHERE uuid = %s", (bench.org,))
            if steps.count("caught up") == 2:
                writer.commit()
                monkeypatch.setattr(copying, "WAIT", 60.0)

        monkeypatch.setattr(capture, "time", SimpleNamespace(sleep=pause))
        assert move(shards, bench.org, "b", on_step).waited > 0
    assert pauses
    assert "fenced" in steps[steps.index("caught up") + 2 :]
    assert "New" in rows_on(shards, "b")["wfcore_organizations"][0]
