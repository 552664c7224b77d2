"""A ReplicaSet or ReplicationController: as many pods as wanted, and a status that counts them.

claim pods ─► too few: create, in batches that double ─► status
           └► too many: delete the cheapest to lose ───┘

A refused creation ends the plan; its reason becomes the condition ReplicaFailure and the key is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...api.objects import meta
from ...api.objects.subtree import items, mapping
from ...api.scheme import PODS, REPLICA_SETS, Object
from ...api.views.pod_views import PodView
from ...api.views.replica_views import ReplicaSetView, ReplicationControllerView
from ...base.instants import parse
from ..plan import Create, Delete, Draft, Note, Plan, StatusWrite
from ..status_draft import EventType
from . import victims
from .claims import claim
from .victims import is_active

#: Pods created or deleted in one sync at most.
MOST_PER_SYNC = 500
#: When to look again if there is no room for more pods.
FULL_WAIT_SECONDS = 10.0
FAILURE = "ReplicaFailure"

Owner = ReplicaSetView | ReplicationControllerView


@dataclass(frozen=True)
class ObservedReplicas:
    owner: Owner
    #: Pods that it controls, and pods without a controller that it may select.
    owned: Sequence[PodView]
    orphans: Sequence[PodView]
    #: Pods of all ReplicaSets of the same Deployment.
    related: Callable[[], Iterable[PodView]] = lambda: ()
    #: Nothing can be created in a namespace that is deleted.
    namespace_closed: bool = False
    #: The most pods to create now.
    room: int = MOST_PER_SYNC


def reconcile(observed: ObservedReplicas, now: float) -> Plan:
    owner, selector, draft = observed.owner, observed.owner.selector, Draft()
    pods, claims = claim(owner, selector, filter(is_active, observed.owned), filter(is_active, observed.orphans))
    draft.stage(*claims)
    if not owner.deleting:
        _manage(draft, observed, pods, now)
    terminating = [
        pod for pod in observed.owned if pod.deleting and not pod.ended and selector.matches(pod.labels)
    ]  # fmt: skip
    status = _status(owner, pods, terminating, now)
    if status != owner.obj.get("status"):
        draft.status(StatusWrite(owner.resource, owner.obj, status))
    draft.refused(StatusWrite(owner.resource, owner.obj, _failed(owner, status, len(pods), now)))
    wait = _next_available(owner, pods, now)
    if wait is not None:
        draft.requeue(wait)
    return draft.done()


def _manage(draft: Draft, observed: ObservedReplicas, pods: Sequence[PodView], now: float) -> None:
    owner = observed.owner
    surplus = len(pods) - owner.spec.replicas
    if surplus > 0:
        gone = victims.choose(pods, min(surplus, MOST_PER_SYNC), observed.related, now)
        draft.stage(*(Delete(PODS, pod.namespace, pod.name, pod.uid) for pod in gone))
        for pod in gone:
            draft.note(_note(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}"))
    elif surplus < 0 and not observed.namespace_closed:
        for size in _slow_start(min(-surplus, MOST_PER_SYNC, observed.room)):
            draft.stage(*(_create(owner) for _ in range(size)))
        if observed.room < -surplus:
            draft.requeue(FULL_WAIT_SECONDS)


def _slow_start(count: int) -> Iterator[int]:
    """1, 2, 4, … up to `count` together: if all would be refused, few are tried."""
    size = 1
    while count > 0:
        size = min(size, count)
        yield size
        count -= size
        size *= 2


def _create(owner: Owner) -> Create:
    return Create(
        PODS,
        pod_of(owner.obj, meta.owner_reference(owner.obj, owner.resource)),
        created=_note(owner, "Normal", "SuccessfulCreate", "Created pod: {name}"),
        refused=_note(owner, "Warning", "FailedCreate", "Error creating: {error}"),
    )


def pod_of(owner: Object, reference: Object) -> Object:
    """The pod that an owner's template describes."""
    template = owner["spec"]["template"]
    about = mapping(template, "metadata")
    copied = {field: about[field] for field in ("labels", "annotations", "finalizers") if about.get(field)}
    metadata = {
        **copied,
        "generateName": f"{meta.name(owner)}-",
        "namespace": meta.namespace(owner),
        "ownerReferences": [reference],
    }
    return {"apiVersion": PODS.api_version, "kind": PODS.kind, "metadata": metadata, "spec": template["spec"]}


def _note(owner: Owner, type_: EventType, reason: str, message: str) -> Note:
    return Note(owner.resource, owner.obj, type_, reason, message)


# -- status --------------------------------------------------------------------------------------------------


def _status(owner: Owner, pods: Sequence[PodView], terminating: Sequence[PodView], now: float) -> Object:
    """As Go writes it: counters that are zero are left out, but for `replicas`."""
    template = owner.spec.template.metadata.labels.items()
    ready = [pod for pod in pods if pod.is_true("Ready")]
    counts = {
        "fullyLabeledReplicas": sum(template <= pod.labels.items() for pod in pods),
        "readyReplicas": len(ready),
        "availableReplicas": sum(_wait_of(pod, owner.spec.min_ready_seconds, now) <= 0 for pod in ready),
        "observedGeneration": owner.metadata.generation,
    }
    conditions = [one for one in items(owner.obj, "status", "conditions") if one.get("type") != FAILURE]
    status: Object = {"replicas": len(pods), **{name: count for name, count in counts.items() if count}}
    if owner.resource is REPLICA_SETS:
        status["terminatingReplicas"] = len(terminating)
    return {**status, "conditions": conditions} if conditions else status


def _failed(owner: Owner, status: Object, count: int, now: float) -> Object:
    """The status if a write is refused: the condition keeps what was refused first."""
    known = meta.find_condition(owner.obj, FAILURE)
    reason = "FailedCreate" if count < owner.spec.replicas else "FailedDelete"
    failure = known or meta.condition(FAILURE, "True", reason, "{error}", now)
    return {**status, "conditions": [*status.get("conditions", ()), dict(failure)]}


def _wait_of(pod: PodView, min_ready_seconds: int, now: float) -> float:
    """Seconds until a ready pod is available."""
    ready = pod.condition("Ready")
    if not min_ready_seconds or ready is None or not ready.last_transition_time:
        return 0.0 if not min_ready_seconds else float(min_ready_seconds)
    return parse(ready.last_transition_time) + min_ready_seconds - now


def _next_available(owner: Owner, pods: Sequence[PodView], now: float) -> float | None:
    waits = [_wait_of(pod, owner.spec.min_ready_seconds, now) for pod in pods if pod.is_true("Ready")]
    return min((wait for wait in waits if wait > 0), default=None)
