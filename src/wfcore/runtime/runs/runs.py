"""Runs: start, read, follow, resume, cancel (interface, Run-resume and Events)."""

from collections.abc import Mapping
from typing import Literal, Unpack

from wfcore.api.runs import ResumeRun, ResumeRunFields
from wfcore.domain.json.values import given
from wfcore.domain.kernel.errors import Conflict, Forbidden
from wfcore.domain.kernel.json_readers import optional_object
from wfcore.domain.resources.access import Principal
from wfcore.domain.run import entries as e
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import Append, Execution, ExecutionRef, JournalConflict, RunChange, RunExists, RunRow
from wfcore.runtime.common.authorization import conflict, needs
from wfcore.runtime.common.bodies import Tree
from wfcore.runtime.common.preconditions import check_match
from wfcore.runtime.common.run_views import RunView, Turn
from wfcore.runtime.execution.append import Projection, left_open, new_run, settled, wake_admitted
from wfcore.runtime.runs.bodies import of_the_client, request_fingerprint, requests_debug, resume_body, run_fields
from wfcore.runtime.runs.decisions import apply, check_latest_turn, decisions_of
from wfcore.runtime.runs.reading import outline_of
from wfcore.runtime.runs.starting import RunStarting
from wfcore.runtime.runs.targets import Target

TRIES = 10
"""How often a decision is retried when the journal has grown meanwhile, before it is a Conflict."""


class Runs(RunStarting):
    """The run API (interface, `/agent/v1`)."""

    @needs("workflows:invoke")
    def resume(
        self,
        me: Principal,
        run_id: str,
        body: ResumeRun | Tree | None = None,
        *,
        key: str | None = None,
        if_match: str | None = None,
        connection: object | None = None,
        **fields: Unpack[ResumeRunFields],
    ) -> Turn:
        """Continue an interrupted execution in a new run, with decisions on its open interrupts: all or none of them.

        With `connection` it is written in the caller's transaction, as by `start`.
        Errors: Invalid, NotFound, Forbidden; Conflict with `info.reason` `not_interrupted`, `already_resumed`,
        `ambiguous` (with `interruptIds`), `expired`, `key_reused`, or `stale` when the ETag of the run's record is not
        in `if_match`.
        """
        if connection is not None:
            resumed = self._within(
                connection, lambda runs: runs.resume(me, run_id, body, key=key, if_match=if_match, **fields)
            )
            return Turn(resumed, self.batches, self._ports.loop)
        return Turn(self._resume(me, run_id, body, fields, key, if_match), self.batches, self._ports.loop)

    async def _resume(
        self,
        me: Principal,
        run_id: str,
        sent: ResumeRun | Tree | None,
        fields: Mapping[str, object],
        key: str | None,
        if_match: str | None,
    ) -> RunView:
        body, tree = resume_body(sent, fields, key, self._ports.settings.attachments)
        chosen = key or (None if body.run_id == run_id else given(body.run_id))
        new_id = chosen or self._ports.ids.uuid()
        fingerprint = request_fingerprint(me, f"resume {run_id}", tree)
        row, execution, can_use = await self._visible(me, run_id)
        if await self._is_begun(me, chosen):
            return await self._join(me, new_id, fingerprint)
        for _ in range(TRIES):
            try:
                await self._check_match(me, run_id, if_match)
                machine = await self._machine(execution)
                row = await self._current(row, machine)
                entry = await self._resume_entry(me, row, execution, machine, can_use, body, tree, new_id)
                return await self._take_over(me, row, execution, machine, entry, fingerprint, can_use, body)
            except JournalConflict:
                continue
            except RunExists:
                return await self._join(me, new_id, fingerprint)
            except Conflict:
                if not await self._is_begun(me, chosen):  # by an equal request, since the first look
                    raise
                return await self._join(me, new_id, fingerprint)
        raise conflict("the run changes too often; try again", "busy")

    async def _current(self, row: RunRow, machine: Machine) -> RunRow:
        """The turn that a request for this one is about: the current one, if only reminders have followed it."""
        if row.id == machine.run_id or row.id not in machine.current_turns:
            return row
        return await self._ports.journal.find_run(row.execution.org, machine.run_id) or row

    async def _resume_entry(
        self,
        me: Principal,
        row: RunRow,
        execution: Execution,
        machine: Machine,
        can_use: bool,
        body: ResumeRun,
        tree: Tree,
        new_id: str,
    ) -> e.Resumed:
        """The entry of the caller's request, after every check."""
        by_right = can_use and not any(one.named for one in machine.interrupts.values())
        delegators = () if by_right else await self._delegators(me, row)
        decisions, behalf = decisions_of(me, row, machine, can_use, body, delegators)
        pinned = machine.pinned[2] if machine.pinned else execution.variation_id
        target = Target(execution.kind, machine.plan, execution.resource_id, pinned)
        config = await self._targets.config(
            me.org_uuid,
            target,
            body.config,
            optional_object(machine.info.get("config")),
            has_agents=machine.has_agents,
        )
        attached = await self._attachments.save(me, body.attachments)
        now, actor = max(self._ports.clock.now(), machine.at), e.Actor(me.user_id, me.email)
        debug = await self._targets.debug(me, target) if requests_debug(body) else {}
        info = {**of_the_client(machine.info), **run_fields(tree), **debug, **config, **attached}
        return e.Resumed(now, new_id, actor, decisions, info or None, behalf)

    async def _take_over(
        self,
        me: Principal,
        row: RunRow,
        execution: Execution,
        machine: Machine,
        entry: e.Resumed,
        fingerprint: bytes,
        can_use: bool,
        body: ResumeRun,
    ) -> RunView:
        """Write the new turn. Active branches continue; a parked run is claimed for this worker."""
        expected, was_open, worker = machine.length, machine.turn_open, self._ports.dispatcher.worker
        left, before = left_open(machine), tuple(machine.interrupts.values())
        self._collect_events(execution.ref, machine)
        apply(machine, entry)
        old = RunChange(row.id, RunStatus.interrupted, machine.at, left, resumed_by=entry.run_id)
        queued = machine.turn_open and not was_open and worker is None
        run = new_run(machine, me.user_id, fingerprint, row.id, queued=queued, origin=given(body.origin) or "api")
        rows = Projection.of(self._ports, execution).rows(machine, before, (entry,), row.id)
        if not machine.turn_open:
            append = settled(machine, expected, (entry,), begun=run, changes=(old,), projected=rows)
        else:
            waiting = tuple(machine.interrupts.values())
            append = Append(expected, (entry,), run, (old,), waiting, updates_claim=not was_open, wakes=was_open,
                            wake_at=0, claimed_by=None if was_open else worker, slots=machine.slots,
                            **rows.fields())  # fmt: skip
        epoch = await self._ports.journal.append(execution.ref, append)
        await self._publish(execution, machine)
        if machine.turn_open and not was_open:
            run = self._drive_claimed(execution, machine, run, worker, epoch)
        else:
            self._ports.dispatcher.wake(execution.ref, machine.length)
        view = RunView(run.row(execution), tuple(machine.interrupts.values()))
        return view if can_use else outline_of(me, view, await self._delegators(me, view.row))

    @needs("workflows:invoke")
    async def cancel(self, me: Principal, run_id: str, *, if_match: str | None = None) -> RunView:
        """Cancel an active or parked run. Conflict when it has already ended, or `stale` as for `resume`."""
        return await self._cancel_or_pause(me, run_id, "cancel", if_match)

    @needs("workflows:invoke")
    async def interrupt(self, me: Principal, run_id: str, *, if_match: str | None = None) -> RunView:
        """Park the run at its next step. A resume without a decision continues it. Conflict as for `cancel`."""
        return await self._cancel_or_pause(me, run_id, "pause", if_match)

    async def _cancel_or_pause(
        self, me: Principal, run_id: str, how: Literal["cancel", "pause"], if_match: str | None
    ) -> RunView:
        row, execution, can_use = await self._visible(me, run_id)
        if not can_use:
            raise Forbidden("this requires use of the run's target", {"canUse": False})
        for _ in range(TRIES):
            await self._check_match(me, run_id, if_match)
            machine = await self._machine(execution)
            row = await self._current(row, machine)
            check_latest_turn(row, machine)
            expected, before = machine.length, tuple(machine.interrupts.values())
            self._collect_events(execution.ref, machine)
            kind = e.Cancelled if how == "cancel" else e.Paused
            entry = kind(max(self._ports.clock.now(), machine.at), e.Actor(me.user_id, me.email))
            apply(machine, entry)
            rows = Projection.of(self._ports, execution).rows(machine, before, (entry,), row.id)
            append = Append(expected, (entry,), wakes=True, audit=rows.audit, notices=rows.notices, slots=machine.slots)
            if not machine.turn_open:
                append = settled(machine, expected, (entry,), projected=rows)
            try:
                await self._ports.journal.append(execution.ref, append)
            except JournalConflict:
                continue
            await self._publish(execution, machine)
            self._ports.dispatcher.wake(execution.ref, machine.length)
            return await self._view(me, await self._ports.journal.find_run(me.org_uuid, run_id) or row, whole=True)
        raise conflict("the run changes too often; try again", "busy")

    async def _check_match(self, me: Principal, run_id: str, if_match: str | None) -> None:
        """Conflict `stale` unless `if_match` has the tag of the record as the caller reads it."""
        if if_match is not None:
            row, _, can_use = await self._visible(me, run_id)
            check_match(if_match, (await self._view(me, row, can_use)).to_wire())

    def _collect_events(self, ref: ExecutionRef, machine: Machine) -> None:
        """Let the machine collect the events of what it applies next, if somebody receives them."""
        machine.sink = [] if self._ports.events.has_subscribers(ref) else None

    async def _publish(self, execution: Execution, machine: Machine) -> None:
        """Publish the events of the last append to subscribers, also to those that came while it was written."""
        wake_admitted(self._ports)
        events, machine.sink = machine.sink, None
        if events is None and self._ports.events.has_subscribers(execution.ref):
            events = []
            await self._plans.machine(execution, events)
        if events:
            self._ports.events.publish(execution.ref, events)
        if not machine.turn_open:
            self._ports.events.settle(execution.ref)
