"""Requests for the keys of a local issuer (RFC 8414, OpenID Connect Discovery)."""

import json
from typing import Any

import pytest
from issuing import AUDIENCE, jwks, token
from loopback import answer, redirect, serving

from wfcore.adapters.oauth import AccessTokens
from wfcore.adapters.oauth import issuer as module
from wfcore.adapters.oauth.issuer import Issuer, KeysUnavailable, metadata_urls
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio


def said(tree: Any, **headers: Any) -> bytes:
    return answer(200, json.dumps(tree).encode(), **headers)


class TestDiscovery:
    """First the metadata, then the keys, over real sockets."""

    @pytest.mark.parametrize(
        ("issuer", "places"),
        [
            ("https://i", ["https://i/.well-known/oauth-authorization-server", "https://i/.well-known/openid-configuration"]),
            ("https://i/", ["https://i/.well-known/oauth-authorization-server", "https://i/.well-known/openid-configuration"]),
            ("https://i:8/a/b", ["https://i:8/.well-known/oauth-authorization-server/a/b", "https://i:8/a/b/.well-known/openid-configuration"]),
        ],
    )  # fmt: skip
    def test_metadata_urls(self, issuer: str, places: list[str]) -> None:
        """RFC 8414 inserts the path after the well-known part, OpenID Connect before it."""
        assert metadata_urls(issuer) == places

    async def test_a_token_is_verified_with_the_issuer_only(self) -> None:
        """From the configured issuer to an identity: three requests, and none for the second token."""
        async with serving(answer(404), b"", b"") as server:
            metadata = {"issuer": server.url, "jwks_uri": f"{server.url}/jwks"}
            server.answers = [answer(404), said(metadata), said(jwks())]
            tokens = AccessTokens(server.url, AUDIENCE, FakeClock())
            assert await tokens.verify(token("rsa", iss=server.url)) is not None
            assert await tokens.verify(token("ec", iss=server.url)) is not None
            assert [request.line.split()[1] for request in server.received] == [
                "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/jwks"
            ]  # fmt: skip

    async def test_a_jwks_url_replaces_discovery(self) -> None:
        """There is one request."""
        async with serving(said(jwks())) as server:
            tokens = AccessTokens("https://issuer.example", AUDIENCE, FakeClock(), jwks_url=f"{server.url}/k")
            assert await tokens.verify(token(iss="https://issuer.example")) is not None
            assert len(server.received) == 1

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
    async def test_invalid_metadata(self, metadata: Any, why: str) -> None:
        """Metadata of another issuer, or without a `jwks_uri`, is refused with a reason, without a further request."""
        async with serving(b"") as server:
            server.answers = [said(json.loads(json.dumps(metadata).replace("SELF", server.url)))]
            with pytest.raises(KeysUnavailable, match=why):
                await Issuer(server.url).keys()
            assert len(server.received) == 1

    async def test_an_https_issuer_needs_an_https_jwks_uri(self) -> None:
        """An https issuer cannot name a `jwks_uri` with http."""
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
    async def test_responses_without_keys(self, said: bytes, why: str) -> None:
        """Errors, redirects, long bodies and broken connections raise KeysUnavailable with a reason."""
        async with serving(said) as server:
            with pytest.raises(KeysUnavailable, match=why):
                await Issuer("https://issuer.example", f"{server.url}/jwks").keys()

    async def test_a_request_has_a_timeout(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The time of all requests together is bounded."""
        monkeypatch.setattr(module, "SECONDS", 0.05)
        async with serving(None) as server:
            with pytest.raises(KeysUnavailable, match="within"):
                await Issuer("https://issuer.example", f"{server.url}/jwks").keys()

    async def test_a_closed_port(self) -> None:
        """A closed port, with and without discovery, raises KeysUnavailable."""
        async with serving(b"") as server:
            gone = server.url
        for issuer in (Issuer(gone), Issuer(gone, f"{gone}/jwks")):
            with pytest.raises(KeysUnavailable, match="no response: ConnectError"):
                await issuer.keys()

    async def test_no_metadata(self) -> None:
        """Both addresses are tried; a page that is not JSON is ignored."""
        async with serving(answer(200, b"<html>"), answer(404)) as server:
            with pytest.raises(KeysUnavailable, match="metadata cannot be read"):
                await Issuer(server.url).keys()
            assert len(server.received) == 2
