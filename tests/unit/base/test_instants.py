"""Timestamps: four digits of a year, whatever the year."""

from __future__ import annotations

import pytest

from echelon.base import instants


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "0999-12-31T23:59:59Z", "2024-02-29T12:00:00Z"])
def test_a_time_is_written_as_it_was_read(text: str) -> None:
    assert instants.to_time(instants.parse(text)) == text
    micro = text.replace("Z", ".000000Z")
    assert instants.to_micro_time(instants.parse(micro)) == micro
