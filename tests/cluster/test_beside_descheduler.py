"""Echelon as it is installed beside the real descheduler, which evicts members of gangs one by one."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.objects.vocabulary import RACK
from echelon.api.scheme import JOBS, NODES, POD_DISRUPTION_BUDGETS, PODS, PRIORITY_CLASSES, Object
from echelon.api.verbs import Patch, PatchType

from .controlplane import ControlPlane, GateSet, control_plane
from .descheduler_program import DESCHEDULER, deschedule, policy, shipped_policy
from .kubelets import Kubelets, kubelets
from .logins import client_of
from .neighbour_programs import skip_without
from .waiting import eventually
from .work_places import Place, at_work

pytestmark = pytest.mark.cluster_long
TAINTS = "RemovePodsViolatingNodeTaints"
PRIORITY = 1000
#: Of the pods that may be evicted.
NO_JOBS = {"matchExpressions": [{"key": "batch.kubernetes.io/job-name", "operator": "DoesNotExist"}]}
_numbers = itertools.count()


@pytest.fixture(scope="module", params=[GateSet.ALL, GateSet.NONE], ids=str)
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    skip_without(DESCHEDULER)
    with control_plane(tmp_path_factory.mktemp("descheduler"), strict=True, gates=request.param) as running:
        yield running


@dataclass
class RackedPlace(Place):
    """A place whose nodes are named after their racks, and run what is bound to them."""

    kubelets: Kubelets = field(init=False)

    async def rack(self, name: str, nodes: int, cpu: int = 1) -> None:
        for number in range(nodes):
            await self.nodes(f"{name}-{number}", cpu=cpu, labels={RACK: f"{self.name}-{name}"})
            self.kubelets.add(f"{self.name}-{name}-{number}", cpu)

    async def train(self, pods: int, mode: str = "single", template: Object | None = None, **spec: Any) -> None:
        """A gang in one rack."""
        constraints = {"topology": [{"key": RACK}]}
        job = self.gang_job("train", pods, schedulingConstraints=constraints, disruptionMode={mode: {}})
        job["spec"]["backoffLimit"] = 100  # an evicted pod counts as a failed one
        job["spec"]["template"]["metadata"] = template or {}
        job["spec"]["template"]["spec"] |= {"nodeSelector": {"pool": self.name}, **spec}
        await self.verbs.create(JOBS, job, self.name)
        await eventually(lambda: self.racks("train-"), {"r1": pods})

    async def racks(self, prefix: str) -> Counter[str]:
        """How many of its pods run in each rack."""
        found = [
            one for one in await self.pods(prefix) if one["status"]["phase"] == "Running" and not meta.deleting(one)
        ]
        return Counter(one["spec"]["nodeName"].removeprefix(f"{self.name}-").partition("-")[0] for one in found)

    async def uids(self) -> set[str]:
        return {meta.uid(one) for one in await self.pods("train-") if not meta.deleting(one)}

    async def taint_a_node_of_it(self) -> str:
        """Its pod there violates a taint that came later; returns that pod."""
        pod = min(await self.pods("train-"), key=meta.name)
        taints = [{"key": "example.com/worn", "effect": "NoSchedule"}]
        await self.verbs.patch(NODES, pod["spec"]["nodeName"], Patch(PatchType.MERGE, {"spec": {"taints": taints}}))
        return meta.name(pod)

    async def deschedule(self, chosen: Object) -> str:
        return await asyncio.to_thread(deschedule, self.plane, chosen)


@pytest.fixture
async def place(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[RackedPlace]:
    async with client_of(plane.kubeconfig) as verbs:
        place = RackedPlace(plane, verbs, f"team-{next(_numbers)}")
        async with at_work(place, tmp_path), kubelets(verbs, place.name, {}) as nodes:
            place.kubelets = nodes
            yield place
            await place.clear(POD_DISRUPTION_BUDGETS, JOBS, PODS)


async def test_an_evicted_member_comes_back_in_the_rack_of_the_others(place: RackedPlace) -> None:
    """It goes by the eviction API; its Job makes it again, and the others run on."""
    await place.rack("r1", 4)
    await place.train(3)
    await place.rack("r2", 4)
    before, name = await place.uids(), await place.taint_a_node_of_it()
    place.kubelets.pause()
    said = await place.deschedule(policy(TAINTS))
    assert name in said
    evicted = await place.verbs.get(PODS, name, place.name)
    assert meta.deleting(evicted)
    assert (meta.find_condition(evicted, "DisruptionTarget") or {})["reason"] == "EvictionByEvictionAPI"
    place.kubelets.resume()
    await eventually(lambda: place.racks("train-"), {"r1": 3})
    assert len(before & await place.uids()) == 2


async def test_a_budget_of_the_size_of_a_gang_keeps_it_whole(place: RackedPlace) -> None:
    await place.rack("r1", 4)
    await place.train(3)
    budget = {"minAvailable": 3, "selector": {"matchLabels": {"job-name": "train"}}}
    await place.verbs.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "b"}, "spec": budget}, place.name)

    async def is_counted() -> bool:
        found = await place.verbs.get(POD_DISRUPTION_BUDGETS, "b", place.name)
        return bool(found["status"].get("observedGeneration"))

    await eventually(is_counted)
    before = await place.uids()
    await place.taint_a_node_of_it()
    said = await place.deschedule(policy(TAINTS))
    assert "violate the pod's disruption budget" in said
    assert await place.uids() == before


@pytest.mark.parametrize("mode", ["all", "single"])
async def test_room_for_a_pod_by_itself_does_not_keep_a_gang_from_being_broken(place: RackedPlace, mode: str) -> None:
    """With `nodeFit` the descheduler looks for another node for the pod, and takes one that its gang cannot use.

    A gang that is disrupted as one then moves as a whole; the rest of another stays, and waits for room in its rack.
    """
    await place.rack("r1", 3)
    await place.train(3, mode)
    await place.rack("r2", 3)
    before = await place.uids()
    await place.taint_a_node_of_it()
    await place.deschedule(policy(TAINTS, nodeFit=True))
    if mode == "all":
        await eventually(lambda: place.racks("train-"), {"r2": 3})
        assert not before & await place.uids()
        return

    async def waiting() -> list[str]:
        pods = [one for one in await place.pods("train-") if not one["spec"].get("nodeName")]
        return [str((meta.find_condition(one, "PodScheduled") or {}).get("reason")) for one in pods]

    await eventually(waiting, ["Unschedulable"])
    assert await place.racks("train-") == {"r1": 2}
    assert len(before & await place.uids()) == 2


@pytest.mark.parametrize("way", ["namespace", "priority", "label", "annotation"])
async def test_what_the_guide_names_protects_a_gang_from_every_eviction(place: RackedPlace, way: str) -> None:
    """The same policy without the protection evicts."""
    annotated = {"annotations": {"descheduler.alpha.kubernetes.io/prefer-no-eviction": "true"}}
    await place.verbs.create(PRIORITY_CLASSES, {"metadata": {"name": place.name}, "value": PRIORITY})
    await place.rack("r1", 4)
    await place.train(3, template=annotated, priorityClassName=place.name)
    before = await place.uids()
    await place.taint_a_node_of_it()
    excluded = {"namespaces": {"exclude": [place.name]}} if way == "namespace" else {}
    evictor: dict[str, dict[str, Any]] = {
        "namespace": {},
        "priority": {"priorityThreshold": {"value": PRIORITY}},
        "label": {"labelSelector": NO_JOBS},
        "annotation": {"noEvictionPolicy": "Mandatory"},
    }
    await place.deschedule(policy(TAINTS, excluded, **evictor[way]))
    assert await place.uids() == before
    await place.deschedule(policy(TAINTS))
    assert len(before & await place.uids()) == 2


async def test_the_policy_that_is_shipped_evicts_from_a_gang_that_shares_a_node_again_and_again(
    place: RackedPlace,
) -> None:
    """Pods of one Job on a node are duplicates for it, and a full node beside an empty one is out of balance."""
    await place.rack("r1", 1, cpu=4)
    await place.train(4)
    await place.rack("r2", 1, cpu=4)
    before = await place.uids()
    protecting = shipped_policy()
    (evictor,) = (one for one in protecting["profiles"][0]["pluginConfig"] if one["name"] == "DefaultEvictor")
    evictor["args"] = {"labelSelector": NO_JOBS}
    await place.deschedule(protecting)
    assert await place.uids() == before
    for _ in range(2):
        await eventually(lambda: place.racks("train-"), {"r1": 4})
        before = await place.uids()
        said = await place.deschedule(shipped_policy())
        assert "RemoveDuplicates" in said
        assert len(before & await place.uids()) < 4
