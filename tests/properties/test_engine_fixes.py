"""Every fix that is proposed works, also with terms between pods; and no two fixes say the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from echelon.engine import Blocked, Demand, Placed
from echelon.testing.placement import judged
from tests.properties.applied_fixes import repaired
from tests.properties.hierarchies import PRIORITY, Instance, examples, instances
from tests.properties.reached import Reached, reaches


@reaches(fixed=97, several_fixes=27)
@examples(250)
@given(
    st.booleans().flatmap(lambda victims: instances(victims, max_nodes=10, max_pods=8, with_terms=True)), st.booleans()
)
def test_every_fix_proposed_to_pods_with_terms_between_them_makes_them_fit(
    reached: Reached, instance: Instance, least: bool
) -> None:
    """Whether they may not preempt, or are of a priority below all others."""
    priority = min([unit.priority for unit in instance.cluster.view.units()], default=0) if least else PRIORITY
    view, demand = instance.cluster.view, Demand(instance.demand.root, priority, may_preempt=least)
    verdict = judged(view, demand)
    if isinstance(verdict, Blocked):
        if len(verdict.fixes) > 1:
            reached("several_fixes")
        for fix in verdict.fixes:
            assert isinstance(judged(*repaired(view, demand, fix)), Placed), fix
            reached("fixed")
        assert [fix.cost for fix in verdict.fixes] == sorted(fix.cost for fix in verdict.fixes)
        assert len(set(verdict.fixes)) == len(verdict.fixes)
