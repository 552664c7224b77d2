"""Domains in words."""

from __future__ import annotations

import pytest

from echelon.base.paths import spoken


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("b0",), "b0"),
        (("b0", "r1"), "b0/r1"),
        (("gpu-b0", "gpu-b0-r1"), "gpu-b0-r1"),
        (("zone-a", "gpu-b0", "gpu-b0-r1"), "zone-a/gpu-b0-r1"),
        (("", "r1"), "r1"),
    ],
)
def test_a_name_that_repeats_its_parents_is_said_once(path: tuple[str, ...], text: str) -> None:
    assert spoken(path) == text
