"""The ReplicaSets of a Deployment: which is the newest, their revisions, and the changes decided about them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...api.objects import meta
from ...api.objects.subtree import mapping
from ...api.scheme import DEPLOYMENTS, REPLICA_SETS, Object
from ...api.verbs import Patch, PatchType
from ...api.views.replica_views import DeploymentView, ReplicaSetView
from ...base.decimals import share
from ..plan import ApplyPatch
from .template_hash import short_hash

REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
TEMPLATE_HASH = "pod-template-hash"
#: Annotations that are not copied from a Deployment to its ReplicaSets.
_OWN_ANNOTATIONS = {
    "kubectl.kubernetes.io/last-applied-configuration", REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
}  # fmt: skip
_REVISION_NUMBER = re.compile(r"[0-9]{1,19}")
_LONGEST_HISTORY = 2000
_LONGEST_NAME = 253


@dataclass
class WorkingSet:
    """A ReplicaSet, and what it should become."""

    view: ReplicaSetView
    replicas: int
    annotations: dict[str, str]
    min_ready_seconds: int
    #: "Scaled up replica set …", if it was scaled.
    scalings: list[str] = field(default_factory=list)

    @staticmethod
    def of(view: ReplicaSetView) -> WorkingSet:
        return WorkingSet(view, view.spec.replicas, dict(view.metadata.annotations), view.spec.min_ready_seconds)

    @property
    def name(self) -> str:
        return self.view.name

    @property
    def available(self) -> int:
        return self.view.status.available_replicas

    @property
    def age_order(self) -> tuple[str, str]:
        return (self.view.metadata.creation_timestamp, self.name)

    def scale(self, deployment: DeploymentView, replicas: int, *, always_annotate: bool = False) -> bool:
        """Whether it is scaled; the annotations say for which size of the Deployment."""
        if replicas == self.replicas and not always_annotate:
            return False
        before, self.replicas = self.replicas, replicas
        self.annotations |= _replica_annotations(deployment)
        if before != replicas:
            direction = "up" if before < replicas else "down"
            self.scalings.append(f"Scaled {direction} replica set {self.name} from {before} to {replicas}")
        return before != replicas

    def patch(self) -> ApplyPatch | None:
        """The write that makes it so, unless it has changed meanwhile; None if there is nothing to do."""
        view = self.view
        spec: Object = {}
        if self.replicas != view.spec.replicas:
            spec["replicas"] = self.replicas
        if self.min_ready_seconds != view.spec.min_ready_seconds:
            spec["minReadySeconds"] = self.min_ready_seconds
        annotations = {k: v for k, v in self.annotations.items() if view.metadata.annotations.get(k) != v}
        if not spec and not annotations:
            return None
        metadata: Object = {"uid": view.uid, "resourceVersion": view.metadata.resource_version}
        body: Object = {"metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}
        if spec:
            body["spec"] = spec
        return ApplyPatch(REPLICA_SETS, view.namespace, view.name, Patch(PatchType.MERGE, body))


# -- sizes ---------------------------------------------------------------------------------------------------


def is_rolling(deployment: DeploymentView) -> bool:
    return deployment.spec.strategy.type == "RollingUpdate"


def surge_and_unavailable(deployment: DeploymentView) -> tuple[int, int]:
    """How many pods there may be too many, and too few; never neither."""
    rolling, replicas = deployment.spec.strategy.rolling_update, deployment.spec.replicas
    surge = share(rolling.max_surge, replicas, round_up=True)
    unavailable = share(rolling.max_unavailable, replicas, round_up=False)
    return surge, 1 if surge == 0 and unavailable == 0 else unavailable


def max_surge(deployment: DeploymentView) -> int:
    return surge_and_unavailable(deployment)[0] if is_rolling(deployment) else 0


def max_unavailable(deployment: DeploymentView) -> int:
    replicas = deployment.spec.replicas
    if not is_rolling(deployment) or replicas == 0:
        return 0
    return min(surge_and_unavailable(deployment)[1], replicas)


def new_size(deployment: DeploymentView, total: int, current: int) -> int:
    """The size of the newest ReplicaSet, now `current`, if all of them have `total` replicas."""
    wanted = deployment.spec.replicas
    if not is_rolling(deployment):
        return wanted
    room = wanted + max_surge(deployment) - total
    return current + max(0, min(room, wanted - current))


# -- revisions -----------------------------------------------------------------------------------------------


def template_of(obj: Object) -> Object:
    """A template without the label that tells ReplicaSets apart, and without empty metadata."""
    template: Object = dict(mapping(obj, "spec", "template"))
    metadata = dict(mapping(template, "metadata"))
    labels = {key: value for key, value in mapping(metadata, "labels").items() if key != TEMPLATE_HASH}
    metadata["labels"] = labels
    template["metadata"] = {field: value for field, value in metadata.items() if value}
    return template


def split(deployment: DeploymentView, sets: Iterable[ReplicaSetView]) -> tuple[WorkingSet | None, list[WorkingSet]]:
    """The oldest ReplicaSet that has the template of the Deployment, and the others, oldest first."""
    ordered = sorted(map(WorkingSet.of, sets), key=lambda one: one.age_order)
    template = template_of(deployment.obj)
    new = next((one for one in ordered if template_of(one.view.obj) == template), None)
    return new, [one for one in ordered if one is not new]


def revision(obj: ReplicaSetView) -> int:
    return _revision_number(obj.metadata.annotations.get(REVISION, "")) or 0


def _revision_number(text: str) -> int | None:
    """A number of 64 bits; None for any other text."""
    number = int(text) if _REVISION_NUMBER.fullmatch(text) else None
    return number if number is not None and number < 2**63 else None


def next_revision(old: Iterable[WorkingSet]) -> int:
    return max((revision(one.view) for one in old), default=0) + 1


def _replica_annotations(deployment: DeploymentView) -> dict[str, str]:
    replicas = deployment.spec.replicas
    return {DESIRED_REPLICAS: str(replicas), MAX_REPLICAS: str(replicas + max_surge(deployment))}


def annotate(deployment: DeploymentView, new: WorkingSet, number: int) -> None:
    """The newest ReplicaSet has the highest revision, and the annotations of the Deployment."""
    copied = deployment.metadata.annotations.items()
    new.annotations |= {key: value for key, value in copied if key not in _OWN_ANNOTATIONS}
    new.min_ready_seconds = deployment.spec.min_ready_seconds
    text = new.annotations.get(REVISION, "")
    before = _revision_number(text)
    if (text and before is None) or (before or 0) >= number:
        return
    new.annotations[REVISION] = str(number)
    if text:
        new.annotations[REVISION_HISTORY] = _history(new.annotations.get(REVISION_HISTORY, ""), text)


def _history(known: str, revision_: str) -> str:
    """Earlier revisions of a ReplicaSet with one more; the oldest are left out if they become too many."""
    numbers = [*(number for number in known.split(",") if number), revision_]
    while len(",".join(numbers)) > _LONGEST_HISTORY:
        del numbers[0]
    return ",".join(numbers)


# -- a new one -----------------------------------------------------------------------------------------------


def template_hash(deployment: DeploymentView) -> str:
    return short_hash(mapping(deployment.obj, "spec", "template"), deployment.status.collision_count)


def new_name(deployment: DeploymentView) -> str:
    end = f"-{template_hash(deployment)}"
    return deployment.name[: _LONGEST_NAME - len(end)] + end


def build(deployment: DeploymentView, old: Sequence[WorkingSet]) -> Object:
    """The ReplicaSet of a template that has none yet."""
    obj, hashed = deployment.obj, {TEMPLATE_HASH: template_hash(deployment)}
    template = dict(mapping(obj, "spec", "template"))
    about = mapping(template, "metadata")
    labels = {**mapping(about, "labels"), **hashed}
    template["metadata"] = {**about, "labels": labels}
    selector = mapping(obj, "spec", "selector")
    annotations = {k: v for k, v in deployment.metadata.annotations.items() if k not in _OWN_ANNOTATIONS}
    annotations |= {REVISION: str(next_revision(old)), **_replica_annotations(deployment)}
    least = deployment.spec.min_ready_seconds
    return {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {
            "name": new_name(deployment),
            "namespace": deployment.namespace,
            "ownerReferences": [meta.owner_reference(obj, DEPLOYMENTS)],
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "replicas": new_size(deployment, sum(one.replicas for one in old), 0),
            **({"minReadySeconds": least} if least else {}),
            "selector": {**selector, "matchLabels": {**mapping(selector, "matchLabels"), **hashed}},
            "template": template,
        },
    }
