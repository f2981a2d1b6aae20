"""Triggers, schedules, and when a schedule fires (interface, Trigger).

Every schedule is a union of cron expressions over the wall clock of its time zone: `weekly` on Monday at
09:30 is `30 9 * * mon`, `hourly` at 09:30 is `30 * * * *`. `cron.py` has the rules for clock changes.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Literal
from zoneinfo import ZoneInfo, available_timezones

import attrs

from wfcore.domain.kernel.errors import Issue, usable
from wfcore.domain.kernel.json_readers import as_object, as_text, as_texts, optional_number, optional_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.triggers.cron import LAST_YEAR, Slot, parse_cron, passes, wall_time

TRIGGER_TYPES = ("schedule", "webhook", "api", "chatapp", "manual")
OVERLAPS = ("skip", "allow")
"""What happens to a slot while a run of an earlier slot is active: it is skipped, or a second run starts."""

Overlap = Literal["skip", "allow"]
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MAX_EXPRESSIONS = 50
"""The most cron expressions of one schedule; it bounds the work of finding the next firing."""

_TIME_OF_DAY = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]", re.ASCII)


class Frequency(StrEnum):
    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    CUSTOM = "custom"


@attrs.frozen
class Schedule:
    """When a workflow runs (interface, Schedule). It holds only the fields that its frequency uses.

    `time_of_day` is `HH:MM`; `hourly` uses only the minute. `monthly` on 29 to 31 skips shorter months.
    """

    frequency: Frequency
    timezone: str
    time_of_day: str | None = None
    weekdays: tuple[str, ...] = ()
    day_of_month: int | None = None
    cron_expressions: tuple[str, ...] = ()
    cron_description: str | None = None

    @property
    def expressions(self) -> tuple[str, ...]:
        """The cron expressions; the schedule fires when any of them fires."""
        hour, _, minute = (self.time_of_day or "").partition(":")
        match self.frequency:
            case Frequency.HOURLY:
                return (f"{minute} * * * *",)
            case Frequency.DAILY:
                return (f"{minute} {hour} * * *",)
            case Frequency.WEEKLY:
                return (f"{minute} {hour} * * {','.join(day[:3] for day in self.weekdays)}",)
            case Frequency.MONTHLY:
                return (f"{minute} {hour} {self.day_of_month} * *",)
        return self.cron_expressions


@attrs.frozen
class Firing:
    """One future firing: the instant in UTC, the same in the schedule's zone (ISO 8601 with offset), and a note on the
    effect of a clock change, if there is one.
    """

    at: datetime
    local: str
    note: str | None = None


@cache
def time_zones() -> frozenset[str]:
    """The IANA names that are accepted, in exactly this spelling."""
    not_zones = {"localtime", "posixrules", "Factory"}
    return frozenset(name for name in available_timezones() - not_zones if not name.startswith(("posix/", "right/")))


def zone_issues(path: str, name: str) -> list[Issue]:
    """The issue of a name that is not an IANA time zone."""
    if name in time_zones():
        return []
    if not time_zones():
        message = "cannot be checked: this installation has no time zone database, install the Python package `tzdata`"
        return [Issue(path, message, "timezone")]
    return [Issue(path, f"{_shown(name)} is not an IANA time zone", "timezone")]


# Checking


def check_trigger(trigger: JSON, path: str = "trigger") -> list[Issue]:
    """Every issue of a trigger, any JSON value (interface, Trigger and Schedule).

    Of a trigger of type `schedule`, `schedule` and `overlap` are checked; other keys and other types are not.
    """
    if not isinstance(trigger, dict):
        return [_mistyped("object", path)]
    if "trigger_type" not in trigger:
        return [Issue(f"{path}.trigger_type", "is required", "required")]
    kind = trigger["trigger_type"]
    if not isinstance(kind, str):
        return [_mistyped("string", f"{path}.trigger_type")]
    if kind != "schedule":
        return [*_one_of(TRIGGER_TYPES, kind, f"{path}.trigger_type")]
    return [*_check_schedule(trigger, f"{path}.schedule"), *_check_overlap(trigger, f"{path}.overlap")]


def _check_schedule(trigger: Mapping[str, JSON], path: str) -> Iterator[Issue]:
    if "schedule" not in trigger:
        yield Issue(path, "is required when trigger_type is `schedule`", "required_if")
        return
    schedule = trigger["schedule"]
    if not isinstance(schedule, dict):
        yield _mistyped("object", path)
        return
    frequency = schedule.get("frequency")
    relevant = _RELEVANT.get(frequency, ()) if isinstance(frequency, str) else ()
    for name in (*_ALWAYS, *relevant):
        if name not in schedule:
            yield _missing(name, frequency, f"{path}.{name}")
    for name, value in schedule.items():
        yield from _check_field(name, value, f"{path}.{name}", frequency)


def _check_overlap(trigger: Mapping[str, JSON], path: str) -> Iterator[Issue]:
    overlap = trigger.get("overlap", OVERLAPS[0])
    if not isinstance(overlap, str):
        yield _mistyped("string", path)
    else:
        yield from _one_of(OVERLAPS, overlap, path)


def _missing(name: str, frequency: JSON, path: str) -> Issue:
    if name in _ALWAYS:
        return Issue(path, "is required", "required")
    return Issue(path, f"is required when frequency is `{frequency}`", "required_if")


def _check_field(name: str, value: JSON, path: str, frequency: JSON) -> Iterator[Issue]:
    """Check a field, also one that the frequency does not use; such a list may be empty."""
    if name in _TEXTS:
        if not isinstance(value, str):
            yield _mistyped("string", path)
        elif name != "time_of_day" or frequency != Frequency.CUSTOM:
            yield from _TEXTS[name](value, path)
    elif name in _NUMBERS:
        if not isinstance(value, int | float) or isinstance(value, bool):
            yield _mistyped("number", path)
        else:
            yield from _NUMBERS[name](value, path)
    elif name in _ARRAYS:
        if not isinstance(value, list):
            yield _mistyped("array", path)
            return
        yield from (_mistyped("string", f"{path}[{at}]") for at, item in enumerate(value) if not isinstance(item, str))
        if value or _is_used(name, frequency):
            yield from _ARRAYS[name](value, path)
    else:
        known = usable([*_TEXTS, *_NUMBERS, *_ARRAYS])
        yield Issue(path, f"is not a known key{known}", "unknown")


def _is_used(name: str, frequency: JSON) -> bool:
    return isinstance(frequency, str) and name in _RELEVANT.get(frequency, ())


def _mistyped(kind: str, path: str) -> Issue:
    return Issue(path, f"must be {'a' if kind in ('string', 'number') else 'an'} {kind}", "type")


def _one_of(allowed: tuple[str, ...], value: str, path: str) -> Iterator[Issue]:
    if value not in allowed:
        yield Issue(path, f"{_shown(value)} is not one of {', '.join(f'`{each}`' for each in allowed)}", "enum")


def _frequency(value: str, path: str) -> Iterator[Issue]:
    return _one_of(tuple(Frequency), value, path)


def _timezone(value: str, path: str) -> Iterator[Issue]:
    yield from zone_issues(path, value)


def _time_of_day(value: str, path: str) -> Iterator[Issue]:
    if not _TIME_OF_DAY.fullmatch(value):
        yield Issue(path, f"{_shown(value)} is not a time of day from `00:00` to `23:59`", "pattern")


def _day_of_month(value: float, path: str) -> Iterator[Issue]:
    if isinstance(value, float) and not value.is_integer():
        yield Issue(path, f"`{value}` is not a whole number", "integer")
    elif not 1 <= value <= 31:
        yield Issue(path, "must be from 1 to 31", "range")


def _weekdays(value: list[JSON], path: str) -> Iterator[Issue]:
    if not value:
        yield Issue(path, "must name at least one day", "minItems")
    for index, day in enumerate(value):
        if isinstance(day, str):
            yield from _one_of(WEEKDAYS, day, f"{path}[{index}]")


def _cron_expressions(value: list[JSON], path: str) -> Iterator[Issue]:
    if not value:
        yield Issue(path, "must hold at least one expression", "minItems")
    if len(value) > MAX_EXPRESSIONS:
        yield Issue(path, f"must hold at most {MAX_EXPRESSIONS} expressions", "maxItems")
        return
    for index, text in enumerate(value):
        if isinstance(text, str):
            yield from _cron(text, f"{path}[{index}]")


def _cron(value: str, path: str) -> Iterator[Issue]:
    try:
        parsed = parse_cron(value)
    except ValueError as error:
        yield Issue(path, str(error), "cron")
        return
    if not parsed.fires:
        yield Issue(path, f"{_shown(value)} never fires: none of its months has such a day", "cron")


def _any_text(_value: str, _path: str) -> Iterator[Issue]:
    return iter(())


def _shown(value: str) -> str:
    return f"`{value}`" if len(value) <= 80 else f"`{value[:79]}…`"


_TEXTS: Mapping[str, Callable[[str, str], Iterator[Issue]]] = {
    "frequency": _frequency,
    "timezone": _timezone,
    "time_of_day": _time_of_day,
    "cron_description": _any_text,
}
_NUMBERS: Mapping[str, Callable[[float, str], Iterator[Issue]]] = {"day_of_month": _day_of_month}
_ARRAYS: Mapping[str, Callable[[list[JSON], str], Iterator[Issue]]] = {
    "weekdays": _weekdays,
    "cron_expressions": _cron_expressions,
}
_ALWAYS = ("frequency", "timezone")
_RELEVANT: Mapping[str, tuple[str, ...]] = {
    Frequency.HOURLY: ("time_of_day",),
    Frequency.DAILY: ("time_of_day",),
    Frequency.WEEKLY: ("time_of_day", "weekdays"),
    Frequency.MONTHLY: ("time_of_day", "day_of_month"),
    Frequency.CUSTOM: ("cron_expressions", "cron_description"),
}


def parse_schedule(data: Mapping[str, JSON]) -> Schedule:
    """The schedule of `data`, which must have no issues. Fields that its frequency does not use are left out."""
    frequency = Frequency(as_text(data["frequency"]))
    used = {name: data[name] for name in _RELEVANT[frequency]}
    day = optional_number(used.get("day_of_month"))
    weekdays = as_texts(used.get("weekdays", ()))
    return Schedule(
        frequency,
        as_text(data["timezone"]),
        optional_text(used.get("time_of_day")),
        tuple(name for name in WEEKDAYS if name in weekdays),
        None if day is None else int(day),
        tuple(as_texts(used.get("cron_expressions", ()))),
        optional_text(used.get("cron_description")),
    )


def schedule_of(trigger: Mapping[str, JSON] | None) -> Schedule | None:
    """The schedule of a trigger without issues; None for no trigger and for another type."""
    if trigger is None or trigger["trigger_type"] != "schedule":
        return None
    return parse_schedule(as_object(trigger["schedule"]))


def overlap_of(trigger: Mapping[str, JSON] | None) -> Overlap:
    """The `overlap` of a trigger without issues."""
    return "allow" if trigger is not None and trigger.get("overlap") == "allow" else "skip"


# Firing


def has_zone(schedule: Schedule) -> bool:
    """Whether the time zone is known here. The data of another release, or of another machine, can lack one."""
    return schedule.timezone in time_zones()


def next_fire(schedule: Schedule, after: datetime) -> datetime | None:
    """The first firing strictly after the aware `after`, in UTC.

    None if there is no firing within 40 years, and so never (`0 0 30 2 *`), none before the year 9999, or no such zone.
    Raises ValueError for a naive `after`.
    """
    slot = _next_slot(schedule, after)
    return slot.at if slot else None


def next_fires(schedule: Schedule, after: datetime, count: int) -> list[Firing]:
    """The first `count` firings strictly after `after`; fewer if there are no more."""
    firings: list[Firing] = []
    while len(firings) < count and (slot := _next_slot(schedule, after)):
        local = slot.at.astimezone(_zone(schedule))
        firings.append(Firing(slot.at, local.isoformat(), _note(schedule, slot)))
        after = slot.at
    return firings


def last_fires(schedule: Schedule, after: datetime, until: datetime, count: int) -> list[datetime]:
    """The last `count` firings strictly after `after` and not after `until`, in order; fewer if there are no more.

    It searches longer and longer periods before `until`, so its cost does not grow with the time since `after`.
    """
    span = timedelta(hours=1)
    while True:
        start = after if until - after <= span else until - span
        found = deque(_fires_between(schedule, start, until), maxlen=count)
        if len(found) == count or start == after:
            return list(found)
        span *= 2


def _fires_between(schedule: Schedule, after: datetime, until: datetime) -> Iterator[datetime]:
    slot = next_fire(schedule, after)
    while slot is not None and slot <= until:
        yield slot
        slot = next_fire(schedule, slot)


def _next_slot(schedule: Schedule, after: datetime) -> Slot | None:
    if after.tzinfo is None:
        raise ValueError("`after` must be an aware datetime")
    after = after.astimezone(UTC)
    if after.year >= LAST_YEAR or not has_zone(schedule):
        return None
    found = (parse_cron(text).next_slot(_zone(schedule), after) for text in schedule.expressions)
    return min((slot for slot in found if slot), default=None)


def _note(schedule: Schedule, slot: Slot) -> str | None:
    zone = _zone(schedule)
    if wall_time(slot.at, zone) != slot.wall:
        return f"clocks skip {slot.wall.isoformat(' ', 'minutes')}: runs at the first moment after"
    first, second = passes(slot.wall, zone)
    if first < second and not _fires_at(schedule, second):
        return "clocks go back and show this time twice: runs the first time only"
    return None


def _fires_at(schedule: Schedule, instant: datetime) -> bool:
    return next_fire(schedule, instant - timedelta(microseconds=1)) == instant


def _zone(schedule: Schedule) -> ZoneInfo:
    return _load_zone(schedule.timezone)


_load_zone = cache(ZoneInfo)  # the cache of ZoneInfo is small; the list of names bounds this one
