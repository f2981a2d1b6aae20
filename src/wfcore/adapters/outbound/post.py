"""Messages that wfcore posts: one request each, behind the guard."""

from collections.abc import Mapping
from typing import Final

from wfcore.adapters.outbound.guard import Guard, Refused
from wfcore.ports.outbound import Undelivered

SECONDS: Final = 20.0
"""For all of a post, redirects included."""


class GuardedOutbound:
    """Implements the port `Outbound`."""

    def __init__(self, guard: Guard, *, seconds: float = SECONDS) -> None:
        self._guard = guard
        self._seconds = seconds

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        from wfcore.adapters.outbound.client import Broken, Client

        try:
            return (await Client(self._guard, seconds=self._seconds).send("POST", url, headers, body)).status
        except (Broken, Refused) as error:
            raise Undelivered(str(error)) from None
