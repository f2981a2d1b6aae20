"""Requests of wfcore itself: one request each, through the guard.

Redirects are not followed: that would turn the message into a GET, or send it to an address for which it is not signed
(Standard Webhooks 1.0.0).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from wfcore.adapters.outbound.guard import AddressGuard, AddressRefused
from wfcore.extras import MissingExtra, needs_extra
from wfcore.ports.outbound import OutboundResponse, Undelivered

if TYPE_CHECKING:
    from wfcore.adapters.outbound.client import Client

MOST_BYTES: Final = 2**20
"""Bytes of the body of a response."""
SECONDS: Final = 20.0
"""Seconds until the head of the response has arrived."""


class GuardedOutbound:
    """Implements the port `Outbound` through an address guard."""

    def __init__(self, guard: AddressGuard, *, seconds: float = SECONDS) -> None:
        self._guard = guard
        self._seconds = seconds

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        with self._client() as client:
            return await client.status("POST", url, headers, body)

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> OutboundResponse:
        with self._client() as client:
            found = await client.send(method, url, headers, body, follow=False)
            return OutboundResponse(found.status, found.headers, found.body)

    @contextmanager
    def _client(self) -> "Iterator[Client]":
        try:
            with needs_extra("http", "a request of wfcore"):
                from wfcore.adapters.outbound.client import Client, RequestFailed
        except MissingExtra as error:
            raise Undelivered(str(error)) from None
        try:
            yield Client(self._guard, seconds=self._seconds, most_bytes=MOST_BYTES)
        except (RequestFailed, AddressRefused) as error:
            raise Undelivered(str(error)) from None
