"""The example products: own users, wfcore mounted, a tool that writes into their tables, mailed approvals."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from test_examples import EXAMPLES, load
from waiting import HANG

PAGE = {"Sec-Fetch-Site": "same-origin"}


class Mailbox:
    """A fake mail service: it keeps what it was called with, once for each key."""

    def __init__(self) -> None:
        self.mails: dict[str, tuple[str, str]] = {}
        self.arrived = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self, key: str, user: str, text: str) -> None:
        self.mails[key] = (user, text)
        self._loop.call_soon_threadsafe(self.arrived.set)

    async def link(self) -> str:
        """The address in the only mail."""
        async with asyncio.timeout(HANG):
            await self.arrived.wait()
        ((user, text),) = self.mails.values()
        assert user == "max"
        return text.rpartition(": ")[2]


class FakeRefunds:
    """The table of the Starlette product, in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[int, float]] = {}

    def add(self, key: str, order: int, amount: float) -> None:
        self.rows.setdefault(key, (order, amount))


@asynccontextmanager
async def browsers(application: Any) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    """Ann and Max, signed in to a started application."""

    def browser() -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="https://shop.example")

    async with application.router.lifespan_context(application), browser() as ann, browser() as boss:
        for user, client in (("ann", ann), ("max", boss)):
            for password, status in (("x", 401), (user, 200)):
                signed_in = await client.post("/login", json={"user": user, "password": password}, headers=PAGE)
                assert signed_in.status_code == status
        yield ann, boss


async def ended(client: httpx.AsyncClient, run: str) -> dict[str, Any]:
    """The record of a run on the mounted API, when its stream has ended."""
    stream = await client.get(f"/automation/agent/v1/runs/{run}/events")
    assert stream.status_code == 200
    record = (await client.get(f"/automation/agent/v1/runs/{run}")).json()
    assert isinstance(record, dict)
    return record


async def refund_and_approve(
    ann: httpx.AsyncClient, boss: httpx.AsyncClient, mails: Mailbox, small: dict[str, Any], large: dict[str, Any]
) -> None:
    """What both products do: a small refund at once, a large one after a manager has followed the mail."""
    assert (await ann.post("/refunds", json=small)).status_code == 403, "a page of another site"
    signed_out = await ann.post("/refunds", json=small, headers={**PAGE, "Cookie": "session=no"})
    assert signed_out.status_code == 401
    started = await ann.post("/refunds", json=small, headers=PAGE)
    assert started.status_code == 202, started.text
    assert (await ended(ann, started.json()["run"]))["status"] == "done"
    assert not mails.mails

    waiting = (await ann.post("/refunds", json=large, headers=PAGE)).json()["run"]
    link = await mails.link()
    assert link == f"/approvals/{waiting}"
    assert (await ann.post(link, json={"decision": "approve"}, headers=PAGE)).status_code == 403, "not a manager"
    approved = await boss.post(link, json={"decision": "approve"}, headers=PAGE)
    assert approved.status_code == 202, approved.text
    assert (await ended(ann, approved.json()["run"]))["status"] == "done"
    again = await boss.post(link, json={"decision": "approve"}, headers=PAGE)
    assert (again.status_code, again.json()["error"]["info"]["reason"]) == (409, "already_resumed")
    assert len(mails.mails) == 1


@pytest.mark.anyio
async def test_the_starlette_product_in_memory() -> None:
    """With fakes for its table and its mail service."""
    product = load(EXAMPLES / "starlette_refunds" / "product.py")
    mails, refunds = Mailbox(), FakeRefunds()
    application = product.build(product.Shop(refunds, mails), "sqlite://")
    async with browsers(application) as (ann, boss):
        small, large = {"order": 1, "amount": 40}, {"order": 2, "amount": 400}
        await refund_and_approve(ann, boss, mails, small, large)
        for wrong in ({**small, "amount": -5}, {**small, "order": "x"}, {"order": 1}, {**small, "more": 1}):
            assert (await ann.post("/refunds", json=wrong, headers=PAGE)).status_code == 422
        for path in ("/refunds", "/approvals/x", "/login"):
            for body in (b"", b"no", b"[]", b"\xff"):
                assert (await ann.post(path, content=body, headers=PAGE)).status_code == 400
        assert (await ann.post("/login", json={"user": ["ann"]})).status_code == 401
        assert (await boss.post(await mails.link(), json={}, headers=PAGE)).status_code == 409
    assert sorted(refunds.rows.values()) == [(1, 40.0), (2, 400.0)]


def test_the_table_of_the_starlette_product(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A repeated call under the same key adds no row."""
    product = load(EXAMPLES / "starlette_refunds" / "product.py")
    refunds = product.Refunds(str(tmp_path / "refunds.db"))
    for _ in range(2):
        refunds.add("key", 1, 40.0)
    engine = sa.create_engine(f"sqlite:///{tmp_path}/refunds.db", poolclass=sa.NullPool)
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT order_id, amount FROM refunds")).all() == [(1, 40.0)]
    product.print_mail("key", "max", "hello")
    assert capsys.readouterr().out == "mail to max: hello\n"


@pytest.mark.anyio
async def test_the_fastapi_product_in_memory() -> None:
    """Its table in an in-memory database, with the mail service faked; the models check the body and the tool."""
    product = load(EXAMPLES / "fastapi_refunds" / "product.py")
    mails = Mailbox()
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool, connect_args={"check_same_thread": False})
    product.METADATA.create_all(engine)
    application = product.build(product.Shop(engine.begin, mails), "sqlite://")
    async with browsers(application) as (ann, boss):
        small = {"order": 1, "amount": "40.50", "reason": "late"}
        large = {"order": 2, "amount": "400", "reason": "damaged"}
        await refund_and_approve(ann, boss, mails, small, large)
        assert (await ann.post("/refunds", json={**small, "amount": 0}, headers=PAGE)).status_code == 422
        mounted = await ann.post("/automation/api/v1/workflows", json={"name": "x", "type": "workflow"}, headers=PAGE)
        assert mounted.status_code == 201
    with engine.connect() as connection:
        rows = connection.execute(sa.select(product.REFUNDS.c.order, product.REFUNDS.c.amount)).all()
    engine.dispose()
    assert [(order, str(amount)) for order, amount in sorted(rows)] == [(1, "40.50"), (2, "400.00")]


def test_the_fastapi_product_on_a_file(tmp_path: Path) -> None:
    """Its table is made with the first transaction."""
    product = load(EXAMPLES / "fastapi_refunds" / "product.py")
    shop = product.on_file(tmp_path / "refunds.db")
    with shop.transaction() as connection:
        assert connection.execute(sa.select(product.REFUNDS)).all() == []
