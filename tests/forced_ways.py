"""The engine made to take one of its ways on instances small enough to be judged by brute force.

The engine chooses among ways to the same answer by the size of a question.  These sizes are constants and no part of
`Limits`: no caller has a reason to set them, and only a test wants the way of large questions on a small one.
"""

from __future__ import annotations

import pytest

from echelon.engine.cluster import potential
from echelon.engine.preemption import region_search, row_costs, victim_model


def without_branching(patch: pytest.MonkeyPatch) -> None:
    """Victims are chosen as among many: by arithmetic, then by the solver."""
    patch.setattr(region_search, "FEW_VICTIMS", 0)
    patch.setattr(region_search, "MOST_BRANCHED", 0)


def without_victim_solver(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(victim_model, "LARGEST_MODEL", 0)


def with_useless_rows_left_out(patch: pytest.MonkeyPatch) -> None:
    """Rows that no cheapest choice of victims can use are left out, however few there are."""
    patch.setattr(row_costs, "FEWEST_ROWS", 0)


def with_wide_domains_from(patch: pytest.MonkeyPatch, nodes: int) -> None:
    """Slots of domains with more nodes than this are bounded instead of counted."""
    patch.setattr(potential, "WIDE", nodes)
