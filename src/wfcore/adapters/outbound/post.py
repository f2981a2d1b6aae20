"""Posting of messages: one request each, through the guard.

Redirects are not followed: that would turn the message into a GET, or send it to an address for which it is not signed
(Standard Webhooks 1.0.0).
"""

from collections.abc import Mapping
from typing import Final

from wfcore.adapters.outbound.guard import AddressGuard, AddressRefused
from wfcore.extras import MissingExtra, needs_extra
from wfcore.ports.outbound import Undelivered

SECONDS: Final = 20.0
"""Seconds until the head of the response has arrived."""


class GuardedOutbound:
    """Implements the port `Outbound` through an address guard."""

    def __init__(self, guard: AddressGuard, *, seconds: float = SECONDS) -> None:
        self._guard = guard
        self._seconds = seconds

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        try:
            with needs_extra("http", "the posting of a message"):
                from wfcore.adapters.outbound.client import Client, RequestFailed
        except MissingExtra as error:
            raise Undelivered(str(error)) from None
        try:
            return await Client(self._guard, seconds=self._seconds).status("POST", url, headers, body)
        except (RequestFailed, AddressRefused) as error:
            raise Undelivered(str(error)) from None
