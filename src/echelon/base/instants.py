"""Timestamps as Kubernetes writes them: RFC 3339 in UTC, seconds (Time) or microseconds (MicroTime)."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def to_time(seconds: float) -> str:
    """`metav1.Time`: whole seconds, `2026-01-02T03:04:05Z`."""
    return _whole(int(seconds))


@lru_cache(maxsize=256)
def _whole(seconds: int) -> str:
    """Cached: a busy server writes the same second thousands of times."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def to_micro_time(seconds: float) -> str:
    """`metav1.MicroTime`: six digits of fraction."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def parse(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 timestamp with any offset and fraction; ValueError if it is invalid."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"timestamp has no UTC offset: {text!r}")
    return instant.timestamp()
