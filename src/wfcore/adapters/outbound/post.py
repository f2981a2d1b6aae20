"""Messages that wfcore posts: one request each, behind the guard.

A redirect is an answer like any other: to follow one would make a GET of the message, or take it where its signature
does not go (Standard Webhooks 1.0.0).
"""

from collections.abc import Mapping
from typing import Final

from wfcore.adapters.outbound.guard import AddressGuard, AddressRefused
from wfcore.extras import MissingExtra, needs_extra
from wfcore.ports.outbound import Undelivered

SECONDS: Final = 20.0
"""Until the head of the answer has come."""


class GuardedOutbound:
    """Implements the port `Outbound`."""

    def __init__(self, guard: AddressGuard, *, seconds: float = SECONDS) -> None:
        self._guard = guard
        self._seconds = seconds

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        try:
            with needs_extra("http", "the posting of a message"):
                from wfcore.adapters.outbound.client import Broken, Client
        except MissingExtra as error:
            raise Undelivered(str(error)) from None
        try:
            return await Client(self._guard, seconds=self._seconds).status("POST", url, headers, body)
        except (Broken, AddressRefused) as error:
            raise Undelivered(str(error)) from None
