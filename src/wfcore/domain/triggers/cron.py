"""Cron expressions: strict parsing of five fields, and when they fire in a time zone.

    minute 0-59   hour 0-23   day of month 1-31   month 1-12 or jan-dec   day of week 0-7 or sun-sat

A field is a list of `*`, `5`, `1-5`, `*/15` and `10-50/20`; both 0 and 7 are Sunday, names may have any case, and
blanks or tabs separate the fields (POSIX crontab, with the steps and names of vixie cron). Everything else is
refused: macros, seconds, `L`, `W`, `#` and `?`, backward ranges, a step without a range.

Day of month and day of week select days together: if both are restricted, either may match, else both must.
As in vixie cron a field that starts with `*` is unrestricted: `0 0 */2 * mon` means Mondays with an odd date.

One rule covers clock changes: a wall time fires at the first instant at which the zone's clock has reached it. So a
wall time that a change skips fires at the first instant after the gap, one that a change repeats fires only the
first time, and several that one gap skips fire once.

An expression that fires in all 24 hours of a day (`*/15 * * * *`, `0 0-23 * * *`) follows real time instead, as in
vixie cron: it fires in both passes of a repeated hour, and not for skipped hours, because no time has passed.
If a gap is not a whole number of hours (half an hour on Lord Howe), it fires at the end of the gap.
"""

import calendar
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import attrs

MAX_LENGTH = 500
"""The most characters of one expression; one that lists every value of every field has 350."""

HORIZON_YEARS = 40
"""How many years ahead to search. At worst 29 February falls on a given weekday every 40 years (across 2100, which is
not a leap year), so an expression without a match within them never matches."""

LAST_YEAR = 9998  # one year before the end of the calendar: an offset must not move a time beyond it
_LONGEST = [0, *(calendar.monthrange(2000, month)[1] for month in range(1, 13))]
_SECOND, _HOUR, _DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)


@attrs.frozen(order=True)
class Slot:
    """A naive wall time and the instant in UTC at which it fires; after a gap the clock shows a later wall time."""

    at: datetime
    wall: datetime


@attrs.frozen
class Cron:
    """A parsed expression: the sorted values of each field; Sunday is weekday 0.

    `either_day`: day of month and day of week are alternatives.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    either_day: bool

    @property
    def every_hour(self) -> bool:
        """Whether every hour matches, in any spelling of the field (`*`, `*/1`, `0-23`)."""
        return len(self.hours) == 24

    @property
    def fires(self) -> bool:
        """Whether some date matches: `0 0 30 2 *` has none."""
        return self.either_day or any(self.days[0] <= _LONGEST[month] for month in self.months)

    def next_slot(self, zone: ZoneInfo, after: datetime) -> Slot | None:
        """The earliest slot whose instant is after `after`; None when there is none up to the horizon."""
        best: Slot | None = None
        start = wall_time(after, zone).replace(second=0, microsecond=0)
        for wall in self.wall_times(start - self._setback(zone, after)):
            instants = _instants(wall, zone, every_hour=self.every_hour)
            if best and instants and instants[0] >= best.at:
                break  # first passes have the order of their wall times: no earlier one can follow
            slots = [Slot(at, wall) for at in instants if at > after]
            best = min([*slots, best] if best else slots, default=None)
        return best

    def _setback(self, zone: ZoneInfo, after: datetime) -> timedelta:
        """How far the clock is set back within the next day: wall times that have passed will occur again."""
        if not self.every_hour:
            return timedelta()
        change = wall_time(after, zone) + _DAY - wall_time(after + _DAY, zone)
        return max(change, timedelta())

    def wall_times(self, start: datetime) -> Iterator[datetime]:
        """The matching naive wall times from the naive `start` on, in ascending order, up to the horizon."""
        for day in self._dates(start.date()):
            for hour in self.hours:
                if day == start.date() and hour < start.hour:
                    continue
                for minute in self.minutes:
                    wall = datetime.combine(day, time(hour, minute))
                    if wall >= start:
                        yield wall

    def _dates(self, first: date) -> Iterator[date]:
        months = [month for month in self.months if self.either_day or self.days[0] <= _LONGEST[month]]
        for year in range(first.year, min(first.year + HORIZON_YEARS, LAST_YEAR) + 1):
            for month in months:
                if (year, month) >= (first.year, first.month):
                    yield from (day for day in self._dates_of(year, month) if day >= first)

    def _dates_of(self, year: int, month: int) -> Iterator[date]:
        length = calendar.monthrange(year, month)[1]
        for day in range(1, 32) if self.either_day else self.days:
            if day <= length and self._matches(found := date(year, month, day)):
                yield found

    def _matches(self, day: date) -> bool:
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return in_month or in_week if self.either_day else in_month and in_week


def wall_time(instant: datetime, zone: ZoneInfo) -> datetime:
    """The wall time of the zone at an instant, as a naive datetime."""
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def passes(wall: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """The instants of a naive wall time, by the offsets before and after a clock change (PEP 495), in UTC.

    A repeated wall time gives two instants in order, a skipped one two in reverse order, any other one the same
    instant twice.
    """
    before, after = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return before, after


def _instants(wall: datetime, zone: ZoneInfo, *, every_hour: bool) -> list[datetime]:
    first, second = passes(wall, zone)
    if first == second:
        return [first]
    if first < second:
        return [first, second] if every_hour else [first]
    if every_hour and (first - second) % _HOUR == timedelta(0):
        return []
    return [_gap_end(wall, zone, second, first)]


def _gap_end(wall: datetime, zone: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """The first instant, to the second, from `low` to `high` at which the clock has reached `wall`."""
    seconds = range((high - low) // _SECOND)
    return low + _SECOND * bisect_left(seconds, True, key=lambda s: wall_time(low + _SECOND * s, zone) >= wall)


_SEPARATOR = re.compile(r"[ \t]+", re.ASCII)
_VALUE = "[0-9]+|[a-z]+"
_TERM = re.compile(rf"(?:\*|(?P<low>{_VALUE})(?:-(?P<high>{_VALUE}))?)(?:/(?P<step>[0-9]+))?", re.ASCII)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@attrs.frozen
class _Field:
    """One field: its bounds, and the names of its values."""

    label: str
    low: int
    high: int
    names: Mapping[str, int] = attrs.field(factory=dict)

    def values(self, text: str) -> frozenset[int]:
        return frozenset(value for term in text.split(",") for value in self._term(term))

    def _term(self, text: str) -> range:
        match = _TERM.fullmatch(text)
        if match is None:
            raise ValueError(f"`{text}` is not a valid {self.label} of a cron expression")
        low, high, step = match.group("low", "high", "step")
        if low and step and not high:
            raise ValueError(f"`{text}` has a step without a range")
        if step and int(step) < 1:
            raise ValueError(f"`{text}` has a step below 1")
        first = self._value(low) if low else self.low
        last = self._value(high or low) if low else self.high
        if last < first:
            raise ValueError(f"`{text}` is a backward range")
        return range(first, last + 1, int(step or 1))

    def _value(self, text: str) -> int:
        number = int(text) if text.isdigit() else self.names.get(text, -1)
        if not self.low <= number <= self.high:
            raise ValueError(f"`{text}` is not a valid {self.label} of a cron expression")
        return number


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, {name: month for month, name in enumerate(_MONTHS, 1)}),
    _Field("day of week", 0, 7, {name: day for day, name in enumerate(_WEEKDAYS)}),
)


@lru_cache(maxsize=1024)
def parse_cron(text: str) -> Cron:
    """Parse one expression. Raises ValueError with a message for the user."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a cron expression has at most {MAX_LENGTH} characters")
    fields = _SEPARATOR.split(text.lower()) if text.isascii() else []
    if len(fields) != len(_FIELDS) or not all(fields):
        raise ValueError(f"`{text}` is not a cron expression of five fields separated by blanks")
    values = (field.values(part) for field, part in zip(_FIELDS, fields, strict=True))
    minutes, hours, days, months, weekdays = (tuple(sorted(found)) for found in values)
    return Cron(
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=tuple(sorted({day % 7 for day in weekdays})),
        either_day=not (fields[2].startswith("*") or fields[4].startswith("*")),
    )
