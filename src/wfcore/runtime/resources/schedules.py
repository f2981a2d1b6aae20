"""The timer of a workflow's schedule: updated with the workflow, and read (interface, Schedule, `isEnabled`)."""

import asyncio
from datetime import datetime

import attrs

from wfcore.domain.json.codec import iso_ms, to_ms
from wfcore.domain.kernel.errors import Issue, refuse
from wfcore.domain.kernel.ids import iso
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal, derive
from wfcore.domain.resources.lifecycle import REASONS, Status
from wfcore.domain.resources.resource import Change, Resource
from wfcore.domain.triggers.schedule import (
    Firing,
    Overlap,
    Schedule,
    has_zone,
    next_fire,
    next_fires,
    overlap_of,
    schedule_of,
)
from wfcore.ports.repositories.schedules import Successor, Timer
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.requests import bad_query
from wfcore.runtime.resources.base import ResourceBase, ResourceView

MAX_FIRINGS = 100
"""The most future firings that one call returns."""

MAX_SUCCESSORS = 100
"""As many of the latest deploys are kept of those that come while a timer is due."""


@attrs.frozen
class ScheduleView:
    """The state of a workflow's schedule. It fires at the timer's `next_at`; without a timer it is disabled."""

    resource: Resource
    has_schedule: bool
    overlap: Overlap
    timer: Timer | None

    @property
    def is_enabled(self) -> bool:
        return self.resource.is_enabled

    @property
    def paused(self) -> tuple[str, str] | None:
        """Why nothing will fire, as a reason code and a message; None when a slot is due in the future."""
        if self.resource.status is not Status.ACTIVE:
            return REASONS[self.resource.status], f"the workflow is `{self.resource.status}`"
        if not self.has_schedule:
            return "no_schedule", "the active variation has no schedule"
        if self.timer is not None and self.timer.paused is not None:
            return self.timer.paused.reason, self.timer.paused.message
        if not self.is_enabled:
            return "disabled", "the schedule is disabled"
        if self.timer is None or self.timer.next_at is None:
            return "never_fires", "the schedule has no future slot"
        return None

    def to_wire(self) -> dict[str, JSON]:
        timer = self.timer or Timer(0, "", None)
        return {
            "isEnabled": self.is_enabled,
            "nextAt": None if timer.next_at is None else iso_ms(timer.next_at),
            "paused": self.paused and dict(zip(("reason", "message"), self.paused, strict=True)),
            "overlap": self.overlap,
            "lastRunId": timer.last_run_id,
            "missed": [{"at": iso_ms(one.at), "reason": one.reason} for one in timer.missed],
        }


@attrs.frozen
class ScheduledWorkflow:
    """An active workflow with a schedule, in a list: its state and next times."""

    workflow: ResourceView
    schedule: ScheduleView
    next_runs: list[Firing]

    @property
    def id(self) -> int:
        return self.workflow.id

    def to_wire(self) -> dict[str, JSON]:
        one = self.workflow
        head: dict[str, JSON] = {"id": one.id, "slug": one.slug, "name": one.name, "canManage": one.access.can_manage}
        return {**head, **self.schedule.to_wire(), "nextRuns": [firing_to_wire(each) for each in self.next_runs]}


class ScheduleUseCases(ResourceBase):
    """The schedules of workflows. `toggle` enables and disables one."""

    @needs("*:read")
    async def schedules(
        self, me: Principal, *, limit: int = 25, after: int = 0, count: int = 10
    ) -> list[ScheduledWorkflow]:
        """The active workflows with a schedule that the principal can use or manage, by id ascending.

        `count`: how many of the next times of each are computed, enabled or not; from 1 to 100.
        """
        if count < 1:
            raise bad_query("count", "must be at least 1")
        async with self._ports.storage.reading(me.org_uuid) as work:
            found = await self._page(work, me, limit, after, status=Status.ACTIVE.value, scheduled=True)
            states = [(one, *await _state(work, one)) for one in found]
        now = self._ports.now()
        return [
            ScheduledWorkflow(
                ResourceView(one, derive(me, one.access)),
                state,
                await _next_fires(schedule, now, min(count, MAX_FIRINGS)),
            )
            for one, state, schedule in states
        ]

    @needs("*:read")
    async def next_runs(self, me: Principal, id: int, *, count: int = 10) -> list[Firing]:
        """The next times of the active variation's schedule, enabled or not; at most 100."""
        if count < 1:
            raise bad_query("count", "must be at least 1")
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = (await self._authorized(work, me, id, "see")).resource
            schedule = await schedule_of_variation(work, id, resource.active_variation_id)
        return await _next_fires(schedule, self._ports.now(), min(count, MAX_FIRINGS))

    @needs("*:read")
    async def schedule(self, me: Principal, id: int) -> ScheduleView:
        """Its state: the next slot or why there is none, the latest run, the missed slots."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            return (await _state(work, (await self._authorized(work, me, id, "see")).resource))[0]

    async def _save(
        self, work: UnitOfWork, me: Principal, old: Resource, change: Change, *, deployed: bool = False
    ) -> None:
        await super()._save(work, me, old, change, deployed=deployed)
        await update_timer(work, old, change.resource, self._ports.now())


async def update_timer(work: UnitOfWork, old: Resource, new: Resource, now: datetime) -> None:
    """Update the timer after a change of the workflow.

    A schedule that a user disables loses its timer; one that was paused automatically keeps it, with the reason, until
    it is enabled. A new variation with the same schedule keeps the next slot. With another schedule a timer that is due
    stays as it is: the scheduler serves the slots from before the deploy, and goes on with the schedules after it.
    """
    if not new.is_enabled:
        if old.is_enabled:
            await work.schedules.remove(new.id)
        return
    if old.is_enabled and old.active_variation_id == new.active_variation_id:
        return
    timer, variation_id = await work.schedules.get(new.id) or Timer(new.id, "", None), new.active_variation_id or ""
    schedule = await schedule_of_variation(work, new.id, new.active_variation_id)
    if schedule is not None and not has_zone(schedule):
        message = f"`{schedule.timezone}` is not an IANA time zone that this installation knows"
        refuse([Issue("trigger.schedule.timezone", message, "timezone")])
    is_same = timer.variation_id == old.active_variation_id and schedule == await schedule_of_variation(
        work, new.id, timer.variation_id
    )
    next_at = timer.next_at
    if next_at is None or not is_same:
        if next_at is not None and next_at <= to_ms(now):
            later = (*timer.later, Successor(variation_id, to_ms(now)))[-MAX_SUCCESSORS:]
            await work.schedules.put(attrs.evolve(timer, later=later))
            return
        next_at = next_slot(schedule, now)
    await work.schedules.put(Timer(new.id, variation_id, next_at, None, timer.last_run_id, timer.missed))


async def _state(work: UnitOfWork, workflow: Resource) -> tuple[ScheduleView, Schedule | None]:
    active = await work.workflows.variation(workflow.id, workflow.active_variation_id or "")
    trigger = active.workflow.trigger if active else None
    schedule, timer = schedule_of(trigger), await work.schedules.get(workflow.id)
    return ScheduleView(workflow, schedule is not None, overlap_of(trigger), timer), schedule


async def _next_fires(schedule: Schedule | None, now: datetime, count: int) -> list[Firing]:
    """In a thread: a hundred times of one schedule take some 20 ms."""
    return await asyncio.to_thread(next_fires, schedule, now, count) if schedule else []


def firing_to_wire(firing: Firing) -> dict[str, JSON]:
    return {"at": iso(firing.at), "local": firing.local, "note": firing.note}


async def schedule_of_variation(work: UnitOfWork, workflow_id: int, variation_id: str | None) -> Schedule | None:
    """The schedule of a variation."""
    variation = await work.workflows.variation(workflow_id, variation_id or "")
    return schedule_of(variation.workflow.trigger) if variation else None


def next_slot(schedule: Schedule | None, after: datetime) -> int | None:
    """The first slot strictly after the time; None when there is none."""
    slot = schedule and next_fire(schedule, after)
    return to_ms(slot) if slot else None
