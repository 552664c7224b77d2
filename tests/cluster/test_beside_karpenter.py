"""Echelon as it is installed beside the real Karpenter, which makes nodes for gangs and takes them away.

One control plane with Karpenter on it for all tests of a gate set; each test has a namespace and a NodePool of its own.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.vocabulary import RACK
from echelon.api.scheme import EVENTS, JOBS, NODES, POD_DISRUPTION_BUDGETS, PODS, PRIORITY_CLASSES, Object
from echelon.api.verbs import DeleteOptions, Patch, PatchType
from echelon.testing.builders import make_pod

from .controlplane import ControlPlane, GateSet, control_plane
from .karpenter_program import (
    CPUS,
    DO_NOT_DISRUPT,
    KARPENTER,
    NODE_CLAIMS,
    NODE_POOLS,
    Machines,
    karpenter,
    machines,
    make_pool,
)
from .logins import client_of
from .neighbour_programs import skip_without
from .waiting import eventually
from .work_places import Place, at_work

pytestmark = pytest.mark.cluster_long
#: Longer than Karpenter keeps a node for a pod that it has made it for (20 s), and than it waits to look again (10 s).
LOOKS_TWICE_SECONDS = 25.0
#: Longer than it takes to empty a node that it does not need: it waits 20 s from when it last gave the node a pod,
#: looks every 10 s, and thinks again for 15 s.
CONSOLIDATES_SECONDS = 60.0
_numbers = itertools.count()


@pytest.fixture(scope="module", params=[GateSet.ALL, GateSet.NONE], ids=str)
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    skip_without(KARPENTER)
    with (
        control_plane(tmp_path_factory.mktemp("karpenter"), strict=True, gates=request.param) as running,
        karpenter(running),
    ):
        yield running


@dataclass
class ScaledPlace(Place):
    """A place with a NodePool of its name, whose nodes have room for 4 CPUs."""

    machines: Machines = field(init=False)

    async def pool(self, **spec: Any) -> None:
        await make_pool(self.verbs, self.name, {"pool": self.name}, **spec)

    async def claims(self) -> int:
        """How many nodes Karpenter has asked its provider for."""
        return len((await self.verbs.list(NODE_CLAIMS)).items)

    async def gang(self, name: str, pods: int, *, least: int | None = None, **pod: Any) -> None:
        """Pods of a gang; `least` is its size, if they are not all."""
        priority = {"priorityClassName": pod["priorityClassName"]} if "priorityClassName" in pod else {}
        await self.group(name, pods if least is None else least, **priority)
        for number in range(pods):
            await self.verbs.create(PODS, self.member(f"{name}-{number}", name, **self.selecting(pod)), self.name)

    async def single(self, name: str, **pod: Any) -> None:
        """A pod without a group."""
        made = make_pod(
            name, namespace=self.name, schedulerName="echelon", restartPolicy="Never", **self.selecting(pod)
        )
        await self.verbs.create(PODS, made, self.name)

    async def job(self, name: str, pods: int, template: Object | None = None, **scheduling: Any) -> None:
        """A gang of two CPUs each, so that a node has room for two."""
        job = self.gang_job(name, pods, **scheduling)
        spec = job["spec"]["template"]["spec"]
        spec["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
        spec["nodeSelector"] = {"pool": self.name}
        job["spec"]["template"]["metadata"] = template or {}
        await self.verbs.create(JOBS, job, self.name)

    def selecting(self, pod: dict[str, Any]) -> dict[str, Any]:
        return {"nodeSelector": {"pool": self.name}, **pod}

    async def reasons(self, prefix: str) -> set[str]:
        found = [meta.find_condition(pod, "PodScheduled") or {} for pod in await self.pods(prefix)]
        return {str(one.get("reason", "")) for one in found}

    async def running(self, prefix: str) -> list[str]:
        """The nodes of its pods that run, one for each."""
        return [one["spec"]["nodeName"] for one in await self.pods(prefix) if one["status"]["phase"] == "Running"]

    async def said(self, reason: str) -> str:
        """What events of a reason say, of nodes and of pods."""
        found = (await self.verbs.list(EVENTS)).items
        return "\n".join(str(one.get("message")) for one in found if one["reason"] == reason)

    async def end(self) -> None:
        await self.clear(PODS, POD_DISRUPTION_BUDGETS, JOBS)
        with suppress(ApiError):
            await self.verbs.delete(NODE_POOLS, self.name, options=DeleteOptions("Background"))

        async def left() -> int:
            return len((await self.verbs.list(NODES)).items) + await self.claims()

        await eventually(left, 0)


@pytest.fixture
async def place(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[ScaledPlace]:
    async with client_of(plane.kubeconfig) as verbs:
        place = ScaledPlace(plane, verbs, f"team-{next(_numbers)}")
        async with at_work(place, tmp_path), machines(verbs, place.name, {f"{place.name}-own": CPUS}) as made:
            place.machines = made
            yield place
            await place.end()


async def _karpenter_has_looked(place: ScaledPlace) -> None:
    """A pod as large as a node gets a node of its own; whatever else asked for nodes by then was asked with it."""
    await place.single("sentinel", cpu=CPUS)
    await eventually(lambda: place.placed("sentinel"), 1)


async def test_a_gang_that_does_not_fit_gets_the_nodes_that_it_needs_and_is_placed_whole(place: ScaledPlace) -> None:
    """While its last node is on its way, the others stay empty: neither are they used nor taken away again."""
    await place.pool()
    place.machines.most = 2
    await place.gang("train", 6, cpu=2)
    await eventually(place.claims, 3)
    assert await place.reasons("train-") == {"Unschedulable"}

    async def are_ready() -> int:
        return len(place.machines.ready)

    await eventually(are_ready, 2)
    await asyncio.sleep(LOOKS_TWICE_SECONDS)
    assert await place.claims() == 3
    assert await place.placed("train-") == 0
    place.machines.most = 3
    await eventually(lambda: place.placed("train-"), 6)
    assert {one["spec"]["nodeName"] for one in await place.pods("train-")} == set(place.machines.ready)
    await asyncio.sleep(LOOKS_TWICE_SECONDS)
    assert await place.claims() == 3


async def test_a_pool_with_less_than_a_gang_needs_keeps_empty_nodes_for_it(place: ScaledPlace) -> None:
    """Karpenter makes what the limit allows, pod by pod, and none of it is of use before the rest comes."""
    await place.pool(limits={"cpu": "10"})
    await place.gang("train", 6, cpu=2)
    await eventually(place.claims, 2)

    async def names_the_limit() -> bool:
        return "exceed limits for nodepool" in await place.said("FailedScheduling")

    await eventually(names_the_limit)
    await asyncio.sleep(LOOKS_TWICE_SECONDS)
    assert await place.claims() == 2
    assert await place.placed("train-") == 0
    raised = Patch(PatchType.MERGE, {"spec": {"limits": {"cpu": "20"}}})
    await place.verbs.patch(NODE_POOLS, place.name, raised)
    await eventually(lambda: place.placed("train-"), 6)


async def test_gangs_that_are_not_complete_and_pods_behind_gates_get_no_nodes(place: ScaledPlace) -> None:
    await place.pool()
    await place.gang("short", 2, least=3)
    await place.gang("gated", 2, gates=("example.com/wait",))
    await place.gang("half", 1, least=2)
    await place.verbs.create(PODS, place.member("half-1", "half", gates=("example.com/wait",)), place.name)
    await eventually(lambda: place.reasons("short-"), {"WaitingForGroup"})
    assert await place.reasons("gated-") == {"SchedulingGated"}
    await _karpenter_has_looked(place)
    assert await place.claims() == 1
    await place.verbs.create(PODS, place.member("short-2", "short", **place.selecting({})), place.name)
    await eventually(lambda: place.placed("short-"), 3)
    assert await place.claims() == 2


async def test_a_gang_for_which_victims_leave_gets_no_nodes(place: ScaledPlace) -> None:
    """Its pods name the node that is being cleared for them; when the victims are gone they are bound there."""
    await place.pool()
    await place.nodes("own", cpu=CPUS)
    high = {"metadata": {"name": f"{place.name}-high"}, "value": 1000, "preemptionPolicy": "PreemptLowerPriority"}
    await place.verbs.create(PRIORITY_CLASSES, high)
    for number in range(CPUS):
        await place.single(f"low-{number}", grace=300)
    await eventually(lambda: place.running("low-"), [f"{place.name}-own"] * CPUS)
    place.machines.kubelets.pause()
    await place.gang("high", CPUS, priorityClassName=f"{place.name}-high")

    async def nominated() -> list[str]:
        return [one["status"].get("nominatedNodeName", "") for one in await place.pods("high-")]

    await eventually(nominated, [f"{place.name}-own"] * CPUS)
    await asyncio.sleep(LOOKS_TWICE_SECONDS)
    assert await place.claims() == 0
    place.machines.kubelets.resume()
    await eventually(lambda: place.running("high-"), [f"{place.name}-own"] * CPUS)
    assert await place.claims() == 0


@pytest.mark.parametrize("protection", ["annotation", "budget"])
async def test_a_gang_that_wastes_nodes_is_left_alone_while_it_is_protected(
    place: ScaledPlace, protection: str
) -> None:
    """Then a member is evicted; its Job makes the pod again, which is placed beside the other where there is room."""
    await place.pool()
    if protection == "budget":
        budget = {"minAvailable": 2, "selector": {"matchLabels": {"job-name": "train"}}}
        await place.verbs.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "b"}, "spec": budget}, place.name)
    annotated = {"annotations": {DO_NOT_DISRUPT: "true"}} if protection == "annotation" else None
    kept = await _half_of_a_gang_ends(place, annotated)
    await asyncio.sleep(CONSOLIDATES_SECONDS)
    assert {meta.uid(one) for one in await place.pods("train-")} >= kept
    assert await place.claims() == 2
    if protection == "budget":
        await place.verbs.delete(POD_DISRUPTION_BUDGETS, "b", place.name)
    else:
        for pod in await place.pods("train-"):
            lifted = Patch(PatchType.MERGE, {"metadata": {"annotations": {DO_NOT_DISRUPT: None}}})
            await place.verbs.patch(PODS, meta.name(pod), lifted, place.name)
    await eventually(place.claims, 1)
    await eventually(lambda: _counts(place), [2])
    alive = {meta.uid(one) for one in await place.pods("train-") if one["status"]["phase"] == "Running"}
    assert len(alive & kept) == 1


async def _half_of_a_gang_ends(place: ScaledPlace, template: Object | None) -> set[str]:
    """Two nodes with two pods each, of which one succeeds; returns the pods that run on."""
    await place.job("train", 4, template, schedulingPolicy={"gang": {"minCount": 2}}, disruptionMode={"all": {}})
    await eventually(lambda: _counts(place), [2, 2])
    kept: dict[str, str] = {}
    for pod in await place.pods("train-"):
        if kept.setdefault(pod["spec"]["nodeName"], meta.uid(pod)) != meta.uid(pod):
            await place.finish(meta.name(pod))
    return set(kept.values())


async def _counts(place: ScaledPlace) -> list[int]:
    nodes = await place.running("train-")
    return sorted(nodes.count(one) for one in set(nodes))


async def test_room_in_pieces_keeps_karpenter_from_making_nodes_for_a_gang_in_one_rack(place: ScaledPlace) -> None:
    """Pod by pod there is room: Karpenter knows of no racks that a gang must not leave."""
    await place.pool()
    for rack in ("r1", "r2"):
        await place.nodes(rack, cpu=2, labels={RACK: rack})
    await place.job("train", 2, schedulingConstraints={"topology": [{"key": RACK}]})
    await eventually(lambda: place.reasons("train-"), {"Unschedulable"})
    await _karpenter_has_looked(place)
    assert await place.claims() == 1
    assert await place.placed("train-") == 0
