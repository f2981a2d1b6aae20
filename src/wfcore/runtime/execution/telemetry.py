"""Telemetry of what is driven and written, put around it from outside: without a listener nothing of this runs."""

import logging
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from urllib.parse import unquote

from wfcore.domain.run.effects import Address, CallModel, CallTool, ComposeContext, Effect
from wfcore.domain.run.entries import Entry, Failed
from wfcore.domain.run.plan import Plan
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import (
    Append,
    Execution,
    ExecutionRef,
    Journal,
    JournalConflict,
    NewExecution,
    RunExists,
)
from wfcore.ports.telemetry import RUN, Counted, Span, Telemetry, Timed, WorkKind
from wfcore.runtime.execution.outcomes import Performed, Stream
from wfcore.runtime.execution.prepared_calls import PreparedCalls
from wfcore.runtime.tools.calls import PlainCall

if TYPE_CHECKING:
    from wfcore.domain.run.machine.machine import Machine

log = logging.getLogger("wfcore.runs")

T = TypeVar("T")

# The journal


def observed_journal(journal: Journal, telemetry: Telemetry) -> Journal:
    """The same journal, whose writes are timed, and the turns that begin and end with them counted."""
    return _ObservedJournal(journal, telemetry)


class _ObservedJournal:
    def __init__(self, journal: Journal, telemetry: Telemetry) -> None:
        self._journal = journal
        self._telemetry = telemetry

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def begin(self, new: NewExecution, append: Append) -> Execution:
        begun: Execution = await self._timed(self._journal.begin(new, append))
        self._count(append, _ended(append))
        return begun

    async def append(self, execution: ExecutionRef, append: Append) -> int | None:
        if append.new_run is None and not append.changes:
            return await self._timed(self._journal.append(execution, append))
        ended = _ended(append)
        for change in append.changes:
            if change.resumed_by is not None and await self._goes_on(execution.org, change.id):
                ended[change.id] = change.status
        epoch = await self._timed(self._journal.append(execution, append))
        self._count(append, ended)
        return epoch

    async def _timed(self, write: Coroutine[Any, Any, T]) -> T:
        began, outcome = perf_counter(), "failed"
        try:
            done = await write
        except (JournalConflict, RunExists):
            outcome = "conflict"
            raise
        else:
            outcome = "written"
            return done
        finally:
            self._telemetry.record_duration(Timed.append, perf_counter() - began, outcome)

    async def _goes_on(self, org: str, run_id: str) -> bool:
        """Whether a turn that another one takes over was still under way: if not, its end was counted before."""
        row = await self._journal.find_run(org, run_id)
        return row is not None and row.status.under_way

    def _count(self, append: Append, ended: dict[str, RunStatus]) -> None:
        if append.new_run is not None:
            self._telemetry.count(Counted.run_started)
        for status in ended.values():
            self._telemetry.count(Counted.run_ended, {"status": str(status)})


def _ended(append: Append) -> dict[str, RunStatus]:
    """The turns that come to rest with this append, unless another one takes them over."""
    rows = {change.id: change.status for change in append.changes if change.resumed_by is None}
    if append.new_run is not None:
        rows.setdefault(append.new_run.id, append.new_run.status)
    return {run_id: status for run_id, status in rows.items() if not status.under_way}


# Driving

Now = Callable[[], int]
"""Returns the time of the execution in epoch milliseconds."""


class Performs(Protocol):
    """What makes effects happen: the performer."""

    async def perform(self, execution: Execution, effect: Effect, stream: Stream, now: Now) -> Performed: ...

    @property
    def plain_call(self) -> Callable[[str], PlainCall | None]: ...

    @property
    def prepared_calls(self) -> Callable[[Plan, Collection[str]], PreparedCalls]: ...

    def failed(self, effect: Effect, error: BaseException, at: int) -> Failed: ...


class Driven(Protocol):
    """An execution in the hands of a driver: a session. Its machine may be another one later."""

    performer: Performs
    machine: "Machine"


class turn:  # noqa: N801  (used as a function)
    """While this block runs, the session is driven: logs have its run id, and spans surround it and its effects."""

    __slots__ = ("_began", "_execution", "_observed", "_session")

    def __init__(self, telemetry: Telemetry | None, execution: Execution, session: Driven) -> None:
        RUN.set(session.machine.run_id)  # for the whole of this task, which drives nothing else
        self._execution = execution
        self._session = session
        self._observed = None if telemetry is None else _Turn(telemetry, execution, session)
        self._began = perf_counter()

    def __enter__(self) -> None:
        if self._observed is not None:
            self._observed.span.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            outcome = str(self._session.machine.status)
        else:
            outcome = "failed" if isinstance(error, Exception) else "broken_off"
        if self._observed is not None:
            self._observed.span.__exit__(kind, error, trace)
            self._observed.end(outcome)
        if log.isEnabledFor(logging.INFO):
            ms = round((perf_counter() - self._began) * 1000, 3)
            log.info("driven to `%s`", outcome, extra={"org": self._execution.ref.org, "outcome": outcome, "ms": ms})


class _Turn:
    """The span of a session; its performer is observed from now on."""

    def __init__(self, telemetry: Telemetry, execution: Execution, session: Driven) -> None:
        self.span = telemetry.begin(WorkKind.turn, ids={"run": session.machine.run_id, "org": execution.ref.org})
        observed = TracedPerformer if telemetry.traces else MeasuredPerformer
        self._performer = session.performer = observed(session, telemetry)

    def end(self, outcome: str) -> None:
        self._performer.end_nodes(())
        self.span.end(outcome)


OWN: Final = 3
"""Numbers of an address in its own frame: node, visit and step."""
FRAME: Final = OWN + 1
"""By how many it is longer than the address that opened the frame: these, and the attempt."""


def _no_call(_: str) -> None:
    """No tool is called without a span."""


class _Visit:
    """The span of a node's visit; it ends with the last effect, which is known only when no other follows."""

    __slots__ = ("began", "last", "outcome", "running", "span")

    def __init__(self, begin: Callable[[], Span]) -> None:
        self.began = self.last = perf_counter()  # before the span, so that it never ends before its effects
        self.span = begin()
        self.running = 0
        self.outcome = "broken_off"


class MeasuredPerformer:
    """Performs as the session's performer does, and has each attempt timed."""

    def __init__(self, session: Driven, telemetry: Telemetry) -> None:
        self._performer = session.performer
        self._session = session
        self._telemetry = telemetry

    async def perform(self, execution: Execution, effect: Effect, stream: Stream, now: Now) -> Performed:
        span, outcome = self._telemetry.begin(WorkKind.effect, KINDS[_kind(effect)]), "broken_off"
        try:
            entry = await self._performer.perform(execution, effect, stream, now)
            outcome = _outcome(entry)
            return entry
        finally:
            span.end(outcome)

    @property
    def plain_call(self) -> Callable[[str], PlainCall | None]:
        """Returns None: each effect is performed by itself."""
        return _no_call

    @property
    def prepared_calls(self) -> Callable[[Plan, Collection[str]], PreparedCalls]:
        return self._performer.prepared_calls

    def failed(self, effect: Effect, error: BaseException, at: int) -> Failed:
        return self._performer.failed(effect, error, at)

    def end_nodes(self, pending: Collection[Address]) -> None:
        """Nothing: there are none."""


class TracedPerformer(MeasuredPerformer):
    """The same in a span for each attempt, within one for each node's visit."""

    def __init__(self, session: Driven, telemetry: Telemetry) -> None:
        super().__init__(session, telemetry)
        self._visits: dict[Address, _Visit] = {}

    async def perform(self, execution: Execution, effect: Effect, stream: Stream, now: Now) -> Performed:
        visit = self._visit(effect)
        labels, ids = KINDS[_kind(effect)], self._ids(effect)
        span, outcome = self._telemetry.begin(WorkKind.effect, labels, ids, parent=visit.span), "broken_off"
        visit.running += 1
        try:
            with span:
                entry = await self._performer.perform(execution, effect, stream, now)
            outcome = _outcome(entry)
            return entry
        finally:
            span.end(outcome)
            visit.running -= 1
            visit.outcome = outcome
            self._last(effect.address)

    def end_nodes(self, pending: Collection[Address]) -> None:
        """End the spans of the visits that have nothing running and nothing pending, in frames inside them too."""
        for address, visit in list(self._visits.items()):
            if not visit.running and not any(other[: len(address)] == address for other in pending):
                del self._visits[address]
                visit.span.end(visit.outcome, seconds=visit.last - visit.began)

    def _last(self, address: Address) -> None:
        """Something of this visit has just ended, and so of those whose frames it is in."""
        while len(address) >= OWN:
            if visit := self._visits.get(address[:-1]):
                visit.last = perf_counter()
            address = address[:-FRAME]

    def _visit(self, effect: Effect) -> _Visit:
        address = effect.address[:-1]
        visit = self._visits.get(address)
        if visit is None:
            self.end_nodes([*self._session.machine.pending, effect.address])
            opener = self._visits.get(effect.address[:-FRAME][:-1])
            ids = {"run": self._session.machine.run_id, "node": node_of(effect)}
            parent = opener.span if opener else None
            begin = partial(self._telemetry.begin, WorkKind.node, ids=ids, parent=parent)
            visit = self._visits[address] = _Visit(begin)
        return visit

    def _ids(self, effect: Effect) -> dict[str, str | int]:
        run, node = self._session.machine.run_id, node_of(effect)
        ids: dict[str, str | int] = {"run": run, "node": node, "attempt": effect.attempt}
        return ids | {"tool": effect.tool} if isinstance(effect, CallTool) else ids


def node_of(effect: Effect) -> str:
    """The id of the effect's node, which stands in its key before the visit."""
    return unquote(effect.key.rsplit(":", 2)[-2])


KINDS: Final = {kind: {"kind": kind} for kind in ("core", "mcp", "app", "model", "context", "child")}


def _kind(effect: Effect) -> str:
    if isinstance(effect, CallTool):
        return next((area for area in ("core", "mcp") if effect.tool.startswith(f"{area}.")), "app")
    if isinstance(effect, CallModel):
        return "model"
    return "context" if isinstance(effect, ComposeContext) else "child"


def _outcome(entry: Entry) -> str:
    if isinstance(entry, Failed):
        return "timeout" if entry.reason == "timeout" else "failed"
    return "succeeded"
