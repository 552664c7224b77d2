"""What a TrainJob itself says about its parts: image, command and resources of the trainer, sources of initializers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    wanted = tj.trainer.get("resourcesPerNode")
    node = container(replicated_job, NODE_CONTAINER)
    if not wanted or node is None or ancestor(replicated_job) != TRAINER:
        return
    resources = dict(node.get("resources") or {})
    for part in ("limits", "requests"):
        if wanted.get(part):
            resources[part] = {**(resources.get(part) or {}), **wanted[part]}
    if wanted.get("claims"):
        resources["claims"] = upsert(resources.get("claims") or (), wanted["claims"])
    node["resources"] = resources


def apply_trainer(tj: TrainJob, replicated_job: Object, *, has_command: bool) -> None:
    """Image, command and arguments replace the runtime's, each on its own; variables by name.

    `has_command`: the ML policy has made the command already.
    """
    node = container(replicated_job, NODE_CONTAINER)
    if node is None or ancestor(replicated_job) != TRAINER:
        return
    for part in ("image", "command", "args"):
        if tj.trainer.get(part) and not (part == "command" and has_command):
            node[part] = tj.trainer[part]
    set_env(node, tj.trainer.get("env"))


def apply_initializer(tj: TrainJob, replicated_job: Object) -> None:
    role = ancestor(replicated_job)
    part = {DATASET_INITIALIZER: "dataset", MODEL_INITIALIZER: "model"}.get(role)
    wanted: Mapping[str, Any] | None = (tj.spec.get("initializer") or {}).get(part) if part else None
    target = container(replicated_job, role) if wanted else None
    if wanted is None or target is None:
        return
    if wanted.get("storageUri"):
        set_env(target, [{"name": "STORAGE_URI", "value": wanted["storageUri"]}])
    set_env(target, wanted.get("env"))
    if wanted.get("secretRef"):
        target["envFrom"] = [*(target.get("envFrom") or ()), {"secretRef": wanted["secretRef"]}]


def set_env(target: Object, variables: list[Object] | None) -> None:
    if variables:
        target["env"] = upsert(target.get("env") or (), variables)
