"""The solver by itself: answers as by brute force, every answer a true placement, the same one every time."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine import Demand, Group, Identity, Peers, Placed, PodTerm, Requirement, Steps, decide, problems
from echelon.engine.cluster.regions import CLUSTER
from echelon.engine.models.placement_model import solve_placement
from echelon.engine.search import strategy as door
from echelon.engine.search.strategy import trial_state_for
from echelon.engine.space.canonical import PartBuilder
from echelon.engine.space.tasks import Found, NotFound
from echelon.testing.placement import LEVELS, NOW, ClusterBuilder, composite, exclusive, gang, pods
from tests.properties.brute_force import feasible
from tests.properties.hierarchies import Instance, examples, instances
from tests.properties.reached import Reached, reaches


def answer(cluster: ClusterBuilder, root: Group, steps: int = 50_000) -> Found | NotFound | None:
    part = PartBuilder(cluster.view).part(root, "minimum")
    return solve_placement(trial_state_for(cluster.view, part, CLUSTER), part, CLUSTER, Steps(steps))


@reaches(found=62, impossible=58)
@examples(250)
@given(st.one_of(instances(), instances(max_nodes=5, max_pods=5, with_terms=True)))
def test_small_trees_are_answered_as_by_brute_force(reached: Reached, instance: Instance) -> None:
    found = answer(instance.cluster, instance.demand.root)
    if isinstance(found, NotFound):
        reached("impossible")
        assert found.proved
        assert not feasible(instance.cluster.view, instance.demand)
    elif isinstance(found, Found) and any(part.need for part, _ in found.seats if part.is_leaf):
        reached("found")
        assert feasible(instance.cluster.view, instance.demand)


@reaches(placed=22)
@examples(100)
@given(st.one_of(instances(), instances(with_terms=True)))
def test_what_the_solver_finds_is_a_placement(reached: Reached, instance: Instance) -> None:
    """With the other searches out of the way, verdicts come from the solver, and the checker passes them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "pack_levels", lambda *_: None)
        patch.setattr(door, "Backtrack", _Idle)
        demand = Demand(instance.demand.root, may_preempt=False)
        verdict = decide(instance.cluster.view, demand, NOW)
    if isinstance(verdict, Placed):
        reached("placed")
        assert problems(instance.cluster.view, demand, verdict, NOW) == []


class _Idle:
    """A search that never finds anything."""

    def __init__(self, *_: object) -> None: ...

    def run(self, _: object) -> NotFound:
        return NotFound(proved=False)


def irregular() -> tuple[ClusterBuilder, Group]:
    """Two blocks of two racks of four nodes: gangs of unlike pods, drivers anywhere in the block, one gang too many."""
    cluster, blocks = ClusterBuilder(), []
    for block in ("b1", "b2"):
        for rack in ("r1", "r2"):
            cluster.nodes(f"{block}-{rack}", 4, cpu=8, gpu=8, block=block, rack=rack)
        gangs = [gang(7, pods(4, cpu=3, gpu=5), pods(4, cpu=5, gpu=3), key="rack") for _ in range(2)]
        gangs += [gang(3, pods(2, cpu=2, gpu=1), pods(1, cpu=1, gpu=2)), gang(9, pods(9, cpu=7, gpu=7), key="rack")]
        blocks.append(composite(3, *gangs, key="block"))
    return cluster, composite(2, *blocks)


def test_an_irregular_tree_is_placed() -> None:
    cluster, root = irregular()
    assert isinstance(answer(cluster, root), Found)


def alone(racks: int, key: str) -> tuple[ClusterBuilder, Group]:
    """Racks of three nodes in two islands each; three gangs of unlike pods that want a domain of a key for themselves,
    and one that goes where they leave room."""
    cluster = ClusterBuilder()
    for rack in range(racks):
        for node in range(3):
            labels = {"island": f"i{rack}-{node % 2}"}
            cluster.node(f"n-{rack}-{node}", cpu=4, gpu=4, labels=labels, rack=f"r{rack}")
    own = [gang(3, pods(2, cpu=3, gpu=1), pods(1, cpu=1, gpu=3), exclusive=exclusive(key)) for _ in range(3)]
    return cluster, composite(4, *own, gang(3, pods(3, cpu=1, gpu=1), key="island"))


@pytest.mark.parametrize(("racks", "key", "found"), [(3, "rack", True), (2, "rack", False), (3, "island", True)])
def test_domains_that_groups_want_for_themselves_are_told(racks: int, key: str, found: bool) -> None:
    cluster, root = alone(racks, key)
    assert isinstance(answer(cluster, root), Found) is found
    assert isinstance(cluster.decide(root), Placed) is found


def test_an_exclusive_domain_in_use_is_not_given_to_another_group() -> None:
    cluster, root = alone(3, "rack")
    cluster.run("n-1-0", 0, 0, 0, 77, group=77, exclusive=exclusive("rack"))
    assert answer(cluster, root) == NotFound(proved=True)


def test_keys_outside_the_list_are_told() -> None:
    """Islands across racks, and racks inside islands: the driver is in the island that has two nodes in a rack."""
    cluster = ClusterBuilder()
    for number, (rack, island) in enumerate((("r1", "x"), ("r1", "y"), ("r2", "y"), ("r2", "y"), ("r2", "x"))):
        cluster.node(f"n{number}", cpu=4, gpu=2, labels={"island": island}, rack=rack)
    inner = gang(3, pods(2, cpu=3, gpu=1), pods(1, cpu=1, gpu=1), key="rack")
    root = composite(2, composite(1, inner, key="island"), gang(2, pods(2, cpu=4, gpu=1), key="island"))
    found = answer(cluster, root)
    assert isinstance(found, Found)
    rows = {cluster.view.node_table.name(row) for put in found.puts for row in put.rows if put.part.group == inner.id}
    assert rows == {"n2", "n3"}
    assert answer(cluster, composite(2, composite(1, inner, key="island"), composite(1, inner, key="island"))) == (
        NotFound(proved=True)
    )


def strangers(nodes: int) -> tuple[ClusterBuilder, Group]:
    """Pods with anti-affinity to their own kind, pods with anti-affinity to those, and pods without terms."""
    cluster = ClusterBuilder().nodes("n", nodes, cpu=8, gpu=8)
    keep_off = (PodTerm(LEVELS["host"], Peers((Requirement("app", "In", ("shy",)),), ("ns",))),)
    shy, other = Identity("ns", (("app", "shy"),)), Identity("ns", (("app", "other"),))
    return cluster, composite(3,
        gang(3, pods(3, cpu=3, gpu=2, identity=shy, anti_affinity=keep_off)),
        gang(4, pods(4, cpu=4, gpu=3, identity=other, anti_affinity=keep_off)),
        gang(3, pods(3, cpu=5, gpu=5, identity=other)),
    )  # fmt: skip


@pytest.mark.parametrize(("nodes", "found"), [(5, True), (4, False)])
def test_pods_that_must_not_share_a_node_are_told(nodes: int, found: bool) -> None:
    """Three nodes for the first, shared with the pods without terms, and two for the four others."""
    cluster, root = strangers(nodes)
    assert isinstance(answer(cluster, root), Found) is found
    assert isinstance(cluster.decide(root), Placed) is found


@pytest.mark.parametrize(("members", "found"), [(2, True), (3, False)])
def test_pods_that_must_not_share_a_rack_are_told(members: int, found: bool) -> None:
    cluster = ClusterBuilder().nodes("a", 2, cpu=8, rack="r1").nodes("b", 2, cpu=8, rack="r2")
    keep_off = (PodTerm(LEVELS["rack"], Peers((Requirement("app", "In", ("x",)),), ("ns",))),)
    root = gang(members, pods(members, cpu=1, identity=Identity("ns", (("app", "x"),)), anti_affinity=keep_off))
    assert isinstance(answer(cluster, root), Found) is found


def test_without_budget_the_question_stays_open() -> None:
    cluster, root = irregular()
    assert answer(cluster, root, steps=0) == NotFound(proved=False)


def test_the_same_question_gets_the_same_answer() -> None:
    cluster, root = irregular()
    first, second = answer(cluster, root), answer(cluster, root)
    assert isinstance(first, Found)
    assert isinstance(second, Found)
    assert [(part.group, region.key) for part, region in first.seats] == [
        (part.group, region.key) for part, region in second.seats
    ]
    assert [(put.part.group, put.rows.tolist(), put.counts.tolist()) for put in first.puts] == [
        (put.part.group, put.rows.tolist(), put.counts.tolist()) for put in second.puts
    ]


def test_the_solver_is_not_loaded_before_it_is_asked() -> None:
    loaded = "import sys, echelon.engine; sys.exit('ortools' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loaded], check=False).returncode == 0
