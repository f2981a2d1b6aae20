"""Use cases that read runs: records, events, the inbox; and the visibility of runs (interface, Runs and Events)."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import attrs

from wfcore.domain.kernel.errors import Forbidden, NotFound
from wfcore.domain.kernel.ids import is_run_id
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.resource import Kind
from wfcore.domain.run import entries as e
from wfcore.domain.run.events import Event
from wfcore.domain.run.machine.interrupts import may_decide, may_see
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import Execution, OpenInterrupt, RunRow
from wfcore.runtime.common.authorization import authorize, needs
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import InboxItem, RunView, single_events, views
from wfcore.runtime.execution.event_stream import follow, outline, outlined
from wfcore.runtime.execution.plans import Plans


class RunReading:
    """Reads runs."""

    area = "workflows"

    def __init__(self, ports: Ports, plans: Plans) -> None:
        self._ports = ports
        self._plans = plans

    @needs("workflows:read")
    async def get(self, me: Principal, run_id: str) -> RunView:
        """The run's record. An approver without use sees only the interrupts that it can decide, and no result."""
        row, execution, can_use = await self._visible(me, run_id)
        return await self._view(me, row, may_read(me, execution, can_use))

    @needs("workflows:read")
    async def page(
        self,
        me: Principal,
        *,
        limit: int = 25,
        before: int | None = None,
        status: RunStatus | None = None,
        workflow: int | None = None,
        skill: int | None = None,
    ) -> list[RunView]:
        """Runs of resources that the caller can use, and those that it started; newest first.

        Only those older than the run with the `row.key` `before`. Pass `workflow`, `skill` or neither.
        """
        resource = ("workflow", workflow) if workflow is not None else None if skill is None else ("skill", skill)
        rows = await self._ports.journal.list_runs(
            me.org_uuid, limit=limit, before=before, status=status, resource=resource, principal=me
        )
        return [await self._listed(me, view) for view in await views(self._ports.journal, rows)]

    @needs("workflows:read")
    async def events(self, me: Principal, run_id: str, *, after: int = 0) -> list[Event]:
        """The run's events so far with a `seq` greater than `after`. Errors as for `run_to_follow`."""
        view, events = await self.run_to_follow(me, run_id), list[Event]()
        await self._plans.machine(await self._ports.journal.execution(view.row.execution), events)
        own = [event for event in events if event.run_id == view.id]
        return [event for event in (outlined(own) if view.is_outline else own) if event.seq > after]

    @needs("workflows:read")
    async def follow(self, me: Principal, run_id: str, *, after: int = 0) -> AsyncIterator[Event]:
        """The run's events after `after`, live, until its terminal one: every durable event once, in order.

        Errors as for `run_to_follow`.
        """
        return single_events(self.batches(await self.run_to_follow(me, run_id), after=after))

    @needs("workflows:read")
    async def run_to_follow(self, me: Principal, run_id: str) -> RunView:
        """The run, if the caller can follow its events, which requires use.

        An approver without use can follow the turns that its own decisions began, and sees only their beginning and
        their end. Errors: NotFound; Forbidden with `info.canUse` false.
        """
        row, execution, can_use = await self._visible(me, run_id)
        whole = may_read(me, execution, can_use)
        if not whole and me.user_id != row.user_id:
            raise Forbidden("reading events requires use of the run's target", {"canUse": False})
        return await self._view(me, row, whole)

    async def batches(self, view: RunView, *, after: int = 0) -> AsyncGenerator[list[Event], None]:
        """As `follow`, in batches of events that are available together. The view is the proof of authorization."""
        execution = await self._ports.journal.execution(view.row.execution)
        stream = follow(self._ports, self._plans, execution, view.id, 0 if view.is_outline else after)
        async with aclosing(outline(stream, after) if view.is_outline else stream) as found:
            async for batch in found:
                yield batch

    @needs("workflows:read")
    async def interrupts(self, me: Principal, *, limit: int = 25, after: int = 0) -> tuple[list[InboxItem], int | None]:
        """The open interrupts that the caller can decide, in the order of opening, and the start of the next page."""
        found: list[InboxItem] = []
        usable: dict[tuple[str, int | str], bool] = {}
        while len(found) <= limit:
            batch = await self._ports.journal.open_interrupts(me.org_uuid, limit=limit + 1, after=after)
            for item in batch:
                after = item.key
                target = (item.execution.kind, item.execution.resource_id or item.execution.user_id)
                if target not in usable:
                    usable[target] = await self._can_use(me, item.execution)
                if self._can_decide(me, item, usable[target]):
                    found.append(InboxItem(item))
            if len(batch) <= limit:
                break
        page = found[:limit]
        return page, page[-1].found.key if len(found) > limit else None

    def _can_decide(self, me: Principal, item: OpenInterrupt, can_use: bool) -> bool:
        expires = item.interrupt.expires_at
        if expires is not None and expires <= self._ports.clock.now():
            return False
        try:
            may_decide(me, item.interrupt, e.Actor(item.execution.user_id), can_use)
        except (Forbidden, NotFound):
            return False
        return True

    # Parts

    async def _machine(self, execution: Execution) -> Machine:
        return await self._plans.machine(execution)

    async def _can_use(self, me: Principal, execution: Execution) -> bool:
        """Whether the caller can use the target. Only the starter can use the assistant or a single action."""
        if execution.resource_id is None:
            return me.user_id == execution.user_id
        resource = await self._ports.storage.find_resource(me.org_uuid, Kind(execution.kind), execution.resource_id)
        try:
            authorize(me, resource, "use")
        except (NotFound, Forbidden):
            return False
        return True

    async def _visible(self, me: Principal, run_id: str) -> tuple[RunRow, Execution, bool]:
        """The run, if the caller started it, can use its target, or is a named approver of it. Else NotFound."""
        found = await self._ports.journal.find_turn(me.org_uuid, run_id) if is_run_id(run_id) else None
        if found is None:
            raise NotFound
        row, execution = found
        can_use = await self._can_use(me, execution)
        if not can_use and me.user_id not in (row.user_id, execution.user_id):
            await self._see_as_approver(me, execution)
        return row, execution, can_use

    async def _see_as_approver(self, me: Principal, execution: Execution) -> None:
        """NotFound unless the run names the caller as an approver, or the caller has decided in it before."""
        waiting = await self._ports.journal.open_interrupts(me.org_uuid, limit=1_000, of=[execution.ref])
        if any(item.interrupt.named and may_see(me, item.interrupt, False) for item in waiting):
            return
        entries = await self._ports.journal.read(execution.ref)
        if any(isinstance(entry, e.Resumed) and entry.by and entry.by.user_id == me.user_id for entry in entries):
            return
        raise NotFound

    async def _listed(self, me: Principal, view: RunView) -> RunView:
        """The view of a run in a list, whole or in outline."""
        whole = view.row.user_id != me.user_id or await self._reads_own(me, view.row)
        return view if whole else outline_of(me, view)

    async def _reads_own(self, me: Principal, row: RunRow) -> bool:
        """Whether the user who began this turn can read its result. Beginning a turn by a decision is not enough."""
        if row.parent_run_id is None:
            return True
        execution = await self._ports.journal.execution(row.execution)
        return may_read(me, execution, await self._can_use(me, execution))

    async def _view(self, me: Principal, row: RunRow, whole: bool) -> RunView:
        (view,) = await views(self._ports.journal, [row])
        return view if whole else outline_of(me, view)


def outline_of(me: Principal, view: RunView) -> RunView:
    """The view of an approver: the open interrupts that it can decide, without the result."""
    own = tuple(one for one in view.interrupts if one.named and may_see(me, one, can_use=False))
    return RunView(attrs.evolve(view.row, result=None), own, is_outline=True)


def may_read(me: Principal, execution: Execution, can_use: bool) -> bool:
    """Whether the caller can read the whole run: it has use, or started the execution. An approver cannot."""
    return can_use or me.user_id == execution.user_id
