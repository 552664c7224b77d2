"""How often Python looks for garbage in cycles: a program with large caches wants that rarely."""

from __future__ import annotations

import gc

#: Hundreds of thousands of objects in caches, hardly a cycle among them: Python's default looks for some far too often.
_OBJECTS_BETWEEN_COLLECTIONS = 50_000


def collect_rarely() -> None:
    """For this process, from now on."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, 20, 20)
