"""The scheduler: each slot of a schedule starts one run, however many processes try.

A slot's run has the id `schedule-<workflow>-<minute>`. So a slot fires once, in any number of processes and after a
crash of any of them. The timer is advanced afterwards, by compare-and-set. The run starts with the current access of
the member who deployed the workflow, the input `{}` and `run.scheduledAt`.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from wfcore.domain.json.codec import from_ms, to_ms
from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, NotFound
from wfcore.domain.kernel.ids import iso
from wfcore.domain.projections.notices import Notice
from wfcore.domain.resources import resource as rules
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.resource import Variation
from wfcore.domain.run.state import RunStatus
from wfcore.domain.triggers.schedule import Overlap, Schedule, has_zone, last_fires, overlap_of, schedule_of
from wfcore.ports.journal import RunFilter
from wfcore.ports.repositories.schedules import DueTimer, Missed, MissReason, Pause, Timer
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.audit import audit
from wfcore.runtime.common.polling import ALL, CHECK_INTERVAL, LATEST, Poller, SetBacks
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.organization.directory import deployer_of
from wfcore.runtime.resources.schedules import next_slot, schedule_of_variation
from wfcore.runtime.runs.runs import Runs

log = logging.getLogger("wfcore.scheduler")

BATCH: Final = 100
"""The most timers that one poll serves, and the most that it checks after a start."""

MISSED_KEPT: Final = 20
"""How many of the latest missed slots a timer keeps."""

_ACTIVE: Final = (RunStatus.queued, RunStatus.running)
"""A queued run can become a running one, so it is looked for first."""


class Scheduler:
    """Serves the timers of every organization, concurrently with other processes."""

    def __init__(self, ports: Ports, runs: Runs) -> None:
        self._ports = ports
        self._runs = runs
        self._poller = Poller(ports.clock, ports.outage, self.fire_due, "due schedules")
        self._set_backs = SetBacks(ports.clock)
        self._found: list[DueTimer] = []
        """The timers that there were when they were listed, without those that were checked since."""
        self._listed_at: int | None = None

    def start(self) -> None:
        """Start polling for due timers."""
        self._poller.start()

    async def stop(self) -> None:
        """Stop polling. Interrupted work stays due."""
        await self._poller.stop()

    async def fire_due(self) -> None:
        """Serve the timers that are due now. A timer that fails stays due and does not delay others."""
        since = self._set_backs.since()
        if since is not None:
            await self._set_timers_back(from_ms(since - 1))
        due = await self._ports.storage.due_timers(self._ports.clock.now(), limit=BATCH)
        await asyncio.gather(*(self._try(one) for one in due))
        await self._check_found()

    async def _set_timers_back(self, since: datetime) -> None:
        """Set timers that are later than the next slot to it: they were advanced by a wall clock that was ahead.

        A slot that comes again has its run already, and starts no other.
        """
        for due in await self._ports.storage.due_timers(LATEST, limit=ALL):
            await self._set_back(due, since)

    async def _check_found(self) -> None:
        """Set back timers that a process whose clock was ahead has left: some with each poll, to delay no slot."""
        moment = self._ports.clock.monotonic()
        if self._listed_at is None or moment - self._listed_at >= CHECK_INTERVAL:
            self._found = list(await self._ports.storage.due_timers(LATEST, limit=ALL))
            self._listed_at = moment
        now = self._ports.now()
        for due in self._found[:BATCH]:
            await self._set_back(due, now)
        del self._found[:BATCH]

    async def _set_back(self, due: DueTimer, since: datetime) -> None:
        read = await self._read(due, from_ms(LATEST))
        first = None if read is None else next_slot(read.timed, since)
        if read is not None and first is not None and first < read.first:
            await self._advance(due, read.timer, attrs.evolve(read.timer, next_at=first))

    async def _try(self, due: DueTimer) -> None:
        try:
            await self._serve(due)
        except Exception as error:  # noqa: BLE001 - logged
            self._ports.outage.failed(
                log, "a schedule could not fire", error, organization=due.org, workflow=due.workflow_id
            )

    async def _serve(self, due: DueTimer) -> None:
        """Fire the latest due slot, record earlier ones as missed, and advance the timer to the next slot."""
        now = self._ports.now()
        read = await self._read(due, now)
        if read is None:
            return
        if read.schedule is not None and not has_zone(read.schedule):
            pause = Pause(
                "unknown_timezone", f"this installation does not know the time zone `{read.schedule.timezone}`"
            )
            await self._advance(due, read.timer, _paused(read.timer, from_ms(read.first), pause))
            return
        timer = read.timer_after(now)
        *before, latest = read.slots(now) or (None,)
        for slot in before:
            timer = await self._used_slot(read, timer, slot) or _missed(timer, slot, "late")
        if latest is not None:
            timer = await self._used_slot(read, timer, latest) or await self._fire(read, timer, latest)
        await self._advance(due, read.timer, timer)

    async def _read(self, due: DueTimer, now: datetime) -> "_DueSchedule | None":
        async with self._ports.storage.reading(due.org) as work:
            timer = await work.schedules.get(due.workflow_id)
            if timer is None or timer.next_at is None or timer.next_at > to_ms(now):
                return None
            resource = await work.workflows.get(due.workflow_id)
            active_id = resource.active_variation_id if resource else None
            variation = await work.workflows.variation(due.workflow_id, active_id or "")
            if variation is None:
                return None
            later = await _successors(work, timer)
            timed = schedule_of(variation.workflow.trigger)
            if later:
                timed = await schedule_of_variation(work, due.workflow_id, timer.variation_id)
            deployer = await deployer_of(work, due.org, variation)
        return _DueSchedule(due.org, timer, timer.next_at, variation, later, timed, deployer)

    async def _used_slot(self, read: "_DueSchedule", timer: Timer, slot: datetime) -> Timer | None:
        """The timer after a slot whose run id is used, by its own run or by another one. None while the id is free."""
        run_id = slot_run_id(timer.workflow_id, slot)
        row = await self._ports.journal.find_run(read.org, run_id)
        if row is None:
            return None
        genuine = row.resource_id == timer.workflow_id and row.root_started_by == "schedule"
        return _ran(timer, slot) if genuine else _missed(timer, slot, "refused")

    async def _fire(self, read: "_DueSchedule", timer: Timer, slot: datetime) -> Timer:
        """The timer after a slot: with the started run, or with the reason why there is none."""
        if self._ports.now() - slot > timedelta(seconds=self._ports.settings.catch_up):
            return _missed(timer, slot, "late")
        if read.overlap == "skip" and await self._has_active_run(read.org, timer.workflow_id):
            # Another process can have started the run of this very slot since it was looked for.
            return await self._used_slot(read, timer, slot) or _missed(timer, slot, "overlap")
        if read.deployer is None:
            return _paused(timer, slot, Pause("deployer_gone", "the deployer of this workflow is no longer a member"))
        run_id = slot_run_id(timer.workflow_id, slot)
        try:
            more = {"scheduledAt": iso(slot)}
            await self._runs.start_for(read.deployer, timer.workflow_id, run_id, {}, more, by="schedule")
        except (NotFound, Forbidden):
            pause = Pause("deployer_lost_access", "the deployer of this workflow can no longer use it")
            return _paused(timer, slot, pause)
        except Invalid as error:
            message = f"the workflow refuses the input `{{}}` of scheduled runs: {error.message}"
            return _paused(timer, slot, Pause("input_refused", message))
        except Conflict:  # another process can have started it since, for the deployer before or after
            return await self._used_slot(read, timer, slot) or _missed(timer, slot, "refused")
        return _ran(timer, slot)

    async def _has_active_run(self, org: str, workflow_id: int) -> bool:
        """Whether a run that a slot of this workflow started, or a later turn of one, is queued or running."""
        for status in _ACTIVE:
            where = RunFilter(status, "workflow", workflow_id, root_started_by="schedule")
            if await self._ports.journal.list_runs(org, limit=1, where=where):
                return True
        return False

    async def _advance(self, due: DueTimer, read: Timer, served: Timer) -> None:
        """Write the timer, unless another process has changed it since it was read."""
        async with self._ports.storage.transaction(due.org) as work:
            if await work.schedules.get(due.workflow_id) != read:
                return
            await work.schedules.put(served)
            if served.paused is not None:
                await self._disable(work, due.workflow_id, served.paused)

    async def _disable(self, work: UnitOfWork, workflow_id: int, pause: Pause) -> None:
        workflow = await work.workflows.get(workflow_id)
        if workflow is None:
            return
        now = self._ports.now()
        off = rules.toggle(workflow, True, is_enabled=False, now=now).resource
        await work.workflows.save(workflow, off)
        await audit(work, None, now, workflow.kind, "pause", str(workflow_id), attrs.asdict(pause))
        handlers = self._ports.handlers.by_event.get("schedule.paused", ())
        paused = Notice("schedule.paused", to_ms(now), "workflow", workflow_id, "", status=pause.reason,
                        handlers=handlers)  # fmt: skip
        await work.deliveries.add([paused])


def slot_run_id(workflow_id: int, slot: datetime) -> str:
    """The id of the run that a slot starts: `schedule-7-20260131T0930Z`."""
    return f"schedule-{workflow_id}-{slot:%Y%m%dT%H%MZ}"


async def _successors(work: UnitOfWork, timer: Timer) -> list[Variation]:
    """The variations that followed that of the timer, each with the time of that deploy."""
    found = [(await work.workflows.variation(timer.workflow_id, one.variation_id), one.at) for one in timer.later]
    return [attrs.evolve(one, deployed_at=from_ms(at)) for one, at in found if one is not None]


@attrs.frozen
class _DueSchedule:
    """A due timer with the active variation and its deployer, from one snapshot.

    `timed` is the schedule of the timer, whose slots are due. If it was replaced after one of them was due, `later` are
    the variations since, whose own slots follow.
    """

    org: str
    timer: Timer
    first: int
    active: Variation
    later: Sequence[Variation]
    timed: Schedule | None
    deployer: Principal | None

    @property
    def schedule(self) -> Schedule | None:
        return schedule_of(self.active.workflow.trigger)

    @property
    def overlap(self) -> Overlap:
        return overlap_of(self.active.workflow.trigger)

    def slots(self, now: datetime) -> list[datetime]:
        """The latest due slots since the one that the timer was set to, in order."""
        after = from_ms(self.first - 1)
        return last_fires(self.timed, after, self._end(now), MISSED_KEPT) if self.timed else []

    def timer_after(self, now: datetime) -> Timer:
        """The timer after these slots: of the first later variation that had a slot before the next one replaced it."""
        after, (*replaced, last) = self._end(now), self.later or [self.active]
        for number, (one, end) in enumerate(zip(replaced, self._ends(1), strict=True), 1):
            first = next_slot(schedule_of(one.workflow.trigger), after)
            if first is not None and first <= to_ms(end):
                return attrs.evolve(self.timer, variation_id=one.id, next_at=first, later=self.timer.later[number:])
            after = end
        next_at = next_slot(schedule_of(last.workflow.trigger), after)
        return attrs.evolve(self.timer, variation_id=last.id, next_at=next_at, later=())

    def _end(self, now: datetime) -> datetime:
        """Until when the slots are due: a schedule that was replaced has none after the deploy."""
        return min([now, *self._ends(0)[:1]])

    def _ends(self, number: int) -> list[datetime]:
        """When the later variations were deployed, without the first `number`."""
        return [one.deployed_at for one in self.later[number:] if one.deployed_at is not None]


def _ran(timer: Timer, slot: datetime) -> Timer:
    run_id = slot_run_id(timer.workflow_id, slot)
    return attrs.evolve(timer, last_run_id=run_id, missed=tuple(_other_missed(timer, slot)))


def _missed(timer: Timer, slot: datetime, reason: MissReason) -> Timer:
    missed = sorted([*_other_missed(timer, slot), Missed(to_ms(slot), reason)], key=lambda one: one.at)
    return attrs.evolve(timer, missed=tuple(missed[-MISSED_KEPT:]))


def _other_missed(timer: Timer, slot: datetime) -> Iterator[Missed]:
    """A slot that comes twice by the wall clock has the later outcome."""
    return (one for one in timer.missed if one.at != to_ms(slot))


def _paused(timer: Timer, slot: datetime, pause: Pause) -> Timer:
    return attrs.evolve(_missed(timer, slot, "refused"), next_at=None, paused=pause)
