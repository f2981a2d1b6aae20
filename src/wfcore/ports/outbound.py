"""Requests of wfcore itself to addresses that customers configure."""

from collections.abc import Mapping
from typing import Protocol


class Undelivered(Exception):
    """No response was received, so the delivery failed or is unknown. The message contains no secret."""


class Outbound(Protocol):
    """Implementers: connect only to public addresses and to those that the operator allows."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """Send the body. Returns the status of the response; redirects are not followed and no body is read.

        Header names are in lower case. `Undelivered` when there is no response in time.
        """
        ...
