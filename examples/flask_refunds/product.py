"""A product on Flask whose customers define how refunds are approved.

    .venv/bin/uvicorn --app-dir examples/flask_refunds product:asgi

    curl -c jar -H 'Content-Type: application/json' -H 'Sec-Fetch-Site: same-origin' \
        -d '{"user": "ann", "password": "ann"}' localhost:8000/login
    curl -b jar -H 'Content-Type: application/json' -H 'Sec-Fetch-Site: same-origin' \
        -d '{"order": 7, "amount": "40.50"}' localhost:8000/refunds

The views are sync, and the mounted API and the studio at `/automation` read the sessions of Flask. A WSGI server can
run `product:app` instead, without the mounted API. `tests/project/products/test_flask_product.py` tests both.
"""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from decimal import Decimal
from functools import partial
from typing import Annotated, Any

import attrs
import sqlalchemy as sa
from flask import Flask, Response, abort, request, session, stream_with_context

import wfcore
from wfcore.contrib.flask import FlaskAutomation

# The product without wfcore.

ACME = "6f2d8a52-6b0e-4b7c-9a55-0d6a3c1e9f01"
MANAGERS = "6f2d8a52-6b0e-4b7c-9a55-0d6a3c1e9f11"
USERS: Mapping[str, list[str]] = {"ann": [], "max": [MANAGERS]}
"""The users, with their groups. In this example the password of a user is the name."""

METADATA = sa.MetaData()
REFUNDS = sa.Table(
    "refunds",
    METADATA,
    sa.Column("key", sa.String, primary_key=True),
    sa.Column("order", sa.Integer, nullable=False),
    sa.Column("amount", sa.Numeric(10, 2), nullable=False),
)


@attrs.define
class Shop:
    """What the parts of the product share. `mail` sends a text to a user, once for each key."""

    transaction: Callable[[], AbstractContextManager[sa.Connection]]
    mail: Callable[[str, str, str], None]


def body() -> dict[str, Any]:
    """The JSON object in the body of the request; anything else is a 400."""
    sent = request.get_json()
    return sent if isinstance(sent, dict) else abort(400, "the body must be a JSON object")


# What wfcore needs of it: a tool, a workflow, principals, and a handler.


def transaction(ctx: wfcore.RunContext[Shop]) -> Iterator[sa.Connection]:
    with ctx.deps.transaction() as connection:
        yield connection


@wfcore.tool(idempotent=True)
def send_refund(
    order: int,
    amount: Decimal,
    ctx: wfcore.RunContext[Shop],
    connection: Annotated[sa.Connection, wfcore.Provide(transaction)],
) -> Decimal:
    """Pay an amount back to the customer of an order."""
    if connection.scalar(sa.select(REFUNDS.c.key).where(REFUNDS.c.key == ctx.key)) is None:
        connection.execute(REFUNDS.insert().values(key=ctx.key, order=order, amount=amount))
    return amount


REFUND: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order": {"type": "integer", "minimum": 1},
        "amount": {"type": "string", "pattern": r"^[0-9]{1,8}(\.[0-9]{1,2})?$"},
    },
    "required": ["order", "amount"],
    "additionalProperties": False,
}
"""The input of a run: wfcore refuses any other, so that the view does not check it."""


def refund_flow() -> wfcore.Flow:
    flow = wfcore.Flow("Refunds", input=REFUND)
    check = flow.condition(large="double(input.amount) > 100.0")
    ask = flow.approval(f"Pay back {flow.input.amount} for order {flow.input.order}?", groups=[MANAGERS],
                        after=check["large"])  # fmt: skip
    flow.action(send_refund, order=flow.input.order, amount=flow.input.amount, after=[ask, check.otherwise])
    return flow


def principal_of(core: wfcore.Core | wfcore.SyncCore) -> wfcore.Principal | None:
    user = session.get("user", "")
    return core.principal(ACME, user=user, email=f"{user}@acme.example", groups=USERS[user]) if user in USERS else None


async def prepare(core: wfcore.Core, shop: Shop) -> None:
    """The organization and the workflow of a first start, and the mail of each approval that waits."""
    await core.directory.ensure_organization("Acme", id=ACME)
    await core.directory.ensure_group(ACME, "Managers", id=MANAGERS)
    owner = core.principal(ACME, user="product")
    if not await core.workflows.page(owner):
        flow = refund_flow()
        made = await core.workflows.create(owner, name=flow.name, structure=flow.structure())
        await core.workflows.deploy(owner, made.id)

    def mail_managers(event: wfcore.HookEvent) -> None:
        text = f"A refund waits for your decision: /approvals/{event.data['runId']}"
        for user in (user for user, groups in USERS.items() if MANAGERS in groups):
            shop.mail(f"{event.id}/{user}", user, text)

    core.on("interrupt.opened", mail_managers, name="mail managers")


def build(shop: Shop, database: str, key: str) -> tuple[Flask, FlaskAutomation]:
    """The product, with `key` as Flask's secret key."""
    app = Flask("refunds")
    app.config.update(SECRET_KEY=key, SESSION_COOKIE_SAMESITE="Strict")
    automation = FlaskAutomation(
        database, principal=principal_of, ready=partial(prepare, shop=shop), tools=[send_refund], deps=shop
    )
    automation.install(app)
    app.before_request(automation.same_site)

    @app.post("/login")
    def login() -> dict[str, str]:
        sent = body()
        if sent.get("user") not in USERS or sent.get("password") != sent["user"]:
            abort(401, "unknown user or wrong password")
        session["user"] = sent["user"]
        return {"user": sent["user"]}

    @app.post("/refunds")
    def refund() -> tuple[dict[str, str], int]:
        me = automation.principal()
        (flow,) = automation.core.workflows.page(me)
        run = automation.core.runs.start(me, workflow=flow.id, input=body())
        return {"run": run.id}, 202

    @app.get("/refunds/<run>/progress")
    def progress(run: str) -> Response:
        """A line for each event of the run, as it happens."""
        events = automation.core.runs.follow(automation.principal(), run)

        def lines() -> Iterator[str]:
            with closing(events):
                yield from (f"{event.kind} {event.node_id or ''}\n" for event in events)

        return Response(stream_with_context(lines()), mimetype="text/plain")

    @app.post("/approvals/<run>")
    def decide(run: str) -> tuple[dict[str, str], int]:
        resumed = automation.core.runs.resume(automation.principal(), run, {"decision": body().get("decision")})
        return {"run": resumed.id}, 202

    return app, automation


def print_mail(key: str, user: str, text: str) -> None:
    """A product would call its mail service, with the key as the idempotency key."""
    print(f"mail to {user}: {text}")


def on_file(path: str) -> Shop:
    """The product on a database of its own."""
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool)

    @contextmanager
    def transaction() -> Iterator[sa.Connection]:
        with engine.begin() as connection:
            METADATA.create_all(connection)
            yield connection

    return Shop(transaction, print_mail)


# Several processes need the same key.
app, automation = build(
    on_file("refunds.db"), "sqlite:///refunds.wfcore.db", os.environ.get("SHOP_KEY") or secrets.token_hex()
)
asgi = automation.asgi(app, "/automation")
