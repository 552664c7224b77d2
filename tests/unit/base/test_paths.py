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
        (("eu", "eu.b0", "eu.b0_r1"), "eu.b0_r1"),
    ],
)
def test_a_name_that_repeats_its_parents_is_said_once(path: tuple[str, ...], text: str) -> None:
    assert spoken(path) == text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("1", "1", "10"), "1/1/10"),
        (("z1", "z10-r1"), "z1/z10-r1"),
        (("z1", "z1"), "z1/z1"),
        (("1", "1-2", "1-20"), "1-2/1-20"),
        (("rack-1", "rack-11"), "rack-1/rack-11"),
    ],
)
def test_a_name_that_only_begins_like_its_parents_is_said_with_it(path: tuple[str, ...], text: str) -> None:
    assert spoken(path) == text
