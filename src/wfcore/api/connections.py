"""The shapes of connections on the wire; `kind` selects one of three shapes of `config`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, TypedDict

from msgspec import Meta

from wfcore.api.resources import Body, Name
from wfcore.domain.agents.connections import ConnectionKind, ConnectionStatus, Ownership
from wfcore.domain.json.codec import JsonObject, Time
from wfcore.domain.json.values import UNSET, Holds, UnsetType, creation, value
from wfcore.domain.kernel.json_type import JSON

Secret = Annotated[str, Meta(min_length=1, max_length=8_192, description="Write-only")]
HeaderName = Annotated[str, Meta(max_length=100, pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")]
HeaderValue = Annotated[
    str,
    Meta(
        max_length=8_192,
        pattern=r"^[!-~]([ -~]*[!-~])?$",
        description="Visible ASCII, spaces inside; write-only",
    ),
]
Url = Annotated[str, Meta(max_length=2_048, description="http or https, without user, password and fragment")]
OAuthScope = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[!#-\[\]-~]+$")]
"""A `scope-token` (RFC 6749, 3.3): visible ASCII without `"` and `\\`."""
OAuthScopes = Annotated[list[OAuthScope], Meta(max_length=100)]
KindOfConnection = Annotated[str, Meta(extra_json_schema={"enum": list(ConnectionKind)})]
ConfigJson = Annotated[
    JsonObject,
    Meta(
        description="Of `api_key`: apiKey, header, hosts; of `oauth2`: clientId, clientSecret, tokenUrl, authorizeUrl,"
        " revocationUrl, scopes, grant, tokenAuth, hosts; of `mcp`: url, headers, clientId, clientSecret, scopes"
    ),
]
Hosts = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=260)]],
    Meta(max_length=100, description="The hosts that `core.http` sends the credentials to; without it none"),
]
ClientId = Annotated[str, Meta(min_length=1, max_length=1_000)]
Grant = Annotated[
    Literal["authorization_code", "client_credentials"],
    Meta(description="`authorization_code`: users authorize it; `client_credentials`: it acts for itself"),
]
TokenAuth = Annotated[
    Literal["basic", "post"],
    Meta(description="How the client authenticates at `tokenUrl`: in a header, or in the body"),
]
WhoseConnection = Annotated[
    Literal["organization", "user"],
    Meta(description="`user`: each user authorizes it; status and use are the caller's, and a run's its starter's"),
]


@creation
class ApiKeyConfig:
    """`header` is the name of the header with the key."""

    api_key: HeaderValue
    header: HeaderName | UnsetType = UNSET
    hosts: Hosts | UnsetType = UNSET


@value
class PatchApiKeyConfig:
    api_key: HeaderValue | UnsetType = UNSET
    header: HeaderName | UnsetType | None = UNSET
    hosts: Hosts | UnsetType | None = UNSET


@creation
class OAuth2Config:
    """`authorizeUrl` is required unless `grant` is `client_credentials`, which requires `clientSecret`."""

    client_id: ClientId
    client_secret: Secret | UnsetType = UNSET
    token_url: Url
    authorize_url: Url | UnsetType = UNSET
    revocation_url: Url | UnsetType = UNSET
    scopes: OAuthScopes | UnsetType = UNSET
    grant: Grant | UnsetType = UNSET
    token_auth: TokenAuth | UnsetType = UNSET
    hosts: Hosts | UnsetType = UNSET


@value
class PatchOAuth2Config:
    client_id: ClientId | UnsetType = UNSET
    client_secret: Secret | UnsetType | None = UNSET
    token_url: Url | UnsetType = UNSET
    authorize_url: Url | UnsetType | None = UNSET
    revocation_url: Url | UnsetType | None = UNSET
    scopes: OAuthScopes | UnsetType | None = UNSET
    grant: Grant | UnsetType | None = UNSET
    token_auth: TokenAuth | UnsetType | None = UNSET
    hosts: Hosts | UnsetType | None = UNSET


@creation
class McpConfig:
    """`clientId` and `clientSecret` are a registration by hand at the authorization server of the MCP server."""

    url: Url
    headers: dict[HeaderName, HeaderValue] | UnsetType = UNSET
    client_id: ClientId | UnsetType = UNSET
    client_secret: Secret | UnsetType = UNSET
    scopes: OAuthScopes | UnsetType = UNSET


@value
class PatchMcpConfig:
    url: Url | UnsetType = UNSET
    headers: dict[HeaderName, HeaderValue | None] | UnsetType | None = UNSET
    client_id: ClientId | UnsetType | None = UNSET
    client_secret: Secret | UnsetType | None = UNSET
    scopes: OAuthScopes | UnsetType | None = UNSET


CONFIGS: Final[Mapping[str, type]] = MappingProxyType(
    {"api_key": ApiKeyConfig, "oauth2": OAuth2Config, "mcp": McpConfig}
)
PATCH_CONFIGS: Final[Mapping[str, type]] = MappingProxyType(
    {"api_key": PatchApiKeyConfig, "oauth2": PatchOAuth2Config, "mcp": PatchMcpConfig}
)


def _config_shape(config: Mapping[str, JSON], body: Mapping[str, JSON]) -> type | None:
    return CONFIGS.get(str(body.get("kind")))


@creation
class CreateConnection(Body):
    name: Name
    provider: Name
    kind: KindOfConnection
    config: Annotated[ConfigJson, Holds(_config_shape)]
    status: Literal["active", "disabled"] | UnsetType = UNSET
    ownership: WhoseConnection | UnsetType = UNSET


@value
class PatchConnection(Body):
    """Present fields are changed, in `config` too; null in `config` removes a field or a header."""

    name: Name | UnsetType = UNSET
    provider: Name | UnsetType = UNSET
    config: ConfigJson | UnsetType = UNSET
    status: Literal["active", "disabled"] | UnsetType = UNSET
    ownership: WhoseConnection | UnsetType = UNSET


class PatchConnectionFields(TypedDict, total=False):
    """`PatchConnection` as keyword arguments."""

    organization_id: str
    name: str
    provider: str
    config: JsonObject
    status: Literal["active", "disabled"]
    ownership: Literal["organization", "user"]


class CreateConnectionFields(PatchConnectionFields, total=False):
    """`CreateConnection` as keyword arguments."""

    kind: KindOfConnection


class ConnectionDto(TypedDict):
    """In `config`, `{"set": true}` replaces every secret."""

    id: str
    name: str
    provider: str
    kind: KindOfConnection
    config: ConfigJson
    ownership: Annotated[str, Meta(extra_json_schema={"enum": list(Ownership)})]
    status: Annotated[str, Meta(extra_json_schema={"enum": list(ConnectionStatus)})]
    statusReason: str | None
    lastCheckedAt: Time | None


class AuthorizeConnectionDto(TypedDict):
    """`url` is the address that the user opens to authorize the connection, within ten minutes and once."""

    url: str
