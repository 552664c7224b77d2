"""Tuning of Python's garbage collector: with large caches it should run rarely, and never for long."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

#: The caches hold hundreds of thousands of objects and few cycles; Python's default threshold scans them too often.
_OBJECTS_BETWEEN_COLLECTIONS = 50_000
#: A full collection that takes longer than this would be noticed by clients.
_LONG_SECONDS = 0.02
_OLDEST_GENERATION = 2


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Raise the collection thresholds of this process, and do not look again at what survived a long collection.

    Cached objects are freed by their reference counts.  Only cycles among them would stay, and caches have none.
    After the block the collector is as it was, for a program that goes on with something else.
    """
    before, freezing = gc.get_threshold(), _FreezeAfterLongCollections()
    # The middle generation after 10 of the youngest, not 20: beside a large object each then takes 25 ms, not 50.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, 10, 40)
    gc.callbacks.append(freezing)
    try:
        yield
    finally:
        gc.callbacks.remove(freezing)
        gc.set_threshold(*before)
        gc.unfreeze()


class _FreezeAfterLongCollections:
    def __init__(self) -> None:
        self._began = 0.0

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        if info["generation"] != _OLDEST_GENERATION:
            return
        if phase == "start":
            self._began = time.thread_time()
        elif time.thread_time() - self._began > _LONG_SECONDS:
            gc.freeze()
