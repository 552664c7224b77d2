"""When schedules are met, also around changes to and from summer time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest

from echelon.base.cron import Interval, Schedule, parse, split_zone

BERLIN, NEW_YORK, LORD_HOWE = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe")


def times(schedule: str, after: str, count: int, zone: tzinfo = UTC) -> list[str]:
    """The next times, as the clock on the wall shows them."""
    at: float | None = datetime.fromisoformat(after).replace(tzinfo=zone).timestamp()
    found: list[str] = []
    for _ in range(count):
        assert at is not None
        at = parse(schedule).next(at, zone)
        assert at is not None
        found.append(datetime.fromtimestamp(at, zone).strftime("%m-%d %H:%M %z"))
    return found


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("*/20 * * * *", ["01-01 00:20", "01-01 00:40", "01-01 01:00"]),
        ("5/25 * * * *", ["01-01 00:05", "01-01 00:30", "01-01 00:55"]),
        ("0 22-23,4 * * *", ["01-01 04:00", "01-01 22:00", "01-01 23:00"]),
        ("@hourly", ["01-01 01:00", "01-01 02:00", "01-01 03:00"]),
        ("@daily", ["01-02 00:00", "01-03 00:00", "01-04 00:00"]),
        ("@weekly", ["01-04 00:00", "01-11 00:00", "01-18 00:00"]),
        ("@monthly", ["02-01 00:00", "03-01 00:00", "04-01 00:00"]),
        ("0 0 ? feb Mon-Wed", ["02-02 00:00", "02-03 00:00", "02-04 00:00"]),
        ("0 0 13 * fri", ["01-02 00:00", "01-09 00:00", "01-13 00:00"]),
        ("0 0 29 2 *", ["02-29 00:00", "02-29 00:00", "02-29 00:00"]),
        ("0 0 */2 * fri", ["01-02 00:00", "01-03 00:00", "01-05 00:00"]),
    ],
)
def test_a_schedule_is_met_at(schedule: str, expected: list[str]) -> None:
    assert [text.removesuffix(" +0000") for text in times(schedule, "2026-01-01T00:00", 3)] == expected


def test_a_time_that_summer_time_leaves_out_is_not_met_that_day() -> None:
    found = times("30 2 * * *", "2026-03-28T00:00", 2, BERLIN)
    assert found == ["03-28 02:30 +0100", "03-30 02:30 +0200"]


def test_a_time_that_winter_time_repeats_is_met_twice() -> None:
    found = times("30 2 * * *", "2026-10-24T12:00", 3, BERLIN)
    assert found == ["10-25 02:30 +0200", "10-25 02:30 +0100", "10-26 02:30 +0100"]


def test_midnight_is_met_every_day_of_the_year_in_every_zone() -> None:
    for zone in (BERLIN, NEW_YORK, LORD_HOWE, ZoneInfo("Asia/Kathmandu")):
        found = times("@daily", "2026-01-01T00:00", 365, zone)
        assert [text[6:11] for text in found] == ["00:00"] * 365
        assert len({text[:5] for text in found}) == 365


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK, LORD_HOWE], ids=str)
@pytest.mark.parametrize("schedule", ["15,45 1-3 * * *", "*/7 2 * * sun", "0 * 1-7 4,10,11 *"])
def test_jumps_over_days_and_hours_find_what_a_look_at_every_minute_finds(schedule: str, zone: ZoneInfo) -> None:
    wanted = parse(schedule)
    assert isinstance(wanted, Schedule)
    for month in (3, 4, 10, 11):
        first = datetime(2026, month, 1, tzinfo=UTC)
        minutes = [first + timedelta(minutes=number) for number in range(31 * 1440)]
        expected = [
            at.timestamp()
            for at in minutes[1:]
            if (local := at.astimezone(zone)).minute in wanted.minutes
            and local.hour in wanted.hours
            and local.month in wanted.months
            and local.day in wanted.days
            and local.isoweekday() % 7 in wanted.weekdays
        ]
        found: list[float] = []
        at = wanted.next(first.timestamp(), zone)
        while at is not None and at <= minutes[-1].timestamp():
            found.append(at)
            at = wanted.next(at, zone)
        assert found == expected


def test_the_latest_time_is_the_last_of_all_since_then() -> None:
    schedule = parse("0 9 * * mon-fri")
    start = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    for hours in range(0, 24 * 40, 7):
        until = start + hours * 3600
        expected, at = None, schedule.next(start, UTC)
        while at is not None and at <= until:
            expected, at = at, schedule.next(at, UTC)
        assert schedule.latest(start, until, UTC) == expected


def test_a_date_that_there_is_not_is_never_met() -> None:
    assert parse("0 0 30 2 *").next(0, UTC) is None
    assert parse("0 0 30 2 *").latest(0, 10**9, UTC) is None


def test_an_interval_counts_from_where_it_begins() -> None:
    every = parse("@every 1h30m")
    assert every == Interval(5400)
    assert every.next(1000.4, UTC) == 6400
    assert every.latest(1000, 1000 + 3 * 5400 + 1, UTC) == 1000 + 3 * 5400
    assert every.latest(1000, 6399, UTC) is None
    assert parse("@every 10ms") == Interval(1)


def test_a_zone_in_front_of_a_schedule_is_told_apart() -> None:
    assert split_zone("CRON_TZ=Asia/Tokyo 0 6 * * *") == ("Asia/Tokyo", "0 6 * * *")
    assert split_zone("0 6 * * *") == ("", "0 6 * * *")
    assert parse("TZ=UTC @daily") == parse("0 0 * * *")
