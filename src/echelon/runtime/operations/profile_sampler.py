"""A sampling profile of one thread, taken from another: the thread itself runs as it does otherwise."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from pathlib import PurePath
from types import FrameType

_SECONDS_BETWEEN_SAMPLES = 0.005
_DEEPEST = 60


def sample_stacks(thread: int, seconds: float, ended: threading.Event) -> Counter[tuple[str, ...]]:
    """How often each stack of a thread was seen, outermost frame first; blocks for `seconds`, or until `ended`."""
    counted: Counter[tuple[str, ...]] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end and not ended.wait(_SECONDS_BETWEEN_SAMPLES):
        frame = sys._current_frames().get(thread)
        if frame is not None:
            counted[_stack(frame)] += 1
    return counted


def _stack(frame: FrameType | None) -> tuple[str, ...]:
    found: list[str] = []
    while frame is not None and len(found) < _DEEPEST:
        code = frame.f_code
        found.append(f"{PurePath(code.co_filename).stem}.{code.co_qualname}")
        frame = frame.f_back
    return tuple(reversed(found))
