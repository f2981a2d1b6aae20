"""Hooks that are changed in a transaction of the product, for each kind of connection on both stores."""

from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from postgres_server import new_database
from products import KINDS, Kind, create_orders, orders_of, plain_sqlite

import wfcore
from wfcore import Conflict, Invalid, NotFound
from wfcore.core import Core
from wfcore.domain.resources.access import Principal
from wfcore.runtime.common.installation import Settings

pytestmark = pytest.mark.anyio

CASES = [
    pytest.param(store, kind, id=f"{store}-{kind.__name__}", marks=[pytest.mark.service] * (store == "postgresql"))
    for store, kinds in KINDS.items()
    for kind in kinds
]
URL = "https://shop.example/hook"


@pytest.fixture
def url(store: str, tmp_path: Path) -> AsyncIterator[str]:
    url = new_database() if store == "postgresql" else f"sqlite:///{tmp_path}/app.db"
    create_orders(url)
    yield url  # type: ignore[misc]
    if store == "postgresql":
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP TABLE orders")


@pytest.fixture
async def core(url: str) -> AsyncIterator[Core]:
    async with wfcore.open(
        url, worker=False, secrets=bytes(32), settings=Settings(synchronous="NORMAL", grace=0)
    ) as core:
        yield core


@pytest.fixture
async def me(core: Core) -> Principal:
    org = await core.directory.create_organization("one")
    return core.principal(org.uuid, "me", role="owner")


@pytest.mark.parametrize(("store", "kind"), CASES)
async def test_with_the_commit_of_the_product(core: Core, me: Principal, url: str, kind: Kind) -> None:
    """Every change exists if and only if the product commits, and a refused one leaves the transaction usable."""
    async with kind(url) as product:
        connection = product.connection
        await product.execute("INSERT INTO orders VALUES ('o-1')")
        made = await core.hooks.create(me, url=URL, events=["run.failed"], key="k-1", connection=connection)
        again = await core.hooks.create(me, url=URL, events=["run.failed"], key="k-1", connection=connection)
        assert (again.id, again.secret, made.is_enabled) == (made.id, made.secret, True)
        with pytest.raises(Conflict):
            await core.hooks.create(me, url=URL, events=["run.finished"], key="k-1", connection=connection)
        with pytest.raises(Invalid):
            await core.hooks.create(me, url=URL, events=["nope"], connection=connection)
        assert await core.hooks.page(me) == []
        await product.commit()
        assert (orders_of(url), [hook.id for hook in await core.hooks.page(me)]) == (["o-1"], [made.id])
        for end, is_enabled in ((product.rollback, True), (product.commit, False)):
            await core.hooks.patch(me, made.id, is_enabled=False, connection=connection)
            await core.hooks.rotate(me, made.id, connection=connection)
            with pytest.raises(NotFound):
                await core.hooks.redeliver(me, made.id, "1", connection=connection)
            await end()
            assert (await core.hooks.get(me, made.id)).is_enabled is is_enabled
        await core.hooks.delete(me, made.id, connection=connection)
        assert len(await core.hooks.page(me)) == 1
        await product.commit()
    assert await core.hooks.page(me) == []
    wire = [row.to_wire()["action"] for row in await core.audit.page(me, limit=100)]
    actions = [action for action in wire if str(action).startswith("hook.")]
    assert actions == ["hook.delete", "hook.rotate", "hook.update", "hook.create"]


@pytest.mark.parametrize("store", ["sqlite"])
async def test_another_database(core: Core, me: Principal, url: str, tmp_path: Path) -> None:
    """Nothing is written in either."""
    (tmp_path / "other").mkdir()
    async with plain_sqlite(f"sqlite:///{tmp_path}/other/app.db") as product:
        with pytest.raises(ValueError, match="`connection` is to another database"):
            await core.hooks.create(me, url=URL, events=["run.failed"], connection=product.connection)
    with pytest.raises(TypeError, match="`connection` must be"):
        await core.hooks.create(me, url=URL, events=["run.failed"], connection=object())
    assert await core.hooks.page(me) == []


async def test_a_database_in_memory() -> None:
    """It has no other connections."""
    async with wfcore.open("sqlite://", secrets=bytes(32)) as core:
        org = await core.directory.create_organization("one")
        me = core.principal(org.uuid, "me", role="owner")
        with pytest.raises(ValueError, match="another database: wfcore's is in memory"):
            await core.hooks.create(me, url=URL, events=["run.failed"], connection=object())
