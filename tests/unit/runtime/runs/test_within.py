"""Runs that start and resume in a transaction of the product, for each kind of connection on both stores."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from bench import act, ask, graph, one
from postgres_server import new_database
from products import KINDS, Kind, async_connection, create_orders, engine_url, orders_of, plain_sqlite
from waiting import HANG

import wfcore
from wfcore import Conflict, Invalid, NotFound
from wfcore.adapters.tools.catalog import tool
from wfcore.core import Core
from wfcore.domain.resources.access import Principal
from wfcore.runtime.common.installation import Settings
from wfcore.testing.contracts.dispatcher import eventually

pytestmark = pytest.mark.anyio

TESTS = Path(__file__).parents[3]
IMPORTED = ("", "unit/runtime/support")
"""Where modules that tests share are, below the folder of all tests."""

CASES = [
    pytest.param(store, kind, id=f"{store}-{kind.__name__}", marks=[pytest.mark.service] * (store == "postgresql"))
    for store, kinds in KINDS.items()
    for kind in kinds
]


def database_of(store: str, place: Path) -> str:
    return new_database() if store == "postgresql" else f"sqlite:///{place}/app.db"


@tool(idempotent=True)
async def echo(value: Any = None) -> Any:
    """Return the value."""
    return value


@pytest.fixture
def url(store: str, tmp_path: Path) -> AsyncIterator[str]:
    url = database_of(store, tmp_path)
    create_orders(url)
    yield url  # type: ignore[misc]
    if store == "postgresql":
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP TABLE orders")


@pytest.fixture
async def core(url: str) -> AsyncIterator[Core]:
    async with wfcore.open(url, tools=[echo], settings=Settings(synchronous="NORMAL", grace=0)) as core:
        yield core


@pytest.fixture
async def me(core: Core) -> Principal:
    org = await core.directory.create_organization("one")
    return core.principal(org.uuid, "me", role="owner")


async def deployed(core: Core, me: Principal, structure: dict[str, Any]) -> int:
    flow = await core.workflows.create(me, name="A flow", structure=structure)
    await core.workflows.deploy(me, flow.id)
    return flow.id


async def settled(core: Core, me: Principal, run_id: str) -> str:
    """The status once a worker has driven the run."""

    async def status() -> str | None:
        found = (await core.runs.get(me, run_id)).status
        return None if found in ("queued", "running") else str(found)

    return str(await eventually(status))


async def exists(core: Core, me: Principal, run_id: str) -> bool:
    return await core.ports.journal.find_run(me.org_uuid, run_id) is not None


@pytest.mark.parametrize(("store", "kind"), CASES)
class TestStart:
    async def test_with_the_commit_of_the_product(self, core: Core, me: Principal, url: str, kind: Kind) -> None:
        """The view is returned before the commit; nobody else sees the run until then, and it begins soon after."""
        flow = await deployed(core, me, one(act("echo", value="{{ input.id }}")))
        async with kind(url) as product:
            await product.execute("INSERT INTO orders VALUES ('o-1')")
            view = await core.runs.start(
                me, workflow=flow, input={"id": "o-1"}, key="r-1", connection=product.connection
            )
            assert (view.id, view.status) == ("r-1", "queued")
            assert not await exists(core, me, "r-1")
            assert orders_of(url) == []
            await product.commit()
        assert orders_of(url) == ["o-1"]
        assert await settled(core, me, "r-1") == "done"
        assert (await core.runs.get(me, "r-1")).row.result == {"output": "o-1"}

    async def test_with_a_rollback(self, core: Core, me: Principal, url: str, kind: Kind) -> None:
        """No run is left, and its id can be used again, as the first statement of a transaction too."""
        flow = await deployed(core, me, one(act("echo")))
        async with kind(url) as product:
            for _ in range(2):
                await core.runs.start(me, workflow=flow, input={}, key="r-1", connection=product.connection)
                await product.execute("INSERT INTO orders VALUES ('o-1')")
                await product.rollback()
        assert not await exists(core, me, "r-1")
        assert orders_of(url) == []
        assert (await core.runs.start(me, workflow=flow, input={}, key="r-1")).id == "r-1"
        assert await settled(core, me, "r-1") == "done"

    async def test_a_refusal_leaves_the_transaction_usable(
        self, core: Core, me: Principal, url: str, kind: Kind
    ) -> None:
        """Whatever is refused, before or while it is written; what the product wrote before and after counts."""
        start = {"id": "s", "type": "start", "data": {"inputSchema": {"type": "object", "required": ["id"]}}}
        asking = {"nodes": [start, {"id": "n", **act("echo")}], "edges": [{"id": "e", "source": "s", "target": "n"}]}
        flow, strict = await deployed(core, me, one(act("echo"))), await deployed(core, me, asking)
        await core.runs.start(me, workflow=flow, input={}, key="taken")
        async with kind(url) as product:
            await product.execute("INSERT INTO orders VALUES ('o-1')")
            with pytest.raises(NotFound):
                await core.runs.start(me, workflow=999, input={}, connection=product.connection)
            with pytest.raises(Invalid):
                await core.runs.start(me, workflow=strict, input={}, connection=product.connection)
            with pytest.raises(Conflict):
                await core.runs.start(me, workflow=flow, input={"a": 1}, key="taken", connection=product.connection)
            await core.runs.start(me, workflow=flow, input={}, key="r-1", connection=product.connection)
            with pytest.raises(Conflict):
                await core.runs.start(me, workflow=flow, input={"a": 1}, key="r-1", connection=product.connection)
            await product.execute("INSERT INTO orders VALUES ('o-2')")
            await product.commit()
        assert orders_of(url) == ["o-1", "o-2"]
        assert await settled(core, me, "r-1") == "done"

    async def test_an_equal_request_joins(self, core: Core, me: Principal, url: str, kind: Kind) -> None:
        """The run of the same transaction, and one that was committed before."""
        flow = await deployed(core, me, one(act("echo")))
        await core.runs.start(me, workflow=flow, input={}, key="before")
        async with kind(url) as product:
            for key in ("before", "r-1", "r-1"):
                view = await core.runs.start(me, workflow=flow, input={}, key=key, connection=product.connection)
                assert view.id == key
            await product.commit()
        assert len(await core.runs.page(me, workflow=flow)) == 2

    async def test_a_run_that_waits_at_once(self, core: Core, me: Principal, url: str, kind: Kind) -> None:
        """It is parked by the transaction itself, with its interrupt; a resume in another one continues it."""
        flow = await deployed(core, me, one(ask()))
        async with kind(url) as product:
            parked = await core.runs.start(me, workflow=flow, input={}, connection=product.connection)
            assert parked.status == "interrupted"
            await product.commit()
            for end in (product.rollback, product.commit):
                turn = await core.runs.resume(me, parked.id, decision="approve", connection=product.connection)
                assert (await core.runs.get(me, parked.id)).row.resumed_by is None
                assert not await exists(core, me, turn.id)
                await end()
        assert await settled(core, me, turn.id) == "done"
        assert (await core.runs.get(me, parked.id)).row.resumed_by == turn.id

    @pytest.mark.parametrize("commits", [True, False])
    async def test_a_run_that_is_resumed_where_it_began(
        self, core: Core, me: Principal, url: str, kind: Kind, commits: bool
    ) -> None:
        """A resume sees what its transaction has started, and both exist or neither does."""
        flow = await deployed(core, me, graph("s>h h:approved>a", h=ask(), a=act("echo", value=7)))
        async with kind(url) as product:
            started = await core.runs.start(me, workflow=flow, input={}, key="r-1", connection=product.connection)
            turn = await core.runs.resume(me, started.id, decision="approve", key="r-2", connection=product.connection)
            assert (started.status, turn.status) == ("interrupted", "queued")
            if commits:
                await product.commit()
        if commits:
            assert await settled(core, me, "r-2") == "done"
            assert (await core.runs.get(me, "r-1")).row.resumed_by == "r-2"
        else:
            assert not await exists(core, me, "r-1")
            assert not await exists(core, me, "r-2")

    async def test_a_resume_that_was_overtaken(self, core: Core, me: Principal, url: str, kind: Kind) -> None:
        """An interrupt that was answered before is a Conflict, and the transaction goes on."""
        flow = await deployed(core, me, one(ask()))
        parked = await core.runs.start(me, workflow=flow, input={})
        await core.runs.resume(me, parked.id, decision="deny")
        async with kind(url) as product:
            await product.execute("INSERT INTO orders VALUES ('o-1')")
            with pytest.raises(Conflict):
                await core.runs.resume(me, parked.id, decision="approve", connection=product.connection)
            await product.commit()
        assert orders_of(url) == ["o-1"]

    async def test_another_database(self, core: Core, me: Principal, url: str, kind: Kind, tmp_path: Path) -> None:
        """Nothing is written in either."""
        flow = await deployed(core, me, one(act("echo")))
        store = url.partition(":")[0]
        (tmp_path / "other").mkdir()
        async with kind(database_of(store, tmp_path / "other")) as product:
            with pytest.raises(ValueError, match="`connection` is to another database"):
                await core.runs.start(me, workflow=flow, input={}, key="r-1", connection=product.connection)
            await product.commit()
        assert not await exists(core, me, "r-1")


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
class TestConnections:
    async def test_one_in_autocommit_mode(self, core: Core, me: Principal, url: str) -> None:
        """Without a transaction there would be nothing to commit."""
        flow = await deployed(core, me, one(act("echo")))
        engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1), isolation_level="AUTOCOMMIT")
        with engine.connect() as opened:
            plain = opened.connection.driver_connection
            for connection in (opened.execution_options(isolation_level="AUTOCOMMIT"), plain):
                with pytest.raises(ValueError, match="`connection` has no transaction"):
                    await core.runs.start(me, workflow=flow, input={}, connection=connection)
        engine.dispose()
        assert await core.runs.page(me) == []

    async def test_an_engine_in_autocommit_mode(self, core: Core, me: Principal, url: str, store: str) -> None:
        """On a server there would be nothing to commit; on a file wfcore begins the transaction."""
        flow = await deployed(core, me, one(act("echo")))
        engine = sa.create_engine(engine_url(url), isolation_level="AUTOCOMMIT")
        with engine.connect() as opened:
            if store == "postgresql":
                with pytest.raises(ValueError, match="`connection` has no transaction"):
                    await core.runs.start(me, workflow=flow, input={}, connection=opened)
            else:
                await core.runs.start(me, workflow=flow, input={}, key="r-1", connection=opened)
                opened.rollback()
        engine.dispose()
        assert await core.runs.page(me) == []

    @pytest.mark.parametrize("value", [object(), "sqlite://", 1])
    async def test_what_is_no_connection(self, core: Core, me: Principal, url: str, value: object) -> None:
        flow = await deployed(core, me, one(act("echo")))
        with pytest.raises(TypeError, match="`connection` must be a connection or session of SQLAlchemy"):
            await core.runs.start(me, workflow=flow, input={}, connection=value)

    async def test_one_to_the_other_store(self, core: Core, me: Principal, url: str, tmp_path: Path) -> None:
        """A file for a server."""
        flow = await deployed(core, me, one(act("echo")))
        for kind in (plain_sqlite, async_connection):
            async with kind(f"sqlite:///{tmp_path}/other.db") as product:
                with pytest.raises(ValueError, match="another database"):
                    await core.runs.start(me, workflow=flow, input={}, connection=product.connection)

    async def test_writers_of_wfcore_wait(self, core: Core, me: Principal, url: str) -> None:
        """While the product's transaction is open, other runs start once it has ended, or at once on a server."""
        flow = await deployed(core, me, one(act("echo")))
        kind = KINDS[url.partition(":")[0]][0]
        async with kind(url) as product:
            await core.runs.start(me, workflow=flow, input={}, key="r-1", connection=product.connection)
            other = asyncio.create_task(_awaited(core.runs.start(me, workflow=flow, input={}, key="r-2")))
            if url.startswith("postgresql"):
                await asyncio.wait([other])
            assert await exists(core, me, "r-2") is other.done()
            await product.commit()
        await other
        assert [await settled(core, me, name) for name in ("r-1", "r-2")] == ["done", "done"]

    async def test_a_killed_process_leaves_both_or_neither(self, url: str, store: str) -> None:
        """Before whatever statement the process is killed, also right before and after the commit: the run and the
        hook, with its subscription and its audit, exist if and only if the order does.
        """
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*sys.path, *(str(TESTS / name) for name in IMPORTED)]),
        }
        command = [sys.executable, TESTS / "unit/runtime/support/killed_products.py", url]
        done = await asyncio.to_thread(
            subprocess.run, command, env=environment, capture_output=True, text=True, check=False, timeout=HANG
        )
        assert done.returncode == 0, done.stderr
        found = [line.split() for line in done.stdout.splitlines()]
        assert {kind for kind, *_ in found} == {kind.__name__ for kind in KINDS[store]}
        for kind in KINDS[store]:
            whole, *killed = [outcome for name, *outcome in found if name == kind.__name__]
            assert int(whole[0]) > 15
            assert len(killed) >= 5
            assert whole[1:] == ["1"] * 5
            assert {status for status, *_ in killed} == {f"-{signal.SIGKILL.value}"}
            assert [rows for _, *rows in killed] == [["0"] * 5] * (len(killed) - 1) + [["1"] * 5]


async def _awaited(turn: Any) -> Any:
    return await turn


async def test_a_database_in_memory() -> None:
    """It has no other connections."""
    async with wfcore.open("sqlite://", tools=[echo]) as core:
        org = await core.directory.create_organization("one")
        me = core.principal(org.uuid, "me", role="owner")
        flow = await deployed(core, me, one(act("echo")))
        with pytest.raises(ValueError, match="another database: wfcore's is in memory"):
            await core.runs.start(me, workflow=flow, input={}, connection=object())


async def test_texts_of_the_product(tmp_path: Path) -> None:
    """What it reads texts as is left alone, and not applied to those of wfcore."""
    url = f"sqlite:///{tmp_path}/app.db"
    async with wfcore.open(url, tools=[echo]) as core, plain_sqlite(url) as product:
        me = core.principal((await core.directory.create_organization("one")).uuid, "me", role="owner")
        flow = await deployed(core, me, one(ask()))
        product.connection.text_factory = bytes
        parked = await core.runs.start(me, workflow=flow, input={}, connection=product.connection)
        await product.commit()
        turn = await core.runs.resume(me, parked.id, decision="approve", connection=product.connection)
        assert tuple(product.connection.execute("SELECT 'a'").fetchone()) == (b"a",)
        await product.commit()
        assert await settled(core, me, turn.id) == "done"
