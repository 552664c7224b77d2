"""A DaemonSet: one pod on every node that it fits, of the newest template.

claim ─► revision of the template ─► missing, failed and misplaced pods ─► pods of an old template ─► status
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ...api.objects import meta
from ...api.objects.subtree import items, mapping
from ...api.scheme import DAEMON_SETS, PODS, Object
from ...api.views.cluster_views import NodeView
from ...api.views.pod_views import PodView
from ...api.views.replica_views import DaemonSetView
from ...base.decimals import share
from ..plan import Create, Delete, Draft, Note, Plan, StatusWrite
from ..status_draft import EventType
from . import revisions
from .claimed_sets import ClaimedSet, ObservedSet, claimed
from .daemon_nodes import bound_to, node_of, should_run, tolerations
from .replicas import FULL_WAIT_SECONDS, MOST_PER_SYNC
from .revisions import REVISION_HASH
from .stateful_pods import seconds_until_available


def reconcile(observed: ObservedSet[DaemonSetView], nodes: Sequence[NodeView], now: float) -> Plan:
    found = claimed(observed, observed.orphans)
    return found if isinstance(found, Plan) else _Sync(observed, found, nodes, now).plan()


class _Sync:
    """One decision about one DaemonSet."""

    def __init__(
        self, observed: ObservedSet[DaemonSetView], found: ClaimedSet, nodes: Sequence[NodeView], now: float
    ) -> None:
        self._observed, self._owner, self._now = observed, observed.owner, now
        self._history, self._update = found.history, found.update
        self._template = mapping(observed.owner.obj, "spec", "template")
        self._hash = next(one.labels.get(REVISION_HASH, "") for one in found.history if one.name == found.update)
        self._by_node: dict[str, list[PodView]] = defaultdict(list)
        for pod in sorted(found.pods, key=lambda one: (one.metadata.creation_timestamp, one.name)):
            self._by_node[node_of(pod.obj)].append(pod)
        self._wanted = {node.name: should_run(self._template, node) for node in nodes}
        self._draft = Draft()
        self._create: list[str] = []
        self._gone: dict[str, PodView] = {}

    def plan(self) -> Plan:
        if not self._owner.deleting:
            self._place()
            if self._owner.spec.update_strategy.type == "RollingUpdate":
                self._roll()
            self._write()
        status = self._status()
        if status != self._owner.obj.get("status"):
            self._draft.status(StatusWrite(DAEMON_SETS, self._owner.obj, status))
        waits = [wait for pods in self._by_node.values() for pod in pods if (wait := self._wait(pod))]
        if waits:
            self._draft.requeue(min(waits))
        return self._draft.done()

    def _wait(self, pod: PodView) -> float | None:
        return seconds_until_available(pod, self._owner.spec.min_ready_seconds, self._now)

    def _is_new(self, pod: PodView) -> bool:
        return pod.labels.get(REVISION_HASH) == self._hash

    def _place(self) -> None:
        """One pod on each node that should run one; none where none may stay."""
        for node in sorted({*self._wanted, *self._by_node}):
            run, stay = self._wanted.get(node, (False, False))
            live = [pod for pod in self._by_node.get(node, ()) if not pod.deleting]
            failed = [pod for pod in live if pod.ended]
            running = [pod for pod in live if not pod.ended]
            if not stay:
                self._delete(*live)
                continue
            self._delete(*failed)
            if run and not self._by_node.get(node):
                self._create.append(node)
            new, old = ([pod for pod in running if self._is_new(pod) is flag] for flag in (True, False))
            # The oldest of each template stays; an old one beside a new one is the rollout's business.
            self._delete(*new[1:], *old[1:])

    def _roll(self) -> None:
        surge, most = self._bounds()
        nodes = sorted(node for node, (run, _) in self._wanted.items() if run)
        unavailable = surging = 0
        candidates: list[tuple[str, PodView]] = []
        unfit: list[tuple[str, PodView]] = []
        for node in nodes:
            live = [pod for pod in self._by_node.get(node, ()) if not pod.deleting and pod.uid not in self._gone]
            new = next((pod for pod in live if self._is_new(pod)), None)
            old = next((pod for pod in live if not self._is_new(pod)), None)
            available = any(self._wait(pod) == 0 for pod in live)
            unavailable += not available
            if new is not None and old is not None:
                surging += 1
                if self._wait(new) == 0:
                    self._delete(old)
            elif old is not None:
                (candidates if available else unfit).append((node, old))
        if surge:
            room = max(0, surge - surging)
            self._create += [node for node, _ in [*unfit, *candidates][:room]]
            return
        self._delete(*(pod for _, pod in unfit))
        self._delete(*(pod for _, pod in candidates[: max(0, most - unavailable)]))

    def _bounds(self) -> tuple[int, int]:
        """maxSurge and maxUnavailable as numbers, both rounded up."""
        rolling = self._owner.spec.update_strategy.rolling_update
        wanted = sum(run for run, _ in self._wanted.values())
        surge = share(rolling.max_surge, wanted, round_up=True)
        return surge, share(rolling.max_unavailable, wanted, round_up=True)

    # -- writes ----------------------------------------------------------------------------------------

    def _delete(self, *pods: PodView) -> None:
        for pod in pods:
            self._gone[pod.uid] = pod

    def _write(self) -> None:
        gone = list(self._gone.values())[:MOST_PER_SYNC]
        self._draft.stage(*(Delete(PODS, pod.namespace, pod.name, pod.uid) for pod in gone))
        for pod in gone:
            self._draft.note(self._note("Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}"))
        if not self._observed.namespace_closed:
            room = min(MOST_PER_SYNC, self._observed.room)
            self._draft.stage(*map(self._creation, self._create[:room]))
            if len(self._create) > room:
                self._draft.requeue(FULL_WAIT_SECONDS)
        used = {self._update}
        for one in self._history:
            if any(pod.labels.get(REVISION_HASH) == one.labels.get(REVISION_HASH) for pod in self._pods()):
                used.add(one.name)
        self._draft.stage(*revisions.surplus(self._history, used, self._owner.spec.revision_history_limit))

    def _pods(self) -> list[PodView]:
        return [pod for pods in self._by_node.values() for pod in pods]

    def _creation(self, node: str) -> Create:
        about = mapping(self._template, "metadata")
        copied = {field: about[field] for field in ("annotations", "finalizers") if about.get(field)}
        spec = {**bound_to(mapping(self._template, "spec"), node), "tolerations": tolerations(self._template)}
        pod: Object = {
            "apiVersion": PODS.api_version,
            "kind": PODS.kind,
            "metadata": {
                "generateName": f"{self._owner.name}-",
                "namespace": self._owner.namespace,
                "labels": {**mapping(about, "labels"), REVISION_HASH: self._hash},
                **copied,
                "ownerReferences": [meta.owner_reference(self._owner.obj, DAEMON_SETS)],
            },
            "spec": spec,
        }
        return Create(
            PODS,
            pod,
            created=self._note("Normal", "SuccessfulCreate", "Created pod: {name}"),
            refused=self._note("Warning", "FailedCreate", "Error creating: {error}"),
        )

    def _note(self, type_: EventType, reason: str, message: str) -> Note:
        return Note(DAEMON_SETS, self._owner.obj, type_, reason, message)

    def _status(self) -> Object:
        desired = current = missed = ready = updated = available = 0
        for node in {*self._wanted, *self._by_node}:
            run, _ = self._wanted.get(node, (False, False))
            pods = [pod for pod in self._by_node.get(node, ()) if not pod.ended]
            desired += run
            if not run:
                missed += bool(pods) and node in self._wanted
                continue
            current += bool(pods)
            waits = [self._wait(pod) for pod in pods if not pod.deleting]
            ready += any(wait is not None for wait in waits)
            available += any(wait == 0 for wait in waits)
            updated += any(self._is_new(pod) for pod in pods)
        counts = {
            "updatedNumberScheduled": updated,
            "numberAvailable": available,
            "numberUnavailable": desired - available,
            "observedGeneration": self._owner.metadata.generation,
            "collisionCount": self._owner.status.collision_count,
        }
        conditions = items(self._owner.obj, "status", "conditions")
        return {
            "currentNumberScheduled": current,
            "numberMisscheduled": missed,
            "desiredNumberScheduled": desired,
            "numberReady": ready,
            **{name: count for name, count in counts.items() if count},
            **({"conditions": conditions} if conditions else {}),
        }
