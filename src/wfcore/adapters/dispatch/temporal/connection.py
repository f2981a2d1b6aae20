"""The connection of one process to Temporal, by which it wakes workers. A wake-up that is lost costs a poll."""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client, TLSConfig
from temporalio.service import RPCError, RPCStatusCode

from wfcore.adapters.dispatch.temporal.workflow import (
    ORGANIZATION,
    RESOURCE,
    STATUS,
    WAKE,
    WORKFLOW,
    search_attributes,
)
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.journal import ExecutionRef

T = TypeVar("T")

log = logging.getLogger("wfcore.temporal")

CONNECT_SECONDS: Final = 5.0

RPC_SECONDS: Final = 2.0
"""Seconds after which a request counts as lost."""

RETRY_SECONDS: Final = 0.5
"""Seconds between two attempts to reach a server that is away."""

SENDERS: Final = 16
"""Requests under way at once."""

MAX_UNSENT: Final = 10_000
"""Wake-ups that are queued while the server is slow; more are dropped."""

CLOSE_SECONDS: Final = 1.0

SEARCHED: Final = (ORGANIZATION, RESOURCE, STATUS)

Failures = (RPCError, RuntimeError, TimeoutError)
"""What the client raises for a server that is away or refuses a request."""


@attrs.frozen
class TemporalServer:
    """Where Temporal is: `host:port`, with `tls://` before it for TLS. Installations in a namespace differ in `name`.

    `credentials` is a file with an API key; `tls_...` are files in PEM format.
    """

    url: str
    name: str = "wfcore"
    namespace: str = "default"
    credentials: str | None = None
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None


class TemporalConnection:
    """A connection that is tried again until `close`. Errors are logged, never raised by `start`."""

    def __init__(self, server: TemporalServer) -> None:
        self.name = server.name
        self.has_attributes = False
        self._server = server
        self._client: Client | None = None
        self._is_available = False
        self._unsent: asyncio.Queue[tuple[ExecutionRef, str | None]] = asyncio.Queue(MAX_UNSENT)
        self._tasks: list[asyncio.Task[None]] = []
        self._was_connected = asyncio.Event()
        self._failed = asyncio.Event()
        self._on_lost: Callable[[ExecutionRef], object] = lambda _: None

    @property
    def is_available(self) -> bool:
        """Whether the last request succeeded."""
        return self._is_available

    async def open(self) -> None:
        """Connect. Returns once that succeeded, or after `CONNECT_SECONDS`, and then continues to connect.

        Raises Unavailable for credentials or certificates that cannot be read.
        """
        try:
            options = self._options()
        except (OSError, ValueError) as error:
            raise Unavailable(f"the credentials for Temporal cannot be used: {error}") from error
        self._tasks = [asyncio.create_task(self._keep_connected(options))]
        self._tasks += [asyncio.create_task(self._send()) for _ in range(SENDERS)]
        with suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._was_connected.wait()

    async def close(self) -> None:
        """Send the queued wake-ups, then disconnect."""
        try:
            if self._is_available:
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await self._unsent.join()
        finally:  # a cancelled close waits no longer
            tasks, self._tasks, self._is_available = self._tasks, [], False
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._client = None
            gc.collect()  # what the client keeps in cycles can abort the process if the interpreter drops it at its end

    async def client(self) -> Client:
        """The client, once it was connected."""
        await self._was_connected.wait()
        assert self._client is not None  # noqa: S101
        return self._client

    def on_lost(self, call: Callable[[ExecutionRef], object]) -> None:
        """Call this with each execution whose wake-up could not be sent."""
        self._on_lost = call

    def start(self, execution: ExecutionRef, queue: str | None = None) -> bool:
        """Queue a wake-up of the execution, for the worker with this queue if given. False: it is dropped."""
        if not self._tasks or not self._is_available:
            return False
        try:
            self._unsent.put_nowait((execution, queue))
        except asyncio.QueueFull:
            return False
        return True

    async def _send(self) -> None:
        while True:
            execution, queue = await self._unsent.get()
            try:
                await self._start(await self.client(), execution, queue)
            except Failures as error:
                self._lose(error)
                self._on_lost(execution)
            finally:
                self._unsent.task_done()

    async def _start(self, client: Client, execution: ExecutionRef, queue: str | None) -> None:
        """Signal the workflow of the execution, and start it if it is not open (Temporal, "Signal-With-Start")."""
        text = to_text(execution)
        shown = search_attributes(execution.org) if self.has_attributes else None
        starting = client.start_workflow(
            WORKFLOW, text, id=f"{self.name}/{text}", task_queue=self.name, search_attributes=shown,
            start_signal=WAKE, start_signal_args=[queue], rpc_timeout=timedelta(seconds=RPC_SECONDS),
        )  # fmt: skip
        await _within(starting)

    # Its life

    def _options(self) -> dict[str, Any]:
        """The arguments of `Client.connect`, with the content of the files."""
        given = self._server
        ca, certificate, key = [
            None if file is None else Path(file).read_bytes()
            for file in (given.tls_ca, given.tls_certificate, given.tls_key)
        ]
        secured = given.url.startswith("tls://") or given.credentials is not None or ca or certificate
        return {
            "target_host": given.url.removeprefix("tls://"),
            "namespace": given.namespace,
            "api_key": None if given.credentials is None else Path(given.credentials).read_text("ascii").strip(),
            "tls": TLSConfig(server_root_ca_cert=ca, client_cert=certificate, client_private_key=key)
            if secured
            else False,
        }

    async def _keep_connected(self, options: dict[str, Any]) -> None:
        """Connect, and check a server that failed until it responds again."""
        while True:
            self._failed.clear()
            try:
                if self._client is None:
                    self._client = await _within(Client.connect(**options))
                    self.has_attributes = await _within(self._register(self._client))
                elif not await self._client.service_client.check_health(timeout=timedelta(seconds=RPC_SECONDS)):
                    raise TimeoutError("the server does not serve")
            except Failures as error:
                self._lose(error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self._is_available = True
                self._was_connected.set()
                await self._failed.wait()

    async def _register(self, client: Client) -> bool:
        """Register the search attributes that are missing; False when this is not allowed."""
        operator, where = client.operator_service, self._server.namespace
        keyword = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
        try:
            found = await operator.list_search_attributes(ListSearchAttributesRequest(namespace=where))
            missing = {key.name: keyword for key in SEARCHED if key.name not in found.custom_attributes}
            if missing:
                await operator.add_search_attributes(
                    AddSearchAttributesRequest(namespace=where, search_attributes=missing)
                )
        except RPCError as error:
            if error.status is RPCStatusCode.UNAVAILABLE:
                raise
            log.warning("Temporal does not register search attributes: %s", error)
            return False
        return True

    def _lose(self, error: BaseException) -> None:
        """Count the server as away; an error is logged once until it responds again."""
        if self._is_available or self._client is None:
            log.warning("Temporal cannot be used: %s", str(error) or type(error).__name__)
        self._is_available = False
        self._failed.set()


async def _within(waiting: Awaitable[T]) -> T:
    async with asyncio.timeout(RPC_SECONDS):
        return await waiting


def to_text(execution: ExecutionRef) -> str:
    return f"{execution.org}/{execution.id}"


def to_execution(text: str) -> ExecutionRef:
    org, _, number = text.partition("/")
    return ExecutionRef(org, int(number))
