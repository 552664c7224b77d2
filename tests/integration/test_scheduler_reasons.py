"""Every group and every pod of a tree that waits says why, and what would help it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.objects.vocabulary import BLOCK, INITIALLY_SCHEDULED, JOB_NAME, KUEUE_QUEUE, RACK
from echelon.api.scheme import COMPOSITE_POD_GROUPS, JOBS, POD_GROUPS, PODS, Object
from echelon.testing.builders import GPU, make_composite, make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time


async def untold(world: SchedulerPlane) -> list[str]:
    """Groups and pods that wait and do not say what would help; pods that are gated have the API server's own reason.

    Where no change that was tried helps, what is needed first is told.
    """
    found = []
    for resource in (POD_GROUPS, COMPOSITE_POD_GROUPS):
        for group in (await world.verbs.list(resource, "default")).items:
            told = meta.find_condition(group, INITIALLY_SCHEDULED[resource.kind]) or {}
            if told.get("status") != "True" and not _helps(told):
                found.append(f"{meta.name(group)}: {told}")
    for pod in (await world.verbs.list(PODS, "default")).items:
        told = meta.find_condition(pod, "PodScheduled") or {}
        gated = pod["spec"].get("schedulingGates") and told.get("reason") == "SchedulingGated"
        if not pod["spec"].get("nodeName") and not gated and not _helps(told):
            found.append(f"{meta.name(pod)}: {told}")
    return found


def _helps(condition: Mapping[str, Any]) -> bool:
    return any(word in condition.get("message", "") for word in ("fix: ", "; first "))


def tree(*leaves: Object, gang: int | None = 2) -> list[Object]:
    return [make_composite("root", gang=gang), *leaves]


def leaf(name: str, gang: int = 2, parent: str = "root", **fields: str) -> Object:
    return make_pod_group(name, gang=gang, parent=parent, **fields)  # type: ignore[arg-type]


def pods(group: str, count: int, **fields: object) -> list[Object]:
    return [make_pod(f"{group}-{number}", group=group, **fields) for number in range(count)]  # type: ignore[arg-type]


SUSPENDED: Object = {
    "apiVersion": JOBS.api_version,
    "kind": JOBS.kind,
    "metadata": {"name": "paused", "namespace": "default"},
    "spec": {
        "suspend": True,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
    },
}
QUEUED: Object = {**SUSPENDED, "metadata": {"name": "queued", "namespace": "default", "labels": {KUEUE_QUEUE: "q"}}}


def of_job(group: Object, job: str) -> Object:
    group["metadata"]["labels"] = {JOB_NAME: job}
    return group


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(
            [*tree(leaf("a"), leaf("b"), gang=1), *pods("a", 2), *pods("b", 1)],
            {"b": "waiting for pods: 1 of 2 exist; fix: create 1 more pod",
             "b-0": "PodGroup/b is waiting for pods: 1 of 2 exist; fix: create 1 more pod"},
            id="an incomplete child of a tree that is placed without it",
        ),
        pytest.param(
            [*tree(leaf("a"), leaf("b"), gang=None), *pods("a", 2)],
            {"b": "waiting for pods: 0 of 2 exist; fix: create 2 more pods"},
            id="a child without pods in a tree that is placed",
        ),
        pytest.param(
            [*tree(leaf("a"), make_composite("mid", gang=2, parent="root"), leaf("b", parent="mid"),
                   leaf("c", parent="mid"), gang=1), *pods("a", 2), *pods("b", 2)],
            {"b": "waiting for sibling groups: CompositePodGroup/mid is waiting for child groups: 1 of 2",
             "b-0": "PodGroup/b is waiting for sibling groups: CompositePodGroup/mid is",
             "c": "waiting for pods: 0 of 2 exist",
             "mid": "waiting for child groups: 1 of 2 are complete (PodGroup/c is waiting for pods: 0 of 2 exist)"},
            id="a complete group below a middle group that is not",
        ),
        pytest.param(
            [*tree(leaf("a"), leaf("b")), *pods("a", 2, cpu=1), *pods("b", 2, cpu=3)],
            {"a": "waiting for the other groups of its tree: PodGroup/b needs 2 pods",
             "a-0": "PodGroup/b needs 2 pods", "b": "needs 2 pods"},
            id="a group whose sibling does not fit",
        ),
        pytest.param(
            [*tree(leaf("a"), leaf("b"), leaf("c"), gang=1), *pods("a", 2), *pods("b", 2, cpu=3), *pods("c", 2, gpu=1)],
            {"b": "needs 2 pods, but none fits the only node: it is short of cpu; fix: add 2 nodes like n1",
             "c": "needs 2 pods, but a pod requests 1 nvidia.com/gpu, no node has any; "
                  "first add nodes with 1 nvidia.com/gpu"},
            id="two groups that a tree can do without",
        ),
        pytest.param(
            [leaf("a", parent="unknown"), make_composite("mid", gang=1, parent="other"), leaf("b", parent="mid"),
             *pods("a", 2), *pods("b", 2)],
            {"a": "waiting for CompositePodGroup/unknown, the parent of PodGroup/a, to be created; fix: create",
             "b": "waiting for CompositePodGroup/other, the parent of CompositePodGroup/mid, to be created; fix",
             "mid": "waiting for CompositePodGroup/other", "b-0": "waiting for CompositePodGroup/other"},
            id="unknown parents",
        ),
        pytest.param([make_pod("p", group="nowhere")], {"p": "waiting for PodGroup/nowhere"}, id="an unknown group"),
        pytest.param(
            [*tree(leaf("a"), leaf("b")), *pods("a", 2), *pods("b", 2, gates=("quota",))],
            {"a": "waiting for sibling groups: CompositePodGroup/root is waiting for child groups: 1 of 2 are complete "
                  "(PodGroup/b is waiting for pods: 0 of 2 exist without scheduling gates, 2 more have the scheduling "
                  "gates quota); fix: remove the scheduling gates of 2 of its pods",
             "a-0": "PodGroup/a is waiting for sibling groups",
             "b": "waiting for pods: 0 of 2 exist without scheduling gates"},
            id="a sibling with gated pods",
        ),
        pytest.param(
            [SUSPENDED, *tree(leaf("a"), of_job(leaf("b"), "paused")), *pods("a", 2)],
            {"b": "waiting for pods: 0 of 2 exist; fix: set spec.suspend of Job/paused to false",
             "a": "waiting for sibling groups: CompositePodGroup/root is waiting for child groups: 1 of 2 are complete "
                  "(PodGroup/b is waiting for pods: 0 of 2 exist); fix: set spec.suspend of Job/paused to false"},
            id="a suspended sibling",
        ),
        pytest.param(
            [QUEUED, of_job(make_pod_group("a", gang=2), "queued")],
            {"a": "waiting for pods: 0 of 2 exist; fix: see what Kueue waits for before it admits Job/queued "
                  "(kubectl describe workloads.kueue.x-k8s.io)"},
            id="a Job that Kueue holds back",
        ),
        pytest.param(
            [make_pod_group("a", gang=2), *pods("a", 2, gates=("kueue.x-k8s.io/admission",))],
            {"a": "waiting for pods: 0 of 2 exist without scheduling gates, 2 more have the scheduling gates "
                  "kueue.x-k8s.io/admission; fix: see what Kueue waits for before it lifts them "
                  "(kubectl describe workloads.kueue.x-k8s.io)"},
            id="pods that Kueue holds back",
        ),
        pytest.param(
            [*tree(leaf("a")), *pods("a", 2)],
            {"root": "waiting for child groups: 1 of 2 are complete; fix: create 1 more child group with "
                     "spec.parentCompositePodGroupName root, or lower its "
                     "spec.schedulingPolicy.gang.minGroupCount to 1",
             "a-1": "PodGroup/a is waiting for sibling groups"},
            id="a sibling that does not exist",
        ),
        pytest.param([make_pod_group("none", gang=3)], {"none": "waiting for pods: 0 of 3 exist"}, id="no pods at all"),
        pytest.param(
            [*tree(leaf("a", key=RACK), leaf("b", key=RACK)), *pods("a", 2), *pods("b", 2)],
            {"a": "needs 2 pods in one rack, but no node has the label topology.kubernetes.io/rack"},
            id="no node has the label",
        ),
        pytest.param(
            [*tree(leaf("a"), leaf("b")), *pods("a", 2, cpu=50), *pods("b", 2, cpu=60)],
            {"a": "needs 2 pods, but a pod requests 50 cpu, the largest node has 3",
             "b": "needs 2 pods, but a pod requests 60 cpu, the largest node has 3"},
            id="pods that are larger than any node",
        ),
    ],
)  # fmt: skip
@in_virtual_time
async def test_whatever_waits_says_why_and_what_would_help_it(
    world: SchedulerPlane, objects: list[Object], expected: dict[str, str]
) -> None:
    await world.create(make_node("n1", cpu=3), *objects)
    await world.settle(30)
    names = {meta.name(obj) for obj in objects if obj["kind"] == "Pod"}
    for name, text in expected.items():
        told = await world.message(name) if name in names else (await world.condition(name))[2]
        assert told.startswith(text), (name, told)
    assert not await untold(world)


@in_virtual_time
async def test_each_group_that_waits_for_itself_gets_a_fix_of_its_own(world: SchedulerPlane) -> None:
    """A GPU node would not help the group that lacks CPU, nor the other way round."""
    await world.create(
        make_node("n1", cpu=3), make_node("g1", cpu=1, gpu=1), *tree(leaf("a"), gang=None), *pods("a", 2)
    )
    await world.create(leaf("b"), *pods("b", 2, cpu=3), leaf("c"), *pods("c", 2, gpu=1, cpu="100m"))
    await world.settle(30)
    for name in ("b", "b-0"):
        told = await world.message(name) if "-" in name else (await world.condition(name))[2]
        assert "like n1" in told, told
        assert "like g1" not in told, told
    for name in ("c", "c-0"):
        told = await world.message(name) if "-" in name else (await world.condition(name))[2]
        assert "like g1" in told, told
        assert GPU in told, told
        assert "like n1" not in told, told


@in_virtual_time
async def test_pods_that_room_is_not_made_for_do_not_say_that_it_is(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=2), *(make_pod(f"low-{n}", grace=300, priority=1) for n in range(2)))
    await world.settle(1)
    for name in ("low-0", "low-1"):
        await world.patch(PODS, name, {"metadata": {"finalizers": ["test/keep"]}})
    await world.create(make_composite("root", gang=1, priority=9))
    for name, size in (("a", 2), ("b", 3)):
        await world.create(make_pod_group(name, gang=size, parent="root", priority=9), *pods(name, 2, priority=9))
    await world.settle(5)
    assert (await world.message("a-0")).startswith("preempting")
    assert (await world.message("b-0")).startswith("PodGroup/b is waiting for pods: 2 of 3 exist")
    assert (await world.condition("b"))[2].startswith("waiting for pods: 2 of 3 exist")
    assert not [text for text in await untold(world) if text.startswith("b")]


@in_virtual_time
async def test_a_tree_behind_a_reservation_names_it_on_every_group_and_pod(world: SchedulerPlane) -> None:
    await world.create(*(make_node(f"n{n}", cpu=2, block="b") for n in range(2)))
    await world.create(make_pod("long", cpu=2), make_pod("short", cpu=2))
    await world.settle(2)
    await world.create(make_pod_group("big", gang=2, key=BLOCK), *pods("big", 2, cpu=2))
    await world.settle(5)
    await world.delete(PODS, "short")
    await world.create(make_pod("young", cpu=1))
    await world.settle(90)
    await world.create(
        *tree(leaf("a", gang=1), leaf("b", gang=1)), *pods("a", 1, cpu="500m"), *pods("b", 1, cpu="500m")
    )
    await world.settle(30)
    told = [(await world.condition(name))[2] for name in ("root", "a", "b")]
    told += [await world.message(name) for name in ("a-0", "b-0")]
    assert not await untold(world)
    assert all("reserved for PodGroup/big" in text for text in told), told
