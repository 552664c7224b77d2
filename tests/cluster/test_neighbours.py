"""Echelon's scheduler beside the real kube-scheduler and the real Job controller, on the same nodes."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, Literal

import pytest
import yaml
from click.testing import CliRunner

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.vocabulary import MIRROR_POD, RACK, ZONE
from echelon.api.scheme import (
    CUSTOM_RESOURCE_DEFINITIONS,
    JOBS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    RESOURCE_QUOTAS,
    Object,
    Resource,
)
from echelon.api.verbs import Patch, PatchType, Verbs
from echelon.cli import main
from echelon.deploy.options import SCHEDULER
from echelon.testing.builders import make_node, make_pod, make_pod_group

from .child_programs import child_program
from .conftest import Side
from .controlplane import GATES, ControlPlane, home
from .gangs import count_bound
from .kubelets import kubelets
from .open_definitions import open_definition
from .process import Command, scheduler_as
from .removal import remove_all
from .waiting import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.parametrize("side", ["real"], indirect=True)]
#: The name that the real kube-scheduler serves here: others in this plane use the default one.
OTHER = "kube-scheduler"
SPACE = "neighbours"


@pytest.fixture
def verbs(side: Side) -> Verbs:
    """Of an administrator, who makes nodes and what is in them."""
    return side.verbs


def our_scheduler(side: Side) -> AbstractAsyncContextManager[Command]:
    """Under the account that an installation gives it."""
    return scheduler_as(side.acting_as(SCHEDULER).kubeconfig, "--no-leader-elect")


@pytest.fixture
async def racks(verbs: Verbs) -> AsyncIterator[dict[str, int]]:
    """Two racks of three nodes with 2 CPUs, which pods of these tests select, and a namespace."""
    names = [f"beside-{rack}-{number}" for rack in ("r1", "r2") for number in range(3)]
    for name in names:
        await verbs.create(NODES, make_node(name, cpu=2, rack=name[:-2], labels={"pool": SPACE}))
    with suppress(ApiError):  # tests share it: a real server takes many seconds to delete one
        await verbs.create(NAMESPACES, {"metadata": {"name": SPACE}})
    yield dict.fromkeys(names, 2)
    await remove_all(verbs, SPACE, JOBS, PODS, POD_GROUPS, RESOURCE_QUOTAS)
    for name in names:
        await verbs.delete(NODES, name)


@contextmanager
def kube_scheduler(plane: ControlPlane) -> Iterator[None]:
    """The real one, for pods that name `OTHER`."""
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": OTHER}],
    }
    path = plane.directory / "beside.yaml"
    path.write_text(yaml.safe_dump(configuration))
    command = [str(home() / "kube-scheduler"), f"--config={path}", "--secure-port=0", f"--feature-gates={GATES}"]
    with child_program(command, plane.directory / "beside.log"):
        yield


def gang_job(name: str, pods: int, **spec: Any) -> Object:
    """A Job whose pods are in the PodGroup of its name."""
    pod = make_pod("p", group=name, schedulerName="echelon", nodeSelector={"pool": SPACE}, restartPolicy="Never")
    template = {"spec": pod["spec"]}
    work = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": work}


async def submit(verbs: Verbs, name: str, pods: int, mode: Literal["single", "all"] = "single", **spec: Any) -> None:
    await verbs.create(POD_GROUPS, make_pod_group(name, gang=pods, key=RACK, mode=mode, namespace=SPACE), SPACE)
    await verbs.create(JOBS, gang_job(name, pods, **spec), SPACE)


async def pods_of(verbs: Verbs, job: str) -> list[Object]:
    return [pod for pod in (await verbs.list(PODS, SPACE)).items if meta.labels(pod).get("job-name") == job]


async def running_in(verbs: Verbs, job: str) -> list[str]:
    """The racks of its pods that run, one for each."""
    return [pod["spec"]["nodeName"][:-2] for pod in await pods_of(verbs, job) if pod["status"]["phase"] == "Running"]


async def test_a_gang_recovers_from_a_node_that_another_scheduler_filled(
    side: Side, verbs: Verbs, racks: dict[str, int]
) -> None:
    """Between our binding and the kubelet's look another scheduler binds a pod to the same room, and is there first."""
    async with kubelets(verbs, SPACE, racks) as nodes, our_scheduler(side):
        nodes.pause()
        await submit(verbs, "train", 3)
        await eventually(lambda: count_bound(verbs, SPACE, "train-"), 3)
        placed = Counter(pod["spec"]["nodeName"] for pod in await pods_of(verbs, "train"))
        node, ours = placed.most_common()[0]
        await verbs.create(PODS, make_pod("foreign", cpu=2, namespace=SPACE, schedulerName=OTHER), SPACE)
        await verbs.bind(SPACE, "foreign", node)
        await nodes.admit_first("foreign")
        nodes.resume()

        async def refused() -> int:
            return len(nodes.refused)

        await eventually(refused, ours)

        async def running() -> list[str]:
            return await running_in(verbs, "train")

        await eventually(running, [node[:-2]] * 3)
        alive = [pod for pod in await pods_of(verbs, "train") if pod["status"]["phase"] == "Running"]
        assert node not in {pod["spec"]["nodeName"] for pod in alive}


async def test_gangs_and_pods_of_the_real_kube_scheduler_share_nodes(
    side: Side, real_plane: ControlPlane, verbs: Verbs, racks: dict[str, int]
) -> None:
    """Both decide at the same time on what they have seen; in the end each has what fits, and no node is overfull."""
    pod: dict[str, Any] = {"cpu": 1, "namespace": SPACE, "schedulerName": OTHER, "nodeSelector": {"pool": SPACE}}
    with kube_scheduler(real_plane):
        async with kubelets(verbs, SPACE, racks) as nodes, our_scheduler(side):
            singles = asyncio.gather(
                *(verbs.create(PODS, make_pod(f"single-{number}", **pod), SPACE) for number in range(6))
            )
            await submit(verbs, "train", 3, "all", backoffLimit=100)
            await singles

            async def settled() -> tuple[int, int, bool]:
                racks_used, listed = await running_in(verbs, "train"), (await verbs.list(PODS, SPACE)).items
                alive = [one for one in listed if meta.name(one).startswith("single") and one["spec"].get("nodeName")]
                return len(racks_used), len(set(racks_used)), bool(alive)

            await eventually(settled, (3, 1, True))
            used = Counter(
                one["spec"]["nodeName"]
                for one in (await verbs.list(PODS, SPACE)).items
                if one["status"]["phase"] == "Running"
            )
            assert max(used.values()) <= 2, (used, nodes.refused)


async def test_a_gang_that_a_quota_keeps_from_being_complete_waits_and_says_where_to_look(
    side: Side, verbs: Verbs, racks: dict[str, int]
) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    await verbs.create(RESOURCE_QUOTAS, quota, SPACE)

    async def is_counted() -> bool:
        return bool((await verbs.get(RESOURCE_QUOTAS, "q", SPACE)).get("status"))

    await eventually(is_counted)
    async with our_scheduler(side):
        await submit(verbs, "train", 3)

        async def told() -> str:
            group = await verbs.get(POD_GROUPS, "train", SPACE)
            message = str((meta.find_condition(group, "PodGroupInitiallyScheduled") or {}).get("message", ""))
            return message.partition(";")[0]

        await eventually(told, "waiting for pods: 2 of 3 exist")
        assert not any(pod["spec"].get("nodeName") for pod in await pods_of(verbs, "train"))
        await verbs.patch(RESOURCE_QUOTAS, "q", Patch(PatchType.MERGE, {"spec": {"hard": {"pods": "5"}}}), SPACE)
        await eventually(lambda: count_bound(verbs, SPACE, "train-"), 3)


@pytest.mark.conformance("SCH-E19")
@pytest.mark.parametrize("wide", [ZONE, "example.com/hall"])
async def test_a_rack_name_in_two_wider_domains_is_two_domains(
    side: Side, verbs: Verbs, racks: dict[str, int], wide: str
) -> None:
    """By the labels of nodes, and by a Topology of Kueue that lists labels which nobody knows."""
    for number, name in enumerate(racks):
        labels = {wide: f"w{number % 2}", RACK: "same"}
        await verbs.patch(NODES, name, Patch(PatchType.MERGE, {"metadata": {"labels": labels}}))
    async with AsyncExitStack() as stack:
        if wide != ZONE:
            await stack.enter_async_context(kueue_topology(verbs, wide, RACK))
        await stack.enter_async_context(our_scheduler(side))
        await verbs.create(POD_GROUPS, make_pod_group("g", gang=8, key=RACK, namespace=SPACE), SPACE)
        for number in range(8):
            pod = make_pod(
                f"p{number}", group="g", namespace=SPACE, schedulerName="echelon", nodeSelector={"pool": SPACE}
            )
            await verbs.create(PODS, pod, SPACE)

        async def reason() -> str:
            found = meta.find_condition(await verbs.get(PODS, "p0", SPACE), "PodScheduled") or {}
            return str(found.get("message", ""))

        async def domains() -> list[str]:
            return sorted(set(re.findall(r"w[01]/same", await reason())))

        await eventually(domains, ["w0/same", "w1/same"])
        assert not any(pod["spec"].get("nodeName") for pod in (await verbs.list(PODS, SPACE)).items)


@asynccontextmanager
async def kueue_topology(verbs: Verbs, *keys: str) -> AsyncIterator[None]:
    """The kind that Kueue brings, and an object of it."""
    kind = Resource("kueue.x-k8s.io", "v1beta1", "topologies", "Topology", namespaced=False, builtin=False)
    definition = open_definition(kind.group, kind.version, kind.plural, kind.kind, namespaced=False)
    await verbs.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    levels = [{"nodeLabel": key} for key in keys]
    body = {"metadata": {"name": "default"}, "spec": {"levels": levels}}

    async def is_made() -> bool:
        with suppress(ApiError):
            return bool(await verbs.create(kind, body))
        return False

    await eventually(is_made)
    try:
        yield
    finally:
        await verbs.delete(CUSTOM_RESOURCE_DEFINITIONS, "topologies.kueue.x-k8s.io")


async def test_a_static_pod_and_levels_of_the_cloud_on_a_real_server(
    side: Side, verbs: Verbs, racks: dict[str, int]
) -> None:
    """A mirror pod of priority 0 stays, whatever comes; `echelon topology` reads the cluster."""
    first = next(iter(racks))
    mirror = make_pod("mirror", cpu=2, namespace=SPACE, node=first, annotations={MIRROR_POD: "hash"})
    await verbs.create(PODS, mirror, SPACE)
    async with our_scheduler(side):
        selects: dict[str, Any] = {"schedulerName": "echelon", "nodeSelector": {"kubernetes.io/hostname": first}}
        high = make_pod("high", cpu=2, namespace=SPACE, priorityClassName="system-cluster-critical", **selects)
        await verbs.create(PODS, high, SPACE)

        async def reason() -> str:
            found = meta.find_condition(await verbs.get(PODS, "high", SPACE), "PodScheduled") or {}
            return str(found.get("reason", ""))

        await eventually(reason, "Unschedulable")
        assert not meta.deleting(await verbs.get(PODS, "mirror", SPACE))
    shown = await asyncio.to_thread(
        CliRunner().invoke,
        main,
        ["topology", "--nodes", "--all-resources", "-o", "json", "--kubeconfig", str(side.kubeconfig)],
    )
    assert shown.exit_code == 0, shown.output
    seen = json.loads(shown.stdout)
    rack = next(one for one in seen["cluster"]["children"] if one["name"] == "beside-r1")
    assert (rack["nodes"], rack["free"]["cpu"], rack["total"]["cpu"]) == (3, "4", "6")
