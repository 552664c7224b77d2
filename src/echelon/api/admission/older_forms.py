"""Older forms of a TrainJob: what earlier releases called by other names is taken over, with a warning.

    spec.labels, spec.annotations   labels and annotations of the JobSet
    spec.podSpecOverrides[]         fields of pods, flat, for the replicated jobs in targetJobs
    spec.podTemplateOverrides[]     the same with metadata and spec

All of it becomes one entry of spec.runtimePatches, and the old fields go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..objects.subtree import items, mapping
from ..patching import strategic_merge
from ..scheme import TRAIN_JOBS, Object, Resource

MANAGER = "trainer.kubeflow.org/legacy-overrides"
FIELDS = ("labels", "annotations", "podSpecOverrides", "podTemplateOverrides")
_POD_TEMPLATE = {"$ref": "io.k8s.api.core.v1.PodTemplateSpec"}


def convert_older_forms(resource: Resource, obj: Object, warn: Callable[[str], None]) -> None:
    """Rewrite the object in place."""
    spec = obj.get("spec")
    if resource is not TRAIN_JOBS or not isinstance(spec, dict) or not any(field in spec for field in FIELDS):
        return
    old = {field: spec.pop(field) for field in FIELDS if field in spec}
    for field in old:
        warn(f'spec.{field} is of an older release: it is stored in spec.runtimePatches under the manager "{MANAGER}"')
    patch = {"manager": MANAGER, "trainingRuntimeSpec": {"template": _template(old)}}
    others = [one for one in items(spec, "runtimePatches") if one.get("manager") != MANAGER]
    spec["runtimePatches"] = [patch, *others]


def _template(old: Object) -> Object:
    template: Object = {}
    metadata = {part: old[part] for part in ("labels", "annotations") if old.get(part)}
    if metadata:
        template["metadata"] = metadata
    pods: dict[str, Object] = {}
    for override in items(old, "podSpecOverrides"):
        flat = {field: value for field, value in override.items() if field != "targetJobs"}
        _override(pods, override, {"spec": flat})
    for override in items(old, "podTemplateOverrides"):
        parts = {part: override[part] for part in ("metadata", "spec") if override.get(part)}
        _override(pods, override, parts)
    if pods:
        jobs = [{"name": name, "template": {"spec": {"template": one}}} for name, one in pods.items()]
        template["spec"] = {"replicatedJobs": jobs}
    return template


def _override(pods: dict[str, Object], override: Any, change: Object) -> None:
    """Merge a change into what is known of each of its targets: later overrides win."""
    for target in items(override, "targetJobs"):
        name = str(target["name"])
        pods[name] = strategic_merge.merge(_POD_TEMPLATE, mapping(pods, name), change)
