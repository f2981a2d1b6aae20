"""The connection of one process to NATS, and the stream of executions that are due.

The stream is a work queue (JetStream, "Streams", retention): one worker gets each message, and another one
if that is not acknowledged. A message names an execution, whose content is in the journal: a lost message costs a poll.
"""

import asyncio
import json
import logging
import secrets
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import attrs
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error, NoRespondersError
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StreamConfig
from nats.js.errors import BadRequestError

from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.journal import ExecutionRef

log = logging.getLogger("wfcore.nats")

ACK_WAIT: Final = 4.0
"""Seconds without a word of a worker after which the server delivers its messages to others."""

DUPLICATES_SECONDS: Final = 120
"""How long the server recognizes a message id."""

MESSAGE_SECONDS: Final = 3_600
"""The age at which a message is dropped: the journal is polled, so its execution was found long before."""

CONNECT_SECONDS: Final = 5.0

PREPARE_DELAY: Final = 0.5
"""Seconds before the stream is requested again, from a cluster that has no leader yet."""

RECONNECT_DELAY: Final = 0.1

PING_SECONDS: Final = 2
"""Seconds between two checks of the connection; it is broken after two without a response."""

MAX_UNSENT: Final = 10_000
"""Messages that are queued while the server does not take them; more are dropped."""

MOST_ERRORS: Final = 100
"""Different errors that are logged until there is a connection again."""

CLOSE_SECONDS: Final = 1.0

CONSUMER: Final = "workers"

Receive = Callable[[Msg], Awaitable[None]]


@attrs.frozen
class NatsServers:
    """Where NATS is. The processes of one installation have the same `name`; `urls` can have users and passwords.

    `credentials` is a file with the JWT and the seed of a user; `tls_...` are files in PEM format. `replicas` is the
    number of servers that store the queue.
    """

    urls: Sequence[str] = attrs.field(repr=False)
    name: str = "wfcore"
    replicas: int = 1
    credentials: str | None = None
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None


class NatsConnection:
    """A connection that is made again until `close`. Errors are logged, never raised by `send`."""

    def __init__(self, settings: NatsServers) -> None:
        self.name = settings.name
        self.stream = f"{settings.name}-work"
        self._settings = settings
        self._client = Client()
        self._unsent: asyncio.Queue[tuple[str, bytes, str, dict[str, str] | None]] = asyncio.Queue(MAX_UNSENT)
        self._tasks: list[asyncio.Task[None]] = []
        self._was_connected = asyncio.Event()
        self._is_prepared = asyncio.Event()
        self._on_reconnect: list[Callable[[], object]] = []
        self._errors: dict[str, None] = {}

    @property
    def is_connected(self) -> bool:
        return self._client.is_connected

    async def open(self) -> None:
        """Connect. Returns once the stream exists, or after `CONNECT_SECONDS`, and then continues to connect.

        Raises Unavailable for credentials or certificates that cannot be read.
        """
        try:
            options = self._options()
        except (OSError, ValueError) as error:
            raise Unavailable(f"the credentials for NATS cannot be used: {error}") from error
        self._tasks = [asyncio.create_task(self._connect(options))]
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._is_prepared.wait()
        except TimeoutError:
            log.warning("NATS cannot be used yet: %s", ", ".join(self._errors) or "no response")

    async def close(self) -> None:
        """Send the queued messages, then disconnect."""
        if not self._tasks:
            return
        try:
            if self.is_connected:
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await self._unsent.join()
        finally:  # a cancelled close waits no longer
            tasks, self._tasks = self._tasks, []
            await _stop(tasks)
            with suppress(Error, OSError, TimeoutError, asyncio.InvalidStateError):
                await self._client.close()

    def on_reconnect(self, call: Callable[[], object]) -> None:
        """Call this whenever the connection was broken and is there again."""
        self._on_reconnect.append(call)

    def send(self, subject: str, data: bytes = b"", *, reply: str = "", id: str | None = None) -> bool:
        """Queue a message. `id` makes JetStream drop it if it has had one with the same id. False: it is dropped."""
        if not self._tasks or not self.is_connected:
            return False
        try:
            self._unsent.put_nowait((subject, data, reply, None if id is None else {"Nats-Msg-Id": id}))
        except asyncio.QueueFull:
            return False
        return True

    async def subscribe(self, subject: str, receive: Receive) -> Any:
        """Receive the messages of a subject once there is a connection, and again after a broken one.

        The result has `unsubscribe`.
        """
        await self._was_connected.wait()
        return await self._client.subscribe(subject, cb=receive)

    async def request(self, subject: str, data: bytes, timeout: float) -> bytes | None:
        """The response of the process that serves the subject; None without one."""
        try:
            return (await self._client.request(subject, data, timeout=timeout)).data
        except (NoRespondersError, Error, TimeoutError):
            return None

    def new_inbox(self) -> str:
        """A subject of this process alone."""
        return f"_INBOX.{secrets.token_hex(12)}"

    def subject(self, *parts: object) -> str:
        return ".".join((self.name, *map(str, parts)))

    # The work queue

    def put(self, execution: ExecutionRef, length: int | None = None) -> bool:
        """Queue an execution that is due. A second message for the same length of its journal is dropped."""
        data = to_bytes(execution)
        return self.send(self.subject("work"), data, id=None if length is None else f"{data.decode()}:{length}")

    def pull(self, inbox: str, count: int, seconds: float) -> bool:
        """Request up to `count` messages of the queue, which arrive at `inbox` within these seconds."""
        wanted = {"batch": count, "expires": int(seconds * 1e9)}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.{CONSUMER}"
        return self.send(subject, json.dumps(wanted).encode(), reply=inbox)

    async def prepare_again(self) -> None:
        """Create what is missing of the stream and its consumer. An error is logged."""
        try:
            await self._prepare()
        except (Error, TimeoutError, OSError) as error:
            await self._failed(error)

    async def _prepare(self) -> None:
        """Create the stream and its consumer, or change them to the settings."""
        work = StreamConfig(
            self.stream, subjects=[self.subject("work")], retention=RetentionPolicy.WORK_QUEUE,
            num_replicas=self._settings.replicas, max_age=MESSAGE_SECONDS, duplicate_window=DUPLICATES_SECONDS,
        )  # fmt: skip
        workers = ConsumerConfig(
            durable_name=CONSUMER, ack_policy=AckPolicy.EXPLICIT, ack_wait=ACK_WAIT, max_deliver=-1, max_ack_pending=-1
        )
        streams = self._client.jetstream()
        try:
            await streams.add_stream(work)
        except BadRequestError:  # it exists with other settings
            await streams.update_stream(work)
        await streams.add_consumer(self.stream, workers)

    # Its life

    def _options(self) -> dict[str, Any]:
        given = self._settings
        found: dict[str, Any] = {"servers": list(given.urls), "reconnect_time_wait": RECONNECT_DELAY}
        if given.credentials is not None:
            with open(given.credentials, "rb"):
                found["user_credentials"] = given.credentials
        if given.tls_ca is not None or given.tls_certificate is not None:
            context = ssl.create_default_context(cafile=given.tls_ca)
            if given.tls_certificate is not None:
                context.load_cert_chain(given.tls_certificate, given.tls_key)
            found["tls"] = context
        return found

    async def _connect(self, options: dict[str, Any]) -> None:
        await self._client.connect(
            **options, name="wfcore", no_echo=True, connect_timeout=2, max_reconnect_attempts=-1,
            ping_interval=PING_SECONDS, max_outstanding_pings=2, error_cb=self._failed, reconnected_cb=self._connected,
        )  # fmt: skip
        self._was_connected.set()
        await asyncio.gather(self._keep_prepared(), self._send())

    async def _keep_prepared(self) -> None:
        while True:
            try:
                await self._prepare()
            except (Error, TimeoutError, OSError) as error:
                await self._failed(error)
                await asyncio.sleep(PREPARE_DELAY)
            else:
                self._is_prepared.set()
                return

    async def _send(self) -> None:
        while True:
            subject, data, reply, headers = await self._unsent.get()
            try:
                await self._client.publish(subject, data, reply, headers)
            except Error as error:  # dropped, as `send` documents
                await self._failed(error)
            finally:
                self._unsent.task_done()

    async def _connected(self) -> None:
        log.info("NATS is connected again")
        self._errors.clear()
        for call in self._on_reconnect:
            call()

    async def _failed(self, error: Exception) -> None:
        """Log an error, once until there is a connection again. Texts can name one of many subjects."""
        text = str(error) or type(error).__name__
        if text not in self._errors and len(self._errors) < MOST_ERRORS:
            self._errors[text] = None
            log.warning("NATS: %s", text)


async def _stop(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel the tasks until they have ended: the client connects with `asyncio.wait_for`, which before Python 3.12
    loses a cancellation that comes together with a result.
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=CLOSE_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)


def to_bytes(execution: ExecutionRef) -> bytes:
    return f"{execution.org}/{execution.id}".encode()


def to_execution(data: bytes) -> ExecutionRef | None:
    """The execution that a message names; None for invalid data."""
    org, _, number = data.decode("ascii", "replace").partition("/")
    return ExecutionRef(org, int(number)) if number.isascii() and number.isdecimal() else None
