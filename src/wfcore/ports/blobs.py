"""The store of content that is too large for a row: the attachments of runs."""

from collections.abc import Sequence
from typing import Protocol


class Blobs(Protocol):
    """Content of organizations, each by a key.

    Every call names the organization and cannot reach the content of another. A key is 1 to 128 characters of
    `[a-z0-9._-]` and does not begin with a dot; nothing is stored under an invalid key. Callers derive keys from the
    content, so the content of a key never changes. Implementers: content is durable when `put` returns, and is never
    partial; `Unavailable` when the store does not respond.
    """

    async def put(self, org: str, key: str, data: bytes) -> None:
        """Store the content; a second call changes nothing. ValueError for an invalid key."""
        ...

    async def get(self, org: str, key: str) -> bytes | None:
        """The content; None when there is none."""
        ...

    async def size(self, org: str, key: str) -> int | None:
        """The size of the content in bytes; None when there is none."""
        ...

    async def renew(self, org: str, key: str) -> int | None:
        """As `size`; the content counts as stored now."""
        ...

    async def stored_before(self, org: str, at: int) -> Sequence[str]:
        """The keys of content that was last stored before this time, in epoch milliseconds."""
        ...

    async def delete(self, org: str, key: str) -> bool:
        """Delete the content; False when there was none."""
        ...
