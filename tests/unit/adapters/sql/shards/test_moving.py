"""Moves of an organization between databases: completed, killed, refused, and while its runs go on."""

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import pytest
import sqlalchemy as sa
from bench import act, ask, one
from bench import opened as opened_bench
from filled import SECRET, as_read, fill, rows_of
from shard_databases import installation

from wfcore.adapters.sql.shards import moving, placements
from wfcore.adapters.sql.shards.moving import Shard, ShardDatabases, listed, move
from wfcore.adapters.system import RandomIds
from wfcore.domain.kernel.errors import Conflict, NotFound, Unavailable
from wfcore.ports.shards import MAIN, RANGE, Moving
from wfcore.runtime.common.installation import Settings

pytestmark = [pytest.mark.service, pytest.mark.anyio]

STEPS = ("captured", "fenced", "committed", "final", "placed", "deleted")
NO_ORGANIZATION, OTHER = (f"00000000-0000-4000-8000-00000000dea{digit}" for digit in "de")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the waits for other processes."""
    monkeypatch.setattr(moving, "GRACE", 0.0)
    monkeypatch.setattr(moving, "LEASE", 0.02)
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


def killed_at(shards: ShardDatabases, org: str, to: str, step: str) -> None:
    """Move it in another process, which is killed at this step."""

    def kill(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            move(shards, org, to, kill)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    while not is_unlocked(shards):  # the server notices the end of the process a little later
        pass


def is_unlocked(shards: ShardDatabases) -> bool:
    try:
        with moving._locked(shards):
            return True
    except Conflict:
        return False


async def test_a_move_can_be_killed_at_every_step(shards: ShardDatabases) -> None:
    """The next call undoes or completes it: the rows are on one shard, all of them and unchanged."""
    bench = await fill(shards.urls[MAIN])
    rows, at, to = rows_on(shards, MAIN), MAIN, "b"
    for step in STEPS:
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
    monkeypatch.setattr(moving, "FEW", -1)
    with pytest.raises(Unavailable, match="changes faster than it can be copied"):
        move(shards, bench.org, "b")
    assert (rows_on(shards, MAIN), rows_on(shards, "b")) == (rows, {})
    with pytest.raises(Conflict, match="is on shard `main`"):
        move(shards, bench.org, MAIN)
    with pytest.raises(NotFound, match="unknown shard `nope`"):
        move(shards, bench.org, "nope")
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
        assert len({run.execution.id // RANGE for run in found if run}) > 1
        assert await core.runs.events(me, waiting.id) == events
        answered = await core.runs.resume(me, waiting.id, decision="approve")
        assert (await bench.ended(answered)).status == "done"


async def test_writes_during_a_move(shards: ShardDatabases) -> None:
    """What is added, changed and deleted meanwhile is so on the target. At the end writes of this organization alone
    are refused.
    """
    bench = await fill(shards.urls[MAIN])
    options: dict[str, Any] = {"org": bench.org, "secrets": SECRET, "worker": False, "ids": RandomIds()}
    expected = list[Any]()

    async def change() -> None:
        async with opened_bench(shards.urls[MAIN], **options) as again:
            core, me = again.core, again.person("me", role="owner")
            ended = next(run for run in await core.runs.page(me, limit=100) if run.status == "done")
            await core.runs.delete(me, ended.id)
            await core.groups.create(me, name="New")
            await core.memories.delete(me, 1, (await core.memories.page(me, 1))[0].id)
            await core.directory.create_organization("Other", id=OTHER)
            expected.append(await changed_of(again))

    async def be_refused() -> None:
        async with opened_bench(shards.urls[MAIN], **options) as again:
            await again.core.directory.create_group(OTHER, "goes on")
            assert await changed_of(again) == expected[0]
            with pytest.raises(Moving, match="is being moved to another database: try again"):
                await again.core.directory.create_group(bench.org, "waits")

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
