"""Hints between the processes of one installation: an execution is due, has events, or something has changed.

A hint can be lost, repeated or late: the store holds what happened, and every process also polls it. Hints only shorten
the wait for the next poll. An installation with one process needs none.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from wfcore.domain.run.events import Event
from wfcore.ports.changes import ChangeTransport
from wfcore.ports.journal import ExecutionRef

WorkerHint = Callable[[ExecutionRef, int | None], None]
"""Called with an execution that workers must check: it is due, or another process wrote to it. With the length of its
journal then, if the hint carries that.
"""

FollowerHint = Callable[[ExecutionRef, Sequence[Event]], None]
"""Called with an execution that has events, and with those that the hint carries: none, some or all of them."""


class Hints(ChangeTransport, Protocol):
    """Implementers: nothing that is sent comes back to its sender, and sending never waits and never raises."""

    def has_peers(self) -> bool:
        """Whether another process can receive. Without one nothing is sent, and no events need to be made."""
        ...

    async def open(self, worker: WorkerHint, follower: FollowerHint) -> None:
        """Start sending and receiving. Returns once this process receives, or when that takes too long."""
        ...

    async def close(self) -> None:
        """Send what is queued, then stop. Does nothing when closed already."""
        ...

    def notify_workers(self, execution: ExecutionRef, length: int | None = None) -> None:
        """Notify the other processes that the execution is due, or was written to by another than its driver.

        `length` is that of its journal, which the hint can carry: a driver that has read as much need not look.
        """
        ...

    def notify_followers(self, execution: ExecutionRef, events: Sequence[Event]) -> None:
        """Notify the processes that `follow` the execution of these new events, which the hint can carry."""
        ...

    def follow(self, execution: ExecutionRef) -> None:
        """This process has a reader of the execution now, its first one."""
        ...

    def unfollow(self, execution: ExecutionRef) -> None:
        """The last reader of the execution in this process has left."""
        ...
