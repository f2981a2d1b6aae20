"""Hints over NATS. Those of an execution have its events, and go to the processes that have readers of it."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from nats.aio.msg import Msg
from nats.errors import Error

from wfcore.adapters.dispatch.nats.connection import NatsConnection, Receive, to_bytes, to_execution
from wfcore.domain.run.events import Event
from wfcore.ports.changes import FeedChange
from wfcore.ports.hints import FollowerHint, WorkerHint
from wfcore.ports.journal import ExecutionRef

log = logging.getLogger("wfcore.nats")

MAX_FRAME: Final = 256 * 1024
"""The size of the events in one message, in bytes. Readers get more from the journal."""

_events: Final = msgspec.json.Decoder(list[Event])
_changes: Final = msgspec.json.Decoder(list[FeedChange])


class NatsHints:
    """Implements the port `Hints`. It opens and closes the connection."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._follower: FollowerHint = lambda _, __: None
        self._subscribing: list[asyncio.Task[Any]] = []
        self._followed: dict[ExecutionRef, asyncio.Task[Any]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._changes: tuple[Callable[[str, Iterable[FeedChange]], None], Callable[[], None]] | None = None

    def has_peers(self) -> bool:
        return self._connection.is_connected

    async def open(self, worker: WorkerHint, follower: FollowerHint) -> None:
        async def receive(message: Msg) -> None:
            execution = to_execution(message.data)
            if execution is not None:
                worker(execution, None)

        self._follower = follower
        await self._connection.open()
        self._connection.on_reconnect(self._missed)
        self._subscribing = [
            self._subscribe(self._connection.subject("due"), receive),
            self._subscribe(self._connection.subject("changes", "*"), self._receive_changes),
        ]
        if self._connection.is_connected:
            await asyncio.gather(*self._subscribing)

    async def close(self) -> None:
        await self._connection.close()
        tasks = [*self._subscribing, *self._followed.values(), *self._leaving]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def notify_workers(self, execution: ExecutionRef, length: int | None = None) -> None:
        self._connection.send(self._connection.subject("due"), to_bytes(execution))

    def notify_followers(self, execution: ExecutionRef, events: Sequence[Event]) -> None:
        frame = msgspec.json.encode(events)
        self._connection.send(self._events_of(execution), frame if len(frame) <= MAX_FRAME else b"[]")

    def follow(self, execution: ExecutionRef) -> None:
        async def receive(message: Msg) -> None:
            self._follower(execution, _events.decode(message.data))

        self._followed[execution] = self._subscribe(self._events_of(execution), receive)

    def unfollow(self, execution: ExecutionRef) -> None:
        subscribing = self._followed.pop(execution, None)
        if subscribing is not None:
            task = asyncio.create_task(_unsubscribe(subscribing))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    def send_changes(self, org: str, changes: Sequence[FeedChange]) -> None:
        self._connection.send(self._connection.subject("changes", org), msgspec.json.encode(changes))

    def start_receiving(self, receive: Callable[[str, Iterable[FeedChange]], None], missed: Callable[[], None]) -> None:
        self._changes = receive, missed

    def stop_receiving(self) -> None:
        self._changes = None

    def _subscribe(self, subject: str, receive: Receive) -> asyncio.Task[Any]:
        return asyncio.create_task(self._connection.subscribe(subject, receive))

    def _events_of(self, execution: ExecutionRef) -> str:
        return self._connection.subject("events", execution.org, execution.id)

    async def _receive_changes(self, message: Msg) -> None:
        if self._changes is not None:
            self._changes[0](message.subject.rpartition(".")[2], _changes.decode(message.data))

    def _missed(self) -> None:
        """What was sent while the connection was broken is lost."""
        if self._changes is not None:
            self._changes[1]()


async def _unsubscribe(subscribing: asyncio.Task[Any]) -> None:
    """End a subscription, also one that the server does not know yet."""
    with suppress(Error):
        await (await subscribing).unsubscribe()
