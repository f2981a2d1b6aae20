"""How a client finds the authorization server of this resource (RFC 9728)."""

from typing import NotRequired, TypedDict

from starlette.responses import Response

from wfcore.adapters.http.answers import json_answer
from wfcore.adapters.http.table import Call, Route
from wfcore.domain.access import TOKEN_SCOPES
from wfcore.ports.identity import TokenVerifier

METADATA_PATH = "/.well-known/oauth-protected-resource"


class ProtectedResource(TypedDict):
    """The metadata of RFC 9728, 2; without `authorization_servers` where personal access tokens alone are taken."""

    resource: str
    authorization_servers: NotRequired[list[str]]
    scopes_supported: list[str]
    bearer_methods_supported: list[str]


class OAuthRoutes:
    """The one route of this kind. It takes no credential: who has none asks here where to get one."""

    def __init__(self, oauth: TokenVerifier | None) -> None:
        self._oauth = oauth

    def table(self) -> list[Route]:
        summary = "Which authorization server issues tokens for this one"
        return [Route("protectedResource", "GET", METADATA_PATH, self._describe, summary, None, ProtectedResource)]

    async def _describe(self, call: Call) -> Response:
        place, oauth = call.origin + call.url(""), self._oauth
        resource = oauth.audience if oauth and oauth.audience.startswith(("https://", "http://")) else place
        answer = ProtectedResource(
            resource=resource, scopes_supported=list(TOKEN_SCOPES), bearer_methods_supported=["header"]
        )
        if oauth is not None:
            answer["authorization_servers"] = [oauth.issuer]
        return json_answer(dict(answer))
