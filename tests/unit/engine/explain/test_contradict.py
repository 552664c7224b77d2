"""Demands that no cluster could satisfy are told which of their own fields exclude one another."""

from __future__ import annotations

import pytest

from echelon.engine import (
    Bound,
    Identity,
    Leaf,
    NodeTerm,
    Peers,
    Placed,
    PodClass,
    PodTerm,
    Requirement,
    Shape,
    drawn,
    for_group,
    sentence,
    tree,
)
from echelon.engine.explain.reason_words import impossible
from echelon.testing.placement import LEVELS, ClusterBuilder, blocked, composite, fresh_id, gang, pods

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ME = Identity("d", (("app", "x"),))
ITS_LIKE = Peers((Requirement("app", "In", ("x",)),), ("d",))
OTHERS = Peers((Requirement("app", "In", ("db",)),), ("d",))


def racks() -> ClusterBuilder:
    cluster = ClusterBuilder()
    for rack in ("r1", "r2"):
        cluster.nodes(rack, 3, cpu=8, gpu=8, zone="z", block="b", rack=rack)
    return cluster


def told(leaf: Leaf) -> str:
    verdict = blocked(racks().decide(leaf))
    assert verdict.proved
    contradiction = verdict.shortages[0].contradiction
    return "" if contradiction is None else impossible(contradiction)


def near(level: str, peers: Peers) -> PodTerm:
    return PodTerm(LEVELS[level], peers)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (
            [Requirement("disk", "NotIn", ("ssd",))],
            f"spec.nodeSelector (disk=ssd) and spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0] "
            "(disk not in (ssd)) exclude one another",
        ),
        (
            [Requirement("disk", "DoesNotExist")],
            f"spec.nodeSelector (disk=ssd) and spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0] "
            "(no disk) exclude one another",
        ),
        (
            [Requirement("size", "Gt", ("4",)), Requirement("size", "Lt", ("5",))],
            f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0] contradicts itself (size > 4 and size < 5)",
        ),
        (
            [Requirement("size", "In", ("1", "2")), Requirement("size", "Gt", ("2",))],
            f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0] contradicts itself "
            "(size in (1, 2) and size > 2)",
        ),
        ([], f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0] is empty, which matches no node"),
    ],
)
def test_labels_that_no_node_could_have(asked: list[Requirement], reason: str) -> None:
    shape = {"node_selector": (("disk", "ssd"),), "node_terms": (NodeTerm(tuple(asked)),)}
    assert told(gang(2, pods(2, cpu=1, **shape))) == reason


@pytest.mark.parametrize(
    "asked",
    [
        (NodeTerm((Requirement("disk", "NotIn", ("ssd",)),)), NodeTerm((Requirement("disk", "In", ("ssd",)),))),
        (NodeTerm((Requirement("size", "Gt", ("3",)), Requirement("size", "Lt", ("5",)))),),
        (NodeTerm((Requirement("disk", "Exists"),)),),
        (NodeTerm((), (Requirement("metadata.name", "In", ("gone",)),)),),
    ],
)
def test_labels_that_a_node_could_have_are_no_contradiction(asked: tuple[NodeTerm, ...]) -> None:
    assert told(gang(2, pods(2, cpu=1, node_selector=(("disk", "ssd"),), node_terms=asked))) == ""


def test_near_and_away_from_the_same_pods() -> None:
    shape = {"affinity": (near("rack", OTHERS),), "anti_affinity": (near("zone", OTHERS),), "identity": ME}
    assert told(gang(1, pods(1, cpu=1, **shape))) == (
        f"spec.affinity.podAffinity.{REQUIRED} (near app=db in the same rack) and "
        f"spec.affinity.podAntiAffinity.{REQUIRED} (away from app=db in the same zone) exclude one another"
    )


def test_near_them_in_the_zone_but_not_in_the_rack_can_be_had() -> None:
    shape = {"affinity": (near("zone", OTHERS),), "anti_affinity": (near("rack", OTHERS),), "identity": ME}
    assert told(gang(1, pods(1, cpu=1, **shape))) == ""


def test_the_first_pod_of_its_kind_needs_no_other_pod() -> None:
    shape = {"affinity": (near("rack", ITS_LIKE),), "anti_affinity": (near("rack", ITS_LIKE),), "identity": ME}
    assert isinstance(racks().decide(gang(1, pods(1, cpu=1, **shape))), Placed)
    assert "exclude one another" in told(gang(2, pods(2, cpu=1, **shape)))


def test_pods_that_keep_apart_by_rack_cannot_be_a_gang_of_one_rack() -> None:
    leaf = gang(2, pods(2, cpu=1, anti_affinity=(near("rack", ITS_LIKE),), identity=ME), key="rack")
    verdict = blocked(racks().decide(leaf))
    assert sentence(verdict, {leaf.id: "train"}) == (
        "train needs 2 pods in one rack, which is impossible: "
        f"spec.affinity.podAntiAffinity.{REQUIRED} (away from app=x in the same rack) "
        "keeps its pods apart, but all must be in one rack; "
        "fix: set spec.schedulingConstraints.topology[0].key to topology.kubernetes.io/block, "
        "or lower spec.schedulingPolicy.gang.minCount from 2 to 1 (only 1 pod fits in one rack)"
    )
    assert drawn(tree(verdict, leaf, {leaf.id: "train"}))[1].startswith("      impossible: spec.affinity.")


def test_a_minimum_that_others_can_make_up_is_no_contradiction() -> None:
    cluster, odd = racks(), pods(1, cpu=1, node_terms=(NodeTerm(),))
    for node in cluster.view.node_names():
        cluster.run(node, cpu=8, priority=9)
    assert blocked(cluster.decide(gang(2, odd, pods(3, cpu=1)))).shortages[0].contradiction is None


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        ({"cpu": 9.5}, "requests 9500m cpu, the largest node has 8"),
        ({"gpu": 16}, "requests 16 nvidia.com/gpu, the largest node has 8"),
    ],
)
def test_a_pod_larger_than_any_node_is_told_how_large_nodes_are(pod: dict[str, float], reason: str) -> None:
    assert told(gang(1, pods(1, **pod))) == reason  # type: ignore[arg-type]


def test_a_resource_that_no_node_has_is_named() -> None:
    leaf = gang(1, PodClass(Shape((("example.com/fpga", 1), ("pods", 1))), (fresh_id(),)))
    assert told(leaf) == "requests 1 example.com/fpga, no node has any"


def test_a_full_cluster_is_no_contradiction() -> None:
    cluster = racks()
    for node in cluster.view.node_names():
        cluster.run(node, cpu=8, gpu=8, priority=9)
    assert blocked(cluster.decide(gang(1, pods(1, gpu=8)))).shortages[0].contradiction is None


def test_members_that_run_in_two_racks_are_named_and_only_what_helps_is_proposed() -> None:
    cluster, members = racks(), (fresh_id(), fresh_id())
    leaf = gang(4, pods(2, gpu=8), key="rack", bound=(Bound(members[0], "r1-0"), Bound(members[1], "r2-0")))
    for member, node in zip(members, ("r1-0", "r2-0"), strict=True):
        cluster.run(node, gpu=8, pod=member, group=leaf.id)
    verdict = blocked(cluster.decide(leaf))
    assert sentence(verdict, {leaf.id: "train"}) == (
        "train needs 4 pods in one rack, which is impossible: its pods already run in 2 racks: z/b/r1 (r1-0), "
        "z/b/r2 (r2-0); fix: set spec.schedulingConstraints.topology[0].key to topology.kubernetes.io/block"
    )


def test_the_group_whose_key_is_broken_is_to_blame_not_those_below() -> None:
    cluster = racks()
    first, second = (
        gang(2, pods(1, gpu=4), bound=(Bound(fresh_id(), "r1-0"),)),
        gang(2, pods(1, gpu=4), bound=(Bound(fresh_id(), "r2-0"),)),
    )
    for leaf in (first, second):
        cluster.run(leaf.bound[0].node, gpu=4, pod=leaf.bound[0].member, group=leaf.id)
    root = composite(2, first, second, key="rack")
    verdict = blocked(cluster.decide(root))
    assert verdict.shortages[0].group == root.id
    assert "its pods already run in 2 racks" in for_group(verdict, root.id, {})
    assert [fix.kind for fix in verdict.fixes] == ["release", "release", "widen"]
