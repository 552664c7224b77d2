"""Admission: namespaces, priority, protection, and what pods get on the way in."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from echelon.api.admission import admit_create, admit_delete, admit_update
from echelon.api.errors import ApiError
from echelon.api.scheme import COMPOSITE_POD_GROUPS, NAMESPACES, POD_GROUPS, PODS, PRIORITY_CLASSES, Object, Resource
from echelon.testing.builders import bare_pod

from ..rules.builders import Cluster, composite, pod_group


def priority_class(name: str, value: int, **more: Any) -> tuple[Resource, Object]:
    return PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value, **more}


CLASSES = Cluster(
    priority_class("high", 1000, preemptionPolicy="PreemptLowerPriority"),
    priority_class("patient", 900, preemptionPolicy="Never"),
)


pod_in_ns = partial(bare_pod, namespace="ns")
ALL = [(PODS, pod_in_ns), (POD_GROUPS, pod_group), (COMPOSITE_POD_GROUPS, composite)]


@pytest.mark.conformance("API-58")
@pytest.mark.parametrize(("resource", "make"), ALL)
def test_a_class_name_becomes_a_number(resource: Resource, make: Any) -> None:
    obj = make(priorityClassName="high")
    admit_create(resource, obj, CLASSES)
    assert obj["spec"]["priority"] == 1000
    assert obj["spec"]["preemptionPolicy"] == "PreemptLowerPriority"


@pytest.mark.parametrize(("resource", "make"), ALL)
def test_the_policy_of_the_class_wins_over_the_default(resource: Resource, make: Any) -> None:
    obj = make(priorityClassName="patient")
    admit_create(resource, obj, CLASSES)
    assert obj["spec"]["preemptionPolicy"] == "Never"


@pytest.mark.parametrize(("resource", "make"), ALL)
def test_without_a_class_priority_is_zero(resource: Resource, make: Any) -> None:
    obj = make()
    admit_create(resource, obj, CLASSES)
    assert "priorityClassName" not in obj["spec"]
    assert (obj["spec"]["priority"], obj["spec"]["preemptionPolicy"]) == (0, "PreemptLowerPriority")


@pytest.mark.parametrize(("resource", "make"), ALL)
def test_the_lowest_global_default_is_used(resource: Resource, make: Any) -> None:
    obj = make()
    marked = [priority_class("b", 7, globalDefault=True), priority_class("a", 9, globalDefault=True)]
    admit_create(resource, obj, Cluster(*marked))
    assert (obj["spec"]["priorityClassName"], obj["spec"]["priority"]) == ("b", 7)


@pytest.mark.conformance("API-58")
@pytest.mark.parametrize(("resource", "make"), ALL)
@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"priorityClassName": "nosuch"}, "no PriorityClass with name nosuch was found"),
        ({"priorityClassName": "high", "priority": 5}, "(5)"),
        ({"priorityClassName": "patient", "preemptionPolicy": "PreemptLowerPriority"}, "computed Never"),
    ],
)
def test_what_contradicts_the_class_is_refused(resource: Resource, make: Any, spec: Object, sentence: str) -> None:
    with pytest.raises(ApiError, match="is forbidden") as refused:
        admit_create(resource, make(**spec), CLASSES)
    assert refused.value.code == 403
    assert sentence in refused.value.message


def test_there_is_one_default_class() -> None:
    cluster = Cluster(priority_class("first", 1, globalDefault=True))
    second: Object = {"metadata": {"name": "second"}, "value": 2, "globalDefault": True}
    with pytest.raises(ApiError, match="PriorityClass first is already marked as default"):
        admit_create(PRIORITY_CLASSES, second, cluster)
    first = {**second, "metadata": {"name": "first"}}
    admit_update(PRIORITY_CLASSES, first, first, cluster)


@pytest.mark.conformance("SCH-206", "API-59")
def test_groups_are_protected_once() -> None:
    group, parent = pod_group(), composite()
    for obj, resource in ((group, POD_GROUPS), (parent, COMPOSITE_POD_GROUPS)):
        admit_create(resource, obj, CLASSES)
        admit_create(resource, obj, CLASSES)
    assert group["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
    assert parent["metadata"]["finalizers"] == ["scheduling.k8s.io/compositepodgroup-protection"]


@pytest.mark.conformance("API-12")
def test_a_missing_namespace_is_not_found() -> None:
    obj = pod_in_ns()
    obj["metadata"]["namespace"] = "nosuch"
    with pytest.raises(ApiError) as refused:
        admit_create(PODS, obj, CLASSES)
    assert refused.value.code == 404
    assert refused.value.details == {"name": "nosuch", "kind": "namespaces"}


@pytest.mark.conformance("API-78")
def test_nothing_new_enters_a_namespace_that_goes() -> None:
    going = {"metadata": {"name": "going", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    obj = pod_in_ns()
    obj["metadata"]["namespace"] = "going"
    with pytest.raises(ApiError, match="because it is being terminated") as refused:
        admit_create(PODS, obj, Cluster((NAMESPACES, going)))
    assert refused.value.code == 403
    assert refused.value.details["causes"][0]["reason"] == "NamespaceTerminating"


@pytest.mark.conformance("API-79")
def test_the_default_namespace_stays() -> None:
    with pytest.raises(ApiError, match='namespaces "default" is forbidden: this namespace may not be deleted'):
        admit_delete(NAMESPACES, {"metadata": {"name": "default"}}, CLASSES)
    admit_delete(NAMESPACES, {"metadata": {"name": "mine"}}, CLASSES)


def test_pods_tolerate_a_failing_node_for_five_minutes() -> None:
    obj = pod_in_ns(tolerations=[{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "operator": "Exists"}])
    admit_create(PODS, obj, CLASSES)
    assert [(t["key"], t.get("tolerationSeconds")) for t in obj["spec"]["tolerations"]] == [
        ("node.kubernetes.io/not-ready", None),
        ("node.kubernetes.io/unreachable", 300),
    ]


@pytest.mark.parametrize(("value", "label"), [(1, "1"), (0, "0"), (-1, "n1")])
def test_pods_of_a_jobset_carry_their_priority_as_a_label(value: int, label: str) -> None:
    obj = pod_in_ns(priorityClassName="p")
    obj["metadata"]["annotations"] = {"jobset.sigs.k8s.io/jobset-name": "js"}
    admit_create(PODS, obj, Cluster(priority_class("p", value)))
    assert obj["metadata"]["labels"] == {"jobset.sigs.k8s.io/priority": label}


def test_other_pods_get_no_such_label() -> None:
    obj = pod_in_ns()
    admit_create(PODS, obj, CLASSES)
    assert "labels" not in obj["metadata"]
