"""Where content is kept that is too large for a row: the attachments of runs."""

from typing import Protocol


class Blobs(Protocol):
    """Content of organizations, each by a key.

    Every call names the organization, and nothing it does reaches another's. A key is 1 to 128 of `[a-z0-9._-]` and
    does not begin with a dot; under what is no key there is nothing. Callers make keys of the content: what is kept
    under one never changes. Implementers: content is durable when `put` returns, and is never there in parts;
    `Unavailable` when the store does not answer.
    """

    async def put(self, org: str, key: str, data: bytes) -> None:
        """Keep the content; a second time changes nothing. ValueError for what is no key."""
        ...

    async def get(self, org: str, key: str) -> bytes | None:
        """The content; None when there is none."""
        ...

    async def size(self, org: str, key: str) -> int | None:
        """How many bytes are kept; None when there are none."""
        ...

    async def delete(self, org: str, key: str) -> bool:
        """Forget the content; False when there was none."""
        ...
