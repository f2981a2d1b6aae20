"""Two authorization servers for the same tests: keys made in the test, and oidc-provider, a real one, on Node.

The library is installed once, into the user's cache, if Node and npm are installed; otherwise its tests are skipped.
"""

import asyncio
import json
import os
import subprocess
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

import attrs
import httpx
from clients import Json, serving
from joserfc.jwk import ECKey
from joserfc.jws import JWSRegistry
from node_libraries import library
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from waiting import HANG

from wfcore.domain.resources.access import TOKEN_SCOPES

AUDIENCE: Final = "https://api.example/automation"
LIFETIME: Final = 600
"""Seconds."""
SCOPE: Final = "workflows:read workflows:write"

NAME: Final = "oidc-provider"
VERSION: Final = "9.13.3"
CALLBACK: Final = "https://client.example/callback"
NONE: Final[Json] = {}


def new_key(kid: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})


def b64(part: Json | bytes) -> str:
    text = part if isinstance(part, bytes) else json.dumps(part).encode()
    return urlsafe_b64encode(text).rstrip(b"=").decode()


def signed(header: Json, claims: Json, key: ECKey) -> str:
    """A token signed with this key, with any header."""
    message = f"{b64(header)}.{b64(claims)}"
    return f"{message}.{b64(JWSRegistry.algorithms['ES256'].sign(message.encode(), key))}"


class Server(Protocol):
    """An authorization server. All tokens have the organization that was set last."""

    url: str

    async def use(self, keys: Sequence[ECKey], org: str) -> None:
        """Replace its keys; the first one signs."""
        ...

    async def token(
        self, user: str, *, resource: str | None = AUDIENCE, header: Json = NONE, claims: Json = NONE
    ) -> str:
        """An access token for the resource, with these changes to header and claims."""
        ...

    async def tokens(self, user: str) -> tuple[str, str]:
        """Access token and ID token of a user who has signed in."""
        ...


@attrs.define
class Made:
    """Metadata, keys and tokens, made without a library."""

    url: str = ""
    _keys: Sequence[ECKey] = ()
    _org: str = ""

    async def use(self, keys: Sequence[ECKey], org: str) -> None:
        self._keys, self._org = keys, org

    async def token(
        self, user: str, *, resource: str | None = AUDIENCE, header: Json = NONE, claims: Json = NONE
    ) -> str:
        if resource is None:
            return b64(os.urandom(32))
        said = self._claims(user, resource) | {"scope": SCOPE, "org": self._org} | claims
        return self._signed(
            {"typ": "at+jwt"} | header, {name: value for name, value in said.items() if value is not None}
        )

    async def tokens(self, user: str) -> tuple[str, str]:
        return await self.token(user), self._signed({}, self._claims(user, "client"))

    def _claims(self, user: str, audience: str) -> Json:
        now = int(time.time())
        return {"iss": self.url, "sub": user, "aud": audience, "iat": now, "exp": now + LIFETIME}

    def _signed(self, header: Json, claims: Json) -> str:
        return signed({"alg": "ES256", "kid": self._keys[0].kid} | header, claims, self._keys[0])

    async def answer(self, request: Request) -> Response:
        if request.url.path == "/jwks":
            return JSONResponse({"keys": [key.as_dict(private=False) for key in self._keys]})
        return JSONResponse({"issuer": self.url, "jwks_uri": f"{self.url}/jwks"})


@asynccontextmanager
async def made_in_the_test() -> AsyncIterator[Server]:
    server = Made()
    places = ["/.well-known/openid-configuration", "/jwks"]
    async with serving(Starlette(routes=[Route(place, server.answer) for place in places])) as port:
        server.url = f"http://127.0.0.1:{port}"
        yield server


@attrs.define
class OidcProvider:
    """oidc-provider in a process of its own."""

    process: asyncio.subprocess.Process
    url: str = ""

    async def use(self, keys: Sequence[ECKey], org: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        settings = {"keys": [key.as_dict(private=True) for key in keys], "org": org}
        more = {"scope": " ".join(TOKEN_SCOPES), "lifetime": LIFETIME}
        self.process.stdin.write(json.dumps(settings | more).encode() + b"\n")
        async with asyncio.timeout(HANG):
            self.url = (await self.process.stdout.readline()).decode().strip()
        assert self.url, "it ended"

    async def token(
        self, user: str, *, resource: str | None = AUDIENCE, header: Json = NONE, claims: Json = NONE
    ) -> str:
        change = json.dumps({"header": header, "claims": claims})
        async with self._client() as client:
            parameters = {"grant_type": "client_credentials", "scope": SCOPE} | (
                {"resource": resource} if resource else {}
            )
            return str((await self._tokens(client, user, parameters, change))["access_token"])

    async def tokens(self, user: str) -> tuple[str, str]:
        """By the authorization code flow (OAuth 2.1, 4.1; OpenID Connect Core, 3.1), signing in on its pages."""
        secret = "s" * 43
        parameters = {
            "client_id": "eve",
            "response_type": "code",
            "redirect_uri": CALLBACK,
            "scope": f"openid {SCOPE}",
            "resource": AUDIENCE,
            "code_challenge": b64(sha256(secret.encode()).digest()),
            "code_challenge_method": "S256",
        }
        async with self._client() as client:
            place = await self._signed_in(
                client, str(client.build_request("GET", "/auth", params=parameters).url), user
            )
            code = httpx.URL(place).params["code"]
            proof = {"code": code, "redirect_uri": CALLBACK, "code_verifier": secret, "resource": AUDIENCE}
            answered = await self._tokens(client, "eve", {"grant_type": "authorization_code"} | proof)
        return answered["access_token"], answered["id_token"]

    async def signed_in(self, url: str, user: str) -> str:
        """Where a browser is sent at last, in which this user signs in and consents to what the URL requests."""
        async with self._client() as client:
            return await self._signed_in(client, url, user)

    async def _signed_in(self, client: httpx.AsyncClient, url: str, user: str) -> str:
        place = url
        while place.startswith((self.url, "/")):
            answer = await client.get(place)
            if answer.status_code == httpx.codes.OK:
                prompt = "login" if 'name="password"' in answer.text else "consent"
                answer = await client.post(place, data={"prompt": prompt, "login": user, "password": "any"})
            place = answer.headers["Location"]
        return place

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=HANG, verify=False)

    async def _tokens(
        self, client: httpx.AsyncClient, user: str, parameters: Mapping[str, str], change: str = ""
    ) -> Json:
        answer = await client.post("/token", data=parameters, auth=(user, "secret"), headers={"X-Change": change})
        assert answer.status_code == httpx.codes.OK, answer.text
        found: Json = answer.json()
        return found


@asynccontextmanager
async def oidc_provider(main: Path) -> AsyncIterator[Server]:
    script = Path(__file__).with_name("oidc_provider.mjs")
    process = await asyncio.create_subprocess_exec("node", script, main, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield OidcProvider(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def installed() -> Path | str:
    """The library's main module, or the reason why it is missing."""
    return library(NAME, VERSION, "lib/index.js", oldest_node=(20, 12))
