"""Asking an issuer for its keys: discovery (RFC 8414, OpenID Connect Discovery), then the JWK Set.

The issuer is the operator's choice, so its address is not guarded; size and time of what it says are bounded.
"""

import asyncio
from typing import Final
from urllib.parse import urlsplit

import attrs
import httpx2

from wfcore.adapters.oauth.keys import VerificationKey, read_keys
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import WfcoreError
from wfcore.domain.kernel.json_type import JSON

SECONDS: Final = 10.0
"""For all of it, discovery included."""
MOST_BYTES: Final = 2**20

_HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "identity"}


class Silent(Exception):
    """The issuer gave no keys; the message says why, for the operator."""


@attrs.frozen
class Issuer:
    """Where keys come from: the `jwks_url`, or what the issuer's own metadata names."""

    url: str
    jwks_url: str | None = None

    async def keys(self) -> tuple[VerificationKey, ...]:
        """The keys as they are now. Raises Silent."""
        try:
            async with asyncio.timeout(SECONDS), httpx2.AsyncClient(follow_redirects=False) as client:
                place = self.jwks_url or await self._discovered(client)
                found = read_keys(await _fetched(client, place))
        except TimeoutError:
            raise Silent(f"no whole answer within {SECONDS:g} seconds") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Silent(f"no answer: {type(error).__name__}") from None
        except (ValueError, WfcoreError) as error:
            raise Silent(str(error)) from None
        if not found:
            raise Silent("it has no key that could verify a token")
        return found

    async def _discovered(self, client: httpx2.AsyncClient) -> str:
        for place in metadata_places(self.url):
            try:
                metadata = await _fetched(client, place)
            except (Silent, WfcoreError):
                continue
            return _jwks_uri(metadata, self.url)
        raise Silent("its metadata cannot be read")


def metadata_places(issuer: str) -> list[str]:
    """Where the metadata stands: RFC 8414, 3.1, and OpenID Connect Discovery 1.0, 4."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    return [
        f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server{path}",
        f"{parts.scheme}://{parts.netloc}{path}/.well-known/openid-configuration",
    ]


def _jwks_uri(metadata: JSON, issuer: str) -> str:
    """Metadata that names another issuer may be another's (RFC 8414, 3.3), and TLS is not given up half way."""
    if not isinstance(metadata, dict) or metadata.get("issuer") != issuer:
        raise Silent("its metadata names another issuer")
    place = metadata.get("jwks_uri")
    schemes = ("https",) if issuer.startswith("https:") else ("https", "http")
    if not isinstance(place, str) or urlsplit(place).scheme not in schemes:
        raise Silent("its metadata has no `jwks_uri` that can be used")
    return place


async def _fetched(client: httpx2.AsyncClient, place: str) -> JSON:
    """The JSON at this address. Raises Silent, Malformed or an error of the transport."""
    body = bytearray()
    async with client.stream("GET", place, headers=_HEADERS) as response:
        if response.status_code != httpx2.codes.OK:
            raise Silent(f"it answers {response.status_code}")
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > MOST_BYTES:
                raise Silent(f"its answer has more than {MOST_BYTES} bytes")
    return parse_json(bytes(body))
