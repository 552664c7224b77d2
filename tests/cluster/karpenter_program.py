"""Karpenter beside us, with its provider of nodes that have no machine; the machines are played by tests.

What its chart says is installed, but for the Deployment: its program runs here, under a token of its ServiceAccount.
Nodes that it makes are objects without a kubelet: they become ready, and run pods, when `Machines` let them.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import NODES, Object, Resource
from echelon.api.verbs import Patch, PatchType, Verbs
from echelon.base.instants import to_time
from tests.clients.environments import program

from .controlplane import ControlPlane, free_ports
from .kubelets import Kubelets, kubelets
from .neighbour_programs import Neighbour, answers, apply, running, until

KARPENTER = Neighbour("karpenter", "sigs.k8s.io/karpenter", "charts", pinned="karpenter")
NODE_POOLS = Resource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False, builtin=False)
NODE_CLAIMS = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", namespaced=False, builtin=False)
_NODE_CLASSES = Resource(
    "karpenter.kwok.sh", "v1alpha1", "kwoknodeclasses", "KWOKNodeClass", namespaced=False, builtin=False
)
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
#: What a node of it has for pods.
CPUS = 4
_NAMESPACE = "kube-system"
_NODE_CLASS = "default"
_PROVIDER = "kwok://"
#: On every node until its machine runs: there is no admission here that taints new nodes, as clusters have it.
_STARTING = {"key": "example.com/starting", "effect": "NoSchedule"}
_POLL_SECONDS = 0.2


@contextmanager
def karpenter(plane: ControlPlane) -> Iterator[Path]:
    """Installed and ready for as long as the block lasts; yields its log."""
    directory = plane.directory / KARPENTER.name
    directory.mkdir()
    manifests = KARPENTER.home / "manifests"
    rendered = _rendered_by_helm(manifests / KARPENTER.overlay, directory)
    classes = [yaml.safe_load(one.read_text()) for one in sorted((manifests / "apis" / "crds").iterdir())]
    apply(plane, [*classes, *(one for one in rendered if one["kind"] != "Deployment")])
    (deployment,) = (one for one in rendered if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    metrics, health = free_ports(2)
    types = directory / "instance-types.json"
    types.write_text(json.dumps([_instance_type()]))
    variables = {
        **{one["name"]: one["value"] for one in container["env"] if "value" in one},
        "SYSTEM_NAMESPACE": _NAMESPACE, "METRICS_PORT": str(metrics), "HEALTH_PROBE_PORT": str(health),
        "DISABLE_LEADER_ELECTION": "true", "INSTANCE_TYPES_FILE_PATH": str(types), "LOG_LEVEL": "debug",
    }  # fmt: skip
    with running(plane, KARPENTER, deployment, directory, container.get("args", []), variables) as (child, log):
        until(child, log, lambda: answers(f"http://127.0.0.1:{health}/readyz"))
        yield log


def _rendered_by_helm(chart: Path, directory: Path) -> list[Object]:
    command = [str(program("helm4")), "template", KARPENTER.name, str(chart), "--namespace", _NAMESPACE]
    command += ["--include-crds", "--set", "controller.image.repository=karpenter.example/kwok"]
    for gate in ("staticCapacity", "capacityBuffer"):  # its values leave them empty, and it does not start so
        command += ["--set", f"settings.featureGates.{gate}=false"]
    environment = {"HOME": str(directory)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.load_all(done.stdout, yaml.CSafeLoader) if one]


def _instance_type() -> Object:
    """The only one that there is; the provider keeps 100m of its CPUs for itself."""
    requirements = [("karpenter.sh/capacity-type", "on-demand"), ("topology.kubernetes.io/zone", "z1")]
    offering = {
        "Price": 1.0,
        "Available": True,
        "Requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in requirements],
    }
    resources = {"cpu": f"{CPUS * 1000 + 100}m", "memory": "64Gi", "ephemeral-storage": "20Gi", "pods": "110"}
    return {
        "name": f"m-{CPUS}x", "offerings": [offering], "architecture": "amd64", "operatingSystems": ["linux"],
        "resources": resources,
    }  # fmt: skip


async def make_pool(verbs: Verbs, name: str, labels: dict[str, str], **spec: Any) -> None:
    """A NodePool of nodes with these labels, which takes away at once what it does not need."""
    with suppress(ApiError):  # there from an earlier one
        await verbs.create(_NODE_CLASSES, {"metadata": {"name": _NODE_CLASS}, "spec": {}})
    reference = {"group": _NODE_CLASSES.group, "kind": _NODE_CLASSES.kind, "name": _NODE_CLASS}
    linux = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
    node = {"nodeClassRef": reference, "requirements": [linux], "expireAfter": "Never", "startupTaints": [_STARTING]}
    pool: Object = {
        "template": {"metadata": {"labels": labels}, "spec": node},
        "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"},
        **spec,
    }
    await verbs.create(NODE_POOLS, {"metadata": {"name": name}, "spec": pool})


class Machines:
    """What stands behind the nodes of Karpenter: they report that they are ready, and run pods."""

    def __init__(self, verbs: Verbs, nodes: Kubelets) -> None:
        self._verbs = verbs
        self.kubelets = nodes
        #: How many may become ready; others are on their way.
        self.most = 1000
        self.ready: list[str] = []

    async def run(self) -> None:
        while True:
            with suppress(ApiError):
                await self._look()
            await asyncio.sleep(_POLL_SECONDS)

    async def _look(self) -> None:
        for node in (await self._verbs.list(NODES)).items:
            registered = [one["key"] for one in node["spec"].get("taints", ())] == [_STARTING["key"]]
            theirs = node["spec"].get("providerID", "").startswith(_PROVIDER)
            if theirs and registered and len(self.ready) < self.most and not meta.deleting(node):
                await self._start(meta.name(node))

    async def _start(self, node: str) -> None:
        now = to_time(time.time())
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": now}
        status = Patch(PatchType.MERGE, {"status": {"conditions": [ready]}})
        await self._verbs.patch(NODES, node, status, subresource="status")
        self.kubelets.add(node, CPUS)
        await self._verbs.patch(NODES, node, Patch(PatchType.MERGE, {"spec": {"taints": None}}))
        self.ready.append(node)


@asynccontextmanager
async def machines(verbs: Verbs, namespace: str, others: dict[str, int]) -> AsyncIterator[Machines]:
    """At work while the block lasts, together with kubelets of other nodes, by their CPUs."""
    async with kubelets(verbs, namespace, others) as nodes:
        made = Machines(verbs, nodes)
        task = asyncio.create_task(made.run())
        try:
            yield made
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
