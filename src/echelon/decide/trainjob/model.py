"""A TrainJob as its decisions read it, and what the caches hold about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...api.objects.subtree import items, mapping
from ...api.objects.vocabulary import MANAGERS, TRAINJOB_ANCESTOR_STEP
from ...api.scheme import CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES, Object, Resource
from ...api.views.group_views import GroupView, WorkloadView
from ...api.views.trainjob_views import Trainer, TrainJobSpec, TrainJobView

CONTROLLER_NAME = MANAGERS["TrainJob"]
TRAINER = "trainer"
DATASET_INITIALIZER = "dataset-initializer"
MODEL_INITIALIZER = "model-initializer"
#: The container in which training runs.
NODE_CONTAINER = "node"
#: Replicated jobs of mpi, found by their names: the one that starts the processes, and those that run them.
LAUNCHER, NODE = "launcher", "node"


class CannotBuild(Exception):
    """A TrainJob whose objects cannot be made now; the message goes into an event and the attempt is repeated."""


@dataclass(frozen=True)
class TrainJob:
    view: TrainJobView
    name: str
    namespace: str
    uid: str
    spec: TrainJobSpec

    @property
    def obj(self) -> Object:
        return self.view.obj

    @property
    def suspended(self) -> bool:
        return self.spec.suspend

    @property
    def trainer(self) -> Trainer:
        return self.spec.trainer

    @property
    def runtime_name(self) -> str:
        return self.spec.runtime_ref.name

    @property
    def runtime_resource(self) -> Resource | None:
        """The kind of runtime it refers to, None if there is no such kind."""
        reference = self.spec.runtime_ref
        asked = (reference.api_group, reference.kind)
        for resource in (CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES):
            if (resource.group, resource.kind) == asked:
                return resource
        return None


@dataclass(frozen=True)
class Observed:
    """What the caches hold about one TrainJob."""

    trainjob: TrainJobView
    #: The runtime it refers to, as it is now.
    runtime: Object | None
    #: Workloads and groups controlled by it.
    workloads: Sequence[WorkloadView]
    groups: Sequence[GroupView]
    #: Anything in its namespace, whoever owns it.
    find: Callable[[Resource, str], Object | None]
    #: Random bytes for new keys, other ones at every decision.
    entropy: bytes
    #: Groups of other schedulers that the server serves, by API group.
    gang_kinds: Mapping[str, Resource]
    #: Whether the server takes progress reports: ours does, others do not.
    takes_reports: bool = True


def managed_elsewhere(trainjob: TrainJobView) -> bool:
    return trainjob.spec.managed_by not in ("", CONTROLLER_NAME)


def read(view: TrainJobView) -> TrainJob:
    return TrainJob(view, view.name, view.namespace, view.uid, view.spec)


def ancestor(replicated_job: Object) -> str:
    """Which part of a TrainJob a replicated job of the runtime plays; "" for none of them."""
    return str(mapping(replicated_job, "template", "metadata", "labels").get(TRAINJOB_ANCESTOR_STEP) or "")


def pod_template(replicated_job: Object) -> Object:
    """The pod template of a replicated job, made where it is missing."""
    job: Object = replicated_job.setdefault("template", {}).setdefault("spec", {})
    template: Object = job.setdefault("template", {})
    template.setdefault("spec", {})
    return template


def container(replicated_job: Object, name: str) -> Object | None:
    for one in items(pod_template(replicated_job), "spec", "containers"):
        if one["name"] == name:
            return one  # type: ignore[no-any-return]
    return None


def upsert(entries: Iterable[Object], new: Iterable[Object], key: str = "name") -> list[Object]:
    """`entries` with those of `new` put in place of their key, or at the end."""
    replacing = {one[key]: one for one in new}
    kept = [replacing.pop(one[key], one) for one in entries]
    return [*kept, *replacing.values()]
