"""Short names of templates, for ReplicaSets and ControllerRevisions."""

from __future__ import annotations

from typing import Any

import msgspec

#: Characters that spell no words.
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


def short_hash(tree: Any, collisions: int = 0) -> str:
    """A hash of a JSON tree; collisions of names change it."""
    text = msgspec.json.encode(tree, order="deterministic")
    number = 0x811C9DC5
    for byte in text + (collisions.to_bytes(8, "little") if collisions else b""):
        number = (number ^ byte) * 0x01000193 & 0xFFFFFFFF
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(number))
