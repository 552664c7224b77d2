"""A StatefulSet: pods with names that stay, made and updated one after the other (OrderedReady) or together (Parallel).

claim ─► revision of the template ─► missing pods ─► pods that are too many ─► pods of an old template ─► status
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...api.objects.subtree import items, mapping
from ...api.scheme import PODS, STATEFUL_SETS, VOLUME_CLAIMS, Object
from ...api.views.pod_views import PodView
from ...api.views.replica_views import StatefulSetView
from ...base.decimals import share
from ..plan import Create, Delete, Draft, Note, Plan, StatusWrite
from ..status_draft import EventType
from . import revisions
from .claimed_sets import ClaimedSet, ObservedSet, claimed
from .replicas import FULL_WAIT_SECONDS, MOST_PER_SYNC
from .revisions import REVISION_HASH
from .stateful_pods import build, build_claim, claim_names, ordinal_of, seconds_until_available

#: Whether a claim of this name exists in the namespace.
HasClaim = Callable[[str], bool]


def reconcile(observed: ObservedSet[StatefulSetView], has_claim: HasClaim, now: float) -> Plan:
    name = observed.owner.name
    found = claimed(observed, (pod for pod in observed.orphans if ordinal_of(name, pod.name) is not None))
    return found if isinstance(found, Plan) else _Sync(observed, found, has_claim, now).plan()


class _Sync:
    """One decision about one StatefulSet."""

    def __init__(
        self, observed: ObservedSet[StatefulSetView], found: ClaimedSet, has_claim: HasClaim, now: float
    ) -> None:
        self._observed, self._owner, self._now = observed, observed.owner, now
        self._history, self._update = found.history, found.update
        self._has_claim = has_claim
        known = {one.name: one for one in found.history}
        self._current = known.get(self._owner.status.current_revision, known[found.update])
        by_ordinal = {ordinal_of(self._owner.name, pod.name): pod for pod in found.pods}
        start = self._owner.spec.ordinals.start
        self._slots = range(start, start + self._owner.spec.replicas)
        self._pods = {number: pod for number, pod in by_ordinal.items() if number is not None}
        self._draft = Draft()
        self._touched: set[int] = set()
        self._created = 0

    @property
    def _monotonic(self) -> bool:
        return self._owner.spec.pod_management_policy == "OrderedReady"

    def plan(self) -> Plan:
        if not self._owner.deleting:
            if not (self._fill() or self._scale_down()):
                self._roll()
            self._draft.stage(*revisions.surplus(self._history, self._used(), self._owner.spec.revision_history_limit))
        status = self._status()
        if status != self._owner.obj.get("status"):
            self._draft.status(StatusWrite(STATEFUL_SETS, self._owner.obj, status))
        waits = [wait for pod in self._pods.values() if (wait := self._wait(pod))]
        if waits:
            self._draft.requeue(min(waits))
        return self._draft.done()

    def _wait(self, pod: PodView) -> float | None:
        return seconds_until_available(pod, self._owner.spec.min_ready_seconds, self._now)

    def _available(self, number: int) -> bool:
        pod = self._pods.get(number)
        return pod is not None and not pod.deleting and number not in self._touched and self._wait(pod) == 0

    def _used(self) -> set[str]:
        return {self._current.name, self._update, *(_revision_of(pod) for pod in self._pods.values())}

    # -- steps: the first two say whether those after them must wait ------------------------------------

    def _fill(self) -> bool:
        """Create the pods that are missing, and delete those that ended."""
        for number in self._slots:
            pod = self._pods.get(number)
            if pod is None:
                self._create(number)
            elif pod.ended and not pod.deleting:
                self._delete(number)
            if self._monotonic and not self._available(number):
                return True
            if len(self._touched) >= MOST_PER_SYNC:
                return True
        return False

    def _scale_down(self) -> bool:
        """Delete the pods beyond the last ordinal, the highest first."""
        condemned = sorted((number for number in self._pods if number not in self._slots), reverse=True)
        unavailable = [*self._slots, *reversed(condemned)]
        first = next((number for number in unavailable if not self._available(number)), None)
        for number in condemned:
            if self._pods[number].deleting:
                if self._monotonic:
                    return True
                continue
            if self._monotonic and not self._available(number) and number != first:
                return True
            self._delete(number)
            if self._monotonic or len(self._touched) >= MOST_PER_SYNC:
                return True
        return False

    def _roll(self) -> None:
        """Delete pods of an old revision, from the highest ordinal down to the partition."""
        strategy = self._owner.spec.update_strategy
        if strategy.type != "RollingUpdate":
            return
        partition = strategy.rolling_update.partition if strategy.rolling_update is not None else 0
        least = self._owner.spec.ordinals.start + partition
        old = [number for number in reversed(self._slots) if number >= least and self._is_old(number)]
        unavailable = {number for number in self._slots if not self._available(number)}
        budget = self._max_unavailable() - len(unavailable)
        if not self._monotonic:
            for number in [number for number in old if number in unavailable]:
                self._delete(number)
        for number in [number for number in old if number not in unavailable][: max(0, budget)]:
            self._delete(number)

    def _is_old(self, number: int) -> bool:
        pod = self._pods.get(number)
        return (
            pod is not None and not pod.deleting and number not in self._touched and _revision_of(pod) != self._update
        )

    def _max_unavailable(self) -> int:
        rolling = self._owner.spec.update_strategy.rolling_update
        amount = rolling.max_unavailable if rolling is not None else 1
        return max(1, share(amount, self._owner.spec.replicas, round_up=False))

    # -- writes ----------------------------------------------------------------------------------------

    def _create(self, number: int) -> None:
        self._touched.add(number)
        if self._observed.namespace_closed:
            return
        if self._created >= self._observed.room:
            self._draft.requeue(FULL_WAIT_SECONDS)
            return
        self._created += 1
        claims = [
            Create(VOLUME_CLAIMS, build_claim(self._owner, template, name))
            for template, name in claim_names(self._owner, number).items()
            if not self._has_claim(name)
        ]
        self._draft.stage(*claims)
        template, revision = self._template(number)
        what = f"create Pod {self._owner.name}-{number} in StatefulSet {self._owner.name}"
        self._draft.stage(
            Create(
                PODS,
                build(self._owner, number, template, revision),
                created=self._note("Normal", "SuccessfulCreate", f"{what} successful"),
                refused=self._note("Warning", "FailedCreate", f"{what} failed error: {{error}}"),
            )
        )

    def _template(self, number: int) -> tuple[Object, str]:
        """Template and revision of a new pod: the current one below the partition, else the newest."""
        strategy, start = self._owner.spec.update_strategy, self._owner.spec.ordinals.start
        rolling = strategy.rolling_update
        below = start + (rolling.partition if rolling is not None else self._owner.status.current_replicas)
        if strategy.type == "RollingUpdate" and number < below:
            return revisions.template_of_revision(self._current), self._current.name
        return mapping(self._owner.obj, "spec", "template"), self._update

    def _delete(self, number: int) -> None:
        pod = self._pods[number]
        self._touched.add(number)
        self._draft.stage(Delete(PODS, pod.namespace, pod.name, pod.uid))
        message = f"delete Pod {pod.name} in StatefulSet {self._owner.name} successful"
        self._draft.note(self._note("Normal", "SuccessfulDelete", message))

    def _note(self, type_: EventType, reason: str, message: str) -> Note:
        return Note(STATEFUL_SETS, self._owner.obj, type_, reason, message)

    def _status(self) -> Object:
        pods, wanted = list(self._pods.values()), self._owner.spec.replicas
        waits = [self._wait(pod) for pod in pods]
        kept = list(self._kept())
        current, updated = (
            sum(_revision_of(pod) == name for pod in kept) for name in (self._current.name, self._update)
        )
        counts = {
            "readyReplicas": sum(wait is not None for wait in waits),
            "currentReplicas": current,
            "updatedReplicas": updated,
            "observedGeneration": self._owner.metadata.generation,
        }
        revision = self._current.name
        complete = updated == len(pods) == counts["readyReplicas"] == wanted
        if self._owner.spec.update_strategy.type == "RollingUpdate" and complete:
            revision, counts["currentReplicas"] = self._update, updated
        conditions = items(self._owner.obj, "status", "conditions")
        return {
            "replicas": len(pods),
            "availableReplicas": sum(wait == 0 for wait in waits),
            **{name: count for name, count in counts.items() if count},
            "currentRevision": revision,
            "updateRevision": self._update,
            "collisionCount": self._owner.status.collision_count,
            **({"conditions": conditions} if conditions else {}),
        }

    def _kept(self) -> Iterator[PodView]:
        return (pod for number, pod in self._pods.items() if not pod.deleting and number not in self._touched)


def _revision_of(pod: PodView) -> str:
    return pod.labels.get(REVISION_HASH, "")
