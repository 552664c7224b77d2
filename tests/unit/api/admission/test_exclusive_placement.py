"""Exclusive placement by other schedulers: what admission adds to leaders and followers, and whom it refuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from echelon.api.admission.pods.exclusive_placement import complete
from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import NODES, PODS, Object, Resource

RACK = "topology.kubernetes.io/rack"
KEY, PRIORITY = "jobset.sigs.k8s.io/job-key", "jobset.sigs.k8s.io/priority"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Known:
    """Pods and nodes as admission reads them."""

    def __init__(self, *objects: Object) -> None:
        self._objects = objects

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        found = (one for one in self._objects if one["kind"] == resource.kind and meta.name(one) == name)
        return next(found, None)

    def changes(self, resource: Resource) -> int:
        return 0

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]:
        return [one for one in self._objects if one["kind"] == resource.kind and meta.namespace(one) == namespace]


def node(name: str, **labels: str) -> Object:
    return {"kind": NODES.kind, "metadata": {"name": name, "labels": labels}}


def pod(index: int, *, job: str = "js-w-0", uid: str = "job-uid", at: str = "", phase: str = "Pending") -> Object:
    annotations = {
        "jobset.sigs.k8s.io/jobset-name": "js",
        "alpha.jobset.sigs.k8s.io/exclusive-topology": RACK,
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    owner = {"kind": "Job", "name": job, "uid": uid, "controller": True}
    metadata = {
        "name": f"{job}-{index}-abcde",
        "namespace": "ns",
        "annotations": annotations,
        "ownerReferences": [owner],
    }
    spec: dict[str, Any] = {"schedulerName": "other", **({"nodeName": at} if at else {})}
    labels = {KEY: "own", PRIORITY: "5"}
    return {"kind": PODS.kind, "metadata": {**metadata, "labels": labels}, "spec": spec, "status": {"phase": phase}}


def admitted(one: Object, *others: Object) -> Object:
    complete(one, Known(*others))
    spec: Object = one["spec"]
    return spec


def refused(one: Object, *others: Object) -> str:
    with pytest.raises(ApiError) as found:
        complete(one, Known(*others))
    assert found.value.code == 403
    return str(found.value)


RACKED = node("n1", **{RACK: "r1"})


@pytest.mark.conformance("JS-U21")
def test_a_leader_is_near_its_own_job_and_away_from_others_of_its_priority() -> None:
    leader = pod(0)
    mine = {"topologyKey": "host", "labelSelector": {}}
    leader["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: [mine]}}
    affinity = admitted(leader)["affinity"]
    (near,) = affinity["podAffinity"][REQUIRED]
    kept, far = affinity["podAntiAffinity"][REQUIRED]
    assert kept == mine
    assert near == {
        "labelSelector": {"matchExpressions": [{"key": KEY, "operator": "In", "values": ["own"]}]},
        "topologyKey": RACK,
        "namespaceSelector": {},
    }
    assert far["labelSelector"]["matchExpressions"] == [
        {"key": KEY, "operator": "Exists"},
        {"key": KEY, "operator": "NotIn", "values": ["own"]},
        {"key": PRIORITY, "operator": "In", "values": ["5"]},
    ]
    assert (far["topologyKey"], far["namespaceSelector"]) == (RACK, {})


@pytest.mark.conformance("JS-U21")
def test_a_follower_goes_to_the_domain_of_its_leader() -> None:
    assert admitted(pod(1), pod(0, at="n1"), RACKED)["nodeSelector"] == {RACK: "r1"}


@pytest.mark.conformance("JS-U21")
@pytest.mark.parametrize(
    ("others", "told"),
    [
        ([], "expected 1 leader pod (js-w-0-0), but got 0. this is an expected, transient error"),
        ([pod(0)], "leader pod not yet scheduled, not creating follower pod. this is an expected, transient error"),
        ([pod(0, at="n1")], "the node n1 of the leader pod js-w-0-0-abcde does not exist"),
        ([pod(0, at="n1"), node("n1")], f"the node n1 of the leader pod js-w-0-0-abcde has no label {RACK}"),
        ([pod(0, at="n1"), pod(0, at="n1"), RACKED], "expected 1 leader pod (js-w-0-0), but got 2"),
        ([pod(0, at="n1", uid="old"), RACKED], "follower pod owner UID (job-uid) != leader pod owner UID (old)"),
    ],
)
def test_a_follower_without_a_leader_to_follow_is_refused(others: list[Object], told: str) -> None:
    assert told in refused(pod(1), *others)


@pytest.mark.conformance("JS-U21")
def test_leaders_that_are_leaving_or_have_ended_do_not_count() -> None:
    leaving = pod(0, at="n1")
    leaving["metadata"]["deletionTimestamp"] = "2027-01-01T00:00:00Z"
    gone = [leaving, pod(0, at="n1", phase="Failed"), pod(0, at="n1", phase="Succeeded")]
    assert "but got 0" in refused(pod(1), *gone, RACKED)
    assert admitted(pod(1), *gone, pod(0, at="n1"), RACKED)["nodeSelector"] == {RACK: "r1"}


@pytest.mark.conformance("JS-U21")
@pytest.mark.parametrize("missing", ["jobset.sigs.k8s.io/jobset-name", "alpha.jobset.sigs.k8s.io/exclusive-topology"])
def test_other_pods_are_left_alone(missing: str) -> None:
    other = pod(1)
    del other["metadata"]["annotations"][missing]
    assert admitted(other) == {"schedulerName": "other"}


@pytest.mark.conformance("JS-U21")
def test_pods_for_nodes_that_were_labelled_beforehand_are_left_alone() -> None:
    other = pod(1)
    other["metadata"]["annotations"]["alpha.jobset.sigs.k8s.io/node-selector"] = "true"
    assert admitted(other) == {"schedulerName": "other"}


def test_pods_of_a_group_wait_for_no_leader() -> None:
    ours, others = pod(1), pod(1)
    for one, scheduler in ((ours, "default-scheduler"), (others, "other")):
        one["spec"] |= {"schedulingGroup": {"podGroupName": "g"}, "schedulerName": scheduler}
    assert "affinity" not in admitted(ours)
    assert admitted(others)["affinity"]["podAntiAffinity"][REQUIRED]
