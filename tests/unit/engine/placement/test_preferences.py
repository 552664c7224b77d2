"""Soft terms decide among what is equally good, as kube-scheduler scores nodes, and never keep anyone out."""

from __future__ import annotations

import pytest

from echelon.engine import Group, Identity, NodeTerm, Peers, PodTerm, Preference, Requirement, Shape, Spread, Taint
from echelon.engine.placement.node_score import NodeScore
from echelon.testing.placement import LEVELS, ClusterBuilder, basic, composite, gang, pods, shape, tolerate

WEB = Peers((Requirement("app", "In", ("web",)),), ("ns",))
A_WEB = Identity("ns", (("app", "web"),))


def likes(label: str, value: str, weight: int = 1) -> Preference:
    return Preference(weight, NodeTerm((Requirement(label, "In", (value,)),)))


def placed(cluster: ClusterBuilder, root: Group) -> list[str]:
    return sorted(cluster.place(root).assignment.values())


def score(cluster: ClusterBuilder, one: Shape) -> dict[str, int]:
    table = cluster.view.node_table
    names = [table.name(row) for row in range(table.size)]
    return dict(
        zip(
            names,
            NodeScore(cluster.view, one, None, table.domains(len(table.levels) - 1)).scores().tolist(),
            strict=True,
        )
    )


def four() -> ClusterBuilder:
    """Two zones of two nodes, the last of each with a disk."""
    cluster = ClusterBuilder()
    for name, zone, disk in (("a", "x", {}), ("b", "x", {"disk": "ssd"}), ("c", "y", {}), ("d", "y", {"disk": "ssd"})):
        cluster.node(name, 2, 0, disk, (), False, zone=zone)
    return cluster


def test_a_pod_goes_to_the_node_it_likes() -> None:
    assert placed(four(), basic(pods(1, cpu=1, preferences=(likes("disk", "ssd"),)))) == ["b"]
    assert placed(four(), basic(pods(1, cpu=1, preferences=(likes("kubernetes.io/hostname", "c"),)))) == ["c"]


def test_the_heavier_preference_wins_and_preferences_add_up() -> None:
    light, heavy = likes("disk", "ssd", 10), likes(LEVELS["zone"], "y", 50)
    one = shape(cpu=1, preferences=(light, heavy))
    assert score(four(), one) == {"a": 300, "b": 300 + 2 * 16, "c": 300 + 2 * 83, "d": 300 + 200}
    assert placed(four(), basic(pods(1, cpu=1, preferences=(light, heavy)))) == ["d"]


def test_a_preference_keeps_no_pod_out() -> None:
    assert len(placed(four(), gang(8, pods(8, cpu=1, preferences=(likes("disk", "ssd"),))))) == 8
    assert len(placed(four(), basic(pods(1, cpu=1, preferences=(likes("disk", "tape"),))))) == 1


def test_a_gang_takes_the_nodes_it_likes_best_and_no_more_others_than_it_must() -> None:
    assert placed(four(), gang(4, pods(4, cpu=1, preferences=(likes("disk", "ssd"),)))) == ["b", "b", "d", "d"]
    assert placed(four(), gang(5, pods(5, cpu=1, preferences=(likes("disk", "ssd"),))))[1:] == ["b", "b", "d", "d"]


def test_soft_taints_are_avoided_unless_tolerated() -> None:
    taint = Taint("old", "", "PreferNoSchedule")
    cluster = ClusterBuilder().node("a", cpu=1, taints=(taint,)).node("b", cpu=1)
    assert placed(cluster, basic(pods(1, cpu=1))) == ["b"]
    assert placed(cluster, basic(pods(1, cpu=1, tolerations=tolerate("old")))) == ["a"]
    assert placed(cluster, gang(2, pods(2, cpu=1))) == ["a", "b"]


@pytest.mark.parametrize(("weight", "nodes"), [(10, {"a", "b"}), (-10, {"c", "d"})])
def test_running_pods_attract_and_repel(weight: int, nodes: set[str]) -> None:
    cluster = four()
    cluster.run("b", identity=A_WEB)
    preference = Preference(weight, PodTerm(LEVELS["zone"], WEB))
    assert set(placed(cluster, basic(pods(1, cpu=1, preferences=(preference,))))) <= nodes


def test_a_soft_spread_goes_where_fewest_are() -> None:
    cluster = four()
    for name in ("a", "b", "c"):
        cluster.run(name, identity=A_WEB)
    preference = Preference(1, Spread(LEVELS["host"], 1, WEB))
    assert placed(cluster, basic(pods(1, cpu=1, preferences=(preference,)))) == ["d"]
    by_zone = Preference(1, Spread(LEVELS["zone"], 1, WEB))
    assert set(placed(cluster, basic(pods(1, cpu=1, preferences=(by_zone,))))) <= {"c", "d"}


def test_of_domains_that_are_equally_tight_the_best_liked_is_taken() -> None:
    preference = likes(LEVELS["host"], "d")
    assert placed(four(), gang(2, pods(2, cpu=1, preferences=(preference,)), key="zone")) == ["d", "d"]


def test_a_tighter_domain_comes_before_a_better_liked_one() -> None:
    cluster = four()
    cluster.run("a", cpu=1, priority=100)
    preference = likes(LEVELS["zone"], "y")
    assert set(placed(cluster, gang(3, pods(3, cpu=1, preferences=(preference,)), key="zone"))) == {"a", "b"}


def test_groups_of_a_tree_do_not_take_each_others_room() -> None:
    preference = likes("disk", "ssd")
    tree = composite(2, *(gang(4, pods(4, cpu=1, preferences=(preference,)), key="zone") for _ in range(2)))
    assert placed(four(), tree) == ["a", "a", "b", "b", "c", "c", "d", "d"]


def test_the_objective_does_not_depend_on_preferences() -> None:
    plain, wishing = (
        gang(3, pods(3, cpu=1), key="zone"),
        gang(3, pods(3, cpu=1, preferences=(likes("disk", "ssd"),)), key="zone"),
    )
    assert four().place(plain).objective == four().place(wishing).objective
