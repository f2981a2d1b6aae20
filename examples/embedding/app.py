"""A product with users and sessions of its own, and wfcore inside it.

    .venv/bin/uvicorn --app-dir examples/embedding app:app

    curl -c jar -d '{"user": "ann", "password": "ann's"}' localhost:8000/login
    curl -b jar localhost:8000/automation/api/v1/workflows

The product authenticates each caller and names the caller's organization; wfcore calls `authenticate` for this, and
issues no tokens. Workflows can use the tools of the product: here, `send_invoice`.
"""

import hmac
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import wfcore

# The product without wfcore: companies, users, sessions, invoices.


@attrs.frozen
class User:
    name: str
    company: str
    password: str = attrs.field(repr=False)


COMPANIES = {
    "Acme": "6f2d8a52-6b0e-4b7c-9a55-0d6a3c1e9f01",
    "Globex": "6f2d8a52-6b0e-4b7c-9a55-0d6a3c1e9f02",
}
USERS = {user.name: user for user in (User("ann", "Acme", "ann's"), User("bob", "Globex", "bob's"))}
SESSIONS: dict[str, User] = {}
INVOICES: dict[str, dict[str, Any]] = {}


async def login(request: Request) -> Response:
    sent = await request.json()
    user = USERS.get(sent["user"])
    if user is None or not hmac.compare_digest(user.password.encode(), sent["password"].encode()):
        return JSONResponse({"error": "unknown user or wrong password"}, 401)
    session = secrets.token_urlsafe()
    SESSIONS[session] = user
    response = JSONResponse({"user": user.name, "company": user.company})
    response.set_cookie("session", session, httponly=True, samesite="strict")
    return response


def user_of(connection: HTTPConnection) -> User | None:
    return SESSIONS.get(connection.cookies.get("session", ""))


# The parts that wfcore needs: a tool, the authentication of callers, and a lifespan.


@wfcore.tool(idempotent=True)
def send_invoice(customer: str, amount: float, call: wfcore.ToolCall) -> dict[str, Any]:
    """Send an invoice. The key is the same in every attempt of one call, so no customer is billed twice."""
    invoice = {"customer": customer, "amount": amount, "company": call.org}
    return INVOICES.setdefault(call.key, {"number": len(INVOICES) + 1, **invoice})


async def authenticate(connection: HTTPConnection) -> wfcore.Principal | None:
    """The principal for the product's user: a user of the company's organization."""
    user = user_of(connection)
    if user is None:
        return None
    core: wfcore.Core = connection.app.state.wfcore
    return core.principal(COMPANIES[user.company], user=user.name, email=f"{user.name}@example.com")


def build(database: str) -> Starlette:
    """The product, with its automation under `/automation`."""

    @asynccontextmanager
    async def lifespan(product: Starlette) -> AsyncIterator[None]:
        async with wfcore.open(database, tools=[send_invoice]) as core:
            for name, uuid in COMPANIES.items():
                await ensure_organization(core, name, uuid)
            product.state.wfcore = core
            product.mount("/automation", wfcore.http.app(core, authenticate=authenticate))
            yield

    return Starlette(routes=[Route("/login", login, methods=["POST"])], lifespan=lifespan)


async def ensure_organization(core: wfcore.Core, name: str, uuid: str) -> None:
    try:
        await core.directory.create_organization(name, id=uuid)
    except wfcore.Conflict:
        return  # an earlier start created it


app = build("sqlite:///product.db")
