"""Durations as kubectl prints them: at most two units."""

from __future__ import annotations

from typing import Any

from ....base import instants

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 31536000


def duration(seconds: float) -> str:
    """`90s`, `5m30s`, `3h20m`, `2d4h`, `400d`, `3y40d`."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    for below, unit, suffix, rest_unit, rest_suffix in _STEPS:
        if whole < below:
            return _two(whole, unit, suffix, rest_unit, rest_suffix)
    return f"{whole // _YEAR}y"


#: Below this many seconds: print in this unit, and the rest in that one (0: drop the rest).
_STEPS = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


def _two(whole: int, unit: int, suffix: str, rest_unit: int, rest_suffix: str) -> str:
    text = f"{whole // unit}{suffix}"
    rest = whole % unit // rest_unit if rest_unit else 0
    return f"{text}{rest}{rest_suffix}" if rest else text


def since(instant: Any, now: float) -> str:
    """The time since an RFC 3339 timestamp; `<unknown>` for None."""
    return duration(now - instants.parse(instant)) if instant else "<unknown>"
