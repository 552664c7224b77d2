"""Custom kinds: pruning, the defaults their schemas carry, and structural rules in a server's words."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api import scheme
from echelon.api.errors import ApiError
from echelon.api.schema import definitions, kind_schema, schema_validation
from echelon.api.scheme import Object, Resource
from echelon.server.http.replies.columns import columns_of

POD_TEMPLATE: Object = {"spec": {"containers": [{"name": "c", "image": "x", "ports": [{"containerPort": 1}]}]}}


def jobset(**spec: Any) -> Object:
    replicated = [{"name": "w", "template": {"spec": {"template": POD_TEMPLATE}}}]
    return {"metadata": {"name": "js"}, "spec": {"replicatedJobs": replicated, **spec}}


def stored(resource: Resource, obj: Object) -> Object:
    made = kind_schema.decode(resource, obj).obj
    kind_schema.apply_defaults(resource, made)
    return made


def complaints(resource: Resource, obj: Object) -> list[str]:
    return [str(problem) for problem in kind_schema.check(resource, stored(resource, obj))]


def test_a_jobset_gets_the_defaults_of_its_schema_and_none_of_a_built_in_pod() -> None:
    spec = stored(scheme.JOB_SETS, jobset(failurePolicy={}))["spec"]
    replicated = spec["replicatedJobs"][0]
    assert (replicated["replicas"], replicated["groupName"]) == (1, "default")
    assert spec["failurePolicy"] == {"restartStrategy": "Recreate"}
    pod = replicated["template"]["spec"]["template"]["spec"]
    assert pod == {"containers": [{"name": "c", "image": "x", "ports": [{"containerPort": 1, "protocol": "TCP"}]}]}


def test_a_train_job_gets_the_defaults_of_its_schema() -> None:
    job = stored(scheme.TRAIN_JOBS, {"metadata": {"name": "t"}, "spec": {"runtimeRef": {"name": "torch"}}})
    assert job["spec"] == {
        "runtimeRef": {"name": "torch", "apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime"},
        "suspend": False,
        "managedBy": "trainer.kubeflow.org/trainjob-controller",
    }
    assert kind_schema.check(scheme.TRAIN_JOBS, job) == []


def test_a_runtime_keeps_our_workload_policy_and_upstreams_defaults() -> None:
    spec = {
        "podGroupPolicy": {"workload": {}},
        "mlPolicy": {"mpi": {}},
        "template": {"spec": {"replicatedJobs": [{"name": "node", "template": {}}]}},
    }
    runtime = stored(scheme.CLUSTER_TRAINING_RUNTIMES, {"metadata": {"name": "r"}, "spec": spec})["spec"]
    assert runtime["podGroupPolicy"] == {"workload": {}}
    assert runtime["mlPolicy"]["mpi"]["sshAuthMountPath"] == "/root/.ssh"
    assert runtime["template"]["spec"]["replicatedJobs"][0]["replicas"] == 1


def test_our_own_jobset_fields_are_stored_as_sent() -> None:
    ours = {
        "executionPolicy": {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"},
        "scheduling": {
            "schedulingPolicy": {"gang": {"minGroupCount": 2}},
            "replicatedJobs": [
                {
                    "targetReplicatedJobs": ["w"],
                    "job": {
                        "schedulingPolicy": {"gang": {}},
                        "schedulingConstraints": {"topology": [{"key": "rack"}]},
                        "disruptionMode": {"all": {}},
                    },
                }
            ],
        },
    }
    decoded = kind_schema.decode(scheme.JOB_SETS, jobset(**ours))
    assert decoded.unknown == []
    assert {field: decoded.obj["spec"][field] for field in ours} == ours
    assert kind_schema.check(scheme.JOB_SETS, decoded.obj) == []


def test_custom_kinds_are_pruned_and_stay_as_sent_otherwise() -> None:
    sent = jobset(nosuch=1, suspend=None, ttlSecondsAfterFinished=4.0)
    sent["spec"]["replicatedJobs"][0]["template"]["spec"]["template"] = {
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1000m", "gpu": 4.0}}}], "odd": True}
    }
    decoded = kind_schema.decode(scheme.JOB_SETS, sent)
    assert sorted(decoded.unknown) == ["spec.nosuch", "spec.replicatedJobs[0].template.spec.template.spec.odd"]
    assert "suspend" not in decoded.obj["spec"]
    assert decoded.obj["spec"]["ttlSecondsAfterFinished"] == 4
    container = decoded.obj["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"cpu": "1000m", "gpu": 4}


def test_metadata_of_custom_kinds_is_read_typed() -> None:
    with pytest.raises(ApiError) as refused:
        kind_schema.decode(scheme.JOB_SETS, {"metadata": {"labels": {"a": 1}}})
    assert refused.value.code == 400
    assert "metadata.labels of type string" in refused.value.message


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (
            {"suspend": "yes"},
            'spec.suspend: Invalid value: "string": spec.suspend in body must be of type boolean: "string"',
        ),
        (
            {"ttlSecondsAfterFinished": -1},
            "spec.ttlSecondsAfterFinished: Invalid value: -1: spec.ttlSecondsAfterFinished in body should be greater "
            "than or equal to 0",
        ),
        (
            {"ttlSecondsAfterFinished": 2**31},
            "spec.ttlSecondsAfterFinished: Invalid value: 2147483648: spec.ttlSecondsAfterFinished in body should be "
            "less than or equal to 2147483647",
        ),
        ({"successPolicy": {}}, "spec.successPolicy.operator: Required value"),
        (
            {"successPolicy": {"operator": "Most"}},
            'spec.successPolicy.operator: Unsupported value: "Most": supported values: "All", "Any"',
        ),
        ({"coordinator": {}}, "spec.coordinator.replicatedJob: Required value"),
        ({"volumeClaimPolicies": [{}] * 51}, "spec.volumeClaimPolicies: Too many: 51: must have at most 50 items"),
        (
            {"scheduling": {"replicatedJobs": [{"targetReplicatedJobs": []}]}},
            "spec.scheduling.replicatedJobs[0].targetReplicatedJobs: Invalid value: 0: "
            "spec.scheduling.replicatedJobs[0].targetReplicatedJobs in body should have at least 1 items",
        ),
        (
            {"scheduling": {"replicatedJobs": [{"targetReplicatedJobs": ["a", "a"]}]}},
            'spec.scheduling.replicatedJobs[0].targetReplicatedJobs[1]: Duplicate value: "a"',
        ),
        (
            {"replicatedJobs": [{"name": "a", "template": {}}, {"name": "a", "template": {}}]},
            'spec.replicatedJobs[1]: Duplicate value: {"name":"a"}',
        ),
        (
            {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": {"spec": {}}}}}]},
            "spec.replicatedJobs[0].template.spec.template.spec.containers: Required value",
        ),
    ],
)
def test_structural_rules_of_a_jobset(spec: Object, complaint: str) -> None:
    assert complaints(scheme.JOB_SETS, jobset(**spec)) == [complaint]


def test_every_problem_is_reported_at_once() -> None:
    found = complaints(scheme.JOB_SETS, jobset(suspend=1, coordinator={}, ttlSecondsAfterFinished="x"))
    assert len(found) == 3


def test_bad_quantities_and_instants_in_custom_kinds() -> None:
    limits = {"limits": {"cpu": "lots"}}
    job = {
        "metadata": {"name": "t"},
        "spec": {
            "runtimeRef": {"name": ""},
            "trainer": {"resourcesPerNode": limits, "numProcPerNode": 0, "image": "x" * 501},
            "runtimePatches": [{"manager": "a.io/x", "time": "soon"}],
        },
    }
    found = complaints(scheme.TRAIN_JOBS, job)
    assert [text.split(":")[0] for text in found] == [
        "spec.runtimeRef.name",
        "spec.trainer.resourcesPerNode.limits.cpu",
        "spec.trainer.numProcPerNode",
        "spec.trainer.image",
        "spec.runtimePatches[0].time",
    ]
    assert "in body should match '^(" in found[1]
    assert "Too long: may not be more than 500 bytes" in found[3]


@pytest.mark.parametrize("resource", scheme.RESOURCES, ids=lambda resource: f"{resource.version}.{resource.kind}")
def test_every_kind_has_a_schema_whose_references_exist(resource: Resource) -> None:
    waiting, seen = [definitions.name_of(resource)], dict[str, None]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen[name] = None
            waiting += definitions.references(definitions.lookup(name))
    assert kind_schema.definition(resource)["properties"]["metadata"]["$ref"] == definitions.OBJECT_META


@pytest.mark.parametrize("resource", [scheme.JOB_SETS, scheme.TRAIN_JOBS], ids=lambda resource: resource.kind)
def test_declared_printer_columns_are_those_the_server_prints(resource: Resource) -> None:
    declared = [column["name"] for column in kind_schema.printer_columns(resource)]
    assert declared == [column.name for column in columns_of(resource)][1:]
    narrow = [column["name"] for column in kind_schema.printer_columns(resource) if not column.get("priority")]
    assert narrow[-1] == "Age"


def test_a_default_beside_a_type_that_there_is_not_is_no_error_of_its_own() -> None:
    assert schema_validation.validate_value({"type": "ob", "default": {}}, {}, "default") == []
