"""Attachments in a dict."""

import re
import time
from collections.abc import Sequence
from typing import Final

_NAME: Final = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,127}", re.ASCII)


class InMemoryBlobs:
    """Implements the port `Blobs`; the content is lost with the process."""

    def __init__(self) -> None:
        self._contents: dict[tuple[str, str], bytes] = {}
        self._stored_at: dict[tuple[str, str], float] = {}
        """Milliseconds since the Unix epoch."""

    async def put(self, org: str, key: str, data: bytes) -> None:
        if not (_NAME.fullmatch(org) and _NAME.fullmatch(key)):
            raise ValueError("the organization or the key is not a plain file name")
        self._contents[org, key] = bytes(data)
        self._stored_at[org, key] = time.time() * 1000

    async def get(self, org: str, key: str) -> bytes | None:
        return self._contents.get((org, key))

    async def size(self, org: str, key: str) -> int | None:
        found = self._contents.get((org, key))
        return None if found is None else len(found)

    async def renew(self, org: str, key: str) -> int | None:
        if (org, key) in self._contents:
            self._stored_at[org, key] = time.time() * 1000
        return await self.size(org, key)

    async def stored_before(self, org: str, at: int) -> Sequence[str]:
        return sorted(key for (owner, key), stored in self._stored_at.items() if owner == org and stored < at)

    async def delete(self, org: str, key: str) -> bool:
        self._stored_at.pop((org, key), None)
        return self._contents.pop((org, key), None) is not None
