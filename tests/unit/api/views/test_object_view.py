"""Typed views: what is decoded, when, and what becomes of values that do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.scheme import Object
from echelon.api.views.cluster_views import BudgetView, NodeView
from echelon.api.views.group_views import PodGroupView, WorkloadView
from echelon.api.views.job_views import JobSetView, JobSpec, JobView
from echelon.api.views.object_view import ObjectView, read
from echelon.api.views.pod_views import PodView
from echelon.api.views.trainjob_views import TrainJobView

POD: Object = {
    "metadata": {
        "name": "p",
        "namespace": "ns",
        "labels": {"a": "b"},
        "ownerReferences": [
            {"kind": "Workload", "name": "w", "uid": "1"},
            {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "2", "controller": True},
        ],
    },
    "spec": {"nodeName": "n1", "schedulingGroup": {"podGroupName": "g"}, "containers": [{"name": "c"}]},
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}
VIEWS: list[type[ObjectView[Any, Any]]] = [
    PodView,
    PodGroupView,
    WorkloadView,
    JobView,
    JobSetView,
    TrainJobView,
    NodeView,
    BudgetView,
]


def test_a_view_reads_what_the_object_says() -> None:
    pod = PodView(POD)
    assert (pod.key, pod.labels, pod.deleting) == ("ns/p", {"a": "b"}, False)
    assert (pod.spec.node_name, pod.group_name, pod.phase) == ("n1", "g", "Running")
    assert pod.is_true("Ready")
    assert not pod.is_true("PodScheduled")
    assert pod.controlled_by("2")
    assert not pod.controlled_by("1")
    assert pod.controller is not None
    assert pod.controller.group == "batch"
    assert pod.obj is POD


def test_parts_are_decoded_once() -> None:
    pod = PodView(POD)
    assert pod.metadata is pod.metadata
    assert pod.spec is pod.spec
    assert pod.status is pod.status


@pytest.mark.parametrize("view", VIEWS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("odd", [{}, {"metadata": None, "spec": None, "status": None}, {"spec": 7, "status": []}])
def test_an_object_without_readable_parts_reads_as_empty(view: type[ObjectView[Any, Any]], odd: Object) -> None:
    seen, empty = view(odd), view({})
    assert (seen.metadata, seen.spec, seen.status) == (empty.metadata, empty.spec, empty.status)
    assert seen.condition("Ready") is None


def test_a_value_of_the_wrong_type_reads_as_absent_and_its_neighbours_do_not() -> None:
    odd = {
        "metadata": {"name": "p", "labels": {"a": 1, "b": "c"}, "ownerReferences": ["x", {"uid": "1", "kind": 5}]},
        "spec": {"nodeName": 7, "priority": "high", "schedulerName": "echelon", "schedulingGroup": None},
        "status": {"phase": "Failed", "conditions": [{"type": "Ready", "status": True}, None]},
    }
    pod = PodView(odd)
    assert (pod.name, pod.labels) == ("p", {"b": "c"})
    assert [(owner.uid, owner.kind) for owner in pod.metadata.owner_references] == [("1", "")]
    assert (pod.spec.node_name, pod.spec.priority, pod.spec.scheduler_name) == ("", 0, "echelon")
    assert pod.group_name == ""
    assert [(one.type, one.status) for one in pod.status.conditions] == [("Ready", "")]
    assert pod.ended


def test_nulls_deep_in_a_template_read_as_absent() -> None:
    tree = {
        "parallelism": 3,
        "completions": None,
        "template": {"metadata": {"creationTimestamp": None, "labels": {"a": "b"}}, "spec": {"priorityClassName": "p"}},
        "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, "x"]}}]},
    }
    spec = read(JobSpec, tree)
    assert (spec.parallelism, spec.completions, spec.template.metadata.labels) == (3, None, {"a": "b"})
    assert spec.template.spec.priority_class_name == "p"
    assert spec.pod_failure_policy is not None
    (rule,) = spec.pod_failure_policy.rules
    assert rule.on_exit_codes is not None
    assert rule.on_exit_codes.values == (1,)


def test_templates_within_templates() -> None:
    inner = {"name": "inner", "schedulingPolicy": {"gang": {"minCount": 4}}}
    outer = {"name": "outer", "schedulingPolicy": {"basic": {}}, "podGroupTemplates": [inner]}
    (found,) = WorkloadView({"spec": {"compositePodGroupTemplates": [outer]}}).spec.composite_pod_group_templates
    assert (found.name, found.min_count) == ("outer", None)
    assert [(one.name, one.min_count) for one in found.pod_group_templates] == [("inner", 4)]
