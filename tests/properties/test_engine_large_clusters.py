"""Clusters too large for brute force: verdicts against the definitions written down for a solver."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from echelon.engine import Blocked, Objective, Placed, Verdict
from tests.properties.hierarchies import Instance, draw_instance, examples
from tests.properties.large_instances import FAMILIES, draw_with_terms
from tests.properties.reached import Reached, reaches
from tests.properties.solver_oracle import verdict_beside_best

SEEDS, NODES = st.integers(0, 1 << 32), st.integers(25, 60)


def trees() -> st.SearchStrategy[Instance]:
    return st.builds(draw_instance, SEEDS, NODES, st.integers(10, 40), st.just(False))


def trees_with_pod_terms() -> st.SearchStrategy[Instance]:
    return st.builds(draw_with_terms, st.sampled_from(FAMILIES), SEEDS, NODES, st.integers(10, 30))


def true_verdict(reached: Reached, instance: Instance) -> tuple[Verdict, Objective | None]:
    """The verdict and the best objective: it lies between the bound and the objective of a placement, and where there
    is one nothing is proved impossible."""
    verdict, best = verdict_beside_best(instance)
    if isinstance(verdict, Placed):
        reached("placed")
        assert best is not None
        assert verdict.bound <= best <= verdict.objective
    else:
        reached("blocked")
        assert isinstance(verdict, Blocked)
        assert best is None or not verdict.proved
    return verdict, best


@reaches(placed=9, blocked=25)
@examples(80)
@given(trees())
def test_a_tree_on_many_nodes_leaves_out_as_little_as_possible_or_is_proved_impossible(
    reached: Reached, instance: Instance
) -> None:
    verdict, best = true_verdict(reached, instance)
    if isinstance(verdict, Placed):
        assert best is not None
        assert verdict.objective.left_out == best.left_out
    else:
        assert isinstance(verdict, Blocked)
        assert verdict.proved


@reaches(placed=4, blocked=3)
@examples(24)
@given(trees_with_pod_terms())
def test_pods_with_terms_between_them_get_true_verdicts_on_many_nodes(reached: Reached, instance: Instance) -> None:
    true_verdict(reached, instance)
