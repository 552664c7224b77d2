"""Counts in texts."""

from __future__ import annotations

import pytest

from echelon.base.decimals import read_count, share


@pytest.mark.parametrize(("text", "count"), [("0", 0), ("17", 17), ("2147483647", 2**31 - 1), ("0" * 9000 + "5", 5)])
def test_ascii_digits_are_a_count(text: str, count: int) -> None:
    assert read_count(text) == count


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1.0", "²", "٣", "1_000", "9" * 19, "9" * 5000], ids=range(10))
def test_any_other_text_is_none(text: str) -> None:
    assert read_count(text) is None


@pytest.mark.parametrize(
    ("amount", "of", "up", "down"),
    [(3, 10, 3, 3), (0, 10, 0, 0), ("25%", 10, 3, 2), ("30%", 10, 3, 3), ("1%", 1, 1, 0), ("100%", 7, 7, 7),
     ("0%", 7, 0, 0), ("250%", 4, 10, 10), ("many", 7, 0, 0)],
)  # fmt: skip
def test_a_share_is_a_count_or_a_percentage(amount: int | str, of: int, up: int, down: int) -> None:
    assert share(amount, of, round_up=True) == up
    assert share(amount, of, round_up=False) == down
