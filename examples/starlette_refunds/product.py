"""A product on Starlette whose customers define how refunds are approved.

    .venv/bin/uvicorn --app-dir examples/starlette_refunds product:app

    curl -c jar -d '{"user": "ann", "password": "ann"}' localhost:8000/login
    curl -b jar -H 'Sec-Fetch-Site: same-origin' -d '{"order": 7, "amount": 40}' localhost:8000/refunds

The product has users, groups, sessions and a table of its own. wfcore is opened with the application and mounted at
`/automation`. A tool writes the refund into the product's table under the key of its call, so that no refund is paid
twice. An approval is mailed to the managers by a handler. `tests/project/products/test_products.py` tests it in memory.
"""

import secrets
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import attrs
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import wfcore
from wfcore.contrib.starlette import Automation

# The product without wfcore.

ACME = "6f2d8a52-6b0e-4b7c-9a55-0d6a3c1e9f01"
MANAGERS = "6f2d8a52-6b0e-4b7c-9a55-0d6a3c1e9f11"
USERS: Mapping[str, list[str]] = {"ann": [], "max": [MANAGERS]}
"""The users, with their groups. In this example the password of a user is the name."""


class Refunds:
    """The product's table of refunds."""

    def __init__(self, path: str) -> None:
        self._path = path

    def add(self, key: str, order: int, amount: float) -> None:
        """Add a refund, once for each key."""
        with closing(sqlite3.connect(self._path)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS refunds (key TEXT PRIMARY KEY, order_id, amount)")
            database.execute("INSERT INTO refunds VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (key, order, amount))


@attrs.define
class Shop:
    """What the parts of the product share. `mail` sends a text to a user, once for each key."""

    refunds: Refunds
    mail: Callable[[str, str, str], None]
    sessions: dict[str, str] = attrs.field(factory=dict)


async def body_of(request: Request) -> dict[str, Any]:
    """The JSON object in the body of a request. Raises Malformed."""
    try:
        sent = await request.json()
    except ValueError:
        sent = None
    if not isinstance(sent, dict):
        raise wfcore.Malformed("the body must be a JSON object")
    return sent


# What wfcore needs of it: a tool, a workflow, principals, and a handler.


@wfcore.tool(idempotent=True)
def send_refund(order: int, amount: float, ctx: wfcore.RunContext[Shop]) -> str:
    """Pay an amount back to the customer of an order."""
    ctx.deps.refunds.add(ctx.key, order, amount)
    return f"order {order}: {amount} paid back"


REFUND: Mapping[str, Any] = {
    "type": "object",
    "properties": {"order": {"type": "integer"}, "amount": {"type": "number", "exclusiveMinimum": 0}},
    "required": ["order", "amount"],
    "additionalProperties": False,
}
"""The input of a run: wfcore refuses any other, whoever starts the run."""


def refund_flow() -> wfcore.Flow:
    flow = wfcore.Flow("Refunds", input=REFUND)
    check = flow.condition(large=flow.input.amount > 100.0)
    ask = flow.approval(f"Pay back {flow.input.amount} for order {flow.input.order}?", groups=[MANAGERS],
                        after=check["large"])  # fmt: skip
    flow.action(send_refund, order=flow.input.order, amount=flow.input.amount, after=[ask, check.otherwise])
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


def build(shop: Shop, database: str) -> Starlette:
    def principal_of(core: wfcore.Core, connection: HTTPConnection) -> wfcore.Principal | None:
        user = shop.sessions.get(connection.cookies.get("session", ""))
        if user is None:
            return None
        return core.principal(ACME, user=user, email=f"{user}@acme.example", groups=USERS[user])

    automation = Automation(
        database, principal=principal_of, ready=lambda core: prepare(core, shop), tools=[send_refund], deps=shop
    )

    async def login(request: Request) -> Response:
        sent = await body_of(request)
        user = str(sent.get("user"))
        if user not in USERS or sent.get("password") != user:
            return JSONResponse({"error": "unknown user or wrong password"}, 401)
        session = secrets.token_urlsafe()
        shop.sessions[session] = user
        response = JSONResponse({"user": user})
        response.set_cookie("session", session, httponly=True, samesite="strict")
        return response

    async def refund(request: Request) -> Response:
        await automation.same_site(request)
        me, sent = await automation.principal(request), await body_of(request)
        (flow,) = await automation.core.workflows.page(me)
        run = await automation.core.runs.start(me, workflow=flow.id, input=sent)
        return JSONResponse({"run": run.id}, 202)

    async def decide(request: Request) -> Response:
        await automation.same_site(request)
        me, sent = await automation.principal(request), await body_of(request)
        run = await automation.core.runs.resume(me, request.path_params["run"], {"decision": sent.get("decision")})
        return JSONResponse({"run": run.id}, 202)

    routes = [
        Route("/login", login, methods=["POST"]),
        Route("/refunds", refund, methods=["POST"]),
        Route("/approvals/{run}", decide, methods=["POST"]),
        automation.mount("/automation"),
    ]
    return Starlette(
        routes=routes, lifespan=automation.lifespan, exception_handlers={wfcore.WfcoreError: automation.error}
    )


def print_mail(key: str, user: str, text: str) -> None:
    """A product would call its mail service, with the key as the idempotency key."""
    print(f"mail to {user}: {text}")


app = build(Shop(Refunds("refunds.db"), print_mail), "sqlite:///refunds.wfcore.db")
