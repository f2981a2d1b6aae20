"""The feed of changes: hints that something of an organization has changed, for open pages (interface, Changes).

A hint says what to read again. It can be lost; its subscribers are then notified that they have missed changes.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, Protocol

from msgspec import Struct, structs

from wfcore.domain.run.state import Interrupt
from wfcore.ports.repositories.inbox import approvers_of, target_subject

What = Literal["created", "changed", "deleted", "deployed", "resolved"]

KINDS: Final = (
    "workflow", "skill", "run", "interrupt", "policy", "connection", "hook", "member", "group", "delegation",
)  # fmt: skip
"""What the feed is about."""


class FeedChange(Struct, frozen=True, array_like=True):
    """One change. `id` is the resource's own, a number for workflows and skills.

    A run or an interrupt has its target, and the `subjects` that can see it (`wfcore.ports.repositories.inbox`); a
    delegation has the `subjects` of its two members, and a workflow or skill whose rows are gone those that saw it.
    """

    kind: str
    id: str | int
    what: What
    target_kind: str = ""
    target_id: int | None = None
    subjects: tuple[str, ...] = ()


def run_change(id: str, what: What, kind: str, number: int | None, user_id: str) -> FeedChange:
    """A change of a run. Who may use its target sees it; without a target, the user who started its execution."""
    seen_by = f"u:{user_id}" if number is None else target_subject(kind, number)
    return FeedChange("run", id, what, kind, number, (seen_by,))


def interrupt_change(one: Interrupt, what: What, kind: str, number: int | None, user_id: str) -> FeedChange:
    """A change of an interrupt, in an execution of this target that this user started."""
    return FeedChange("interrupt", one.id, what, kind, number, tuple(approvers_of(one, kind, number, user_id)))


def resource_removed(
    kind: str, number: int, grants: Iterable[tuple[str, bool, bool]], runs: Iterable[FeedChange]
) -> list[FeedChange]:
    """The changes when the rows of a deleted workflow or skill are removed, with those of its `runs`.

    `grants` are subject, use and manage of each grant. The runs are shown to who could use it, and itself to who could
    manage it: its access cannot be read any more.
    """
    rows = list(grants)
    managers = tuple(subject for subject, _, manage in rows if manage)
    return [*runs_removed(kind, number, rows, runs), FeedChange(kind, number, "deleted", subjects=managers)]


def runs_removed(
    kind: str, number: int, grants: Iterable[tuple[str, bool, bool]], runs: Iterable[FeedChange]
) -> list[FeedChange]:
    """The changes of its runs alone, when they are removed before it."""
    users, target = tuple(subject for subject, use, _ in grants if use), target_subject(kind, number)
    return [structs.replace(one, subjects=(*one.subjects, *users)) if target in one.subjects else one for one in runs]


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

    def subscribe(self, org: str) -> ChangeSubscription:
        """Begin a subscription to all changes of the organization. The caller closes it."""
        ...


class ChangeTransport(Protocol):
    """Carries changes between processes. Losing some is allowed: it then calls `missed` where they are missing."""

    def has_peers(self) -> bool:
        """Whether another process can receive."""
        ...

    def send_changes(self, org: str, changes: Sequence[FeedChange]) -> None:
        """Send the changes to the other processes, without waiting."""
        ...

    def start_receiving(self, receive: Callable[[str, Iterable[FeedChange]], None], missed: Callable[[], None]) -> None:
        """Called with the first subscriber of this process, and again after `stop_receiving`."""
        ...

    def stop_receiving(self) -> None:
        """Called when the last subscriber has left."""
        ...
