"""Reading runs: records, events, what waits for a decision; and who may see which run (interface, Runs and Events)."""

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
from wfcore.runtime.common.run_views import InboxItem, RunView, one_by_one, views
from wfcore.runtime.execution.event_stream import follow, outline, outlined
from wfcore.runtime.execution.plans import Plans


class RunReading:
    """What can be asked about runs."""

    area = "workflows"

    def __init__(self, ports: Ports, plans: Plans) -> None:
        self._ports = ports
        self._plans = plans

    @needs("workflows:read")
    async def get(self, me: Principal, run_id: str) -> RunView:
        """The run's record. To an approver without use it shows his own open interrupts, and not what came of it."""
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
        """Runs of what the caller can use, and those it started; newest first, behind that with the `row.key` `before`.

        Give `workflow`, `skill` or neither.
        """
        resource = ("workflow", workflow) if workflow is not None else None if skill is None else ("skill", skill)
        rows = await self._ports.journal.list_runs(
            me.org_uuid, limit=limit, before=before, status=status, resource=resource, principal=me
        )
        return [await self._listed(me, view) for view in await views(self._ports.journal, rows)]

    @needs("workflows:read")
    async def events(self, me: Principal, run_id: str, *, after: int = 0) -> list[Event]:
        """The run's events so far with a `seq` greater than `after`. Errors as of `followed`."""
        view, events = await self.followed(me, run_id), list[Event]()
        await self._plans.machine(await self._ports.journal.execution(view.row.execution), events)
        own = [event for event in events if event.run_id == view.id]
        return [event for event in (outlined(own) if view.outlined else own) if event.seq > after]

    @needs("workflows:read")
    async def follow(self, me: Principal, run_id: str, *, after: int = 0) -> AsyncIterator[Event]:
        """The run's events from `after` on, live, until its terminal one: every durable event once, in order.

        Errors as of `followed`.
        """
        return one_by_one(self.batches(await self.followed(me, run_id), after=after))

    @needs("workflows:read")
    async def followed(self, me: Principal, run_id: str) -> RunView:
        """The run, for who may follow it: that takes use. An approver without use follows the turns that his own
        answers began, and sees of them that they began and how they ended.

        Errors: NotFound; Forbidden with `info.canUse` false.
        """
        row, execution, can_use = await self._visible(me, run_id)
        whole = may_read(me, execution, can_use)
        if not whole and me.user_id != row.user_id:
            raise Forbidden("reading events takes the use of what runs", {"canUse": False})
        return await self._view(me, row, whole)

    async def batches(self, view: RunView, *, after: int = 0) -> AsyncGenerator[list[Event], None]:
        """As `follow`, what is there at once together. It asks for no principal: who holds a view was let in."""
        execution = await self._ports.journal.execution(view.row.execution)
        told = follow(self._ports, self._plans, execution, view.id, 0 if view.outlined else after)
        async with aclosing(outline(told, after) if view.outlined else told) as found:
            async for events in found:
                yield events

    @needs("workflows:read")
    async def interrupts(self, me: Principal, *, limit: int = 25, after: int = 0) -> tuple[list[InboxItem], int | None]:
        """What waits for the caller's decision, in the order of opening, and where the next page starts."""
        found: list[InboxItem] = []
        usable: dict[tuple[str, int | str], bool] = {}
        while len(found) <= limit:
            batch = await self._ports.journal.open_interrupts(me.org_uuid, limit=limit + 1, after=after)
            for item in batch:
                after = item.key
                target = (item.execution.kind, item.execution.resource_id or item.execution.user_id)
                if target not in usable:
                    usable[target] = await self._can_use(me, item.execution)
                if self._waits_for(me, item, usable[target]):
                    found.append(InboxItem(item))
            if len(batch) <= limit:
                break
        page = found[:limit]
        return page, page[-1].found.key if len(found) > limit else None

    def _waits_for(self, me: Principal, item: OpenInterrupt, can_use: bool) -> bool:
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
        """Runs of the assistant and of single actions are of nobody but who started them."""
        if execution.resource_id is None:
            return me.user_id == execution.user_id
        resource = await self._ports.storage.find_resource(me.org_uuid, Kind(execution.kind), execution.resource_id)
        try:
            authorize(me, resource, "use")
        except (NotFound, Forbidden):
            return False
        return True

    async def _visible(self, me: Principal, run_id: str) -> tuple[RunRow, Execution, bool]:
        """A run is seen by who started it, by who can use its target, and by the approvers it names."""
        found = await self._ports.journal.find_turn(me.org_uuid, run_id) if is_run_id(run_id) else None
        if found is None:
            raise NotFound
        row, execution = found
        can_use = await self._can_use(me, execution)
        if not can_use and me.user_id not in (row.user_id, execution.user_id):
            await self._see_as_approver(me, execution)
        return row, execution, can_use

    async def _see_as_approver(self, me: Principal, execution: Execution) -> None:
        """Whoever a run names, or named before, as an approver sees it."""
        waiting = await self._ports.journal.open_interrupts(me.org_uuid, limit=1_000, of=[execution.ref])
        if any(item.interrupt.named and may_see(me, item.interrupt, False) for item in waiting):
            return
        entries = await self._ports.journal.read(execution.ref)
        if any(isinstance(entry, e.Resumed) and entry.by and entry.by.user_id == me.user_id for entry in entries):
            return
        raise NotFound

    async def _listed(self, me: Principal, view: RunView) -> RunView:
        """One of a list, which shows runs of what the caller can use, and those it began."""
        whole = view.row.user_id != me.user_id or await self._reads_own(me, view.row)
        return view if whole else outline_of(me, view)

    async def _reads_own(self, me: Principal, row: RunRow) -> bool:
        """Whether who began this turn reads what came of it: beginning one by an answer gives no right to."""
        if row.parent_run_id is None:
            return True
        execution = await self._ports.journal.execution(row.execution)
        return may_read(me, execution, await self._can_use(me, execution))

    async def _view(self, me: Principal, row: RunRow, whole: bool) -> RunView:
        (view,) = await views(self._ports.journal, [row])
        return view if whole else outline_of(me, view)


def outline_of(me: Principal, view: RunView) -> RunView:
    """What an approver sees of a run: his own open interrupts, and not what came of it."""
    own = tuple(one for one in view.interrupts if one.named and may_see(me, one, can_use=False))
    return RunView(attrs.evolve(view.row, result=None), own, outlined=True)


def may_read(me: Principal, execution: Execution, can_use: bool) -> bool:
    """Whether the caller reads all of it: with use, or having started it. Naming an approver gives no such right."""
    return can_use or me.user_id == execution.user_id
