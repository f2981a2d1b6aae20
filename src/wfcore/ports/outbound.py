"""Requests of wfcore itself to addresses that customers configure."""

from collections.abc import Mapping
from typing import Protocol

import attrs


class Undelivered(Exception):
    """The address was refused or no response was received, so the delivery failed or is unknown.

    The message says which, in words that quote nothing of the server: customers see it.
    """


@attrs.frozen
class OutboundResponse:
    """A complete response of any status. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Outbound(Protocol):
    """Implementers: connect only to public addresses and to those that the operator allows."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """Send the body. Returns the status of the response; redirects are not followed and no body is read.

        Header names are in lower case. `Undelivered` when the address is refused, or there is no response in time.
        """
        ...

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> OutboundResponse:
        """Send the request. Returns the whole response, at most 1 MiB of body; redirects are not followed.

        Header names are in lower case. `Undelivered` when the address is refused, the response is too large, or there
        is no complete one in time.
        """
        ...
