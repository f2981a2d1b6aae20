"""Laws of schedules, against a model that steps through time and reads the wall clock."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import attrs
from cronsim import CronSim, CronSimError
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from wfcore.domain.triggers.cron import parse_cron
from wfcore.domain.triggers.schedule import (
    WEEKDAYS,
    Frequency,
    Schedule,
    check_trigger,
    last_fires,
    next_fire,
    next_fires,
    parse_schedule,
    time_zones,
)

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
LEAD = 10 * HOUR  # the largest set-back of a clock in these years
MODERN, ALL_TIMES = (1975, 2090), (1890, 2090)
NOTABLE = ["Australia/Lord_Howe", "Pacific/Apia", "Antarctica/Troll", "Africa/Casablanca", "Europe/Dublin"]
NOTABLE += ["Pacific/Kiritimati", "Africa/Monrovia", "Asia/Kathmandu", "America/Havana", "America/St_Johns"]


# The model: cron fields as plain sets, and a clock that is read step by step


@attrs.frozen
class Fields:
    """Random cron fields, their text and their meaning, independent of the code under test."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int] | None
    months: frozenset[int] | None
    weekdays: frozenset[int] | None

    @property
    def text(self) -> str:
        def listed(values: frozenset[int] | None) -> str:
            return "*" if values is None else ",".join(map(str, sorted(values)))

        fields = (self.minutes, self.hours, self.days, self.months, self.weekdays)
        return " ".join(map(listed, fields))

    def match(self, wall: datetime) -> bool:
        in_month = self.days is None or wall.day in self.days
        in_week = self.weekdays is None or wall.isoweekday() in self.weekdays
        both = self.days is not None and self.weekdays is not None
        on_day = in_month or in_week if both else in_month and in_week
        in_year = self.months is None or wall.month in self.months
        return wall.minute in self.minutes and wall.hour in self.hours and in_year and on_day


def fields_of(schedule: Schedule) -> list[Fields]:
    """The meaning of each frequency, stated independently (interface, Schedule)."""
    hour, minute = map(int, (schedule.time_of_day or "00:00").split(":"))
    weekdays = frozenset(WEEKDAYS.index(day) + 1 for day in schedule.weekdays)
    hours = range(24) if schedule.frequency == "hourly" else [hour]
    return [
        Fields(
            minutes=frozenset([minute]),
            hours=frozenset(hours),
            days=frozenset([schedule.day_of_month or 0]) if schedule.frequency == "monthly" else None,
            months=None,
            weekdays=weekdays if schedule.frequency == "weekly" else None,
        )
    ]


def wall_times(after: datetime, until: datetime) -> Iterator[datetime]:
    """The whole minutes in (after, until]."""
    wall = after.replace(second=0, microsecond=0) + MINUTE
    while wall <= until:
        yield wall
        wall += MINUTE


def watch(fields: Fields, zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """The firings in (start, end): step through time and fire the wall times that the clock has newly reached.

    A step is a second if the zone's offsets have seconds, else a minute.
    """
    step = _step(zone, start, end)
    at = start - (LEAD if step == MINUTE else 2 * HOUR)
    reached = shown = at.astimezone(zone).replace(tzinfo=None)
    while at + step < end:
        at += step
        last, shown = shown, at.astimezone(zone).replace(tzinfo=None, fold=0)
        if len(fields.hours) < 24:
            due = shown > reached and any(map(fields.match, wall_times(reached, shown)))
        else:
            due = _real_time(fields, last + step, shown)
        reached = max(reached, shown)
        if due and at > start:
            yield at


def _step(zone: ZoneInfo, start: datetime, end: datetime) -> timedelta:
    offsets = [moment.astimezone(zone).utcoffset() or DAY for moment in (start - LEAD, start, end)]
    return timedelta(seconds=1) if any(offset % MINUTE for offset in offsets) else MINUTE


def _real_time(fields: Fields, awaited: datetime, shown: datetime) -> bool:
    """Whether a schedule of every hour fires when the clock, expected to show `awaited`, shows `shown`."""
    if fields.match(shown) and not shown.second:
        return True
    skipped = wall_times(awaited - timedelta(microseconds=1), shown)
    return (shown - awaited) % HOUR > timedelta() and any(map(fields.match, skipped))


# Strategies


@cache
def changes(name: str, year: int) -> list[datetime]:
    """The clock changes of a zone in a year, to the second, found by its offsets."""
    zone, found = ZoneInfo(name), []

    def offset(at: datetime) -> timedelta | None:
        return at.astimezone(zone).utcoffset()

    at = datetime(year, 1, 1, tzinfo=UTC)
    while at.year == year:
        if offset(at) != offset(at + DAY):
            low, high = at, at + DAY
            while high - low > timedelta(seconds=1):
                middle = low + (high - low) // timedelta(seconds=2) * timedelta(seconds=1)
                low, high = (middle, high) if offset(middle) == offset(low) else (low, middle)
            found.append(high)
        at += DAY
    return found


zones = st.one_of(st.sampled_from(NOTABLE), st.sampled_from(sorted(time_zones())))


@st.composite
def moments(draw: st.DrawFn, name: str, years: tuple[int, int] = MODERN) -> datetime:
    """An instant, often close to a clock change of the zone."""
    near = changes(name, draw(st.integers(*years)))
    if near and draw(st.integers(0, 9)):
        return draw(st.sampled_from(near)) + draw(st.integers(-200, 200)) * timedelta(minutes=1)
    plain = draw(st.datetimes(datetime(years[0], 1, 1), datetime(years[1], 1, 1)))  # noqa: DTZ001
    return plain.replace(tzinfo=UTC)


def subsets(low: int, high: int, most: int = 4) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.integers(low, high), min_size=1, max_size=most)


maybe_days = st.one_of(st.none(), st.none(), subsets(1, 31, 12))
random_fields = st.builds(
    Fields,
    minutes=subsets(0, 59),
    hours=st.one_of(st.just(frozenset(range(24))), subsets(0, 4), subsets(0, 23)),
    days=maybe_days,
    months=st.one_of(st.none(), subsets(1, 12, 8)),
    weekdays=st.one_of(st.none(), st.none(), subsets(1, 7)),
)
times = st.builds("{:02}:{:02}".format, st.one_of(st.integers(0, 4), st.integers(0, 23)), st.integers(0, 59))


@st.composite
def plain_schedules(draw: st.DrawFn, name: str) -> Schedule:
    frequency = draw(st.sampled_from([f for f in Frequency if f != Frequency.CUSTOM]))
    return Schedule(
        frequency,
        name,
        time_of_day=draw(times),
        weekdays=tuple(draw(st.lists(st.sampled_from(WEEKDAYS), min_size=1, max_size=7, unique=True))),
        day_of_month=draw(st.integers(1, 31)),
    )


def custom(name: str, *fields: Fields) -> Schedule:
    texts = tuple(each.text for each in fields)
    return Schedule(Frequency.CUSTOM, name, cron_expressions=texts, cron_description="random")


def assert_same(schedule: Schedule, fields: list[Fields], after: datetime, span: timedelta) -> None:
    zone, end = ZoneInfo(schedule.timezone), after + span
    if _step(zone, after, end) < MINUTE:
        end = after + 3 * HOUR
    expected = {at for each in fields for at in watch(each, zone, after, end)}
    found, at = [], next_fire(schedule, after)
    while at and at < end:
        found.append(at)
        at = next_fire(schedule, at)
    assert found == sorted(expected)


# The laws


@settings(max_examples=120)
@given(data=st.data(), name=zones)
def test_plain_frequencies_agree_with_the_model(data: st.DataObject, name: str) -> None:
    """Hourly, daily, weekly and monthly fire exactly when the clock reaches their wall times."""
    schedule = data.draw(plain_schedules(name))
    after = data.draw(moments(name)).replace(second=0, microsecond=0)
    assert_same(schedule, fields_of(schedule), after, 20 * HOUR)


@settings(max_examples=120)
@given(data=st.data(), name=zones, fields=st.lists(random_fields, min_size=1, max_size=3))
def test_cron_agrees_with_the_model(data: st.DataObject, name: str, fields: list[Fields]) -> None:
    """The firings of random expressions are the union of those of the model, each instant once."""
    after = data.draw(moments(name)).replace(second=0, microsecond=0)
    assert_same(custom(name, *fields), fields, after, 20 * HOUR)


@settings(max_examples=12)
@given(data=st.data(), fields=random_fields)
def test_offsets_with_seconds_agree_with_the_model(data: st.DataObject, fields: Fields) -> None:
    """Before 1972 Monrovia was 44 minutes and 30 seconds behind UTC: the model steps by seconds."""
    after = datetime(1972, 1, 7, tzinfo=UTC) + data.draw(st.integers(-120, 120)) * timedelta(seconds=31)
    assert_same(custom("Africa/Monrovia", fields), [fields], after, 3 * HOUR)


@settings(max_examples=200)
@given(data=st.data(), name=zones, fields=random_fields)
def test_firings_increase_and_next_fires_iterates_next_fire(data: st.DataObject, name: str, fields: Fields) -> None:
    """`next_fire` is strictly after its argument, in any zone and with any fraction; `next_fires` repeats it."""
    schedule = data.draw(st.one_of(st.just(custom(name, fields)), plain_schedules(name)))
    after = data.draw(moments(name, ALL_TIMES)) + timedelta(microseconds=data.draw(st.integers(0, 10**6)))
    firings = next_fires(schedule, after.astimezone(ZoneInfo(name)), 4)
    last = after
    for firing in firings:
        assert firing.at.tzinfo is UTC
        assert firing.at == next_fire(schedule, last) == datetime.fromisoformat(firing.local)
        assert firing.at > last
        last = firing.at
    assert len(firings) == 4 or next_fire(schedule, last) is None


@settings(max_examples=100)
@given(data=st.data(), name=zones, fields=random_fields, count=st.integers(1, 5), minutes=st.integers(0, 10_000))
def test_last_fires_is_the_end_of_all(data: st.DataObject, name: str, fields: Fields, count: int, minutes: int) -> None:
    """`last_fires` is the end of the firings that `next_fire` finds between two instants."""
    schedule = data.draw(st.one_of(st.just(custom(name, fields)), plain_schedules(name)))
    after = data.draw(moments(name))
    until = after + minutes * MINUTE
    every, slot = [], next_fire(schedule, after)
    while slot and slot <= until:
        every.append(slot)
        slot = next_fire(schedule, slot)
    assert last_fires(schedule, after, until, count) == every[-count:]


@settings(max_examples=200)
@given(data=st.data(), name=zones, time_of_day=times)
def test_a_day_has_one_firing(data: st.DataObject, name: str, time_of_day: str) -> None:
    """A daily wall time fires exactly once for every date."""
    start = data.draw(moments(name, ALL_TIMES))
    firings = next_fires(Schedule(Frequency.DAILY, name, time_of_day=time_of_day), start, 9)
    first, last = firings[0], firings[-1]
    assume(not any(end.note and "skip" in end.note for end in (first, last)))  # it may be on the next date
    dates = datetime.fromisoformat(last.local).date() - datetime.fromisoformat(first.local).date()
    assert dates.days == len(firings) - 1


@settings(max_examples=200)
@given(data=st.data(), name=zones, minute=st.integers(0, 59))
def test_every_hour_has_an_hourly_firing(data: st.DataObject, name: str, minute: int) -> None:
    """Hourly firings are at most a real hour apart, plus the part of an hour that the clock is set back."""
    schedule = Schedule(Frequency.HOURLY, name, time_of_day=f"00:{minute:02}")
    after = data.draw(moments(name))
    firings = [firing.at for firing in next_fires(schedule, after, 8)]
    gaps = [later - earlier for earlier, later in zip([after, *firings], firings, strict=False)]
    assert max(gaps) <= HOUR + set_back(name, after, firings[-1]) % HOUR
    assert min(gaps[1:]) >= MINUTE


def set_back(name: str, start: datetime, end: datetime) -> timedelta:
    """By how much the clock was set back; zero if it was not."""
    first, last = (at.astimezone(ZoneInfo(name)).replace(tzinfo=None) for at in (start, end))
    return max((end - start) - (last - first), timedelta())


TERMS = st.one_of(
    st.just("*"),
    st.builds("*/{}".format, st.integers(1, 40)),
    st.integers(0, 60).map(str),
    st.builds("{}-{}".format, st.integers(0, 31), st.integers(0, 31)),
    st.builds("{}-{}/{}".format, st.integers(0, 6), st.integers(7, 31), st.integers(1, 9)),
    st.sampled_from(["mon", "FRI", "sun", "tue-Thu", "jan", "Dec", "feb-may"]),
)
expressions = st.lists(st.lists(TERMS, min_size=1, max_size=3).map(",".join), min_size=5, max_size=5).map(" ".join)


@settings(max_examples=400)
@given(text=expressions, after=st.datetimes(datetime(1990, 1, 1), datetime(2050, 1, 1)))  # noqa: DTZ001
@example(text="0 0 */2 * 1", after=datetime(2026, 1, 1))  # noqa: DTZ001
@example(text="0 0 13 * fri", after=datetime(2026, 1, 1))  # noqa: DTZ001
@example(text="0 0 29 2 */7", after=datetime(2088, 3, 1))  # noqa: DTZ001
@example(text="0 0 30 2 *", after=datetime(2026, 1, 1))  # noqa: DTZ001
def test_expressions_agree_with_cronsim(text: str, after: datetime) -> None:
    """In UTC both refuse an expression, or both fire at the same instants.

    The strategy has no `0-0/2`, which cronsim reads as `0-59/2`.
    """
    after = after.replace(tzinfo=UTC)
    try:
        parse_cron(text)
    except ValueError:
        try:
            CronSim(text, after)
        except CronSimError:
            return
        raise
    schedule = Schedule(Frequency.CUSTOM, "UTC", cron_expressions=(text,), cron_description="")
    ours = [firing.at for firing in next_fires(schedule, after, 5)]
    try:
        theirs = CronSim(text, after)
    except CronSimError:
        assert ours == []
        return
    assert ours == [at for at, _ in zip(theirs, range(5), strict=False)]


@settings(max_examples=100)
@given(day=st.integers(29, 31), after=st.dates(date(1990, 1, 1), date(2090, 1, 1)))
def test_monthly_skips_shorter_months(day: int, after: date) -> None:
    """Monthly on 29 to 31 fires on that day, in every month that has it."""
    schedule = Schedule(Frequency.MONTHLY, "UTC", time_of_day="00:00", day_of_month=day)
    start = datetime(after.year, after.month, after.day, tzinfo=UTC)
    fired = [firing.at.date() for firing in next_fires(schedule, start, 6)]
    expected, current = [], after
    while len(expected) < 6:
        current += DAY
        if current.day == day:
            expected.append(current)
    assert fired == expected


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from([*Frequency, "schedule", "UTC", "09:30", "monday", "* * * * *"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from([*attrs.fields_dict(Schedule), "trigger_type", "schedule", "x"]),
            inner,
            max_size=8,
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=400)
@given(value=json_values, trigger_type=st.one_of(st.just("schedule"), json_values))
def test_any_json_can_be_checked(value: object, trigger_type: object) -> None:
    """The check never raises; a schedule without issues parses and has a next firing or none."""
    check_trigger(value)
    issues = check_trigger({"trigger_type": trigger_type, "schedule": value})
    assert all(issue.path.startswith("trigger.") for issue in issues)
    if trigger_type == "schedule" and not issues:
        assert isinstance(value, dict)
        next_fire(parse_schedule(value), datetime(2026, 1, 1, tzinfo=UTC))
