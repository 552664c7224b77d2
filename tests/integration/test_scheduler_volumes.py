"""Pods with claims to storage: where their volumes are reached from, what they wait for, who may share."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.scheme import PODS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES, Object
from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def make_claim(name: str, volume: str = "", mode: str = "ReadWriteOnce", storage_class: str = "") -> Object:
    """A claim, bound if it names a volume."""
    spec: dict[str, Any] = {
        "accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": storage_class,
    }  # fmt: skip
    metadata: dict[str, Any] = {"name": name, "namespace": "default"}
    if volume:
        spec["volumeName"], metadata["annotations"] = volume, BOUND
    return {"apiVersion": "v1", "kind": VOLUME_CLAIMS.kind, "metadata": metadata, "spec": spec}


def make_volume(name: str, *nodes: str, mode: str = "ReadWriteOnce") -> Object:
    """A volume that can be reached from some nodes, or from all."""
    spec: dict[str, Any] = {"capacity": {"storage": "1Gi"}, "accessModes": [mode], "hostPath": {"path": "/data"}}
    if nodes:
        on = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [on]}]}}
    return {"apiVersion": "v1", "kind": VOLUMES.kind, "metadata": {"name": name}, "spec": spec}


def make_class(name: str, mode: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1", "kind": STORAGE_CLASSES.kind, "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode,
    }  # fmt: skip


def using(*claims: str) -> list[Object]:
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]


@in_virtual_time
async def test_a_pod_runs_where_its_volume_can_be_reached(world: SchedulerPlane) -> None:
    await world.create(*(make_node(f"n{n}") for n in range(3)))
    await world.create(make_volume("v", "n1"), make_claim("data", "v"), make_pod("p", volumes=using("data")))
    await world.settle(1)
    assert await world.nodes("p") == ["n1"]


@in_virtual_time
async def test_all_volumes_of_a_pod_count(world: SchedulerPlane) -> None:
    await world.create(*(make_node(f"n{n}") for n in range(3)))
    await world.create(make_volume("v", "n0", "n1"), make_volume("w", "n1", "n2"))
    await world.create(make_claim("a", "v"), make_claim("b", "w"), make_pod("p", volumes=using("a", "b")))
    await world.settle(1)
    assert await world.nodes("p") == ["n1"]


@in_virtual_time
async def test_a_volume_that_no_node_reaches_keeps_its_pod_pending(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_volume("v", "elsewhere"), make_claim("data", "v"))
    await world.create(make_pod("p", volumes=using("data")))
    await world.settle(1)
    assert await world.unscheduled("p")
    assert "does not match the node affinity of its volumes" in await world.message("p")


@in_virtual_time
async def test_a_gang_waits_for_a_claim_that_is_missing_and_goes_on_when_it_is_there(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_node("n2"), make_pod_group("g", gang=2))
    await world.pods("g", "p", 2, volumes=using("data"))
    await world.settle(2)
    assert await world.unscheduled("p0", "p1")
    assert 'persistentvolumeclaim "data" not found' in await world.message("p0")
    await world.create(make_volume("v", mode="ReadWriteMany"), make_claim("data", "v", mode="ReadWriteMany"))
    await world.settle(1)
    assert await world.scheduled("p0", "p1")


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("Immediate", "pod has unbound immediate PersistentVolumeClaims"),
        ("WaitForFirstConsumer", "requests 1 free volumes of class local of 1Gi (ReadWriteOnce)"),
    ],
)
@in_virtual_time
async def test_a_claim_without_a_volume_keeps_its_pod_pending(world: SchedulerPlane, mode: str, words: str) -> None:
    await world.create(make_node("n1"), make_class("local", mode), make_claim("data", storage_class="local"))
    await world.create(make_pod("p", volumes=using("data")))
    await world.settle(1)
    assert await world.unscheduled("p")
    assert words in await world.message("p")


@in_virtual_time
async def test_a_claim_that_is_bound_later_lets_its_pod_in(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_claim("data"), make_pod("p", volumes=using("data")))
    await world.settle(2)
    await world.create(make_volume("v", "n1"))
    await world.patch(VOLUME_CLAIMS, "data", {"metadata": {"annotations": BOUND}, "spec": {"volumeName": "v"}})
    await world.settle(1)
    assert await world.nodes("p") == ["n1"]


@in_virtual_time
async def test_a_claim_of_the_pod_itself_is_waited_for(world: SchedulerPlane) -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    scratch = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    await world.create(make_node("n1"), make_pod("p", volumes=scratch))
    await world.settle(1)
    assert await world.unscheduled("p")
    words = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    assert words in await world.message("p")


async def _one_claim_each(world: SchedulerPlane, *claims: str) -> None:
    await world.create(make_node("n1"), make_node("n2"))
    for claim in sorted(set(claims)):
        await world.create(make_volume(f"v-{claim}", mode="ReadWriteOncePod"))
        await world.create(make_claim(claim, f"v-{claim}", mode="ReadWriteOncePod"))
    await world.create(make_pod_group("g", gang=2))
    await world.create(*(make_pod(f"p{n}", group="g", volumes=using(claim)) for n, claim in enumerate(claims)))
    await world.settle(2)


@pytest.mark.conformance("SCH-24")
@in_virtual_time
async def test_a_gang_cannot_share_a_claim_for_one_pod(world: SchedulerPlane) -> None:
    await _one_claim_each(world, "data", "data")
    assert await world.unscheduled("p0", "p1")
    status, reason, _ = await world.condition("g")
    assert (status, reason) == ("False", "Unschedulable")


@pytest.mark.conformance("SCH-25")
@in_virtual_time
async def test_a_gang_with_a_claim_for_each_pod_is_placed(world: SchedulerPlane) -> None:
    await _one_claim_each(world, "a", "b")
    assert await world.scheduled("p0", "p1")


@in_virtual_time
async def test_a_claim_for_one_pod_passes_on_when_that_pod_is_gone(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_node("n2"), make_volume("v", mode="ReadWriteOncePod"))
    await world.create(make_claim("data", "v", mode="ReadWriteOncePod"), make_pod("p", volumes=using("data")))
    await world.settle(1)
    await world.create(make_pod("q", volumes=using("data")))
    await world.settle(1)
    assert await world.scheduled("p")
    assert await world.unscheduled("q")
    assert "ReadWriteOncePod claim data is in use by another pod" in await world.message("q")
    await world.delete(PODS, "p", grace=0)
    await world.settle(2)
    assert await world.scheduled("q")


@in_virtual_time
async def test_the_user_of_a_single_pod_claim_is_preempted_wherever_it_runs(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_node("n2"), make_volume("v", mode="ReadWriteOncePod"))
    await world.create(make_claim("data", "v", mode="ReadWriteOncePod"))
    await world.create(make_pod("low", priority=1, volumes=using("data")))
    await world.settle(1)
    await world.create(make_pod("high", priority=10, volumes=using("data")))
    await world.settle(2)
    assert await world.scheduled("high")
    assert await world.gone("low")
