"""A service with an authorization server of its own, for the tests of connections."""

import asyncio
import hashlib
from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any
from urllib.parse import unquote_plus

import attrs
from clients import serving
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

CLIENT, SECRET = "wfcore at work", "canary-client-secret-0815"


@attrs.define
class Service:
    """Grants access to everybody, rotates refresh tokens, and revokes all of them when one is used twice (RFC 9700)."""

    lifetime: int | None = 3_600
    denies: str = ""
    rotates: bool = True
    numbers: Any = attrs.field(factory=lambda: count(1))
    challenges: dict[str, str] = attrs.field(factory=dict)
    valid: set[str] = attrs.field(factory=set)
    refreshers: set[str] = attrs.field(factory=set)
    used: set[str] = attrs.field(factory=set)
    forms: list[dict[str, str]] = attrs.field(factory=list)
    revoked: list[str] = attrs.field(factory=list)
    calls: list[tuple[str, dict[str, str]]] = attrs.field(factory=list)
    token_status: int = 200
    reuses: int = 0

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/authorize", self.authorize),
                Route("/token", self.token, methods=["POST"]),
                Route("/revoke", self.revoke, methods=["POST"]),
                Route("/api", self.api, methods=["GET", "POST"]),
                Route("/elsewhere", self.elsewhere),
            ]
        )

    async def authorize(self, request: Request) -> Response:
        query = request.query_params
        assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")
        assert query["client_id"] == CLIENT
        back = f"{query['redirect_uri']}?state={query['state']}"
        if self.denies:
            return RedirectResponse(f"{back}&error={self.denies}&error_description=canary-description")
        code = f"code-{next(self.numbers)}"
        self.challenges[code] = query["code_challenge"]
        return RedirectResponse(f"{back}&code={code}&session_state=x")

    async def token(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        basic = request.headers.get("Authorization", "").removeprefix("Basic ")
        if basic:
            name, secret = (unquote_plus(part) for part in b64decode(basic).decode().split(":"))
            form |= {"basic": name, "client_secret": secret, "client_id": name}
        self.forms.append(form)
        await asyncio.sleep(0)
        if self.token_status != 200:
            return JSONResponse({"error": "server_error"}, self.token_status)
        if (form.get("client_id"), form.get("client_secret")) != (CLIENT, SECRET):
            return JSONResponse({"error": "invalid_client"}, 401)
        if not self._grants(form):
            return JSONResponse({"error": "invalid_grant", "error_description": "canary-description"}, 400)
        number = next(self.numbers)
        access, refresh = f"canary-access-{number}", f"canary-refresh-{number}"
        self.valid.add(access)
        given: dict[str, Any] = {"access_token": access, "token_type": "Bearer"}
        if self.rotates and form["grant_type"] != "client_credentials":
            self.refreshers.add(refresh)
            given["refresh_token"] = refresh
        if self.lifetime is not None:
            given["expires_in"] = self.lifetime
        return JSONResponse(given)

    def _grants(self, form: dict[str, str]) -> bool:
        if form["grant_type"] == "authorization_code":
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            wanted = self.challenges.pop(form["code"], None)
            return wanted == urlsafe_b64encode(digest).rstrip(b"=").decode()
        if form["grant_type"] == "client_credentials":
            return True
        token = form["refresh_token"]
        if token in self.used:
            self.reuses += 1
            self.refreshers.clear()
        known = token in self.refreshers
        self.refreshers.discard(token)
        self.used.add(token)
        return known

    async def revoke(self, request: Request) -> Response:
        form = await request.form()
        self.revoked.append(str(form["token"]))
        self.valid.discard(str(form["token"]))
        return Response()

    async def api(self, request: Request) -> Response:
        self.calls.append((request.method, dict(request.headers)))
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in self.valid and request.headers.get("X-Key") != "canary-api-key":
            return JSONResponse({"error": "no"}, 401)
        return JSONResponse({"echo": request.headers.get("Authorization"), "ok": True})

    async def elsewhere(self, request: Request) -> Response:
        return RedirectResponse(request.query_params["to"], 307)


@asynccontextmanager
async def offering(service: Service) -> AsyncIterator[str]:
    """The address of the running service."""
    async with serving(service.app()) as port:
        yield f"http://127.0.0.1:{port}"
