"""Counters of branches fail a property whose generator has stopped reaching them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.hierarchies import examples
from tests.properties.reached import Reached, reaches


def test_a_branch_that_is_rarely_reached_fails() -> None:
    reached = Reached({"placed": 1, "evicted": 2})
    reached("placed")
    reached("evicted")
    with pytest.raises(AssertionError, match="evicted 1 times, at least 2 expected"):
        reached.check()
    reached("evicted")
    reached.check()


def test_a_branch_without_a_minimum_fails() -> None:
    with pytest.raises(AssertionError, match="say in @reaches how often 'placed' must be reached"):
        Reached({"evicted": 1})("placed")


@pytest.mark.xfail(raises=AssertionError, strict=True, reason="the generator makes no odd number")
@reaches(odd=1)
@examples(20)
@given(st.integers(0, 100).map(lambda number: number * 2))
def test_a_property_whose_generator_never_reaches_its_branch_fails(reached: Reached, number: int) -> None:
    if number % 2:
        reached("odd")
