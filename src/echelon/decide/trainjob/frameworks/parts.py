"""What an ML policy works on: the replicated jobs of a TrainJob while its JobSet is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ....api.objects import meta
from ....api.objects.subtree import items, mapping
from ....api.objects.vocabulary import COMPLETION_INDEX
from ....api.scheme import TRAIN_JOBS, Object, Resource
from ....base import quantity
from ..model import NODE_CONTAINER, TRAINER, CannotBuild, TrainJob, ancestor, container

#: Where the first node listens for the others, whatever the framework.
PORT = 29_500
#: The rank of a node: the completion index of its pod.
RANK = {"fieldRef": {"fieldPath": f"metadata.annotations['{COMPLETION_INDEX}']"}}


@dataclass(frozen=True)
class KeySecret:
    """A Secret with keys: made from random bytes where it is missing, and then kept as it is."""

    name: str
    make: Callable[[TrainJob, str, bytes], Object]


@dataclass
class Parts:
    tj: TrainJob
    #: The runtime's `mlPolicy`.
    policy: Mapping[str, Any]
    #: Patches and resources of the TrainJob are in already.
    replicated_jobs: list[Object]
    #: How many pods each replicated job runs at the same time.
    pods: dict[str, int]
    subdomain: str
    #: What pods mount, made before the JobSet: ConfigMaps that follow what is wanted, and keys.
    objects: list[Object] = field(default_factory=list)
    keys: list[KeySecret] = field(default_factory=list)

    @property
    def trainers(self) -> list[Object]:
        return [rj for rj in self.replicated_jobs if ancestor(rj) == TRAINER]

    def find(self, name: str) -> Object | None:
        return next((rj for rj in self.replicated_jobs if rj["name"] == name), None)

    def first_node(self, replicated_job: Object) -> str:
        """The host name of the node of rank 0."""
        return f"{self.tj.name}-{replicated_job['name']}-0-0.{self.subdomain}"


def owned_object(tj: TrainJob, resource: Resource, name: str, **body: Any) -> Object:
    """An object that belongs to the TrainJob and goes with it."""
    owners = [meta.owner_reference(tj.obj, TRAIN_JOBS)]
    metadata = {"name": name, "namespace": tj.namespace, "ownerReferences": owners}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **body}


def node_container(replicated_job: Object) -> Object:
    node = container(replicated_job, NODE_CONTAINER)
    if node is None:
        raise CannotBuild(
            f"the runtime's replicated job {replicated_job['name']!r} has no container {NODE_CONTAINER!r}"
        )
    return node


def open_port(node: Object) -> None:
    if all(port["containerPort"] != PORT for port in items(node, "ports")):
        node["ports"] = [*items(node, "ports"), {"containerPort": PORT, "protocol": "TCP"}]


def gpus(resources: Mapping[str, Any]) -> int:
    """How many GPUs a container has, of whatever maker."""
    for part in amounts(resources):
        for name, amount in part.items():
            if "gpu" in name.lower():
                return quantity.parse(amount, name)
    return 0


def amounts(resources: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Requests, then limits: the first that names a resource says how much of it there is."""
    return [mapping(resources, "requests"), mapping(resources, "limits")]
