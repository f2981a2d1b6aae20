"""The shapes of connections on the wire; `kind` selects one of three shapes of `config`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, Required, TypedDict

from msgspec import Meta

from wfcore.api.resources import Body, Name
from wfcore.domain.agents.connections import ConnectionKind, ConnectionStatus
from wfcore.domain.json.codec import JsonObject, Time

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
OAuthScopes = Annotated[list[Annotated[str, Meta(min_length=1, max_length=255)]], Meta(max_length=100)]
KindOfConnection = Annotated[str, Meta(extra_json_schema={"enum": list(ConnectionKind)})]
ConfigJson = Annotated[
    JsonObject,
    Meta(
        description="Of `api_key`: apiKey, header; of `oauth2`: clientId, clientSecret, tokenUrl, authorizeUrl, scopes;"
        " of `mcp`: url, headers"
    ),
]


class ApiKeyConfig(TypedDict, total=False):
    """`header` is the name of the header with the key."""

    apiKey: Required[HeaderValue]
    header: HeaderName


class PatchApiKeyConfig(TypedDict, total=False):
    apiKey: HeaderValue
    header: HeaderName | None


class OAuth2Config(TypedDict, total=False):
    clientId: Required[Annotated[str, Meta(min_length=1, max_length=1_000)]]
    clientSecret: Secret
    tokenUrl: Required[Url]
    authorizeUrl: Url
    scopes: OAuthScopes


class PatchOAuth2Config(TypedDict, total=False):
    clientId: Annotated[str, Meta(min_length=1, max_length=1_000)]
    clientSecret: Secret | None
    tokenUrl: Url
    authorizeUrl: Url | None
    scopes: OAuthScopes | None


class McpConfig(TypedDict, total=False):
    url: Required[Url]
    headers: dict[HeaderName, HeaderValue]


class PatchMcpConfig(TypedDict, total=False):
    url: Url
    headers: dict[HeaderName, HeaderValue | None] | None


CONFIGS: Final[Mapping[str, type]] = MappingProxyType(
    {"api_key": ApiKeyConfig, "oauth2": OAuth2Config, "mcp": McpConfig}
)
PATCH_CONFIGS: Final[Mapping[str, type]] = MappingProxyType(
    {"api_key": PatchApiKeyConfig, "oauth2": PatchOAuth2Config, "mcp": PatchMcpConfig}
)


class CreateConnection(Body, TypedDict, total=False):
    name: Required[Name]
    provider: Required[Name]
    kind: Required[KindOfConnection]
    config: Required[ConfigJson]
    status: Literal["active", "disabled"]


class PatchConnection(Body, TypedDict, total=False):
    """Present fields are changed, in `config` too; null in `config` removes a field or a header."""

    name: Name
    provider: Name
    config: ConfigJson
    status: Literal["active", "disabled"]


class ConnectionDto(TypedDict):
    """In `config`, `{"set": true}` replaces every secret."""

    id: str
    name: str
    provider: str
    kind: KindOfConnection
    config: ConfigJson
    status: Annotated[str, Meta(extra_json_schema={"enum": list(ConnectionStatus)})]
    lastCheckedAt: Time | None
