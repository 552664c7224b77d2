"""What must not matter does not: order, names, one node more; and a proposed fix, once applied, lets the demand in."""

from __future__ import annotations

from dataclasses import replace

from engine_instances import clusters, contested, examples, instances
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.demand import Composite, Demand, Group, Leaf
from echelon.engine.verdict import Blocked, Fix, Placed
from echelon.engine.view import Node
from echelon.testing.placement import LEVELS, Cluster


def shuffled(group: Group, order: list[int]) -> Group:
    """The same tree with children and classes in another order."""

    def key(item: tuple[int, object]) -> int:
        return order[item[0] % len(order)]

    if isinstance(group, Leaf):
        return replace(group, classes=tuple(pods for _, pods in sorted(enumerate(group.classes), key=key)))
    children = [shuffled(child, order) for child in group.children]
    return replace(group, children=tuple(child for _, child in sorted(enumerate(children), key=key)))


def renamed(cluster: Cluster, rename: dict[str, str]) -> Cluster:
    """The same cluster with nodes and domains called otherwise, built in another order."""
    other = Cluster()
    for name in sorted(cluster.view.node_names(), key=lambda name: rename[name]):
        node = cluster.view.node(name)
        assert node is not None
        labels = {
            key: rename.get(value, value) if key in LEVELS.values() else value for key, value in node.labels.items()
        }
        other.view.put_node(replace(node, name=rename[name], labels=labels))
    for unit in cluster.view.units():
        other.view.put_unit(unit)
    for pod in cluster.view.all_running():
        other.view.bind(replace(pod, node=rename[pod.node]))
    return other


def moved(group: Group, rename: dict[str, str]) -> Group:
    if isinstance(group, Leaf):
        return replace(group, bound=tuple(replace(bound, node=rename[bound.node]) for bound in group.bound))
    return replace(group, children=tuple(moved(child, rename) for child in group.children))


@examples(80)
@given(instances(mixed=True), st.permutations(range(4)))
def test_the_order_of_a_tree_changes_nothing(instance: tuple[Cluster, Demand], order: list[int]) -> None:
    cluster, demand = instance
    first = cluster.decide(demand.root, may_preempt=False)
    second = cluster.decide(shuffled(demand.root, order), may_preempt=False)
    assert type(first) is type(second)
    if isinstance(first, Placed) and isinstance(second, Placed):
        assert first.objective == second.objective


@examples(80)
@given(instances(mixed=False), st.permutations([f"n{number}" for number in range(6)]), st.booleans())
def test_names_change_nothing(instance: tuple[Cluster, Demand], names: list[str], swap: bool) -> None:
    cluster, demand = instance
    rename = {f"n{number}": f"m{name}" for number, name in enumerate(names)}
    rename |= {"a": "zb", "b": "za", "1": "r2", "2": "r1"} if swap else {}
    first = cluster.decide(demand.root, may_preempt=False)
    second = renamed(cluster, rename).decide(moved(demand.root, rename), may_preempt=False)
    assert type(first) is type(second)
    if isinstance(first, Placed) and isinstance(second, Placed):
        assert first.objective[:4] == second.objective[:4]


@examples(80)
@given(instances(mixed=True), clusters(max_nodes=1))
def test_one_node_more_never_blocks(instance: tuple[Cluster, Demand], more: Cluster) -> None:
    cluster, demand = instance
    before = cluster.decide(demand.root, may_preempt=False)
    node = more.view.node("n0")
    assert node is not None
    cluster.view.put_node(replace(node, name="another", labels={**node.labels, LEVELS["host"]: "another"}))
    after = cluster.decide(demand.root, may_preempt=False)
    assert isinstance(after, Placed) or not isinstance(before, Placed)


def lowered(group: Group, fix: Fix) -> Group:
    if group.id == fix.group:
        return (
            replace(group, min_count=fix.amount) if isinstance(group, Leaf) else replace(group, min_groups=fix.amount)
        )
    if isinstance(group, Composite):
        return replace(group, children=tuple(lowered(child, fix) for child in group.children))
    return group


def grown(cluster: Cluster, fix: Fix) -> None:
    """Add the nodes that the text of the fix names a model for."""
    model = cluster.view.node(fix.text.split(" like ")[1].split(" to ")[0])
    assert model is not None
    for number in range(fix.amount):
        name = f"new-{number}"
        cluster.view.put_node(Node(name, {**model.labels, LEVELS["host"]: name}, model.allocatable, model.taints))


@examples(80)
@given(contested(mixed=True))
def test_a_proposed_fix_lets_the_demand_in(instance: tuple[Cluster, Demand]) -> None:
    cluster, demand = instance
    verdict = cluster.decide(demand.root, demand.priority, may_preempt=False)
    if not isinstance(verdict, Blocked):
        return
    for fix in verdict.fixes:
        if fix.kind == "lower":
            assert isinstance(cluster.decide(lowered(demand.root, fix), may_preempt=False), Placed)
    for fix in verdict.fixes:
        if fix.kind == "add":
            grown(cluster, fix)
            assert isinstance(cluster.decide(demand.root, may_preempt=False), Placed)
            return


@examples(80)
@given(contested(mixed=False))
def test_evicting_what_a_verdict_names_lets_the_demand_in(instance: tuple[Cluster, Demand]) -> None:
    cluster, demand = instance
    verdict = cluster.decide(demand.root, demand.priority)
    if isinstance(verdict, Placed | Blocked):
        return
    for unit in verdict.units:
        for pod in cluster.view.pods_of(unit):
            if pod.evictable:
                cluster.view.unbind(pod.pod)
    assert isinstance(cluster.decide(demand.root, demand.priority, may_preempt=False), Placed)
