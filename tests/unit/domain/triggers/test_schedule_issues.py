"""Triggers and schedules: what each issue says and where, and the edges of when a schedule fires."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from wfcore.domain.kernel.errors import Issue
from wfcore.domain.triggers.schedule import (
    MAX_EXPRESSIONS,
    Frequency,
    Schedule,
    check_trigger,
    last_fires,
    next_fire,
    next_fires,
    overlap_of,
    parse_schedule,
    schedule_of,
)

DAILY = {"frequency": "daily", "timezone": "UTC", "time_of_day": "09:30"}
WEEKLY = {**DAILY, "frequency": "weekly", "weekdays": ["monday"]}
MONTHLY = {**DAILY, "frequency": "monthly", "day_of_month": 1}
CUSTOM = {"frequency": "custom", "timezone": "UTC", "cron_expressions": ["0 0 * * *"], "cron_description": "c"}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def trigger(schedule: Any, **more: Any) -> dict[str, Any]:
    return {"trigger_type": "schedule", "schedule": schedule, **more}


def without(schedule: dict[str, Any], name: str) -> dict[str, Any]:
    return trigger({key: value for key, value in schedule.items() if key != name})


FREQUENCIES = "`hourly`, `daily`, `weekly`, `monthly`, `custom`"
DAYS = "`monday`, `tuesday`, `wednesday`, `thursday`, `friday`, `saturday`, `sunday`"


@pytest.mark.parametrize(
    ("data", "path", "message", "rule"),
    [
        (None, "", "must be an object", "type"),
        ({}, ".trigger_type", "is required", "required"),
        ({"trigger_type": 1}, ".trigger_type", "must be a string", "type"),
        (
            {"trigger_type": "cron"},
            ".trigger_type",
            "`cron` is not one of `schedule`, `webhook`, `api`, `chatapp`, `manual`",
            "enum",
        ),
        (
            {"trigger_type": "schedule"},
            ".schedule",
            "is required when trigger_type is `schedule`",
            "required_if",
        ),
        (trigger([]), ".schedule", "must be an object", "type"),
        (trigger(DAILY, overlap=True), ".overlap", "must be a string", "type"),
        (trigger(DAILY, overlap="queue"), ".overlap", "`queue` is not one of `skip`, `allow`", "enum"),
        (without(DAILY, "frequency"), ".schedule.frequency", "is required", "required"),
        (without(DAILY, "timezone"), ".schedule.timezone", "is required", "required"),
        (
            without(DAILY, "time_of_day"),
            ".schedule.time_of_day",
            "is required when frequency is `daily`",
            "required_if",
        ),
        (
            without(WEEKLY, "weekdays"),
            ".schedule.weekdays",
            "is required when frequency is `weekly`",
            "required_if",
        ),
        (
            without(CUSTOM, "cron_description"),
            ".schedule.cron_description",
            "is required when frequency is `custom`",
            "required_if",
        ),
        (
            trigger({**DAILY, "every": 1}),
            ".schedule.every",
            (
                "is not a known key: use `frequency`, `timezone`, `time_of_day`, `cron_description`, `day_of_month`, "
                "`weekdays`, `cron_expressions`"
            ),
            "unknown",
        ),
        (
            trigger({**DAILY, "frequency": "yearly"}),
            ".schedule.frequency",
            f"`yearly` is not one of {FREQUENCIES}",
            "enum",
        ),
        (trigger({**DAILY, "timezone": "Mars"}), ".schedule.timezone", "`Mars` is not an IANA time zone", "timezone"),
        (trigger({**DAILY, "time_of_day": 9}), ".schedule.time_of_day", "must be a string", "type"),
        (
            trigger({**DAILY, "time_of_day": "9:30"}),
            ".schedule.time_of_day",
            "`9:30` is not a time of day from `00:00` to `23:59`",
            "pattern",
        ),
        (trigger({**MONTHLY, "day_of_month": "1"}), ".schedule.day_of_month", "must be a number", "type"),
        (trigger({**MONTHLY, "day_of_month": 1.5}), ".schedule.day_of_month", "`1.5` is not a whole number", "integer"),
        (trigger({**MONTHLY, "day_of_month": 0}), ".schedule.day_of_month", "must be from 1 to 31", "range"),
        (trigger({**MONTHLY, "day_of_month": 32}), ".schedule.day_of_month", "must be from 1 to 31", "range"),
        (trigger({**WEEKLY, "weekdays": "monday"}), ".schedule.weekdays", "must be an array", "type"),
        (trigger({**WEEKLY, "weekdays": []}), ".schedule.weekdays", "must name at least one day", "minItems"),
        (trigger({**WEEKLY, "weekdays": ["monday", 2]}), ".schedule.weekdays[1]", "must be a string", "type"),
        (
            trigger({**WEEKLY, "weekdays": ["monday", "mon"]}),
            ".schedule.weekdays[1]",
            f"`mon` is not one of {DAYS}",
            "enum",
        ),
        (
            trigger({**CUSTOM, "cron_expressions": []}),
            ".schedule.cron_expressions",
            "must hold at least one expression",
            "minItems",
        ),
        (
            trigger({**CUSTOM, "cron_expressions": ["x"] * (MAX_EXPRESSIONS + 1)}),
            ".schedule.cron_expressions",
            "must hold at most 50 expressions",
            "maxItems",
        ),
        (
            trigger({**CUSTOM, "cron_expressions": ["0 0 30 2 *"]}),
            ".schedule.cron_expressions[0]",
            "`0 0 30 2 *` never fires: none of its months has such a day",
            "cron",
        ),
        (trigger({**CUSTOM, "cron_expressions": [None]}), ".schedule.cron_expressions[0]", "must be a string", "type"),
    ],
)
def test_each_issue(data: Any, path: str, message: str, rule: str) -> None:
    """It has the path of the value below that of the trigger, what is allowed in words, and the rule."""
    assert check_trigger(data) == [Issue(f"trigger{path}", message, rule)]
    assert check_trigger(data, "body.trigger") == [Issue(f"body.trigger{path}", message, rule)]


def test_a_cron_expression_that_is_not_valid() -> None:
    """The issue is at the expression, with the words of the parser."""
    (issue,) = check_trigger(trigger({**CUSTOM, "cron_expressions": ["0 0 * * *", "61 * * * *"]}))
    assert (issue.path, issue.rule) == ("trigger.schedule.cron_expressions[1]", "cron")
    assert "61" in issue.message


@pytest.mark.parametrize(("length", "shown"), [(80, "x" * 80), (81, "x" * 79 + "…")])
def test_long_values_are_shown_shortened(length: int, shown: str) -> None:
    """A value of up to 80 characters is shown as it is; a longer one in 80."""
    (issue,) = check_trigger({"trigger_type": "x" * length})
    assert issue.message.startswith(f"`{shown}` is not one of ")


def test_as_many_expressions_as_are_allowed() -> None:
    """The bound itself is allowed."""
    assert check_trigger(trigger({**CUSTOM, "cron_expressions": ["0 0 * * *"] * MAX_EXPRESSIONS})) == []


def test_what_is_parsed() -> None:
    """Numbers that are whole become integers; weekdays are in the order of the week; lists become tuples."""
    monthly = parse_schedule({**MONTHLY, "day_of_month": 15.0})
    assert monthly == Schedule(Frequency.MONTHLY, "UTC", "09:30", day_of_month=15)
    assert type(monthly.day_of_month) is int
    weekly = parse_schedule({**WEEKLY, "weekdays": ["friday", "monday"]})
    assert weekly == Schedule(Frequency.WEEKLY, "UTC", "09:30", weekdays=("monday", "friday"))
    expected = Schedule(Frequency.CUSTOM, "UTC", cron_expressions=("0 0 * * *",), cron_description="c")
    assert parse_schedule(CUSTOM) == expected
    assert schedule_of(trigger(CUSTOM)) == expected
    assert schedule_of(None) is schedule_of({"trigger_type": "api"}) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, "skip"), ({}, "skip"), ({"overlap": "skip"}, "skip"), ({"overlap": "allow"}, "allow")],
)
def test_overlap(given: Any, expected: str) -> None:
    """Slots are skipped unless the trigger allows overlaps."""
    assert overlap_of(given) == expected


def custom(*expressions: str, zone: str = "UTC") -> Schedule:
    return Schedule(Frequency.CUSTOM, zone, cron_expressions=expressions, cron_description="c")


def test_firings_in_the_zone() -> None:
    """Each has its instant in UTC, and the local time with the offset of that day."""
    firings = next_fires(custom("30 9 * * *", zone="Europe/Berlin"), datetime(2026, 3, 28, tzinfo=UTC), 2)
    assert [(firing.at, firing.local, firing.note) for firing in firings] == [
        (datetime(2026, 3, 28, 8, 30, tzinfo=UTC), "2026-03-28T09:30:00+01:00", None),
        (datetime(2026, 3, 29, 7, 30, tzinfo=UTC), "2026-03-29T09:30:00+02:00", None),
    ]


def test_notes_on_clock_changes() -> None:
    """A time that the clocks skip, one that they show twice, and one that fires at both of its instants."""
    (skipped,) = next_fires(custom("30 2 * * *", zone="Europe/Berlin"), datetime(2026, 3, 28, 12, tzinfo=UTC), 1)
    assert (skipped.at, skipped.local) == (datetime(2026, 3, 29, 1, tzinfo=UTC), "2026-03-29T03:00:00+02:00")
    assert skipped.note == "clocks skip 2026-03-29 02:30: runs at the first moment after"
    (once,) = next_fires(custom("30 2 * * *", zone="Europe/Berlin"), datetime(2026, 10, 24, 12, tzinfo=UTC), 1)
    assert (once.at, once.local) == (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), "2026-10-25T02:30:00+02:00")
    assert once.note == "clocks go back and show this time twice: runs the first time only"
    both = next_fires(custom("30 * * * *", zone="Europe/Berlin"), datetime(2026, 10, 25, 0, tzinfo=UTC), 2)
    assert [(firing.local, firing.note) for firing in both] == [
        ("2026-10-25T02:30:00+02:00", None),
        ("2026-10-25T02:30:00+01:00", None),
    ]


class TestLastFirings:
    """The last ones of a period, whose beginning is left out and whose end is not."""

    def test_the_edges(self) -> None:
        """A firing at `after` is not of the period, one at `until` is."""
        hourly = custom("0 * * * *")
        assert last_fires(hourly, NOON, NOON + timedelta(hours=2), 9) == [
            NOON + timedelta(hours=1),
            NOON + timedelta(hours=2),
        ]
        assert last_fires(hourly, NOON, NOON + timedelta(minutes=59), 9) == []

    @pytest.mark.parametrize("count", [1, 3])
    def test_as_many_as_wanted(self, count: int) -> None:
        """Those nearest to the end, in order, however long ago the period began."""
        found = last_fires(custom("0 0 * * *"), datetime(2000, 1, 1, tzinfo=UTC), NOON, count)
        assert found == [datetime(2026, 1, 1, tzinfo=UTC) - timedelta(days=days) for days in reversed(range(count))]

    def test_fewer_than_wanted(self) -> None:
        """All of a short period, and none of a schedule that never fires."""
        assert last_fires(custom("0 0 * * *"), NOON - timedelta(days=2), NOON, 5) == [
            datetime(2025, 12, 31, tzinfo=UTC),
            datetime(2026, 1, 1, tzinfo=UTC),
        ]
        assert last_fires(custom("0 0 30 2 *"), NOON - timedelta(days=2), NOON, 5) == []


def test_the_end_of_the_calendar() -> None:
    """From the last year on no firing is looked for, even where there would be one."""
    assert next_fire(custom("0 0 2 1 *"), datetime(9997, 12, 31, tzinfo=UTC)) == datetime(9998, 1, 2, tzinfo=UTC)
    assert next_fire(custom("0 0 2 1 *"), datetime(9998, 1, 1, tzinfo=UTC)) is None


def test_a_naive_time_is_refused() -> None:
    """The error says which value."""
    with pytest.raises(ValueError, match=r"^`after` must be an aware datetime$"):
        next_fire(custom("* * * * *"), datetime(2026, 1, 1))  # noqa: DTZ001
