"""Runs: start, read, follow, resume, cancel (interface, Run-resume and Events).

A run is one turn of an execution. Its id is the Idempotency-Key, else the body's `runId`, else new: the same key,
caller, target and body join the run there is, anything else is a Conflict that shows nothing of it.
"""

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from wfcore.domain.kernel.errors import Forbidden, NotFound, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.run import entries as e
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import (
    Append,
    Execution,
    ExecutionRef,
    JournalConflict,
    NewExecution,
    RunChange,
    RunExists,
    RunRow,
    run_info,
)
from wfcore.runtime.agents.attachments import Attachments
from wfcore.runtime.common.authorization import conflict, needs
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.requests import thread_of, wire_body
from wfcore.runtime.common.run_views import RunView, Turn
from wfcore.runtime.execution.append import left_open, new_run, settled
from wfcore.runtime.execution.driver import Driver
from wfcore.runtime.execution.plans import Plans
from wfcore.runtime.runs.bodies import (
    carried,
    carried_on,
    check_action,
    check_chat,
    check_resume,
    check_start,
    used_for,
)
from wfcore.runtime.runs.decisions import answers_of, apply, still_the_latest
from wfcore.runtime.runs.reading import RunReading, may_read, outline_of
from wfcore.runtime.runs.targets import Target, Targets

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
        self._targets = Targets(ports, plans)
        self._attachments = Attachments(ports)

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

    @needs("workflows:invoke")
    def chat(
        self,
        me: Principal,
        skill: int | None = None,
        body: Mapping[str, JSON] | None = None,
        *,
        key: str | None = None,
        **fields: Any,
    ) -> Turn:
        """Tell a skill something, or the assistant: the run that `start` makes of it, and that it joins."""
        return Turn(self._chat(me, skill, wire_body(body, fields), key), self.batches)

    async def _chat(self, me: Principal, skill: int | None, data: Mapping[str, JSON], key: str | None) -> RunView:
        if skill == 0:
            raise NotFound
        check_chat(data, key)
        return await self._start(me, {**data, **({"assistant": True} if skill is None else {"skillId": skill})}, key)

    async def start_for(
        self,
        deployer: Principal,
        workflow_id: int,
        run_id: str,
        given: JSON,
        more: Mapping[str, JSON],
        *,
        mark: bytes | None = None,
    ) -> RunView:
        """The run that a trigger starts by itself, as `start` does for who deployed the workflow.

        `mark` is what it is joined by, where that is not all of its input.
        """
        data = {"workflowId": workflow_id, "input": given, "origin": "other"}
        return await self._start(deployer, data, run_id, more, mark)

    async def _start(
        self,
        me: Principal,
        data: Mapping[str, JSON],
        key: str | None,
        more: Mapping[str, JSON] = NOTHING,
        mark: bytes | None = None,
    ) -> RunView:
        """`more` is what expressions read as `run` beside what the body carries."""
        check_start(data, key, self._ports.settings.attachments)
        own, fingerprint = key or data.get("runId"), mark or used_for(me, "run", data)
        if own and await self._ports.journal.find_run(me.org_uuid, own):
            return await self._join(me, own, fingerprint)
        target, given = await self._targets.of(me, data), data.get("input", {})
        schema = target.plan.nodes[target.plan.start].schema
        if schema is not None:
            refuse(schema.check(given, "input"), as_invalid=True)
        config = await self._targets.config(me.org_uuid, target, data.get("config"))
        attached = await self._attachments.kept(me, data)
        run = self._wanted(me, own, fingerprint, data)
        return await self._launch(me, target, run, given, {**carried(data), **more, **config, **attached})

    @needs("workflows:invoke")
    def act(
        self, me: Principal, body: Mapping[str, JSON] | None = None, *, key: str | None = None, **fields: Any
    ) -> Turn:
        """Run a single action, with the caller's access (interface, Execute a workflow action); else as `start`.

        Errors: Invalid, also for a tool that is not there and for parameters that it does not take; Conflict.
        """
        return Turn(self._act(me, wire_body(body, fields), key), self.batches)

    async def _act(self, me: Principal, data: Mapping[str, JSON], key: str | None) -> RunView:
        check_action(me, data, key)
        own, fingerprint = key or data.get("runId"), used_for(me, "action", data)
        if own and await self._ports.journal.find_run(me.org_uuid, own):
            return await self._join(me, own, fingerprint)
        run = self._wanted(me, own, fingerprint, data)
        readable = {"id": run.id, "userId": me.user_id, "threadId": run.thread_id, **carried(data)}
        target, action, params = await self._targets.action(me.org_uuid, data, readable)
        return await self._launch(me, target, run, params, {**carried(data), "action": action})

    async def _launch(
        self, me: Principal, target: Target, run: "_Wanted", given: JSON, info: Mapping[str, JSON]
    ) -> RunView:
        """Write what was checked; `info` is what expressions read as `run` beside what every run has."""
        new = NewExecution(me.org_uuid, target.kind, target.resource_id, target.variation_id, me.user_id,
                           run.thread_id, target.is_draft)  # fmt: skip
        machine = Machine(target.plan)  # nobody can listen yet to what is not there
        actor, limits = e.Actor(me.user_id, me.email), self._ports.settings.limits
        now, readable = self._ports.clock.now(), {**run_info(new.kind, new.resource_id, new.thread_id), **info}
        started = e.Started(now, run.id, actor, given, readable, limits, target.refusal, run.key)
        machine.apply(started)
        try:
            return await self._begin(new, machine, started, run.fingerprint)
        except RunExists:
            return await self._join(me, run.id, run.fingerprint)

    async def _begin(self, new: NewExecution, machine: Machine, started: e.Started, fingerprint: bytes) -> RunView:
        """Write the first entry. This worker goes on with the run at once if it has a hand free, else it is queued.

        A run that waits at once, or has ended, was never anybody's: that one write is all there is to it.
        """
        now, worker, waiting = started.at, self._ports.dispatcher.worker, tuple(machine.interrupts.values())
        if not machine.turn_open:
            worker, run = None, new_run(machine, new.user_id, fingerprint, None)
            append = settled(machine, 0, (started,), begun=run)
        else:
            run = new_run(machine, new.user_id, fingerprint, None, queued=worker is None)
            append = Append(0, (started,), run, (), waiting, updates_claim=True, wake_at=now, claimed_by=worker)
        ref = await self._ports.journal.begin(new, append)
        execution = Execution(ref, new.kind, new.resource_id, new.variation_id, new.user_id, new.thread_id,
                              run.id, 1, worker)  # fmt: skip
        if machine.turn_open:
            self._go_on(execution, machine)
        return RunView(run.row(execution), waiting)

    def _go_on(self, execution: Execution, machine: Machine) -> None:
        """Drive what was claimed with the append just written; what was claimed for nobody is anybody's."""
        if execution.claimed_by is None:
            self._ports.dispatcher.wake(execution.ref)
        else:
            self._ports.dispatcher.adopt(execution.ref)
            self._driver.warm(execution, machine)

    async def _join(self, me: Principal, run_id: str, fingerprint: bytes) -> RunView:
        """The run that the same request made before; anything else shows nothing of it."""
        row = await self._ports.journal.find_run(me.org_uuid, run_id)
        if row is None or row.fingerprint != fingerprint or row.user_id != me.user_id:
            raise conflict(f"the run id `{run_id}` was used for something else", "key_reused")
        return await self._view(me, row, await self._reads_own(me, row))

    def _wanted(self, me: Principal, own: str | None, fingerprint: bytes, data: Mapping[str, JSON]) -> "_Wanted":
        """A new id is no other run's anywhere; one that a client chose may be, in another organization."""
        new = self._ports.ids.uuid()
        return _Wanted(own or new, fingerprint, self._thread_id(me, data), new if own else "")

    def _thread_id(self, me: Principal, data: Mapping[str, JSON]) -> str:
        """The one that the body names, else a new one."""
        return thread_of(me, data) or "thread_" + self._ports.ids.uuid().replace("-", "")

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
        check_resume(data, key, self._ports.settings.attachments)
        own = key or (None if data.get("runId") == run_id else data.get("runId"))
        new_id, fingerprint = own or self._ports.ids.uuid(), used_for(me, f"resume {run_id}", data)
        row, execution, can_use = await self._visible(me, run_id)
        if own and await self._ports.journal.find_run(me.org_uuid, own):
            return await self._join(me, own, fingerprint)
        for _ in range(TRIES):
            machine = await self._machine(execution)
            entry = await self._resumed(me, row, execution, machine, can_use, data, new_id)
            try:
                return await self._take_over(me, row, execution, machine, entry, fingerprint, can_use)
            except JournalConflict:
                continue
            except RunExists:
                return await self._join(me, new_id, fingerprint)
        raise conflict("the run moves on too quickly; try again", "busy")

    async def _resumed(
        self,
        me: Principal,
        row: RunRow,
        execution: Execution,
        machine: Machine,
        can_use: bool,
        data: Mapping[str, JSON],
        new_id: str,
    ) -> e.Resumed:
        """The entry that the caller asks for, after every check on whether it may."""
        decisions = answers_of(me, row, machine, can_use, data)
        target = Target(execution.kind, machine.plan, execution.resource_id, execution.variation_id)
        config = await self._targets.config(me.org_uuid, target, data.get("config"), machine.info.get("config"))
        attached = await self._attachments.kept(me, data)
        now, actor = self._ports.clock.now(), e.Actor(me.user_id, me.email)
        info = {**carried_on(data, machine.info), **config, **attached}
        return e.Resumed(now, new_id, actor, decisions, info or None)

    async def _take_over(
        self,
        me: Principal,
        row: RunRow,
        execution: Execution,
        machine: Machine,
        entry: e.Resumed,
        fingerprint: bytes,
        can_use: bool,
    ) -> RunView:
        """Write the new turn. Branches under way go on undisturbed; a parked run is claimed for this worker."""
        expected, was_open, worker = machine.length, machine.turn_open, self._ports.dispatcher.worker
        left = left_open(machine)
        machine.sink = []
        apply(machine, entry)
        old = RunChange(row.id, RunStatus.interrupted, machine.at, left, resumed_by=entry.run_id)
        if not machine.turn_open:
            run = new_run(machine, me.user_id, fingerprint, row.id)
            append = settled(machine, expected, (entry,), begun=run, changes=(old,))
        else:
            run = new_run(machine, me.user_id, fingerprint, row.id, queued=not was_open and worker is None)
            waiting = tuple(machine.interrupts.values())
            append = Append(expected, (entry,), run, (old,), waiting, updates_claim=not was_open, wakes=was_open,
                            wake_at=machine.at, claimed_by=None if was_open else worker,
                            records=machine.take_records())  # fmt: skip
        await self._ports.journal.append(execution.ref, append)
        self._shown(execution.ref, machine)
        if machine.turn_open and not was_open:
            self._go_on(attrs.evolve(execution, claimed_by=worker), machine)
        else:
            self._ports.dispatcher.wake(execution.ref)
        view = RunView(run.row(execution), tuple(machine.interrupts.values()))
        return view if may_read(me, execution, can_use) else outline_of(me, view)

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
        if not may_read(me, execution, can_use):
            raise Forbidden("this takes the use of what runs", {"canUse": False})
        for _ in range(TRIES):
            machine = await self._machine(execution)
            still_the_latest(row, machine)
            expected = machine.length
            machine.sink = []
            kind = e.Cancelled if how == "cancel" else e.Paused
            entry = kind(self._ports.clock.now(), e.Actor(me.user_id, me.email))
            apply(machine, entry)
            append = Append(expected, (entry,), wakes=True)
            if not machine.turn_open:
                append = settled(machine, expected, (entry,))
            try:
                await self._ports.journal.append(execution.ref, append)
            except JournalConflict:
                continue
            self._shown(execution.ref, machine)
            self._ports.dispatcher.wake(execution.ref)
            return await self._view(me, await self._ports.journal.find_run(me.org_uuid, run_id) or row, whole=True)
        raise conflict("the run moves on too quickly; try again", "busy")

    def _shown(self, ref: ExecutionRef, machine: Machine) -> None:
        """What was written has events: tell those who listen."""
        events = machine.take_events()
        machine.sink = None
        if events and self._ports.events.has_subscribers(ref):
            self._ports.events.publish(ref, events)


@attrs.frozen
class _Wanted:
    """The run that a request asks for: its id, what it may be joined by, its thread, and what the keys of its effects
    begin with, "" for the id.
    """

    id: str
    fingerprint: bytes
    thread_id: str
    key: str
