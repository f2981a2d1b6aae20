"""Access tokens of a fake issuer (interface, Authentication; RFC 6750, RFC 9728)."""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import attrs
import httpx
import pytest
from clients import Json, World, assert_envelope, flow, serving
from joserfc.jwk import ECKey, Key
from joserfc.jws import JWSRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from wfcore.adapters.http import app
from wfcore.adapters.oauth import AccessTokens, ClaimNames
from wfcore.adapters.oauth.cache import COOL_DOWN
from wfcore.domain.resources.access import TOKEN_SCOPES
from wfcore.ports.system import Clock
from wfcore.settings.installation import load
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

AUDIENCE = "https://api.example/automation"
NAMES = ClaimNames(organization="org", email="email", groups="groups")
METADATA = "/.well-known/oauth-protected-resource"


def b64(text: bytes) -> str:
    return urlsafe_b64encode(text).rstrip(b"=").decode()


@attrs.define
class Issuer:
    """An authorization server: metadata, keys, tokens."""

    url: str = ""
    keys: dict[str, Key] = attrs.field(factory=lambda: {"k1": ECKey.generate_key("P-256")})
    requested: list[str] = attrs.field(factory=list)

    async def answer(self, request: Request) -> Response:
        self.requested.append(request.url.path)
        if request.url.path == "/jwks":
            return JSONResponse(
                {"keys": [{**key.as_dict(private=False), "kid": kid} for kid, key in self.keys.items()]}
            )
        return JSONResponse({"issuer": self.url, "jwks_uri": f"{self.url}/jwks"})

    def token(self, org: str, user: str, scope: str = " ".join(TOKEN_SCOPES), kid: str = "k1", **more: Any) -> str:
        now = int(time.time())
        said = {"iss": self.url, "aud": AUDIENCE, "exp": now + 300, "sub": user, "org": org, "scope": scope} | more
        parts = [b64(json.dumps(part).encode()) for part in ({"alg": "ES256", "typ": "at+jwt", "kid": kid}, said)]
        signature = JWSRegistry.algorithms["ES256"].sign(".".join(parts).encode(), self.keys[kid])
        return ".".join([*parts, b64(signature)])


@asynccontextmanager
async def issuing() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    places = ["/.well-known/oauth-authorization-server", "/jwks"]
    async with serving(Starlette(routes=[Route(place, issuer.answer) for place in places])) as port:
        issuer.url = f"http://127.0.0.1:{port}"
        yield issuer


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with issuing() as found:
        yield found


def client_of(
    world: World, issuer: Issuer, names: ClaimNames = NAMES, clock: Clock | None = None, **more: Any
) -> httpx.AsyncClient:
    """A client of an application that accepts the issuer's tokens."""
    oauth = AccessTokens(issuer.url, AUDIENCE, clock or world.core.ports.clock, claims=names)
    transport = httpx.ASGITransport(app(world.core, oauth=oauth, **more))
    return httpx.AsyncClient(transport=transport, base_url="http://product:81")


def bearing(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


class TestPrincipal:
    """From a token to the caller."""

    async def test_a_member_calls_with_a_token_of_the_issuer(self, world: World, issuer: Issuer) -> None:
        """The role is the member's, the scopes are the known scopes of the token."""
        await world.core.directory.add_member(world.org, "ada", "ada@x.org", role="admin")
        async with client_of(world, issuer) as client:
            scope = "workflows:write members:write admin *"
            me = (await client.get("/api/v1/me", headers=bearing(issuer.token(world.org, "ada", scope)))).json()
            assert me == {
                "orgUuid": world.org, "userId": "ada", "email": "ada@x.org", "groups": [],
                "scopes": ["workflows:write", "members:write"], "role": "admin",
            }  # fmt: skip
            made = await client.post(
                "/api/v1/workflows", json=flow(), headers=bearing(issuer.token(world.org, "ada", scope))
            )
            assert (made.status_code, made.json()["accessConfig"]["ownerUserId"]) == (201, "ada")

    async def test_personal_access_tokens_still_work(self, world: World, issuer: Issuer) -> None:
        """Both kinds work in one application; the issuer is not called for personal access tokens."""
        ada = await world.user()
        async with client_of(world, issuer) as client:
            client.headers["Authorization"] = ada.headers["Authorization"]
            assert (await client.get("/api/v1/me")).json()["userId"] == "ada"
            assert_envelope(
                await client.get("/api/v1/me", headers=bearing("svc_x")), 401, "UNAUTHORIZED", "UNAUTHENTICATED"
            )
            assert issuer.requested == []

    async def test_only_members_are_authenticated(self, world: World, issuer: Issuer) -> None:
        """An unknown user, another or unknown organization and a removed member get the same 401."""
        other = await world.core.directory.create_organization("Other")
        for user in ("ada", "root"):
            await world.core.directory.add_member(world.org, user, role="owner")
        root = world.core.principal(world.org, "root", role="owner")
        never = "00000000-0000-4000-8000-00000000dead"
        errors = set()
        async with client_of(world, issuer) as client:
            ada = issuer.token(world.org, "ada")
            assert (await client.get("/api/v1/me", headers=bearing(ada))).status_code == 200
            await world.core.members.delete(root, "ada")
            for token in (
                issuer.token(world.org, "eve"),
                issuer.token(other.uuid, "root"),
                issuer.token(never, "x"),
                ada,
            ):
                answer = await client.get("/api/v1/me", headers=bearing(token) | {"X-Request-Id": "r"})
                error = assert_envelope(answer, 401, "UNAUTHORIZED", "UNAUTHENTICATED")
                errors.add((json.dumps(error), answer.headers["WWW-Authenticate"]))
        assert len(errors) == 1

    async def test_groups_and_address_of_the_token(self, world: World, issuer: Issuer) -> None:
        """When configured, they replace the member's; groups that the organization lacks are ignored."""
        inside = await world.core.directory.create_group(world.org, "Inside")
        before = await world.core.directory.create_group(world.org, "Before")
        other = await world.core.directory.create_organization("Other")
        foreign = await world.core.directory.create_group(other.uuid, "Foreign")
        await world.core.directory.add_member(world.org, "ada", "ada@x.org", groups=[before.id])
        said: Json = {
            "groups": [inside.id, foreign.id, "x", other.uuid],
            "email": "Ada@New.org",
            "email_verified": True,
        }
        token = issuer.token(world.org, "ada", **said)
        async with client_of(world, issuer) as client, client_of(world, issuer, ClaimNames("org")) as plain:
            me = (await client.get("/api/v1/me", headers=bearing(token))).json()
            assert (me["groups"], me["email"]) == ([inside.id], "ada@new.org")
            bare = (await client.get("/api/v1/me", headers=bearing(issuer.token(world.org, "ada")))).json()
            assert (bare["groups"], bare["email"]) == ([], "ada@x.org")
            me = (await plain.get("/api/v1/me", headers=bearing(token))).json()
            assert (me["groups"], me["email"]) == ([before.id], "ada@x.org")

    async def test_an_address_that_is_not_verified_grants_nothing(self, world: World, issuer: Issuer) -> None:
        """A private workflow that is shared with an address needs a token in which it is verified."""
        owner = await world.user("own")
        private = {"visibility": "private", "groupPermissions": {}, "sharedWith": [{"email": "bob@new.org"}]}
        number = (await owner.post("/api/v1/workflows", json=flow(accessConfig=private))).json()["id"]
        await world.core.directory.add_member(world.org, "bob", "bob@x.org")
        async with client_of(world, issuer) as client:
            for verified, status in ((True, 200), (False, 404), ("true", 404)):
                token = issuer.token(world.org, "bob", email="bob@new.org", email_verified=verified)
                answer = await client.get(f"/api/v1/workflows/{number}", headers=bearing(token))
                assert answer.status_code == status

    async def test_a_scope_that_the_token_lacks(self, world: World, issuer: Issuer) -> None:
        """403 as for every credential."""
        await world.core.directory.add_member(world.org, "ada")
        async with client_of(world, issuer) as client:
            token = issuer.token(world.org, "ada", "workflows:read")
            answer = await client.post("/api/v1/workflows", json=flow(), headers=bearing(token))
            error = assert_envelope(answer, 403, "FORBIDDEN", "PERMISSION_DENIED")
            assert error["info"] == {"missing": ["workflows:write"]}


class TestIssuer:
    """The issuer changes its keys, or is not reachable."""

    async def test_a_new_key_is_accepted(self, world: World, issuer: Issuer) -> None:
        """A token of a new key is accepted as soon as the interval allows a fetch, without a restart."""
        clock = FakeClock(round(time.time() * 1000))
        await world.core.directory.add_member(world.org, "ada")
        async with client_of(world, issuer, clock=clock) as client:
            old = issuer.token(world.org, "ada")
            assert (await client.get("/api/v1/me", headers=bearing(old))).status_code == 200
            issuer.keys["k2"] = ECKey.generate_key("P-256")
            new = issuer.token(world.org, "ada", kid="k2")
            assert (await client.get("/api/v1/me", headers=bearing(new))).status_code == 401
            assert issuer.requested.count("/jwks") == 1
            clock.advance(COOL_DOWN)
            assert (await client.get("/api/v1/me", headers=bearing(new))).status_code == 200
            assert (await client.get("/api/v1/me", headers=bearing(old))).status_code == 200
            assert issuer.requested.count("/jwks") == 2

    async def test_without_keys_a_token_is_503(self, world: World) -> None:
        """503 and not 401; personal access tokens still work."""
        async with issuing() as issuer:
            pass
        ada = await world.user()
        async with client_of(world, issuer) as client:
            answer = await client.get("/api/v1/me", headers=bearing(issuer.token(world.org, "ada")))
            assert_envelope(answer, 503, "INTERNAL_ERROR", "INTERNAL")
            mine = {"Authorization": ada.headers["Authorization"]}
            assert (await client.get("/api/v1/me", headers=mine)).status_code == 200


class TestDiscovery:
    """Clients without a token find the authorization server."""

    async def test_a_401_names_the_metadata(self, world: World, issuer: Issuer) -> None:
        """The challenge names the metadata below the mount, and `invalid_token` when a token was sent."""
        async with client_of(world, issuer, mount="/a b") as client:
            place = f'resource_metadata="http://product:81/a%20b{METADATA}"'
            answer = await client.get("/a b/api/v1/me")
            assert answer.headers["WWW-Authenticate"] == f"Bearer {place}"
            answer = await client.get("/a b/api/v1/me", headers=bearing("no.good.token"))
            assert_envelope(answer, 401, "UNAUTHORIZED", "UNAUTHENTICATED")
            assert answer.headers["WWW-Authenticate"] == f'Bearer error="invalid_token", {place}'

    async def test_the_metadata_needs_no_credential(self, world: World, issuer: Issuer) -> None:
        """Resource, authorization server, scopes and method, without a credential (RFC 9728, 3.2)."""
        async with client_of(world, issuer) as client:
            assert (await client.get(METADATA)).json() == {
                "resource": AUDIENCE,
                "authorization_servers": [issuer.url],
                "scopes_supported": list(TOKEN_SCOPES),
                "bearer_methods_supported": ["header"],
            }
            assert (await client.head(METADATA)).status_code == 200

    async def test_a_protocol_server_has_its_own_metadata(self, world: World, issuer: Issuer) -> None:
        """They name this server and its one scope; tokens for another server are refused."""
        async with client_of(world, issuer) as client:
            place = "/interfaces/mcp/one"
            metadata = (await client.get(METADATA + place)).json()
            assert metadata["resource"] == AUDIENCE
            assert metadata["authorization_servers"] == [issuer.url]
            assert metadata["scopes_supported"] == ["workflows:invoke"]
            await world.core.directory.add_member(world.org, "ada")
            for aud, status in ((f"http://product:81{place}", 401), (AUDIENCE, 404)):
                answer = await client.post(place, headers=bearing(issuer.token(world.org, "ada", aud=aud)))
                assert answer.status_code == status
                if status == 401:
                    challenge = f'Bearer error="invalid_token", resource_metadata="http://product:81{METADATA}{place}"'
                    assert answer.headers["WWW-Authenticate"] == challenge

    async def test_without_an_issuer(self, either: World) -> None:
        """The challenge names the metadata, which have no authorization server."""
        nobody = await either.client()
        place = f'resource_metadata="{str(nobody.base_url).rstrip("/")}{METADATA}"'
        assert (await nobody.get("/api/v1/me")).headers["WWW-Authenticate"] == f"Bearer {place}"
        answer = (await nobody.get(METADATA)).json()
        assert answer.keys() == {"resource", "scopes_supported", "bearer_methods_supported"}
        assert answer["resource"] == str(nobody.base_url).rstrip("/")

    async def test_inside_another_application(self, world: World, issuer: Issuer) -> None:
        """The mount is part of the address."""
        oauth = AccessTokens(issuer.url, "wfcore", world.core.ports.clock)
        outer = Starlette(routes=[Mount("/automation", app(world.core, oauth=oauth))])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="https://product") as client:
            answer = await client.get("/automation/api/v1/me")
            place = f"https://product/automation{METADATA}"
            assert answer.headers["WWW-Authenticate"] == f'Bearer resource_metadata="{place}"'
            assert (await client.get(place)).json()["resource"] == "https://product/automation"

    @pytest.mark.parametrize("host", ['x"y', "a b", "a,b", "", "x/..", "a@b", "ü", "[::1", "a:b", "a\\"])
    async def test_an_invalid_host_is_not_repeated(self, world: World, issuer: Issuer, host: str) -> None:
        """No `Host` of a client can end the quotes of the challenge."""
        async with client_of(world, issuer) as client:
            answer = await client.get("/api/v1/me", headers={"Host": host.encode("latin-1")})
            place = f"http://product:81{METADATA}"
            assert answer.headers["WWW-Authenticate"] == f'Bearer resource_metadata="{place}"'

    def test_authenticate_excludes_oauth(self, world: World, issuer: Issuer) -> None:
        """`authenticate` and `oauth` together are refused."""

        async def nobody(connection: Any) -> None:
            return None

        with pytest.raises(ValueError, match="not both"):
            app(world.core, oauth=AccessTokens(issuer.url, "a", world.core.ports.clock), authenticate=nobody)


async def test_the_settings_configure_the_verifier(world: World, issuer: Issuer) -> None:
    """Issuer, audience, key URL and claims of the environment reach the verifier."""
    await world.core.directory.add_member(world.org, "ada")
    environment = {
        "WFCORE_OAUTH_ISSUER": issuer.url,
        "WFCORE_OAUTH_AUDIENCE": AUDIENCE,
        "WFCORE_OAUTH_JWKS_URL": f"{issuer.url}/jwks",
        "WFCORE_OAUTH_CLAIMS_ORGANIZATION": "tenant",
        "WFCORE_OAUTH_CLAIMS_USER": "uid",
    }
    oauth = load(None, environment).token_verifier(world.core.ports.clock)
    async with AsyncExitStack() as closing:
        transport = httpx.ASGITransport(app(world.core, oauth=oauth))
        client = await closing.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://w"))
        token = issuer.token("x", "someone", tenant=world.org, uid="ada")
        assert (await client.get("/api/v1/me", headers=bearing(token))).json()["userId"] == "ada"
    assert issuer.requested == ["/jwks"]
    assert load(None, {}).token_verifier(world.core.ports.clock) is None
