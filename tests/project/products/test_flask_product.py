"""The example product on Flask: sync views and the sessions of Flask, under ASGI, under WSGI, and after a fork."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from test_examples import EXAMPLES, load
from test_products import PAGE, Mailbox, browsers, refund_and_approve
from waiting import HANG

PRODUCT = EXAMPLES / "flask_refunds" / "product.py"


class RawQuery(httpx.URL):
    """A URL whose query has bytes that are not encoded, as a hostile client sends it."""

    @property
    def query(self) -> bytes:
        return b"a=\xff"


def no_mail(*_: str) -> None:
    """The mails are not looked at."""


@pytest.fixture
def product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module; what it builds for its own files opens nothing."""
    monkeypatch.chdir(tmp_path)
    return load(PRODUCT)


@pytest.fixture
def engine(product: Any, tmp_path: Path) -> Iterator[sa.Engine]:
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool, connect_args={"check_same_thread": False})
    product.METADATA.create_all(engine)
    yield engine
    engine.dispose()


def paid(product: Any, engine: sa.Engine) -> list[tuple[int, str]]:
    with engine.connect() as connection:
        rows = connection.execute(sa.select(product.REFUNDS.c.order, product.REFUNDS.c.amount)).all()
    return sorted((order, str(amount)) for order, amount in rows)


@pytest.mark.anyio
async def test_under_asgi(product: Any, engine: sa.Engine) -> None:
    """Views in threads and the mounted API share the sessions and one core."""
    mails = Mailbox()
    app, automation = product.build(product.Shop(engine.begin, mails), "sqlite://", "secret")
    async with browsers(automation.asgi(app, "/automation")) as (ann, boss):
        small, large = {"order": 1, "amount": "40.50"}, {"order": 2, "amount": "400.00"}
        await refund_and_approve(ann, boss, mails, small, large)
        for wrong in ({**small, "amount": "-5"}, {**small, "order": "x"}, {"order": 1}, {**small, "more": 1}):
            refused = await ann.post("/refunds", json=wrong, headers=PAGE)
            assert (refused.status_code, refused.json()["error"]["code"]) == (422, "VALIDATION"), refused.text
        started = await ann.post("/refunds", json={"order": 3, "amount": "1.00"}, headers=PAGE)
        for path in ("/refunds", "/approvals/x", "/login"):
            assert (await ann.post(path, json=[], headers=PAGE)).status_code == 400
        assert (await ann.get("/nowhere")).status_code == 404
        assert (await ann.get(f"/refunds/{started.json()['run']}/progress")).text.endswith("done \n")
        me = await ann.get("/automation/api/v1/me")
        assert (me.status_code, me.json()["userId"]) == (200, "ann")
        hostile = ann.build_request("GET", "/automation/api/v1/me")
        hostile.url = RawQuery(str(hostile.url))
        assert (await ann.send(hostile)).status_code == 400
        mounted = {"name": "x", "type": "workflow"}
        assert (await ann.post("/automation/api/v1/workflows", json=mounted)).status_code == 403, "another site"
        assert (await ann.post("/automation/api/v1/workflows", json=mounted, headers=PAGE)).status_code == 201
        ann.cookies.clear()
        assert (await ann.get("/automation/api/v1/me")).status_code == 401
    assert await asyncio.to_thread(paid, product, engine) == [(1, "40.50"), (2, "400.00"), (3, "1.00")]


def test_under_wsgi(product: Any, engine: sa.Engine) -> None:
    """The core opens with its first use; a view streams the events of a run, and `close` ends it all."""
    app, automation = product.build(product.Shop(engine.begin, no_mail), "sqlite://", "secret")
    client = app.test_client()
    signed_out = client.post("/refunds", json={}, headers=PAGE)
    assert (signed_out.status_code, signed_out.json["error"]["message"]) == (401, "sign in first")
    assert signed_out.headers["X-Request-Id"] == signed_out.json["error"]["requestId"]
    assert client.post("/login", json={"user": "ann", "password": "ann"}, headers=PAGE).status_code == 200
    assert client.post("/refunds", json={"order": 3, "amount": "7.00"}).status_code == 403, "a page of another site"
    sent = client.post("/refunds", json={"order": 3, "amount": "7.00"}, headers=PAGE)
    assert sent.status_code == 202
    progress = client.get(f"/refunds/{sent.json['run']}/progress")
    assert progress.text.splitlines()[-1] == "done ", progress.text
    assert client.get("/refunds/none/progress").status_code == 404
    assert paid(product, engine) == [(3, "7.00")]
    first = automation.core
    assert automation.core is first
    automation.close()
    assert automation.core is not first
    automation.close()


FORKED = """
import os, sys, product

def order(number):
    client = product.app.test_client()
    page = {"Sec-Fetch-Site": "same-origin"}
    client.post("/login", json={"user": "ann", "password": "ann"}, headers=page)
    sent = client.post("/refunds", json={"order": number, "amount": "1.00"}, headers=page)
    assert client.get(f"/refunds/{sent.json['run']}/progress").text.endswith("done \\n")

order(1)
if child := os.fork():
    order(2)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
order(3)
"""


def test_a_fork(tmp_path: Path) -> None:
    """As with a WSGI server that forks workers after it has loaded, and used, the application: each has a core."""
    environment = {**os.environ, "PYTHONPATH": str(PRODUCT.parent), "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    ended = subprocess.run(
        [sys.executable, "-c", FORKED],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=HANG,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    rows = sa.create_engine(f"sqlite:///{tmp_path}/refunds.db", poolclass=sa.NullPool)
    with rows.connect() as connection:
        assert sorted(connection.execute(sa.text('SELECT "order" FROM refunds')).scalars()) == [1, 2, 3]
