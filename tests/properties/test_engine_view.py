"""A view that was changed step by step equals one that is built at once, arrays and caches included."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.engine import ClusterView, Node, Running, Taint
from echelon.testing.placement import LEVELS, amounts, exclusive, shape

ORDER = tuple(LEVELS.values())
NAMES = ("a", "b", "c", "d")
SHAPES = (shape(cpu=1), shape(cpu=2, node_selector=(("pool", "x"),)))

nodes = st.builds(
    lambda name, cpu, zone, rack, pool, tainted, cordoned: Node(
        name,
        {key: value for key, value in ((LEVELS["zone"], zone), (LEVELS["rack"], rack), ("pool", pool)) if value},
        dict(amounts(cpu=cpu, pods=10)),
        (Taint("t", "v", "NoSchedule"),) if tainted else (),
        cordoned,
    ),
    st.sampled_from(NAMES), st.integers(0, 4), st.sampled_from(["", "z1", "z2"]), st.sampled_from(["", "r1", "r2"]),
    st.sampled_from(["", "x", "y"]), st.booleans(), st.booleans(),
)  # fmt: skip
bindings = st.builds(
    lambda pod, node, cpu, gpu, alone: Running(
        pod, node, amounts(cpu=cpu, gpu=gpu), 1, 0.0, pod, exclusive("rack", 1) if alone else None
    ),
    st.integers(1, 6), st.sampled_from(NAMES), st.integers(0, 3), st.integers(0, 1), st.booleans(),
)  # fmt: skip
changes = st.one_of(
    nodes.map(lambda node: ("put_node", node)),
    st.sampled_from(NAMES).map(lambda name: ("remove_node", name)),
    bindings.map(lambda pod: ("bind", pod)),
    st.lists(bindings, max_size=9).map(lambda pods: ("bind_all", pods)),
    st.integers(1, 6).map(lambda pod: ("unbind", pod)),
    st.lists(st.integers(1, 6)).map(lambda pods: ("unbind_all", pods)),
    st.just(("look", None)),
    st.sampled_from([ORDER, ORDER[1:], (ORDER[3], ORDER[1], *ORDER[4:])]).map(lambda levels: ("relevel", levels)),
)


def rebuilt(view: ClusterView) -> ClusterView:
    fresh = ClusterView(view.levels)
    for name in NAMES:
        node = view.node(name)
        if node is not None:
            fresh.put_node(node)
    for pod in view.all_running():
        fresh.bind(pod)
    return fresh


def looks(view: ClusterView) -> tuple[object, ...]:
    """Everything derived: slots per node and per rack, and who holds which rack."""
    table = view.node_table
    slots = [view.slot_cache.slots(one) for one in SHAPES]
    levels = range(-1, len(table.levels))
    rolls = [tuple(map(int, each.roll(level))) for each in slots for level in levels]
    holders = view.exclusivity.holders(exclusive("rack", 1))
    rack = table.level_of[LEVELS["rack"]]
    held = sorted((table.domain_path(rack, int(domain or 0)), sorted(groups)) for domain, groups in holders.items())
    starts = [table.starts(level).tolist() for level in levels]
    return ([each.rows.tolist() for each in slots], rolls, held, starts, view.fingerprint())


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(changes, max_size=25))
def test_incremental_changes_lead_to_the_same_view(steps: list[tuple[str, object]]) -> None:
    view = ClusterView(tuple(LEVELS.values()))
    for name, argument in steps:
        if name == "look":
            looks(view)
        else:
            getattr(view, name)(argument)
    assert looks(view) == looks(rebuilt(view))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(changes, max_size=15))
def test_a_trial_leaves_no_trace(steps: list[tuple[str, object]]) -> None:
    view = ClusterView(tuple(LEVELS.values()))
    for name, argument in steps:
        if name != "look":
            getattr(view, name)(argument)
    before = looks(rebuilt(view))  # the view itself has not been looked at: nodes may be about to join it
    with view.without(list(view.all_running())):
        looks(view)
    rows = np.arange(view.node_table.size)
    with view.with_more(rows, amounts(cpu=1), np.ones_like(rows)):
        looks(view)
    assert looks(view) == before
