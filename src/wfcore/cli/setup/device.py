"""A sign-in without a browser on this computer: the device authorization grant (RFC 8628)."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from wfcore.cli.common import print_message
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import Unauthenticated, Unavailable, WfcoreError
from wfcore.domain.kernel.json_readers import as_list, optional_number, optional_object, optional_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.extras import needs_extra

if TYPE_CHECKING:
    from httpx2 import AsyncClient

GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_METADATA: Final = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")


async def device_token(server: str, client_id: str, scope: str | None) -> str:
    """An access token of the server's issuer, after the user has signed in elsewhere with the shown code.

    Raises Unavailable when the server has no issuer with this grant, Unauthenticated when the user did not consent.
    """
    with needs_extra("http", "a sign-in"):
        from httpx2 import AsyncClient
    async with AsyncClient(timeout=30.0) as client:
        issuer = await _issuer(client, server)
        metadata = await _metadata(client, issuer)
        begins, ends = (
            optional_text(metadata.get(name)) for name in ("device_authorization_endpoint", "token_endpoint")
        )
        if begins is None or ends is None:
            raise Unavailable(f"`{issuer}` offers no sign-in with a code: use a personal access token")
        form = {"client_id": client_id, **({"scope": scope} if scope else {}), "resource": server}
        begun = await _post(client, begins, form)
        code, place = optional_text(begun.get("device_code")), optional_text(begun.get("verification_uri"))
        if code is None or place is None:
            raise Unavailable(f"`{issuer}` refused the sign-in: {_problem(begun)}")
        whole = optional_text(begun.get("verification_uri_complete"))
        print_message(
            f"open {place} and enter the code {begun.get('user_code')}" + (f", or open {whole}" if whole else "")
        )
        wait = optional_number(begun.get("interval")) or 5
        return await _poll(client, ends, {"grant_type": GRANT, "device_code": code, "client_id": client_id}, wait)


async def _poll(client: "AsyncClient", address: str, form: Mapping[str, str], wait: float) -> str:
    while True:
        await asyncio.sleep(wait)
        answer = await _post(client, address, form)
        token = optional_text(answer.get("access_token"))
        if token is not None:
            return token
        match answer.get("error"):
            case "authorization_pending":
                continue
            case "slow_down":
                wait += 5
            case _:
                raise Unauthenticated(f"the sign-in failed: {_problem(answer)}")


async def _issuer(client: "AsyncClient", server: str) -> str:
    """The first authorization server of the protected resource (RFC 9728)."""
    found = await _get(client, f"{server}/.well-known/oauth-protected-resource")
    servers = as_list((found or {}).get("authorization_servers") or [])
    if not servers or not isinstance(servers[0], str):
        raise Unavailable(f"`{server}` has no issuer of access tokens: use a personal access token")
    return servers[0].rstrip("/")


async def _metadata(client: "AsyncClient", issuer: str) -> Mapping[str, JSON]:
    for path in _METADATA:
        found = await _get(client, issuer + path)
        if found is not None:
            return found
    raise Unavailable(f"`{issuer}` has no metadata")


async def _get(client: "AsyncClient", address: str) -> Mapping[str, JSON] | None:
    return await _request(client, "GET", address)


async def _post(client: "AsyncClient", address: str, form: Mapping[str, str]) -> Mapping[str, JSON]:
    return await _request(client, "POST", address, form) or {}


async def _request(
    client: "AsyncClient", method: str, address: str, form: Mapping[str, str] | None = None
) -> Mapping[str, JSON] | None:
    """The object of the response; None for another one, and for one that is not found."""
    from httpx2 import HTTPError

    try:
        response = await client.request(method, address, data=form, headers={"accept": "application/json"})
    except HTTPError as error:
        raise Unavailable(f"`{address}` does not respond: {error or type(error).__name__}") from None
    try:
        return None if response.status_code == 404 else optional_object(parse_json(response.content))
    except (WfcoreError, TypeError):
        return None


def _problem(answer: Mapping[str, JSON]) -> str:
    return str(answer.get("error_description") or answer.get("error") or "it gave no reason")[:200]
