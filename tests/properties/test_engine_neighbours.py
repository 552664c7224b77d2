"""Pods that mind one another on clusters too large for brute force: verdicts against the definitions for a solver."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from echelon.engine import Placed
from tests.properties.hierarchies import Instance, examples
from tests.properties.large_instances import FAMILIES, draw_neighbours
from tests.properties.solver_oracle import verdict_beside_best


def neighbours() -> st.SearchStrategy[Instance]:
    families, seeds = st.sampled_from(FAMILIES), st.integers(0, 1 << 32)
    return st.builds(draw_neighbours, families, seeds, st.integers(25, 60), st.integers(10, 30))


@examples(24)
@given(neighbours())
def test_pods_that_mind_one_another_get_true_verdicts_on_many_nodes(instance: Instance) -> None:
    verdict, best = verdict_beside_best(instance)
    if isinstance(verdict, Placed):
        assert best is not None
        assert verdict.bound <= best <= verdict.objective
    else:
        assert best is None or not verdict.proved
