"""Numbers and lists in sentences."""

from __future__ import annotations

from collections.abc import Sequence

#: Names that a list spells out.
NAMES_LISTED = 3


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def plural(number: int, one: str, many: str) -> str:
    """The form of a verb that goes with a number."""
    return one if number == 1 else many


def listed(names: Sequence[str]) -> str:
    """The first few names, then how many more there are."""
    more = len(names) - NAMES_LISTED
    return ", ".join(names[:NAMES_LISTED]) + (f" and {more} more" if more > 0 else "")
