"""Preferences among the members of one demand, and of running pods for new ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from echelon.engine import Group, Identity, NodeTerm, Peers, PodClass, PodTerm, Preference, Requirement
from echelon.engine import Spread as Evenly
from echelon.testing.placement import LEVELS, ClusterBuilder, basic, composite, gang, pods

WEB = Peers((Requirement("app", "In", ("web",)),), ("ns",))
DB = Peers((Requirement("app", "In", ("db",)),), ("ns",))
A_WEB, A_DB = Identity("ns", (("app", "web"),)), Identity("ns", (("app", "db"),))


def term(weight: int, level: str, peers: Peers = WEB) -> Preference:
    return Preference(weight, PodTerm(LEVELS[level], peers))


def webs(number: int, *preferences: Preference, cpu: float = 1, identity: Identity = A_WEB) -> PodClass:
    return replace(pods(number, cpu=cpu, preferences=preferences), identity=identity)


def racks(number: int, nodes: int, cpu: float = 4) -> ClusterBuilder:
    cluster = ClusterBuilder()
    for rack in range(number):
        cluster.nodes(f"r{rack}", nodes, cpu=cpu, zone="z", rack=f"r{rack}")
    return cluster


def by_node(cluster: ClusterBuilder, root: Group) -> dict[str, int]:
    return dict(Counter(cluster.place(root).assignment.values()))


def by_rack(cluster: ClusterBuilder, root: Group) -> dict[str, int]:
    return dict(Counter(name.split("-")[0] for name in cluster.place(root).assignment.values()))


def test_a_gang_that_would_rather_be_apart_spreads_where_there_is_room() -> None:
    preference = term(-1, "host")
    assert sorted(by_node(racks(2, 2), gang(4, webs(4, preference))).values()) == [1, 1, 1, 1]
    assert sorted(by_node(racks(2, 2), gang(6, webs(6, preference))).values()) == [1, 1, 2, 2]
    assert by_rack(racks(3, 2), gang(6, webs(6, term(-1, "rack")))) == {"r0": 2, "r1": 2, "r2": 2}


def test_a_gang_that_would_rather_be_together_stays_together() -> None:
    cluster = racks(3, 2)
    for rack in range(3):
        cluster.run(f"r{rack}-0", cpu=1, identity=A_DB)
    assert by_rack(cluster, gang(6, webs(6, term(1, "rack")))) == {"r0": 6}


def test_a_required_rack_comes_before_a_preferred_anti_affinity() -> None:
    found = by_node(racks(3, 2), gang(6, webs(6, term(-100, "rack"), term(-1, "host")), key="rack"))
    assert sorted(found.values()) == [3, 3]


def test_a_soft_spread_is_even_among_the_members() -> None:
    preference = Preference(1, Evenly(LEVELS["rack"], 1, WEB))
    assert by_rack(racks(3, 2), gang(9, webs(9, preference))) == {"r0": 3, "r1": 3, "r2": 3}


def test_members_count_with_those_that_run() -> None:
    cluster = racks(3, 2)
    for node in ("r0-0", "r0-1"):
        cluster.run(node, identity=A_WEB)
    assert by_rack(cluster, gang(2, webs(2, term(-1, "rack")))) == {"r1": 1, "r2": 1}


@pytest.mark.parametrize(("weight", "together"), [(1, True), (-1, False)])
def test_groups_of_one_tree_attract_and_repel_one_another(weight: int, together: bool) -> None:
    db = gang(1, webs(1, Preference(1, _on("r1-0")), identity=A_DB))
    web = gang(2, webs(2, term(weight, "rack", DB)))
    found = racks(2, 2).place(composite(2, db, web)).assignment
    homes = {found[member].split("-")[0] for member in web.classes[0].members}
    assert found[db.classes[0].members[0]] == "r1-0"
    assert homes == ({"r1"} if together else {"r0"})


def _on(node: str) -> NodeTerm:
    return NodeTerm((Requirement(LEVELS["host"], "In", (node,)),))


@pytest.mark.parametrize(("weight", "node"), [(1, "r1"), (-1, "r0")])
def test_preferences_of_running_pods_count_for_the_new_pod(weight: int, node: str) -> None:
    cluster = racks(2, 1)
    cluster.run("r1-0", cpu=1, identity=A_DB, preferences=(term(weight, "host"),))
    assert by_rack(cluster, basic(webs(1))) == {node: 1}


def test_a_gang_of_thousands_is_spread_in_portions() -> None:
    cluster = racks(30, 20, cpu=8)
    found = by_node(cluster, gang(1200, webs(1200, term(-1, "host"))))
    assert sorted(set(found.values())) == [2]


def test_the_objective_is_the_same_with_and_without_preferences() -> None:
    leaf = gang(4, webs(4, term(-1, "host")), key="rack", preferred=("rack",))
    plain = gang(4, pods(4, cpu=1), key="rack", preferred=("rack",))
    one, other = racks(2, 4).place(leaf), racks(2, 4).place(plain)
    assert one.objective == other.objective == one.bound
