"""Rows put together: the least cost of so many slots, and rows that cannot matter are left out without a trace."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from echelon.engine.preemption import row_costs
from echelon.engine.preemption.row_costs import INFINITE, cheapest_subsets, combine_rows, useful_rows
from tests.forced_ways import with_useless_rows_left_out


def drawn(rng: Random, rows: int, most: int, dearest: int) -> list[list[int]]:
    """What 1, 2, … slots cost on each row; more never cost less."""
    return [sorted(rng.randint(0, dearest) for _ in range(rng.randint(1, most))) for _ in range(rows)]


def picked(options: list[list[int]], missing: int) -> tuple[int, list[int]]:
    """The cost, and the slots taken from each row."""
    best, trace = combine_rows(options, missing)
    left, taken = missing, []
    for row in reversed(trace):
        taken.append(int(row[left]) if left else 0)
        left = max(0, left - taken[-1])
    return int(best[missing]), taken[::-1]


@pytest.mark.parametrize("seed", range(20))
def test_so_many_slots_cost_what_the_cheapest_of_all_choices_costs(seed: int) -> None:
    rng = Random(seed)
    options, missing = drawn(rng, 4, 3, 9), rng.randint(0, 13)
    choices = product(*(range(len(prices) + 1) for prices in options))
    costs = [
        sum(prices[slots - 1] for prices, slots in zip(options, choice, strict=True) if slots)
        for choice in choices
        if sum(choice) >= missing
    ]
    assert picked(options, missing)[0] == min(costs, default=INFINITE)


@pytest.mark.parametrize("dearest", [3, 60, 1 << 40])
@pytest.mark.parametrize("seed", range(30))
def test_without_rows_that_cannot_matter_the_choice_is_the_same(
    seed: int, dearest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_useless_rows_left_out(monkeypatch)
    rng = Random(seed)
    options = drawn(rng, rng.randint(1, 60), rng.randint(1, 6), dearest)
    missing = rng.randint(0, 20)
    useful = useful_rows(options, missing)
    cost, taken = picked(options, missing)
    fewer_cost, fewer_taken = picked([options[at] for at in useful], missing)
    assert fewer_cost == cost
    if cost < INFINITE:
        assert [taken[at] for at in useful] == fewer_taken
        assert sum(taken) == sum(fewer_taken)


def test_most_of_many_unequal_rows_cannot_matter() -> None:
    options = drawn(Random(1), 1000, 5, 1 << 30)
    assert len(useful_rows(options, 100)) < 300


def test_where_sums_could_be_too_large_every_row_stays() -> None:
    options = [[1, 1 << 55]] * row_costs.FEWEST_ROWS * 2
    assert useful_rows(options, 3) == list(range(len(options)))


def test_a_row_climbs_by_the_cheapest_subset_for_each_number_of_slots() -> None:
    """Two pieces: subsets are none, the first, the second, both."""
    (only,) = cheapest_subsets(np.array([[1, 2, 2, 4]]), np.array([[0, 5, 3, 8]]))
    assert only.free == 1
    assert only.prices == [3, 8, 8]
    assert only.chosen == [2, 3, 3]
