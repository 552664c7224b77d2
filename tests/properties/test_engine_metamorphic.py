"""Changes of the question that must not change the answer, and changes that must: order and names, more nodes, fixes.

Tight random hierarchies; the engine answers to itself here, `test_engine_hierarchies` compares it with brute force.
"""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from echelon.engine import Blocked, Demand, Evict, Loss, Node, Placed, Verdict
from echelon.testing.placement import LEVELS, amounts, copied, judged
from tests.properties.applied_fixes import repaired
from tests.properties.hierarchies import PRIORITY, Instance, examples, instances
from tests.properties.reached import Reached, reaches
from tests.properties.renamed_instances import Disguise

either = st.booleans().flatmap(instances)


def same_worth(one: Verdict, other: Verdict) -> bool:
    """Whether two verdicts amount to the same, names apart."""
    match one, other:
        case Placed(), Placed():
            return one.objective == other.objective
        case Evict(), Evict():
            return cost(one) == cost(other)
        case Blocked(), Blocked():
            return one.proved == other.proved
    return False


def cost(evict: Evict) -> Loss:
    return evict.loss._replace(ids=())


@reaches(placed=106, evict=36, blocked=107)
@examples(500)
@given(either)
def test_order_and_names_do_not_matter(reached: Reached, instance: Instance) -> None:
    disguise = Disguise(Random(instance.seed), instance)
    told_otherwise = judged(disguise.view(), disguise.demand())
    plain = judged(instance.cluster.view, instance.demand)
    assert same_worth(told_otherwise, plain)
    reached(type(plain).__name__.lower())


@reaches(placed=93, evicted=28)
@examples(400)
@given(either)
def test_one_more_node_never_hurts(reached: Reached, instance: Instance) -> None:
    rng = Random(instance.seed)
    before = judged(instance.cluster.view, instance.demand)
    larger = copied(instance.cluster.view)
    domains = {"zone": rng.choice("abc"), "block": rng.choice("12"), "rack": rng.choice("rstu")}
    labels = {LEVELS[level]: value for level, value in domains.items()} | {LEVELS["host"]: "new", "pool": "x"}
    larger.put_node(Node("new", labels, dict(amounts(rng.randint(0, 6), rng.randint(0, 2), pods=110))))
    after = judged(larger, instance.demand)
    match before:
        case Placed():
            reached("placed")
            assert isinstance(after, Placed), after
        case Evict():
            reached("evicted")
            assert not isinstance(after, Blocked), after
            assert isinstance(after, Placed) or cost(after) <= cost(before)


@reaches(fixed=236)
@examples(400)
@given(either)
def test_every_proposed_fix_makes_the_demand_fit(reached: Reached, instance: Instance) -> None:
    demand = Demand(instance.demand.root, PRIORITY, may_preempt=False)
    verdict = judged(instance.cluster.view, demand)
    if isinstance(verdict, Blocked):
        for fix in verdict.fixes:
            assert isinstance(judged(*repaired(instance.cluster.view, demand, fix)), Placed), fix
            reached("fixed")


@reaches(evicted=26)
@examples(200)
@given(instances(victims=True))
def test_evicting_what_a_verdict_names_makes_the_demand_fit(reached: Reached, instance: Instance) -> None:
    verdict = judged(instance.cluster.view, instance.demand)
    if isinstance(verdict, Evict):
        reached("evicted")
        gone = {pod.pod for unit in verdict.units for pod in instance.cluster.view.pods_of(unit) if pod.evictable}
        without = copied(instance.cluster.view, lambda pod: pod.pod in gone)
        assert isinstance(judged(without, instance.demand), Placed)
