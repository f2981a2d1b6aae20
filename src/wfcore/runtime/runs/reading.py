"""Use cases that read runs: records, events, the inbox; and the visibility of runs (interface, Runs and Events)."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TypeGuard, Unpack

import attrs
from msgspec import structs

from wfcore.domain.graph.structure import structure_of
from wfcore.domain.json.codec import to_ms
from wfcore.domain.kernel.errors import Forbidden, Issue, NotFound, refuse
from wfcore.domain.kernel.ids import is_run_id
from wfcore.domain.kernel.json_readers import as_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.resource import Kind
from wfcore.domain.run import entries as e
from wfcore.domain.run.events import Event
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states.deciders import Delegator, may_see, sees_as_approver
from wfcore.domain.run.recording import Recording
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import Execution, RunFilter, RunRow
from wfcore.ports.storage import Storage
from wfcore.runtime.common.arguments import checks_arguments
from wfcore.runtime.common.authorization import authorize, needs
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import (
    InboxItem,
    RunCancelled,
    RunFailed,
    RunView,
    latest_turn,
    single_events,
    views,
)
from wfcore.runtime.execution.event_stream import LATEST as LATEST_LOOK
from wfcore.runtime.execution.event_stream import SOONEST, follow, outline, outlined
from wfcore.runtime.execution.pasts import Pasts
from wfcore.runtime.execution.plans import Plans, pinned_by
from wfcore.runtime.organization.delegations import delegations_to
from wfcore.runtime.runs.decisions import waiting_for
from wfcore.runtime.runs.filters import RunFilters, run_filter
from wfcore.runtime.runs.graph import RunGraph, graph_of
from wfcore.runtime.runs.stats import RunStats

DAY = 86_400_000
"""Milliseconds."""

EARLIEST = to_ms(datetime.min.replace(tzinfo=UTC))
"""The first instant that can be written, in epoch milliseconds."""

LATEST = 2**63 - 1
"""A key greater than all."""


class RunReading:
    """Reads runs."""

    area = "workflows"

    def __init__(self, ports: Ports, plans: Plans) -> None:
        self._ports = ports
        self._plans = plans
        self._pasts = Pasts(plans)

    @needs("workflows:read")
    async def get(self, me: Principal, run_id: str) -> RunView:
        """The run's record. An approver without use sees only the interrupts that it can decide, and no result."""
        row, _, can_use = await self._visible(me, run_id)
        return await self._view(me, row, can_use)

    @needs("workflows:read")
    async def page(
        self,
        me: Principal,
        *,
        limit: int = 25,
        before: int | None = None,
        workflow: int | None = None,
        skill: int | None = None,
        **filters: Unpack[RunFilters],
    ) -> list[RunView]:
        """Runs of resources that the caller can use, and its own runs of the assistant and of actions; newest first.

        Only those older than the run with the `row.key` `before`, that match every filter. Pass at most one of
        `workflow`, `skill` and `assistant`.
        """
        where = run_filter(workflow, skill, filters)
        rows = list[RunRow]()
        for one in within_reach(me, where):
            rows += await self._ports.journal.list_runs(
                me.org_uuid, limit=limit, before=before, where=one, principal=me
            )
        if me.workflows is not None:
            rows = sorted(rows, key=lambda row: -row.key)[:limit]
        return await views(self._ports.journal, rows)

    @needs("workflows:read")
    async def stats(self, me: Principal, *, since: int | None = None, until: int | None = None) -> RunStats:
        """The runs that `page` lists for a period, counted. Epoch milliseconds; default: the last 24 hours.

        Malformed when `since` is later than `until`.
        """
        until = self._ports.clock.now() + 1 if until is None else until
        since = max(until - DAY, EARLIEST) if since is None else since
        if since > until:
            refuse([Issue("since", "must not be later than `until`", "query")])
        counts = await self._ports.journal.count_runs(me.org_uuid, since=since, until=until, principal=me)
        return RunStats(since, until, [one for one in counts if me.reaches(one.kind, one.resource_id)])

    @needs("workflows:read")
    async def graph(self, me: Principal, run_id: str, *, path: tuple[str, ...] = (), base: str = "") -> RunGraph:
        """What the nodes of the run's execution have done up to now, all its turns together; or of the child at `path`.

        `base` is the address of the run, for links to large values. Errors: NotFound; Forbidden, as for events.
        """
        _, execution, can_use = await self._visible(me, run_id)
        if not can_use:
            raise Forbidden("reading the graph requires use of the run's target", {"canUse": False})
        entries = await self._ports.journal.read(execution.ref)
        return await graph_of(self._ports.storage, self._plans, execution, entries, tuple(path), base)

    @needs("workflows:read")
    async def record(self, me: Principal, run_id: str) -> Recording:
        """The run's execution, to be replayed: its journal with all inputs and outputs, what it ran, and how its turns
        ended. Errors: NotFound; Forbidden, as for events.
        """
        _, execution, can_use = await self._visible(me, run_id)
        if not can_use:
            raise Forbidden("recording a run requires use of the run's target", {"canUse": False})
        entries = await self._ports.journal.read(execution.ref)
        return await recording_of(self._ports, execution, entries)

    @needs("workflows:read")
    async def events(self, me: Principal, run_id: str, *, after: int = 0) -> list[Event]:
        """The run's events so far with a `seq` greater than `after`. NotFound; Forbidden, as for `follow`."""
        view, events = await self.run_to_follow(me, run_id), list[Event]()
        await self._plans.machine(await self._ports.journal.execution(view.row.execution), events)
        own = [event for event in events if event.run_id == view.id]
        return [event.apart() for event in (outlined(own) if view.is_outline else own) if event.seq > after]

    @needs("workflows:read")
    async def follow(self, me: Principal, run_id: str, *, after: int = 0) -> AsyncIterator[Event]:
        """The run's events after `after`, live, until its terminal one: every durable event once, in order.

        Errors: NotFound, also when the run is deleted meanwhile; Forbidden with `info.canUse` false for an approver
        without use, except on the turns that its own decisions began.
        """
        return single_events(self.batches(await self.run_to_follow(me, run_id), after=after))

    @needs("workflows:read")
    async def run_to_follow(self, me: Principal, run_id: str) -> RunView:
        """The run, if the caller can follow its events, which requires use.

        An approver without use can follow the turns that its own decisions began, and sees only their beginning and
        their end. Errors: NotFound; Forbidden with `info.canUse` false.
        """
        row, _, can_use = await self._visible(me, run_id)
        if not can_use and me.user_id != row.user_id:
            raise Forbidden("reading events requires use of the run's target", {"canUse": False})
        return await self._view(me, row, can_use)

    async def batches(self, view: RunView, *, after: int = 0, pace: float = 0.0) -> AsyncGenerator[list[Event], None]:
        """As `follow`, in batches of events that are available together. The view is the proof of authorization.

        `pace` is the shortest time in seconds between two batches of a live run, except before its terminal event.
        """
        ref = view.row.execution
        execution = self._pasts.begun(ref) or await self._ports.journal.execution(ref)
        stream = follow(self._ports, self._pasts, execution, view.id, 0 if view.is_outline else after, pace)
        async with aclosing(outline(stream, after) if view.is_outline else stream) as found:
            async for batch in found:
                yield batch

    @checks_arguments
    async def result(self, run: RunView, timeout: float | None = None) -> JSON:
        """The output of the run's execution, when it has ended: also after interrupts and the turns that resume it.

        The view is the proof of authorization. `timeout` is in seconds. Raises RunFailed, RunCancelled; TimeoutError,
        with the id of the run, which goes on; NotFound when the run was deleted; Forbidden for an approver without use.
        """
        if run.is_outline:
            raise Forbidden("reading the result requires use of the run's target", {"canUse": False})
        try:
            async with asyncio.timeout(timeout) as limit:
                ended = RunView(await self._last_turn(run.row))
        except TimeoutError as error:
            raise (_unfinished(run.id, timeout) if limit.expired() else error) from None
        if ended.status is RunStatus.error:
            raise RunFailed(ended)
        if ended.status is RunStatus.cancelled:
            raise RunCancelled(ended)
        return ended.output

    async def _last_turn(self, row: RunRow) -> RunRow:
        """The row of the turn that ends the execution, when it has ended."""
        watching, patience = self._ports.events.watch(row.execution), SOONEST
        try:
            while True:
                found = await latest_turn(self._ports.journal, row.execution.org, row.id)
                if found is None:
                    raise NotFound
                if not found.status.under_way and found.status is not RunStatus.interrupted:
                    return found
                await watching.next(patience)
                row, patience = found, min(patience * 1.5, LATEST_LOOK)
        finally:
            watching.close()

    @needs("workflows:read")
    async def interrupts(
        self, me: Principal, *, limit: int = 25, before: int = LATEST
    ) -> tuple[list[InboxItem], int | None]:
        """The open interrupts that the caller can decide, newest first, and the `before` of the next page."""
        waiting = await waiting_for(self._ports, me)
        keys = [key for key in waiting.keys if key < before]
        return await waiting.items(keys[:limit]), keys[limit - 1] if len(keys) > limit else None

    async def _delegators(self, me: Principal, row: RunRow) -> list[Delegator]:
        """Those who have delegated their decisions about this run to the caller."""
        return [
            Delegator(giver, await can_use_target(self._ports.storage, giver, row))
            for delegation, giver in await delegations_to(self._ports.storage, me, self._ports.now())
            if delegation.covers(row.kind, row.resource_id)
        ]

    async def sees(self, me: Principal, run_id: str) -> bool:
        """Whether the caller can see the run's record now, with use of its target or as an approver."""
        try:
            await self._visible(me, run_id)
        except (NotFound, Forbidden):
            return False
        return True

    # Parts

    async def _machine(self, execution: Execution) -> Machine:
        return await self._plans.machine(execution)

    async def _visible(self, me: Principal, run_id: str) -> tuple[RunRow, Execution, bool]:
        """The run, and whether the caller can use its target. A named approver sees it without use.

        Errors: NotFound; Forbidden with `info.canUse` false for a manager without use.
        """
        found = await self._ports.journal.find_turn(me.org_uuid, run_id) if is_run_id(run_id) else None
        if found is None:
            raise NotFound
        row, execution = found
        if not me.reaches(row.kind, row.resource_id):
            raise NotFound
        try:
            await _authorize_target(self._ports.storage, me, row)
        except (NotFound, Forbidden):
            if not await self._is_approver(me, row, execution):
                raise
            return row, execution, False
        return row, execution, True

    async def _is_approver(self, me: Principal, row: RunRow, execution: Execution) -> bool:
        """Whether the caller can see an interrupt as an approver, or for one, that is open or was decided by the
        caller.
        """
        delegators = await self._delegators(me, row)
        waiting = await self._ports.journal.open_interrupts(me.org_uuid, limit=1_000, of=[execution.ref])
        if any(sees_as_approver(me, item.interrupt, delegators) for item in waiting):
            return True
        entries = await self._ports.journal.read(execution.ref)
        if not any(_is_by(entry, me) for entry in entries):
            return False
        machine = Machine(await self._plans.of(execution, entries))
        await self._plans.load(me.org_uuid, entries, machine)
        for entry in entries:
            if _is_by(entry, me):
                decided = [machine.interrupts[one.interrupt_id] for one in entry.decisions]
                if any(may_see(me, one, False) or one.id in entry.on_behalf_of for one in decided):
                    return True
            machine.apply(entry)
        return False

    async def _view(self, me: Principal, row: RunRow, whole: bool) -> RunView:
        (view,) = await views(self._ports.journal, [row])
        return view if whole else outline_of(me, view, await self._delegators(me, row))


async def can_use_target(storage: Storage, me: Principal, row: RunRow) -> bool:
    """Whether the user can use the run's target now, as reading all of a run requires."""
    try:
        await _authorize_target(storage, me, row)
    except (NotFound, Forbidden):
        return False
    return True


async def _authorize_target(storage: Storage, me: Principal, row: RunRow) -> None:
    """NotFound or Forbidden unless the user can use the target. Only the starter can use what has no resource."""
    if row.resource_id is not None:
        authorize(me, await storage.find_resource(me.org_uuid, Kind(row.kind), row.resource_id), "use")
    elif me.user_id != row.root_user_id:
        raise NotFound


def _unfinished(run_id: str, timeout: float | None) -> TimeoutError:
    return TimeoutError(
        f"run `{run_id}` has not ended after {timeout} seconds: it goes on, so call `result` again, "
        "or decide its interrupts if its status is `interrupted`"
    )


def within_reach(me: Principal, where: RunFilter) -> list[RunFilter]:
    """The filters that select the same runs, as far as the credential reaches: one for each workflow of its limit."""
    if me.workflows is None:
        return [where]
    if where.kind is None:
        return [attrs.evolve(where, kind="workflow", resource_id=number) for number in sorted(me.workflows)]
    return [where] if me.reaches(where.kind, where.resource_id) else []


def outline_of(me: Principal, view: RunView, delegators: Sequence[Delegator]) -> RunView:
    """The view of an approver: the open interrupts that it can see, also for others, without the result."""
    own = tuple(one for one in view.interrupts if sees_as_approver(me, one, delegators))
    return RunView(structs.replace(view.row, result=None), own, is_outline=True)


def _is_by(entry: e.Entry, me: Principal) -> TypeGuard[e.Resumed]:
    """Whether the entry is a decision of the caller."""
    return isinstance(entry, e.Resumed) and entry.by is not None and entry.by.user_id == me.user_id


# Recordings


async def recording_of(ports: Ports, execution: Execution, entries: Sequence[e.Entry]) -> Recording:
    """The recording of an execution with these entries, without marks."""
    org = execution.ref.org
    about: dict[str, JSON] = {"kind": execution.kind, "resourceId": execution.resource_id, "structure": None}
    first = next(entry for entry in entries if isinstance(entry, e.Started))
    if execution.kind == "workflow":
        about["structure"] = await _structure(ports, org, execution.resource_id or 0, execution.variation_id or "")
    elif execution.started_by == "evaluation":
        about["case"] = as_object(first.info["evaluation"])["case"]
    children = dict.fromkeys(pinned for entry in entries if (pinned := pinned_by(entry)) is not None)
    return Recording(
        about,
        [
            {"kind": kind, "resourceId": number, "variationId": variation,
             "structure": None if kind == "skill" else await _structure(ports, org, number, variation)}
            for kind, number, variation in children
        ],
        [e.encode_entry(entry).decode() for entry in entries],
        await _turns(ports, org, entries),
    )  # fmt: skip


async def _structure(ports: Ports, org: str, number: int, variation_id: str) -> JSON:
    async with ports.storage.reading(org) as work:
        variation = await work.workflows.variation(number, variation_id)
    return None if variation is None else structure_of(variation.workflow)


async def _turns(ports: Ports, org: str, entries: Sequence[e.Entry]) -> list[dict[str, JSON]]:
    """The ends of the turns, as the store has them."""
    rows = [row for run_id in e.turns_of(entries) if (row := await ports.journal.find_run(org, run_id)) is not None]
    return [
        {
            "runId": row.id,
            "status": str(row.status),
            "output": as_object(row.result or {}).get("output"),
            "error": as_object(row.result or {}).get("error"),
        }
        for row in rows
    ]
