"""The runtime of a TrainJob, frozen in a ConfigMap when it is first used: later edits of the runtime change nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import msgspec
import yaml

from ...api.objects import meta
from ...api.objects.subtree import mapping
from ...api.scheme import CONFIG_MAPS, TRAIN_JOBS, Object
from .model import CannotBuild, Observed, TrainJob

_KEY = "runtime"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Resolved:
    runtime: Object
    #: The ConfigMap to create, if there is none yet.
    snapshot: Object | None = None


def resolve(tj: TrainJob, observed: Observed) -> Resolved:
    stored = observed.find(CONFIG_MAPS, snapshot_name(tj))
    if stored is not None:
        return Resolved(_thaw(tj, stored))
    if observed.runtime is None:
        raise CannotBuild(f"{tj.spec.runtime_ref.kind} {tj.runtime_name} not found")
    return Resolved(observed.runtime, _freeze(tj, observed.runtime))


def limited(tj: TrainJob, observed: Observed) -> TrainJob:
    """The TrainJob with the limits of its runtime's runPolicy where it says none itself."""
    spec = tj.spec
    if spec.active_deadline_seconds is not None and spec.ttl_seconds_after_finished is not None:
        return tj
    try:
        policy = mapping(resolve(tj, observed).runtime, "spec", "runPolicy")
    except CannotBuild:
        return tj
    if not policy:
        return tj
    wanted = {
        "active_deadline_seconds": spec.active_deadline_seconds or policy.get("activeDeadlineSeconds"),
        "ttl_seconds_after_finished": policy.get("ttlSecondsAfterFinished")
        if spec.ttl_seconds_after_finished is None
        else spec.ttl_seconds_after_finished,
    }
    return replace(tj, spec=msgspec.structs.replace(spec, **wanted))


def snapshot_name(tj: TrainJob) -> str:
    return f"{tj.name}-runtime-snapshot"


def _freeze(tj: TrainJob, runtime: Object) -> Object:
    resource = tj.runtime_resource
    assert resource is not None
    metadata = {key: value for key, value in runtime["metadata"].items() if key != "managedFields"}
    whole = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": mapping(runtime, "spec"),
    }
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {
            "name": snapshot_name(tj),
            "namespace": tj.namespace,
            "ownerReferences": [meta.owner_reference(tj.obj, TRAIN_JOBS)],
        },
        "data": {_KEY: yaml.safe_dump(whole, sort_keys=False)},
    }


def _thaw(tj: TrainJob, stored: Object) -> Object:
    where = f"ConfigMap {meta.name(stored)}"
    if not meta.controlled_by(stored, tj.uid):
        raise CannotBuild(f"{where} does not belong to this TrainJob; delete it, or rename the TrainJob")
    text = mapping(stored, "data").get(_KEY)
    if text is None:
        raise CannotBuild(f"{where} has no key {_KEY!r}; delete it to take a new snapshot")
    try:
        runtime = _parsed(text)
    except yaml.YAMLError as error:
        raise CannotBuild(f"{where} holds no YAML: {error}; delete it to take a new snapshot") from error
    if not isinstance(runtime, dict) or not _is_the_one_meant(tj, runtime):
        raise CannotBuild(f"{where} holds another runtime than {tj.runtime_name}; delete it to take a new snapshot")
    return runtime


@lru_cache(maxsize=512)
def _parsed(text: str) -> Any:
    """Every decision about a TrainJob reads its snapshot; nobody changes what comes out."""
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader, in C where there is one


def _is_the_one_meant(tj: TrainJob, runtime: Object) -> bool:
    resource = tj.runtime_resource
    assert resource is not None
    return (
        str(runtime.get("apiVersion", "")).split("/")[0] == resource.group
        and runtime.get("kind") == resource.kind
        and mapping(runtime, "metadata").get("name") == tj.runtime_name
    )
