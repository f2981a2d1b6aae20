"""No slot is lost: each one runs or is listed as missed, whatever happens to the workflow at that time."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import attrs
import pytest
from bench import Bench, opened
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling import PLAIN, later, ms, run_ids, scheduled, timer

from wfcore.runtime.triggers.scheduler import slot_run_id
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

BERLIN: Final = ZoneInfo("Europe/Berlin")
BEGIN: Final = datetime(2026, 10, 24, 22, 30, tzinfo=UTC)
"""Two and a half hours before clocks go back: 02:00 to 03:00 comes twice."""

REPEATED: Final = datetime(2026, 10, 25, 1, tzinfo=UTC), datetime(2026, 10, 25, 2, tzinfo=UTC)
"""The second time."""

SCHEDULES: Final[dict[str, Callable[[datetime], bool]]] = {
    "*/20 * * * *": lambda wall: wall.minute % 20 == 0,
    "45 * * * *": lambda wall: wall.minute == 45,
    "*/15 1-3 * * *": lambda wall: wall.minute % 15 == 0 and 1 <= wall.hour <= 3,
    "30 2 * * *": lambda wall: (wall.hour, wall.minute) == (2, 30),
}
"""Expressions, and what they mean for a wall time."""


def trigger(cron: str, description: str = "") -> dict[str, Any]:
    fields = {"frequency": "custom", "timezone": "Europe/Berlin", "cron_expressions": [cron]}
    return {"trigger_type": "schedule", "overlap": "allow", "schedule": {**fields, "cron_description": description}}


def is_slot(cron: str, at: datetime) -> bool:
    """A schedule of certain hours has no slot when the clock shows them for the second time."""
    again = REPEATED[0] <= at < REPEATED[1] and cron.split()[1] != "*"
    return not again and SCHEDULES[cron](at.astimezone(BERLIN))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass_time"), st.integers(1, 50)),
        st.tuples(st.just("deploy"), st.sampled_from(sorted(SCHEDULES))),
        st.tuples(st.sampled_from(["poll", "describe", "switch", "delete"]), st.none()),
    ),
    max_size=25,
)


@attrs.define
class _Walk:
    """An enabled workflow, and the slots that have come since the last poll."""

    bench: Bench
    number: int
    cron: str
    at: datetime = BEGIN
    is_enabled: bool = True
    due: list[datetime] = attrs.field(factory=list)
    is_new: bool = False
    """Whether the schedule was replaced since the last poll."""

    async def pass_time(self, minutes: int) -> None:
        for _ in range(minutes):
            self.at += timedelta(minutes=1)
            if self.is_enabled and is_slot(self.cron, self.at):
                self.due.append(self.at)
        self.bench.clock._now = ms(self.at)  # nobody wakes up

    async def poll(self, _: None = None) -> None:
        """Of what a deploy divides, the slots before it are served first."""
        for _again in range(2):
            await later(self.bench, 0)
        ran, found = await run_ids(self.bench, self.number), await timer(self.bench, self.number)
        missed = {one.at for one in found.missed} if found else set()
        for slot in self.due:
            assert (slot_run_id(self.number, slot) in ran) is not (ms(slot) in missed)
        for slot in self.due[-1:]:
            assert (slot_run_id(self.number, slot) in ran) is (self.at - slot <= timedelta(hours=1))
        self.due, self.is_new = [], False

    async def deploy(self, cron: str) -> None:
        if self.is_new:
            await self.poll()
        self.is_new, self.cron = cron != self.cron, cron
        await self._deploy(trigger(cron))

    async def describe(self, _: None) -> None:
        if self.is_new:
            await self.poll()
        self.is_new = True
        await self._deploy(trigger(self.cron, self.at.isoformat()))

    async def _deploy(self, wanted: Any) -> None:
        await self.bench.core.workflows.patch(self.bench.me, self.number, trigger=wanted)
        await self.bench.core.workflows.deploy(self.bench.me, self.number)

    async def switch(self, _: None) -> None:
        """What has come before is not due any more."""
        self.due, self.is_enabled = [], not self.is_enabled
        await self.bench.core.workflows.toggle(self.bench.me, self.number, is_enabled=self.is_enabled)

    async def delete(self, _: None) -> None:
        self.due, self.is_enabled = [], False
        await self.bench.core.workflows.delete(self.bench.me, self.number)
        await self.bench.core.workflows.restore(self.bench.me, self.number)


@settings(max_examples=60)
@given(STEPS, st.sampled_from(sorted(SCHEDULES)))
async def test_in_any_history(steps: list[tuple[str, Any]], cron: str) -> None:
    """The latest due slot runs, unless it is too old; those before it are missed; no other slot runs."""
    async with opened("sqlite://", clock=FakeClock(ms(BEGIN)), worker=False) as bench:
        walk, slots = _Walk(bench, await scheduled(bench, PLAIN, trigger(cron)), cron), set[str]()
        for step, given_value in [*steps, ("poll", None)]:
            await getattr(walk, step)(given_value)
            slots |= {slot_run_id(walk.number, slot) for slot in walk.due}
        assert await run_ids(bench, walk.number) <= slots
