"""The timer of a workflow's schedule: kept in step with the workflow, and shown (interface, Schedule, `isEnabled`)."""

from datetime import UTC, datetime, timedelta

import attrs

from wfcore.domain.access import Principal
from wfcore.domain.codec import iso_ms
from wfcore.domain.errors import JSON
from wfcore.domain.resources import Change, Resource
from wfcore.domain.schedule import Firing, Schedule, next_fire, next_fires, schedule_of
from wfcore.ports.schedules import Timer
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.context import needs
from wfcore.runtime.resource_base import ResourceBase
from wfcore.runtime.wire import bad_query

MAX_FIRINGS = 100
"""Firings that are told ahead at a time."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@attrs.frozen
class ScheduleView:
    """How a workflow's schedule goes. It fires at the timer's `next_at`; without a timer it is switched off."""

    is_enabled: bool
    timer: Timer | None

    def to_wire(self) -> dict[str, JSON]:
        timer = self.timer or Timer(0, "", None)
        return {
            "isEnabled": self.is_enabled,
            "nextAt": None if timer.next_at is None else iso_ms(timer.next_at),
            "pausedBecause": timer.paused,
            "lastRunId": timer.last_run_id,
            "missed": [{"at": iso_ms(one.at), "reason": one.reason} for one in timer.missed],
        }


class ScheduleUseCases(ResourceBase):
    """The schedule of a workflow. Its switch is `toggle`."""

    @needs("*:read")
    async def next_runs(self, me: Principal, id: int, *, count: int = 10) -> list[Firing]:
        """When the active variation's schedule fires next, switched on or not; at most 100 times. None: no firing."""
        if count < 1:
            raise bad_query("count", "must be at least 1")
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = (await self._authorized(work, me, id, "see")).resource
            schedule = await schedule_in(work, id, resource.active_variation_id)
        return next_fires(schedule, self._ports.now(), min(count, MAX_FIRINGS)) if schedule else []

    @needs("*:read")
    async def schedule(self, me: Principal, id: int) -> ScheduleView:
        """How it goes: the slot it waits for, the run it started last, what it missed, why it switched itself off."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = (await self._authorized(work, me, id, "see")).resource
            return ScheduleView(resource.is_enabled, await work.schedules.get(id))

    async def _save(
        self, work: UnitOfWork, me: Principal, old: Resource, change: Change, *, deployed: bool = False
    ) -> None:
        await super()._save(work, me, old, change, deployed=deployed)
        await keep_timer(work, old, change.resource, self._ports.now())


async def keep_timer(work: UnitOfWork, old: Resource, new: Resource, now: datetime) -> None:
    """Have the timer follow what became of the workflow.

    What is switched off has none; one that paused itself stays to tell why, until it is switched on. Another variation
    with the same schedule fires when the former would have.
    """
    if not new.is_enabled:
        if old.is_enabled:
            await work.schedules.remove(new.id)
        return
    if old.is_enabled and old.active_variation_id == new.active_variation_id:
        return
    timer = await work.schedules.get(new.id) or Timer(new.id, "", None)
    schedule = await schedule_in(work, new.id, new.active_variation_id)
    next_at = timer.next_at
    if next_at is None or schedule != await schedule_in(work, new.id, timer.variation_id):
        next_at = next_slot(schedule, now)
    variation_id = new.active_variation_id or ""
    await work.schedules.put(attrs.evolve(timer, variation_id=variation_id, next_at=next_at, paused=None))


async def schedule_in(work: UnitOfWork, workflow_id: int, variation_id: str | None) -> Schedule | None:
    """The schedule of a variation."""
    variation = await work.workflows.variation(workflow_id, variation_id or "")
    return schedule_of(variation.content["trigger"]) if variation else None


def next_slot(schedule: Schedule | None, after: datetime) -> int | None:
    """The first slot strictly after the time; None when there is none."""
    slot = schedule and next_fire(schedule, after)
    return to_ms(slot) if slot else None


def to_ms(instant: datetime) -> int:
    return (instant - _EPOCH) // _MILLISECOND


def from_ms(ms: int) -> datetime:
    return _EPOCH + ms * _MILLISECOND
