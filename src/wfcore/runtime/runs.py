"""Runs: start, read, follow, resume, cancel (interface, Run-resume and Events).

A run is one turn of an execution. Its id is the Idempotency-Key, else the body's `runId`, else new: the same key,
caller, target and body join the run there is, anything else is a Conflict that shows nothing of it.
"""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Literal

import attrs

from wfcore.domain.access import Principal
from wfcore.domain.codec import check, fingerprint, iso_ms
from wfcore.domain.errors import JSON, Conflict, Forbidden, Issue, NotFound, refuse
from wfcore.domain.ids import is_run_id
from wfcore.domain.lifecycle import Operation, move
from wfcore.domain.resources import Resource, Variation
from wfcore.domain.run import entries as e
from wfcore.domain.run.events import Event
from wfcore.domain.run.interrupts import check_answer, interrupt_to_wire, may_decide, may_see
from wfcore.domain.run.machine import Machine
from wfcore.domain.run.replay import fold
from wfcore.domain.run.state import IllegalEntry, Interrupt, RunStatus
from wfcore.domain.shapes import CreateRun, ResumeRun
from wfcore.ports.journal import (
    Append,
    Execution,
    ExecutionRef,
    JournalConflict,
    NewExecution,
    OpenInterrupt,
    RunChange,
    RunExists,
    RunRow,
)
from wfcore.runtime.context import Ports, authorize, conflict, needs
from wfcore.runtime.drive import Driver
from wfcore.runtime.plans import Plans
from wfcore.runtime.resources import Workflows
from wfcore.runtime.rows import new_run, run_change, settled
from wfcore.runtime.stream import follow
from wfcore.runtime.wire import wire_body

TRIES = 10
"""How often a decision is tried again on a journal that grew meanwhile, before it is a Conflict."""


@attrs.frozen
class RunView:
    """A run as its record shows it. `interrupts` are the open ones."""

    row: RunRow
    interrupts: tuple[Interrupt, ...] = ()

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def status(self) -> RunStatus:
        return self.row.status

    @property
    def output(self) -> JSON:
        return (self.row.result or {}).get("output")

    def to_wire(self) -> dict[str, JSON]:
        row, result = self.row, self.row.result or {}
        waiting = [interrupt_to_wire(interrupt) for interrupt in self.interrupts]
        return {
            "runId": row.id,
            "status": str(row.status),
            "target": target_to_wire(row.kind, row.resource_id),
            "threadId": row.thread_id,
            "parentRunId": row.parent_run_id,
            "resumedBy": row.resumed_by,
            "output": result.get("output"),
            "error": result.get("error"),
            "interrupts": waiting or result.get("interrupts") or [],
            "usage": result.get("usage") or {},
            "createdAt": iso_ms(row.created_at),
            "updatedAt": iso_ms(row.updated_at),
            "finishedAt": None if row.finished_at is None else iso_ms(row.finished_at),
        }


def target_to_wire(kind: str, resource_id: int | None) -> dict[str, JSON]:
    return {"type": kind, "id": resource_id}


@attrs.frozen
class InboxItem:
    """One interrupt that waits for the caller."""

    found: OpenInterrupt

    def to_wire(self) -> dict[str, JSON]:
        execution = self.found.execution
        return {
            **interrupt_to_wire(self.found.interrupt),
            "runId": self.found.run_id,
            "target": target_to_wire(execution.kind, execution.resource_id),
            "threadId": execution.thread_id,
            "createdAt": iso_ms(self.found.interrupt.opened_at),
        }


class Runs:
    """The run API (interface, `/agent/v1`)."""

    area = "workflows"

    def __init__(self, ports: Ports, plans: Plans, driver: Driver, workflows: Workflows) -> None:
        self._ports = ports
        self._plans = plans
        self._driver = driver
        self._workflows = workflows

    # Starting

    @needs("workflows:invoke")
    async def start(
        self, me: Principal, body: Mapping[str, JSON] | None = None, *, key: str | None = None, **fields: Any
    ) -> RunView:
        """Start a run, or join the one that the same key, caller and body started. Durable when this returns."""
        data = wire_body(body, fields, {"workflow": "workflowId", "skill": "skillId"})
        _check_key(key)
        refuse([*check(CreateRun, data), *_target_issues(data)])
        run_id = key or data.get("runId") or self._ports.ids.uuid()
        used_for = _fingerprint(me, "run", {**data, "runId": None})
        resource, variation = await self._startable(me, data, joins=key or data.get("runId"))
        plan = self._plans.keep(me.org_uuid, variation.id, variation.content)
        schema = plan.nodes[plan.start].schema
        if schema is not None:
            refuse(schema.check(data["input"], "input"), as_invalid=True)
        thread_id = self._thread_id(me, data)
        now = self._ports.clock.now()
        machine = Machine(plan, [])
        started = e.Started(now, run_id, e.Actor(me.user_id, me.email), data["input"],
                            _run_info(me, resource, run_id, thread_id, data, now), self._ports.settings.limits)  # fmt: skip
        machine.apply(started)
        new = NewExecution(me.org_uuid, "workflow", resource.id, variation.id, me.user_id, thread_id)
        try:
            ref = await self._ports.journal.begin(new, self._first(machine, started, me, used_for))
        except RunExists:
            return await self._join(me, run_id, used_for)
        self._shown(ref, machine)
        if machine.turn_open:
            execution = Execution(ref, "workflow", resource.id, variation.id, me.user_id, thread_id, run_id, 1)
            self._driver.warm(execution, machine)
            self._ports.dispatcher.adopt(ref)
        row = RunRow(
            run_id, ref, me.user_id, used_for, machine.status, None, None, run_change(machine).result or None, now,
            now, None if machine.turn_open else now, "workflow", resource.id, thread_id,
        )  # fmt: skip
        return RunView(row, tuple(machine.interrupts.values()))

    def _first(self, machine: Machine, started: e.Started, me: Principal, used_for: str) -> Append:
        run = new_run(machine, me.user_id, used_for, None)
        if not machine.turn_open:
            return settled(machine, 0, (started,), new_run=run)
        return Append(
            0,
            (started,),
            run,
            interrupts=tuple(machine.interrupts.values()),
            run_id=machine.run_id,
            moves=True,
            wake_at=machine.at,
            claimed_by=self._ports.dispatcher.worker,
        )

    async def _startable(
        self, me: Principal, data: Mapping[str, JSON], joins: str | None
    ) -> tuple[Resource, Variation]:
        """The workflow and the variation that is to run, after every check on who may and whether it can."""
        draft = data.get("version") == "draft"
        number = int(data["workflowId"])
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = await work.workflows.get(number)
            authorize(me, resource, "use")
            assert resource is not None  # noqa: S101  (authorize raised)
            if draft:
                authorize(me, resource, "manage")
            if not draft and resource.status == "draft":
                raise conflict(f"workflow `{number}` was never deployed", "not_deployed")
            if joins is None or await self._ports.journal.find_run(me.org_uuid, joins) is None:
                move(resource.status, Operation.RUN_DRAFT if draft else Operation.RUN)
            chosen = (resource.draft_variation_id if draft else None) or resource.active_variation_id
            variation = await work.workflows.variation(number, chosen or "")
        if variation is None:
            raise NotFound
        if draft:
            refuse(await self._workflows.content_issues(me, variation.content), as_invalid=True)
        return resource, variation

    async def _join(self, me: Principal, run_id: str, used_for: str) -> RunView:
        """The run that the same request made before; anything else shows nothing of it."""
        row = await self._ports.journal.find_run(me.org_uuid, run_id)
        if row is None or row.fingerprint != used_for or row.user_id != me.user_id:
            raise conflict(f"the run id `{run_id}` was used for something else", "key_reused")
        return await self._view(row)

    def _thread_id(self, me: Principal, data: Mapping[str, JSON]) -> str:
        """`fileThreadId`, else one that the same user's `sessionId` always leads to, else new."""
        if data.get("fileThreadId"):
            return str(data["fileThreadId"])
        if data.get("sessionId"):
            text = "\n".join((me.org_uuid, me.user_id, str(data["sessionId"])))
            return "thread_" + hashlib.sha256(text.encode()).hexdigest()[:32]
        return "thread_" + self._ports.ids.uuid().replace("-", "")

    # Reading

    @needs("workflows:read")
    async def get(self, me: Principal, run_id: str) -> RunView:
        """The run's record."""
        row, _, _ = await self._visible(me, run_id)
        return await self._view(row)

    @needs("workflows:read")
    async def page(
        self,
        me: Principal,
        *,
        limit: int = 25,
        before: tuple[int, str] | None = None,
        status: RunStatus | None = None,
        workflow: int | None = None,
    ) -> list[RunView]:
        """Runs of what the caller can use, and those it started; newest first."""
        resource = None if workflow is None else ("workflow", workflow)
        rows = await self._ports.journal.list_runs(
            me.org_uuid, limit=limit, before=before, status=status, resource=resource, principal=me
        )
        return [RunView(row) for row in rows]

    @needs("workflows:read")
    async def events(self, me: Principal, run_id: str, *, after: int = 0) -> list[Event]:
        """The run's events so far with a `seq` greater than `after`."""
        row, execution, _ = await self._visible(me, run_id)
        events: list[Event] = []
        fold(await self._plans.of(execution), await self._ports.journal.read(execution.ref), events)
        return [event for event in events if event.run_id == row.id and event.seq > after]

    @needs("workflows:read")
    async def follow(self, me: Principal, run_id: str, *, after: int = 0) -> AsyncIterator[Event]:
        """The run's events from `after` on, live, until its terminal one. Every durable event exactly once, in order."""
        row, _, _ = await self._visible(me, run_id)
        return _one_by_one(self.batches(RunView(row), after=after))

    async def batches(self, view: RunView, *, after: int = 0) -> AsyncGenerator[list[Event], None]:
        """As `follow`, what is there at once together. It asks for no principal: who holds a view was let in."""
        execution = await self._ports.journal.execution(view.row.execution)
        plan = await self._plans.of(execution)
        async with aclosing(follow(self._ports, plan, execution.ref, view.id, after)) as found:
            async for events in found:
                yield events

    @needs("workflows:read")
    async def interrupts(self, me: Principal, *, limit: int = 25, after: int = 0) -> tuple[list[InboxItem], int | None]:
        """What waits for the caller's decision, in the order of opening, and where the next page starts."""
        found: list[InboxItem] = []
        usable: dict[tuple[str, int | None], bool] = {}
        while len(found) <= limit:
            batch = await self._ports.journal.open_interrupts(me.org_uuid, limit=limit + 1, after=after)
            for item in batch:
                after = item.key
                target = (item.execution.kind, item.execution.resource_id)
                if target not in usable:
                    usable[target] = await self._can_use(me, item.execution)
                if self._waits_for(me, item, usable[target]):
                    found.append(InboxItem(item))
            if len(batch) <= limit:
                break
        page = found[:limit]
        return page, page[-1].found.key if len(found) > limit else None

    def _waits_for(self, me: Principal, item: OpenInterrupt, can_use: bool) -> bool:
        try:
            may_decide(me, item.interrupt, e.Actor(item.execution.user_id), can_use)
        except (Forbidden, NotFound):
            return False
        return True

    # Deciding

    @needs("workflows:invoke")
    async def resume(
        self, me: Principal, run_id: str, body: Mapping[str, JSON] | None = None, *, key: str | None = None, **fields: Any
    ) -> RunView:
        """Carry an interrupted execution on in a new run, with the answers to its open interrupts."""
        data = wire_body(body, fields)
        _check_key(key)
        refuse([*check(ResumeRun, data), *_decision_issues(data)])
        own = None if data.get("runId") == run_id else data.get("runId")
        new_id = key or own or self._ports.ids.uuid()
        used_for = _fingerprint(me, f"resume {run_id}", {**data, "runId": None})
        row, execution, can_use = await self._visible(me, run_id)
        if (key or own) and (before := await self._ports.journal.find_run(me.org_uuid, new_id)):
            return await self._join(me, before.id, used_for)
        for _ in range(TRIES):
            try:
                return await self._resume_once(me, row, execution, can_use, data, new_id, used_for)
            except JournalConflict:
                row = await self._ports.journal.find_run(me.org_uuid, run_id) or row
            except RunExists:
                return await self._join(me, new_id, used_for)
        raise conflict("the run moves on too quickly; try again", "busy")

    async def _resume_once(
        self, me: Principal, row: RunRow, execution: Execution, can_use: bool, data: Mapping[str, JSON],
        new_id: str, used_for: str,
    ) -> RunView:  # fmt: skip
        machine = await self._machine(execution)
        decisions = self._decisions(row, machine, data)
        for decision in decisions:
            interrupt = machine.interrupts[decision.interrupt_id]
            may_decide(me, interrupt, machine.starter, can_use)
            check_answer(interrupt, decision)
        if not decisions and not can_use:
            raise Forbidden("resuming takes the use of the workflow", {"canUse": False})
        expected, was_open = machine.length, machine.turn_open
        machine.sink = []
        entry = e.Resumed(self._ports.clock.now(), new_id, e.Actor(me.user_id, me.email), decisions)
        _apply(machine, entry)
        run = new_run(machine, me.user_id, used_for, row.id)
        old = RunChange(row.id, RunStatus.interrupted, machine.at, _left_open(machine, row), resumed_by=new_id)
        if not machine.turn_open:
            append = settled(machine, expected, (entry,), new_run=run, changes=(old,))
        else:
            append = Append(
                expected,
                (entry,),
                run,
                (old,),
                tuple(machine.interrupts.values()),
                new_id,
                moves=not was_open,
                wakes=was_open,
                wake_at=machine.at,
                claimed_by=None if was_open else self._ports.dispatcher.worker,
            )
        await self._ports.journal.append(execution.ref, append)
        self._shown(execution.ref, machine)
        if machine.turn_open and not was_open:
            self._driver.warm(execution, machine)
            self._ports.dispatcher.adopt(execution.ref)
        else:
            self._ports.dispatcher.wake(execution.ref)
        found = await self._ports.journal.find_run(me.org_uuid, new_id)
        assert found is not None  # noqa: S101  (it was written a moment ago)
        return await self._view(found)

    def _decisions(self, row: RunRow, machine: Machine, data: Mapping[str, JSON]) -> tuple[e.Decision, ...]:
        """The answers that the body gives, each to an interrupt that is open; a Conflict says why not."""
        if row.resumed_by is not None:
            raise conflict(f"run `{row.id}` was resumed by `{row.resumed_by}`", "already_resumed")
        if machine.ended:
            raise conflict(f"run `{row.id}` has ended as `{machine.status}`", "not_interrupted")
        waiting = machine.interrupts
        if "decisions" in data:
            wanted = [(d["interruptId"], d["decision"], d.get("data")) for d in data["decisions"]]
        elif "decision" in data:
            chosen = data.get("interruptId")
            if chosen is None and len(waiting) > 1:
                raise conflict("several interrupts are open; name one", "ambiguous", interruptIds=list(waiting))
            wanted = [(chosen or next(iter(waiting), None), data["decision"], data.get("data"))]
        elif waiting and not (machine.paused and not machine.turn_open):
            refuse([Issue("decision", "is needed to resume this run", "required_if")])
            return ()
        else:
            wanted = []
        for interrupt_id, _, _ in wanted:
            if interrupt_id is None:
                raise conflict(f"run `{row.id}` waits for no decision", "not_interrupted")
            if interrupt_id not in waiting:
                raise conflict(f"interrupt `{interrupt_id}` is not open", "already_resumed")
        return tuple(e.Decision(str(interrupt_id), decision, form) for interrupt_id, decision, form in wanted)

    @needs("workflows:invoke")
    async def cancel(self, me: Principal, run_id: str) -> RunView:
        """Cancel a run that goes on or is parked. A Conflict when it has ended already."""
        return await self._break_off(me, run_id, "cancel")

    @needs("workflows:invoke")
    async def interrupt(self, me: Principal, run_id: str) -> RunView:
        """Park the run at its next step; it is resumed without a decision."""
        return await self._break_off(me, run_id, "pause")

    async def _break_off(self, me: Principal, run_id: str, how: Literal["cancel", "pause"]) -> RunView:
        row, execution, can_use = await self._visible(me, run_id)
        if not can_use and row.user_id != me.user_id:
            raise Forbidden("this takes the use of the workflow", {"canUse": False})
        for _ in range(TRIES):
            row = await self._ports.journal.find_run(me.org_uuid, run_id) or row
            if row.resumed_by is not None:
                raise conflict(f"run `{run_id}` was resumed by `{row.resumed_by}`", "already_resumed")
            machine = await self._machine(execution)
            expected = machine.length
            machine.sink = []
            kind = e.Cancelled if how == "cancel" else e.Paused
            entry = kind(self._ports.clock.now(), e.Actor(me.user_id, me.email))
            _apply(machine, entry)
            append = Append(expected, (entry,), wakes=True)
            if not machine.turn_open:
                append = settled(machine, expected, (entry,))
            try:
                await self._ports.journal.append(execution.ref, append)
            except JournalConflict:
                continue
            self._shown(execution.ref, machine)
            self._ports.dispatcher.wake(execution.ref)
            return await self._view(await self._ports.journal.find_run(me.org_uuid, run_id) or row)
        raise conflict("the run moves on too quickly; try again", "busy")

    # Parts

    async def _machine(self, execution: Execution) -> Machine:
        return fold(await self._plans.of(execution), await self._ports.journal.read(execution.ref))

    def _shown(self, ref: ExecutionRef, machine: Machine) -> None:
        """What was written has events: tell those who listen."""
        events = machine.take_events()
        machine.sink = None
        if events and self._ports.events.wanted(ref):
            self._ports.events.publish(ref, events)

    async def _can_use(self, me: Principal, execution: Execution) -> bool:
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = await work.workflows.get(execution.resource_id or 0)
        try:
            authorize(me, resource, "use")
        except (NotFound, Forbidden):
            return False
        return True

    async def _visible(self, me: Principal, run_id: str) -> tuple[RunRow, Execution, bool]:
        """A run is seen by who started it, by who can use its workflow, and by the approvers it names."""
        row = await self._ports.journal.find_run(me.org_uuid, run_id) if is_run_id(run_id) else None
        if row is None:
            raise NotFound
        execution = await self._ports.journal.execution(row.execution)
        can_use = await self._can_use(me, execution)
        if not can_use and me.user_id not in (row.user_id, execution.user_id):
            await self._see_as_approver(me, execution)
        return row, execution, can_use

    async def _see_as_approver(self, me: Principal, execution: Execution) -> None:
        """Whoever a run names, or named before, as an approver sees it."""
        waiting = await self._ports.journal.open_interrupts(me.org_uuid, limit=1_000, execution=execution.ref)
        if any(item.interrupt.named and may_see(me, item.interrupt, False) for item in waiting):
            return
        entries = await self._ports.journal.read(execution.ref)
        if any(isinstance(entry, e.Resumed) and entry.by and entry.by.user_id == me.user_id for entry in entries):
            return
        raise NotFound

    async def _view(self, row: RunRow) -> RunView:
        if row.status is RunStatus.interrupted and row.resumed_by is not None:
            return RunView(row)
        if not row.status.under_way and row.status is not RunStatus.interrupted:
            return RunView(row)
        waiting = await self._ports.journal.open_interrupts(row.execution.org, limit=1_000, execution=row.execution)
        return RunView(row, tuple(item.interrupt for item in waiting))


async def _one_by_one(batches: AsyncGenerator[list[Event], None]) -> AsyncIterator[Event]:
    async with aclosing(batches):
        async for events in batches:
            for event in events:
                yield event


def _apply(machine: Machine, entry: e.Entry) -> None:
    """Apply what a client asked for; what cannot happen in this state is a Conflict."""
    try:
        machine.apply(entry)
    except IllegalEntry as error:
        raise Conflict(str(error), error.info) from None


def _left_open(machine: Machine, row: RunRow) -> JSON:
    """The interrupted turn's record keeps what it showed; one that was still going on shows what is open now."""
    if row.status is RunStatus.interrupted:
        return None
    return {"interrupts": [interrupt_to_wire(interrupt) for interrupt in machine.interrupts.values()]}


def _check_key(key: str | None) -> None:
    if key is not None and not is_run_id(key):
        refuse([Issue("Idempotency-Key", "must be 1 to 255 visible ASCII characters", "query")])


def _target_issues(data: Mapping[str, JSON]) -> list[Issue]:
    if "skillId" in data or data.get("assistant"):
        field = "skillId" if "skillId" in data else "assistant"
        return [Issue(field, "runs of skills and of the assistant are not offered by this release", "unsupported")]
    if "workflowId" not in data:
        return [Issue("workflowId", "is required", "required")]
    if "input" not in data:
        return [Issue("input", "is required", "required")]
    return []


def _decision_issues(data: Mapping[str, JSON]) -> list[Issue]:
    if "decisions" in data and ("decision" in data or "interruptId" in data):
        return [Issue("decisions", "stands together with `decision` or `interruptId`", "exclusive")]
    if "interruptId" in data and "decision" not in data:
        return [Issue("decision", "is required with `interruptId`", "required_if")]
    return []


def _fingerprint(me: Principal, target: str, data: Mapping[str, JSON]) -> str:
    return fingerprint([me.user_id, target, dict(data)])


def _run_info(
    me: Principal, resource: Resource, run_id: str, thread_id: str, data: Mapping[str, JSON], now: int
) -> dict[str, JSON]:
    """What expressions read as `run`, the same for the whole execution."""
    carried = {name: data[name] for name in ("origin", "userContext", "message") if name in data}
    return {
        "id": run_id,
        "target": target_to_wire("workflow", resource.id),
        "workflowId": resource.id,
        "threadId": thread_id,
        "userId": me.user_id,
        "startedAt": iso_ms(now),
        **carried,
    }


