"""Notifications between the processes on one PostgreSQL database: LISTEN and NOTIFY (PostgreSQL, SQL commands).

A hint names an execution, and whether workers or followers must check it; the journal holds what happened. For workers
it carries the length of the journal. A hint is sent after its commit and can be lost: every process also polls. Sending
does not wait for the disk, and happens a bounded number of times a second.

Processes announce themselves when they start and when they end. A process without peers sends no hints.
"""

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import quote, unquote_to_bytes

import msgspec
from psycopg import AsyncConnection, OperationalError

from wfcore.adapters.sql.postgres.pipeline import PipelineConnection
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.addresses import server_options
from wfcore.domain.run.events import Event
from wfcore.ports.changes import FeedChange
from wfcore.ports.hints import FollowerHint, WorkerHint
from wfcore.ports.journal import ExecutionRef

log = logging.getLogger("wfcore.hints")

CHANNEL: Final = "wfcore"
"""The channel of an installation in the default schema; another one has a channel with the name of its schema."""

SEND_INTERVAL: Final = 0.01
"""Seconds between two notifications."""

MAX_BYTES: Final = 7_900
"""The size of one notification: PostgreSQL accepts fewer than 8,000 bytes."""

MAX_CHANGE_BYTES: Final = 2_000
"""The size of one change; followers are notified that they have missed a longer one."""

MISSED: Final = "-"
"""The text of a change that is too long to be sent."""

MAX_UNSENT: Final = 10_000
"""Hints that are queued while the server does not respond; more are dropped."""

CONNECT_SECONDS: Final = 10

RECONNECT_DELAY: Final = 1.0
"""Seconds before a broken connection is made again."""

CHECK_AFTER: Final = 30.0
"""Seconds without a hint to send after which the connection is checked."""

REPLY_SECONDS: Final = 1.0
"""Seconds within which a peer replies to `HELLO`."""

HELLO, HERE, BYE = "hello", "here", "bye"
"""Messages about peers: of a process that starts, of those that reply to it, and of one that ends."""

CLOSE_SECONDS: Final = 1.0
"""Seconds that `close` waits for queued hints to be sent."""

_decode_change: Final = msgspec.json.Decoder(FeedChange).decode

_NOTIFY: Final = Statement(lambda _: "SELECT pg_notify($1, $2)")

_WITHOUT_DISK: Final = Statement(lambda _: "SET synchronous_commit = off")

_LOST: Final = ""
"""Queued when the connection is lost, so that the next statement fails at once."""


class PostgresHints:
    """Implements the port `Hints` with one connection of a process, which receives and sends.

    A broken connection is made again until `close`. Errors are logged, never raised to the caller. `url` is that of
    the database; it must not lead through a pooler in transaction mode.
    """

    def __init__(self, url: str, schema: str | None = None) -> None:
        """`schema` is that of the tables, whose name the channel has."""
        self._url = url
        self._channel = schema or CHANNEL
        self._listen = Statement(lambda _: f'LISTEN "{self._channel}"')
        self._me = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._unsent: asyncio.Queue[str] = asyncio.Queue(MAX_UNSENT)
        self._task: asyncio.Task[None] | None = None
        self._worker: WorkerHint = lambda _, __: None
        self._follower: FollowerHint = lambda _, __: None
        self._changes: tuple[Callable[[str, Iterable[FeedChange]], None], Callable[[], None]] | None = None
        self._receiving = asyncio.Event()
        self._is_broken = False
        self._peers: set[str] = set()

    def has_peers(self) -> bool:
        """Whether another process can receive. A killed process is counted until this one connects again."""
        return bool(self._peers)

    def notify_workers(self, execution: ExecutionRef, length: int | None = None) -> None:
        self._send_hint("w", execution, "" if length is None else f"/{length}")

    def notify_followers(self, execution: ExecutionRef, events: Sequence[Event]) -> None:
        """Notify all processes, without the events: a notification is too short for them."""
        self._send_hint("f", execution)

    def follow(self, execution: ExecutionRef) -> None:
        """Every process receives every hint."""

    def unfollow(self, execution: ExecutionRef) -> None: ...

    def send_changes(self, org: str, changes: Sequence[FeedChange]) -> None:
        """Send changes of an organization, which followers of its changes receive."""
        if self._task:
            for change in changes:
                text = quote(msgspec.json.encode(change), safe="")
                self._queue(f"c/{org}/{text if len(text) <= MAX_CHANGE_BYTES else MISSED}")

    def start_receiving(self, receive: Callable[[str, Iterable[FeedChange]], None], missed: Callable[[], None]) -> None:
        """Call `receive` with the changes of other processes, and `missed` where some were lost."""
        self._changes = receive, missed

    def stop_receiving(self) -> None:
        self._changes = None

    async def open(self, worker: WorkerHint, follower: FollowerHint) -> None:
        """Start receiving and sending. After `CONNECT_SECONDS` it returns, and continues to connect."""
        self._worker, self._follower = worker, follower
        self._task = asyncio.create_task(self._keep_running())
        with suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._receiving.wait()

    async def close(self) -> None:
        """Send the queued hints, then stop receiving."""
        if self._task is None:
            return
        self._queue(BYE)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._unsent.join()
        finally:  # a cancelled close waits no longer
            task, self._task = self._task, None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _send_hint(self, whom: str, execution: ExecutionRef, more: str = "") -> None:
        if self._task and self.has_peers():
            self._queue(f"{whom}/{execution.org}/{execution.id}{more}")

    def _queue(self, hint: str) -> None:
        with suppress(asyncio.QueueFull):
            self._unsent.put_nowait(hint)

    async def _keep_running(self) -> None:
        while True:
            try:
                async with self._connected() as connection:
                    await self._run(connection)
            except Exception as error:  # noqa: BLE001 - the process works without hints, more slowly
                if not self._is_broken:  # it is repeated each second
                    log.warning("hints between processes are interrupted: %s", " ".join(str(error).split()))
                self._is_broken = True
            await asyncio.sleep(RECONNECT_DELAY)

    async def _run(self, connection: PipelineConnection) -> None:
        """Receive, and send what is queued, until the connection is lost."""
        await connection.send([(self._listen, ())])
        self._greet()
        self._receiving.set()
        if self._is_broken:
            log.warning("hints between processes work again")
            self._is_broken = False
        if self._changes:  # what was sent while the connection was broken is lost
            self._changes[1]()
        while True:
            hints = await self._queued()
            try:
                await connection.send([(_NOTIFY, (self._channel, text)) for text in self._texts(dict.fromkeys(hints))])
            finally:
                for _ in hints:
                    self._unsent.task_done()
            await asyncio.sleep(SEND_INTERVAL)

    async def _queued(self) -> list[str]:
        """The hints to send; none after `CHECK_AFTER`."""
        hints = list[str]()
        with suppress(TimeoutError):
            async with asyncio.timeout(CHECK_AFTER):
                hints.append(await self._unsent.get())
        while not self._unsent.empty():
            hints.append(self._unsent.get_nowait())
        return hints

    def _texts(self, hints: Iterable[str]) -> Iterator[str]:
        """Texts of valid size; none without hints."""
        text = self._me
        for hint in filter(None, hints):
            if len(text) + 1 + len(hint) > MAX_BYTES:
                yield text
                text = self._me
            text += f" {hint}"
        if text is not self._me:
            yield text

    def _greet(self) -> None:
        """Announce this process. Until peers reply, it counts itself as one, so that its hints are sent."""
        self._peers = {self._me}
        asyncio.get_running_loop().call_later(REPLY_SECONDS, self._peers.discard, self._me)
        self._queue(HELLO)

    def _receive(self, text: str) -> None:
        sender, *hints = text.split(" ")
        if sender == self._me:
            return
        for hint in hints:
            whom, *parts = hint.split("/")
            if whom == "c" and len(parts) == 2:
                self._receive_change(*parts)
            elif whom in ("w", "f") and len(parts) > 1 and all(map(str.isdecimal, parts[1:])):
                self._receive_hint(whom, ExecutionRef(parts[0], int(parts[1])), *map(int, parts[2:]))
            elif hint in (HELLO, HERE):
                self._peers.add(sender)
                if hint == HELLO:
                    self._queue(HERE)
            elif hint == BYE:
                self._peers.discard(sender)

    def _receive_hint(self, whom: str, execution: ExecutionRef, length: int | None = None, *_: int) -> None:
        if whom == "w":
            self._worker(execution, length)
        else:
            self._follower(execution, ())

    def _receive_change(self, org: str, text: str) -> None:
        if self._changes is None:
            return
        receive, missed = self._changes
        try:
            receive(org, [_decode_change(unquote_to_bytes(text))])
        except msgspec.DecodeError:
            missed()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[PipelineConnection]:
        """A separate connection. Its commits do not wait for the disk: they write nothing."""
        options = {**server_options(self._url), "application_name": "wfcore hints"}
        inner = await AsyncConnection.connect(**options, autocommit=True)
        connection = PipelineConnection(inner, on_notification=self._receive, on_loss=lambda: self._queue(_LOST))
        try:
            await connection.send([(_WITHOUT_DISK, ())])
            yield connection
        finally:
            connection.fail(OperationalError("the connection was closed"))
