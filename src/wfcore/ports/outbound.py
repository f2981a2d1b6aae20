"""How wfcore itself sends messages to addresses that customers name."""

from collections.abc import Mapping
from typing import Protocol


class Undelivered(Exception):
    """Nobody took the message, or it is not known whether anybody did: in words that name no secret."""


class Outbound(Protocol):
    """Implementers: connections go to public addresses, and to those that the operator lets through, only."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """The status of the answer, a redirect's too: none is followed, and no body is read.

        Header names are in lower case. `Undelivered` when there is no answer in time.
        """
        ...
