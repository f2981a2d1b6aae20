"""Triggers, schedules and their firings (interface, Trigger and Schedule)."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from clocks import custom, daily, utc

from wfcore.domain.triggers.schedule import (
    MAX_EXPRESSIONS,
    check_trigger,
    last_fires,
    next_fire,
    next_fires,
    overlap_of,
    parse_schedule,
    schedule_of,
    time_zones,
)

VALID: dict[str, dict[str, Any]] = {
    "hourly": {"frequency": "hourly", "timezone": "UTC", "time_of_day": "09:30"},
    "daily": {"frequency": "daily", "timezone": "Europe/Berlin", "time_of_day": "00:00"},
    "weekly": {
        "frequency": "weekly",
        "timezone": "Asia/Kathmandu",
        "time_of_day": "23:59",
        "weekdays": ["monday", "sunday"],
    },
    "monthly": {"frequency": "monthly", "timezone": "UTC", "time_of_day": "09:30", "day_of_month": 31},
    "custom": {
        "frequency": "custom",
        "timezone": "America/New_York",
        "cron_expressions": ["0 9 * * mon-fri", "0\t12 * * 6"],
        "cron_description": "office hours",
    },
}


def found(trigger: object) -> list[tuple[str, str]]:
    return [(issue.path, issue.rule) for issue in check_trigger(trigger)]


def issues(kind: str, without: str = "", /, **changes: object) -> list[tuple[str, str]]:
    """Paths (below the schedule) and rules of the issues of a valid schedule after some changes."""
    schedule = {**VALID[kind], **changes}
    schedule.pop(without, None)
    trigger = {"trigger_type": "schedule", "schedule": schedule}
    return [(path.removeprefix("trigger.schedule."), rule) for path, rule in found(trigger)]


class TestTrigger:
    """interface, Trigger"""

    @pytest.mark.parametrize("trigger", [None, True, 0, 1.5, "schedule", [], [{}]])
    def test_must_be_an_object(self, trigger: object) -> None:
        """Any other value is of the wrong type."""
        assert found(trigger) == [("trigger", "type")]

    @pytest.mark.parametrize(
        ("trigger", "rule"),
        [
            ({}, "required"),
            ({"trigger_type": None}, "type"),
            ({"trigger_type": ["schedule"]}, "type"),
            ({"trigger_type": True}, "type"),
            ({"trigger_type": "cron"}, "enum"),
            ({"trigger_type": "Schedule"}, "enum"),
        ],
    )
    def test_type_is_one_of_five(self, trigger: object, rule: str) -> None:
        """`trigger_type` is required, a string, and one of the enum, in this spelling."""
        assert found(trigger) == [("trigger.trigger_type", rule)]

    @pytest.mark.parametrize("kind", ["webhook", "api", "chatapp", "manual"])
    def test_other_kinds_are_opaque(self, kind: str) -> None:
        """The keys of a trigger of another type are not checked."""
        assert found({"trigger_type": kind, "schedule": {"frequency": 3}, "url": None}) == []

    def test_schedule_is_required_for_its_kind(self) -> None:
        """A missing schedule is invalid, one of the wrong type is malformed."""
        assert found({"trigger_type": "schedule"}) == [("trigger.schedule", "required_if")]
        assert found({"trigger_type": "schedule", "schedule": None}) == [("trigger.schedule", "type")]

    def test_extra_keys_are_allowed_only_outside_the_schedule(self) -> None:
        """Other keys of the trigger are free, other keys of the schedule are issues."""
        assert found({"trigger_type": "schedule", "schedule": VALID["daily"], "x": 1}) == []
        assert issues("daily", x=1) == [("x", "unknown")]

    def test_paths_start_with_the_given_path(self) -> None:
        """Every path starts with the argument `path`."""
        assert [issue.path for issue in check_trigger({}, "body.trigger")] == ["body.trigger.trigger_type"]


class TestSchedule:
    """interface, Schedule"""

    @pytest.mark.parametrize("frequency", VALID)
    def test_valid(self, frequency: str) -> None:
        """Each frequency is accepted with only its required fields."""
        assert issues(frequency) == []

    @pytest.mark.parametrize(
        ("frequency", "field", "rule"),
        [
            ("daily", "frequency", "required"),
            ("daily", "timezone", "required"),
            ("hourly", "time_of_day", "required_if"),
            ("daily", "time_of_day", "required_if"),
            ("weekly", "time_of_day", "required_if"),
            ("monthly", "time_of_day", "required_if"),
            ("weekly", "weekdays", "required_if"),
            ("monthly", "day_of_month", "required_if"),
            ("custom", "cron_expressions", "required_if"),
            ("custom", "cron_description", "required_if"),
        ],
    )
    def test_required(self, frequency: str, field: str, rule: str) -> None:
        """A missing field is malformed if it is always required, invalid if the frequency requires it."""
        assert issues(frequency, field) == [(field, rule)]

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            *(("frequency", value) for value in (None, True, 1, ["daily"], {})),
            *(("timezone", value) for value in (None, 0, ["UTC"], {})),
            *(("time_of_day", value) for value in (None, 930, False, [])),
            *(("weekdays", value) for value in (None, "monday", {"monday": 1}, True)),
            *(("day_of_month", value) for value in (None, "1", True, [1], {})),
            *(("cron_expressions", value) for value in (None, "* * * * *", 5, {})),
            *(("cron_description", value) for value in (None, 0, True, [], {})),
        ],
    )
    @pytest.mark.parametrize("frequency", VALID)
    def test_types(self, frequency: str, field: str, value: object) -> None:
        """A wrong JSON type is malformed, also in a field that the frequency does not use."""
        assert (field, "type") in issues(frequency, **{field: value})

    def test_item_types(self) -> None:
        """Items of arrays are strings; other items are still checked by their rule."""
        assert issues("weekly", weekdays=["monday", 1, "friyay"]) == [
            ("weekdays[1]", "type"),
            ("weekdays[2]", "enum"),
        ]
        assert issues("custom", cron_expressions=[None, "@daily"]) == [
            ("cron_expressions[0]", "type"),
            ("cron_expressions[1]", "cron"),
        ]

    @pytest.mark.parametrize("frequency", VALID)
    def test_fields_that_the_frequency_does_not_use(self, frequency: str) -> None:
        """They have the same rules, but a list may be empty; the time of day of `custom` is ignored."""
        assert issues(frequency, weekdays=["friyay"]) == [("weekdays[0]", "enum")]
        assert issues(frequency, day_of_month=99) == [("day_of_month", "range")]
        assert issues(frequency, day_of_month=1.5) == [("day_of_month", "integer")]
        assert issues(frequency, cron_expressions=["x"]) == [("cron_expressions[0]", "cron")]
        assert issues(frequency, weekdays=["friday"], day_of_month=31, cron_expressions=["0 0 * * *"]) == []
        for name, user in (("weekdays", "weekly"), ("cron_expressions", "custom")):
            assert issues(frequency, **{name: []}) == ([(name, "minItems")] if frequency == user else [])
        assert issues(frequency, time_of_day="25:00") == ([] if frequency == "custom" else [("time_of_day", "pattern")])

    @pytest.mark.parametrize("frequency", ["Daily", "yearly", "", "daily\n"])
    def test_frequency(self, frequency: str) -> None:
        """A frequency is one of the enum; an unknown one requires no fields."""
        assert issues("daily", "time_of_day", frequency=frequency) == [("frequency", "enum")]

    @pytest.mark.parametrize("time", ["00:00", "09:30", "19:59", "23:59"])
    def test_time_of_day(self, time: str) -> None:
        """Times are `HH:MM` from 00:00 to 23:59."""
        assert issues("daily", time_of_day=time) == []

    @pytest.mark.parametrize(
        "time",
        [
            "24:00",
            "9:30",
            "09:60",
            "09:3",
            "09:30\n",
            " 09:30",
            "0\u0669:3\u0660",
            "09.30",
            "09:30:00",
            "",
            "0930",
        ],
    )
    def test_other_text_is_not_a_time_of_day(self, time: str) -> None:
        """A line feed after the time, digits of other scripts and other forms are refused."""
        assert issues("daily", time_of_day=time) == [("time_of_day", "pattern")]

    @pytest.mark.parametrize("day", [1, 31, 3.0])
    def test_day_of_month(self, day: float) -> None:
        """Days are whole numbers from 1 to 31; 3.0 equals 3 in JSON."""
        assert issues("monthly", day_of_month=day) == []
        assert parse_schedule({**VALID["monthly"], "day_of_month": day}).day_of_month == int(day)

    @pytest.mark.parametrize(
        ("day", "rule"),
        [
            *((day, "range") for day in (0, 32, -1.0, 1e300)),
            *((day, "integer") for day in (3.5, 31.5, float("inf"), float("nan"))),
            pytest.param(10**5000, "range", id="5,001 digits"),
        ],
    )
    def test_other_numbers_are_not_a_day_of_month(self, day: float, rule: str) -> None:
        """Fractions and numbers out of range have different rules; huge numbers are refused too."""
        assert issues("monthly", day_of_month=day) == [("day_of_month", rule)]

    def test_arrays_have_items(self) -> None:
        """Weekly requires a day, custom an expression; the number of expressions is bounded."""
        assert issues("weekly", weekdays=[]) == [("weekdays", "minItems")]
        assert issues("custom", cron_expressions=[]) == [("cron_expressions", "minItems")]
        assert issues("custom", cron_expressions=["* * * * *"] * MAX_EXPRESSIONS) == []
        assert issues("custom", cron_expressions=["x"] * (MAX_EXPRESSIONS + 1)) == [("cron_expressions", "maxItems")]

    def test_all_faults_are_reported(self) -> None:
        """All issues are reported together."""
        assert issues(
            "weekly", "time_of_day", timezone="Mars", weekdays=["mon", "sunday", "x"], day_of_month="1", y=0
        ) == [
            ("time_of_day", "required_if"),
            ("timezone", "timezone"),
            ("weekdays[0]", "enum"),
            ("weekdays[2]", "enum"),
            ("day_of_month", "type"),
            ("y", "unknown"),
        ]

    def test_long_values_are_shortened(self) -> None:
        """A message does not repeat 5,000 characters."""
        schedule = {**VALID["daily"], "timezone": "A" * 5000}
        [issue] = check_trigger({"trigger_type": "schedule", "schedule": schedule})
        assert len(issue.message) < 150


class TestTimeZones:
    """interface, Schedule: timezone"""

    @pytest.mark.parametrize(
        "name", ["UTC", "Europe/Berlin", "Etc/GMT+5", "America/Argentina/Ushuaia", "EST5EDT", "US/Pacific"]
    )
    def test_accepted(self, name: str) -> None:
        """IANA names and their aliases are accepted."""
        assert issues("daily", timezone=name) == []

    @pytest.mark.parametrize(
        "name",
        [
            *("localtime", "posixrules", "Factory", "posix/UTC", "right/UTC"),
            *("Europe", "europe/berlin", "", "+02:00", "UTC\n", "UTC\0", "Zürich"),
            *("../UTC", "/etc/localtime", "tzdata.zi", "zone.tab", "A" * 5000),
        ],
    )
    def test_refused(self, name: str) -> None:
        """Names of files, other spellings and other text are refused."""
        assert issues("daily", timezone=name) == [("timezone", "timezone")]

    def test_without_a_database_of_time_zones(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The message names what the installation lacks, not the zone."""
        monkeypatch.setattr("wfcore.domain.triggers.schedule.time_zones", frozenset)
        (issue,) = check_trigger({"trigger_type": "schedule", "schedule": {**VALID["daily"]}})
        assert (issue.path, issue.rule) == ("trigger.schedule.timezone", "timezone")
        assert "no time zone database, install the Python package `tzdata`" in issue.message

    def test_all_can_be_used(self) -> None:
        """Every name on the list has a firing."""
        assert len(time_zones()) > 400
        assert all(next_fire(daily(name, "12:00"), utc(2026, 1, 1)) for name in time_zones())


class TestParse:
    """Parsing of a checked trigger."""

    def test_none(self) -> None:
        """Neither a missing trigger nor one of another type has a schedule."""
        assert schedule_of(None) is None
        assert schedule_of({"trigger_type": "webhook", "schedule": VALID["daily"]}) is None

    @pytest.mark.parametrize("frequency", VALID)
    def test_fields(self, frequency: str) -> None:
        """A schedule holds the fields of the wire, lists as tuples."""
        schedule = schedule_of({"trigger_type": "schedule", "schedule": VALID[frequency]})
        for name, value in VALID[frequency].items():
            assert getattr(schedule, name) == (tuple(value) if isinstance(value, list) else value)

    def test_ignored_fields_are_left_out(self) -> None:
        """Fields that the frequency does not use make no difference."""
        assert parse_schedule({**VALID["daily"], "day_of_month": 9, "weekdays": []}) == parse_schedule(VALID["daily"])

    def test_repeated_weekdays(self) -> None:
        """Repeated weekdays count once, in any order."""
        schedule = parse_schedule({**VALID["weekly"], "weekdays": ["sunday", "monday"] * 500})
        assert schedule == parse_schedule(VALID["weekly"])


class TestFiring:
    """Firings on days without a clock change."""

    @pytest.mark.parametrize(
        ("frequency", "first"),
        [
            ("hourly", utc(2026, 1, 1, 0, 30)),
            ("daily", utc(2026, 1, 1, 23, 0)),
            ("weekly", utc(2026, 1, 4, 18, 14)),
            ("monthly", utc(2026, 1, 31, 9, 30)),
            ("custom", utc(2026, 1, 1, 14, 0)),
        ],
    )
    def test_first_of_2026(self, frequency: str, first: datetime) -> None:
        """Every frequency fires at its wall time in its zone."""
        assert next_fire(parse_schedule(VALID[frequency]), utc(2026, 1, 1)) == first

    def test_strictly_after(self) -> None:
        """The next firing is strictly after the given instant."""
        schedule, at = daily("UTC", "09:30"), utc(2026, 1, 1, 9, 30)
        assert next_fire(schedule, at) == utc(2026, 1, 2, 9, 30)
        assert next_fire(schedule, at - timedelta(microseconds=1)) == at

    def test_any_aware_zone_in_utc_out(self) -> None:
        """`after` may be in any zone; a naive one is an error."""
        tokyo = timezone(timedelta(hours=9))
        assert next_fire(daily("UTC", "09:30"), datetime(2026, 1, 1, 19, tzinfo=tokyo)) == utc(2026, 1, 2, 9, 30)
        with pytest.raises(ValueError, match="aware"):
            next_fire(daily("UTC", "09:30"), datetime(2026, 1, 1))  # noqa: DTZ001

    def test_union(self) -> None:
        """Several expressions fire as a union; an instant of two of them is one firing."""
        schedule = custom("UTC", "0 12 * * *", "0 */6 * * *", "0 0 30 2 *")
        assert [at.hour for at in (f.at for f in next_fires(schedule, utc(2026, 1, 1), 4))] == [6, 12, 18, 0]

    def test_day_of_month_or_day_of_week(self) -> None:
        """If both are restricted, either may match; if one starts with a star, both must."""
        after = utc(2026, 2, 1)
        assert [d.at.day for d in next_fires(custom("UTC", "0 0 13 * sat"), after, 3)] == [7, 13, 14]
        assert [d.at.day for d in next_fires(custom("UTC", "0 0 */2 * mon"), after, 2)] == [9, 23]

    def test_never(self) -> None:
        """A date that does not exist never fires; the longest wait, 40 years, is found."""
        assert next_fire(custom("UTC", "0 0 30 2 *"), utc(2026, 1, 1)) is None
        assert next_fires(custom("UTC", "0 0 31 4,6 *"), utc(2026, 1, 1), 3) == []
        assert next_fire(custom("UTC", "0 0 29 2 */7"), utc(2088, 3, 1)) == utc(2128, 2, 29)

    @pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Etc/GMT+12"])
    @pytest.mark.parametrize("expression", ["* * * * *", "0 0 * * *", "0 0 30 2 *"])
    def test_end_of_the_calendar(self, zone: str, expression: str) -> None:
        """Close to the year 9999 there are no more firings, and no overflow."""
        assert next_fire(custom(zone, expression), utc(9999, 12, 31, 23, 59)) is None
        assert next_fires(custom(zone, expression), utc(9998, 12, 31, 23, 58), 5)[2:] == []

    def test_count_of_zero(self) -> None:
        """A count of zero gives none."""
        assert next_fires(daily("UTC", "09:30"), utc(2026, 1, 1), 0) == []


class TestOverlap:
    """Slots during the run of the slot before."""

    @pytest.mark.parametrize(
        ("overlap", "rule"), [("skip", None), ("allow", None), ("queue", "enum"), (None, "type"), (True, "type")]
    )
    def test_check(self, overlap: object, rule: str | None) -> None:
        """`overlap` is one of the enum."""
        trigger = {"trigger_type": "schedule", "schedule": VALID["daily"], "overlap": overlap}
        assert found(trigger) == ([] if rule is None else [("trigger.overlap", rule)])

    def test_the_default_is_skip(self) -> None:
        """Only `allow` starts a second run."""
        assert overlap_of(None) == overlap_of({"trigger_type": "schedule"}) == "skip"
        assert overlap_of({"trigger_type": "schedule", "overlap": "allow"}) == "allow"


class TestLastFires:
    """The last firings before an instant."""

    def test_the_last_ones(self) -> None:
        """Firings are after `after` and not after `until`, in order, at most `count`."""
        schedule, until = daily("UTC", "09:30"), utc(2026, 1, 10, 9, 30)
        assert last_fires(schedule, utc(2026, 1, 1), until, 2) == [utc(2026, 1, 9, 9, 30), until]
        assert last_fires(schedule, utc(2026, 1, 9, 9, 30), until, 9) == [until]
        assert last_fires(schedule, until, until, 1) == []

    def test_the_period_does_not_matter(self) -> None:
        """The search starts at the end: centuries of minutes cost little."""
        assert last_fires(custom("UTC", "* * * * *"), utc(1800, 1, 1), utc(2026, 1, 1), 1) == [utc(2026, 1, 1)]


class TestNotes:
    """Notes on clock changes."""

    def test_skipped_and_repeated_times(self) -> None:
        """A firing that a clock change moves or could repeat has a note."""
        [skipped] = next_fires(daily("Europe/Berlin", "02:30"), utc(2026, 3, 28, 12), 1)
        assert skipped.note == "clocks skip 2026-03-29 02:30: runs at the first moment after"
        [repeated] = next_fires(daily("Europe/Berlin", "02:30"), utc(2026, 10, 24, 12), 1)
        assert repeated.note == "clocks go back and show this time twice: runs the first time only"
