"""The client side of OAuth 2.1: authorization requests with PKCE, token requests and their responses.

Sources: RFC 6749, RFC 7636 (PKCE), RFC 7009 (revocation), RFC 8414 (metadata of an authorization server), RFC 8707
(resource indicators), RFC 9728 (metadata of a protected resource), RFC 7591 (dynamic client registration).
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import attrs

from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import Malformed
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.kernel.urls import is_url

NO_METHOD: Final = "none"
POST: Final = "client_secret_post"
METHODS: Final = (NO_METHOD, "client_secret_basic", POST)
"""The ways to authenticate at a token endpoint that wfcore supports (RFC 7591, 2)."""
EARLY: Final = 60.0
"""Seconds before its end, or a tenth of its life if that is less, from which a token is replaced."""
LONGEST_TOKEN: Final = 16_384
LONGEST_LIFE: Final = 10 * 365 * 86_400.0

_CODE = re.compile(r"[a-z0-9_]{1,64}", re.ASCII)
_TOKEN = re.compile(r"[!-~]+", re.ASCII)
_METADATA = re.compile(r'resource_metadata\s*=\s*"([^"]{1,2048})"', re.IGNORECASE)


class OAuthRefused(Exception):
    """The authorization server did not grant it. `code` is its error code, "" when the response is not valid OAuth."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


@attrs.frozen
class OAuthClient:
    """A client at an authorization server. `resource` is the URL of the service that the tokens are for (RFC 8707)."""

    id: str
    token_url: str
    secret: str = attrs.field(default="", repr=False)
    authorize_url: str = ""
    revocation_url: str = ""
    token_auth: str = "basic"  # noqa: S105  (the name of a method)
    scopes: Sequence[str] = ()
    resource: str = ""
    issuer: str = ""
    redirect_uri: str = ""
    """The address that the client was registered with; "" for one that was registered by hand."""
    sends_issuer: bool = False
    """Whether the authorization server names its issuer in each authorization response (RFC 9207)."""
    is_lost: bool = False
    """Whether the authorization server no longer accepts a client that it had registered."""

    def is_answered_by(self, issuer: str | None) -> bool:
        """Whether an authorization response with this `iss` can be one of its authorization server (RFC 9207, 2.4).

        Of a server whose issuer is not known, as its URLs are configured, the issuer has to be at the host of one of
        them.
        """
        if issuer is None:
            return not self.sends_issuer
        if self.issuer:
            return issuer == self.issuer
        hosts = {urlsplit(url).hostname for url in (self.authorize_url, self.token_url) if url}
        return is_url(issuer) and urlsplit(issuer).hostname in hosts


@attrs.frozen
class GrantedTokens:
    """The tokens of a response. `lifetime` is in seconds, None when the server does not state it."""

    access: str = attrs.field(repr=False)
    refresh: str = attrs.field(default="", repr=False)
    lifetime: float | None = None

    def expires_at(self, now: int) -> int | None:
        """When the access token has to be replaced, in epoch milliseconds, if it was received `now`."""
        if self.lifetime is None:
            return None
        return now + int(1000 * (self.lifetime - min(EARLY, self.lifetime / 10)))


# Authorization


def challenge_of(verifier: str) -> str:
    """The `code_challenge` of a verifier by the method S256 (RFC 7636, 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).decode().rstrip("=")


def authorization_url(client: OAuthClient, redirect_uri: str, state: str, verifier: str) -> str:
    """The URL that the user opens (RFC 6749, 4.1.1). A query of the configured URL is kept."""
    added = {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": "S256",
        **({"scope": " ".join(client.scopes)} if client.scopes else {}),
        **({"resource": client.resource} if client.resource else {}),
    }
    parts = urlsplit(client.authorize_url)
    kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in added]
    return urlunsplit(parts._replace(query=urlencode([*kept, *added.items()], quote_via=quote)))


# Requests to the token endpoint


def code_request(client: OAuthClient, code: str, redirect_uri: str, verifier: str) -> tuple[dict[str, str], bytes]:
    """Headers and body that exchange a code for tokens (RFC 6749, 4.1.3)."""
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri, "code_verifier": verifier}
    return _request(client, form)


def refresh_request(client: OAuthClient, refresh_token: str) -> tuple[dict[str, str], bytes]:
    """Headers and body that replace tokens (RFC 6749, 6)."""
    return _request(client, {"grant_type": "refresh_token", "refresh_token": refresh_token})


def client_request(client: OAuthClient) -> tuple[dict[str, str], bytes]:
    """Headers and body of the grant of client credentials (RFC 6749, 4.4)."""
    scope = {"scope": " ".join(client.scopes)} if client.scopes else {}
    return _request(client, {"grant_type": "client_credentials", **scope})


def revocation_request(client: OAuthClient, token: str, hint: str) -> tuple[dict[str, str], bytes]:
    """Headers and body that revoke a token; `hint` is its type (RFC 7009, 2.1)."""
    return _request(attrs.evolve(client, resource=""), {"token": token, "token_type_hint": hint})


def _request(client: OAuthClient, form: Mapping[str, str]) -> tuple[dict[str, str], bytes]:
    """The form with the authentication of the client: `basic` (RFC 6749, 2.3.1), or in the body."""
    headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
    fields = {**form, **({"resource": client.resource} if client.resource else {})}
    if client.secret and client.token_auth == "basic":  # noqa: S105
        pair = ":".join(quote(part, safe="") for part in (client.id, client.secret))
        headers["authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        if client.issuer:  # authorization servers of MCP servers look for the id in the body too
            fields["client_id"] = client.id
    else:
        fields["client_id"] = client.id
        if client.secret:
            fields["client_secret"] = client.secret
    return headers, urlencode(fields).encode()


# Responses


def tokens_of(status: int, body: bytes) -> GrantedTokens:
    """The tokens of a response (RFC 6749, 5.1). Raises OAuthRefused, with a message that shows no value of it."""
    found = _object(body)
    if status >= 300 or found.get("error") is not None or "access_token" not in found:
        raise _refused(status, found)
    access, kind = found["access_token"], found.get("token_type") or "bearer"
    if not isinstance(access, str) or not _is_token(access):
        raise OAuthRefused("the access token of the authorization server is not valid")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise OAuthRefused("the access token of the authorization server is not a bearer token")
    refresh = found.get("refresh_token")
    return GrantedTokens(access, refresh if isinstance(refresh, str) and _is_token(refresh) else "", _lifetime(found))


def _refused(status: int, found: Mapping[str, JSON]) -> OAuthRefused:
    code = found.get("error")
    if isinstance(code, str) and _CODE.fullmatch(code):
        return OAuthRefused(f"the authorization server responded `{code}`", code)
    return OAuthRefused(f"the authorization server responded with status {status} and without a token")


def _lifetime(found: Mapping[str, JSON]) -> float | None:
    given = found.get("expires_in")
    try:
        seconds = float(given) if isinstance(given, int | float | str) and not isinstance(given, bool) else None
    except (ValueError, OverflowError):
        return None
    return None if seconds is None or seconds != seconds else min(max(seconds, 0.0), LONGEST_LIFE)


def _is_token(text: str) -> bool:
    return len(text) <= LONGEST_TOKEN and _TOKEN.fullmatch(text) is not None


def _object(body: bytes) -> Mapping[str, JSON]:
    return _object_or_none(body) or {}


def _object_or_none(body: bytes) -> Mapping[str, JSON] | None:
    try:
        found = parse_json(body)
    except Malformed:
        return None
    return found if isinstance(found, dict) else None


# Metadata


def metadata_in(challenge: str) -> str | None:
    """The URL of the metadata of the protected resource in a `WWW-Authenticate` header (RFC 9728, 5.1)."""
    found = _METADATA.search(challenge)
    return found[1] if found and is_url(found[1]) else None


def is_metadata(status: int, body: bytes) -> bool:
    """Whether a response has metadata. Servers of pages answer every path with 200 and a page."""
    return status == HTTPStatus.OK and _object_or_none(body) is not None


def resource_metadata_urls(url: str) -> Iterator[str]:
    """Where the metadata of the resource at `url` can be: below its path, then at the root (RFC 9728, 3.1)."""
    yield from dict.fromkeys(_well_known(url, "oauth-protected-resource"))


def server_metadata_urls(issuer: str) -> Iterator[str]:
    """Where the metadata of this issuer can be (RFC 8414, 3.1; OpenID Connect Discovery, 4)."""
    path = urlsplit(issuer).path.rstrip("/")
    yield next(_well_known(issuer, "oauth-authorization-server"))
    yield next(_well_known(issuer, "openid-configuration"))
    if path:
        yield issuer.rstrip("/") + "/.well-known/openid-configuration"


def _well_known(url: str, name: str) -> Iterator[str]:
    parts = urlsplit(url)
    for path in (parts.path.rstrip("/"), ""):
        yield urlunsplit((parts.scheme, parts.netloc, f"/.well-known/{name}{path}", "", ""))


@attrs.frozen
class ResourceMetadata:
    """What a protected resource says of itself: its own URL, the issuer of its tokens, and their scopes."""

    resource: str
    issuer: str
    scopes: Sequence[str] = ()


def resource_metadata(body: bytes, url: str) -> ResourceMetadata:
    """The metadata of the resource at `url`. Raises OAuthRefused for one of another resource or without an issuer."""
    found = _object(body)
    resource, issuers = found.get("resource"), _texts(found.get("authorization_servers"))
    if not isinstance(resource, str) or not _contains(resource, url):
        raise OAuthRefused("the metadata of the MCP server is not that of its own address")
    if not issuers or not is_url(issuers[0]):
        raise OAuthRefused("the metadata of the MCP server names no authorization server")
    return ResourceMetadata(resource, issuers[0], _texts(found.get("scopes_supported")))


def _contains(resource: str, url: str) -> bool:
    """Whether the resource is at `url` or above it (RFC 8707, 2)."""
    if not is_url(resource):
        return False
    above, below = urlsplit(resource), urlsplit(url)
    same = (above.scheme, above.hostname, above.port) == (below.scheme, below.hostname, below.port)
    return same and f"{below.path.rstrip('/')}/".startswith(f"{above.path.rstrip('/')}/")


@attrs.frozen
class ServerMetadata:
    """The endpoints of an authorization server. `registration_url` is "" for a server without that.

    `sends_issuer`: its authorization responses name the issuer (RFC 9207).
    """

    issuer: str
    authorize_url: str
    token_url: str
    revocation_url: str = ""
    registration_url: str = ""
    auth_methods: Sequence[str] = ("client_secret_basic",)
    grants: Sequence[str] = ("authorization_code",)
    sends_issuer: bool = False


def server_metadata(body: bytes, issuer: str) -> ServerMetadata:
    """The metadata of this issuer. Raises OAuthRefused for another issuer's (RFC 8414, 3.3), and without PKCE.

    A resource can name the issuer with or without a final slash. The issuer is then as its own metadata spells it,
    which is how it names itself in responses.
    """
    found = _object(body)
    named = found.get("issuer")
    if not isinstance(named, str) or named.rstrip("/") != issuer.rstrip("/"):
        raise OAuthRefused("the metadata of the authorization server names another issuer")
    urls = {name: found.get(f"{name}_endpoint") for name in ("authorization", "token", "revocation", "registration")}
    known = {name: url for name, url in urls.items() if isinstance(url, str) and is_url(url)}
    if not {"authorization", "token"} <= known.keys():
        raise OAuthRefused("the metadata of the authorization server has no endpoints")
    if "S256" not in _texts(found.get("code_challenge_methods_supported")):
        raise OAuthRefused("the authorization server does not support PKCE with S256")
    methods = _texts(found.get("token_endpoint_auth_methods_supported")) or ("client_secret_basic",)
    return ServerMetadata(
        named,
        known["authorization"],
        known["token"],
        known.get("revocation", ""),
        known.get("registration", ""),
        methods,
        _texts(found.get("grant_types_supported")) or ("authorization_code", "refresh_token"),
        found.get("authorization_response_iss_parameter_supported") is True,
    )


# Registration


def registration_request(server: ServerMetadata, redirect_uri: str, scopes: Sequence[str]) -> dict[str, JSON]:
    """The body that registers wfcore at an authorization server (RFC 7591, 2).

    Raises OAuthRefused for a server that accepts none of wfcore's ways to authenticate.
    """
    return {
        "client_name": "wfcore",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", *(["refresh_token"] if "refresh_token" in server.grants else [])],
        "response_types": ["code"],
        "token_endpoint_auth_method": _method_at(server),
        **({"scope": " ".join(scopes)} if scopes else {}),
    }


def _method_at(server: ServerMetadata) -> str:
    """How a registered client authenticates: not at all if the server allows that, else in its first way."""
    known = [one for one in server.auth_methods if one in METHODS]
    if not known:
        raise OAuthRefused(f"the authorization server accepts clients by none of {', '.join(METHODS)}")
    return NO_METHOD if NO_METHOD in known else known[0]


def registered_client(
    status: int, body: bytes, server: ServerMetadata, redirect_uri: str, scopes: Sequence[str], resource: str
) -> OAuthClient:
    """The client of a registration response (RFC 7591, 3.2.1). Raises OAuthRefused."""
    found = _object(body)
    number, secret = found.get("client_id"), found.get("client_secret")
    if status >= 400 or not isinstance(number, str) or not 0 < len(number) <= LONGEST_TOKEN:
        raise _refused(status, found)
    method = found.get("token_endpoint_auth_method")
    kept = secret if isinstance(secret, str) and method != NO_METHOD else ""
    posts = (method or _method_at(server)) == POST  # some servers do not repeat the method of the request
    client = client_at(server, number, kept, scopes, resource)
    return attrs.evolve(client, token_auth="post" if posts else "basic", redirect_uri=redirect_uri)


def client_at(server: ServerMetadata, id: str, secret: str, scopes: Sequence[str], resource: str) -> OAuthClient:
    """A client with this id and secret at an authorization server."""
    posts = "client_secret_basic" not in server.auth_methods and "client_secret_post" in server.auth_methods
    return OAuthClient(
        id, server.token_url, secret, server.authorize_url, server.revocation_url,
        "post" if posts else "basic", scopes, resource, server.issuer, sends_issuer=server.sends_issuer,
    )  # fmt: skip


def _texts(found: JSON) -> Sequence[str]:
    """The strings of an array that a server sent, at most 100; none for anything else."""
    return [one for one in found[:100] if isinstance(one, str)] if isinstance(found, list) else []
