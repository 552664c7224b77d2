"""Objects and a reader for the tests of rules and admission."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pytest

from echelon.api import rules, scheme
from echelon.api.errors import FieldError
from echelon.api.schema import kind_schema
from echelon.api.scheme import Object, Resource
from echelon.testing.builders import bare_pod

NAMESPACE: Object = {"metadata": {"name": "ns"}, "status": {"phase": "Active"}}


class Cluster:
    """A fixed set of objects, read as admission reads them."""

    disabled_features: frozenset[str] = frozenset()

    def __init__(self, *objects: tuple[Resource, Object]) -> None:
        self._objects = [(scheme.NAMESPACES, NAMESPACE), *objects]

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        for obj in self.list(resource, namespace):
            if obj["metadata"]["name"] == name:
                return obj
        return None

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]:
        for kind, obj in self._objects:
            if kind.prefix == resource.prefix and namespace in ("", obj["metadata"].get("namespace", "")):
                yield obj


def named(name: str = "x", **body: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "ns"}, **body}


def pod_group(**spec: Any) -> Object:
    return named(spec={"schedulingPolicy": {"gang": {"minCount": 2}}, **spec})


def composite(**spec: Any) -> Object:
    reference = {"workloadName": "w", "templateName": "t"}
    return named(spec={"schedulingPolicy": {"gang": {"minGroupCount": 2}}, "workloadRef": reference, **spec})


def leaf(name: str = "leaf", **more: Any) -> Object:
    return {"name": name, "schedulingPolicy": {"gang": {"minCount": 2}}, **more}


def branch(name: str, *children: Object, **more: Any) -> Object:
    """A composite template; children that have children are composites themselves."""
    made: Object = {"name": name, "schedulingPolicy": {"gang": {"minGroupCount": 1}}, **more}
    for child in children:
        field = "podGroupTemplates" if "minCount" in str(child["schedulingPolicy"]) else "compositePodGroupTemplates"
        made.setdefault(field, []).append(child)
    return made


def workload(*templates: Object, **spec: Any) -> Object:
    lists = {field: value for field, value in branch("", *templates).items() if field.endswith("Templates")}
    return named(spec={**lists, **spec})


def edited(obj: Object, path: str, value: Any) -> Object:
    """A copy of `obj` with one field set, or removed if the value is None; list items by index."""
    result = copy.deepcopy(obj)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    holder: Any = result
    for part in parents:
        holder = holder[part] if isinstance(part, int) else holder.setdefault(part, {})
    if value is None:
        del holder[last]
    else:
        holder[last] = value
    return result


def on_create(resource: Resource, obj: Object) -> list[str]:
    return told(rules.validate_create(resource, obj))


def on_update(resource: Resource, new: Object, old: Object, subresource: str = "") -> list[str]:
    return told(rules.validate_update(resource, new, old, subresource))


def told(problems: list[FieldError]) -> list[str]:
    return [str(problem) for problem in problems]


def stored(resource: Resource, body: Object) -> Object:
    """An object as it is after decoding and defaulting."""
    obj = kind_schema.decode(resource, body).obj
    kind_schema.apply_defaults(resource, obj)
    rules.default(resource, obj, None)
    return obj


def stored_pod(**spec: Any) -> Object:
    return stored(scheme.PODS, bare_pod("x", namespace="ns", **spec))


def job(template: Object | None = None, **spec: Any) -> Object:
    """A Job as stored; `template` adds to its pod spec."""
    pods = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}], **(template or {})}
    made = named("j", spec={"template": {"spec": pods}, **spec})
    made["metadata"]["uid"] = "job-uid"
    return stored(scheme.JOBS, made)


def replicated(name: str = "workers", pods: Object | None = None, job: Object | None = None, **more: Any) -> Object:
    """An entry of a JobSet's replicatedJobs."""
    spec = {"containers": [{"name": "c", "image": "x"}], **(pods or {})}
    return {"name": name, "template": {"spec": {"template": {"spec": spec}, **(job or {})}}, **more}


def job_set(*jobs: Object, annotations: dict[str, str] | None = None, name: str = "js", **spec: Any) -> Object:
    made = named(name, spec={"replicatedJobs": list(jobs) or [replicated()], **spec})
    if annotations:
        made["metadata"]["annotations"] = annotations
    return stored(scheme.JOB_SETS, made)


def refused(resource: Resource, obj: Object) -> list[str]:
    """Everything the server would refuse a new object for: its schema's rules and its kind's."""
    return told([*kind_schema.check(resource, obj), *rules.validate_create(resource, obj)])


def step(name: str, role: str = "", container: str = "", **more: Any) -> Object:
    """A replicated job of a runtime that plays a part in TrainJobs."""
    mounts = [{"name": "initializer", "mountPath": "/workspace"}]
    made = replicated(name, pods={"containers": [{"name": container or name, "image": "x", "volumeMounts": mounts}]})
    if role:
        made["template"]["metadata"] = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": role}}
    return {**made, **more}


def runtime(*jobs: Object, name: str = "torch", template: Object | None = None, **spec: Any) -> Object:
    """A ClusterTrainingRuntime as stored."""
    steps = list(jobs) or [step("node", "trainer")]
    body = {"mlPolicy": {"torch": {}}, "template": {"spec": {"replicatedJobs": steps, **(template or {})}}, **spec}
    return stored(scheme.CLUSTER_TRAINING_RUNTIMES, {"metadata": {"name": name}, "spec": body})


def train_job(name: str = "tj", **spec: Any) -> Object:
    return stored(scheme.TRAIN_JOBS, named(name, spec={"runtimeRef": {"name": "torch"}, **spec}))


def runtime_patch(manager: str = "acme.io/m", job: str = "node", pods: Object | None = None, **more: Any) -> Object:
    """An entry of a TrainJob's runtimePatches."""
    change = {"name": job, "template": {"spec": {"template": {"spec": pods or {}}}}}
    return {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [change]}}}, **more}


def proves(ids: list[str], *case: Any) -> Any:
    """A case that covers these items of the conformance lists."""
    return pytest.param(*case, marks=pytest.mark.conformance(*ids))
