"""Shared by the tests of schedules: enabled workflows, and the passing of time."""

from datetime import UTC, datetime, timedelta
from typing import Any

from bench import Bench, act, one

from wfcore.ports.repositories.schedules import Timer
from wfcore.runtime.common.run_views import RunView
from wfcore.testing.fakes import NOON

MINUTE, HOUR, DAY = 60, 3_600, 86_400
PLAIN = one(act("echo", value="{{ run.scheduledAt }}"))
HOLD = one(act("hold", name="it"))


def schedule(*cron: str) -> dict[str, Any]:
    expressions = {"cron_expressions": list(cron), "cron_description": "c"}
    return {"trigger_type": "schedule", "schedule": {"frequency": "custom", "timezone": "UTC", **expressions}}


HOURLY, MINUTELY = schedule("0 * * * *"), schedule("* * * * *")


def slot(hours: float) -> datetime:
    """An instant this many hours after the clock's start, which is noon."""
    return datetime.fromtimestamp(NOON / 1000, UTC) + timedelta(hours=hours)


def ms(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)


async def scheduled(bench: Bench, structure: Any = PLAIN, trigger: Any = HOURLY, by: Any = None, **more: Any) -> int:
    """A deployed workflow with an enabled schedule."""
    flows = bench.core.workflows
    number = (await flows.create(bench.me, name="f", structure=structure, trigger=trigger, **more)).id
    await flows.deploy(by or bench.me, number)
    await flows.toggle(bench.me, number, is_enabled=True)
    return number


async def later(bench: Bench, seconds: float) -> None:
    """Advance the clock, and let due work finish."""
    bench.clock.advance(seconds)
    await bench.core.scheduler.fire_due()


async def timer(bench: Bench, number: int) -> Timer | None:
    return (await bench.core.workflows.schedule(bench.me, number)).timer


async def history(bench: Bench, number: int) -> list[RunView]:
    return await bench.core.workflows.runs(bench.me, number)


async def run_ids(bench: Bench, number: int) -> set[str]:
    return {run.id for run in await history(bench, number)}
