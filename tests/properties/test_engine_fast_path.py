"""A leaf of equal pods that fits whole is decided at once: the verdict is the one that the long road leads to."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from echelon.engine import Demand, Leaf, Steps, problems
from echelon.engine.placement.fast_path import place_plain_leaf
from echelon.engine.placement.place import place
from echelon.testing.placement import NOW, ClusterBuilder, exclusive, fresh_id, gang, pods
from tests.properties.hierarchies import examples
from tests.properties.reached import Reached, reaches
from tests.properties.small_instances import KEYS


@st.composite
def clusters(draw: st.DrawFn) -> ClusterBuilder:
    """Up to 12 nodes, some without labels, with devices, cordoned or in use."""
    cluster = ClusterBuilder()
    for number in range(draw(st.integers(1, 12))):
        name, domains = f"n{number:02}", {}
        for level, values in (("zone", "ab"), ("block", "xy"), ("rack", "123")):
            if value := draw(st.sampled_from(["", *values, *values])):
                domains[level] = value
        gpus = draw(st.sampled_from([0, 0, 2]))
        cordoned = draw(st.integers(0, 9)) == 0
        cluster.node(name, draw(st.integers(0, 4)), gpus, {"pool": "p"}, (), cordoned, **domains)
        if draw(st.integers(0, 2)) == 0:
            alone = exclusive("rack", 7) if draw(st.booleans()) else None
            cluster.run(name, cpu=1, priority=100, group=fresh_id(), exclusive=alone)
    return cluster


@st.composite
def plain_leaves(draw: st.DrawFn) -> Leaf:
    members = pods(draw(st.integers(1, 6)), draw(st.sampled_from([0, 1, 1, 2])), draw(st.sampled_from([0, 0, 1])))
    size = len(members.members)
    alone = exclusive(draw(st.sampled_from(["rack", "block"])), 7) if draw(st.integers(0, 3)) == 0 else None
    final = draw(st.sampled_from([None, size, size + 2, size + 9]))
    key = draw(st.sampled_from([*KEYS, "topology.kubernetes.io/block"]))
    return gang(draw(st.integers(1, size)), members, key=key, exclusive=alone, final_size=final)


@reaches(short=36, only_long=31, neither=33)
@examples(200)
@given(clusters(), plain_leaves())
def test_the_short_road_leads_where_the_long_one_does(reached: Reached, cluster: ClusterBuilder, leaf: Leaf) -> None:
    view, demand = cluster.view, Demand(leaf, may_preempt=False)
    short = place_plain_leaf(view, demand)
    long = place(view, demand, Steps(10_000)).placed
    if short is None:
        reached("neither" if long is None else "only_long")
        unlisted = "pool" in (leaf.topology, leaf.exclusive and leaf.exclusive.key)
        both = leaf.exclusive is not None and leaf.topology not in (None, leaf.exclusive.key)
        assert long is None or unlisted or both or len(long.assignment) < len(leaf.classes[0].members)
    else:
        reached("short")
        assert long is not None
        assert replace(short, bound=long.bound) == long
        assert short.bound == short.objective >= long.bound
        assert problems(view, demand, short, NOW) == []
