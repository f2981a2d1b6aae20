"""Cron expressions, and the effect of clock changes on them (interface, Schedule)."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from clocks import custom, daily, utc

from wfcore.domain.triggers.cron import LAST_YEAR, parse_cron
from wfcore.domain.triggers.schedule import Frequency, Schedule, next_fire, next_fires


def local(schedule: Schedule, after: datetime, count: int) -> list[str]:
    return [firing.local for firing in next_fires(schedule, after, count)]


class TestCronText:
    """interface, Schedule: cron_expressions"""

    @pytest.mark.parametrize(
        ("text", "same"),
        [
            ("*/15 * * * *", "0,15,30,45 * * * *"),
            ("10-50/20 * * * *", "10,30,50 * * * *"),
            ("0 0 1 JAN,dec Mon-fRI", "0 0 1 1,12 1-5"),
            ("0 0 * * 7", "0 0 * * 0"),
            ("0 0 * * sun", "0 0 * * 0"),
            ("0 0 * * 5-7", "0 0 * * 0,5,6"),
            ("00 09 * * *", "0\t9 *\t* *"),
            ("0  9 * *   1", "0 9 * * 1"),
            ("* 0-23 * * *", "* * * * *"),
            ("*/99 * * * *", "0 * * * *"),
            ("5,5,1-5 0 * * *", "1,2,3,4,5 0 * * *"),
        ],
    )
    def test_same_meaning(self, text: str, same: str) -> None:
        """Steps, ranges, lists, names and both Sundays stand for their values."""
        assert parse_cron(text) == parse_cron(same)

    @pytest.mark.parametrize(
        "text",
        [
            *(
                "",
                " ",
                "* * * *",
                "* * * * * *",
                "0 * * * * *",
                "@daily",
                "@reboot",
                "? * * * *",
                "H * * * *",
            ),
            *("0 0 L * *", "0 0 LW * *", "0 0 15W * *", "0 0 * * 5L", "0 0 * * 5#3", "0 0 ? * 1"),
            *("60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *", "* * * * 8"),
            *("5-1 * * * *", "* * * * fri-mon", "1- * * * *", "-1 * * * *", "1-2-3 * * * *", "*-5 * * * *"),
            *("*/0 * * * *", "1-5/0 * * * *", "5/15 * * * *", "*/ * * * *", "*/-1 * * * *", "*/2/2 * * * *"),
            *(", * * * *", "1, * * * *", "1,,2 * * * *", "*,  * * * *", "** * * * *"),
            *("1.0 * * * *", "+1 * * * *", "1_0 * * * *", "0x1 * * * *", "1e1 * * * *"),
            *("jan * * * *", "* * * mon *", "* * * * monday", "* * * * m"),
            *("\u0665 * * * *", "* * * * \u017fun", "\uff10 * * * *", "\u00b2 * * * *"),
            *(" * * * * *", "* * * * * ", "*\n* * * *", "* * * * *\n", "*\v* * * *"),
            *("* * * * *\0", "*\u00a0* * * *", "9" * 400 + " * * * *", ",".join(["0"] * 300) + " * * * *"),
        ],
    )
    def test_refused(self, text: str) -> None:
        """Only five ASCII fields of numbers, names, lists, ranges and steps are accepted."""
        with pytest.raises(ValueError, match=r"`|characters"):
            parse_cron(text)

    def test_every_value_of_every_field_listed(self) -> None:
        """An expression that lists every value is within the bound."""
        fields = [range(60), range(24), range(1, 32), range(1, 13), range(8)]
        assert parse_cron(" ".join(",".join(map(str, field)) for field in fields)).every_hour


class TestClockChanges:
    """A wall time fires at the first instant at which the clock has reached it."""

    def test_gap(self) -> None:
        """A skipped wall time fires once, at the first instant after the gap, with a note."""
        first, second = next_fires(daily("Europe/Berlin", "02:30"), utc(2026, 3, 28, 12), 2)
        assert (first.at, first.local) == (utc(2026, 3, 29, 1), "2026-03-29T03:00:00+02:00")
        assert first.note == "clocks skip 2026-03-29 02:30: runs at the first moment after"
        assert (second.local, second.note) == ("2026-03-30T02:30:00+02:00", None)

    def test_gap_over_several_firings(self) -> None:
        """Several wall times in one gap fire once, and the firings after the gap stay."""
        assert local(custom("Europe/Berlin", "*/15 2,3 * * *"), utc(2026, 3, 28, 12), 3) == [
            "2026-03-29T03:00:00+02:00",
            "2026-03-29T03:15:00+02:00",
            "2026-03-29T03:30:00+02:00",
        ]

    def test_overlap(self) -> None:
        """A repeated wall time fires only the first time, with a note; also for an instant between the two."""
        schedule = daily("Europe/Berlin", "02:30")
        first, second = next_fires(schedule, utc(2026, 10, 24, 12), 2)
        assert (first.at, first.local) == (utc(2026, 10, 25, 0, 30), "2026-10-25T02:30:00+02:00")
        assert first.note == "clocks go back and show this time twice: runs the first time only"
        assert (second.local, second.note) == ("2026-10-26T02:30:00+01:00", None)
        assert next_fire(schedule, utc(2026, 10, 25, 1)) == second.at

    def test_every_hour_is_real_time(self) -> None:
        """An hourly schedule fires in both passes of a repeated hour, and in every real hour."""
        hourly = Schedule(Frequency.HOURLY, "Europe/Berlin", time_of_day="09:30")
        for expected in (
            hourly,
            custom("Europe/Berlin", "30 * * * *"),
            custom("Europe/Berlin", "30 0-23 * * *"),
        ):
            back = next_fires(expected, utc(2026, 10, 24, 23), 4)
            assert [f.at.hour for f in back] == [23, 0, 1, 2]
            assert [f.note for f in back] == [None] * 4
            assert [f.at.hour for f in next_fires(expected, utc(2026, 3, 29), 3)] == [0, 1, 2]

    def test_steps_of_the_hour_are_wall_times(self) -> None:
        """`*/2` does not fire in every hour, so it follows the wall clock."""
        assert local(custom("Europe/Berlin", "0 */2 * * *"), utc(2026, 3, 28, 23), 2) == [
            "2026-03-29T03:00:00+02:00",
            "2026-03-29T04:00:00+02:00",
        ]

    @pytest.mark.parametrize(
        ("minute", "expected"),
        [
            (15, ["01:15:00+10:30", "02:30:00+11:00", "03:15:00+11:00"]),
            (45, ["01:45:00+10:30", "02:45:00+11:00", "03:45:00+11:00"]),
        ],
    )
    def test_half_an_hour_forward(self, minute: int, expected: list[str]) -> None:
        """Lord Howe skips half an hour: a firing in the gap moves to its end."""
        hourly = Schedule(Frequency.HOURLY, "Australia/Lord_Howe", time_of_day=f"00:{minute}")
        assert [each[11:] for each in local(hourly, utc(2026, 10, 3, 14, 20), 3)] == expected

    def test_half_an_hour_back(self) -> None:
        """Lord Howe repeats half an hour: hourly fires in both passes, daily in the first."""
        hourly = Schedule(Frequency.HOURLY, "Australia/Lord_Howe", time_of_day="00:45")
        times = [each[11:] for each in local(hourly, utc(2026, 4, 4, 14), 3)]
        assert times == ["01:45:00+11:00", "01:45:00+10:30", "02:45:00+10:30"]
        assert local(daily("Australia/Lord_Howe", "01:45"), utc(2026, 4, 4, 14), 2) == [
            "2026-04-05T01:45:00+11:00",
            "2026-04-06T01:45:00+10:30",
        ]

    def test_change_within_an_hour(self) -> None:
        """St. John's changed at 00:01; an hourly schedule followed real hours, in spring and in autumn."""
        for change in (utc(1987, 4, 5, 3, 31), utc(1987, 10, 25, 2, 31)):
            firings = next_fires(custom("America/St_Johns", "2 * * * *"), change - timedelta(hours=2), 5)
            gaps = {later.at - earlier.at for earlier, later in pairwise(firings)}
            assert gaps == {timedelta(hours=1)}

    def test_two_hours(self) -> None:
        """Troll skips and repeats two hours."""
        assert local(daily("Antarctica/Troll", "01:30"), utc(2026, 3, 29, 0, 30), 1) == ["2026-03-29T03:00:00+02:00"]
        assert local(daily("Antarctica/Troll", "01:30"), utc(2026, 10, 24, 12), 2) == [
            "2026-10-25T01:30:00+02:00",
            "2026-10-26T01:30:00+00:00",
        ]

    def test_skipped_day(self) -> None:
        """Apia skipped 30 December 2011: a daily firing moves to the start of the 31st, hourly firings are skipped."""
        assert local(daily("Pacific/Apia", "09:30"), utc(2011, 12, 30), 3) == [
            "2011-12-31T00:00:00+14:00",
            "2011-12-31T09:30:00+14:00",
            "2012-01-01T09:30:00+14:00",
        ]
        assert local(custom("Pacific/Apia", "30 * * * *"), utc(2011, 12, 30, 9), 2) == [
            "2011-12-29T23:30:00-10:00",
            "2011-12-31T00:30:00+14:00",
        ]

    def test_negative_daylight_saving(self) -> None:
        """Dublin's winter time is the negative one; only the wall clock matters."""
        [firing] = next_fires(daily("Europe/Dublin", "01:30"), utc(2026, 3, 28, 12), 1)
        assert firing.local == "2026-03-29T02:00:00+01:00"

    def test_offsets_with_seconds(self) -> None:
        """Monrovia was 44:30 behind until 1972, when its clock skipped that much at midnight."""
        assert local(daily("Africa/Monrovia", "00:15"), utc(1972, 1, 6), 3) == [
            "1972-01-06T00:15:00-00:44:30",
            "1972-01-07T00:44:30+00:00",
            "1972-01-08T00:15:00+00:00",
        ]

    def test_quarter_hour_zone(self) -> None:
        """In Kathmandu (+05:45) hourly fires at that minute of the local clock."""
        hourly = Schedule(Frequency.HOURLY, "Asia/Kathmandu", time_of_day="00:10")
        assert next_fire(hourly, utc(2026, 1, 1)) == utc(2026, 1, 1, 0, 25)


class TestCron:
    """Matches of a parsed expression."""

    def test_no_match(self) -> None:
        """An expression without a match within the horizon has no slot."""
        assert parse_cron("0 0 30 2 *").next_slot(ZoneInfo("UTC"), utc(2026, 1, 1)) is None

    def test_either_day(self) -> None:
        """Days of the month beyond the length of a month do not match, days of the week do."""
        days = [wall.day for wall in islice(parse_cron("0 0 30,31 2 mon").wall_times(datetime(2026, 2, 1)), 5)]  # noqa: DTZ001
        assert days == [2, 9, 16, 23, 1]

    def test_the_end_of_the_calendar(self) -> None:
        """Wall times end with `LAST_YEAR`."""
        times = list(parse_cron("0 0 1 1 *").wall_times(datetime(LAST_YEAR - 1, 6, 1)))  # noqa: DTZ001
        assert times == [datetime(LAST_YEAR, 1, 1)]  # noqa: DTZ001


@pytest.mark.parametrize(
    ("text", "fires"),
    [
        ("0 0 30 2 *", False),
        ("0 0 31 4,6,9,11 *", False),
        ("0 0 30,31 2 *", False),
        ("0 0 29 2 *", True),
        ("0 0 31 2,3 *", True),
        ("0 0 31 2 1", True),
        ("0 0 * 2 *", True),
    ],
)
def test_an_expression_without_a_date_never_fires(text: str, fires: bool) -> None:
    """A day that none of its months has never comes; a day of the week beside it is an alternative."""
    cron = parse_cron(text)
    assert cron.fires is fires
    assert (cron.next_slot(ZoneInfo("UTC"), datetime(2026, 1, 1, tzinfo=UTC)) is not None) is fires
