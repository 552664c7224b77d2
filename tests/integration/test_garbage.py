"""Owners, dependents, groups and namespaces that go, through the real API pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.root_certificate import root_certificate
from echelon.api.scheme import (
    COMPOSITE_POD_GROUPS,
    CONFIG_MAPS,
    JOBS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    WORKLOADS,
    Object,
)
from echelon.api.verbs import Patch, PatchType
from echelon.client.informer import Caches
from echelon.controllers.garbage import GarbageCollector
from echelon.controllers.groups.protection import CompositePodGroupProtection, PodGroupProtection
from echelon.controllers.job import JobController
from echelon.controllers.nodes.lost_pods import LostPodController
from echelon.controllers.runner import Controller
from echelon.controllers.tenancy.namespaces import NamespaceController
from echelon.controllers.tenancy.service_accounts import RootCertificateController, ServiceAccountController
from echelon.testing.builders import bare_pod
from tests.controller_plane import ControllerPlane, in_virtual_time
from tests.integration.test_job_runs import ends, job, no_finalizer_left


def everyone(caches: Caches) -> Sequence[Controller]:
    return [
        JobController(caches),
        GarbageCollector(caches),
        PodGroupProtection(caches),
        CompositePodGroupProtection(caches),
        NamespaceController(caches),
        LostPodController(caches),
    ]


def run(scenario: Any, **options: Any) -> None:
    in_virtual_time(scenario, controllers=everyone, **options)


def config_map(name: str, *owners: Object, **metadata: Any) -> Object:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": meta.name(one), "uid": meta.uid(one)} for one in owners
    ]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": references, **metadata},
    }


async def names(plane: ControllerPlane) -> list[str]:
    return [meta.name(one) for one in await plane.all(CONFIG_MAPS)]


# -- Jobs and what they own ----------------------------------------------------------------------------------


async def running_job(plane: ControllerPlane) -> None:
    gang = {"schedulingPolicy": {"gang": {}}}
    await plane.create(
        job(completionMode="Indexed", parallelism=3, completions=3, scheduling=gang, annotations=ends(0, 500))
    )
    await plane.wait(3)
    assert len(await plane.pods("Running")) == 3


@pytest.mark.conformance("API-71", "API-72", "JOB-W46", "JOB-J20")
@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_a_deleted_job_takes_pods_groups_and_workload_with_it(propagation: Any) -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await running_job(plane)
        await plane.delete(JOBS, "train", propagation)
        assert (await plane.find(JOBS, "train") is None) is (propagation == "Background")
        await plane.wait(5)
        for resource in (JOBS, PODS, WORKLOADS, POD_GROUPS):
            assert await plane.all(resource) == [], resource.kind

    run(scenario)


@pytest.mark.conformance("API-72")
def test_foreground_deletion_keeps_the_job_until_its_pods_are_gone() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await running_job(plane)
        (first, *_) = await plane.pods()
        await plane.patch(PODS, meta.name(first), {"metadata": {"finalizers": ["example.com/hold"]}})
        await plane.delete(JOBS, "train", "Foreground")
        await plane.wait(10)
        waiting = await plane.get(JOBS, "train")
        assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert [meta.name(pod) for pod in await plane.pods()] == [meta.name(first)]
        await plane.patch(PODS, meta.name(first), {"metadata": {"finalizers": []}})
        await plane.wait(3)
        assert await plane.find(JOBS, "train") is None

    run(scenario)


@pytest.mark.conformance("API-73", "JOB-J20", "JOB-W46")
@pytest.mark.parametrize("propagation", ["Orphan", None])
def test_orphaned_pods_and_groups_remain_without_owner_and_finalizer(propagation: Any) -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await running_job(plane)
        await plane.delete(JOBS, "train", propagation)
        await plane.wait(5)
        assert await plane.find(JOBS, "train") is None
        pods = await plane.pods("Running")
        assert len(pods) == 3
        assert all(not pod["metadata"].get("ownerReferences") for pod in pods)
        assert await no_finalizer_left(plane)
        (workload,), (group,) = await plane.all(WORKLOADS), await plane.all(POD_GROUPS)
        assert not workload["metadata"].get("ownerReferences")
        assert [owner["kind"] for owner in group["metadata"]["ownerReferences"]] == ["Workload"]

    run(scenario)


@pytest.mark.conformance("JOB-J25")
def test_a_job_deleted_while_nobody_ran_is_cleaned_up_after_the_restart() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await running_job(plane)
        await plane.kill()
        await plane.delete(JOBS, "train", "Background")
        await plane.start()
        await plane.wait(5)
        for resource in (PODS, WORKLOADS, POD_GROUPS):
            assert await plane.all(resource) == [], resource.kind

    run(scenario)


@pytest.mark.conformance("JOB-J62")
def test_a_finished_job_expires_with_everything_it_owns() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job(ttlSecondsAfterFinished=30))
        await plane.finished("train")
        await plane.wait(20)
        assert await plane.find(JOBS, "train") is not None
        await plane.wait(20)
        for resource in (JOBS, PODS, WORKLOADS, POD_GROUPS):
            assert await plane.all(resource) == [], resource.kind

    run(scenario)


@pytest.mark.conformance("JOB-J55")
def test_a_job_recreated_under_its_name_starts_anew_at_once() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job(annotations=ends(1)))
        await plane.wait(12)
        assert (await plane.get(JOBS, "train"))["status"]["failed"] == 1
        await plane.delete(JOBS, "train", "Background")
        again = await plane.create(job(annotations=ends(0)))
        await plane.wait(2)
        mine = [pod for pod in await plane.pods() if meta.controlled_by(pod, meta.uid(again))]
        assert len(mine) == 1
        done = await plane.finished("train")
        assert "failed" not in done["status"]

    run(scenario)


# -- any owner -----------------------------------------------------------------------------------------------


@pytest.mark.conformance("API-74")
def test_a_dependent_with_a_living_owner_stays_and_loses_the_dead_reference() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        first, second = await plane.create(config_map("a")), await plane.create(config_map("b"))
        await plane.create(config_map("child", first, second))
        await plane.wait()
        await plane.delete(CONFIG_MAPS, "a")
        await plane.wait()
        child = await plane.get(CONFIG_MAPS, "child")
        assert [owner["name"] for owner in child["metadata"]["ownerReferences"]] == ["b"]
        await plane.delete(CONFIG_MAPS, "b")
        await plane.wait()
        assert "child" not in await names(plane)

    run(scenario)


@pytest.mark.conformance("API-75")
def test_an_owner_that_never_was_is_dead_and_one_of_an_unknown_kind_lives() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        never: Object = {"metadata": {"name": "never", "uid": "0"}}
        await plane.create(config_map("orphan", never))
        unknown = config_map("kept", never)
        unknown["metadata"]["ownerReferences"][0] |= {"apiVersion": "example.com/v1", "kind": "Thing"}
        await plane.create(unknown)
        await plane.wait()
        assert await names(plane) == ["kept"]

    run(scenario)


def test_a_chain_of_owners_goes_from_the_top() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        above = await plane.create(config_map("c0"))
        for number in range(1, 20):
            above = await plane.create(config_map(f"c{number}", above))
        await plane.wait()
        assert len(await names(plane)) == 20
        await plane.delete(CONFIG_MAPS, "c0")
        await plane.wait(5)
        assert await names(plane) == []

    run(scenario)


def test_an_owner_whose_watch_event_is_late_is_not_taken_for_deleted() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.wait(1)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "owner", "namespace": "default"}}
        owner = await plane.create(secret)
        child = config_map("child", owner)
        child["metadata"]["ownerReferences"][0]["kind"] = "Secret"
        await plane.create(child)
        await plane.wait(2)
        assert await names(plane) == ["child"]
        await plane.delete(SECRETS, "owner")
        await plane.wait(10)
        assert await names(plane) == []

    run(scenario, late=SECRETS)


# -- groups --------------------------------------------------------------------------------------------------


def pod_group(name: str, parent: str = "") -> Object:
    spec: Object = {"schedulingPolicy": {"basic": {}}, "workloadRef": {"workloadName": "w", "templateName": "t"}}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def composite(name: str, parent: str = "") -> Object:
    made = pod_group(name, parent)
    return {**made, "apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup"}


@pytest.mark.conformance("SCH-206")
def test_a_group_outlives_its_active_pods_and_not_its_ended_ones() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(pod_group("g"))
        await plane.create(bare_pod("short", group="g", seconds=5))
        await plane.create(bare_pod("long", group="g", seconds=50))
        await plane.wait(10)
        await plane.delete(POD_GROUPS, "g")
        await plane.wait(10)
        assert meta.deleting(await plane.get(POD_GROUPS, "g"))
        await plane.wait(40)
        assert await plane.find(POD_GROUPS, "g") is None
        assert len(await plane.pods()) == 2

    run(scenario)


@pytest.mark.conformance("SCH-206")
def test_a_group_without_pods_goes_at_once_and_none_goes_undeleted() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(pod_group("kept"))
        await plane.create(pod_group("gone"))
        await plane.delete(POD_GROUPS, "gone")
        await plane.wait()
        (kept,) = await plane.all(POD_GROUPS)
        assert kept["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]

    run(scenario)


def test_a_group_stays_for_a_pod_that_the_watch_has_not_shown_yet() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(pod_group("g"))
        await plane.wait(10)
        await plane.create(bare_pod("p", group="g", seconds=30))
        await plane.delete(POD_GROUPS, "g")
        await plane.wait(2)
        assert meta.deleting(await plane.get(POD_GROUPS, "g")), "its pod has been there for two seconds"
        await plane.wait(60)
        assert await plane.find(POD_GROUPS, "g") is None

    run(scenario, late=PODS)


def test_a_parent_stays_for_a_child_that_the_watch_has_not_shown_yet() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(composite("root"))
        await plane.wait(10)
        await plane.create(pod_group("leaf", "root"))
        await plane.delete(COMPOSITE_POD_GROUPS, "root")
        await plane.wait(2)
        assert meta.deleting(await plane.get(COMPOSITE_POD_GROUPS, "root"))
        await plane.delete(POD_GROUPS, "leaf")
        await plane.wait(30)
        assert await plane.find(COMPOSITE_POD_GROUPS, "root") is None

    run(scenario, late=POD_GROUPS)


def test_a_hierarchy_goes_bottom_up() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(composite("root"))
        await plane.create(composite("middle", "root"))
        await plane.create(pod_group("leaf", "middle"))
        await plane.delete(COMPOSITE_POD_GROUPS, "root")
        await plane.delete(COMPOSITE_POD_GROUPS, "middle")
        await plane.wait()
        assert len(await plane.all(COMPOSITE_POD_GROUPS)) == 2
        await plane.delete(POD_GROUPS, "leaf")
        await plane.wait()
        assert await plane.all(COMPOSITE_POD_GROUPS) == []

    run(scenario)


@pytest.mark.parametrize("asked", [1, 3])
def test_objects_that_own_one_another_in_a_circle_go_in_the_foreground(asked: int) -> None:
    async def scenario(plane: ControllerPlane) -> None:
        made = [await plane.create(config_map(f"c{number}")) for number in range(3)]
        for obj, owner in zip(made, (*made[1:], made[0]), strict=True):
            references = {"ownerReferences": [meta.owner_reference(owner, CONFIG_MAPS)]}
            await plane.api.patch(
                CONFIG_MAPS, meta.name(obj), Patch(PatchType.MERGE, {"metadata": references}), "default"
            )
        for obj in made[:asked]:
            await plane.delete(CONFIG_MAPS, meta.name(obj), "Foreground")
        await plane.wait(10)
        assert [meta.name(one) for one in await plane.all(CONFIG_MAPS) if meta.name(one).startswith("c")] == []

    run(scenario)


# -- namespaces and nodes ------------------------------------------------------------------------------------


@pytest.mark.conformance("API-78")
def test_a_deleted_namespace_is_emptied_and_goes() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        for obj in (job(parallelism=2, completions=2, annotations=ends(0, 500)), config_map("c")):
            obj["metadata"]["namespace"] = "team"
            await plane.create(obj)
        await plane.wait(3)
        assert len(await plane.all(PODS, "team")) == 2
        await plane.delete(NAMESPACES, "team")
        late = config_map("late", namespace="team")
        with pytest.raises(ApiError, match="being terminated"):
            await plane.create(late)
        await plane.wait(10)
        assert await plane.find(NAMESPACES, "team") is None
        for resource in (JOBS, PODS, WORKLOADS, POD_GROUPS, CONFIG_MAPS):
            assert await plane.all(resource, "team") == [], resource.kind

    run(scenario)


@pytest.mark.conformance("API-78")
def test_pods_of_a_deleted_namespace_go_first_and_what_remains_is_told() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        for obj in (bare_pod("p", namespace="team"), config_map("c", namespace="team")):
            obj["metadata"]["finalizers"] = ["example.com/held"]
            await plane.create({"apiVersion": "v1", **obj})
        await plane.delete(NAMESPACES, "team")
        await plane.wait(60)
        assert meta.deleting(await plane.api.get(PODS, "p", "team"))
        assert not meta.deleting(await plane.api.get(CONFIG_MAPS, "c", "team"))
        namespace = await plane.get(NAMESPACES, "team")
        assert conditions(namespace) == {
            "NamespaceDeletionDiscoveryFailure": ("False", "ResourcesDiscovered"),
            "NamespaceDeletionGroupVersionParsingFailure": ("False", "ParsedGroupVersions"),
            "NamespaceDeletionContentFailure": ("False", "ContentDeleted"),
            "NamespaceContentRemaining": ("True", "SomeResourcesRemain"),
            "NamespaceFinalizersRemaining": ("True", "SomeFinalizersRemain"),
        }
        messages = [one["message"] for one in namespace["status"]["conditions"]]
        assert messages[3] == "Some resources are remaining: pods. has 1 resource instances"
        assert messages[4] == (
            "Some content in the namespace has finalizers remaining: example.com/held in 1 resource instances"
        )
        free = Patch(PatchType.MERGE, {"metadata": {"finalizers": None}})
        await plane.api.patch(PODS, "p", free, "team")
        await plane.wait(5)
        assert meta.deleting(await plane.api.get(CONFIG_MAPS, "c", "team"))
        await plane.api.patch(CONFIG_MAPS, "c", free, "team")
        await plane.wait(5)
        assert await plane.find(NAMESPACES, "team") is None

    run(scenario)


def conditions(obj: Object) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in obj["status"]["conditions"]}


def test_pods_of_a_vanished_node_are_failed_and_replaced() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job(annotations=ends(0, 30)))
        await plane.wait(3)
        (lost,) = await plane.pods("Running")
        await plane.delete(NODES, lost["spec"]["nodeName"])
        await plane.wait(3)
        assert (await plane.get(JOBS, "train"))["status"]["failed"] == 1
        assert meta.uid(lost) not in [meta.uid(one) for one in await plane.pods()]

    run(scenario)


@pytest.mark.conformance("JOB-J15")
def test_a_pod_deleted_before_it_is_bound_is_failed_so_that_it_can_be_replaced() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.create(job(podReplacementPolicy="Failed", annotations=ends(0, 30)))
        await plane.wait(2)
        (unbound,) = await plane.pods("Pending")
        await plane.delete(PODS, meta.name(unbound))
        await plane.wait(15)
        (replacement,) = await plane.pods()
        assert meta.uid(replacement) != meta.uid(unbound)
        assert (await plane.get(JOBS, "train"))["status"]["failed"] == 1

    run(scenario, bind=False)


def _with_accounts(caches: Caches) -> Sequence[Controller]:
    return [ServiceAccountController(caches), NamespaceController(caches)]


def test_every_namespace_has_a_default_service_account() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        await plane.api.create(NAMESPACES, {"metadata": {"name": "new"}})
        await plane.wait(5)
        await plane.api.get(SERVICE_ACCOUNTS, "default", "default")
        first = await plane.api.get(SERVICE_ACCOUNTS, "default", "new")
        await plane.api.delete(SERVICE_ACCOUNTS, "default", "new")
        await plane.wait(5)
        second = await plane.api.get(SERVICE_ACCOUNTS, "default", "new")
        assert meta.uid(first) != meta.uid(second), "it is created again"
        await plane.api.delete(NAMESPACES, "new")
        await plane.wait(5)
        with pytest.raises(ApiError, match="not found"):
            await plane.api.get(NAMESPACES, "new")

    in_virtual_time(scenario, controllers=_with_accounts)


def test_every_namespace_has_the_certificate_of_the_server() -> None:
    async def scenario(plane: ControllerPlane) -> None:
        async def copy(namespace: str) -> str:
            found = await plane.api.get(CONFIG_MAPS, "kube-root-ca.crt", namespace)
            return str(found["data"]["ca.crt"])

        await plane.api.create(CONFIG_MAPS, root_certificate("one"), "kube-system")
        await plane.api.create(NAMESPACES, {"metadata": {"name": "new"}})
        await plane.wait(5)
        assert [await copy("default"), await copy("new")] == ["one", "one"]
        changed = Patch(PatchType.MERGE, {"data": {"ca.crt": "other"}})
        await plane.api.patch(CONFIG_MAPS, "kube-root-ca.crt", changed, "new")
        await plane.api.delete(CONFIG_MAPS, "kube-root-ca.crt", "default")
        await plane.wait(5)
        assert [await copy("default"), await copy("new")] == ["one", "one"]
        renewed = Patch(PatchType.MERGE, {"data": {"ca.crt": "two"}})
        await plane.api.patch(CONFIG_MAPS, "kube-root-ca.crt", renewed, "kube-system")
        await plane.wait(5)
        assert [await copy("default"), await copy("new")] == ["two", "two"]

    in_virtual_time(scenario, controllers=lambda caches: [RootCertificateController(caches)])
