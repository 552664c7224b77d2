"""Pod: how it starts, what is refused, and the little that may change."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api import rules
from echelon.api.scheme import PODS, Object

from .builders import edited, on_create, on_update, stored_pod

NOW = 1_800_000_000.0
CPU_AND_MEMORY = {"cpu": "1", "memory": "1Gi"}


def container(**more: Any) -> Object:
    return {"name": "c", "image": "x", **more}


def started(**spec: Any) -> Object:
    obj = stored_pod(**spec)
    rules.prepare_create(PODS, obj, NOW)
    return obj


@pytest.mark.conformance("API-1")
def test_a_pod_starts_pending_whatever_status_was_sent() -> None:
    obj = stored_pod()
    obj["status"] = {"phase": "Running", "podIP": "1.2.3.4"}
    rules.prepare_create(PODS, obj, NOW)
    assert obj["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_a_gated_pod_says_so() -> None:
    condition = started(schedulingGates=[{"name": "g"}])["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"example.com/gpu": "8"}, "limits": {"example.com/gpu": "8"}}, "BestEffort"),
        ({"requests": {"cpu": "0"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": CPU_AND_MEMORY}, "Burstable"),
        ({"limits": CPU_AND_MEMORY}, "Guaranteed"),
        ({"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": CPU_AND_MEMORY}, "Guaranteed"),
    ],
)
def test_quality_of_service(resources: Object, quality: str) -> None:
    assert started(containers=[container(resources=resources)])["status"]["qosClass"] == quality


def test_one_free_container_makes_a_pod_burstable() -> None:
    pair = [container(resources={"limits": CPU_AND_MEMORY}), {"name": "d", "image": "x"}]
    assert started(containers=pair)["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        ({"containers": [{"image": "x"}]}, "spec.containers[0].name: Required value"),
        ({"containers": [{"name": "c"}]}, "spec.containers[0].image: Required value"),
        ({"containers": [container(), container()]}, 'spec.containers[1].name: Duplicate value: "c"'),
        ({"initContainers": [container()]}, 'spec.initContainers[0].name: Duplicate value: "c"'),
        ({"containers": [container(image=" x")]}, "must not have leading or trailing whitespace"),
        ({"containers": [container(imagePullPolicy="Often")]}, 'supported values: "Always", "IfNotPresent", "Never"'),
        ({"containers": [container(ports=[{"containerPort": 70000}])]}, "must be between 1 and 65535, inclusive"),
        ({"containers": [container(env=[{"value": "v"}])]}, "spec.containers[0].env[0].name: Required value"),
        ({"containers": [container(volumeMounts=[{"name": "v", "mountPath": "/"}])]}, 'Not found: "v"'),
        ({"restartPolicy": "Sometimes"}, 'supported values: "Always", "OnFailure", "Never"'),
        ({"activeDeadlineSeconds": 0}, "must be between 1 and 2147483647, inclusive"),
        ({"nodeSelector": {"a b": "c"}}, 'spec.nodeSelector: Invalid value: "a b"'),
        ({"tolerations": [{"operator": "Equal"}]}, "operator must be Exists when `key` is empty"),
        ({"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]}, "value must be empty"),
        ({"tolerations": [{"key": "k", "effect": "Never", "operator": "Exists"}]}, 'Unsupported value: "Never"'),
        ({"schedulingGates": [{"name": "g"}, {"name": "g"}]}, "spec.schedulingGates[1]: Duplicate value"),
        ({"schedulingGates": [{"name": "g"}], "nodeName": "n"}, "until all schedulingGates have been cleared"),
        ({"schedulingGroup": {}}, "spec.schedulingGroup.podGroupName: Invalid value: null: must specify one of"),
        (
            {"schedulingGroup": {"podGroupName": "No_Name"}},
            'spec.schedulingGroup.podGroupName: Invalid value: "No_Name"',
        ),
        ({"hostname": "a.b"}, 'spec.hostname: Invalid value: "a.b"'),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, 'spec.volumes[1].name: Duplicate value: "v"'),
        (
            {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
            "must be greater than zero",
        ),
        (
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
            "topologyKey: Required value: can not be empty",
        ),
        (
            {
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
                }
            },
            "must have at least one node selector term",
        ),
    ],
)
def test_a_bad_pod_is_refused(spec: Object, sentence: str) -> None:
    problems = on_create(PODS, stored_pod(**spec))
    assert len(problems) == 1
    assert sentence in problems[0]


@pytest.mark.parametrize(
    ("resources", "sentence"),
    [
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, "must be less than or equal to cpu limit of 1"),
        ({"requests": {"memory": "-1"}}, "must be greater than or equal to 0"),
        ({"requests": {"gpus": "1"}}, "must be a standard resource for containers"),
        ({"requests": {"a.io/gpu": "1"}}, "Limit must be set for non overcommitable resources"),
        ({"limits": {"a.io/gpu": "500m"}}, "must be an integer"),
        ({"requests": {"a.io/gpu": "1"}, "limits": {"a.io/gpu": "2"}}, "must be equal to a.io/gpu limit of 2"),
    ],
)
def test_bad_amounts_are_refused(resources: Object, sentence: str) -> None:
    problems = on_create(PODS, stored_pod(containers=[container(resources=resources)]))
    assert problems
    assert all(sentence in problem for problem in problems)


def test_a_rich_pod_is_accepted() -> None:
    rich = stored_pod(
        containers=[
            container(
                resources={"limits": {"cpu": "1", "nvidia.com/gpu": 8}},
                ports=[{"containerPort": 80, "name": "http"}],
                env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                volumeMounts=[{"name": "v", "mountPath": "/data"}],
            )
        ],
        volumes=[{"name": "v"}],
        schedulingGroup={"podGroupName": "g"},
        tolerations=[{"operator": "Exists"}],
        nodeSelector={"topology.kubernetes.io/rack": "r1"},
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                }
            }
        },
    )
    assert on_create(PODS, rich) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.containers.0.image", "y"),
        ("spec.activeDeadlineSeconds", 5),
        ("spec.tolerations", [{"operator": "Exists"}]),
        ("spec.schedulingGates", []),
        ("metadata.labels", {"a": "b"}),
    ],
)
def test_what_may_change(path: str, value: Any) -> None:
    old = started(schedulingGates=[{"name": "g"}])
    assert on_update(PODS, edited(old, path, value), old) == []


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("spec.nodeName", "n1", "changed: nodeName"),
        ("spec.restartPolicy", "Never", "spec: Forbidden: pod updates may not change fields other than"),
        ("spec.priority", 7, "changed: priority"),
        ("spec.containers.0.command", ["x"], "changed: containers"),
        ("spec.containers", [], "pod updates may not add or remove containers"),
        ("spec.containers.0.image", "", "spec.containers[0].image: Required value"),
        (
            "spec.schedulingGroup",
            {"podGroupName": "other"},
            "spec.schedulingGroup: Invalid value: null: field is immutable",
        ),
        ("spec.schedulingGates", [{"name": "g"}], "only deletion is allowed, but found new scheduling gate 'g'"),
        ("spec.tolerations", [], "existing toleration can not be modified except its tolerationSeconds"),
        ("spec.activeDeadlineSeconds", 99, "must be less than or equal to previous value"),
    ],
)
def test_what_may_not_change(path: str, value: Any, sentence: str) -> None:
    old = started(schedulingGroup={"podGroupName": "g"}, tolerations=[{"operator": "Exists"}], activeDeadlineSeconds=10)
    problems = on_update(PODS, edited(old, path, value), old)
    assert len(problems) == 1
    assert sentence in problems[0]


def test_a_gated_pod_may_narrow_where_it_goes() -> None:
    old = started(schedulingGates=[{"name": "g"}], nodeSelector={"a": "1"})
    assert on_update(PODS, edited(old, "spec.nodeSelector", {"a": "1", "b": "2"}), old) == []
    assert len(on_update(PODS, edited(old, "spec.nodeSelector", {"b": "2"}), old)) == 1
    free = started(nodeSelector={"a": "1"})
    assert len(on_update(PODS, edited(free, "spec.nodeSelector", {"a": "1", "b": "2"}), free)) == 1


@pytest.mark.conformance("API-16", "API-15")
def test_a_status_write_may_touch_labels_but_not_spec_and_owners() -> None:
    old = started()
    new = edited(edited(old, "metadata.labels", {"a": "b"}), "spec.nodeName", "n1")
    new["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]
    new["status"] = {"phase": "Running"}
    rules.prepare_update(PODS, new, old, "status")
    assert new["metadata"]["labels"] == {"a": "b"}
    assert "ownerReferences" not in new["metadata"]
    assert new["spec"] == old["spec"]
    assert new["status"] == {"phase": "Running", "qosClass": "BestEffort"}


@pytest.mark.conformance("API-14")
def test_the_main_endpoint_keeps_the_status() -> None:
    old = started()
    new = edited(old, "status", {"phase": "Failed"})
    rules.prepare_update(PODS, new, old)
    assert new["status"] == old["status"]


def test_a_spec_that_was_sound_excuses_neither_a_wrong_host_name_nor_another_spec() -> None:
    assert not on_create(PODS, stored_pod(hostname="one"))
    assert not on_create(PODS, stored_pod(hostname="two"))
    assert on_create(PODS, stored_pod(hostname="Not_a_name"))
    assert on_create(PODS, stored_pod(hostname="one", restartPolicy="Sometimes"))
    assert not on_create(PODS, stored_pod(hostname="one"))
