"""How often a property reached the branches it is about.

A property that asserts only `if isinstance(verdict, Evict)` proves nothing once its generator stops making evictions.
So it says how many examples must get there, and counts them:

    @reaches(evicted=30)
    @examples(100)
    @given(instances())
    def test_something(reached: Reached, instance: Instance) -> None:
        if isinstance(verdict, Evict):
            reached("evicted")
            assert ...

The fixture lives as long as the test, over all its examples; `conftest.py` looks at the counts when they have passed.
Examples are the same in every run: they follow from the source of the test, so a count changes only with the test, the
generator or the engine.  Minimums are about half, and of small numbers a third, of what was counted when they were
written; 0 is for a branch that may be reached and need not be.
"""

from __future__ import annotations

from collections import Counter

import pytest


class Reached:
    """Counts of named branches, each with a minimum."""

    def __init__(self, at_least: dict[str, int]) -> None:
        self._at_least = at_least
        self._counts: Counter[str] = Counter()

    def __call__(self, branch: str) -> None:
        assert branch in self._at_least, f"say in @reaches how often {branch!r} must be reached"
        self._counts[branch] += 1

    def check(self) -> None:
        rare = [
            f"{branch} {self._counts[branch]} times, at least {least} expected"
            for branch, least in self._at_least.items()
            if self._counts[branch] < least
        ]
        assert not rare, "branches rarely reached: " + "; ".join(rare)


def reaches(**at_least: int) -> pytest.MarkDecorator:
    """The test takes a `Reached` named `reached` and calls it with each of these names at least this often."""
    return pytest.mark.reaches(**at_least)


def expected(item: pytest.Item) -> dict[str, int]:
    """The minimums of a test, those of all its `reaches` marks."""
    return {branch: least for mark in item.iter_markers("reaches") for branch, least in mark.kwargs.items()}
