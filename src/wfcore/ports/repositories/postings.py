"""Pending deliveries to team chats: each received message gets a response whenever its run comes to rest.

A row is written before its run, so that a crash cannot lose the response. All times are epoch milliseconds.
"""

from collections.abc import Mapping
from typing import Protocol

import attrs

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.state import RunStatus


@attrs.frozen
class Posting:
    """The deliveries for one message. `id` is the run that the message started, `run_id` the turn to report now.

    - `fingerprint`: the digest of the message. `place`: what each response returns to the chat unchanged.
    - `reported`: the latest status of the turn that was delivered; None before the first delivery.
    - `tries`: attempts of the next delivery, the current one included; negative while a process makes it.
    - `next_at`: when the next attempt is due; None when no delivery is pending.
    """

    id: str
    interface_id: str
    fingerprint: str
    place: Mapping[str, JSON]
    run_id: str
    next_at: int | None
    reported: RunStatus | None = None
    tries: int = 0

    @property
    def is_claimed(self) -> bool:
        """Whether a process has begun an attempt and has not recorded its outcome."""
        return self.tries < 0


@attrs.frozen
class DuePosting:
    """A posting that is due, and its organization."""

    org: str
    id: str


class PostingRepository(Protocol):
    """The pending deliveries of one organization. The interface or the run of a row need not exist."""

    async def get(self, id: str) -> Posting | None: ...

    async def put(self, posting: Posting) -> None:
        """Add the posting, or replace the one with the same id."""
        ...

    async def remove(self, id: str) -> None: ...
