"""What the scheduler counts and times, for Prometheus.

    loop, acting, writes ─► Metrics ─► registry ─► /metrics
    queue, root states ───► Backlog, read at each scrape

Metrics of kube-scheduler 1.37 keep their names and meaning, so that dashboards keep working; ours begin with
`echelon_scheduler_`.  docs/reference/metrics.md lists them all.
"""

from __future__ import annotations

from collections import Counter as GroupCounts
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric

from ...base.instants import parse
from ...engine import Blocked, Evict, Placed
from ..intake.group_tree import GroupNode, Member, Root
from ..queueing.queue import Queue
from ..queueing.root_state import RootState
from .counters import Book, Counters, Histograms
from .idle_devices import is_extended

_SECONDS = tuple(0.001 * 2**power for power in range(17))
_STEPS = tuple(4.0**power for power in range(10))
_POD_VICTIMS = tuple(2.0**power for power in range(7))
_GROUP_VICTIMS = tuple(2.0**power for power in range(11))
#: Half a second to a day and a half: times of creation have whole seconds.
_WAITS = tuple(0.5 * 2**power for power in range(19))
#: Classes of size and priority, by the first number beyond them: labels must not be as many as values.
_SIZES = ((2, "1"), (9, "2-8"), (65, "9-64"), (513, "65-512"))
_PRIORITIES = ((0, "<0"), (1, "0"), (1000, "1-999"), (1_000_000, "1000-999999"))

_ATTEMPT = ("result", "profile")
COUNTERS: Counters = {
    "scheduler_schedule_attempts_total": ("Attempts to schedule pods, members of groups included.", _ATTEMPT),
    "scheduler_podgroup_schedule_attempts_total": ("Attempts to schedule trees of groups.", _ATTEMPT),
    "scheduler_preemption_attempts_total": ("Preemptions begun for pods without a group.", ()),
    "scheduler_workload_preemption_attempts_total": ("Preemptions begun for trees of groups.", ("result",)),
    "scheduler_preemption_pdb_violations_total": ("Evictions that violate a disruption budget.", ("preemptor",)),
    "echelon_scheduler_verdicts_total": ("Verdicts of the engine, remembered ones included.", ("verdict",)),
    "echelon_scheduler_bindings_total": ("Bindings answered.", ("result",)),
    "echelon_scheduler_pods_evicted_total": ("Pods evicted to make room.", ()),
    "echelon_scheduler_preempted_pod_seconds_total": ("Seconds that evicted pods had run.", ()),
    "echelon_scheduler_preempted_device_seconds_total": ("The same, times the devices they had.", ("resource",)),
    "echelon_scheduler_reservations_total": ("Reservations made for starving roots, and lapsed ones.", ("event",)),
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
    "scheduler_pod_scheduling_sli_duration_seconds": ("From first seeing a pod until it is bound.", (), _SECONDS),
    "scheduler_preemption_victims": ("Pods evicted by one preemption for a pod.", (), _POD_VICTIMS),
    "scheduler_workload_preemption_victims": ("Pods evicted by one preemption for a tree.", (), _GROUP_VICTIMS),
    "echelon_scheduler_time_to_schedule_seconds": (
        "From the creation of the oldest pending pod of a root until all that was placed is bound.",
        ("size", "priority"), _WAITS,
    ),
    "echelon_scheduler_engine_steps": ("Steps of its budget that a decision used.", (), _STEPS),
    "echelon_scheduler_binding_duration_seconds": ("From sending a binding until its answer.", (), _SECONDS),
}  # fmt: skip
#: name -> what it is, its labels; read at each scrape
GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "scheduler_queued_entities": ("Pods without a group and trees of groups that are waiting.", ("queue", "type")),
    "scheduler_pending_pods": ("Pods that are not bound, members of groups included.", ("queue",)),
    "echelon_scheduler_oldest_pending_seconds": ("The age of the oldest waiting pod.", ("type",)),
    "echelon_scheduler_reservations": ("Reservations that are held.", ()),
    "echelon_scheduler_oldest_reservation_seconds": ("The age of the oldest reservation.", ()),
}
#: The queues that kube-scheduler's gauges tell apart.
_LINES = ("active", "unschedulable", "preempting", "incomplete", "gated")

Verdict = Placed | Evict | Blocked
#: How an attempt ends.
Result = Literal["scheduled", "unschedulable", "waiting_on_preemption", "error"]


class Metrics:
    """The metrics of one scheduler, in a registry that may hold others."""

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
        """An equal demand is known to be blocked."""
        self._count("echelon_scheduler_verdicts_total", "remembered")

    def attempted(self, root: Root, result: Result, seconds: float) -> None:
        """An attempt is over."""
        profile = root.scheduler
        kind = "podgroup_" if isinstance(root, GroupNode) else ""
        self._measured(f"scheduler_{kind}scheduling_attempt_duration_seconds", result, profile).observe(seconds)
        if isinstance(root, GroupNode):
            self._count("scheduler_podgroup_schedule_attempts_total", result, profile)
        if result != "scheduled":
            # Scheduled pods are counted one by one as they are bound.
            outcome = "error" if result == "error" else "unschedulable"
            self._count("scheduler_schedule_attempts_total", outcome, profile, by=_count(root.pending_pods()))

    def scheduled(self, root: Root, pods: int, since: str, now: float) -> None:
        """All bindings of a root are answered, the oldest of its pods was pending since then."""
        if since:
            labels = _class_of(pods, _SIZES, "513+"), _class_of(root.priority, _PRIORITIES, "1000000+")
            waited = max(0.0, now - parse(since))
            self._measured("echelon_scheduler_time_to_schedule_seconds", *labels).observe(waited)

    def lost(self, seconds: float, requests: Iterable[tuple[str, int]]) -> None:
        """A pod is evicted that has run this long with these resources."""
        self._count("echelon_scheduler_preempted_pod_seconds_total", by=seconds)
        for resource, amount in requests:
            if is_extended(resource) and amount:
                self._count("echelon_scheduler_preempted_device_seconds_total", resource, by=seconds * amount)

    def reserved(self, event: Literal["made", "lapsed"]) -> None:
        """A reservation was made for a root, or lapsed."""
        self._count("echelon_scheduler_reservations_total", event)

    def answered(self, seconds: float) -> None:
        """A binding was answered, whatever the answer."""
        self._answers.observe(seconds)

    def bound(self, member: Member, seconds: float) -> None:
        """A pod is bound, `seconds` after it was first seen."""
        self._count("echelon_scheduler_bindings_total", "bound")
        self._count("scheduler_schedule_attempts_total", "scheduled", member.scheduler)
        self._waits.observe(seconds)

    def refused(self, member: Member) -> None:
        """A binding was refused or given up."""
        self._count("echelon_scheduler_bindings_total", "refused")
        self._count("scheduler_schedule_attempts_total", "error", member.scheduler)

    def preempting(self, root: Root, victims: int, violations: int) -> None:
        """`victims` pods are evicted for a root."""
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
    """Waiting roots and pods, counted at each scrape."""

    def __init__(
        self,
        names: Collection[str],
        states: Callable[[], Iterable[RootState]],
        queue: Queue,
        now: Callable[[], float],
        reservations: Callable[[], Sequence[float]] = tuple,
    ) -> None:
        self._names = names
        self._states = states
        self._queue = queue
        self._now = now
        #: The ages of reservations.
        self._reservations = reservations

    def describe(self) -> Iterator[Metric]:
        """Nothing is known before the first scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        entities: GroupCounts[tuple[str, ...]] = GroupCounts()
        pods: GroupCounts[tuple[str, ...]] = GroupCounts({(line,): 0 for line in _LINES})
        oldest: dict[tuple[str, ...], float] = {}
        for state in self._states():
            if state.root.scheduler not in self._names:
                continue
            kind, line = state.root.kind, self._line(state)
            if line:
                entities[line, kind] += 1
                pods[line,] += _count(state.root.pending_pods())
                if state.since:
                    oldest[kind,] = max(oldest.get((kind,), 0.0), self._now() - parse(state.since))
            pods["gated",] += _gated_pods(state.root)
        ages = self._reservations()
        found: tuple[Mapping[tuple[str, ...], float], ...] = (
            entities, pods, oldest, {(): len(ages)}, {(): max(ages, default=0.0)}
        )  # fmt: skip
        for (name, (text, labels)), values in zip(GAUGES.items(), found, strict=True):
            gauge = GaugeMetricFamily(name, text, labels=labels)
            for key, value in sorted(values.items()):
                gauge.add_metric(key, value)
            yield gauge

    def _line(self, state: RootState) -> str:
        """The queue that a root waits in; "" if it does not wait."""
        if self._queue.is_active(state.root.id):
            return "active"
        if self._queue.wants_room(state.root.id):
            return "unschedulable"
        if state.preempting is not None and state.preempting.victims:
            return "preempting"
        root = state.root
        return "incomplete" if isinstance(root, GroupNode) and _count(root.pending_pods()) else ""


def _name_of(verdict: Verdict) -> str:
    if isinstance(verdict, Blocked):
        return "blocked" if verdict.proved else "exhausted"
    return "placed" if isinstance(verdict, Placed) else "evict"


def _class_of(value: int, classes: Iterable[tuple[int, str]], last: str) -> str:
    return next((name for beyond, name in classes if value < beyond), last)


def _count(pods: Iterable[Member]) -> int:
    return sum(1 for _ in pods)


def _gated_pods(root: Root) -> int:
    """The pods of a tree behind scheduling gates; a gated pod without a group is not a root yet."""
    members = (member for leaf in root.leaves() for member in leaf.members.values())
    return sum(not member.place and member.gated for member in members)
