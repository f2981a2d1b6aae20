"""A product on FastAPI whose customers define how refunds are approved.

    .venv/bin/uvicorn --app-dir examples/fastapi_refunds product:app

    curl -c jar -H 'Content-Type: application/json' -d '{"user": "ann", "password": "ann"}' localhost:8000/login
    curl -b jar -H 'Content-Type: application/json' -H 'Sec-Fetch-Site: same-origin' \
        -d '{"order": 7, "amount": "40.50", "reason": "damaged"}' localhost:8000/refunds

`install` opens wfcore with the application and mounts it at `/automation`. The models of the routes are also those of
the tool and of the form of the approval. The tool writes into the product's table under the key of its call, in a
transaction that a provider opens. An approval is mailed to the managers by a handler.
`tests/project/products/test_products.py` tests it in memory.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal
from typing import Annotated, Literal

import attrs
import sqlalchemy as sa
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, Field
from starlette.requests import HTTPConnection

import wfcore
from wfcore.contrib.fastapi import Automation, install

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


class Refund(BaseModel):
    order: int
    amount: Decimal = Field(gt=0)
    reason: str = Field(min_length=1)


class Login(BaseModel):
    user: str
    password: str


class Answer(BaseModel):
    decision: Literal["approve", "deny"]
    note: str = ""


class Note(BaseModel):
    """The form of an approval."""

    note: str = Field(default="", title="Note for the customer")


@attrs.define
class Shop:
    """What the parts of the product share. `mail` sends a text to a user, once for each key."""

    transaction: Callable[[], AbstractContextManager[sa.Connection]]
    mail: Callable[[str, str, str], None]
    sessions: dict[str, str] = attrs.field(factory=dict)


# What wfcore needs of it: a tool, a workflow, principals, and a handler.


def transaction(ctx: wfcore.RunContext[Shop]) -> Iterator[sa.Connection]:
    with ctx.deps.transaction() as connection:
        yield connection


@wfcore.tool(idempotent=True)
def send_refund(
    refund: Refund, ctx: wfcore.RunContext[Shop], connection: Annotated[sa.Connection, wfcore.Provide(transaction)]
) -> Refund:
    """Pay an amount back to the customer of an order."""
    if connection.scalar(sa.select(REFUNDS.c.key).where(REFUNDS.c.key == ctx.key)) is None:
        connection.execute(REFUNDS.insert().values(key=ctx.key, order=refund.order, amount=refund.amount))
    return refund


def refund_flow() -> wfcore.Flow:
    flow = wfcore.Flow("Refunds", input=Refund)
    check = flow.condition(large="double(input.amount) > 100.0")
    ask = flow.approval(f"Pay back {flow.input.amount} for order {flow.input.order}: {flow.input.reason}?",
                        groups=[MANAGERS], form=Note, after=check["large"])  # fmt: skip
    flow.action(send_refund, refund=flow.input, after=[ask, check.otherwise])
    return flow


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


def build(shop: Shop, database: str) -> FastAPI:
    def principal_of(core: wfcore.Core, connection: HTTPConnection) -> wfcore.Principal | None:
        user = shop.sessions.get(connection.cookies.get("session", ""))
        return core.principal(ACME, user=user, email=f"{user}@acme.example", groups=USERS[user]) if user else None

    automation = Automation(
        database, principal=principal_of, ready=lambda core: prepare(core, shop), tools=[send_refund], deps=shop
    )
    app = FastAPI(title="Refunds")
    install(app, automation, "/automation")
    same_site = [Depends(automation.same_site)]

    def core_of(_: Request) -> wfcore.Core:
        return automation.core

    @app.post("/login")
    async def login(sent: Login, response: Response) -> dict[str, str]:
        if sent.user not in USERS or sent.password != sent.user:
            raise HTTPException(401, "unknown user or wrong password")
        session = secrets.token_urlsafe()
        shop.sessions[session] = sent.user
        response.set_cookie("session", session, httponly=True, samesite="strict")
        return {"user": sent.user}

    @app.post("/refunds", status_code=202, dependencies=same_site)
    async def refund(
        sent: Refund,
        me: Annotated[wfcore.Principal, Depends(automation.principal)],
        core: Annotated[wfcore.Core, Depends(core_of)],
    ) -> dict[str, str]:
        (flow,) = await core.workflows.page(me)
        run = await core.runs.start(me, workflow=flow.id, input=sent.model_dump(mode="json"))
        return {"run": run.id}

    @app.post("/approvals/{run}", status_code=202, dependencies=same_site)
    async def decide(
        run: str,
        sent: Answer,
        me: Annotated[wfcore.Principal, Depends(automation.principal)],
        core: Annotated[wfcore.Core, Depends(core_of)],
    ) -> dict[str, str]:
        resumed = await core.runs.resume(me, run, decision=sent.decision, data={"note": sent.note})
        return {"run": resumed.id}

    return app


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


app = build(on_file("refunds.db"), "sqlite:///refunds.wfcore.db")
