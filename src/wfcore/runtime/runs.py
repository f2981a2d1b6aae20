"""Runs: start, read, follow, resume, cancel (interface, Run-resume and Events).

A run is one turn of an execution. Its id is the Idempotency-Key, else the body's `runId`, else new: the same key,
caller, target and body join the run there is, anything else is a Conflict that shows nothing of it.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import attrs

from wfcore.domain.access import Principal
from wfcore.domain.errors import JSON, Conflict, Forbidden, Issue, NotFound, refuse
from wfcore.domain.ids import iso
from wfcore.domain.lifecycle import Operation, move
from wfcore.domain.resources import Kind, Resource
from wfcore.domain.run import entries as e
from wfcore.domain.run.interrupts import check_answer, may_decide
from wfcore.domain.run.machine import Machine
from wfcore.domain.run.plan import Plan
from wfcore.domain.run.state import IllegalEntry, Interrupt, RunStatus
from wfcore.ports.journal import (
    Append,
    Execution,
    ExecutionRef,
    JournalConflict,
    NewExecution,
    RunChange,
    RunExists,
    RunRow,
)
from wfcore.runtime.context import Ports, authorize, conflict, needs
from wfcore.runtime.deploying import deploy_faults, lost_access
from wfcore.runtime.drive import Driver
from wfcore.runtime.plans import Plans
from wfcore.runtime.rows import left_open, new_run, result_of, settled
from wfcore.runtime.run_bodies import carried, check_resume, check_start, used_for
from wfcore.runtime.run_reading import RunReading
from wfcore.runtime.views import RunView, Turn, target_to_wire
from wfcore.runtime.wire import wire_body

__all__ = ["RunView", "Runs"]

NAMES = {"workflow": "workflowId", "skill": "skillId"}
"""Short keyword arguments of the library beside the snake case of the wire names."""

NOTHING: Mapping[str, JSON] = {}

TRIES = 10
"""How often a decision is tried again on a journal that grew meanwhile, before it is a Conflict."""


class Runs(RunReading):
    """The run API (interface, `/agent/v1`)."""

    def __init__(self, ports: Ports, plans: Plans, driver: Driver) -> None:
        super().__init__(ports, plans)
        self._driver = driver

    # Starting

    @needs("workflows:invoke")
    def start(
        self, me: Principal, body: Mapping[str, JSON] | None = None, *, key: str | None = None, **fields: Any
    ) -> Turn:
        """Start a run, or join the one that the same key, caller and body started. Durable when awaited.

        `run_bodies` tells what the body may say. Errors: Invalid, NotFound, Forbidden; Conflict with `info.reason`
        `not_deployed`, `deleted` or `key_reused`.
        """
        return Turn(self._start(me, wire_body(body, fields, NAMES), key), self.batches)

    async def start_slot(self, deployer: Principal, workflow_id: int, run_id: str, slot: datetime) -> RunView:
        """The run that a slot of a schedule starts by itself, as `start` does for who deployed the workflow."""
        data = {"workflowId": workflow_id, "input": {}, "origin": "other"}
        return await self._start(deployer, data, run_id, {"scheduledAt": iso(slot)})

    async def _start(
        self, me: Principal, data: Mapping[str, JSON], key: str | None, more: Mapping[str, JSON] = NOTHING
    ) -> RunView:
        """`more` is what expressions read as `run` beside what the body carries."""
        check_start(data, key)
        own, fingerprint = key or data.get("runId"), used_for(me, "run", data)
        if own and await self._ports.journal.find_run(me.org_uuid, own):
            return await self._join(me, own, fingerprint)
        resource, variation_id, plan, refusal = await self._startable(me, data)
        schema = plan.nodes[plan.start].schema
        if schema is not None:
            refuse(schema.check(data["input"], "input"), as_invalid=True)
        run_id, now = own or self._ports.ids.uuid(), self._ports.clock.now()
        new = NewExecution(me.org_uuid, "workflow", resource.id, variation_id, me.user_id, self._thread_id(me, data))
        machine = Machine(plan, [])
        info = {**_run_info(new), **carried(data), **more}
        actor, limits = e.Actor(me.user_id, me.email), self._ports.settings.limits
        started = e.Started(now, run_id, actor, data["input"], info, limits, refusal)
        machine.apply(started)
        try:
            return await self._begin(new, machine, started, fingerprint)
        except RunExists:
            return await self._join(me, run_id, fingerprint)

    async def _begin(self, new: NewExecution, machine: Machine, started: e.Started, fingerprint: str) -> RunView:
        """Write the first entry. This worker goes on with the run at once if it has a hand free, else it is queued."""
        run_id, now, worker = started.run_id, started.at, self._ports.dispatcher.worker
        if not machine.turn_open:
            run = new_run(machine, new.user_id, fingerprint, None)
            append = settled(machine, 0, (started,), new_run=run)
        else:
            run = new_run(machine, new.user_id, fingerprint, None, queued=worker is None)
            waiting = tuple(machine.interrupts.values())
            append = Append(0, (started,), run, (), waiting, run_id, moves=True, wake_at=now, claimed_by=worker)
        ref = await self._ports.journal.begin(new, append)
        self._shown(ref, machine)
        if machine.turn_open:
            execution = Execution(ref, new.kind, new.resource_id, new.variation_id, new.user_id, new.thread_id,
                                  run_id, 1, worker)  # fmt: skip
            self._go_on(execution, machine)
        finished = None if machine.turn_open else now
        row = RunRow(run_id, ref, new.user_id, fingerprint, run.status, None, None, result_of(machine) or None,
                     now, now, finished, new.kind, new.resource_id, new.thread_id)  # fmt: skip
        return RunView(row, tuple(machine.interrupts.values()))

    def _go_on(self, execution: Execution, machine: Machine) -> None:
        """Drive what was claimed with the append just written; what was claimed for nobody is anybody's."""
        if execution.claimed_by is None:
            self._ports.dispatcher.wake(execution.ref)
        else:
            self._ports.dispatcher.adopt(execution.ref)
            self._driver.warm(execution, machine)

    async def _startable(self, me: Principal, data: Mapping[str, JSON]) -> tuple[Resource, str, Plan, str]:
        """The workflow, the variation that is to run, its plan, and why it has to end in error ("": it need not)."""
        draft = data.get("version") == "draft"
        number = int(data["workflowId"])
        resource = await self._ports.storage.peek(me.org_uuid, Kind.WORKFLOW, number)
        authorize(me, resource, "use")
        assert resource is not None  # noqa: S101  (authorize raised)
        if draft:
            authorize(me, resource, "manage")
        move(resource.status, Operation.RUN_DRAFT if draft else Operation.RUN)
        chosen = (resource.draft_variation_id if draft else None) or resource.active_variation_id or ""
        if not draft:
            plan = await self._plans.get(me.org_uuid, number, chosen)
            if not plan.names_skills:
                return resource, chosen, plan, ""
        async with self._ports.storage.reading(me.org_uuid) as work:
            variation = await work.workflows.variation(number, chosen)
            if variation is None:
                raise NotFound
            if draft:
                refuse(await deploy_faults(self._ports.tools, work, me, variation.content), as_invalid=True)
            refusal = "" if draft else await lost_access(work, me.org_uuid, variation)
            return resource, chosen, self._plans.keep(me.org_uuid, chosen, variation.content), refusal

    async def _join(self, me: Principal, run_id: str, fingerprint: str) -> RunView:
        """The run that the same request made before; anything else shows nothing of it."""
        row = await self._ports.journal.find_run(me.org_uuid, run_id)
        if row is None or row.fingerprint != fingerprint or row.user_id != me.user_id:
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

    # Deciding

    @needs("workflows:invoke")
    def resume(
        self,
        me: Principal,
        run_id: str,
        body: Mapping[str, JSON] | None = None,
        *,
        key: str | None = None,
        **fields: Any,
    ) -> Turn:
        """Carry an interrupted execution on in a new run, with the answers to its open interrupts: all or nothing.

        Errors: Invalid, NotFound, Forbidden; Conflict with `info.reason` `not_interrupted`, `already_resumed`,
        `ambiguous` (with `interruptIds`), `expired` or `key_reused`.
        """
        return Turn(self._resume(me, run_id, wire_body(body, fields), key), self.batches)

    async def _resume(self, me: Principal, run_id: str, data: Mapping[str, JSON], key: str | None) -> RunView:
        check_resume(data, key)
        own = key or (None if data.get("runId") == run_id else data.get("runId"))
        new_id, fingerprint = own or self._ports.ids.uuid(), used_for(me, f"resume {run_id}", data)
        row, execution, can_use = await self._visible(me, run_id)
        if own and await self._ports.journal.find_run(me.org_uuid, own):
            return await self._join(me, own, fingerprint)
        for _ in range(TRIES):
            machine = await self._machine(execution)
            entry = self._resumed(me, row, machine, can_use, data, new_id)
            try:
                return await self._take_over(me, row, execution, machine, entry, fingerprint)
            except JournalConflict:
                continue
            except RunExists:
                return await self._join(me, new_id, fingerprint)
        raise conflict("the run moves on too quickly; try again", "busy")

    def _resumed(
        self, me: Principal, row: RunRow, machine: Machine, can_use: bool, data: Mapping[str, JSON], new_id: str
    ) -> e.Resumed:
        """The entry that the caller asks for, after every check on whether it may."""
        decisions = self._decisions(row, machine, data)
        for decision in decisions:
            interrupt = machine.interrupts[decision.interrupt_id]
            _may_decide(me, interrupt, machine.starter, can_use)
            path = f"decisions[{decisions.index(decision)}]." if "decisions" in data else ""
            check_answer(interrupt, decision, path)
        if not decisions and not can_use:
            raise Forbidden("resuming takes the use of the workflow", {"canUse": False})
        now, actor = self._ports.clock.now(), e.Actor(me.user_id, me.email)
        return e.Resumed(now, new_id, actor, decisions, carried(data) or None)

    async def _take_over(
        self, me: Principal, row: RunRow, execution: Execution, machine: Machine, entry: e.Resumed, fingerprint: str
    ) -> RunView:
        """Write the new turn. Branches under way go on undisturbed; a parked run is claimed for this worker."""
        expected, was_open, worker = machine.length, machine.turn_open, self._ports.dispatcher.worker
        left = left_open(machine)
        machine.sink = []
        _apply(machine, entry)
        old = RunChange(row.id, RunStatus.interrupted, machine.at, left, resumed_by=entry.run_id)
        if not machine.turn_open:
            run = new_run(machine, me.user_id, fingerprint, row.id)
            append = settled(machine, expected, (entry,), new_run=run, changes=(old,))
        else:
            run = new_run(machine, me.user_id, fingerprint, row.id, queued=not was_open and worker is None)
            waiting = tuple(machine.interrupts.values())
            append = Append(expected, (entry,), run, (old,), waiting, entry.run_id, moves=not was_open, wakes=was_open,
                            wake_at=machine.at, claimed_by=None if was_open else worker)  # fmt: skip
        await self._ports.journal.append(execution.ref, append)
        self._shown(execution.ref, machine)
        if machine.turn_open and not was_open:
            self._go_on(attrs.evolve(execution, claimed_by=worker), machine)
        else:
            self._ports.dispatcher.wake(execution.ref)
        return await self._view(await self._ports.journal.find_run(me.org_uuid, entry.run_id) or row)

    def _decisions(self, row: RunRow, machine: Machine, data: Mapping[str, JSON]) -> tuple[e.Decision, ...]:
        """The answers that the body gives, each to an interrupt that is open; a Conflict says why not."""
        _still_the_latest(row, machine)
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
            machine = await self._machine(execution)
            _still_the_latest(row, machine)
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

    def _shown(self, ref: ExecutionRef, machine: Machine) -> None:
        """What was written has events: tell those who listen."""
        events = machine.take_events()
        machine.sink = None
        if events and self._ports.events.wanted(ref):
            self._ports.events.publish(ref, events)


def _still_the_latest(row: RunRow, machine: Machine) -> None:
    if machine.run_id != row.id:
        raise conflict(f"run `{row.id}` was resumed", "already_resumed")


def _apply(machine: Machine, entry: e.Entry) -> None:
    """Apply what a client asked for; what cannot happen in this state is a Conflict."""
    try:
        machine.apply(entry)
    except IllegalEntry as error:
        raise Conflict(str(error), error.info) from None


def _may_decide(me: Principal, interrupt: Interrupt, starter: e.Actor, can_use: bool) -> None:
    """To who sees the run, an interrupt that is not theirs to answer is no secret."""
    try:
        may_decide(me, interrupt, starter, can_use)
    except NotFound:
        raise Forbidden("this is not yours to decide", {"reason": "not_an_approver"}) from None


def _run_info(new: NewExecution) -> dict[str, JSON]:
    """What expressions read as `run`, beside what the machine knows and what the body carries."""
    return {"target": target_to_wire(new.kind, new.resource_id), "threadId": new.thread_id}
