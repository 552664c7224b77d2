"""Rules between pods: affinity, anti-affinity and spread."""

from __future__ import annotations

from dataclasses import replace

import pytest

from echelon.engine import (
    Blocked,
    Demand,
    Evict,
    Identity,
    Peers,
    Placed,
    PodClass,
    PodTerm,
    Requirement,
    Spread,
    problems,
    sentence,
)
from echelon.engine.cluster.pod_index import PodQuery
from echelon.engine.cluster.regions import CLUSTER
from echelon.engine.search.strategy import trial_state_for
from echelon.engine.space.canonical import PartBuilder
from echelon.engine.space.rule_state import RuleState
from echelon.engine.space.trial_state import SlotState
from echelon.testing.placement import LEVELS, NOW, ClusterBuilder, blocked, composite, gang, pods

HOST, RACK, ZONE = LEVELS["host"], LEVELS["rack"], LEVELS["zone"]


def app(name: str) -> Identity:
    return Identity("default", (("app", name),))


def peers(*names: str) -> Peers:
    return Peers((Requirement("app", "In", names),), ("default",))


def one_per(key: str, number: int) -> PodClass:
    return pods(number, cpu=1, identity=app("x"), anti_affinity=(PodTerm(key, peers("x")),))


def racks(sizes: dict[str, int], cpu: int = 8) -> ClusterBuilder:
    cluster = ClusterBuilder()
    for rack, size in sizes.items():
        cluster.nodes(rack, size, cpu=cpu, rack=rack)
    return cluster


@pytest.mark.parametrize(
    ("key", "kind", "most"),
    [
        pytest.param(HOST, SlotState, 5, id="per-node: a matter of counting"),
        pytest.param(RACK, RuleState, 2, id="per-rack: the rules between pods are needed"),
    ],
)
@pytest.mark.parametrize("more", [0, 1])
def test_one_per_domain(key: str, kind: type[SlotState | RuleState], most: int, more: int) -> None:
    cluster, leaf = racks({"a": 2, "b": 3}), gang(most + more, one_per(key, most + more))
    assert isinstance(trial_state_for(cluster.view, PartBuilder(cluster.view).part(leaf, "minimum"), CLUSTER), kind)
    verdict = cluster.decide(leaf)
    if isinstance(verdict, Placed):
        assert not more
        assert len(set(verdict.assignment.values())) == most
    else:
        assert more
        assert blocked(verdict).proved
        assert f"has room for {most}" in sentence(verdict, {})


def test_extras_that_would_break_a_term_stay_out() -> None:
    verdict = racks({"a": 2, "b": 3}).decide(gang(1, one_per(RACK, 4)))
    assert isinstance(verdict, Placed)
    assert len(verdict.assignment) == 2


@pytest.mark.conformance("SCH-E13")
def test_a_follower_is_placed_with_its_leader_whatever_their_order() -> None:
    follower = pods(1, cpu=1, affinity=(PodTerm(HOST, peers("leader")),))
    leader = pods(1, cpu=1, identity=app("leader"))
    for classes in ((follower, leader), (leader, follower)):
        verdict = ClusterBuilder().node("n1", cpu=2).node("n2", cpu=1).decide(gang(2, *classes))
        assert isinstance(verdict, Placed)
        assert set(verdict.assignment.values()) == {"n1"}


def test_groups_of_a_tree_satisfy_the_affinity_of_one_another() -> None:
    follower = gang(2, pods(2, cpu=1, affinity=(PodTerm(RACK, peers("leader")),)))
    leader = gang(1, pods(1, cpu=4, identity=app("leader")))
    cluster = racks({"a": 3}, cpu=2)
    cluster.nodes("b", 2, cpu=4, rack="b")
    verdict = cluster.decide(composite(2, follower, leader))
    assert isinstance(verdict, Placed)
    assert {name[0] for name in verdict.assignment.values()} == {"b"}


def test_pods_with_affinity_to_their_own_kind_go_where_the_first_goes() -> None:
    together = PodTerm(RACK, peers("x"))
    cluster = racks({"a": 1, "b": 2}, cpu=2)
    verdict = cluster.decide(gang(4, pods(4, cpu=1, identity=app("x"), affinity=(together,))))
    assert isinstance(verdict, Placed)
    assert {name[0] for name in verdict.assignment.values()} == {"b"}
    cluster.run("a-0", identity=app("x"), priority=100)
    blocked = cluster.decide(gang(4, pods(4, cpu=1, identity=app("x"), affinity=(together,))))
    assert isinstance(blocked, Blocked)
    assert blocked.proved
    assert "2 nodes are not near to pods with app=x (its affinity)" in sentence(blocked, {})


@pytest.mark.conformance("SCH-E15")
def test_the_pod_that_an_affinity_asks_for_is_not_evicted() -> None:
    cluster = ClusterBuilder().node("n", cpu=4)
    cluster.run("n", cpu=1, priority=10, identity=app("db"))
    batch = cluster.run("n", cpu=3, priority=10, identity=app("batch"))
    verdict = cluster.decide(gang(2, pods(2, cpu=1, affinity=(PodTerm(HOST, peers("db")),))), priority=100)
    assert isinstance(verdict, Evict)
    assert verdict.units == (batch,)


def test_the_anti_affinity_of_running_pods_holds_for_new_pods() -> None:
    cluster = ClusterBuilder().node("n1", cpu=4).node("n2", cpu=4)
    cluster.run("n1", repels=(PodTerm(HOST, peers("x")),), identity=app("y"), priority=100)
    verdict = cluster.decide(gang(1, pods(1, cpu=1, identity=app("x"))))
    assert isinstance(verdict, Placed)
    assert list(verdict.assignment.values()) == ["n2"]


@pytest.mark.parametrize(("skew", "counts"), [(1, [2, 2, 3]), (3, [1, 3, 3])])
def test_a_spread_holds_for_the_whole_group(skew: int, counts: list[int]) -> None:
    cluster = ClusterBuilder()
    for zone, cpu in (("a", min(counts)), ("b", 4), ("c", 4)):
        cluster.node(f"n-{zone}", cpu=cpu, zone=zone)
    if skew == 1:
        cluster.node("n-a2", cpu=8, zone="a")
    even = Spread(ZONE, skew, peers("x"))
    verdict = cluster.decide(gang(7, pods(7, cpu=1, identity=app("x"), spread=(even,))))
    assert isinstance(verdict, Placed)
    names = list(verdict.assignment.values())
    held = [sum(name.startswith(f"n-{zone}") for name in names) for zone in "abc"]
    assert max(held) - min(held) <= skew


def test_a_zone_that_is_full_blocks_a_strict_spread_for_sure() -> None:
    cluster = ClusterBuilder().node("a", cpu=1, zone="a").node("b", cpu=8, zone="b")
    even = Spread(ZONE, 1, peers("x"))
    verdict = cluster.decide(gang(4, pods(4, cpu=1, identity=app("x"), spread=(even,))))
    assert isinstance(verdict, Blocked)
    assert verdict.proved


def test_the_judge_catches_a_pod_moved_against_a_term() -> None:
    cluster = racks({"a": 2, "b": 2})
    leaf = gang(2, one_per(RACK, 2))
    verdict = cluster.decide(leaf)
    assert isinstance(verdict, Placed)
    first, second = verdict.assignment
    beside = {"a-0": "a-1", "a-1": "a-0", "b-0": "b-1", "b-1": "b-0"}[verdict.assignment[first]]
    moved = replace(verdict, assignment={**verdict.assignment, second: beside})
    assert not problems(cluster.view, Demand(leaf), verdict, NOW)
    assert any("anti-affinity" in problem for problem in problems(cluster.view, Demand(leaf), moved, NOW))


def test_preemption_counts_no_slots_for_pods_that_keep_apart() -> None:
    cluster = ClusterBuilder().node("n1", cpu=4).node("n2", cpu=4)
    beside = cluster.run("n1", priority=10, identity=app("x"))
    cluster.run("n2", priority=10, identity=app("y"))
    verdict = cluster.decide(gang(2, one_per(HOST, 2)), priority=100)
    assert isinstance(verdict, Evict)
    assert verdict.units == (beside,)


def test_a_pod_that_is_still_to_come_satisfies_no_affinity() -> None:
    cluster = racks({"a": 1, "b": 1})
    cluster.run("a-0", cpu=1, priority=9, identity=app("x"), coming=True)
    follower = gang(1, pods(1, cpu=1, identity=app("y"), affinity=(PodTerm(RACK, peers("x")),)))
    assert isinstance(cluster.decide(follower), Blocked)


def test_a_pod_that_is_still_to_come_keeps_others_away() -> None:
    cluster = racks({"a": 1, "b": 1})
    cluster.run("a-0", cpu=1, priority=9, identity=app("x"), repels=(PodTerm(RACK, peers("y")),), coming=True)
    verdict = cluster.decide(gang(1, pods(1, cpu=1, identity=app("y"))))
    assert isinstance(verdict, Placed)
    assert list(verdict.assignment.values()) == ["b-0"]


@pytest.mark.parametrize("others", [(), (1,)])
def test_affinity_to_its_own_kind_follows_a_pod_that_is_still_to_come(others: tuple[int, ...]) -> None:
    cluster = racks({"a": 1, "b": 2})
    cluster.run("b-0", cpu=1, priority=9, identity=app("x"), coming=True)
    near = (PodTerm(RACK, peers("x")),)
    more = [pods(number, cpu=2, identity=app("x"), affinity=near) for number in others]
    leaf = gang(1 + len(others), pods(1, cpu=1, identity=app("x"), affinity=near), *more)
    verdict = cluster.decide(leaf)
    assert isinstance(verdict, Placed)
    assert problems(cluster.view, Demand(leaf), verdict, NOW) == []
    assert {name[0] for name in verdict.assignment.values()} == {"b"}


def test_a_pod_that_runs_counts_before_one_that_is_still_to_come() -> None:
    cluster = racks({"a": 1, "b": 1})
    cluster.run("a-0", cpu=1, priority=9, identity=app("x"), coming=True)
    cluster.run("b-0", cpu=1, priority=9, identity=app("x"))
    verdict = cluster.decide(gang(1, pods(1, cpu=1, identity=app("x"), affinity=(PodTerm(RACK, peers("x")),))))
    assert isinstance(verdict, Placed)
    assert list(verdict.assignment.values()) == ["b-0"]


@pytest.mark.parametrize("full", [0, 30], ids=["few nodes", "many nodes"])
def test_members_beyond_the_minimum_are_placed_where_others_have_affinity_to_them(full: int) -> None:
    """Neither all five of the second group fit nor does one of them do: three keep the racks even."""
    cluster = racks({"a": 1}, cpu=4).nodes("b", 1, cpu=3, rack="b").nodes("none", full, rack="a")
    even = {"identity": app("x"), "spread": (Spread(RACK, 1, peers("x")),)}
    groups = (gang(4, pods(4, cpu=1, **even), key="rack"), gang(1, pods(5, cpu=1, **even), key="rack"))
    verdict = cluster.decide(composite(2, *groups))
    assert isinstance(verdict, Placed)
    assert sorted(verdict.assignment.values()) == ["a-0"] * 4 + ["b-0"] * 3
    assert verdict.gap == (0, 0, 0, 0, 0)


def test_followers_in_two_racks_bring_a_leader_to_each() -> None:
    cluster = racks({"a": 1, "b": 1}, cpu=4)
    leaders = gang(1, pods(4, cpu=2, identity=app("leader")))
    followers = gang(4, pods(4, cpu=1, affinity=(PodTerm(RACK, peers("leader")),)))
    verdict = cluster.decide(composite(2, leaders, followers))
    assert isinstance(verdict, Placed)
    assert len(verdict.assignment) == 6


@pytest.mark.parametrize("asked", [True, False], ids=["asked before", "asked only now"])
def test_pods_that_came_and_went_before_the_first_decision_do_not_count(asked: bool) -> None:
    cluster, query = racks({"a": 2}), PodQuery((peers("x"),))
    if asked:
        assert not cluster.view.pod_index.of(query)
    for pod, (node, name) in enumerate([("a-0", "x"), ("a-1", "x"), ("a-1", "y")]):
        cluster.run(node, cpu=1, pod=pod, identity=app(name))
    cluster.view.unbind(1)
    with cluster.view.without(list(cluster.view.all_running())):
        pass
    found = cluster.view.pod_index.of(query)
    assert {node: number for node, number in found.items() if number} == {"a-0": 1}
    cluster.view.unbind_all([0, 2])
    assert not any(cluster.view.pod_index.of(query).values())
