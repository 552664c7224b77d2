"""Preemption among overlapping budgets, equal losses, pods on their way, units that cannot go and neighbours that are
wanted, against brute force.

Nodes are few and units many, so that most sets of victims differ in a single number of their loss, or in none.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine import (
    Blocked,
    Demand,
    Evict,
    Group,
    Identity,
    Leaf,
    Peers,
    Placed,
    PodTerm,
    Requirement,
    decide,
    problems,
)
from echelon.testing.placement import LEVELS, NOW, ClusterBuilder, composite, fresh_id, gang, pods
from tests.forced_ways import without_branching
from tests.properties.brute_force import feasible, least_loss
from tests.properties.hierarchies import Instance, examples
from tests.properties.reached import Reached, reaches

pytestmark = pytest.mark.timeout(3600)

PRIORITY = 10


def draw(seed: int, with_terms: bool = False) -> Instance:
    """With `with_terms`, running pods have labels, and new pods have affinity to some of them."""
    rng, cluster = Random(seed), ClusterBuilder()
    names = [f"n{number}" for number in range(rng.randint(1, 4))]
    room = {name: rng.randint(3, 6) for name in names}
    for name in names:
        cluster.node(name, cpu=room[name], gpu=2, rack=rng.choice("rs"))
    budgets = [cluster.budget(rng.randint(0, 2)) for _ in range(rng.randint(0, 3))]
    for _ in range(rng.randint(3, 8)):
        _unit(rng, cluster, room, budgets, with_terms)
    return Instance(seed, cluster, Demand(_wanted(rng, sum(room.values()), with_terms), PRIORITY))


def _unit(rng: Random, cluster: ClusterBuilder, room: dict[str, int], budgets: list[int], with_terms: bool) -> None:
    """One to three pods that go together, where there is room; some are leaving, some were only promised a place."""
    unit, priority = fresh_id(), rng.choice((1, 1, 5, 9, PRIORITY, 20))
    started, stays, coming = NOW - rng.choice((0, 0, 10, 10, 20, 30)), rng.random() < 0.1, rng.random() < 0.15
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        open_nodes = [name for name, left in room.items() if left]
        if open_nodes:
            name = rng.choice(open_nodes)
            size = rng.randint(1, min(2, room[name]))
            room[name] -= size
            covered = tuple(budget for budget in budgets if rng.random() < 0.4) if not coming else ()
            leaving = stays or rng.random() < 0.05
            named = Identity("ns", (("app", rng.choice("ab")),)) if with_terms and not coming else None
            cluster.run(
                name, cpu=size, priority=priority, unit=unit, started=started, budgets=covered, evictable=not leaving,
                coming=coming, identity=named,
            )  # fmt: skip


def _wanted(rng: Random, left: int, with_terms: bool) -> Group:
    """A little more than there is room for."""
    leaves = [_leaf(rng, left, with_terms) for _ in range(rng.choice((1, 1, 2)))]
    return leaves[0] if len(leaves) == 1 else composite(rng.randint(1, 2), *leaves, key=rng.choice((None, "rack")))


def _leaf(rng: Random, left: int, with_terms: bool) -> Leaf:
    number, wishes = rng.randint(1, 2), dict[str, object]()
    if with_terms:
        near = PodTerm(LEVELS[rng.choice(("host", "rack"))], Peers((Requirement("app", "In", ("a",)),), ("ns",)))
        wishes = {"affinity": (near,), "identity": Identity("ns", (("app", rng.choice("abb")),))}
    classes = [pods(number, cpu=rng.randint(1, 3), gpu=rng.choice((0, 0, 1)), **wishes)]
    if rng.random() < 0.5 or left > 2:
        classes.append(pods(rng.randint(1, 2), cpu=rng.randint(1, 2)))
    members = sum(len(each.members) for each in classes)
    return gang(rng.choice((members, members, max(1, members - 1))), *classes, key=rng.choice((None, "rack", "host")))


SEEDS = st.integers(0, 1 << 32)


@reaches(placed=6, blocked=22, evicted=20)
@pytest.mark.parametrize("with_terms", [False, True])
@examples(120)
@given(SEEDS)
def test_evictions_lose_least_down_to_the_ids_and_no_victim_could_stay(
    reached: Reached, with_terms: bool, seed: int
) -> None:
    view, demand = (instance := draw(seed, with_terms)).cluster.view, instance.demand
    verdict = decide(view, demand, NOW)
    assert problems(view, demand, verdict, NOW) == []
    if feasible(view, demand):
        assert isinstance(verdict, Placed)
        reached("placed")
        return
    least = least_loss(view, demand, NOW)
    assert isinstance(verdict, Evict if least else Blocked), verdict
    reached("evicted" if least else "blocked")
    if isinstance(verdict, Evict):
        assert (*verdict.loss.as_bound, verdict.loss.ids) == least
        assert verdict.least
        gone = frozenset(verdict.units)
        assert not any(feasible(view, demand, gone - {unit}) for unit in gone)


@reaches(evicted=16)
@examples(80)
@given(SEEDS)
def test_the_solver_and_arithmetic_alone_say_the_same(reached: Reached, seed: int) -> None:
    view, demand = (instance := draw(seed)).cluster.view, instance.demand
    with pytest.MonkeyPatch.context() as patch:
        without_branching(patch)
        verdict = decide(view, demand, NOW)
    if isinstance(verdict, Evict):
        least = least_loss(view, demand, NOW)
        assert least is not None
        reached("evicted")
        assert verdict.loss.as_bound == least[:4] == verdict.bound


@reaches(placed=1, blocked=27, could_evict=9)
@examples(60)
@given(SEEDS)
def test_a_demand_that_may_not_preempt_is_placed_or_blocked_as_if_no_pod_could_be_evicted(
    reached: Reached, seed: int
) -> None:
    view, demand = (instance := draw(seed)).cluster.view, replace(instance.demand, may_preempt=False)
    verdict = decide(view, demand, NOW)
    assert problems(view, demand, verdict, NOW) == []
    assert isinstance(verdict, Placed) == feasible(view, demand)
    reached("blocked" if isinstance(verdict, Blocked) else "placed")
    if isinstance(verdict, Blocked):
        assert not verdict.preemption_tried
        evict = decide(view, instance.demand, NOW)
        if isinstance(evict, Evict):
            reached("could_evict")
        assert not isinstance(evict, Evict) or problems(view, demand, evict, NOW)
