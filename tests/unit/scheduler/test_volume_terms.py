"""What claims ask of a node, read off claims, volumes and classes."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.views.pod_views import PodView
from echelon.api.views.storage_views import ClaimView, CsiNodeView, StorageClassView, VolumeView
from echelon.engine import NodeTerm, Requirement
from echelon.scheduler.intake.volume_terms import NOTHING, Volumes
from echelon.scheduler.volumes.reach_index import reached
from echelon.testing.builders import make_pod

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def claim(name: str, **fields: Any) -> ClaimView:
    metadata = {"name": name, "namespace": "default", "annotations": fields.pop("annotations", {})}
    spec = {"accessModes": ["ReadWriteOnce"], **fields.pop("spec", {})}
    return ClaimView({"metadata": {**metadata, **fields.pop("metadata", {})}, "spec": spec, **fields})


def volume(name: str, *zones: str) -> VolumeView:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in zones]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if zones else {}
    return VolumeView({"metadata": {"name": name}, "spec": affinity})


def claiming_pod(name: str, *claims: str) -> PodView:
    made = make_pod(name, volumes=[{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims])
    return PodView({**made, "metadata": {**made["metadata"], "uid": name}})


def volumes(*objects: ClaimView | VolumeView) -> Volumes:
    found = Volumes()
    for one in objects:
        if isinstance(one, ClaimView):
            found.on_claim(None, one)
        else:
            found.on_volume(None, one)
    return found


def bound(name: str, to: str, **spec: Any) -> ClaimView:
    return claim(name, annotations=BOUND, spec={"volumeName": to, **spec})


def test_a_pod_without_claims_asks_nothing() -> None:
    assert volumes().of(claiming_pod("p")) == NOTHING


def test_every_bound_volume_says_from_where_it_is_reached() -> None:
    known = volumes(
        bound("a", "v"), bound("b", "w"), bound("c", "x"), volume("v", "1", "2"), volume("w"), volume("x", "3")
    )
    zone = {one: NodeTerm((Requirement("zone", "In", (one,)),)) for one in "123"}
    assert known.of(claiming_pod("p", "a", "b", "c")).reach == ((zone["1"], zone["2"]), (zone["3"],))


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], 'persistentvolumeclaim "a" not found'),
        ([claim("a")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("a", spec={"volumeName": "v"}), volume("v")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("a", spec={"storageClassName": "no-such"})], "pod has unbound immediate PersistentVolumeClaims"),
        ([bound("a", "v")], "pvc(s) bound to non-existent pv(s)"),
        (
            [claim("a", spec={"volumeName": "v"}, status={"phase": "Lost"})],
            'persistentvolumeclaim "a" bound to non-existent persistentvolume "v"',
        ),
        (
            [claim("a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            'persistentvolumeclaim "a" is being deleted',
        ),
    ],
)
def test_what_a_pod_waits_for_is_said_as_upstream_says_it(objects: list[ClaimView | VolumeView], reason: str) -> None:
    assert volumes(*objects).of(claiming_pod("p", "a")).waits == (reason,)


def test_a_pod_with_another_claim_is_told_when_that_changes() -> None:
    known, user = volumes(), claiming_pod("p", "a")
    known.enter(user)
    assert known.on_claim(None, bound("a", "v")) == ["p"]
    assert known.on_volume(None, volume("v")) == ["p"]
    assert known.on_claim(bound("a", "v"), bound("a", "v")) == []
    assert known.on_volume(volume("v"), None) == ["p"]
    known.leave(user)
    assert known.on_claim(bound("a", "v"), None) == []


def test_a_claim_for_one_pod_is_a_rule_once_two_pods_name_it() -> None:
    known = volumes(bound("a", "v", accessModes=["ReadWriteOncePod"]), volume("v"))
    one, other = claiming_pod("p", "a"), claiming_pod("q", "a")
    assert known.enter(one) == []
    assert known.of(one).alone == ()
    assert known.enter(other) == ["p"]
    assert known.of(one).alone == known.of(other).alone == ("a",)
    assert known.leave(other) == ["p"]
    assert known.of(one).alone == ()


def test_a_thousand_pods_that_share_a_claim_do_not_disturb_one_another() -> None:
    known = volumes(bound("data", "v", accessModes=["ReadWriteMany"]), volume("v"))
    pods = [claiming_pod(f"p{number}", "data") for number in range(1000)]
    assert [known.enter(one) for one in pods] == [[]] * 1000
    assert [known.leave(one) for one in pods] == [[]] * 1000


def test_nodes_that_went_leave_nothing_behind() -> None:
    known = volumes(bound("a", "v"), volume("v"))
    pod = claiming_pod("p", "a")
    known.enter(pod)
    for number in range(5):
        known.place("p", f"n{number}")
    known.leave(pod)
    assert not known._on_node


@pytest.mark.parametrize(
    ("source", "driver"),
    [
        ({"csi": {"driver": "d.example.org", "volumeHandle": "v"}}, "d.example.org"),
        ({"awsElasticBlockStore": {"volumeID": "v"}}, "ebs.csi.aws.com"),
        ({"gcePersistentDisk": {"pdName": "v"}}, "pd.csi.storage.gke.io"),
        ({"azureDisk": {"diskName": "v", "diskURI": "v"}}, "disk.csi.azure.com"),
        ({"cinder": {"volumeID": "v"}}, "cinder.csi.openstack.org"),
        ({"vsphereVolume": {"volumePath": "v"}}, "csi.vsphere.vmware.com"),
    ],
)
def test_a_volume_of_a_former_plugin_counts_for_the_driver_that_attaches_it(
    source: dict[str, Any], driver: str
) -> None:
    known = volumes(bound("a", "v"), VolumeView({"metadata": {"name": "v"}, "spec": source}))
    assert known.of(claiming_pod("p", "a")).requests == ()
    known.on_csi_node(None, limiting(driver))
    assert known.of(claiming_pod("p", "a")).requests == ((f"attachable volumes of {driver}", 1),)


def test_a_volume_that_a_former_plugin_is_to_make_counts_for_the_driver_that_makes_it() -> None:
    known = volumes(claim("a", spec={"storageClassName": "gp2"}))
    made = {"provisioner": "kubernetes.io/aws-ebs", "volumeBindingMode": "WaitForFirstConsumer"}
    known.on_class(None, StorageClassView({"metadata": {"name": "gp2"}, **made}))
    known.on_csi_node(None, limiting("ebs.csi.aws.com"))
    assert known.of(claiming_pod("p", "a")).requests == (("attachable volumes of ebs.csi.aws.com", 1),)


def limiting(driver: str) -> CsiNodeView:
    drivers = [{"name": driver, "nodeID": "n", "allocatable": {"count": 3}}]
    return CsiNodeView({"metadata": {"name": "n"}, "spec": {"drivers": drivers}})


ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


@pytest.mark.parametrize(
    ("labels", "affinity", "nodes"),
    [
        ({}, (), ["a", "b", "old-a", "old-b", "bare"]),
        ({ZONE: "a"}, (), ["a", "bare"]),
        ({ZONE: "a__b"}, (), ["a", "b", "bare"]),
        ({OLD_ZONE: "a"}, (), ["a", "old-a", "bare"]),
        ({OLD_ZONE: "a", OLD_REGION: "r"}, (), ["a", "old-a", "bare"]),
        ({ZONE: "a", REGION: "s"}, (), ["bare"]),
        ({ZONE: "a", REGION: ""}, (), ["a", "bare"]),
        ({ZONE: "a"}, ("a", "b"), ["a"]),
        ({ZONE: "a"}, ("b",), []),
    ],
)
def test_a_bound_volume_is_reached_in_the_zones_that_its_labels_name(
    labels: dict[str, str], affinity: tuple[str, ...], nodes: list[str]
) -> None:
    """As kube-scheduler reads them: nodes without any such label are taken for the only zone that there is."""
    there = {
        "a": {ZONE: "a", REGION: "r"},
        "b": {ZONE: "b", REGION: "r"},
        "old-a": {OLD_ZONE: "a", OLD_REGION: "r"},
        "old-b": {OLD_ZONE: "b", OLD_REGION: "r"},
        "bare": {},
    }
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]} for zone in affinity]
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms else {}
    known = volumes(bound("a", "v"), VolumeView({"metadata": {"name": "v", "labels": labels}, "spec": spec}))
    reach = known.of(claiming_pod("p", "a")).reach
    assert [name for name, own in there.items() if all(reached(one, name, own) for one in reach)] == nodes


def test_labels_that_say_no_more_than_the_affinity_add_nothing() -> None:
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}
    ]}}}  # fmt: skip
    known = volumes(bound("a", "v"), VolumeView({"metadata": {"name": "v", "labels": {ZONE: "a"}}, "spec": spec}))
    (reach,) = known.of(claiming_pod("p", "a")).reach
    assert reach == (NodeTerm((Requirement(ZONE, "In", ("a",)),)),)
