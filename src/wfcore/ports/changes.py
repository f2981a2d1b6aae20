"""The feed of changes: hints that something of an organization has changed, for open pages (interface, Changes).

A hint says what to read again. It can be lost; its subscribers are then notified that they have missed changes.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, Protocol

from msgspec import Struct

What = Literal["created", "changed", "deleted", "deployed", "resolved"]

KINDS: Final = (
    "workflow", "skill", "run", "interrupt", "policy", "connection", "hook", "member", "group", "delegation",
)  # fmt: skip
"""What the feed is about."""


class FeedChange(Struct, frozen=True, array_like=True):
    """One change. `id` is the resource's own, a number for workflows and skills.

    A run or an interrupt has its target, and the `subjects` that can see it (`wfcore.ports.repositories.inbox`); a
    delegation has the `subjects` of its two members.
    """

    kind: str
    id: str | int
    what: What
    target_kind: str = ""
    target_id: int | None = None
    subjects: tuple[str, ...] = ()


class MissedChanges(Exception):
    """Changes were lost: the subscriber must read everything again. The subscription continues."""


class ChangeSubscription(Protocol):
    """The changes of one organization since the subscription began, each once, in batches."""

    async def next(self, timeout: float) -> list[FeedChange]:
        """The next batch; empty after `timeout` seconds without one. Raises MissedChanges."""
        ...

    def close(self) -> None: ...


class ChangeFeed(Protocol):
    """Delivers changes to the subscribers of an organization, in this and in other processes.

    Implementers: publishing never waits for a subscriber; the buffer of a subscriber is bounded.
    """

    def has_followers(self, org: str) -> bool:
        """Whether the organization has subscribers, or can have some in another process."""
        ...

    def publish(self, org: str, changes: Sequence[FeedChange]) -> None:
        """Called after the changes were committed."""
        ...

    def subscribe(self, org: str) -> ChangeSubscription: ...


class ChangeTransport(Protocol):
    """Carries changes between processes. Losing some is allowed: it then calls `missed` where they are missing."""

    def has_peers(self) -> bool:
        """Whether another process can receive."""
        ...

    def send_changes(self, org: str, changes: Sequence[FeedChange]) -> None: ...

    def start_receiving(self, receive: Callable[[str, Iterable[FeedChange]], None], missed: Callable[[], None]) -> None:
        """Called with the first subscriber of this process, and again after `stop_receiving`."""
        ...

    def stop_receiving(self) -> None:
        """Called when the last subscriber has left."""
        ...
