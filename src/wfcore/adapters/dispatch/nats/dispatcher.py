"""A dispatcher over a work queue of JetStream: the server chooses the worker, and the journal fences it.

Beside the queue runs an `EmbeddedDispatcher`. It drives the executions, and its polls of the journal find due times
that have come and what the queue has lost: while the broker is away, nothing is stranded.

A worker keeps the message of an execution while it drives it, and reports progress to the server. Without a report for
`ACK_WAIT` seconds another worker gets the message, and takes the execution over if the first worker does not respond.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from nats.aio.msg import Msg
from nats.errors import Error

from wfcore.adapters.dispatch.embedded import EmbeddedDispatcher
from wfcore.adapters.dispatch.nats.connection import ACK_WAIT, NatsConnection, to_bytes, to_execution
from wfcore.domain.kernel.errors import NotFound
from wfcore.ports.dispatcher import Delays, Handler
from wfcore.ports.faults import Outage
from wfcore.ports.hints import Hints
from wfcore.ports.journal import Append, ExecutionRef, Journal, JournalConflict
from wfcore.ports.system import Clock

log = logging.getLogger("wfcore.dispatcher")

BATCH: Final = 50
"""Messages of one request to the queue: small, so that several workers share a burst."""

PULL_SECONDS: Final = 5.0
"""How long a request waits for messages."""

FULL_SECONDS: Final = 0.05
"""Seconds until a worker without free capacity looks again."""

REPLY_SECONDS: Final = 1.0
"""Seconds in which a worker responds that it drives an execution."""

RETRY_SECONDS: Final = 0.5
"""Seconds after which a request that could not be sent is tried again."""

ACK, PROGRESS = b"+ACK", b"+WPI"
REPEAT: Final = b'-NAK {"delay": 500000000}'
"""Acknowledgements (JetStream, "Consumers"). The last one delivers the message again after half a second."""

EXPIRED: Final = ("404", "408")
"""The status of a request that got fewer messages than it wanted."""

MINE: Final = b"1"
"""The response of a worker that drives the execution."""


class NatsDispatcher:
    """Implements the port `Dispatcher`. The connection must be open from `start` to the end of `stop`."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        connection: NatsConnection,
        hints: Hints,
        *,
        concurrency: int = 1_000,
        outage: Outage | None = None,
    ) -> None:
        self._journal = journal
        self._connection = connection
        self._hints = hints
        self._inner = EmbeddedDispatcher(
            journal, clock, concurrency=concurrency, notify=connection.put, engine_lag=lambda: 0.0, outage=outage
        )
        self._inbox = connection.new_inbox()
        self._expected = 0
        self._pull_again = asyncio.Event()
        self._held: dict[ExecutionRef, Msg] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._takes: set[asyncio.Task[None]] = set()
        connection.on_reconnect(self._pull_again.set)

    @property
    def delays(self) -> Delays:
        return self._inner.delays

    @property
    def worker(self) -> int | None:
        return self._inner.worker

    def wake(self, execution: ExecutionRef, length: int | None = None) -> None:
        if not self._inner.signal(execution) and not self._connection.put(execution, length):
            self._inner.receive(execution)

    def receive(self, execution: ExecutionRef, _: int | None = None) -> None:
        """Another process wrote to the execution."""
        self._inner.signal(execution)

    def adopt(self, execution: ExecutionRef) -> None:
        self._inner.adopt(execution)

    async def start(self, handler: Handler) -> None:
        await self._inner.start(handler)
        self._loops = [asyncio.create_task(self._pull()), asyncio.create_task(self._report_progress())]

    async def stop(self, grace: float) -> None:
        if not self._loops:
            return
        pulling, reporting = self._loops
        self._loops = []
        try:
            await _cancel(pulling)
            await asyncio.gather(*self._takes)
            await self._inner.stop(grace)
        finally:  # a cancelled stop waits no longer, and releases what it holds
            await self._inner.stop(0)
            await _cancel(reporting)

    # Messages

    async def _pull(self) -> None:
        """Request as many messages as this process can drive, again and again."""
        inbox = await self._connection.subscribe(self._inbox, self._receive)
        serving = await self._connection.subscribe(
            self._connection.subject("worker", self._inner.worker), self._respond
        )
        try:
            while True:
                await self._pull_once()
        finally:
            for subscription in (inbox, serving):
                with suppress(Error):
                    await subscription.unsubscribe()

    async def _pull_once(self) -> None:
        self._pull_again.clear()
        self._expected = min(self._inner.free, BATCH)
        if self._expected <= 0:
            await asyncio.sleep(FULL_SECONDS)
        elif not self._connection.pull(self._inbox, self._expected, PULL_SECONDS):
            await asyncio.sleep(RETRY_SECONDS)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(PULL_SECONDS + REPLY_SECONDS):
                    await self._pull_again.wait()

    async def _receive(self, message: Msg) -> None:
        """A message of the queue, or the end of a request."""
        status = (message.headers or {}).get("Status")
        if status is None:
            self._expected -= 1
            task = asyncio.create_task(self._take(message))
            self._takes.add(task)
            task.add_done_callback(self._takes.discard)
        elif status not in EXPIRED:
            log.warning("the queue of NATS cannot be read: %s", message.headers)
            await asyncio.sleep(RETRY_SECONDS)
            await self._connection.prepare_again()
        if status is not None or self._expected <= 0:
            self._pull_again.set()

    async def _take(self, message: Msg) -> None:
        try:
            is_handled = await self._handle(message)
        except Exception:
            log.exception("a message of the queue could not be handled")
            is_handled = False
        if not is_handled:
            self._connection.send(message.reply, REPEAT)

    async def _handle(self, message: Msg) -> bool:
        """Drive the execution, or leave it to whoever does. False: the message must be delivered again, later."""
        execution = to_execution(message.data)
        is_repeated = message.metadata.num_delivered > 1
        if execution is None:
            return self._acknowledge(message)
        if self._inner.signal(execution):
            return self._hold(execution, message) if is_repeated else self._acknowledge(message)
        task = await self._inner.claim(execution)
        if task is None and self._inner.free <= 0:
            return False
        if task is None and await self._is_left(execution, is_repeated):
            task = await self._inner.claim(execution)
        if task is None:
            return self._acknowledge(message)
        self._hold(execution, message)
        task.add_done_callback(lambda _: self._end(execution))
        return True

    async def _is_left(self, execution: ExecutionRef, is_repeated: bool) -> bool:
        """Whether the execution is due again because the worker that held it does not respond any more."""
        try:
            row = await self._journal.execution(execution)
        except NotFound:
            return False
        if row.claimed_by is None:
            return False
        if not is_repeated:
            self._hints.notify_workers(execution)  # its driver reads the journal again
            return False
        serving = self._connection.subject("worker", row.claimed_by)
        if await self._connection.request(serving, to_bytes(execution), REPLY_SECONDS) == MINE:
            return False
        log.warning("a worker does not respond; its execution is taken over", extra={"worker": row.claimed_by})
        release = Append(row.length, (), updates_claim=True, wake_at=0, holder=row.claimed_by)
        with suppress(JournalConflict):  # it writes, so it works: the message is not needed any more
            await self._journal.append(execution, release)
            return True
        return False

    async def _respond(self, message: Msg) -> None:
        """Another worker has got the message of an execution that this one claimed."""
        execution = to_execution(message.data)
        if execution is not None and self._inner.signal(execution):
            self._connection.send(message.reply, MINE)

    # Acknowledgements

    def _hold(self, execution: ExecutionRef, message: Msg) -> bool:
        """Keep the message while the execution is driven. Another one of it is not needed any more."""
        former = self._held.get(execution)
        if former is not None and former.metadata.sequence.stream != message.metadata.sequence.stream:
            self._acknowledge(former)
        self._held[execution] = message
        return True

    def _end(self, execution: ExecutionRef) -> None:
        message = self._held.pop(execution, None)
        if message is not None:
            self._acknowledge(message)

    def _acknowledge(self, message: Msg) -> bool:
        return self._connection.send(message.reply, ACK) or True

    async def _report_progress(self) -> None:
        while True:
            await asyncio.sleep(ACK_WAIT / 4)
            for message in self._held.values():
                self._connection.send(message.reply, PROGRESS)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
