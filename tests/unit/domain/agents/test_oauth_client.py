"""The client side of OAuth: requests, responses, metadata and registration."""

import base64
import json
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.agents.oauth_client import (
    LONGEST_LIFE,
    GrantedTokens,
    OAuthClient,
    OAuthRefused,
    authorization_url,
    challenge_of,
    client_at,
    client_request,
    code_request,
    metadata_in,
    refresh_request,
    registered_client,
    registration_request,
    resource_metadata,
    resource_metadata_urls,
    revocation_request,
    server_metadata,
    server_metadata_urls,
    tokens_of,
)

CLIENT = OAuthClient("c d", "https://as.org/t", "s:ö", "https://as.org/a?x=1&state=mine", scopes=("a", "b"))
SERVER = {
    "issuer": "https://as.org", "authorization_endpoint": "https://as.org/a", "token_endpoint": "https://as.org/t",
    "code_challenge_methods_supported": ["S256"],
}  # fmt: skip
URL = "https://mcp.org/team/mcp"


def sent(**found: Any) -> bytes:
    return json.dumps(found).encode()


def form_of(body: bytes) -> dict[str, str]:
    return dict(parse_qsl(body.decode(), strict_parsing=True))


def test_the_challenge_of_a_verifier() -> None:
    """RFC 7636, appendix B."""
    challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    assert challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == challenge


def test_the_authorization_url() -> None:
    """The parameters of RFC 6749, RFC 7636 and RFC 8707; the query of the server is kept, but not our own names."""
    url = urlsplit(authorization_url(CLIENT, "https://w.org/cb?a=b", "st", "v" * 43))
    query = parse_qs(url.query)
    assert (url.scheme, url.netloc, url.path) == ("https", "as.org", "/a")
    assert query == {
        "x": ["1"], "response_type": ["code"], "client_id": ["c d"], "redirect_uri": ["https://w.org/cb?a=b"],
        "state": ["st"], "code_challenge": [challenge_of("v" * 43)], "code_challenge_method": ["S256"],
        "scope": ["a b"],
    }  # fmt: skip
    plain = OAuthClient("c", "t", authorize_url="https://as.org/a", resource=URL)
    query = parse_qs(urlsplit(authorization_url(plain, "r", "s", "v")).query)
    assert ("scope" in query, query["resource"]) == (False, [URL])


def test_requests_for_tokens() -> None:
    """Form-encoded; the client authenticates in a header, in the body, or not at all without a secret."""
    headers, body = code_request(CLIENT, "k", "https://w.org/cb", "v")
    pair = base64.b64decode(headers["authorization"].removeprefix("Basic ")).decode()
    assert pair == "c%20d:s%3A%C3%B6"
    assert form_of(body) == {
        "grant_type": "authorization_code", "code": "k", "redirect_uri": "https://w.org/cb", "code_verifier": "v",
    }  # fmt: skip
    assert form_of(refresh_request(attrs.evolve(CLIENT, issuer="https://as.org"), "r")[1])["client_id"] == "c d"
    posting = attrs.evolve(CLIENT, token_auth="post", resource=URL)
    headers, body = refresh_request(posting, "r")
    assert form_of(body) == {
        "grant_type": "refresh_token", "refresh_token": "r", "resource": URL, "client_id": "c d",
        "client_secret": "s:ö",
    }  # fmt: skip
    assert "authorization" not in headers
    assert form_of(refresh_request(attrs.evolve(CLIENT, secret=""), "r")[1])["client_id"] == "c d"
    assert form_of(client_request(CLIENT)[1]) == {"grant_type": "client_credentials", "scope": "a b"}
    assert form_of(client_request(attrs.evolve(CLIENT, scopes=()))[1]) == {"grant_type": "client_credentials"}
    assert form_of(revocation_request(posting, "t", "refresh_token")[1]).keys() == {
        "token", "token_type_hint", "client_id", "client_secret",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ({"access_token": "a"}, GrantedTokens("a")),
        (
            {"access_token": "a", "token_type": "BEARER", "refresh_token": "r", "expires_in": 60},
            GrantedTokens("a", "r", 60),
        ),
        ({"access_token": "a", "expires_in": "90"}, GrantedTokens("a", "", 90)),
        ({"access_token": "a", "error": None, "token_type": None}, GrantedTokens("a")),
        ({"access_token": "a", "expires_in": -1}, GrantedTokens("a", "", 0)),
        ({"access_token": "a", "expires_in": 1e300}, GrantedTokens("a", "", LONGEST_LIFE)),
        ({"access_token": "a", "expires_in": "soon", "refresh_token": "r\n"}, GrantedTokens("a")),
        ({"access_token": "a", "expires_in": True, "refresh_token": 1}, GrantedTokens("a")),
        ({"access_token": "a", "expires_in": "nan"}, GrantedTokens("a")),
    ],
)
def test_tokens_of_a_response(found: Any, wanted: GrantedTokens) -> None:
    """Lifetimes are numbers, or text with one; what is not valid is as if it were missing."""
    assert tokens_of(200, sent(**found)) == wanted
    assert "a" not in repr(wanted).removeprefix("GrantedTokens").replace("lifetime", "")


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, sent(error="invalid_grant", error_description="canary"), "responded `invalid_grant`"),
        (302, sent(access_token="canary"), "responded with status 302"),
        (200, sent(error={"message": "canary"}, access_token="canary"), "without a token"),
        (200, sent(error="Bad Code!"), "responded with status 200 and without a token"),
        (500, b"canary", "responded with status 500 and without a token"), (200, b"[]", "without a token"),
        (200, sent(access_token=""), "is not valid"), (200, sent(access_token="a b"), "is not valid"),
        (200, sent(access_token=1), "is not valid"),
        (200, sent(access_token="a" * 20_000), "is not valid"),
        (200, sent(access_token="canary", token_type="mac"), "is not a bearer token"),
        (200, sent(access_token="canary", token_type=7), "is not a bearer token"),
    ],
)  # fmt: skip
def test_responses_without_tokens(status: int, body: bytes, message: str) -> None:
    """The message has the error code, if it is one, and nothing else of the response."""
    with pytest.raises(OAuthRefused, match=message) as caught:
        tokens_of(status, body)
    assert "canary" not in str(caught.value)


@given(st.floats(0, 1e9), st.integers(0, 2**40))
def test_tokens_are_replaced_before_they_expire(lifetime: float, now: int) -> None:
    """At most a minute and at most a tenth of their life before."""
    end = GrantedTokens("a", lifetime=lifetime).expires_at(now)
    assert end is not None
    assert now + lifetime * 900 - 1 <= end <= now + lifetime * 1000
    assert end >= now + (lifetime - 60) * 1000 - 1
    assert GrantedTokens("a").expires_at(now) is None


def test_where_metadata_is() -> None:
    """RFC 9728, 3.1; RFC 8414, 3.1; OpenID Connect Discovery, 4; in the challenge of RFC 9728, 5.1."""
    assert list(resource_metadata_urls(URL)) == [
        "https://mcp.org/.well-known/oauth-protected-resource/team/mcp",
        "https://mcp.org/.well-known/oauth-protected-resource",
    ]
    assert list(resource_metadata_urls("https://mcp.org/")) == ["https://mcp.org/.well-known/oauth-protected-resource"]
    assert list(server_metadata_urls("https://as.org/t/")) == [
        "https://as.org/.well-known/oauth-authorization-server/t",
        "https://as.org/.well-known/openid-configuration/t",
        "https://as.org/t/.well-known/openid-configuration",
    ]
    assert len(list(server_metadata_urls("https://as.org"))) == 2
    assert metadata_in('Bearer error="x", resource_metadata="https://m.org/a"') == "https://m.org/a"
    for other in ("Bearer", 'Bearer resource_metadata="javascript:x"', ""):
        assert metadata_in(other) is None


def test_metadata_of_a_resource() -> None:
    """Of this resource or one above it, with an issuer; scopes are optional."""
    found = resource_metadata(
        sent(resource="https://mcp.org/team", authorization_servers=["https://as.org"], scopes_supported=["a", 1]), URL
    )
    assert (found.resource, found.issuer, found.scopes) == ("https://mcp.org/team", "https://as.org", ["a"])
    for resource in ("https://mcp.org/te", "https://evil.org/team", "http://mcp.org/team", 7, "x"):
        with pytest.raises(OAuthRefused, match="is not that of its own address"):
            resource_metadata(sent(resource=resource, authorization_servers=["https://as.org"]), URL)
    for issuers in ([], None, ["javascript:x"]):
        with pytest.raises(OAuthRefused, match="names no authorization server"):
            resource_metadata(sent(resource=URL, authorization_servers=issuers), URL)


def test_metadata_of_a_server() -> None:
    """Endpoints of this issuer with PKCE; a final slash makes no difference: the issuer is as the server spells it."""
    found = server_metadata(
        sent(**SERVER, revocation_endpoint="https://as.org/r", scopes_supported="x"), "https://as.org/"
    )
    assert (found.issuer, found.token_url, found.revocation_url) == (
        "https://as.org",
        "https://as.org/t",
        "https://as.org/r",
    )
    assert (found.registration_url, found.auth_methods) == ("", ("client_secret_basic",))
    for change, message in (
        ({"issuer": "https://evil.org"}, "another issuer"), ({"issuer": None}, "another issuer"),
        ({"token_endpoint": "ftp://x"}, "no endpoints"), ({"authorization_endpoint": 1}, "no endpoints"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"), ({"code_challenge_methods_supported": None}, "PKCE"),
    ):  # fmt: skip
        with pytest.raises(OAuthRefused, match=message):
            server_metadata(sent(**{**SERVER, **change}), "https://as.org")


@pytest.mark.parametrize(("sends", "missing"), [(True, False), (False, True), (None, True), ("true", True)])
def test_the_issuer_of_a_response(sends: Any, missing: bool) -> None:
    """RFC 9207, 2.4: it can be missing only if the server does not say that it sends it; another one is refused."""
    change = {"authorization_response_iss_parameter_supported": sends}
    client = client_at(server_metadata(sent(**SERVER, **change), "https://as.org/"), "c", "", (), "")
    found = [client.is_answered_by(one) for one in ("https://as.org", "https://as.org/", "https://evil.org", "", None)]
    assert found == [True, False, False, False, missing]


@pytest.mark.parametrize(
    ("issuer", "accepted"),
    [
        (None, True), ("https://as.org", True), ("https://AS.org:8443/tenant", True), ("https://api.org/oauth", True),
        ("https://evil.org", False), ("https://as.org.evil.org", False), ("https://as.org@evil.org", False),
        ("as.org", False), ("", False), ("https://[", False),
    ],
)  # fmt: skip
def test_the_issuer_of_a_response_to_a_configured_client(issuer: Any, accepted: bool) -> None:
    """Its issuer is not known: it has to be at the host of one of the configured URLs."""
    client = OAuthClient("c", "https://api.org/token", authorize_url="https://as.org/authorize")
    assert client.is_answered_by(issuer) is accepted


@pytest.mark.parametrize(
    ("methods", "method"),
    [
        (["private_key_jwt", "client_secret_post", "client_secret_basic"], "client_secret_post"),
        (["tls_client_auth", "client_secret_basic", "client_secret_post"], "client_secret_basic"),
        (["client_secret_basic", "none"], "none"),
        (None, "client_secret_basic"),
    ],
)
def test_the_authentication_of_a_registered_client(methods: Any, method: str) -> None:
    """One that wfcore supports; it holds also if the response does not repeat it."""
    server = server_metadata(sent(**SERVER, token_endpoint_auth_methods_supported=methods), "https://as.org")
    assert registration_request(server, "https://w.org/cb", ())["token_endpoint_auth_method"] == method
    made = registered_client(201, sent(client_id="n", client_secret="s"), server, "https://w.org/cb", (), URL)
    assert (made.token_auth, made.secret) == ("post" if "post" in method else "basic", "s")


def test_a_server_that_accepts_no_client_of_this_kind() -> None:
    """The error names what wfcore supports."""
    change = {"token_endpoint_auth_methods_supported": ["private_key_jwt", "tls_client_auth"]}
    with pytest.raises(OAuthRefused, match="none, client_secret_basic, client_secret_post"):
        registration_request(server_metadata(sent(**SERVER, **change), "https://as.org"), "https://w.org/cb", ())


def test_registration() -> None:
    """The request names our address and what the server supports; the response is a client of that server."""
    server = server_metadata(sent(**SERVER, token_endpoint_auth_methods_supported=["none"]), "https://as.org")
    assert registration_request(server, "https://w.org/cb", ["a"]) == {
        "client_name": "wfcore", "redirect_uris": ["https://w.org/cb"], "response_types": ["code"],
        "grant_types": ["authorization_code", "refresh_token"], "token_endpoint_auth_method": "none", "scope": "a",
    }  # fmt: skip
    only = attrs.evolve(server, grants=("authorization_code",), auth_methods=("client_secret_post",))
    request = registration_request(only, "https://w.org/cb", ())
    assert (request["grant_types"], request["token_endpoint_auth_method"]) == (
        ["authorization_code"], "client_secret_post",
    )  # fmt: skip
    assert "scope" not in request
    assert client_at(only, "c", "s", (), "").token_auth == "post"
    made = sent(client_id="n", client_secret="s", token_endpoint_auth_method="client_secret_post")
    client = registered_client(201, made, server, "https://w.org/cb", ("a",), URL)
    assert client == OAuthClient(
        "n", "https://as.org/t", "s", "https://as.org/a", "", "post", ("a",), URL, "https://as.org", "https://w.org/cb"
    )
    public = sent(client_id="n", client_secret="s", token_endpoint_auth_method="none")
    assert registered_client(201, public, server, "r", (), "").secret == ""
    for status, body in ((400, sent(error="invalid_redirect_uri")), (201, sent()), (201, sent(client_id=""))):
        with pytest.raises(OAuthRefused):
            registered_client(status, body, server, "r", (), "")
