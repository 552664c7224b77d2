"""Claims, volumes and their classes: what is refused, and what may still change."""

from __future__ import annotations

import pytest

from echelon.api import rules
from echelon.api.scheme import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES, Object, Resource

from .builders import edited, on_create, on_update, stored

METADATA = {"name": "x", "uid": "u"}
ON_A = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}


def claim(**spec: object) -> Object:
    default = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {**METADATA, "namespace": "ns"}, "spec": {**default, **spec}}


def volume(**spec: object) -> Object:
    default = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"}}
    return {"metadata": dict(METADATA), "spec": {**default, **spec}}


def storage_class(**fields: object) -> Object:
    return {"metadata": dict(METADATA), "provisioner": "kubernetes.io/no-provisioner", **fields}


@pytest.mark.parametrize(
    ("resource", "obj", "sentence"),
    [
        (VOLUME_CLAIMS, claim(accessModes=[]), "spec.accessModes: Required value: at least 1 access mode"),
        (
            VOLUME_CLAIMS,
            claim(accessModes=["ReadWriteOncePod", "ReadWriteOnce"]),
            "may not use ReadWriteOncePod with other access modes",
        ),
        (VOLUME_CLAIMS, claim(resources={}), "spec.resources.requests[storage]: Required value"),
        (VOLUME_CLAIMS, claim(resources={"requests": {"storage": "0"}}), "must be greater than zero"),
        (VOLUME_CLAIMS, claim(storageClassName="A/b"), "spec.storageClassName: Invalid value"),
        (VOLUMES, volume(hostPath=None), "must specify a volume type"),
        (VOLUMES, volume(nfs={"server": "s", "path": "/"}), "spec.nfs: Forbidden: may not specify more than 1"),
        (VOLUMES, volume(capacity={}), "spec.capacity: Required value"),
        (VOLUMES, volume(nodeAffinity={}), "spec.nodeAffinity.required: Required value"),
        (VOLUMES, volume(hostPath=None, local={"path": "/a"}), "Local volume requires node affinity"),
        (STORAGE_CLASSES, storage_class(provisioner=""), "provisioner: Required value"),
        (STORAGE_CLASSES, storage_class(reclaimPolicy="Recycle"), 'reclaimPolicy: Unsupported value: "Recycle"'),
    ],
)
def test_bad_storage_is_refused(resource: Resource, obj: Object, sentence: str) -> None:
    problems = on_create(resource, obj)
    assert len(problems) == 1
    assert sentence in problems[0]


@pytest.mark.parametrize(
    ("resource", "obj"),
    [
        (VOLUME_CLAIMS, claim(accessModes=["ReadWriteOncePod"], storageClassName="")),
        (VOLUMES, volume(hostPath=None, local={"path": "/a"}, nodeAffinity=ON_A)),
        (STORAGE_CLASSES, storage_class(volumeBindingMode="WaitForFirstConsumer")),
    ],
)
def test_good_storage_is_accepted(resource: Resource, obj: Object) -> None:
    assert on_create(resource, obj) == []


def test_new_storage_waits_and_has_the_usual_ways() -> None:
    new = stored(VOLUME_CLAIMS, claim())
    rules.prepare_create(VOLUME_CLAIMS, new, 0.0)
    assert new["status"] == {"phase": "Pending"}
    assert stored(VOLUMES, volume())["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert stored(STORAGE_CLASSES, storage_class())["volumeBindingMode"] == "Immediate"


def test_a_claim_finds_its_volume_once() -> None:
    old = stored(VOLUME_CLAIMS, claim())
    bound = edited(old, "spec.volumeName", "v")
    assert on_update(VOLUME_CLAIMS, bound, old) == []
    assert (
        "spec is immutable after creation" in on_update(VOLUME_CLAIMS, edited(bound, "spec.volumeName", "w"), bound)[0]
    )


def test_only_a_bound_claim_may_grow() -> None:
    old = stored(VOLUME_CLAIMS, claim())
    assert len(on_update(VOLUME_CLAIMS, edited(old, "spec.resources.requests.storage", "2Gi"), old)) == 1
    bound = edited(old, "status.phase", "Bound")
    assert on_update(VOLUME_CLAIMS, edited(bound, "spec.resources.requests.storage", "2Gi"), bound) == []


def test_what_a_volume_is_made_of_stays() -> None:
    old = stored(VOLUMES, volume())
    assert "persistentvolumesource is immutable" in on_update(VOLUMES, edited(old, "spec.hostPath.path", "/b"), old)[0]
    claimed = edited(old, "spec.claimRef", {"name": "c", "namespace": "ns"})
    assert on_update(VOLUMES, claimed, old) == []


@pytest.mark.parametrize("field", ["provisioner", "reclaimPolicy", "volumeBindingMode"])
def test_a_storage_class_stays_what_it_is(field: str) -> None:
    other = {"provisioner": "a.b/c", "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer"}
    old = stored(STORAGE_CLASSES, storage_class())
    assert field in on_update(STORAGE_CLASSES, edited(old, field, other[field]), old)[0]
