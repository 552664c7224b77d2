"""The torch plugin: what `torchrun` needs to know about the other nodes, as PET_* variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...api.objects.subtree import items, mapping
from ...api.objects.vocabulary import COMPLETION_INDEX
from ...api.scheme import Object
from ...base import quantity
from . import torchtune
from .model import NODE_CONTAINER, CannotBuild, TrainJob, container, pod_template
from .overrides import set_env

PORT = 29_500


def apply(tj: TrainJob, trainer: Object, nodes: int, subdomain: str) -> list[Object]:
    """Set up the trainer's node container; answers with the variables, for further containers."""
    node = container(trainer, NODE_CONTAINER)
    if node is None:
        raise CannotBuild(f"the runtime's replicated job {trainer['name']!r} has no container {NODE_CONTAINER!r}")
    resources = mapping(node, "resources")
    processes = processes_per_node(tj, resources)
    master = f"{tj.name}-{trainer['name']}-0-0.{subdomain}"
    rank = {"fieldRef": {"fieldPath": f"metadata.annotations['{COMPLETION_INDEX}']"}}
    variables: list[Object] = [
        {"name": "PET_NNODES", "value": str(nodes)},
        {"name": "PET_NPROC_PER_NODE", "value": processes},
        {"name": "PET_NODE_RANK", "valueFrom": rank},
    ]
    addresses: list[Object] = [
        {"name": "PET_MASTER_ADDR", "value": master},
        {"name": "PET_MASTER_PORT", "value": str(PORT)},
    ]
    if torchtune.wanted(tj):
        shape = torchtune.ProcessLayout(nodes, processes, _gpus(resources))
        node["command"] = torchtune.command(tj, shape, f"{master}:{PORT}", items(node, "command"))
        set_env(node, variables)
    else:
        set_env(node, variables + addresses)
    if all(port["containerPort"] != PORT for port in items(node, "ports")):
        node["ports"] = [*items(node, "ports"), {"containerPort": PORT, "protocol": "TCP"}]
    return variables + addresses


def inject(policy: Mapping[str, Any], replicated_jobs: list[Object], variables: list[Object]) -> None:
    """The same variables for every container that `envInjection` lists."""
    for target in items(policy, "envInjection", "targets"):
        named = next((rj for rj in replicated_jobs if rj["name"] == target["jobName"]), None)
        if named is None:
            raise CannotBuild(f"mlPolicy.torch.envInjection: the runtime has no replicated job {target['jobName']!r}")
        for name in target["containerNames"]:
            found = container(named, name) or _init_container(named, name)
            if found is None:
                raise CannotBuild(f"mlPolicy.torch.envInjection: {target['jobName']!r} has no container {name!r}")
            set_env(found, variables)


def _init_container(replicated_job: Object, name: str) -> Object | None:
    every = items(pod_template(replicated_job), "spec", "initContainers")
    return next((one for one in every if one["name"] == name), None)


def processes_per_node(tj: TrainJob, resources: Mapping[str, Any]) -> str:
    """As told; else `auto` where there are GPUs, else one per CPU, rounded up."""
    explicit = tj.trainer.num_proc_per_node
    if explicit is not None:
        return str(explicit)
    if _gpus(resources) > 0:
        return "auto"
    cpu = next((part["cpu"] for part in _asked(resources) if "cpu" in part), "1")
    return str(max(1, -(-quantity.parse(cpu, "cpu") // 1000)))


def _asked(resources: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [mapping(resources, "requests"), mapping(resources, "limits")]


def _gpus(resources: Mapping[str, Any]) -> int:
    for part in _asked(resources):
        for name, amount in part.items():
            if "gpu" in name.lower():
                return quantity.parse(amount, name)
    return 0
