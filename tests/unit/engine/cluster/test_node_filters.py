"""Which nodes a pod may use: selectors, affinity terms, taints, cordons, resources."""

from __future__ import annotations

import pytest

from echelon.engine import (
    Blocked,
    Demand,
    NodeTerm,
    Placed,
    Reason,
    ReasonKind,
    Requirement,
    Taint,
    Toleration,
    problems,
)
from echelon.testing.placement import NOW, ClusterBuilder, gang, pods


def usable(cluster: ClusterBuilder, **fields: object) -> list[str]:
    """The nodes that a one-cpu pod with these fields can be on, found by asking for all of them."""
    found = []
    for name in cluster.view.node_names():
        pinned = fields.get("node_terms")
        by_name = (Requirement("metadata.name", "In", (name,)),)
        terms = [NodeTerm()] if pinned is None else list(pinned)  # type: ignore[call-overload]
        here = tuple(NodeTerm(term.labels, (*term.fields, *by_name)) for term in terms)
        leaf = gang(1, pods(1, cpu=1, **{**fields, "node_terms": here}))
        verdict = cluster.decide(leaf)
        assert problems(cluster.view, Demand(leaf), verdict, NOW) == []
        if isinstance(verdict, Placed):
            found.append(name)
    return found


def labelled() -> ClusterBuilder:
    cluster = ClusterBuilder().node("none", cpu=4)
    for name, value in (("one", "1"), ("five", "5"), ("word", "w")):
        cluster.node(name, cpu=4, labels={"size": value})
    return cluster


@pytest.mark.parametrize(
    ("operator", "values", "names"),
    [
        ("In", ("1", "5"), ["five", "one"]),
        ("NotIn", ("1",), ["five", "none", "word"]),
        ("Exists", (), ["five", "one", "word"]),
        ("DoesNotExist", (), ["none"]),
        ("Gt", ("1",), ["five"]),
        ("Lt", ("5",), ["one"]),
        ("Gt", ("x",), []),
        ("In", ("7",), []),
    ],
)
def test_every_operator_of_node_affinity(operator: str, values: tuple[str, ...], names: list[str]) -> None:
    term = NodeTerm((Requirement("size", operator, values),))  # type: ignore[arg-type]
    assert usable(labelled(), node_terms=(term,)) == names


def test_terms_are_alternatives_and_requirements_add_up() -> None:
    both = NodeTerm((Requirement("size", "Exists"), Requirement("size", "NotIn", ("w",))))
    other = NodeTerm((Requirement("size", "DoesNotExist"),))
    assert usable(labelled(), node_terms=(both, other)) == ["five", "none", "one"]


def test_an_empty_term_and_an_empty_list_match_no_node() -> None:
    for terms in ((NodeTerm(),), ()):
        verdict = labelled().decide(gang(1, pods(1, cpu=1, node_terms=terms)))
        assert isinstance(verdict, Blocked)


def test_fields_match_the_node_name() -> None:
    not_one = NodeTerm(fields=(Requirement("metadata.name", "NotIn", ("one",)),))
    assert usable(labelled(), node_terms=(not_one,)) == ["five", "none", "word"]


def test_a_selector_needs_every_label() -> None:
    cluster = labelled().node("both", cpu=4, labels={"size": "1", "disk": "ssd"})
    assert usable(cluster, node_selector=(("disk", "ssd"), ("size", "1"))) == ["both"]


TAINTS = {
    "clean": (),
    "hard": (Taint("k", "v", "NoSchedule"),),
    "soft": (Taint("k", "v", "PreferNoSchedule"),),
    "leaving": (Taint("k", "v", "NoExecute"), Taint("other", "", "NoSchedule")),
}


@pytest.mark.parametrize(
    ("toleration", "names"),
    [
        (None, ["clean", "soft"]),
        (Toleration("k", "Equal", "v"), ["clean", "hard", "soft"]),
        (Toleration("k", "Equal", "w"), ["clean", "soft"]),
        (Toleration("k", "Exists"), ["clean", "hard", "soft"]),
        (Toleration("k", "Exists", effect="NoExecute"), ["clean", "soft"]),
        (Toleration("", "Exists"), ["clean", "cordoned", "hard", "leaving", "soft"]),
        (Toleration("node.kubernetes.io/unschedulable", "Exists"), ["clean", "cordoned", "soft"]),
    ],
)
def test_taints_need_their_tolerations(toleration: Toleration | None, names: list[str]) -> None:
    cluster = ClusterBuilder()
    for name, taints in TAINTS.items():
        cluster.node(name, cpu=4, taints=taints)
    cluster.node("cordoned", cpu=4, cordoned=True)
    assert usable(cluster, tolerations=(toleration,) if toleration else ()) == names


def test_an_uncordoned_node_takes_pods_again() -> None:
    cluster = ClusterBuilder().node("n", cpu=4, cordoned=True)
    leaf = gang(1, pods(1, cpu=1))
    assert isinstance(cluster.decide(leaf), Blocked)
    cluster.node("n", cpu=4)
    assert isinstance(cluster.decide(leaf), Placed)


def test_a_resource_no_node_has_is_named() -> None:
    verdict = ClusterBuilder().node("n", cpu=4).decide(gang(1, pods(1, gpu=1)))
    assert isinstance(verdict, Blocked)
    assert verdict.shortages[0].exclusions == {Reason(ReasonKind.SHORT_OF, ("nvidia.com/gpu",)): 1}


def test_an_over_committed_node_has_no_room_and_does_no_harm() -> None:
    cluster = ClusterBuilder().node("n1", cpu=2).node("n2", cpu=2)
    for _ in range(3):
        cluster.run("n1", cpu=1)
    verdict = cluster.decide(gang(2, pods(3, cpu=1)))
    assert isinstance(verdict, Placed)
    assert set(verdict.assignment.values()) == {"n2"}


def test_amounts_beyond_all_bounds_do_not_overflow() -> None:
    cluster = ClusterBuilder().node("n", cpu=1 << 70)
    for _ in range(4):
        cluster.run("n", cpu=1 << 70)
    assert isinstance(cluster.decide(gang(1, pods(1, cpu=1))), Blocked)
