"""What a TrainJob itself says about its parts: image, command and resources of the trainer, sources of initializers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...api.objects.subtree import items, mapping
from ...api.scheme import Object
from .model import (
    DATASET_INITIALIZER,
    MODEL_INITIALIZER,
    NODE,
    NODE_CONTAINER,
    TRAINER,
    TrainJob,
    ancestor,
    container,
    upsert,
)


def trains(replicated_job: Object, policy: Mapping[str, Any]) -> bool:
    """Whether its pods are nodes of the training; workers of mpi are, beside a launcher that is one of them."""
    as_node = replicated_job["name"] == NODE and mapping(policy, "mpi").get("runLauncherAsNode")
    return ancestor(replicated_job) == TRAINER or bool(as_node)


def apply_resources(tj: TrainJob, replicated_job: Object) -> None:
    """`resourcesPerNode` over the runtime's, key by key."""
    wanted = tj.trainer.resources_per_node
    node = container(replicated_job, NODE_CONTAINER)
    if not wanted or node is None:
        return
    resources = dict(mapping(node, "resources"))
    for part in ("limits", "requests"):
        if wanted.get(part):
            resources[part] = {**mapping(resources, part), **wanted[part]}
    if wanted.get("claims"):
        resources["claims"] = upsert(items(resources, "claims"), wanted["claims"])
    node["resources"] = resources


def apply_env(tj: TrainJob, replicated_job: Object) -> None:
    """Variables of the trainer: before those of the ML policy, and over them where both have one."""
    node = container(replicated_job, NODE_CONTAINER)
    if node is not None:
        set_env(node, tj.trainer.env)


def apply_image(tj: TrainJob, replicated_job: Object) -> None:
    """The image of all nodes: what a launcher starts must be there on its workers."""
    node = container(replicated_job, NODE_CONTAINER)
    if node is not None and tj.trainer.image:
        node["image"] = tj.trainer.image


def apply_trainer(tj: TrainJob, replicated_job: Object, made: Sequence[str]) -> None:
    """Command and arguments replace the runtime's, each on its own.

    `made`: fields that the ML policy has made of the TrainJob's already.
    """
    node = container(replicated_job, NODE_CONTAINER)
    if node is None or ancestor(replicated_job) != TRAINER:
        return
    trainer = tj.trainer
    if trainer.command and "command" not in made:
        node["command"] = list(trainer.command)
    if trainer.args and "args" not in made:
        node["args"] = list(trainer.args)


def apply_initializer(tj: TrainJob, replicated_job: Object) -> None:
    role = ancestor(replicated_job)
    sources = tj.spec.initializer
    wanted = {DATASET_INITIALIZER: sources.dataset, MODEL_INITIALIZER: sources.model}.get(role)
    target = container(replicated_job, role) if wanted else None
    if wanted is None or target is None:
        return
    if wanted.storage_uri:
        set_env(target, [{"name": "STORAGE_URI", "value": wanted.storage_uri}])
    set_env(target, wanted.env)
    if wanted.secret_ref:
        target["envFrom"] = [*items(target, "envFrom"), {"secretRef": wanted.secret_ref}]


def set_env(target: Object, variables: Sequence[Object]) -> None:
    if variables:
        target["env"] = upsert(items(target, "env"), variables)
