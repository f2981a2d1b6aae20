"""The metadata by which a client finds the authorization server of this resource (RFC 9728)."""

from collections.abc import Iterable
from typing import NotRequired, TypedDict

from starlette.responses import Response

from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import Call, Route
from wfcore.adapters.http.mcp.routes import PATH
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import TOKEN_SCOPES
from wfcore.ports.identity import TokenVerifier

METADATA_PATH = "/.well-known/oauth-protected-resource"
MAX_ID_LENGTH = 255


class ProtectedResource(TypedDict):
    """The metadata of RFC 9728, 2; without `authorization_servers` where only personal access tokens are accepted."""

    resource: str
    authorization_servers: NotRequired[list[str]]
    scopes_supported: list[str]
    bearer_methods_supported: list[str]


class OAuthRoutes:
    """Metadata of this server, and of the protocol server of an interface, whether it exists or not.

    The routes need no credential: clients without one read here where to get one.
    """

    def __init__(self, oauth: TokenVerifier | None) -> None:
        self._oauth = oauth

    def table(self) -> list[Route]:
        summary = "Read which authorization server issues tokens for this server"
        of_one, kind = "Read which one issues tokens for a protocol server", ProtectedResource
        return [
            Route("protectedResource", "GET", METADATA_PATH, self._describe, summary, None, kind),
            Route("protectedResource.mcp", "GET", METADATA_PATH + PATH, self._describe_mcp, of_one, None, kind),
        ]

    async def _describe(self, call: Call) -> Response:
        return self._metadata(call.origin + call.url(""), TOKEN_SCOPES)

    async def _describe_mcp(self, call: Call) -> Response:
        (server, _, _), one = PATH.rpartition("/"), call.path["interfaceId"]
        if len(one) > MAX_ID_LENGTH:
            raise NotFound
        return self._metadata(call.origin + call.url(server, one), ("workflows:invoke",))

    def _metadata(self, url: str, scopes: Iterable[str]) -> Response:
        oauth = self._oauth
        resource = oauth.audience if oauth and oauth.audience.startswith(("https://", "http://")) else url
        metadata: dict[str, JSON] = {
            "resource": resource, "scopes_supported": list(scopes), "bearer_methods_supported": ["header"],
        }  # fmt: skip
        if oauth is not None:
            metadata["authorization_servers"] = [oauth.issuer]
        return json_response(metadata)
