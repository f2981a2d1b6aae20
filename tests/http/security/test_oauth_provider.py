"""Access tokens of a real authorization server (interface, Authentication 2; RFC 9068).

Every test runs against oidc-provider on Node, if installed, and against keys made in the test.
"""

import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from authorization_servers import (
    AUDIENCE,
    LIFETIME,
    SCOPE,
    Server,
    b64,
    installed,
    made_in_the_test,
    new_key,
    oidc_provider,
    signed,
)
from clients import Connect, Json, World, assert_envelope

from wfcore.adapters.http import app
from wfcore.adapters.oauth import AccessTokens, ClaimNames
from wfcore.adapters.oauth.cache import COOL_DOWN, FRESH
from wfcore.adapters.oauth.tokens import LEEWAY
from wfcore.core import Core
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

KEY, NEXT, FOREIGN = new_key("k1"), new_key("k2"), new_key("k1")


@pytest.fixture(scope="module", params=["oidc-provider", "keys made in the test"])
async def server(request: pytest.FixtureRequest, anyio_backend: str) -> AsyncIterator[Server]:
    async with AsyncExitStack() as closing:
        if request.param == "keys made in the test":
            made = await closing.enter_async_context(made_in_the_test())
        elif isinstance(library := installed(), Path):
            made = await closing.enter_async_context(oidc_provider(library))
        else:
            pytest.skip(library)  # `installed` says what is missing: Node, or the npm package of the provider
        await made.use([KEY], "")
        yield made


@pytest.fixture
async def issuer(server: Server, world: World) -> Server:
    """The server with one key and this organization, of which `ada` is a member."""
    await world.core.directory.add_member(world.org, "ada")
    await server.use([KEY], world.org)
    return server


def client_of(
    core: Core, issuer: Server, clock: FakeClock | None = None, jwks_url: str | None = None
) -> httpx.AsyncClient:
    """A client of an application that accepts the issuer's tokens."""
    names = ClaimNames(organization="org")
    oauth = AccessTokens(issuer.url, AUDIENCE, clock or core.ports.clock, claims=names, jwks_url=jwks_url)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app(core, oauth=oauth)), base_url="http://product")


@pytest.fixture(scope="module")
async def client(server: Server, memory_server: tuple[Core, Connect]) -> AsyncIterator[httpx.AsyncClient]:
    """One application for all tests that keep the keys."""
    async with client_of(memory_server[0], server) as client:
        yield client


async def ask(client: httpx.AsyncClient, token: str) -> httpx.Response:
    return await client.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})


def parts(token: str) -> tuple[Json, Json]:
    """Header and claims."""
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2])
    return header, claims


def unsigned(token: str) -> str:
    return ".".join([b64(parts(token)[0] | {"alg": "none"}), token.split(".")[1], ""])


def forged(token: str) -> str:
    return signed(*parts(token), FOREIGN)


def promoted(token: str) -> str:
    """The token with wider scopes and the same signature."""
    header, _, signature = token.split(".")
    return ".".join([header, b64(parts(token)[1] | {"scope": f"{SCOPE} members:write"}), signature])


def without(claim: str) -> Callable[[Server], Awaitable[str]]:
    return lambda issuer: issuer.token("ada", claims={claim: None})


async def id_token(issuer: Server) -> str:
    return (await issuer.tokens("ada"))[1]


NO_GOOD: dict[str, Callable[[Server], Awaitable[str]]] = {
    "made out to another resource": lambda issuer: issuer.token("ada", resource="https://other.example"),
    "without an audience": lambda issuer: issuer.token("ada", claims={"aud": []}),
    "expired": lambda issuer: issuer.token("ada", claims={"exp": int(time.time()) - LEEWAY - 1}),
    "not good yet": lambda issuer: issuer.token("ada", claims={"nbf": int(time.time()) + LEEWAY + 60}),
    "another issuer's": lambda issuer: issuer.token("ada", claims={"iss": "https://evil.example"}),
    "of a key that the issuer lacks": lambda issuer: issuer.token("ada", header={"kid": "nobody"}),
    "of another kind": lambda issuer: issuer.token("ada", header={"typ": "JWT"}),
    "without iss": without("iss"),
    "without exp": without("exp"),
    "without sub": without("sub"),
    "without organization": without("org"),
    "an ID token": id_token,
    "an opaque token, for no resource": lambda issuer: issuer.token("ada", resource=None),
}
FORGERIES: dict[str, Callable[[str], str]] = {"alg none": unsigned, "a foreign key": forged, "more scopes": promoted}


class TestAccepted:
    """Tokens that the server issues for this resource are accepted."""

    @pytest.mark.parametrize("place", [None, "/jwks"], ids=["discovery", "jwks_url"])
    async def test_client_credentials(self, world: World, issuer: Server, place: str | None) -> None:
        """With the keys of the metadata, or at a configured URL; the scopes are the token's."""
        async with client_of(world.core, issuer, jwks_url=place and issuer.url + place) as client:
            answer = await ask(client, await issuer.token("ada"))
        assert answer.status_code == 200, answer.text
        me = answer.json()
        assert (me["userId"], me["orgUuid"], me["scopes"]) == ("ada", world.org, SCOPE.split())

    async def test_a_user_who_has_signed_in(self, world: World, issuer: Server) -> None:
        """The access token of the code flow is the user's, not the client's."""
        async with client_of(world.core, issuer) as client:
            answer = await ask(client, (await issuer.tokens("ada"))[0])
        assert (answer.status_code, answer.json()["userId"]) == (200, "ada")


class TestRefused:
    """The same 401 with the challenge; a valid token is accepted right after."""

    @pytest.mark.parametrize("name", NO_GOOD)
    async def test_issued(self, issuer: Server, client: httpx.AsyncClient, name: str) -> None:
        """Genuine tokens for another resource, out of date, or incomplete."""
        await self.assert_refused(client, await NO_GOOD[name](issuer), await issuer.token("ada"))

    @pytest.mark.parametrize("name", FORGERIES)
    async def test_forged(self, issuer: Server, client: httpx.AsyncClient, name: str) -> None:
        """Valid tokens that were changed."""
        good = await issuer.token("ada")
        await self.assert_refused(client, FORGERIES[name](good), good)

    async def assert_refused(self, client: httpx.AsyncClient, token: str, good: str) -> None:
        answer = await ask(client, token)
        assert_envelope(answer, 401, "UNAUTHORIZED", "UNAUTHENTICATED")
        assert answer.headers["WWW-Authenticate"].startswith('Bearer error="invalid_token", resource_metadata=')
        assert (await ask(client, good)).status_code == 200


class TestTime:
    """Expiry of tokens, and rotation of keys."""

    async def test_a_token_ends(self, world: World, issuer: Server) -> None:
        """After its lifetime and the leeway, and not before."""
        token = await issuer.token("ada")
        end = parts(token)[1]["exp"] + LEEWAY
        clock = FakeClock(end * 1000 - 1)
        async with client_of(world.core, issuer, clock) as client:
            assert (await ask(client, token)).status_code == 200
            clock.advance(0.001)
            assert (await ask(client, token)).status_code == 401

    async def test_keys_are_rotated(self, world: World, issuer: Server) -> None:
        """A new key is accepted after the cool-down; a withdrawn key is dropped within FRESH."""
        clock = FakeClock(round(time.time() * 1000))
        old = await issuer.token("ada")
        async with client_of(world.core, issuer, clock) as client:
            assert (await ask(client, old)).status_code == 200
            await issuer.use([NEXT, KEY], world.org)
            new = await issuer.token("ada")
            assert parts(new)[0]["kid"] == NEXT.kid
            assert (await ask(client, new)).status_code == 401
            clock.advance(COOL_DOWN)
            assert [(await ask(client, token)).status_code for token in (new, old)] == [200, 200]
            await issuer.use([NEXT], world.org)
            assert (await ask(client, old)).status_code == 200
            clock.advance(FRESH)
            assert [(await ask(client, token)).status_code for token in (new, old)] == [200, 401]
        assert COOL_DOWN + FRESH < LIFETIME
