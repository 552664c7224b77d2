"""Clusters too large for brute force: verdicts against the definitions written down for a solver."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from echelon.engine import Placed
from tests.properties.hierarchies import Instance, draw_instance, examples
from tests.properties.solver_oracle import verdict_beside_best


def medium() -> st.SearchStrategy[Instance]:
    seeds, nodes, pods = st.integers(0, 1 << 32), st.integers(25, 60), st.integers(10, 40)
    return st.builds(draw_instance, seeds, nodes, pods, st.just(False))


@examples(80)
@given(medium())
def test_verdicts_are_true_and_leave_out_as_little_as_can_be(instance: Instance) -> None:
    verdict, best = verdict_beside_best(instance)
    if isinstance(verdict, Placed):
        assert best is not None
        assert verdict.bound <= best <= verdict.objective
        assert verdict.objective[:3] == best[:3]
    else:
        assert verdict.proved
        assert best is None
