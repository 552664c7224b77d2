"""Blocked demands explain themselves: every group has its shortage, and the sentence tells cause and remedies."""

from __future__ import annotations

from echelon.engine import (
    Evict,
    Loss,
    Node,
    Placed,
    Reason,
    ReasonKind,
    Taint,
    UnitName,
    drawn,
    first_step,
    for_group,
    sentence,
    tree,
)
from echelon.testing.placement import ClusterBuilder, blocked, composite, exclusive, gang, gpu_racks, pods


def test_a_gang_reads_what_is_missing_where_and_what_helps() -> None:
    leaf = gang(5, pods(5, gpu=8), key="rack")
    verdict = blocked(gpu_racks(4, 2).decide(leaf))
    assert sentence(verdict, {leaf.id: "train"}) == (
        "train needs 5 pods in one rack, but b1/r1 has room for 4 (short of nvidia.com/gpu), b1/r2 for 2; "
        "fix: set spec.schedulingConstraints.topology[0].key to topology.kubernetes.io/block, "
        "or lower spec.schedulingPolicy.gang.minCount from 5 to 4 (only 4 pods fit in one rack), "
        "or add 1 node like r1-0 to b1/r1"
    )


def test_every_group_of_a_tree_has_a_shortage_and_a_sentence() -> None:
    small, large = gang(2, pods(2, gpu=8), key="rack"), gang(5, pods(5, gpu=8), key="rack")
    root = composite(2, small, large, key="block")
    names = {root.id: "root", small.id: "small", large.id: "large"}
    verdict = blocked(gpu_racks(4, 2).decide(root))
    assert {shortage.group for shortage in verdict.shortages} == set(names)
    assert verdict.shortages[0].group == large.id
    assert for_group(verdict, large.id, names).startswith("needs 5 pods in one rack of b1, but b1/r1 has room for 4")
    waiting = for_group(verdict, small.id, names)
    assert waiting.startswith("fits in b1/r1; waiting for the other groups of its tree: large needs 5 pods")
    assert for_group(verdict, root.id, names).startswith("needs 2 groups in one block, but b1 has room for 1")


def test_groups_that_fit_one_by_one_but_not_together_count_what_fits() -> None:
    children = [gang(4, pods(4, gpu=8), key="rack") for _ in range(3)]
    root = composite(3, *children, key="block")
    shortage = blocked(gpu_racks(4, 4, 3).decide(root)).shortages[0]
    assert (shortage.group, shortage.need, shortage.have) == (root.id, 3, 2)


def two_blocks_of_two_racks() -> ClusterBuilder:
    cluster = ClusterBuilder()
    for block in ("b0", "b1"):
        for rack in ("r0", "r1"):
            cluster.nodes(f"{block}-{rack}", 4, gpu=8, block=block, rack=rack)
    return cluster


def test_the_innermost_cause_is_found_inside_the_best_domain_of_the_groups_above() -> None:
    inner = composite(3, *(gang(4, pods(4, gpu=8), key="rack") for _ in range(3)))
    root = composite(1, inner, key="block")
    names = {root.id: "root", inner.id: "inner"}
    verdict = blocked(two_blocks_of_two_racks().decide(root))
    cause = verdict.shortages[0]
    assert (cause.group, cause.need, cause.have, cause.within) == (inner.id, 3, 2, ("b0",))
    assert [(count.domain, count.have) for count in cause.tried] == [(("b0",), 2)]
    told = "needs 3 groups (each 4 pods in one rack) in one block, but b0 has room for 2"
    assert sentence(verdict, names).startswith(f"inner {told}")
    assert for_group(verdict, inner.id, names).startswith(told)
    assert for_group(verdict, root.id, names).startswith(f"inner {told}")
    assert "; so it needs 1 group in one block, but b0 has room for none" in for_group(verdict, root.id, names)


def test_children_are_judged_where_they_come_furthest() -> None:
    cluster = two_blocks_of_two_racks().nodes("more", 4, gpu=8, block="b1", rack="r2")
    inner = composite(4, *(gang(4, pods(4, gpu=8), key="rack") for _ in range(4)))
    cause = blocked(cluster.decide(composite(1, inner, key="block"))).shortages[0]
    assert (cause.group, cause.need, cause.have, cause.within) == (inner.id, 4, 3, ("b1",))


def test_a_leaf_that_fits_elsewhere_is_short_where_its_parent_must_be() -> None:
    cluster = ClusterBuilder().nodes("a", 5, gpu=8, block="b0", rack="r0").nodes("b", 2, gpu=8, block="b0", rack="r1")
    cluster.nodes("c", 6, gpu=8, block="b1", rack="r0")
    small, large = gang(2, pods(2, gpu=8), key="rack"), gang(6, pods(6, gpu=8), key="rack")
    other = gang(5, pods(5, gpu=8), key="rack")
    cause = blocked(cluster.decide(composite(3, small, other, large, key="block"))).shortages[0]
    assert (cause.group, cause.need, cause.have, cause.within) == (large.id, 6, 5, ("b0",))


def test_the_tree_tells_every_level_and_domain_with_its_arithmetic() -> None:
    cluster = gpu_racks(4, 3)
    cluster.run("r1-0", gpu=8)
    small, large = gang(2, pods(2, gpu=8), key="rack"), gang(4, pods(4, gpu=8), key="rack")
    root = composite(2, small, large, key="block")
    names = {root.id: "root", small.id: "small", large.id: "large"}
    assert drawn(tree(blocked(cluster.decide(root)), root, names)) == [
        "✗ root needs 2 groups in one block",
        "│     b1: room for 1 of 2, short of nvidia.com/gpu",
        "├─ ✓ small needs 2 pods in one rack (within b1): fits in b1/r1",
        "└─ ✗ large needs 4 pods in one rack (within b1)",
        "         b1/r1: room for 3 of 4; 3 of 4 nodes free, 1 short of nvidia.com/gpu",
        "         b1/r2: room for 3 of 4; 3 of 3 nodes free",
        "         of all nodes, 1 is short of nvidia.com/gpu",
    ]


def test_nodes_shut_out_are_counted_by_reason() -> None:
    cluster = (
        ClusterBuilder().node("tainted", cpu=8, taints=(Taint("team", "a", "NoSchedule"),)).node("c", 8, cordoned=True)
    )
    cluster.node("other", cpu=8).node("full", cpu=1, labels={"disk": "ssd"})
    leaf = gang(1, pods(1, cpu=2, node_selector=(("disk", "ssd"),)))
    exclusions = blocked(cluster.decide(leaf)).shortages[0].exclusions
    assert exclusions == {
        Reason(ReasonKind.CORDONED): 1,
        Reason(ReasonKind.TAINT, ("team", "a")): 1,
        Reason(ReasonKind.NODE_SELECTOR, ("disk", "ssd")): 1,
        Reason(ReasonKind.SHORT_OF, ("cpu",)): 1,
    }
    assert sentence(blocked(cluster.decide(leaf)), {}, reader=leaf.id).startswith(
        "fits none of 4 nodes: 1 is cordoned (kubectl uncordon NODE), 1 has the untolerated taint team=a, "
        "1 does not match spec.nodeSelector disk=ssd, 1 for other reasons"
    )


def test_of_a_group_that_needs_one_pod_no_number_can_be_lowered() -> None:
    cluster = ClusterBuilder().node("c", cpu=8, cordoned=True)
    one, two = gang(1, pods(1, cpu=1)), gang(2, pods(2, cpu=1))
    said = [first_step(blocked(cluster.decide(leaf)), leaf.id, {}) for leaf in (one, two)]
    assert said == [
        "first add or free nodes, or wait for running pods to end",
        "first add or free nodes, lower spec.schedulingPolicy.gang.minCount, or wait for running pods to end",
    ]


def test_pods_that_wait_for_something_else_need_no_nodes() -> None:
    leaf = gang(2, pods(2, cpu=1, waits=("ResourceClaim not created yet",)))
    verdict = blocked(ClusterBuilder().node("n", cpu=4).decide(leaf))
    assert (
        sentence(verdict, {}, reader=leaf.id) == "needs 2 pods, but none can be placed: ResourceClaim not created yet"
    )
    assert first_step(verdict, leaf.id, {}) == "first see to what its pods wait for"


def test_nodes_that_have_nothing_at_all_yet_are_short_of_what_is_asked_for() -> None:
    """As those that are registered before anybody says what they have."""
    leaf, cluster = gang(2, pods(2, cpu=1)), ClusterBuilder()
    cluster.view.put_node(Node("new", {}, {}))
    said = sentence(blocked(cluster.decide(leaf)), {}, reader=leaf.id)
    assert said.startswith("needs 2 pods, but a pod requests 1 cpu, no node has any")


def test_an_unsupported_field_is_named() -> None:
    leaf = gang(1, pods(1, cpu=1, unsupported=("spec.volumes[0].persistentVolumeClaim",)))
    text = sentence(blocked(ClusterBuilder().node("n", cpu=4).decide(leaf)), {leaf.id: "pod"})
    assert text.startswith("pod cannot be placed: spec.volumes[0].persistentVolumeClaim is not supported; fix: remove")


def test_a_domain_that_is_held_names_its_holder() -> None:
    cluster = gpu_racks(2)
    unit = cluster.run("r1-0", gpu=1, group=77, exclusive=exclusive("rack", 5))
    leaf = gang(1, pods(1, gpu=1), exclusive=exclusive("rack", 5))
    assert f"b1/r1 is held by unit-{unit}" in sentence(blocked(cluster.decide(leaf)), {})


def test_each_domain_names_the_unit_that_holds_it_there() -> None:
    """Pods of one group that run apart and are evicted one by one: the one in each rack is named."""
    cluster = gpu_racks(1, 1)
    units = {rack: cluster.run(f"{rack}-0", gpu=1, group=77, exclusive=exclusive("rack", 5)) for rack in ("r1", "r2")}
    (shortage,) = blocked(cluster.decide(gang(1, pods(1, gpu=1), exclusive=exclusive("rack", 5)))).shortages
    assert {tried.domain[-1]: tried.held_by for tried in shortage.tried} == {
        rack: UnitName(unit, f"unit-{unit}", 0) for rack, unit in units.items()
    }


def test_a_rack_that_is_held_is_not_told_like_one_that_only_looks_the_same() -> None:
    """Two gangs that want a rack each, in one rack: an empty one takes the first of them, the other is taken."""
    cluster = ClusterBuilder().node("n1", cpu=1, rack="r1").node("n2", cpu=3, rack="r2")
    cluster.run("n2", cpu=2, group=7, exclusive=exclusive("rack"))
    own = [gang(1, pods(1, cpu=1), key="host", exclusive=exclusive("rack")) for _ in range(2)]
    verdict = blocked(cluster.decide(composite(2, *own, key="rack")))
    tried = next(one for one in verdict.shortages if one.of_groups).tried
    assert [(count.domain, count.have) for count in tried] == [(("r1",), 1), (("r2",), 0)]


def test_placed_and_evicting_verdicts_read_well() -> None:
    cluster = gpu_racks(2)
    leaf = gang(2, pods(2, gpu=8), key="rack")
    assert sentence(cluster.decide(leaf), {}) == "2 pods placed on 2 nodes in b1/r1"
    cluster.run("r1-0", gpu=8, priority=3)
    verdict = cluster.decide(leaf, priority=9)
    assert sentence(verdict, {}) == "preempting 1 unit of priority 3 or lower, then 2 pods placed on 2 nodes in b1/r1"
    assert for_group(verdict, leaf.id, {}).endswith("then placed in b1/r1")


def test_evictions_beyond_budgets_are_counted_in_pods() -> None:
    evict = Evict((1, 2), Loss(2, 10, 0, 2), Placed({5: "n1"}, {}, frozenset({0})))
    assert "preempting 2 units of priority 10 or lower, 2 pods more than disruption budgets allow, then" in sentence(
        evict, {0: "g"}
    )
