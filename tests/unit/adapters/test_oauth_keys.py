"""Where keys come from and how long they last (RFC 8414, OpenID Connect Discovery): an issuer on this machine."""

import asyncio
import json
from collections.abc import Awaitable
from typing import Any

import pytest
from issuing import AUDIENCE, EC, FOREIGN, jwk, jwks, token
from loopback import answer, redirect, serving

from wfcore.adapters.oauth import AccessTokens
from wfcore.adapters.oauth import issuer as module
from wfcore.adapters.oauth.cache import COOL_DOWN, FRESH, STALE, KeyCache
from wfcore.adapters.oauth.issuer import Issuer, KeysUnavailable, metadata_urls
from wfcore.adapters.oauth.keys import VerificationKey, read_keys
from wfcore.domain.kernel.errors import Unavailable
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio


def said(tree: Any, **headers: Any) -> bytes:
    return answer(200, json.dumps(tree).encode(), **headers)


class Scripted:
    """An issuer that gives these key sets one after the other, the last for ever; None is silence."""

    def __init__(self, *sets: dict[str, Any] | None) -> None:
        self.sets = list(sets)
        self.asked = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def keys(self) -> tuple[VerificationKey, ...]:
        self.asked += 1
        await self.gate.wait()
        found = self.sets[min(self.asked, len(self.sets)) - 1]
        if found is None:
            raise KeysUnavailable("nobody there")
        return read_keys(found)


def cache(*sets: dict[str, Any] | None) -> tuple[Scripted, FakeClock, KeyCache]:
    issuer, clock = Scripted(*sets), FakeClock()
    return issuer, clock, KeyCache(issuer.keys, clock)


OLD, NEW = {"keys": [jwk("old", EC)]}, {"keys": [jwk("new", FOREIGN), jwk("old", EC)]}


class TestCache:
    """One request at a time, one in an interval."""

    async def test_a_stampede_of_unknown_ids_is_one_request(self) -> None:
        """A hundred tokens at once before the first answer share it, each with an id of its own."""
        issuer, _, keys = cache(OLD)
        found = await asyncio.gather(*(keys.find(f"k{number}", "ES256") for number in range(100)))
        assert issuer.asked == 1
        assert found == [[]] * 100

    async def test_unknown_ids_ask_once_in_an_interval(self) -> None:
        """However many arrive in it; and while they do, tokens of known keys are judged."""
        issuer, clock, keys = cache(OLD)
        assert await keys.find("old", "ES256")
        for interval in range(1, 4):
            clock.advance(COOL_DOWN)
            await asyncio.gather(*(keys.find(f"k{number}", "ES256") for number in range(100)))
            assert await keys.find("k", "ES256") == []
            assert issuer.asked == 1 + interval
            assert await keys.find("old", "ES256")

    async def test_a_new_key_is_found_after_the_interval(self) -> None:
        """Rotation: the unknown id makes the request that brings it, at once when none was made lately."""
        issuer, clock, keys = cache(OLD, NEW)
        assert await keys.find("old", "ES256")
        clock.advance(COOL_DOWN - 0.001)
        assert await keys.find("new", "ES256") == []
        clock.advance(0.001)
        assert [key.kid for key in await keys.find("new", "ES256")] == ["new"]
        assert issuer.asked == 2

    async def test_a_key_that_was_withdrawn_is_gone_when_keys_are_old(self) -> None:
        """It serves for as long as keys are fresh, and not once more."""
        issuer, clock, keys = cache(NEW, OLD)
        assert await keys.find("new", "ES256")
        clock.advance(FRESH - 0.001)
        assert await keys.find("new", "ES256")
        assert issuer.asked == 1
        clock.advance(0.001)
        assert await keys.find("new", "ES256") == []
        assert await keys.find("old", "ES256")

    async def test_a_silent_issuer_is_forgiven_for_a_bounded_time(self) -> None:
        """Known keys go on, then nothing can be judged; and when it speaks again, all is well."""
        issuer, clock, keys = cache(OLD, None, None, None, OLD)
        assert await keys.find("old", "ES256")
        clock.advance(FRESH)
        assert await keys.find("old", "ES256")
        assert await keys.find("unknown", "ES256") == []
        clock.advance(STALE - FRESH - 0.001)
        assert await keys.find("old", "ES256")
        clock.advance(0.001)
        with pytest.raises(Unavailable):
            await keys.find("old", "ES256")
        clock.advance(COOL_DOWN)
        with pytest.raises(Unavailable):
            await keys.find("old", "ES256")
        clock.advance(COOL_DOWN)
        assert await keys.find("old", "ES256")
        assert issuer.asked == 5

    async def test_known_keys_do_not_wait_for_a_silent_issuer(self) -> None:
        """The second request hangs; a token of a known key is judged meanwhile."""
        issuer, clock, keys = cache(OLD, None, OLD)
        await keys.find("old", "ES256")
        clock.advance(FRESH)
        await keys.find("old", "ES256")
        clock.advance(COOL_DOWN)
        issuer.gate.clear()
        assert await keys.find("old", "ES256")
        await asyncio.sleep(0)
        assert issuer.asked == 3
        issuer.gate.set()
        assert await keys.find("unknown", "ES256") == []

    async def test_who_goes_away_takes_no_others_along(self) -> None:
        """The first asker is cancelled; the second gets the answer of that same request."""
        issuer, _, keys = cache(OLD)
        issuer.gate.clear()
        first, second = asyncio.create_task(keys.find("old", "ES256")), asyncio.create_task(keys.find("old", "ES256"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        issuer.gate.set()
        assert [key.kid for key in await second] == ["old"]
        assert issuer.asked == 1

    async def test_nothing_can_be_judged_before_the_first_answer(self) -> None:
        """A good token is not called bad because the issuer is down: that is our failure, asked for once."""
        issuer, _, keys = cache(None)
        results = await asyncio.gather(*(keys.find("old", "ES256") for _ in range(100)), return_exceptions=True)
        assert {type(result) for result in results} == {Unavailable}
        assert issuer.asked == 1

    async def test_a_bug_in_asking_is_silence(self, caplog: pytest.LogCaptureFixture) -> None:
        """Whatever goes wrong in the request, the waiting tokens get an answer, and the log the trace."""

        def broken() -> Awaitable[Any]:
            raise KeyError("surprise")

        with pytest.raises(Unavailable):
            await KeyCache(broken, FakeClock()).find("old", "ES256")
        assert "surprise" in caplog.text

    async def test_a_clock_set_back_stops_nothing(self) -> None:
        """What seems to have been asked in the future is asked anew."""
        issuer, clock, keys = cache(OLD, NEW)
        await keys.find("old", "ES256")
        clock.advance(-3_600)
        assert await keys.find("new", "ES256")
        assert issuer.asked == 2


class TestDiscovery:
    """Metadata first, then keys, over real sockets."""

    @pytest.mark.parametrize(
        ("issuer", "places"),
        [
            ("https://i", ["https://i/.well-known/oauth-authorization-server", "https://i/.well-known/openid-configuration"]),
            ("https://i/", ["https://i/.well-known/oauth-authorization-server", "https://i/.well-known/openid-configuration"]),
            ("https://i:8/a/b", ["https://i:8/.well-known/oauth-authorization-server/a/b", "https://i:8/a/b/.well-known/openid-configuration"]),
        ],
    )  # fmt: skip
    def test_places(self, issuer: str, places: list[str]) -> None:
        """Before the path by RFC 8414, behind it by OpenID Connect."""
        assert metadata_urls(issuer) == places

    async def test_a_token_is_verified_from_the_issuer_alone(self) -> None:
        """From the configured issuer to an identity: three requests, and none for the second token."""
        async with serving(answer(404), b"", b"") as server:
            metadata = {"issuer": server.url, "jwks_uri": f"{server.url}/jwks"}
            server.answers = [answer(404), said(metadata), said(jwks())]
            tokens = AccessTokens(server.url, AUDIENCE, FakeClock())
            assert await tokens.verify(token("rsa", iss=server.url)) is not None
            assert await tokens.verify(token("ec", iss=server.url)) is not None
            assert [heard.line.split()[1] for heard in server.heard] == [
                "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/jwks"
            ]  # fmt: skip

    async def test_a_jwks_url_leaves_discovery_out(self) -> None:
        """One request."""
        async with serving(said(jwks())) as server:
            tokens = AccessTokens("https://issuer.example", AUDIENCE, FakeClock(), jwks_url=f"{server.url}/k")
            assert await tokens.verify(token(iss="https://issuer.example")) is not None
            assert len(server.heard) == 1

    @pytest.mark.parametrize(
        ("metadata", "why"),
        [
            ({"jwks_uri": "SELF/jwks"}, "another issuer"),
            ({"issuer": "SELF/", "jwks_uri": "SELF/jwks"}, "another issuer"),
            ({"issuer": "https://evil.example", "jwks_uri": "SELF/jwks"}, "another issuer"),
            (["SELF"], "another issuer"),
            ({"issuer": "SELF"}, "no valid `jwks_uri`"),
            ({"issuer": "SELF", "jwks_uri": 1}, "no valid `jwks_uri`"),
            ({"issuer": "SELF", "jwks_uri": "file:///etc/passwd"}, "no valid `jwks_uri`"),
            ({"issuer": "SELF", "jwks_uri": "http://[::1/jwks"}, "Invalid IPv6 URL"),
        ],
    )
    async def test_metadata_that_is_not_the_issuers_own(self, metadata: Any, why: str) -> None:
        """Another issuer's, or without an address of keys: silence with its reason, and no further request."""
        async with serving(b"") as server:
            server.answers = [said(json.loads(json.dumps(metadata).replace("SELF", server.url)))]
            with pytest.raises(KeysUnavailable, match=why):
                await Issuer(server.url).keys()
            assert len(server.heard) == 1

    async def test_tls_is_not_given_up(self) -> None:
        """An https issuer does not name keys on http."""
        with pytest.raises(KeysUnavailable, match="jwks_uri"):
            module._jwks_uri({"issuer": "https://i", "jwks_uri": "http://i/jwks"}, "https://i")

    @pytest.mark.parametrize(
        ("said", "why"),
        [
            (answer(500), "status 500"),
            (redirect("http://127.0.0.1:1/"), "status 302"),
            (answer(200, b"<html>"), "not JSON"),
            (answer(200, b'{"keys": [], "keys": []}'), "repeated key"),
            (answer(200, b"[]"), "not a JWK Set"),
            (said({"keys": []}), "no key that can verify"),
            (said({"keys": [{"kty": "oct", "k": "AAAA"}]}), "no key that can verify"),
            (answer(200, b" " * (2**20 + 1)), "longer than 1048576 bytes"),
            (answer(200, b"{}", content_length=10), "no response"),
            (b"HTTP/1.1", "no response"),
        ],
    )
    async def test_what_is_no_key_set(self, said: bytes, why: str) -> None:
        """Errors, redirects, endless bodies, broken connections: one error of our own with the reason."""
        async with serving(said) as server:
            with pytest.raises(KeysUnavailable, match=why):
                await Issuer("https://issuer.example", f"{server.url}/jwks").keys()

    async def test_an_issuer_that_says_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Time is bounded for all of it."""
        monkeypatch.setattr(module, "SECONDS", 0.05)
        async with serving(None) as server:
            with pytest.raises(KeysUnavailable, match="within"):
                await Issuer("https://issuer.example", f"{server.url}/jwks").keys()

    async def test_nobody_there(self) -> None:
        """A port that is closed, with and without discovery."""
        async with serving(b"") as server:
            gone = server.url
        for issuer in (Issuer(gone), Issuer(gone, f"{gone}/jwks")):
            with pytest.raises(KeysUnavailable, match="no response: ConnectError"):
                await issuer.keys()

    async def test_metadata_nowhere(self) -> None:
        """Both places were tried; a page that is no JSON is none."""
        async with serving(answer(200, b"<html>"), answer(404)) as server:
            with pytest.raises(KeysUnavailable, match="metadata cannot be read"):
                await Issuer(server.url).keys()
            assert len(server.heard) == 2
