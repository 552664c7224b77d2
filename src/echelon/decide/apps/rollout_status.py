"""The status of a Deployment: counters, Available, Progressing and ReplicaFailure.

Progressing is updated whenever there is progress; without any for `progressDeadlineSeconds` it becomes False.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...api.objects import meta
from ...api.objects.subtree import items
from ...api.scheme import Object
from ...api.views.replica_views import DeploymentView, ReplicaSetView
from ...base.instants import parse, to_time
from .deployment_sets import max_unavailable

AVAILABLE, PROGRESSING, FAILURE = "Available", "Progressing", "ReplicaFailure"
#: Reasons of Progressing.
COMPLETE, TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
PAUSED, RESUMED = "DeploymentPaused", "DeploymentResumed"
CREATED, FOUND, UPDATED = "NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetUpdated"
REFUSED = "ReplicaSetCreateError"
_NO_LIMIT = 2**31 - 1


class RolloutStatus:
    """The status as it stands, changed step by step."""

    def __init__(self, deployment: DeploymentView, now: float) -> None:
        self._deployment = deployment
        self.now = now
        self.conditions: list[Object] = list(items(deployment.obj, "status", "conditions"))
        self.collisions = deployment.status.collision_count

    @property
    def has_deadline(self) -> bool:
        limit = self._deployment.spec.progress_deadline_seconds
        return limit is not None and limit != _NO_LIMIT

    def find(self, type_: str) -> Object | None:
        return next((one for one in self.conditions if one.get("type") == type_), None)

    def remove(self, type_: str) -> None:
        self.conditions = [one for one in self.conditions if one.get("type") != type_]

    def set(self, type_: str, status: str, reason: str, message: str, *, again: bool = False) -> None:
        """Set a condition; one with the same status and reason stays, unless it is told `again`."""
        old = self.find(type_)
        if old is not None and (old.get("status"), old.get("reason")) == (status, reason) and not again:
            return
        new = {**meta.condition(type_, status, reason, message, self.now), "lastUpdateTime": to_time(self.now)}
        if old is not None and old.get("status") == status and old.get("lastTransitionTime"):
            new["lastTransitionTime"] = old["lastTransitionTime"]
        self.remove(type_)
        self.conditions.append(new)

    def pause_or_resume(self) -> None:
        """The time of a pause does not count against the deadline."""
        old = self.find(PROGRESSING)
        if not self.has_deadline or (old is not None and old.get("reason") == TIMED_OUT):
            return
        was_paused = old is not None and old.get("reason") == PAUSED
        if self._deployment.spec.paused and not was_paused:
            self.set(PROGRESSING, "Unknown", PAUSED, "Deployment is paused")
        elif not self._deployment.spec.paused and was_paused:
            self.set(PROGRESSING, "Unknown", RESUMED, "Deployment is resumed")

    # -- counters --------------------------------------------------------------------------------------

    def counted(self, sets: Sequence[ReplicaSetView], new: ReplicaSetView | None, sizes: int) -> Object:
        """The whole status; `sizes` is the sum of what all ReplicaSets should have."""
        available = sum(one.status.available_replicas for one in sets)
        enough = available >= self._deployment.spec.replicas - max_unavailable(self._deployment)
        if enough:
            self.set(AVAILABLE, "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        else:
            message = "Deployment does not have minimum availability."
            self.set(AVAILABLE, "False", "MinimumReplicasUnavailable", message)
        counts = {
            "observedGeneration": self._deployment.metadata.generation,
            "replicas": sum(one.status.replicas for one in sets),
            "updatedReplicas": new.status.replicas if new is not None else 0,
            "readyReplicas": sum(one.status.ready_replicas for one in sets),
            "availableReplicas": available,
            "unavailableReplicas": max(0, sizes - available),
            "collisionCount": self.collisions,
        }
        # As Go writes it: zeros are left out, but for a number that may be unknown.
        return {
            **{name: count for name, count in counts.items() if count},
            "terminatingReplicas": sum(one.status.terminating_replicas or 0 for one in sets),
            "conditions": self.conditions,
        }

    def is_complete(self, status: Object) -> bool:
        wanted = self._deployment.spec.replicas
        counts = [status.get(name, 0) for name in ("updatedReplicas", "replicas", "availableReplicas")]
        seen: int = status.get("observedGeneration", 0)
        return counts == [wanted] * 3 and seen >= self._deployment.metadata.generation

    # -- progress --------------------------------------------------------------------------------------

    def progress(self, counted: Object, new: ReplicaSetView | None, sets: Sequence[ReplicaSetView]) -> None:
        """Set Progressing and ReplicaFailure by what the counters say."""
        if not self.has_deadline:
            self.remove(PROGRESSING)
        old = self.find(PROGRESSING)
        settled = (
            counted.get("replicas", 0) == counted.get("updatedReplicas", 0)
            and old is not None
            and old.get("reason") == COMPLETE
        )
        if self.has_deadline and not settled:
            subject = f'ReplicaSet "{new.name}"' if new is not None else f'Deployment "{self._deployment.name}"'
            if self.is_complete(counted):
                self.set(PROGRESSING, "True", COMPLETE, f"{subject} has successfully progressed.")
            elif self._has_progressed(counted):
                self.set(PROGRESSING, "True", UPDATED, f"{subject} is progressing.", again=True)
            elif self._has_timed_out():
                self.set(PROGRESSING, "False", TIMED_OUT, f"{subject} has timed out progressing.")
        self._failure(new, sets)

    def _has_progressed(self, counted: Object) -> bool:
        was = self._deployment.status
        updated = counted.get("updatedReplicas", 0)
        return bool(
            updated > was.updated_replicas
            or counted.get("replicas", 0) - updated < was.replicas - was.updated_replicas
            or counted.get("readyReplicas", 0) > was.ready_replicas
            or counted.get("availableReplicas", 0) > was.available_replicas
        )

    def _has_timed_out(self) -> bool:
        condition = self.find(PROGRESSING)
        if condition is None or condition.get("reason") == COMPLETE:
            return False
        return condition.get("reason") == TIMED_OUT or self._left(condition) < 0

    def _left(self, condition: Object) -> float:
        """Seconds until the deadline."""
        limit = self._deployment.spec.progress_deadline_seconds or 0
        since = condition.get("lastUpdateTime")
        return (parse(since) if since else self.now) + limit - self.now

    def _failure(self, new: ReplicaSetView | None, sets: Sequence[ReplicaSetView]) -> None:
        ordered = [*([new] if new is not None else []), *sets]
        found = next((one for one in (meta.find_condition(each.obj, FAILURE) for each in ordered) if one), None)
        if found is None:
            self.remove(FAILURE)
        else:
            self.set(FAILURE, found["status"], found.get("reason", ""), found.get("message", ""))

    def check_after(self, counted: Object) -> float | None:
        """Seconds after which to look for progress again."""
        condition = self.find(PROGRESSING)
        if not self.has_deadline or condition is None or condition.get("reason") == TIMED_OUT:
            return None
        return None if self.is_complete(counted) else max(0.0, self._left(condition)) + 1
