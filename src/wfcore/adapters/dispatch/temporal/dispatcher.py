"""A dispatcher over workflows of Temporal: the server chooses the worker and the time, and the journal fences both.

Beside it runs an `EmbeddedDispatcher`. It drives the executions, and its polls of the journal find what the server has
not delivered for `LAG` seconds: while the server is away, nothing is stranded.

An activity lasts as long as this process drives its execution, and sends heartbeats. Without them the server gives it
to another worker, which can claim the execution once the heartbeats in the journal have ended too.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from wfcore.adapters.dispatch.embedded import HEARTBEAT, EmbeddedDispatcher
from wfcore.adapters.dispatch.temporal.connection import Failures, TemporalConnection, to_execution
from wfcore.adapters.dispatch.temporal.workflow import HANDLE, LOOK, SILENCE, ExecutionWorkflow, Findings
from wfcore.domain.kernel.errors import NotFound
from wfcore.ports.dispatcher import Delays, Handler
from wfcore.ports.faults import Outage
from wfcore.ports.journal import ExecutionRef, Journal
from wfcore.ports.system import Clock

log = logging.getLogger("wfcore.dispatcher")

LAG: Final = 5.0
"""Seconds after which a poll takes what is due and was not delivered: more than a server that works needs."""

SPARE: Final = 20
"""Activities that can run beside those that drive executions: they notify drivers."""

RETRY_SECONDS: Final = 1.0
"""Seconds until the server tries an execution again that a worker could not claim."""

RESTART_SECONDS: Final = 1.0
"""Seconds until polling starts again after an error that ends it, such as a namespace that does not exist."""

STOP_SECONDS: Final = 5.0
"""Seconds in which the server must take the last results."""


class TemporalDispatcher:
    """Implements the port `Dispatcher`. The connection must be open from `start` to the end of `stop`."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        connection: TemporalConnection,
        *,
        concurrency: int = 1_000,
        notify: Callable[[ExecutionRef], object] | None = None,
        outage: Outage | None = None,
    ) -> None:
        """`notify` is called with each execution that other processes must check: there it reaches `receive`."""
        self._journal = journal
        self._clock = clock
        self._connection = connection
        self._concurrency = concurrency
        self._notify = notify or (lambda _: None)
        self._inner = EmbeddedDispatcher(
            journal,
            clock,
            concurrency=concurrency,
            notify=lambda execution, _: connection.start(execution),
            engine_lag=self._lag,
            on_polled=self._own,
            outage=outage,
        )
        self._working: list[asyncio.Task[None]] = []
        self._workers: list[Worker] = []
        connection.on_lost(self._lose)

    @property
    def delays(self) -> Delays:
        found = self._inner.delays
        return Delays(timer=LAG + found.timer, dead_worker=LAG + found.dead_worker)

    @property
    def worker(self) -> int | None:
        return self._inner.worker

    def wake(self, execution: ExecutionRef, length: int | None = None) -> None:
        if not self._inner.signal(execution) and not self._connection.start(execution):
            self._lose(execution)

    def receive(self, execution: ExecutionRef, length: int | None = None) -> None:
        """Another process could not send a wake-up, or this one drives the execution."""
        self._inner.receive(execution, length)

    def adopt(self, execution: ExecutionRef) -> None:
        self._inner.adopt(execution)
        self._own(execution)

    async def start(self, handler: Handler) -> None:
        await self._inner.start(handler)
        self._working = [
            asyncio.create_task(self._work(self._connection.name, [self.handle, self.look], [ExecutionWorkflow])),
            asyncio.create_task(self._work(self._queue, [self.handle], [])),
        ]

    async def stop(self, grace: float) -> None:
        working, self._working = self._working, []
        if not working:
            return
        ending = [asyncio.create_task(worker.shutdown()) for worker in self._workers]
        try:
            await self._inner.stop(grace)
            if ending:
                await asyncio.wait(ending, timeout=STOP_SECONDS)
        finally:  # a cancelled stop waits no longer, and releases what it holds
            await self._inner.stop(0)
            for task in (*ending, *working):
                task.cancel()
            await asyncio.gather(*ending, *working, return_exceptions=True)

    # Activities

    @activity.defn(name=HANDLE)
    async def handle(self, text: str) -> Findings:
        """Drive an execution until it waits or ends, if it is due and can be claimed."""
        execution = to_execution(text)
        task = await self._inner.claim(execution)
        while task is not None and not task.done():
            activity.heartbeat()
            await asyncio.wait([task], timeout=HEARTBEAT)
        return await self._found(execution, is_final=True, was_claimed=task is not None)

    @activity.defn(name=LOOK)
    async def look(self, text: str, is_woken: bool) -> Findings:
        """What the journal says about an execution that is driven. With `is_woken`, its driver reads it again."""
        execution = to_execution(text)
        if is_woken and not self._inner.signal(execution):
            self._notify(execution)
        return await self._found(execution, is_final=False)

    async def _found(self, execution: ExecutionRef, *, is_final: bool, was_claimed: bool = True) -> Findings:
        """Raises ApplicationError, and is tried again, when it is to be final and a worker must drive the execution.

        This worker could not claim what is due when it has no free capacity, or the organization has reached its limit.
        """
        try:
            progress = await self._journal.progress(execution)
        except NotFound:
            return Findings()
        wait = None if progress.wake_at is None else max(0.0, (progress.wake_at - self._clock.now()) / 1000)
        if is_final and progress.claimed_by is not None:
            raise _later(f"worker {progress.claimed_by} holds the execution")
        if is_final and wait == 0.0 and not was_claimed:
            raise _later("this worker cannot claim it now")
        resource = f"{progress.kind}/{progress.resource_id}" if self._connection.has_attributes else None
        return Findings(wait, resource, progress.status)

    # Polling the server

    @property
    def _queue(self) -> str:
        """The task queue of this worker alone."""
        return f"{self._connection.name}-worker-{self._inner.worker}"

    async def _work(self, queue: str, activities: list[Any], workflows: list[type]) -> None:
        """Poll a task queue until stopped."""
        client = await self._connection.client()
        while self._working:
            try:
                await self._poll(
                    client, task_queue=queue, activities=activities, workflows=workflows,
                    workflow_runner=UnsandboxedWorkflowRunner(), max_concurrent_activities=self._concurrency + SPARE,
                    max_heartbeat_throttle_interval=SILENCE / 4, graceful_shutdown_timeout=timedelta(days=1),
                )  # fmt: skip
            except Failures as error:
                log.warning("Temporal does not deliver executions: %s", error)
                await asyncio.sleep(RESTART_SECONDS)

    async def _poll(self, client: Client, **options: Any) -> None:
        worker = Worker(client, **options)
        self._workers.append(worker)
        try:
            await worker.run()
        finally:
            self._workers.remove(worker)

    def _own(self, execution: ExecutionRef) -> None:
        """This process drives the execution already: its workflow follows that."""
        self._connection.start(execution, self._queue)

    def _lose(self, execution: ExecutionRef) -> None:
        self._inner.receive(execution)
        self._notify(execution)

    def _lag(self) -> float:
        return LAG if self._connection.is_available else 0.0


def _later(why: str) -> ApplicationError:
    delay = timedelta(seconds=RETRY_SECONDS)
    return ApplicationError(why, next_retry_delay=delay, category=ApplicationErrorCategory.BENIGN)
