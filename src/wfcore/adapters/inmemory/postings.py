"""The pending deliveries of one organization's interfaces to team chats, in a dict."""

from copy import deepcopy

import attrs

from wfcore.ports.repositories.postings import Posting


@attrs.frozen
class MemoryPostings:
    """Implements the port `PostingRepository`."""

    rows: dict[str, Posting]

    async def get(self, id: str) -> Posting | None:
        return deepcopy(self.rows.get(id))

    async def put(self, posting: Posting) -> None:
        self.rows[posting.id] = deepcopy(posting)

    async def remove(self, id: str) -> None:
        self.rows.pop(id, None)
