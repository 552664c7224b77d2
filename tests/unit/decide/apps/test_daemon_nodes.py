"""Which nodes a DaemonSet's pods run on, and on which they may stay."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.scheme import Object
from echelon.api.views.cluster_views import NodeView
from echelon.decide.apps.daemon_nodes import bound_to, node_of, should_run, tolerations

from .objects import node

RUNS, STAYS, LEAVES = (True, True), (False, True), (False, False)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def on(name: str = "n1", taints: list[Object] | None = None, labels: Object | None = None, **spec: Any) -> Any:
    return should_run({"spec": spec}, NodeView(node(name, *(taints or []), labels=labels or {})))


def affinity(*terms: Object) -> Object:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def test_a_template_without_wishes_runs_everywhere() -> None:
    assert on() == RUNS
    assert on(nodeName="") == RUNS


def test_a_template_that_names_a_node_runs_there_alone() -> None:
    assert on("n1", nodeName="n1") == RUNS
    assert on("n2", nodeName="n1") == LEAVES


def test_a_node_selector_wants_all_of_its_labels() -> None:
    wanted = {"disk": "ssd", "zone": "a"}
    assert on(labels={"disk": "ssd", "zone": "a", "more": "x"}, nodeSelector=wanted) == RUNS
    assert on(labels={"disk": "ssd"}, nodeSelector=wanted) == LEAVES
    assert on(labels={"disk": "ssd", "zone": "b"}, nodeSelector=wanted) == LEAVES


EXPRESSIONS: list[tuple[Object, dict[str, str], bool]] = [
    ({"operator": "In", "values": ["a", "b"]}, {"k": "b"}, True),
    ({"operator": "In", "values": ["a", "b"]}, {"k": "c"}, False),
    ({"operator": "In", "values": ["a", "b"]}, {}, False),
    ({"operator": "NotIn", "values": ["a", "b"]}, {"k": "b"}, False),
    ({"operator": "NotIn", "values": ["a", "b"]}, {"k": "c"}, True),
    ({"operator": "NotIn", "values": ["a", "b"]}, {}, True),
    ({"operator": "Exists"}, {"k": ""}, True),
    ({"operator": "Exists"}, {"other": "x"}, False),
    ({"operator": "DoesNotExist"}, {"k": ""}, False),
    ({"operator": "DoesNotExist"}, {"other": "x"}, True),
    ({"operator": "Gt", "values": ["5"]}, {"k": "6"}, True),
    ({"operator": "Gt", "values": ["5"]}, {"k": "5"}, False),
    ({"operator": "Gt", "values": ["-5"]}, {"k": "-4"}, True),
    ({"operator": "Gt", "values": ["5"]}, {"k": "10"}, True),
    ({"operator": "Gt", "values": ["5"]}, {"k": "many"}, False),
    ({"operator": "Gt", "values": ["few"]}, {"k": "6"}, False),
    ({"operator": "Gt", "values": ["5"]}, {"k": "٦"}, False),
    ({"operator": "Gt", "values": ["5"]}, {"k": "9223372036854775807"}, True),
    ({"operator": "Gt", "values": ["5"]}, {"k": "-9223372036854775808"}, False),
    ({"operator": "Gt", "values": ["5"]}, {"k": "9" * 63}, False),
    ({"operator": "Gt", "values": ["5"]}, {}, False),
    ({"operator": "Lt", "values": ["5"]}, {"k": "4"}, True),
    ({"operator": "Lt", "values": ["5"]}, {"k": "5"}, False),
    ({"operator": "Lt", "values": ["5"]}, {"k": "6"}, False),
    ({"operator": "Lt", "values": ["5"]}, {"k": "-9223372036854775808"}, True),
    ({"operator": "Lt", "values": ["5"]}, {}, False),
]


@pytest.mark.parametrize(("expression", "labels", "fits"), EXPRESSIONS)
def test_an_expression_of_a_required_affinity(expression: Object, labels: Object, fits: bool) -> None:
    term = {"matchExpressions": [{"key": "k", **expression}]}
    assert on(labels=labels, affinity=affinity(term)) == (RUNS if fits else LEAVES)


def test_a_term_wants_all_of_its_expressions_and_fields() -> None:
    term = {
        "matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
    }
    assert on("n1", labels={"a": "", "b": ""}, affinity=affinity(term)) == RUNS
    assert on("n1", labels={"a": ""}, affinity=affinity(term)) == LEAVES
    assert on("n2", labels={"a": "", "b": ""}, affinity=affinity(term)) == LEAVES


def test_one_of_the_terms_is_enough_and_an_empty_one_fits_nothing() -> None:
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    labelled = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    assert on("n1", affinity=affinity(labelled, here)) == RUNS
    assert on("n2", labels={"a": ""}, affinity=affinity(labelled, here)) == RUNS
    assert on("n2", affinity=affinity(labelled, here)) == LEAVES
    assert on("n1", affinity=affinity({})) == LEAVES
    assert on("n1", affinity=affinity()) == LEAVES


def taint(effect: str, key: str = "k", value: str = "v") -> Object:
    return {"key": key, "value": value, "effect": effect}


def test_a_taint_keeps_pods_away_and_only_no_execute_drives_them_out() -> None:
    assert on(taints=[taint("NoSchedule")]) == STAYS
    assert on(taints=[taint("NoExecute")]) == LEAVES
    assert on(taints=[taint("PreferNoSchedule")]) == RUNS


TOLERATIONS: list[tuple[Object, bool]] = [
    ({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, True),
    ({"key": "k", "value": "v"}, True),
    ({"key": "k", "operator": "Exists"}, True),
    ({"operator": "Exists"}, True),
    ({"operator": "Exists", "effect": ""}, True),
    ({"key": "k", "value": "w"}, False),
    ({"key": "k"}, False),
    ({"key": "other", "operator": "Exists"}, False),
    ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False),
]


@pytest.mark.parametrize(("toleration", "tolerates"), TOLERATIONS)
def test_a_toleration_fits_by_effect_key_and_value(toleration: Object, tolerates: bool) -> None:
    assert on(taints=[taint("NoSchedule")], tolerations=[toleration]) == (RUNS if tolerates else STAYS)


def test_a_taint_without_a_value_is_tolerated_by_its_key() -> None:
    bare = {"key": "k", "effect": "NoSchedule"}
    assert on(taints=[bare], tolerations=[{"key": "k", "operator": "Equal"}]) == RUNS
    assert on(taints=[bare], tolerations=[{"key": "k", "value": "v"}]) == STAYS


NODE = "node.kubernetes.io/"


@pytest.mark.parametrize(
    ("key", "effect", "expected"),
    [
        ("not-ready", "NoExecute", RUNS),
        ("unreachable", "NoExecute", RUNS),
        ("disk-pressure", "NoSchedule", RUNS),
        ("memory-pressure", "NoSchedule", RUNS),
        ("pid-pressure", "NoSchedule", RUNS),
        ("unschedulable", "NoSchedule", RUNS),
        ("network-unavailable", "NoSchedule", STAYS),
        ("out-of-service", "NoExecute", LEAVES),
    ],
)
def test_daemons_stay_on_nodes_in_trouble(key: str, effect: str, expected: tuple[bool, bool]) -> None:
    assert on(taints=[taint(effect, NODE + key, "")]) == expected


def test_a_daemon_of_the_host_network_needs_no_network() -> None:
    assert on(taints=[taint("NoSchedule", NODE + "network-unavailable")], hostNetwork=True) == RUNS


def test_a_toleration_that_is_written_is_not_added_again() -> None:
    written = {"key": NODE + "not-ready", "operator": "Exists", "effect": "NoExecute"}
    own = {"key": "own", "operator": "Exists"}
    found = tolerations({"spec": {"tolerations": [own, written]}})
    assert found[:2] == [own, written]
    assert found.count(written) == 1
    assert len(found) == 7


def test_a_pod_is_bound_to_its_node_by_a_field_and_keeps_the_rest_of_its_affinity() -> None:
    preferred = [{"weight": 1, "preference": {}}]
    written = {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]},
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        },
        "podAntiAffinity": {"x": 1},
    }
    spec = bound_to({"containers": [], "affinity": written}, "n7")
    field = {"key": "metadata.name", "operator": "In", "values": ["n7"]}
    assert spec == {
        "containers": [],
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]},
                "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            },
            "podAntiAffinity": {"x": 1},
        },
    }
    assert node_of({"spec": spec}) == "n7"


def test_the_node_of_a_pod_is_the_one_it_is_bound_to_before_the_one_it_asks_for() -> None:
    assert node_of({"spec": {**bound_to({}, "n7"), "nodeName": "n8"}}) == "n8"


@pytest.mark.parametrize(
    "field",
    [
        {"key": "metadata.name", "operator": "In", "values": ["a", "b"]},
        {"key": "metadata.name", "operator": "In"},
        {"key": "metadata.name", "operator": "NotIn", "values": ["a"]},
        {"key": "metadata.namespace", "operator": "In", "values": ["a"]},
    ],
)
def test_a_pod_that_asks_for_no_one_node_has_none(field: Object) -> None:
    assert node_of({"spec": {"affinity": affinity({"matchFields": [field]})}}) == ""
    assert node_of({"spec": {}}) == ""
    meant = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    assert node_of({"spec": {"affinity": affinity({"matchFields": [field]}, {"matchFields": [meant]})}}) == "n1"
