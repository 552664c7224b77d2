"""Wishes never decide whether something fits, nor what it is worth."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine import (
    ClusterView,
    Composite,
    Group,
    Identity,
    Node,
    Peers,
    Placed,
    PodTerm,
    Preference,
    Requirement,
    Spread,
)
from echelon.testing.placement import LEVELS, amounts, copied, judged
from tests.properties.hierarchies import Instance, examples, instances
from tests.properties.reached import Reached, reaches

pytestmark = pytest.mark.timeout(3600)

ANYONE = Peers((), ("ns",))
SOME = Peers((Requirement("app", "In", ("a",)),), ("ns",))
IDENTITIES = [Identity("ns", (("app", name),)) for name in ("a", "b")]


def preferences() -> st.SearchStrategy[tuple[Preference, ...]]:
    keys, peers = st.sampled_from([LEVELS[name] for name in ("rack", "host", "zone")]), st.sampled_from([ANYONE, SOME])
    terms = st.builds(lambda weight, key, who: Preference(weight, PodTerm(key, who)), st.integers(-3, 3), keys, peers)
    spreads = st.builds(lambda key, who: Preference(1, Spread(key, 1, who)), keys, peers)
    return st.lists(terms | spreads, max_size=3).map(tuple)


def preferring(group: Group, wished: tuple[Preference, ...]) -> Group:
    if isinstance(group, Composite):
        return replace(group, children=tuple(preferring(child, wished) for child in group.children))
    classes = [
        replace(pods, shape=replace(pods.shape, preferences=wished), identity=IDENTITIES[number % 2])
        for number, pods in enumerate(group.classes)
    ]
    return replace(group, classes=tuple(classes))


def talkative(view: ClusterView, wished: tuple[Preference, ...]) -> ClusterView:
    """The same cluster, in which running pods have preferences, too."""
    fresh = copied(view)
    for number, pod in enumerate(list(fresh.all_running())):
        fresh.bind(pod._replace(identity=IDENTITIES[number % 2], preferences=wished))
    return fresh


def with_spare_nodes(view: ClusterView) -> ClusterView:
    """The same cluster with empty nodes among which preferences can choose."""
    fresh = copied(view)
    for number, (zone, rack) in enumerate((("a", "r"), ("a", "r"), ("a", "s"), ("b", "t"))):
        name = f"spare-{number}"
        labels = {LEVELS["host"]: name, LEVELS["zone"]: zone, LEVELS["rack"]: rack, "pool": "x"}
        fresh.put_node(Node(name, labels, dict(amounts(6, 2, pods=110))))
    return fresh


@reaches(placed=45, placed_otherwise=4)
@examples(150)
@given(
    st.booleans().flatmap(lambda victims: instances(victims, max_nodes=10, max_pods=8)),
    st.booleans(),
    preferences(),
    preferences(),
)
def test_preferences_change_neither_what_fits_nor_what_it_is_worth(
    reached: Reached, instance: Instance, roomy: bool, own: tuple[Preference, ...], others: tuple[Preference, ...]
) -> None:
    view, demand = instance.cluster.view, instance.demand
    if roomy:
        view = with_spare_nodes(view)
    plain = judged(view, demand)
    about_pods = tuple(preference for preference in others if isinstance(preference.about, PodTerm))
    soft = judged(talkative(view, about_pods), replace(demand, root=preferring(demand.root, own)))
    assert type(plain) is type(soft)
    if isinstance(plain, Placed) and isinstance(soft, Placed):
        reached("placed")
        if plain.assignment != soft.assignment:
            reached("placed_otherwise")
        assert (plain.objective, len(plain.assignment)) == (soft.objective, len(soft.assignment))
