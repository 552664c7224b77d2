"""Counts in texts."""

from __future__ import annotations

import pytest

from echelon.base.decimals import read_count


@pytest.mark.parametrize(("text", "count"), [("0", 0), ("17", 17), ("2147483647", 2**31 - 1), ("0" * 9000 + "5", 5)])
def test_ascii_digits_are_a_count(text: str, count: int) -> None:
    assert read_count(text) == count


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1.0", "²", "٣", "1_000", "9" * 19, "9" * 5000], ids=range(10))
def test_any_other_text_is_none(text: str) -> None:
    assert read_count(text) is None
