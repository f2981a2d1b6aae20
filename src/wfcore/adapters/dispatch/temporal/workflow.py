"""The workflow that wakes a worker for one execution. What happened is in the journal, and never in its history.

It must stay deterministic (Temporal, "Workflow determinism"): later releases replay open workflows. A change of its
commands therefore needs a new `WORKFLOW`. Workflows of an unknown name only wait: polls find their executions.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import ActivityError

WORKFLOW: Final = "wfcore-execution-1"
WAKE: Final = "wake"
HANDLE: Final = "handle"
LOOK: Final = "look"

ORGANIZATION: Final = SearchAttributeKey.for_keyword("wfcoreOrganization")
RESOURCE: Final = SearchAttributeKey.for_keyword("wfcoreWorkflow")
STATUS: Final = SearchAttributeKey.for_keyword("wfcoreStatus")

SILENCE: Final = timedelta(seconds=4)
"""Without a heartbeat for so long, the activity is given to another worker."""

ROUNDS: Final = 500
"""Activities after which the workflow continues as a new one, with an empty history (Temporal, "Continue-As-New")."""

LOOK_AFTER: Final = 1.0
"""Seconds after which the search attributes of an execution are written while it is driven."""

LOOK_SECONDS: Final = timedelta(seconds=10)

LONGEST_WAIT: Final = 86_400.0
"""Seconds after which a wait is checked again. A workflow of an execution that was deleted ends then."""

NO_LIMIT: Final = timedelta(days=3_650)

OWN_QUEUE_SECONDS: Final = timedelta(seconds=5)
"""How long the worker that claimed an execution has to take its activity, before any other can."""

ONCE: Final = RetryPolicy(maximum_attempts=1)
ALWAYS: Final = RetryPolicy(initial_interval=timedelta(seconds=1), backoff_coefficient=1.0)


@dataclass(frozen=True)
class Findings:
    """What a worker read in the journal. `wait` is the time until the execution is due, in seconds: None for never.

    `resource` is what it runs, such as `workflow/1`; None when the search attributes are not registered.
    """

    wait: float | None = None
    resource: str | None = None
    status: str = ""


@workflow.defn(name=WORKFLOW)
class ExecutionWorkflow:
    """It ends when nothing is due, and the next wake-up starts it again. `queue` is that of a worker with the claim."""

    def __init__(self) -> None:
        self._wakes = 0
        self._queue: str | None = None
        self._shown = Findings()

    @workflow.signal(name=WAKE)
    def wake(self, queue: str | None = None) -> None:
        self._wakes += 1
        self._queue = queue or self._queue

    @workflow.run
    async def run(self, execution: str) -> None:
        for _ in range(ROUNDS):
            if workflow.info().is_continue_as_new_suggested():
                break
            seen = self._wakes
            found = await self._handle(execution)
            self._show(found)
            if self._wakes != seen:
                continue
            if found.wait is None:
                return
            await self._until_woken(seen, min(found.wait, LONGEST_WAIT))
        workflow.continue_as_new(execution)

    async def _handle(self, execution: str) -> Findings:
        """Let the worker that holds the claim drive the execution, else any worker, however often one fails."""
        queue, self._queue = self._queue, None
        if queue is not None:
            with suppress(ActivityError):
                return await self._watched(
                    execution, task_queue=queue, schedule_to_start_timeout=OWN_QUEUE_SECONDS, retry_policy=ONCE
                )
        return await self._watched(execution, retry_policy=ALWAYS)

    async def _watched(self, execution: str, **options: Any) -> Findings:
        """The result of the activity. Wake-ups meanwhile reach its worker by another activity."""
        handling: workflow.ActivityHandle[Findings] = workflow.start_activity(
            HANDLE,
            execution,
            result_type=Findings,
            start_to_close_timeout=NO_LIMIT,
            heartbeat_timeout=SILENCE,
            **options,
        )
        handling.add_done_callback(lambda done: done.cancelled() or done.exception())  # so that none is unretrieved
        seen, wait = self._wakes, LOOK_AFTER
        while not handling.done():
            await self._until_woken(seen, wait, handling)
            if not handling.done():
                is_woken, seen, wait = self._wakes != seen, self._wakes, LONGEST_WAIT
                await self._look(execution, is_woken)
        return await handling

    async def _look(self, execution: str, is_woken: bool) -> None:
        with suppress(ActivityError):
            found: Findings = await workflow.execute_activity(
                LOOK, args=[execution, is_woken], result_type=Findings, schedule_to_close_timeout=LOOK_SECONDS
            )
            self._show(found)

    async def _until_woken(self, seen: int, seconds: float, handling: "asyncio.Task[Any] | None" = None) -> None:
        """Wait so many seconds, or until a wake-up after the first `seen` or the end of `handling`."""

        def has_changed() -> bool:
            return self._wakes != seen or (handling is not None and handling.done())

        with suppress(TimeoutError):
            await workflow.wait_condition(has_changed, timeout=seconds)

    def _show(self, found: Findings) -> None:
        """Write the search attributes that have changed."""
        if found.resource is None or (found.resource, found.status) == (self._shown.resource, self._shown.status):
            return
        self._shown = found
        workflow.upsert_search_attributes([RESOURCE.value_set(found.resource), STATUS.value_set(found.status)])


def search_attributes(organization: str) -> TypedSearchAttributes:
    """Those with which a workflow starts."""
    return TypedSearchAttributes([SearchAttributePair(ORGANIZATION, organization)])
