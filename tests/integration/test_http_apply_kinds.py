"""Server-side apply on every kind that is served: created, applied again without a write, shared and cleared."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.verbs import PatchType
from tests.https_server import Answer, Https

JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"


def applied(https: Https, path: str, manager: str, body: dict[str, Any], *, force: bool = False) -> Answer:
    query = f"?fieldManager={manager}" + ("&force=true" if force else "")
    return https("PATCH", path + query, body, content_type=PatchType.APPLY.value)


def owned(answer: Answer) -> dict[str, Any]:
    return {one["manager"]: one["fieldsV1"] for one in answer.json()["metadata"]["managedFields"]}


def job_set(*jobs: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js"},
        "spec": {**({"replicatedJobs": list(jobs)} if jobs else {}), **spec},
    }


def replicated(name: str, **more: Any) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    return {"name": name, "template": {"spec": {"template": {"spec": pod}}}, **more}


def test_custom_kinds_are_applied_by_the_keys_of_their_lists(https: Https) -> None:
    body = job_set(replicated("a"), replicated("b"), suspend=True)
    made = applied(https, f"{JOB_SETS}/js", "m1", body)
    assert made.status == 201, made.body
    assert set(owned(made)["m1"]["f:spec"]["f:replicatedJobs"]) == {'k:{"name":"a"}', 'k:{"name":"b"}'}
    again = applied(https, f"{JOB_SETS}/js", "m1", body)
    assert (again.status, again.json()) == (200, made.json())
    other = applied(https, f"{JOB_SETS}/js", "m2", job_set(suspend=False))
    assert other.status == 409
    assert other.json()["details"]["causes"][0]["field"] == ".spec.suspend"
    unknown = applied(https, f"{JOB_SETS}/js", "m2", job_set(nonsense=1))
    assert unknown.status == 400
    assert ".spec.nonsense: field not declared in schema" in unknown.json()["message"]


def test_strings_of_a_secret_are_applied_again_without_a_write(https: Https) -> None:
    path = "/api/v1/namespaces/default/secrets/s"
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "1"}}
    made = applied(https, path, "m", body)
    assert made.status == 201, made.body
    assert made.json()["data"] == {"a": "MQ=="}
    assert applied(https, path, "m", body).json() == made.json()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/namespaces/applied", {"apiVersion": "v1", "kind": "Namespace"}),
        ("/api/v1/nodes/applied", {"apiVersion": "v1", "kind": "Node", "spec": {"unschedulable": True}}),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets/applied",
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": 1}},
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses/applied",
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5},
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases/applied",
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "me"}},
        ),
        (
            "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/podgroups/applied",
            {
                "apiVersion": "scheduling.k8s.io/v1alpha3",
                "kind": "PodGroup",
                "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
            },
        ),
    ],
)
def test_every_kind_is_applied_and_applied_again(https: Https, path: str, body: dict[str, Any]) -> None:
    body = {**body, "metadata": {"name": "applied", "labels": {"a": "b"}}}
    made = applied(https, path, "m", body)
    assert made.status == 201, made.body
    assert made.json()["apiVersion"] == body["apiVersion"]
    again = applied(https, path, "m", body)
    assert (again.status, again.json()) == (200, made.json())
    relabelled = {**body, "metadata": {"name": "applied", "labels": {"a": "c"}}}
    assert applied(https, path, "other", relabelled).status == 409
    forced = applied(https, path, "other", relabelled, force=True)
    assert forced.json()["metadata"]["labels"]["a"] == "c"
    assert "f:metadata" not in owned(forced).get("m", {})
