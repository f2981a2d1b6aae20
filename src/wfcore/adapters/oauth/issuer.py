"""Requests for an issuer's keys: discovery (RFC 8414, OpenID Connect Discovery), then the JWK Set.

The operator configures the issuer, so the address guard does not apply; size and time of responses are bounded.
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
"""For all requests together, discovery included."""
MAX_BYTES: Final = 2**20

_HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "identity"}


class KeysUnavailable(Exception):
    """The keys cannot be fetched; the message gives the reason to the operator."""


@attrs.frozen
class Issuer:
    """The source of the keys: `jwks_url`, or by default the address in the issuer's metadata."""

    url: str
    jwks_url: str | None = None

    async def keys(self) -> tuple[VerificationKey, ...]:
        """The current keys. Raises KeysUnavailable."""
        try:
            async with asyncio.timeout(SECONDS), httpx2.AsyncClient(follow_redirects=False) as client:
                url = self.jwks_url or await self._discovered(client)
                found = read_keys(await _fetched(client, url))
        except TimeoutError:
            raise KeysUnavailable(f"no complete response within {SECONDS:g} seconds") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise KeysUnavailable(f"no response: {type(error).__name__}") from None
        except (ValueError, WfcoreError) as error:
            raise KeysUnavailable(str(error)) from None
        if not found:
            raise KeysUnavailable("the JWK Set has no key that can verify a token")
        return found

    async def _discovered(self, client: httpx2.AsyncClient) -> str:
        for url in metadata_urls(self.url):
            try:
                metadata = await _fetched(client, url)
            except (KeysUnavailable, WfcoreError):
                continue
            return _jwks_uri(metadata, self.url)
        raise KeysUnavailable("the metadata cannot be read")


def metadata_urls(issuer: str) -> list[str]:
    """The addresses of the metadata: RFC 8414, 3.1, and OpenID Connect Discovery 1.0, 4."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    return [
        f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server{path}",
        f"{parts.scheme}://{parts.netloc}{path}/.well-known/openid-configuration",
    ]


def _jwks_uri(metadata: JSON, issuer: str) -> str:
    """The `jwks_uri` of metadata that names this issuer (RFC 8414, 3.3); an https issuer needs an https address."""
    if not isinstance(metadata, dict) or metadata.get("issuer") != issuer:
        raise KeysUnavailable("the metadata names another issuer")
    url = metadata.get("jwks_uri")
    schemes = ("https",) if issuer.startswith("https:") else ("https", "http")
    if not isinstance(url, str) or urlsplit(url).scheme not in schemes:
        raise KeysUnavailable(f"the metadata has no valid `jwks_uri`: use {' or '.join(schemes)}")
    return url


async def _fetched(client: httpx2.AsyncClient, url: str) -> JSON:
    """The JSON at this address. Raises KeysUnavailable, Malformed or an error of the transport."""
    body = bytearray()
    async with client.stream("GET", url, headers=_HEADERS) as response:
        if response.status_code != httpx2.codes.OK:
            raise KeysUnavailable(f"the issuer responded with status {response.status_code}")
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > MAX_BYTES:
                raise KeysUnavailable(f"the response is longer than {MAX_BYTES} bytes")
    return parse_json(bytes(body))
