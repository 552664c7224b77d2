"""Cron schedules: five fields, words for months and weekdays, `@daily` and its like, `@every 90s`.

They are read as robfig/cron reads them, which Kubernetes uses, with its messages for what cannot be read.  A schedule
is met at every whole minute whose date and time *in its time zone* match: a time that a change to summer time leaves
out is not met on that day, and one that the change back repeats is met twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, tzinfo

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
#: Least and largest value of minute, hour, day, month and weekday, and words for values.
_PARTS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 6, _DAYS),
)  # fmt: skip
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = re.compile(r"@every ((?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ns|us|µs|ms|s|m|h))+)")
_AMOUNT = re.compile(r"([0-9.]+)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_ZONE = re.compile(r"^(?:CRON_)?TZ=(\S+)\s+")
_MINUTE, _HOUR, _DAY = 60, 60, 24 * 60
#: A schedule that is not met for so long is never met.
_LONGEST_WAIT = 5 * 366 * 86_400


class BadSchedule(ValueError):
    """A text that is no schedule; the message says why."""


@dataclass(frozen=True)
class Schedule:
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    #: With a star in one of them, day and weekday must both match; else either is enough.
    any_day: bool

    def next(self, after: float, zone: tzinfo) -> float | None:
        """The first time after `after`, in seconds since the epoch; None if there is none in five years."""
        at = (int(after) // _MINUTE + 1) * _MINUTE
        limit = at + _LONGEST_WAIT
        while at < limit:
            local = datetime.fromtimestamp(at, zone)
            if not self._on(local):
                at = _forward(at, local, _DAY - local.hour * 60 - local.minute)
            elif local.hour not in self.hours:
                at = _forward(at, local, _HOUR - local.minute)
            elif local.minute not in self.minutes:
                at += _MINUTE
            else:
                return float(at)
        return None

    def latest(self, after: float, until: float, zone: tzinfo) -> float | None:
        """The last time after `after` and not after `until`."""
        span = float(_MINUTE)
        while True:
            begin = max(after, until - span)
            found = self.next(begin, zone)
            if found is not None and found <= until:
                break
            if begin == after:
                return None
            span *= 2
        while (later := self.next(found, zone)) is not None and later <= until:
            found = later
        return found

    def _on(self, local: datetime) -> bool:
        if local.month not in self.months:
            return False
        day, weekday = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return (day and weekday) if self.any_day else (day or weekday)


@dataclass(frozen=True)
class Interval:
    """`@every`: met again and again after this many seconds, counted from where one begins to look."""

    seconds: float

    def next(self, after: float, zone: tzinfo) -> float | None:
        return int(after) + self.seconds

    def latest(self, after: float, until: float, zone: tzinfo) -> float | None:
        rounds = int((until - int(after)) // self.seconds)
        return int(after) + rounds * self.seconds if rounds > 0 else None


def _forward(at: int, local: datetime, minutes: int) -> int:
    """`minutes` later on the clock of the wall; fewer if that clock is put forward or back on the way."""
    for step in (minutes, _HOUR - local.minute, 1):
        later = at + step * _MINUTE
        if datetime.fromtimestamp(later, local.tzinfo).utcoffset() == local.utcoffset():
            return later
    return at + _MINUTE


def split_zone(text: str) -> tuple[str, str]:
    """The time zone that a schedule names in front, "" for none, and the rest."""
    found = _ZONE.match(text)
    return (found[1], text[found.end() :]) if found else ("", text)


def parse(text: str) -> Schedule | Interval:
    """`BadSchedule` if it cannot be read.  A time zone in front is not looked at."""
    text = split_zone(text)[1]
    every = _EVERY.fullmatch(text)
    if every:
        seconds = sum(float(amount) * _SECONDS[unit] for amount, unit in _AMOUNT.findall(every[1]))
        return Interval(float(max(1, int(seconds))))
    if text.startswith("@") and text not in _NAMED:
        raise BadSchedule(f"unrecognized descriptor: {text}")
    fields = _NAMED.get(text, text).split()
    if len(fields) != len(_PARTS):
        raise BadSchedule(f"expected exactly {len(_PARTS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    values: list[frozenset[int]] = []
    for field, (least, most, words) in zip(fields, _PARTS, strict=True):
        values.append(frozenset().union(*(_range(one, least, most, words) for one in field.split(","))))
    any_day = any(one in ("*", "?", "*/1", "?/1") for field in (fields[2], fields[4]) for one in field.split(","))
    minutes, hours, days, months, weekdays = values
    return Schedule(minutes, hours, days, months, weekdays, any_day)


def _range(text: str, least: int, most: int, words: tuple[str, ...]) -> range:
    ranged, *steps = text.split("/")
    if len(steps) > 1:
        raise BadSchedule(f"too many slashes: {text}")
    bounds = ranged.split("-")
    if len(bounds) > 2:
        raise BadSchedule(f"too many hyphens: {text}")
    numbers = [] if ranged in ("*", "?") else [_number(bound, least, words) for bound in bounds]
    step = _number(steps[0], 0, ()) if steps else 1
    begin, end = (numbers[0], numbers[-1]) if numbers else (least, most)
    if len(numbers) == 1 and steps:
        end = most
    if begin < least:
        raise BadSchedule(f"beginning of range ({begin}) below minimum ({least}): {text}")
    if end > most:
        raise BadSchedule(f"end of range ({end}) above maximum ({most}): {text}")
    if begin > end:
        raise BadSchedule(f"beginning of range ({begin}) beyond end of range ({end}): {text}")
    if step == 0:
        raise BadSchedule(f"step of range should be a positive number: {text}")
    return range(begin, end + 1, step)


def _number(text: str, least: int, words: tuple[str, ...]) -> int:
    if text.lower() in words:
        return words.index(text.lower()) + least
    if not re.fullmatch("[0-9]{1,9}", text):
        raise BadSchedule(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)
