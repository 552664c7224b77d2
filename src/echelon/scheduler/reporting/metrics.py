"""What the scheduler counts and times, for Prometheus.

    loop, apply, preemption ─► Metrics ─► registry ─► /metrics
    queue, states ───────────► Backlog, read when somebody asks

Names that kube-scheduler 1.37 has are used in its sense, so that dashboards keep working; ours begin with
`echelon_scheduler_`.  docs/reference/metrics.md lists them all.
"""

from __future__ import annotations

from collections import Counter as GroupCounts
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Literal

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric

from ...base.instants import parse
from ...engine import Blocked, Evict, Placed
from ..intake.group_tree import GroupNode, Member, Root
from ..queueing.queue import Queue
from ..queueing.root_state import RootState
from .counters import Book, Counters, Histograms

_SECONDS = tuple(0.001 * 2**power for power in range(17))
_STEPS = tuple(4.0**power for power in range(10))
_POD_VICTIMS = tuple(2.0**power for power in range(7))
_GROUP_VICTIMS = tuple(2.0**power for power in range(11))

_ATTEMPT = ("result", "profile")
COUNTERS: Counters = {
    "scheduler_schedule_attempts_total": ("Attempts to schedule pods, members of groups included.", _ATTEMPT),
    "scheduler_podgroup_schedule_attempts_total": ("Attempts to schedule trees of groups.", _ATTEMPT),
    "scheduler_preemption_attempts_total": ("Preemptions begun for pods without a group.", ()),
    "scheduler_workload_preemption_attempts_total": ("Preemptions begun for trees of groups.", ("result",)),
    "scheduler_preemption_pdb_violations_total": ("Evictions against a disruption budget.", ("preemptor",)),
    "echelon_scheduler_verdicts_total": ("What the engine said, or had said of an equal demand.", ("verdict",)),
    "echelon_scheduler_bindings_total": ("Bindings answered.", ("result",)),
    "echelon_scheduler_pods_evicted_total": ("Pods evicted to make room.", ()),
    "echelon_scheduler_reservations_total": ("Reservations made for roots that starve, and given up.", ("event",)),
}
HISTOGRAMS: Histograms = {
    "scheduler_scheduling_attempt_duration_seconds": (
        "An attempt for a pod without a group, until the answer to its binding.", _ATTEMPT, _SECONDS
    ),
    "scheduler_podgroup_scheduling_attempt_duration_seconds": (
        "An attempt for a tree of groups, until the answer to its last binding.", _ATTEMPT, _SECONDS
    ),
    "scheduler_scheduling_algorithm_duration_seconds": ("Deciding on a pod without a group.", (), _SECONDS),
    "scheduler_podgroup_scheduling_algorithm_duration_seconds": ("Deciding on a tree of groups.", (), _SECONDS),
    "scheduler_pod_scheduling_sli_duration_seconds": ("From a pod's being known until it is bound.", (), _SECONDS),
    "scheduler_preemption_victims": ("Pods evicted by one preemption for a pod.", (), _POD_VICTIMS),
    "scheduler_workload_preemption_victims": ("Pods evicted by one preemption for a tree.", (), _GROUP_VICTIMS),
    "echelon_scheduler_engine_steps": ("Steps of its budget that one search for a placement took.", (), _STEPS),
    "echelon_scheduler_binding_duration_seconds": ("From sending a binding until its answer.", (), _SECONDS),
}  # fmt: skip
#: name -> what it is, its labels; read when somebody asks
GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "scheduler_queued_entities": ("Pods without a group and trees of groups that wait.", ("queue", "type")),
    "scheduler_pending_pods": ("Pods that are not bound, members of groups included.", ("queue",)),
    "echelon_scheduler_oldest_pending_seconds": ("The age of the oldest pod that waits.", ("type",)),
}
#: Where roots wait.
_LINES = ("active", "unschedulable", "preempting", "incomplete", "gated")

Verdict = Placed | Evict | Blocked
#: How an attempt ends.
Result = Literal["scheduled", "unschedulable", "waiting_on_preemption", "error"]


class Metrics:
    """One scheduler's figures, in a registry that may hold others' too."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._book = Book(COUNTERS, HISTOGRAMS)
        self._count, self._measured = self._book.count, self._book.measured
        self._of_pods = self._measured("scheduler_scheduling_algorithm_duration_seconds")
        self._of_trees = self._measured("scheduler_podgroup_scheduling_algorithm_duration_seconds")
        self._steps = self._measured("echelon_scheduler_engine_steps")
        self._waits = self._measured("scheduler_pod_scheduling_sli_duration_seconds")
        self._answers = self._measured("echelon_scheduler_binding_duration_seconds")
        registry.register(self._book)

    def decided(self, root: Root, verdict: Verdict, seconds: float, steps: int) -> None:
        """The engine was asked."""
        (self._of_trees if isinstance(root, GroupNode) else self._of_pods).observe(seconds)
        self._steps.observe(steps)
        self._count("echelon_scheduler_verdicts_total", _name_of(verdict))

    def remembered(self) -> None:
        """The engine had said no to an equal demand, and no room has appeared since."""
        self._count("echelon_scheduler_verdicts_total", "remembered")

    def attempted(self, root: Root, result: Result, seconds: float) -> None:
        """An attempt is over."""
        profile = _profile_of(root)
        kind = "podgroup_" if isinstance(root, GroupNode) else ""
        self._measured(f"scheduler_{kind}scheduling_attempt_duration_seconds", result, profile).observe(seconds)
        if isinstance(root, GroupNode):
            self._count("scheduler_podgroup_schedule_attempts_total", result, profile)
        if result != "scheduled":
            # Those that are scheduled are counted one by one as they are bound.
            outcome = "error" if result == "error" else "unschedulable"
            self._count("scheduler_schedule_attempts_total", outcome, profile, by=_pending_of(root))

    def reserved(self, event: Literal["made", "lapsed"]) -> None:
        """Room is kept for a root, or was kept in vain."""
        self._count("echelon_scheduler_reservations_total", event)

    def answered(self, seconds: float) -> None:
        """A binding was answered, in whatever way."""
        self._answers.observe(seconds)

    def bound(self, member: Member, seconds: float) -> None:
        """A pod is bound, so long after it was first heard of."""
        self._count("echelon_scheduler_bindings_total", "bound")
        self._count("scheduler_schedule_attempts_total", "scheduled", member.scheduler)
        self._waits.observe(seconds)

    def refused(self, member: Member) -> None:
        """A binding came to nothing."""
        self._count("echelon_scheduler_bindings_total", "refused")
        self._count("scheduler_schedule_attempts_total", "error", member.scheduler)

    def preempting(self, root: Root, victims: int, violations: int) -> None:
        """So many pods begin to leave for a root."""
        self._count("echelon_scheduler_pods_evicted_total", by=victims)
        if isinstance(root, GroupNode):
            self._count("scheduler_workload_preemption_attempts_total", "success")
            self._measured("scheduler_workload_preemption_victims").observe(victims)
        else:
            self._count("scheduler_preemption_attempts_total")
            self._measured("scheduler_preemption_victims").observe(victims)
        if violations:
            preemptor = "podgroup" if isinstance(root, GroupNode) else "pod"
            self._count("scheduler_preemption_pdb_violations_total", preemptor, by=violations)


class Backlog:
    """Who waits, counted when somebody asks."""

    def __init__(
        self, names: Collection[str], states: Callable[[], Iterable[RootState]], queue: Queue, now: Callable[[], float]
    ) -> None:
        self._names = names
        self._states = states
        self._queue = queue
        self._now = now

    def describe(self) -> Iterator[Metric]:
        """Nothing is known before somebody asks."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        entities: GroupCounts[tuple[str, ...]] = GroupCounts()
        pods: GroupCounts[tuple[str, ...]] = GroupCounts({(line,): 0 for line in _LINES})
        oldest: dict[tuple[str, ...], float] = {}
        for state in self._states():
            if _profile_of(state.root) not in self._names:
                continue
            kind, line = _kind_of(state.root), self._line(state)
            if line:
                entities[line, kind] += 1
                pods[line,] += _pending_of(state.root)
                if state.since:
                    oldest[kind,] = max(oldest.get((kind,), 0.0), self._now() - parse(state.since))
            pods["gated",] += _gated_of(state.root)
        found: tuple[Mapping[tuple[str, ...], float], ...] = (entities, pods, oldest)
        for (name, (text, labels)), values in zip(GAUGES.items(), found, strict=True):
            gauge = GaugeMetricFamily(name, text, labels=labels)
            for key, value in sorted(values.items()):
                gauge.add_metric(key, value)
            yield gauge

    def _line(self, state: RootState) -> str:
        """Where a root waits; "" if it does not."""
        if self._queue.is_active(state.root.id):
            return "active"
        if self._queue.wants_room(state.root.id):
            return "unschedulable"
        if state.awaits_victims:
            return "preempting"
        root = state.root
        return "incomplete" if isinstance(root, GroupNode) and _pending_of(root) else ""


def _name_of(verdict: Verdict) -> str:
    if isinstance(verdict, Blocked):
        return "blocked" if verdict.proved else "exhausted"
    return "placed" if isinstance(verdict, Placed) else "evict"


def _kind_of(root: Root) -> str:
    return root.key.kind.lower() if isinstance(root, GroupNode) else "pod"


def _pending_of(root: Root) -> int:
    """How many of its pods want a place."""
    return sum(len(leaf.pending) for leaf in root.leaves()) if isinstance(root, GroupNode) else 1


def _gated_of(root: Root) -> int:
    """How many of a tree's pods wait behind a gate of their own; a gated pod without a group is not a root yet."""
    leaves = root.leaves() if isinstance(root, GroupNode) else ()
    members = (member for leaf in leaves for member in leaf.members.values())
    return sum(not member.place and bool(member.obj["spec"].get("schedulingGates")) for member in members)


def _profile_of(root: Root) -> str:
    """The scheduler name that the pods of a root ask for."""
    if isinstance(root, Member):
        return root.scheduler
    return next((member.scheduler for leaf in root.leaves() for member in leaf.members.values()), "")
