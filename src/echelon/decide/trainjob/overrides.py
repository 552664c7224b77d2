"""What a TrainJob itself says about its parts: image, command and resources of the trainer, sources of initializers."""

from __future__ import annotations

from collections.abc import Sequence

from ...api.objects.subtree import items, mapping
from ...api.scheme import Object
from .model import (
    DATASET_INITIALIZER,
    MODEL_INITIALIZER,
    NODE_CONTAINER,
    TRAINER,
    TrainJob,
    ancestor,
    container,
    upsert,
)


def apply_resources(tj: TrainJob, replicated_job: Object) -> None:
    """`resourcesPerNode` over the runtime's, key by key."""
    wanted = tj.trainer.resources_per_node
    node = container(replicated_job, NODE_CONTAINER)
    if not wanted or node is None or ancestor(replicated_job) != TRAINER:
        return
    resources = dict(mapping(node, "resources"))
    for part in ("limits", "requests"):
        if wanted.get(part):
            resources[part] = {**mapping(resources, part), **wanted[part]}
    if wanted.get("claims"):
        resources["claims"] = upsert(items(resources, "claims"), wanted["claims"])
    node["resources"] = resources


def apply_trainer(tj: TrainJob, replicated_job: Object, *, has_command: bool) -> None:
    """Image, command and arguments replace the runtime's, each on its own; variables by name.

    `has_command`: the ML policy has made the command already.
    """
    node = container(replicated_job, NODE_CONTAINER)
    if node is None or ancestor(replicated_job) != TRAINER:
        return
    trainer = tj.trainer
    if trainer.image:
        node["image"] = trainer.image
    if trainer.command and not has_command:
        node["command"] = list(trainer.command)
    if trainer.args:
        node["args"] = list(trainer.args)
    set_env(node, trainer.env)


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
