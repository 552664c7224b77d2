"""Counts and indexes that stand in texts (annotations, labels, index lists), and percentages of counts."""

from __future__ import annotations

#: More digits than any 32-bit number has; int() refuses texts of thousands of digits, and costs quadratic time.
_MOST_DIGITS = 18


def read_count(text: str) -> int | None:
    """The number that a text of ASCII digits says; None for any other text, and for one too large to be a count."""
    if not text.isascii() or not text.isdigit():
        return None
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) <= _MOST_DIGITS else None


def share(amount: int | str, of: int, *, round_up: bool) -> int:
    """A count, or a percentage of `of`; a text that is no percentage is none of it."""
    if isinstance(amount, int):
        return amount
    hundredths = (read_count(amount.removesuffix("%")) or 0) * of
    return -(-hundredths // 100) if round_up else hundredths // 100
