"""Small random clusters and demands for the engine's properties."""

from __future__ import annotations

from hypothesis import strategies as st

from echelon.engine import Bound, Composite, Demand, Group, Leaf, PodClass
from echelon.testing.placement import LEVELS, NOW, ClusterBuilder, exclusive, fresh_id, shape

KEYS = (None, LEVELS["zone"], LEVELS["rack"], LEVELS["host"], "pool")


@st.composite
def clusters(draw: st.DrawFn, max_nodes: int = 6) -> ClusterBuilder:
    cluster = ClusterBuilder()
    for number in range(draw(st.integers(1, max_nodes))):
        labels = {"pool": value} if (value := draw(st.sampled_from(["", "x", "y"]))) else {}
        domains = {
            level: value
            for level, values in (("zone", "ab"), ("rack", "12"))
            if (value := draw(st.sampled_from(["", *values, values[0]])))
        }
        name = f"n{number}"
        cluster.node(name, cpu=draw(st.integers(0, 4)), labels=labels, **domains)
        if draw(st.booleans()):
            cluster.run(name, cpu=draw(st.integers(1, 2)), priority=100)
    return cluster


@st.composite
def leaves(draw: st.DrawFn, cluster: ClusterBuilder, most: int, mixed: bool) -> Leaf:
    classes = []
    for _ in range(draw(st.integers(1, 3)) if mixed else 1):
        size = draw(st.integers(1, most))
        most = max(1, most - size)
        selector = (("pool", "x"),) if mixed and draw(st.integers(0, 3)) == 0 else ()
        one = shape(cpu=draw(st.integers(1, 3)) if mixed else 1, node_selector=selector)
        classes.append(PodClass(one, tuple(fresh_id() for _ in range(size))))
    leaf_id, bound = fresh_id(), []
    alone = exclusive("rack", 7) if draw(st.integers(0, 4)) == 0 else None
    if draw(st.integers(0, 4)) == 0:
        name = draw(st.sampled_from(cluster.view.node_names()))
        member = fresh_id()
        cluster.run(name, cpu=1, priority=100, pod=member, group=leaf_id, exclusive=alone)
        bound.append(Bound(member, name))
    minimum = draw(st.integers(1, sum(len(pods.members) for pods in classes) + len(bound)))
    return Leaf(leaf_id, minimum, tuple(classes), tuple(bound), draw(st.sampled_from(KEYS)), (), alone)


@st.composite
def trees(draw: st.DrawFn, cluster: ClusterBuilder, mixed: bool, depth: int = 2, most: int = 3) -> Group:
    if depth == 0 or draw(st.booleans()):
        return draw(leaves(cluster, most, mixed))
    number = draw(st.integers(1, 2 if depth > 1 else 3))
    children = tuple(draw(trees(cluster, mixed, depth - 1, max(1, most - 1))) for _ in range(number))
    return Composite(fresh_id(), draw(st.integers(1, number)), children, draw(st.sampled_from(KEYS)))


@st.composite
def instances(draw: st.DrawFn, mixed: bool) -> tuple[ClusterBuilder, Demand]:
    cluster = draw(clusters())
    if draw(st.integers(0, 4)) == 0:
        name = draw(st.sampled_from(cluster.view.node_names()))
        cluster.run(name, priority=100, group=fresh_id(), exclusive=exclusive("rack", 7))
    return cluster, Demand(draw(trees(cluster, mixed)), priority=50, may_preempt=False)


@st.composite
def contested(draw: st.DrawFn, mixed: bool) -> tuple[ClusterBuilder, Demand]:
    """Nodes full of units of several priorities, some of them gangs, some under a budget."""
    cluster = draw(clusters(max_nodes=5))
    budgets = [cluster.budget(draw(st.integers(0, 1))) for _ in range(draw(st.integers(0, 1)))]
    names = cluster.view.node_names()
    for _ in range(draw(st.integers(1, 5))):
        unit, priority = fresh_id(), draw(st.sampled_from([10, 10, 20, 60]))
        for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
            covering = tuple(budget for budget in budgets if draw(st.booleans()))
            holding = exclusive("rack", 7) if draw(st.integers(0, 7)) == 0 else None
            cluster.run(
                draw(st.sampled_from(names)), cpu=draw(st.integers(1, 3 if mixed else 2)), priority=priority,
                unit=unit, started=NOW - draw(st.sampled_from([0, 100, 100, 200])), group=unit,
                budgets=covering, exclusive=holding, evictable=draw(st.integers(0, 9)) > 0,
            )  # fmt: skip
    return cluster, Demand(draw(trees(cluster, mixed, depth=draw(st.integers(0, 2)))), priority=50)
