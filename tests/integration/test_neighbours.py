"""Beside other programs: what the scheduler reads of Kueue, autoscalers and kubelets, and what it leaves alone."""

from __future__ import annotations

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.vocabulary import (
    BLOCK,
    HOSTNAME,
    KUEUE_PREFERRED_TOPOLOGY,
    KUEUE_REQUIRED_TOPOLOGY,
    MIRROR_POD,
    RACK,
)
from echelon.api.scheme import NODES, POD_GROUPS, PODS, RESOURCE_QUOTAS, Object
from echelon.testing.builders import make_node, make_pod, make_pod_group
from echelon.testing.scheduler_plane import SchedulerPlane, in_virtual_time

NODE_OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "4e1f"}
DAEMON_SET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "7c20"}


def taint(key: str, effect: str = "NoSchedule") -> Object:
    return {"key": key, "effect": effect}


async def nominated(world: SchedulerPlane, *names: str) -> list[str]:
    found = [await world.pod(name) for name in names]
    return [((pod or {}).get("status") or {}).get("nominatedNodeName", "") for pod in found]


# -- kubelets: static pods, DaemonSets, pods that somebody else placed -----------------------------------


@pytest.mark.parametrize(
    ("annotations", "owner"), [({MIRROR_POD: "hash"}, None), ({}, NODE_OWNER)], ids=["annotation", "owner"]
)
@in_virtual_time
async def test_a_static_pod_counts_and_is_never_evicted(
    world: SchedulerPlane, annotations: dict[str, str], owner: Object | None
) -> None:
    """Its kubelet would go on running it: evicting the object makes no room."""
    await world.create(make_node("n", cpu=4))
    await world.create(make_pod("static", cpu=3, node="n", priority=0, annotations=annotations, owner=owner))
    await world.create(make_pod("fits", cpu=1), make_pod("high", cpu=2, priority=1000))
    await world.settle(60)
    assert await world.nodes("static") == ["n"]
    assert not await world.scheduled("high")
    assert await world.gone("fits") or await world.scheduled("fits")


@in_virtual_time
async def test_a_gang_goes_where_no_static_pod_is_in_its_way(world: SchedulerPlane) -> None:
    await world.create(make_node("a", cpu=2), make_node("b", cpu=2))
    await world.create(make_pod("static", cpu=2, node="a", priority=0, annotations={MIRROR_POD: "hash"}))
    await world.create(make_pod("plain", cpu=2, node="b", priority=10))
    await world.create(make_pod("high", cpu=2, priority=1000))
    await world.settle(60)
    assert await world.nodes("high", "static") == ["b", "a"]
    assert await world.gone("plain")


@in_virtual_time
async def test_pods_of_a_daemon_set_count_and_go_by_their_priority(world: SchedulerPlane) -> None:
    """As with kube-scheduler: a DaemonSet that must not be evicted has a priority class."""
    await world.create(make_node("n", cpu=4))
    await world.create(make_pod("agent", cpu=1, node="n", priority=2_000_000, owner=DAEMON_SET))
    await world.create(make_pod("cheap-agent", cpu=1, node="n", priority=0, owner=DAEMON_SET))
    await world.create(make_pod("big", cpu=3, priority=1000))
    await world.settle(60)
    assert await world.nodes("agent", "big") == ["n", "n"]
    assert await world.gone("cheap-agent")


@in_virtual_time
async def test_room_that_another_scheduler_takes_is_not_given_away(world: SchedulerPlane) -> None:
    await world.create(make_node("a", cpu=2), make_node("b", cpu=2))
    await world.create(make_pod("foreign", cpu=2, schedulerName="somebody-else"))
    await world.verbs.bind("default", "foreign", "a")
    await world.create(make_pod_group("g", gang=2))
    await world.pods("g", "p", 2)
    await world.settle()
    assert await world.nodes("p0", "p1") == ["b", "b"]


@in_virtual_time
async def test_a_member_that_its_kubelet_refuses_is_replaced_in_the_domain_of_its_gang(world: SchedulerPlane) -> None:
    """Another scheduler filled the node in the moment of our binding: the kubelet fails what came second."""
    await world.create(*(make_node(f"{rack}-{n}", cpu=1, rack=rack) for rack in ("r1", "r2") for n in range(3)))
    await world.create(make_pod_group("g", gang=2, key=RACK))
    await world.pods("g", "p", 2)
    await world.settle()
    lost, kept = await world.nodes("p0", "p1")
    await world.create(make_pod("foreign", cpu=1, schedulerName="somebody-else"))
    await world.verbs.bind("default", "foreign", lost)
    status = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}
    await world.patch(PODS, "p0", {"status": status}, status=True)
    await world.pods("g", "p", 1, first=2)
    await world.settle()
    (again,) = await world.nodes("p2")
    assert again
    assert again not in (lost, kept)
    assert again.split("-")[0] == kept.split("-")[0]


# -- autoscalers -------------------------------------------------------------------------------------------


@in_virtual_time
async def test_the_places_of_a_reservation_are_nominated_until_it_ends(world: SchedulerPlane) -> None:
    """Two long pods stay, so the reservation of the gang lapses without progress; others see both."""
    job = {"restartPolicy": "Never"}
    await world.create(*(make_node(f"n{number}", cpu=1) for number in range(3)))
    await world.create(*(make_pod(f"long{number}", **job) for number in range(2)))
    await world.create(make_pod_group("g", gang=3))
    gang = await world.pods("g", "p", 3, **job)
    await world.settle(5)
    assert await nominated(world, *gang) == ["", "", ""]
    await world.create(make_pod("young", **job))
    await world.settle(90)
    assert sorted(await nominated(world, *gang)) == ["n0", "n1", "n2"]
    await world.settle(700)
    assert await nominated(world, *gang) == ["", "", ""]
    assert "ReservationLapsed" in [reason for reason, _ in await world.events("g")]


@in_virtual_time
async def test_a_preemptor_is_nominated_while_its_victims_leave(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=1), make_pod("low", cpu=1, priority=0, grace=30))
    await world.settle(2)
    await world.create(make_pod("high", cpu=1, priority=100))
    await world.settle(2)
    assert await nominated(world, "high") == ["n"]


@in_virtual_time
async def test_autoscalers_find_what_they_read_on_pods_that_do_not_fit(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=1), make_pod_group("g", gang=2))
    await world.pods("g", "p", 2)
    await world.settle()
    assert await world.unscheduled("p0", "p1")
    assert [reason for reason, _ in await world.events("p0")] == ["FailedScheduling"]
    assert await nominated(world, "p0", "p1") == ["", ""]


@in_virtual_time
async def test_a_gang_that_is_not_complete_does_not_ask_autoscalers_for_nodes(world: SchedulerPlane) -> None:
    """`Unschedulable` on a pod is what they act on: it is there once the last pod is, and goes when one goes."""
    await world.create(make_node("n", cpu=1), make_pod_group("g", gang=3))
    await world.pods("g", "p", 2)
    await world.settle()
    assert [await world.reason(name) for name in ("p0", "p1")] == ["WaitingForGroup"] * 2
    await world.create(make_pod("p2", group="g", gates=("example.com/wait",)))
    await world.settle()
    reasons = [await world.reason(name) for name in ("p0", "p1", "p2")]
    assert reasons == ["WaitingForGroup", "WaitingForGroup", "SchedulingGated"]
    assert "1 more has the scheduling gates example.com/wait" in await world.message("p0")
    await world.patch(PODS, "p2", {"spec": {"schedulingGates": None}})
    await world.settle()
    assert await world.unscheduled("p0", "p1", "p2")
    await world.delete(PODS, "p1")
    await world.settle()
    assert [await world.reason(name) for name in ("p0", "p2")] == ["WaitingForGroup"] * 2


@in_virtual_time
async def test_pods_of_a_group_that_does_not_exist_do_not_ask_autoscalers_for_nodes(world: SchedulerPlane) -> None:
    await world.create(make_node("n", cpu=1))
    await world.pods("g", "p", 2)
    await world.settle()
    assert [await world.reason(name) for name in ("p0", "p1")] == ["WaitingForGroup"] * 2
    await world.create(make_pod_group("g", gang=2))
    await world.settle()
    assert await world.unscheduled("p0", "p1")


@in_virtual_time
async def test_pods_that_come_while_room_is_made_for_their_gang_do_not_ask_autoscalers_for_nodes(
    world: SchedulerPlane,
) -> None:
    await world.create(make_node("n", cpu=2), make_pod("low", cpu=2, priority=0, grace=30))
    await world.settle(2)
    await world.create(make_pod_group("g", gang=2, priority=100))
    await world.pods("g", "p", 2, priority=100)
    await world.settle(2)
    assert await nominated(world, "p0", "p1") == ["n", "n"]
    await world.pods("g", "p", 1, first=2, priority=100)
    await world.settle(5)
    assert await world.reason("p2") == "WaitingForGroup"
    await world.delete(PODS, "low", grace=0)
    await world.settle(20)
    assert await world.nodes("p0", "p1") == ["n", "n"]
    assert await world.unscheduled("p2")


@in_virtual_time
async def test_a_new_node_wakes_a_blocked_gang_at_once(world: SchedulerPlane) -> None:
    await world.create(make_node("n1", cpu=1), make_pod_group("g", gang=2))
    await world.pods("g", "p", 2)
    await world.settle(60)
    await world.create(make_node("n2", cpu=1))
    await world.settle(0.1)
    assert await world.scheduled("p0", "p1")


@pytest.mark.parametrize(
    "startup",
    [
        taint("karpenter.sh/unregistered", "NoExecute"),
        taint("node.cilium.io/agent-not-ready", "NoExecute"),
        taint("node.cloudprovider.kubernetes.io/uninitialized"),
        taint("ToBeDeletedByClusterAutoscaler"),
        taint("karpenter.sh/disrupted"),
    ],
    ids=lambda one: one["key"],
)
@in_virtual_time
async def test_a_node_with_a_taint_of_an_autoscaler_waits_until_it_is_lifted(
    world: SchedulerPlane, startup: Object
) -> None:
    await world.create(make_node("n1", cpu=1), make_node("n2", cpu=1, taints=[startup]))
    await world.create(make_pod_group("g", gang=2))
    await world.pods("g", "p", 2)
    await world.settle(30)
    assert await world.unscheduled("p0", "p1")
    assert startup["key"] in await world.message("p0")
    await world.patch(NODES, "n2", {"spec": {"taints": None}})
    await world.settle(0.1)
    assert await world.scheduled("p0", "p1")


@pytest.mark.parametrize(
    "annotation", ["cluster-autoscaler.kubernetes.io/safe-to-evict=false", "karpenter.sh/do-not-disrupt=true"]
)
@in_virtual_time
async def test_annotations_about_scaling_down_do_not_protect_from_preemption(
    world: SchedulerPlane, annotation: str
) -> None:
    """As with kube-scheduler: they speak to the autoscaler; priority decides about preemption."""
    key, _, value = annotation.partition("=")
    await world.create(make_node("n", cpu=1), make_pod("low", cpu=1, priority=0, annotations={key: value}))
    await world.settle(2)
    await world.create(make_pod("high", cpu=1, priority=100))
    await world.settle(10)
    assert await world.nodes("high") == ["n"]
    assert await world.gone("low")


# -- Kueue -------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_gang_behind_gates_of_kueue_waits_for_the_last_and_goes_where_they_say(world: SchedulerPlane) -> None:
    """Topology-aware scheduling of Kueue: pods are made with a gate, which goes as their node selector comes."""
    await world.create(*(make_node(f"n{number}", cpu=4) for number in range(4)), make_pod_group("g", gang=2))
    await world.pods("g", "p", 2, gates=("kueue.x-k8s.io/topology",))
    await world.settle()
    assert await world.nodes("p0", "p1") == ["", ""]
    assert [await world.reason(name) for name in ("p0", "p1")] == ["SchedulingGated", "SchedulingGated"]
    assert "2 more have the scheduling gates kueue.x-k8s.io/topology" in (await world.condition("g"))[2]
    for number, node in enumerate(("n3", "n1")):
        spec = {"nodeSelector": {HOSTNAME: node}, "schedulingGates": None}
        await world.patch(PODS, f"p{number}", {"spec": spec})
        await world.settle(5)
        if not number:
            assert await world.nodes("p0", "p1") == ["", ""]
    assert await world.nodes("p0", "p1") == ["n3", "n1"]


RACKS = [make_node(f"{rack}-{n}", cpu=1, rack=rack, block="b") for rack in ("r1", "r2") for n in range(2)]


@in_virtual_time
async def test_a_required_topology_that_pods_say_to_kueue_holds_for_their_group(world: SchedulerPlane) -> None:
    await world.create(*RACKS, make_pod("busy", node="r1-0"), make_pod_group("g", gang=2), make_pod_group("h", gang=2))
    await world.pods("g", "p", 2, annotations={KUEUE_REQUIRED_TOPOLOGY: RACK})
    await world.settle()
    assert {node.split("-")[0] for node in await world.nodes("p0", "p1")} == {"r2"}
    await world.create(make_node("r3-0", cpu=1, rack="r3", block="b"))
    await world.pods("h", "q", 2, annotations={KUEUE_REQUIRED_TOPOLOGY: RACK})
    await world.settle()
    assert await world.unscheduled("q0", "q1")
    assert "in one rack" in await world.message("q0")


@in_virtual_time
async def test_a_preferred_topology_that_pods_say_to_kueue_is_honoured_if_it_can_be(world: SchedulerPlane) -> None:
    """Each rack stands in both halls: left to itself a gang takes a rack, not a hall."""
    for rack in ("r1", "r2"):
        await world.create(*(make_node(f"{rack}-{hall}", cpu=1, rack=rack, labels={"hall": hall}) for hall in "ab"))
    halls: list[int] = []
    for name, told in (("g", {KUEUE_PREFERRED_TOPOLOGY: "hall"}), ("h", {})):
        await world.create(make_pod_group(name, gang=2))
        await world.pods(name, name, 2, annotations=told)
        await world.settle()
        halls.append(len({node[-1] for node in await world.nodes(f"{name}0", f"{name}1")}))
        await world.delete(PODS, f"{name}0", f"{name}1")
    assert halls == [1, 2]
    await world.create(make_pod("busy-a", node="r1-a"), make_pod("busy-b", node="r2-b"), make_pod_group("i", gang=2))
    await world.pods("i", "i", 2, annotations={KUEUE_PREFERRED_TOPOLOGY: "hall"})
    await world.settle()
    assert sorted(await world.nodes("i0", "i1")) == ["r1-b", "r2-a"]


@in_virtual_time
async def test_what_a_group_says_itself_comes_before_what_its_pods_say_to_kueue(world: SchedulerPlane) -> None:
    await world.create(*RACKS, make_pod("busy", node="r1-0"), make_pod_group("g", gang=3, key=BLOCK))
    await world.pods("g", "p", 3, annotations={KUEUE_REQUIRED_TOPOLOGY: RACK})
    await world.settle()
    assert await world.scheduled("p0", "p1", "p2")


@in_virtual_time
async def test_pod_sets_that_say_different_things_in_one_group_bind_it_to_nothing(world: SchedulerPlane) -> None:
    await world.create(*RACKS, make_pod("busy", node="r1-0"), make_pod_group("g", gang=3))
    await world.pods("g", "driver", 1)
    await world.pods("g", "p", 2, annotations={KUEUE_REQUIRED_TOPOLOGY: RACK})
    await world.settle()
    assert await world.scheduled("driver0", "p0", "p1")


# -- quotas ------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_gang_whose_pods_a_quota_refuses_waits_and_says_how_many_are_missing(world: SchedulerPlane) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    await world.verbs.create(RESOURCE_QUOTAS, quota, "default")
    await world.create(make_node("n", cpu=8), make_pod_group("g", gang=3))
    await world.pods("g", "p", 2)
    with pytest.raises(ApiError, match="exceeded quota: q"):
        await world.pods("g", "p", 1, first=2)
    await world.settle()
    assert await world.nodes("p0", "p1") == ["", ""]
    assert (await world.condition("g"))[2].startswith("waiting for pods: 2 of 3 exist; fix: ")
    await world.verbs.delete(RESOURCE_QUOTAS, "q", "default")
    await world.pods("g", "p", 1, first=2)
    await world.settle()
    assert await world.scheduled("p0", "p1", "p2")
    group = await world.verbs.get(POD_GROUPS, "g", "default")
    assert meta.condition_is(group, "PodGroupInitiallyScheduled")
