"""A Job brings its own Workload and PodGroup, in order, and takes them with it."""

from __future__ import annotations

from pathlib import Path

from echelon.api.objects import meta
from echelon.api.scheme import JOBS, POD_GROUPS, PODS, WORKLOADS, Object, Resource
from echelon.api.verbs import DeleteOptions, WatchOptions
from echelon.client.informer import revision
from tests.e2e.harness import NAMESPACE, Echelon, echelon


def gang_job(name: str = "train", parallelism: int = 4, **template_spec: object) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "parallelism": parallelism,
            "completions": parallelism,
            "scheduling": {"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}},
            "template": {
                "metadata": {"annotations": {"echelon.dev/run-seconds": "600"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "registry.example/c:1"}],
                    **template_spec,
                },
            },
        },
    }


async def running_pods(e: Echelon, job: str, count: int) -> list[Object]:
    async def all_bound() -> list[Object]:
        pods = await e.bound(f"job-name={job}")
        return pods if len(pods) == count else []

    found: list[Object] = await e.until(all_bound, f"{count} pods of {job} to be bound")
    return found


async def births(e: Echelon, resource: Resource, after: str) -> list[int]:
    """The revisions at which objects of a kind came to be."""
    options = WatchOptions(resource_version=after, timeout_seconds=1)
    events = e.verbs.watch(resource, NAMESPACE, options)
    return [revision(event.object) async for event in events if event.type == "ADDED"]


async def test_workload_pod_group_and_pods_appear_in_this_order(tmp_path: Path) -> None:
    async with echelon(tmp_path) as e:
        job = await e.create(gang_job())
        await running_pods(e, "train", 4)
        after = job["metadata"]["resourceVersion"]
        (workload,) = await births(e, WORKLOADS, after)
        (group,) = await births(e, POD_GROUPS, after)
        pods = await births(e, PODS, after)
        assert len(pods) == 4
        assert workload < group < min(pods)


async def test_workload_pod_group_and_pods_have_golden_fields(tmp_path: Path) -> None:
    async with echelon(tmp_path) as e:
        job = await e.create(gang_job())
        pods = await running_pods(e, "train", 4)
        (workload,) = await e.list(WORKLOADS)
        (group,) = await e.list(POD_GROUPS)
        job_owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "train",
            "uid": meta.uid(job),
            "controller": True,
            "blockOwnerDeletion": True,
        }
        assert workload["metadata"]["ownerReferences"] == [job_owner]
        assert workload["spec"] == {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
            "podGroupTemplates": [
                {
                    "name": "train-pgt-0",
                    "schedulingPolicy": {"gang": {"minCount": 4}},
                    "disruptionMode": {"all": {}},
                    **({"schedulingConstraints": None} if "schedulingConstraints" in _template(workload) else {}),
                }
            ],
        }
        assert meta.name(group).startswith(f"{meta.name(workload)}-train-pgt-0-")
        assert group["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
        assert group["metadata"]["ownerReferences"] == [
            job_owner,
            {
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "Workload",
                "name": meta.name(workload),
                "uid": meta.uid(workload),
            },
        ]
        assert group["spec"] == {
            "workloadRef": {"workloadName": meta.name(workload), "templateName": "train-pgt-0"},
            "schedulingPolicy": {"gang": {"minCount": 4}},
            "disruptionMode": {"all": {}},
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
        }
        for pod in pods:
            assert pod["spec"]["schedulingGroup"] == {"podGroupName": meta.name(group)}
            assert pod["metadata"]["ownerReferences"] == [job_owner]
        scheduled = await e.until_condition(POD_GROUPS, meta.name(group), "PodGroupInitiallyScheduled")
        assert (meta.find_condition(scheduled, "PodGroupInitiallyScheduled") or {})["reason"] == "Scheduled"


def _template(workload: Object) -> Object:
    template: Object = workload["spec"]["podGroupTemplates"][0]
    return template


async def test_a_template_with_its_own_group_gets_neither(tmp_path: Path) -> None:
    async with echelon(tmp_path) as e:
        await e.apply(
            """
            apiVersion: scheduling.k8s.io/v1beta1
            kind: PodGroup
            metadata: {name: mine}
            spec: {schedulingPolicy: {gang: {minCount: 4}}}
            """
        )
        await e.create(gang_job(schedulingGroup={"podGroupName": "mine"}))
        pods = await running_pods(e, "train", 4)
        assert {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods} == {"mine"}
        assert await e.list(WORKLOADS) == []
        assert [meta.name(group) for group in await e.list(POD_GROUPS)] == ["mine"]


async def test_an_elastic_change_moves_the_minimum(tmp_path: Path) -> None:
    async with echelon(tmp_path) as e:
        await e.create(gang_job(parallelism=4))
        await running_pods(e, "train", 4)
        await e.merge(JOBS, "train", {"spec": {"parallelism": 6, "completions": 6}})

        async def moved() -> bool:
            (workload,) = await e.list(WORKLOADS)
            (group,) = await e.list(POD_GROUPS)
            counts = {
                _template(workload)["schedulingPolicy"]["gang"]["minCount"],
                group["spec"]["schedulingPolicy"]["gang"]["minCount"],
            }
            return counts == {6}

        await e.until(moved, "minCount 6 in Workload and PodGroup")
        await running_pods(e, "train", 6)


async def test_deletion_cascades_and_leaves_nothing(tmp_path: Path) -> None:
    async with echelon(tmp_path) as e:
        await e.create(gang_job())
        await running_pods(e, "train", 4)
        await e.verbs.delete(JOBS, "train", NAMESPACE, DeleteOptions(propagation="Background"))

        async def nothing_left() -> bool:
            left = [await e.list(resource) for resource in (JOBS, WORKLOADS, POD_GROUPS, PODS)]
            return not any(left)

        await e.until(nothing_left, "Job, Workload, PodGroup and pods to be gone")
