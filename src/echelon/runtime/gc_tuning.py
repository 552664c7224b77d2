"""Tuning of Python's garbage collector: with large caches it should run rarely."""

from __future__ import annotations

import gc

#: The caches hold hundreds of thousands of objects and few cycles; Python's default threshold scans them too often.
_OBJECTS_BETWEEN_COLLECTIONS = 50_000


def collect_rarely() -> None:
    """Raise the collection thresholds of this process."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, 20, 20)
