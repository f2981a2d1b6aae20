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

from wfcore.runtime.triggers.scheduler import MISSED_KEPT, slot_run_id
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
        st.tuples(st.just("roll_back"), st.integers(1, 3)),
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
    due: list[list[datetime]] = attrs.field(factory=lambda: [[]])
    """Those of each schedule that there was."""
    deployed: Any = None
    versions: dict[str, Any] = attrs.field(factory=dict)
    """The triggers of the variations, by their ids."""

    async def pass_time(self, minutes: int) -> None:
        for _ in range(minutes):
            self.at += timedelta(minutes=1)
            if self.is_enabled and is_slot(self.cron, self.at):
                self.due[-1].append(self.at)
        self.bench.clock._now = ms(self.at)  # nobody wakes up

    async def poll(self, _: None = None) -> None:
        """Of what deploys divide, the slots of each schedule are served in a poll of their own."""
        for _again in range(len(self.due) + 1):
            await later(self.bench, 0)
        ran, found = await run_ids(self.bench, self.number), await timer(self.bench, self.number)
        listed = [one.at for one in found.missed] if found else []
        assert listed == sorted(listed)
        for slots in self.due:
            for slot in slots[:-1]:
                assert slot_run_id(self.number, slot) not in ran
            for slot in slots[-1:]:
                assert (slot_run_id(self.number, slot) in ran) is (self.at - slot <= timedelta(hours=1))
        missed = [ms(slot) for slots in self.due for slot in slots if slot_run_id(self.number, slot) not in ran]
        latest = missed[-MISSED_KEPT:]
        assert listed[len(listed) - len(latest) :] == latest
        self.due = [[]]

    async def deploy(self, cron: str) -> None:
        await self._deploy(cron, trigger(cron))

    async def roll_back(self, by: int) -> None:
        """To the variation that was the active one so many deploys ago, as far as there are so many."""
        workflows = self.bench.core.workflows
        *_, chosen = await workflows.variations(self.bench.me, self.number, limit=by + 1)
        if chosen.is_active or not self.is_enabled:
            return
        wanted = self.versions[chosen.id]
        if wanted != self.deployed:
            self.due.append([])
        self.cron, self.deployed = wanted["schedule"]["cron_expressions"][0], wanted
        await workflows.rollback(self.bench.me, self.number, variation_id=chosen.id)

    async def describe(self, _: None) -> None:
        await self._deploy(self.cron, trigger(self.cron, self.at.isoformat()))

    async def _deploy(self, cron: str, wanted: Any) -> None:
        if wanted != self.deployed:
            self.due.append([])
        self.cron, self.deployed = cron, wanted
        await self.bench.core.workflows.patch(self.bench.me, self.number, trigger=wanted)
        view = await self.bench.core.workflows.deploy(self.bench.me, self.number)
        self.versions[view.resource.active_variation_id or ""] = wanted

    async def switch(self, _: None) -> None:
        """What has come before is not due any more."""
        self.due, self.is_enabled = [[]], not self.is_enabled
        await self.bench.core.workflows.toggle(self.bench.me, self.number, is_enabled=self.is_enabled)

    async def delete(self, _: None) -> None:
        self.due, self.is_enabled = [[]], False
        await self.bench.core.workflows.delete(self.bench.me, self.number)
        await self.bench.core.workflows.restore(self.bench.me, self.number)


async def walk(steps: list[tuple[str, Any]], cron: str) -> None:
    async with opened("sqlite://", clock=FakeClock(ms(BEGIN)), worker=False) as bench:
        number, slots = await scheduled(bench, PLAIN, trigger(cron)), set[str]()
        first = (await bench.core.workflows.get(bench.me, number)).resource.active_variation_id or ""
        walked = _Walk(bench, number, cron, deployed=trigger(cron), versions={first: trigger(cron)})
        for step, given_value in [*steps, ("poll", None)]:
            await getattr(walked, step)(given_value)
            slots |= {slot_run_id(number, slot) for of_one in walked.due for slot in of_one}
        assert await run_ids(bench, number) <= slots


@settings(max_examples=60)
@given(STEPS, st.sampled_from(sorted(SCHEDULES)))
async def test_in_any_history(steps: list[tuple[str, Any]], cron: str) -> None:
    """The latest due slot runs, unless it is too old; those before it are missed; no other slot runs."""
    await walk(steps, cron)


@pytest.mark.parametrize("crons", [("30 2 * * *", "*/20 * * * *"), ("*/20 * * * *", "45 * * * *")])
async def test_deploys_between_two_polls(crons: tuple[str, ...]) -> None:
    """The slots of each schedule come in turn: those of the one in the middle, and of the first one that returns."""
    deploys = [step for cron in crons for step in (("pass_time", 50), ("deploy", cron))]
    await walk([*deploys, ("pass_time", 50)], "45 * * * *")


async def test_a_rollback_between_two_polls() -> None:
    """The slots of the schedule that was rolled back run or are missed, and none of the one before it at that time."""
    steps = [("pass_time", 50), ("deploy", "*/20 * * * *"), ("pass_time", 50), ("roll_back", 1), ("pass_time", 50)]
    await walk([*steps, ("roll_back", 1), ("pass_time", 30)], "45 * * * *")
