"""Echelon as it is installed beside the real Kueue: Kueue says when, Echelon says where.

One control plane with Kueue on it for all tests of a gate set; each test has nodes, a queue and a namespace of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.objects.vocabulary import HOSTNAME, KUEUE_REQUIRED_TOPOLOGY
from echelon.api.scheme import (
    JOBS,
    PODS,
    Object,
)

from . import kueue_objects as kueue
from .controlplane import ControlPlane, GateSet, control_plane
from .installing import run
from .kubelets import kubelets
from .logins import client_of
from .neighbour_programs import KUEUE, beside, skip_without
from .waiting import eventually
from .work_places import Place, at_work

pytestmark = pytest.mark.cluster_long
BLOCK, RACK = "example.com/hall", "example.com/shelf"
#: Gates of Kueue that are on by default and go off together: it does not start with the first off and others on.
TOPOLOGY_GATES = (
    "TopologyAwareScheduling", "TASProfileMixed", "TASHandleOverlappingFlavors", "TASFailedNodeReplacement",
    "TASFailedNodeReplacementFailFast", "TASReplaceNodeOnPodTermination", "TASReplaceNodeDueToNotReadyOverFixedTime",
    "TASReplaceNodeOnNodeTaints",
)  # fmt: skip
_numbers = itertools.count()


@pytest.fixture(scope="module", params=[(GateSet.ALL, True), (GateSet.NONE, True)], ids=lambda one: str(one[0]))
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The parameter says the gates of the server, and whether Kueue may place by topology."""
    skip_without(KUEUE)
    gates, topology_aware = request.param
    changed = {} if topology_aware else {"featureGates": dict.fromkeys(TOPOLOGY_GATES, False)}
    with (
        control_plane(tmp_path_factory.mktemp("kueue"), strict=True, gates=gates) as running,
        beside(running, KUEUE, **changed),
    ):
        yield running


class QueuePlace(Place):
    """A place with a queue of its name."""

    async def racks(self, racks: int, nodes: int) -> None:
        """Racks of so many nodes in one block, by labels that only a Topology knows."""
        for rack in range(racks):
            for number in range(nodes):
                await self.nodes(f"r{rack}-{number}", labels={BLOCK: "b", RACK: f"r{rack}"})

    async def queue(self, cpus: int, flavor: dict[str, Any] | None = None, **spec: Any) -> None:
        await self.verbs.create(kueue.FLAVORS, kueue.flavor(self.name, {"pool": self.name}, **(flavor or {})))
        await self.verbs.create(kueue.CLUSTER_QUEUES, kueue.cluster_queue(self.name, cpus, **spec))
        await self.verbs.create(kueue.LOCAL_QUEUES, kueue.local_queue(self.name, self.name), self.name)

    async def job(self, name: str, pods: int, *, level: str = "", annotated: str = "", priority: str = "") -> None:
        """A gang of one CPU each, in the form that the server keeps.

        It is to be in one domain of a `level` of its group, or of one that its pods are `annotated` with for Kueue.
        """
        constraints = {"schedulingConstraints": {"topology": [{"key": level}]}} if level else {}
        job = self.gang_job(name, pods, **constraints)
        job["metadata"]["labels"] = {kueue.QUEUE: self.name} | ({kueue.PRIORITY: priority} if priority else {})
        if annotated:
            job["spec"]["template"]["metadata"] = {"annotations": {KUEUE_REQUIRED_TOPOLOGY: annotated}}
        await self.verbs.create(JOBS, job, self.name)

    async def suspended(self, job: str) -> bool:
        return bool((await self.verbs.get(JOBS, job, self.name))["spec"].get("suspend"))


@pytest.fixture
async def place(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[QueuePlace]:
    async with client_of(plane.kubeconfig) as verbs:
        place = QueuePlace(plane, verbs, f"team-{next(_numbers)}")
        async with at_work(place, tmp_path):
            yield place
            await place.clear(JOBS, PODS, kueue.WORKLOADS)
            for topology in (await verbs.list(kueue.TOPOLOGIES)).items:
                await verbs.delete(kueue.TOPOLOGIES, meta.name(topology))


async def test_a_gang_starts_when_its_quota_is_free_and_not_before(place: QueuePlace) -> None:
    """There is room for both on the nodes; the second waits for quota alone."""
    await place.nodes("a", "b")
    await place.queue(cpus=5)
    await place.job("first", 4)
    await eventually(lambda: place.placed("first-"), 4)
    assert {one["spec"]["nodeSelector"]["pool"] for one in await place.pods("first-")} == {place.name}
    await place.job("second", 4)
    await eventually(lambda: _waits_for_quota(place, "second"))
    assert await place.suspended("second")
    assert await place.pods("second-") == []
    await place.finish("first-")
    await eventually(lambda: place.placed("second-"), 4)


async def _waits_for_quota(place: QueuePlace, job: str) -> bool:
    return "insufficient unused quota" in await _refusal(place, job)


async def _refusal(place: QueuePlace, job: str) -> str:
    """Why Kueue has looked at a Job and not admitted it."""
    for workload in (await place.verbs.list(kueue.WORKLOADS, place.name)).items:
        found = meta.find_condition(workload, "QuotaReserved") or {}
        if f"-{job}-" in meta.name(workload) and found.get("status") == "False":
            return str(found.get("message"))
    return ""


async def test_a_gang_with_quota_and_without_room_waits_as_a_whole(place: QueuePlace) -> None:
    await place.nodes("a")
    await place.queue(cpus=100)
    await place.job("train", 6)

    async def says_why() -> bool:
        return "6 pods" in await place.told("train")

    await eventually(says_why)
    assert not await place.suspended("train")
    assert len(await place.pods("train-")) == 6
    assert await place.placed("train-") == 0
    await place.nodes("b")
    await eventually(lambda: place.placed("train-"), 6)


async def test_pods_of_a_pod_group_are_placed_when_kueue_lifts_their_gates(place: QueuePlace) -> None:
    await place.nodes("a", "b")
    await place.queue(cpus=4)
    await place.job("first", 3)
    await eventually(lambda: place.placed("first-"), 3)
    await place.group("mine", 3)
    for number in range(3):
        await place.verbs.create(PODS, _member(f"mine-{number}", "mine", 3, place), place.name)
    for pod in await place.pods("mine-"):
        assert {"name": kueue.ADMISSION_GATE} in pod["spec"]["schedulingGates"]

    async def names_the_gate() -> bool:
        return kueue.ADMISSION_GATE in await place.told("mine")

    await eventually(names_the_gate)
    assert await place.placed("mine-") == 0
    await place.finish("first-")
    await eventually(lambda: place.placed("mine-"), 3)


def _member(name: str, group: str, pods: int, place: QueuePlace) -> Object:
    pod = place.member(name, group)
    pod["metadata"]["labels"] |= {kueue.QUEUE: place.name, kueue.POD_GROUP_NAME: group}
    pod["metadata"]["annotations"] = {kueue.POD_GROUP_COUNT: str(pods)}
    return pod


async def test_pods_go_exactly_where_topology_aware_scheduling_of_kueue_says(place: QueuePlace) -> None:
    await place.racks(2, 2)
    await place.verbs.create(kueue.TOPOLOGIES, kueue.topology(place.name, BLOCK, RACK, HOSTNAME))
    await place.queue(cpus=100, flavor={"topologyName": place.name})
    await place.job("first", 6, annotated=RACK)
    await place.job("second", 6, annotated=RACK)
    await eventually(lambda: place.placed("first-"), 6)
    await eventually(lambda: place.placed("second-"), 6)
    for job in ("first", "second"):
        pods = await place.pods(f"{job}-")
        chosen = [one["spec"]["nodeSelector"][HOSTNAME] for one in pods]
        assert [one["spec"]["nodeName"] for one in pods] == chosen
        assert len({name.rpartition("-")[0] for name in chosen}) == 1
        assert await _assigned(place, job) == sorted(chosen)


async def _assigned(place: QueuePlace, job: str) -> list[str]:
    """The nodes of Kueue's own plan, one for each pod."""
    (workload,) = (
        one for one in (await place.verbs.list(kueue.WORKLOADS, place.name)).items if f"-{job}-" in meta.name(one)
    )
    (assignment,) = workload["status"]["admission"]["podSetAssignments"]
    names: list[str] = []
    for part in assignment["topologyAssignment"]["slices"]:
        counts, (values,) = part["podCounts"], part["valuesPerLevel"]
        hosts = _spelt(values, part["domainCount"])
        many = counts.get("individual") or [counts["universal"]] * len(hosts)
        names += [host for host, count in zip(hosts, many, strict=True) for _ in range(count)]
    return sorted(names)


def _spelt(values: Object, count: int) -> list[str]:
    """Kueue writes names that begin and end alike only once."""
    if "universal" in values:
        return [values["universal"]] * count
    many = values["individual"]
    return [f"{many.get('prefix', '')}{root}{many.get('suffix', '')}" for root in many["roots"]]


async def test_a_topology_of_kueue_gives_levels_where_kueue_does_not_place(place: QueuePlace) -> None:
    """The flavor names no topology, so quota is all that Kueue looks at."""
    await place.racks(2, 2)
    await place.verbs.create(kueue.TOPOLOGIES, kueue.topology(place.name, BLOCK, RACK, HOSTNAME))
    await place.queue(cpus=100)
    code, said = await run(place.plane, "topology")
    assert code == 0, said
    assert f"Topology/{place.name} of kueue.x-k8s.io" in said, said
    await place.job("large", 10, level=RACK)
    await place.job("train", 6, level=RACK)
    await _only_what_fits_a_rack_is_placed(place)


async def _only_what_fits_a_rack_is_placed(place: QueuePlace) -> None:
    """Two racks of 8 CPUs have room for 10 pods, but neither has alone; Kueue has chosen no node."""

    async def is_too_large() -> bool:
        return "10 pods" in await place.told("large")

    await eventually(is_too_large)
    await eventually(lambda: place.placed("train-"), 6)
    assert await place.placed("large-") == 0
    found = await place.pods("train-")
    assert all(HOSTNAME not in one["spec"]["nodeSelector"] for one in found)
    assert len({one["spec"]["nodeName"].rpartition("-")[0] for one in found}) == 1


async def test_an_annotation_for_topology_is_refused_by_kueue_where_the_flavor_has_none(place: QueuePlace) -> None:
    """While Kueue has its topology-aware scheduling switched on, as it has by default."""
    await place.racks(2, 2)
    await place.queue(cpus=100)
    await place.job("train", 6, annotated=RACK)

    async def is_refused() -> bool:
        return "does not support TopologyAwareScheduling" in await _refusal(place, "train")

    await eventually(is_refused)
    assert await place.suspended("train")


@pytest.mark.parametrize("plane", [(GateSet.ALL, False)], indirect=True, ids=["without-topology-aware-scheduling"])
async def test_an_annotation_for_topology_is_honoured_where_kueue_does_not_know_it(place: QueuePlace) -> None:
    await place.racks(2, 2)
    await place.verbs.create(kueue.TOPOLOGIES, kueue.topology(place.name, BLOCK, RACK, HOSTNAME))
    await place.queue(cpus=100)
    await place.job("large", 10, annotated=RACK)
    await place.job("train", 6, annotated=RACK)
    await _only_what_fits_a_rack_is_placed(place)


async def test_a_workload_that_kueue_preempts_makes_room_for_the_higher_one(place: QueuePlace) -> None:
    """Kueue suspends the lower Job, the Job controller ends its pods, and only then is there room on the nodes."""
    await place.nodes("a")
    await place.queue(cpus=4, preemption={"withinClusterQueue": "LowerPriority"})
    for name, value in (("low", 1), ("high", 1000)):
        await place.verbs.create(kueue.PRIORITIES, kueue.priority_class(f"{place.name}-{name}", value))
    async with kubelets(place.verbs, place.name, {f"{place.name}-a": 4}) as nodes:
        await place.job("low", 4, priority=f"{place.name}-low")
        await eventually(lambda: _running(place, "low-"), 4)
        await place.job("high", 4, priority=f"{place.name}-high")
        await eventually(lambda: _running(place, "high-"), 4)
        assert await place.suspended("low")
        assert await place.placed("low-") == 0
        assert nodes.refused == []
        await place.finish("high-")
        await eventually(lambda: _running(place, "low-"), 4)


async def _running(place: QueuePlace, prefix: str) -> int:
    return sum(one["status"]["phase"] == "Running" for one in await place.pods(prefix))
