"""A product with users and sessions of its own, and wfcore inside it, also in its pages.

    .venv/bin/uvicorn --app-dir examples/embedding app:app

Open http://localhost:8000 and sign in as `ann`, password `ann's` (`amy` is of the same company, `bob` of another). Or:

    curl -c jar -d '{"user": "ann", "password": "ann's"}' localhost:8000/login
    curl -b jar localhost:8000/automation/api/v1/workflows

The product authenticates each caller and names the caller's organization; wfcore calls `authenticate` for this, and
issues no tokens. Workflows can use the tools of the product: here, `send_invoice`. The pages have custom elements of
wfcore, in the colours and words of the product, under a strict content security policy. `portal.py` is a second
product, of another origin, that shows the same inbox: its backend gets a short-lived token for its page from this one.
"""

import hmac
import os
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

import wfcore

# The product without wfcore: companies, users, sessions, invoices, pages.


@attrs.frozen
class User:
    name: str
    company: str
    password: str = attrs.field(repr=False)


COMPANIES = {
    "Acme": "6f2d8a52-6b0e-4b7c-9a55-0d6a3c1e9f01",
    "Globex": "6f2d8a52-6b0e-4b7c-9a55-0d6a3c1e9f02",
}
USERS = {
    user.name: user
    for user in (User("ann", "Acme", "ann's"), User("amy", "Acme", "amy's"), User("bob", "Globex", "bob's"))
}
SESSIONS: dict[str, User] = {}
INVOICES: dict[str, dict[str, Any]] = {}
PORTAL_KEY = os.environ.get("PORTAL_KEY", "shared by the product and the portal")

PAGES = Path(__file__).with_name("pages")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)


async def body_of(request: Request) -> dict[str, Any]:
    """The JSON object in the body of a request; any other body is a 400."""
    try:
        sent = await request.json()
    except ValueError:
        sent = None
    if not isinstance(sent, dict):
        raise HTTPException(400, "the body must be a JSON object")
    return sent


async def login(request: Request) -> Response:
    sent = await body_of(request)
    user, password = USERS.get(str(sent.get("user"))), str(sent.get("password"))
    if user is None or not hmac.compare_digest(user.password.encode(), password.encode()):
        return JSONResponse({"error": "unknown user or wrong password"}, 401)
    session = secrets.token_urlsafe()
    SESSIONS[session] = user
    response = JSONResponse({"user": user.name, "company": user.company})
    response.set_cookie("session", session, httponly=True, samesite="strict")
    return response


async def logout(request: Request) -> Response:
    SESSIONS.pop(request.cookies.get("session", ""), None)
    response = JSONResponse({})
    response.delete_cookie("session")
    return response


def user_of(connection: HTTPConnection) -> User | None:
    return SESSIONS.get(connection.cookies.get("session", ""))


async def session(request: Request) -> Response:
    user = user_of(request)
    return JSONResponse({"user": user and user.name, "company": user and user.company})


def page(name: str) -> Route:
    """The route of a page; its scripts, styles and requests are of this origin alone."""

    async def respond(request: Request) -> Response:
        return FileResponse(PAGES / name, headers={"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"})

    return Route("/" if name == "product.html" else f"/{name}", respond)


# The parts that wfcore needs: a tool, the authentication of callers, and a lifespan.


@wfcore.tool(idempotent=True)
def send_invoice(customer: str, amount: float, call: wfcore.ToolCall) -> dict[str, Any]:
    """Send an invoice. The key is the same in every attempt of one call, so no customer is billed twice."""
    if amount > 9000:
        raise wfcore.ToolFailed(f"{customer} has a credit limit of 9000", retryable=False)
    invoice = {"customer": customer, "amount": amount, "company": call.org}
    return INVOICES.setdefault(call.key, {"number": len(INVOICES) + 1, **invoice})


async def authenticate(connection: HTTPConnection) -> wfcore.Principal | None:
    """The principal for the product's user. wfcore accepts its embed tokens beside the session."""
    user = user_of(connection)
    return None if user is None else principal(connection.app.state.wfcore, user)


def principal(core: wfcore.Core, user: User) -> wfcore.Principal:
    return core.principal(COMPANIES[user.company], user=user.name, email=f"{user.name}@example.com")


BILLING = {
    "nodes": [
        {"id": "start", "type": "start"},
        {
            "id": "check",
            "type": "condition",
            "data": {"branches": [{"handle": "large", "when": "input.amount > 1000.0"}]},
        },
        {
            "id": "approve",
            "type": "humanApproval",
            "data": {
                "message": "Send {{ input.customer }} an invoice of {{ input.amount }} euros?",
                "formSchema": {
                    "type": "object",
                    "required": ["costCentre"],
                    "properties": {
                        "costCentre": {"type": "string", "title": "Cost centre", "enum": ["sales", "service"]},
                        "note": {"type": "string", "title": "Note", "maxLength": 200},
                    },
                },
                "timeoutSeconds": 172_800,
            },
        },
        {
            "id": "send",
            "type": "action",
            "data": {
                "toolId": "send_invoice",
                "params": {"customer": "{{ input.customer }}", "amount": "{{ input.amount }}"},
            },
        },
    ],
    "edges": [
        {"id": "1", "source": "start", "target": "check"},
        {"id": "2", "source": "check", "target": "approve", "sourceHandle": "large"},
        {"id": "3", "source": "check", "target": "send", "sourceHandle": "else"},
        {"id": "4", "source": "approve", "target": "send", "sourceHandle": "approved"},
    ],
}


def invoice_of(sent: Mapping[str, Any]) -> dict[str, Any] | None:
    """The input of a run, from the fields of a form; None for wrong ones."""
    try:
        customer, amount = str(sent["customer"]), float(sent["amount"])
    except (KeyError, TypeError, ValueError):
        return None
    return {"customer": customer, "amount": amount} if customer and 0 < amount < float("inf") else None


async def bill(request: Request) -> Response:
    """Bill a customer: the product starts a run for its user."""
    user, sent = user_of(request), await body_of(request)
    if user is None:
        return JSONResponse({"error": "sign in first"}, 401)
    data = invoice_of(sent)
    if data is None:
        return JSONResponse({"error": "an invoice has a customer, and an amount above 0"}, 422)
    core: wfcore.Core = request.app.state.wfcore
    number = request.app.state.billing[user.company]
    run = await core.runs.start(principal(core, user), workflow=number, input=data)
    return JSONResponse({"runId": run.id}, 202)


async def portal_token(request: Request) -> Response:
    """A token for a page of the portal, which acts for one user: only for billing, valid for ten minutes."""
    sent = request.headers.get("Authorization", "")
    if not hmac.compare_digest(sent.encode(), f"Bearer {PORTAL_KEY}".encode()):
        return JSONResponse({"error": "only the portal can request tokens"}, 401)
    user = USERS.get(str((await body_of(request)).get("user")))
    if user is None:
        return JSONResponse({"error": "unknown user"}, 404)
    core: wfcore.Core = request.app.state.wfcore
    billing = request.app.state.billing[user.company]
    scopes = ["workflows:read", "workflows:invoke"]
    return JSONResponse({"token": await core.tokens.embed(principal(core, user), scopes, ttl=600, workflows=[billing])})


async def ensure_billing(core: wfcore.Core, company: str) -> int:
    """The id of the company's workflow: that of an earlier start, else a new one that all of the company can use."""
    with suppress(wfcore.Conflict):  # an earlier start created it
        await core.directory.create_organization(company, id=COMPANIES[company])
    me = core.principal(COMPANIES[company], user="billing", email="billing@example.com")
    for known in await core.workflows.page(me):
        if known.resource.name == "Billing":
            return known.id
    made = await core.workflows.create(me, name="Billing", structure=BILLING)
    await core.workflows.deploy(me, made.id)
    return made.id


def build(database: str, browser_origins: Iterable[str] = ()) -> Starlette:
    """The product, with its automation under `/automation`. Pages of `browser_origins` can use it with a token."""

    @asynccontextmanager
    async def lifespan(product: Starlette) -> AsyncIterator[None]:
        async with wfcore.open(database, tools=[send_invoice]) as core:
            product.state.wfcore = core
            product.state.billing = {company: await ensure_billing(core, company) for company in COMPANIES}
            automation = wfcore.http.app(
                core, authenticate=authenticate, studio=STUDIO, browser_origins=browser_origins
            )
            product.mount("/automation", automation)
            yield

    routes = [
        Route("/login", login, methods=["POST"]),
        Route("/logout", logout, methods=["POST"]),
        Route("/session", session),
        Route("/invoices", bill, methods=["POST"]),
        Route("/portal-tokens", portal_token, methods=["POST"]),
        *(page(name) for name in ("product.html", "product.css", "product.js")),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


STUDIO = wfcore.http.Studio(
    title="Ledgerline Automation", theme={"--wf-color-accent": "#0b6e4f"}, links=[("Ledgerline", "/")]
)
"""The pages at `/automation/studio/`, for users who need more than the elements in the product's pages."""

app = build("sqlite:///product.db", filter(None, [os.environ.get("PORTAL")]))
