"""The torch plugin: what `torchrun` needs to know about the other nodes, as PET_* variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....api.objects.subtree import items, mapping
from ....api.scheme import Object
from ....base import quantity
from ..model import CannotBuild, TrainJob, container, pod_template
from ..overrides import set_env
from . import torchtune
from .parts import PORT, RANK, Parts, amounts, gpus, node_container, open_port


def apply(parts: Parts) -> None:
    for trainer in parts.trainers:
        _inject(parts, _set_up(parts, trainer))


def _set_up(parts: Parts, trainer: Object) -> list[Object]:
    """Set up the trainer's node container; answers with the variables, for further containers."""
    tj, nodes, node = parts.tj, parts.pods[trainer["name"]], node_container(trainer)
    resources = mapping(node, "resources")
    processes = processes_per_node(tj, resources)
    master = parts.first_node(trainer)
    variables: list[Object] = [
        {"name": "PET_NNODES", "value": str(nodes)},
        {"name": "PET_NPROC_PER_NODE", "value": processes},
    ]
    if int(trainer.get("replicas", 1)) > 1:
        # The index of a pod is one in its own Job: torchrun gives out the ranks where all nodes meet.
        addresses = _meeting(tj, f"{master}:{PORT}")
    else:
        variables.append({"name": "PET_NODE_RANK", "valueFrom": RANK})
        addresses = [
            {"name": "PET_MASTER_ADDR", "value": master},
            {"name": "PET_MASTER_PORT", "value": str(PORT)},
        ]
    if torchtune.wanted(tj):
        shape = torchtune.ProcessLayout(nodes, processes, gpus(resources))
        node["command"] = torchtune.command(tj, shape, f"{master}:{PORT}", items(node, "command"))
        set_env(node, variables)
    else:
        set_env(node, variables + addresses)
    open_port(node)
    return variables + addresses


def _meeting(tj: TrainJob, address: str) -> list[Object]:
    return [
        {"name": "PET_RDZV_BACKEND", "value": "c10d"},
        {"name": "PET_RDZV_ENDPOINT", "value": address},
        {"name": "PET_RDZV_ID", "value": tj.uid},
    ]


def _inject(parts: Parts, variables: list[Object]) -> None:
    """The same variables for every container that `envInjection` lists."""
    for target in items(parts.policy, "torch", "envInjection", "targets"):
        named = parts.find(target["jobName"])
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
    if gpus(resources) > 0:
        return "auto"
    cpu = next((part["cpu"] for part in amounts(resources) if "cpu" in part), "1")
    return str(max(1, -(-quantity.parse(cpu, "cpu") // 1000)))
