"""Results of the run use cases: a run's record, an item of the inbox, a turn that is about to begin."""

from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import attrs
from msgspec import Struct, field, structs

from wfcore.domain.json.codec import dumps, iso_ms
from wfcore.domain.kernel.json_readers import as_object, as_objects
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.events import Event
from wfcore.domain.run.machine.states.interrupts import interrupt_to_wire
from wfcore.domain.run.state import Interrupt, RunStatus, StarterKind
from wfcore.ports.journal import ExecutionRef, Journal, OpenInterrupt, RunRow
from wfcore.runtime.common.loop_slice import within_slice

MOST_OPEN: Final = 1_000
"""The most open interrupts that a run's record shows."""

PREVIEW: Final = 1_000
"""The characters of a large value that are shown in its place."""

Batches = AsyncGenerator[list[Event], None]


class RunView(Struct, frozen=True, gc=False):
    """The record of a run. `interrupts` are the open ones.

    `is_outline`: the caller can only decide, so the record hides the result.
    """

    row: RunRow
    interrupts: tuple[Interrupt, ...] = ()
    is_outline: bool = False
    links: Mapping[str, str] = field(default_factory=dict)
    """Where the caller can authorize the connections that connect interrupts need, by interrupt."""
    is_new: bool = False
    """Whether this call has started the run, so that its caller can read it and its target is there."""

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def status(self) -> RunStatus:
        return self.row.status

    @property
    def thread_id(self) -> str:
        return self.row.thread_id

    @property
    def parent_run_id(self) -> str | None:
        """The turn that this one carries on."""
        return self.row.parent_run_id

    @property
    def resumed_by(self) -> str | None:
        """The turn that carries this one on after an interrupt."""
        return self.row.resumed_by

    @property
    def retried_by(self) -> str | None:
        return self.row.retried_by

    @property
    def forked_from(self) -> str | None:
        return self.row.forked_from

    @property
    def origin(self) -> str:
        return self.row.origin

    @property
    def variation_id(self) -> str | None:
        return self.row.variation_id

    @property
    def created_at(self) -> datetime:
        return _time(self.row.created_at)

    @property
    def updated_at(self) -> datetime:
        return _time(self.row.updated_at)

    @property
    def finished_at(self) -> datetime | None:
        return None if self.row.finished_at is None else _time(self.row.finished_at)

    @property
    def usage(self) -> JSON:
        return self._result.get("usage") or {}

    @property
    def output(self) -> JSON:
        return self._result.get("output")

    @property
    def error(self) -> JSON:
        return self._result.get("error")

    @property
    def _result(self) -> Mapping[str, JSON]:
        return as_object(self.row.result or {})

    def with_cut_output(self, url: str) -> "RunView":
        """The record with the beginning of a large output instead of it. `url` is that of the record with the whole."""
        if self.row.result is None:
            return self
        result = {**self._result, "output": cut(self.output, PREVIEW, url)}
        return structs.replace(self, row=structs.replace(self.row, result=result))

    def _link(self, interrupt: Mapping[str, JSON]) -> dict[str, JSON]:
        link = self.links.get(str(interrupt["interruptId"]))
        return {} if link is None else {"connectUrl": link}

    def to_wire(self) -> dict[str, JSON]:
        row, result = self.row, self._result
        waiting = [interrupt_to_wire(one) for one in self.interrupts] or as_objects(result.get("interrupts") or ())
        return {
            "runId": row.id,
            "status": str(row.status),
            "target": target_to_wire(row.kind, row.resource_id),
            "threadId": row.thread_id,
            "parentRunId": row.parent_run_id,
            "resumedBy": row.resumed_by,
            "retriedBy": row.retried_by,
            "forkedFrom": row.forked_from,
            "startedBy": starter_to_wire(row.user_id, row.started_by),
            "executionStartedBy": starter_to_wire(row.root_user_id, row.root_started_by),
            "origin": row.origin,
            "version": None if row.variation_id is None else "draft" if row.is_draft else "published",
            "variationId": row.variation_id,
            "output": result.get("output"),
            "error": result.get("error"),
            "interrupts": [{**interrupt, "runId": row.id, **self._link(interrupt)} for interrupt in waiting],
            "usage": result.get("usage") or {},
            "createdAt": iso_ms(row.created_at),
            "updatedAt": iso_ms(row.updated_at),
            "finishedAt": None if row.finished_at is None else iso_ms(row.finished_at),
        }


def cut(value: JSON, most: int, url: str) -> JSON:
    """The value, or the beginning of one with more than `most` bytes of JSON. `url` has the whole."""
    text = dumps(value)
    size = len(text.encode())
    return value if size <= most else {"truncated": True, "bytes": size, "preview": text[:PREVIEW], "url": url}


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


class RunEnded(Exception):
    """A run ended without an output. `run` is the record of its last turn."""

    def __init__(self, run: RunView, message: str) -> None:
        super().__init__(message)
        self.run = run


class RunFailed(RunEnded):
    """The run ended in error. `error` is that of its record: `code`, `status`, `message` and `info`."""

    def __init__(self, run: RunView) -> None:
        super().__init__(run, f"run `{run.id}` failed: {as_object(run.error or {}).get('message', 'unknown error')}")
        self.error = run.error


class RunCancelled(RunEnded):
    """The run was cancelled."""

    def __init__(self, run: RunView) -> None:
        super().__init__(run, f"run `{run.id}` was cancelled")


async def views(journal: Journal, rows: Sequence[RunRow]) -> list[RunView]:
    """The runs with their open interrupts. One query reads the interrupts of all of them."""
    waiting: dict[ExecutionRef, list[Interrupt]] = {row.execution: [] for row in rows if _may_wait(row)}
    if waiting:
        (org,) = {ref.org for ref in waiting}
        for item in await journal.open_interrupts(org, limit=MOST_OPEN * len(waiting), of=list(waiting)):
            waiting[item.execution.ref].append(item.interrupt)
    return [RunView(row, tuple(waiting[row.execution]) if _may_wait(row) else ()) for row in rows]


async def latest_turn(journal: Journal, org: str, run_id: str) -> RunRow | None:
    """The latest turn of this run's execution: the run, or the last one that took it over. None for an unknown run."""
    row = await journal.find_run(org, run_id)
    while row is not None and (later := row.resumed_by or row.retried_by) is not None:
        row = await journal.find_run(org, later)
    return row


def _may_wait(row: RunRow) -> bool:
    return row.status.under_way or (row.status is RunStatus.interrupted and row.resumed_by is None)


def starter_to_wire(user_id: str, kind: StarterKind) -> dict[str, JSON]:
    """Who started a turn (interface, Run records). A turn that a deadline began has no user."""
    return {"userId": None if kind == "system" else user_id, "kind": kind}


def target_to_wire(kind: str, resource_id: int | None) -> dict[str, JSON]:
    return {"type": kind, "id": resource_id}


@attrs.frozen
class InboxItem:
    """One interrupt that waits for a decision of the caller; `on_behalf_of` is the user who has delegated it, or ""."""

    found: OpenInterrupt
    on_behalf_of: str = ""

    @property
    def interrupt_id(self) -> str:
        return self.found.interrupt.id

    @property
    def run_id(self) -> str:
        """The latest run of the execution, which `resume` takes."""
        return self.found.run_id

    @property
    def node_id(self) -> str:
        return self.found.interrupt.node_id

    @property
    def message(self) -> str:
        """The question."""
        return self.found.interrupt.message

    def to_wire(self) -> dict[str, JSON]:
        execution = self.found.execution
        return {
            **interrupt_to_wire(self.found.interrupt),
            "runId": self.found.run_id,
            "target": target_to_wire(execution.kind, execution.resource_id),
            "threadId": execution.thread_id,
            "createdAt": iso_ms(self.found.interrupt.opened_at),
            "onBehalfOf": self.on_behalf_of or None,
        }


class Turn:
    """A run that is about to begin: await it for its `RunView`, or iterate over its events. It begins only once.

    view = await core.runs.start(me, workflow=1, input={})

    async for event in core.runs.start(me, workflow=1, input={}):
        ...
    """

    def __init__(
        self,
        begin: Coroutine[Any, Any, RunView],
        batches: Callable[[RunView], Batches],
        home: AbstractEventLoop | None = None,
    ) -> None:
        self._begin = begin
        self._home = home
        self._batches = batches
        self._view: RunView | None = None

    if not TYPE_CHECKING:  # a type checker finds a wrong name by itself

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"a run that has not begun has no `{name}`: await it first, as in `run = await core.runs.start(...)`"
            )

    def __await__(self) -> Generator[Any, None, RunView]:
        return self._begun().__await__()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    async def _begun(self) -> RunView:
        if self._view is None:
            self._view = await within_slice(self._begin, self._home)
        return self._view

    async def _events(self) -> AsyncIterator[Event]:
        async for event in single_events(self._batches(await self._begun())):
            yield event


async def single_events(batches: Batches) -> AsyncIterator[Event]:
    """The events one by one, for code of the product: each belongs to its reader."""
    async with aclosing(batches):
        async for events in batches:
            for event in events:
                yield event.apart()
