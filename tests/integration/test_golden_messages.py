"""What users read in common situations, word for word: the condition or event as the API has it.

A message says what the object needs, what there is, and after `fix:` what to change.  Names are `Kind/name`, fields
are paths, commands can be copied.
"""

from __future__ import annotations

from pathlib import Path

from echelon.api.objects import meta
from echelon.api.objects.vocabulary import BLOCK, RACK
from echelon.api.scheme import EVENTS, PODS, Object
from echelon.testing.builders import make_composite, make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time

GUIDE = " ".join((Path(__file__).parents[2] / "docs" / "guides" / "why-pending.md").read_text().split())
TAINT = {"key": "team", "value": "research", "effect": "NoSchedule"}


async def message(world: SchedulerPlane, group: str) -> str:
    status, reason, text = await world.condition(group)
    assert (status, reason) == ("False", "Unschedulable")
    return text


async def events(world: SchedulerPlane, name: str, reason: str) -> list[Object]:
    page = await world.verbs.list(EVENTS, "default")
    return [one for one in page.items if one["involvedObject"]["name"] == name and one["reason"] == reason]


async def racks(world: SchedulerPlane, *sizes: int) -> None:
    """Racks r1, r2, … of one block, with nodes of 8 GPUs."""
    for rack, size in enumerate(sizes, 1):
        nodes = (make_node(f"r{rack}-n{n}", gpu=8, block="b1", rack=f"r{rack}") for n in range(size))
        await world.create(*nodes)


@in_virtual_time
async def test_a_pod_that_is_too_large_for_any_node(world: SchedulerPlane) -> None:
    await racks(world, 2)
    await world.create(make_pod("small", gpu=16))
    await world.settle()
    told = "fits no node: requests 16 nvidia.com/gpu, the largest node has 8"
    assert await world.message("small") == told
    assert told in GUIDE


@in_virtual_time
async def test_a_gang_whose_pods_are_too_large_for_any_node(world: SchedulerPlane) -> None:
    await racks(world, 2)
    await world.create(make_pod_group("train", gang=2))
    await world.pods("train", "train-", 2, gpu=16)
    await world.settle()
    assert await message(world, "train") == (
        "needs 2 pods, but a pod requests 16 nvidia.com/gpu, the largest node has 8; "
        "first lower the request for nvidia.com/gpu to 8, or add nodes with 16 nvidia.com/gpu"
    )


@in_virtual_time
async def test_a_gang_that_finds_too_few_gpus_in_any_rack(world: SchedulerPlane) -> None:
    await racks(world, 4, 2)
    await world.create(make_pod_group("train", gang=5, key=RACK))
    pods = await world.pods("train", "train-", 5, gpu=8)
    await world.settle()
    told = await message(world, "train")
    assert told == (
        "needs 5 pods in one rack, but b1/r1 has room for 4 (short of nvidia.com/gpu), b1/r2 for 2; "
        f"fix: set spec.schedulingConstraints.topology[0].key to {BLOCK} (immutable: delete and re-create it), "
        "or lower spec.schedulingPolicy.gang.minCount from 5 to 4 (only 4 pods fit in one rack), "
        "or add 1 node like r1-n0 to b1/r1"
    )
    assert await world.message(pods[0]) == f"PodGroup/train {told}"
    assert f"PodGroup/train {told}" in GUIDE
    assert [event["message"] for event in await events(world, "train", "FailedScheduling")] == [told]


@in_virtual_time
async def test_a_fix_names_the_object_that_the_group_is_made_from(world: SchedulerPlane) -> None:
    await racks(world, 4, 2)
    for name, kind in (("one", "Job"), ("two", "JobSet")):
        group = make_pod_group(name, gang=5, key=RACK)
        owner = {"apiVersion": "batch/v1", "kind": kind, "name": "big", "uid": "u", "controller": True}
        workload = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "name": "w", "uid": "w"}
        group["metadata"]["ownerReferences"] = [owner, workload]
        await world.create(group)
        await world.pods(name, f"{name}-", 5, gpu=8)
    await world.settle()
    widen, lower, *_ = (await message(world, "one")).partition("fix: ")[2].split(", or ")
    scheduling = "spec.scheduling"
    assert widen == (
        f"set {scheduling}.schedulingConstraints.topology[0].key to {BLOCK} in Job/big "
        "(immutable: delete and re-create it)"
    )
    assert lower == (
        f"lower {scheduling}.schedulingPolicy.gang.minCount in Job/big from 5 to 4 (only 4 pods fit in one rack)"
    )
    widen, lower, *_ = (await message(world, "two")).partition("fix: ")[2].split(", or ")
    assert widen == f"widen the required topology to {BLOCK} in JobSet/big (immutable: delete and re-create it)"
    assert lower.endswith("(only 4 pods fit in one rack) (in JobSet/big: delete and re-create it)")


@in_virtual_time
async def test_nodes_with_a_taint_that_the_pod_does_not_tolerate(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", taints=[TAINT]), make_node("n2", taints=[TAINT]), make_pod("p"))
    await world.settle()
    assert await world.message("p") == "fits none of 2 nodes: they have the untolerated taint team=research"


@in_virtual_time
async def test_a_node_selector_that_no_node_matches(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_node("n2"), make_pod("p", nodeSelector={"disk": "ssd"}))
    await world.settle()
    assert await world.message("p") == "fits none of 2 nodes: they do not match spec.nodeSelector disk=ssd"


@in_virtual_time
async def test_nodes_excluded_for_different_reasons(world: SchedulerPlane) -> None:
    await world.create(*(make_node(name, unschedulable=True) for name in ("n1", "n2")))
    await world.create(make_node("n3", taints=[TAINT]), make_node("n4", cpu=1), make_pod("p", cpu=2))
    await world.settle()
    told = (await world.message("p")).partition("; fix: ")[0]
    assert told == (
        "fits none of 4 nodes: 2 are cordoned (kubectl uncordon NODE), "
        "1 has the untolerated taint team=research, 1 is short of cpu"
    )
    assert told in GUIDE


@in_virtual_time
async def test_the_only_node_is_cordoned(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", unschedulable=True), make_pod("p"))
    await world.settle()
    assert await world.message("p") == "does not fit the only node: it is cordoned (kubectl uncordon NODE)"


@in_virtual_time
async def test_a_gang_that_waits_for_pods(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_pod_group("train", gang=3))
    await world.pods("train", "train-", 2)
    await world.settle()
    told = (
        "waiting for pods: 2 of 3 exist; fix: create 1 more pod with spec.schedulingGroup.podGroupName train, "
        "or lower its spec.schedulingPolicy.gang.minCount to 2"
    )
    assert await message(world, "train") == told
    assert await world.message("train-0") == f"PodGroup/train is {told}"


@in_virtual_time
async def test_a_gang_that_waits_for_its_siblings(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_composite("tree", gang=2))
    await world.create(*(make_pod_group(name, gang=1, parent="tree", workload="w") for name in ("ready", "late")))
    await world.create(make_pod("p", group="ready"))
    await world.settle()
    fix = "fix: create 1 more pod with spec.schedulingGroup.podGroupName late"
    lack = "waiting for child groups: 1 of 2 are complete (PodGroup/late is waiting for pods: 0 of 1 exist)"
    assert await message(world, "tree") == f"{lack}; {fix}"
    assert await message(world, "late") == f"waiting for pods: 0 of 1 exist; {fix}"
    assert await message(world, "ready") == f"waiting for sibling groups: CompositePodGroup/tree is {lack}; {fix}"


@in_virtual_time
async def test_preemption_as_both_sides_read_it(world: SchedulerPlane) -> None:
    await racks(world, 2)
    await world.create(make_pod_group("low", gang=2, mode="all", priority=10))
    await world.pods("low", "low-", 2, gpu=8, priority=10, grace=30)
    await world.settle()
    await world.create(make_pod_group("high", gang=2, key=RACK, priority=100))
    await world.pods("high", "high-", 2, gpu=8, priority=100)
    await world.settle(3)
    assert await message(world, "high") == "preempting PodGroup/low (2 pods, priority 10) to place 2 pods in b1/r1"
    (event,) = await events(world, "low-0", "Preempted")
    assert event["message"] == "Preempted by podgroup default/high (priority 100) on node r1-n0"
    assert (event["action"], event["related"]["kind"], event["related"]["name"]) == ("Preempting", "PodGroup", "high")
    victim = await world.pod("low-0")
    assert victim is not None
    assert meta.annotations(victim)["echelon.dev/evicted-by"] == "default-scheduler"
    (event,) = await events(world, "low", "Preempted")
    assert event["message"] == "Preempted by podgroup default/high (priority 100)"


@in_virtual_time
async def test_a_tree_with_mixed_priorities(world: SchedulerPlane) -> None:
    await world.create(make_node("n1"), make_composite("tree", gang=1, priority=10))
    await world.create(make_pod_group("train", gang=1, parent="tree", workload="w", priority=5))
    await world.create(make_pod("p", group="train", priority=5))
    await world.settle()
    told = "PodGroup/train has priority 5, but its root CompositePodGroup/tree has priority 10"
    assert await world.condition("train") == ("False", "PodGroupError", told)
    assert await world.condition("tree") == ("False", "CompositePodGroupError", told)
    assert await world.message("p") == told


@in_virtual_time
async def test_a_group_whose_pods_already_run_in_two_racks(world: SchedulerPlane) -> None:
    await racks(world, 2, 2)
    await world.create(make_pod("p0", group="train", gpu=8, node="r1-n0"))
    await world.create(make_pod("p1", group="train", gpu=8, node="r2-n0"))
    await world.create(make_pod_group("train", gang=3, key=RACK), make_pod("p2", group="train", gpu=8))
    await world.settle()
    assert (await world.condition("train"))[1:] == (
        "PodGroupError",
        f"PodGroup/train needs all pods in one domain of {RACK}, but has Pod/p0 in b1/r1, Pod/p1 in b1/r2",
    )


@in_virtual_time
async def test_a_reservation_as_both_sides_read_it(world: SchedulerPlane) -> None:
    """Small jobs come and end, and a gang that needs every node is passed over until nodes are reserved for it."""
    job = {"restartPolicy": "Never"}
    await world.create(*(make_node(f"n{n}", cpu=1) for n in range(2)))
    await world.create(*(make_pod(f"job{n}", **job) for n in range(2)))
    await world.settle(1)
    await world.create(make_pod_group("big", gang=2))
    await world.pods("big", "big-", 2, **job)
    for number in range(2, 9):
        await world.create(make_pod(f"job{number}", **job))
        await world.settle(1)
        await world.delete(PODS, f"job{number - 2}")
        await world.settle(9)
    await world.settle(15)
    assert (await message(world, "big")).rpartition("; ")[2] == (
        "1 of 2 reserved nodes are free, waiting for 1 pod on the others to end"
    )
    await world.create(make_pod("late", **job))
    await world.settle(15)
    told = (await world.message("late")).rpartition("; ")[2]
    assert told.startswith("there is room, but it is reserved for PodGroup/big (waiting since ")
