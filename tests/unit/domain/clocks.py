"""Short constructors of instants and schedules."""

from datetime import UTC, datetime

from wfcore.domain.triggers.schedule import Frequency, Schedule


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


def daily(zone: str, time_of_day: str) -> Schedule:
    return Schedule(Frequency.DAILY, zone, time_of_day=time_of_day)


def custom(zone: str, *expressions: str) -> Schedule:
    return Schedule(Frequency.CUSTOM, zone, cron_expressions=expressions, cron_description="")
