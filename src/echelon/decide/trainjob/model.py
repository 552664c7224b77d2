"""A TrainJob as its decisions read it, and what the caches hold about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...api.objects import meta
from ...api.objects.vocabulary import TRAINJOB_ANCESTOR_STEP
from ...api.scheme import CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES, Object, Resource

CONTROLLER_NAME = "trainer.kubeflow.org/trainjob-controller"
TRAINER = "trainer"
DATASET_INITIALIZER = "dataset-initializer"
MODEL_INITIALIZER = "model-initializer"
#: The container in which training runs.
NODE_CONTAINER = "node"


class CannotBuild(Exception):
    """A TrainJob whose objects cannot be made now; the message goes into an event and the attempt is repeated."""


@dataclass(frozen=True)
class TrainJob:
    obj: Object
    name: str
    namespace: str
    uid: str
    spec: Mapping[str, Any]
    suspended: bool

    @property
    def trainer(self) -> Mapping[str, Any]:
        return self.spec.get("trainer") or {}

    @property
    def runtime_name(self) -> str:
        return str(self.spec["runtimeRef"]["name"])

    @property
    def runtime_resource(self) -> Resource | None:
        """The kind of runtime it refers to, None if there is no such kind."""
        reference = self.spec["runtimeRef"]
        asked = (
            reference.get("apiGroup") or CLUSTER_TRAINING_RUNTIMES.group,
            reference.get("kind") or CLUSTER_TRAINING_RUNTIMES.kind,
        )
        for resource in (CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES):
            if (resource.group, resource.kind) == asked:
                return resource
        return None


@dataclass(frozen=True)
class Observed:
    """What the caches hold about one TrainJob."""

    trainjob: Object
    #: The runtime it refers to, as it is now.
    runtime: Object | None
    #: Workloads and pod groups controlled by it.
    workloads: Sequence[Object]
    pod_groups: Sequence[Object]
    #: Anything in its namespace, whoever owns it.
    find: Callable[[Resource, str], Object | None]


def read(obj: Object) -> TrainJob:
    spec = obj["spec"]
    return TrainJob(obj, meta.name(obj), meta.namespace(obj), meta.uid(obj), spec, bool(spec.get("suspend")))


def ancestor(replicated_job: Object) -> str:
    """Which part of a TrainJob a replicated job of the runtime plays; "" for none of them."""
    labels = ((replicated_job.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return str(labels.get(TRAINJOB_ANCESTOR_STEP) or "")


def pod_template(replicated_job: Object) -> Object:
    """The pod template of a replicated job, made where it is missing."""
    job: Object = replicated_job.setdefault("template", {}).setdefault("spec", {})
    template: Object = job.setdefault("template", {})
    template.setdefault("spec", {})
    return template


def container(replicated_job: Object, name: str) -> Object | None:
    for one in pod_template(replicated_job)["spec"].get("containers") or ():
        if one["name"] == name:
            return one  # type: ignore[no-any-return]
    return None


def upsert(items: Sequence[Object], new: Sequence[Object], key: str = "name") -> list[Object]:
    """`items` with those of `new` put in place of their key, or at the end."""
    replacing = {one[key]: one for one in new}
    kept = [replacing.pop(one[key], one) for one in items]
    return [*kept, *replacing.values()]
