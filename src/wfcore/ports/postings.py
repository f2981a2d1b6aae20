"""What is owed to team chats: for each message that came, the answer to be posted whenever its run comes to a rest.

A row is there before its run, so that no crash comes between a run and its answer. All times are epoch milliseconds.
"""

from collections.abc import Mapping
from typing import Protocol

import attrs

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.state import RunStatus


@attrs.frozen
class Posting:
    """What is owed to one message. `id` is the run that the message started, `run_id` the turn to be told of now.

    `mark` is the fingerprint of the message, and `place` what goes back with each answer. `told` is the status of which
    there is nothing more to say; the turn may be resumed or cancelled. `tries` are those of the answer to come, the one
    under way included. `next_at` is None when nothing is owed any more.
    """

    id: str
    interface_id: str
    mark: str
    place: Mapping[str, JSON]
    run_id: str
    next_at: int | None
    told: RunStatus | None = None
    tries: int = 0


@attrs.frozen
class DuePosting:
    """Whose posting is due."""

    org: str
    id: str


class PostingRepository(Protocol):
    """What one organization's interfaces owe. An interface need not be there, nor a run."""

    async def get(self, id: str) -> Posting | None: ...

    async def put(self, posting: Posting) -> None:
        """Add it, or replace the one of the same id."""
        ...

    async def remove(self, id: str) -> None: ...
