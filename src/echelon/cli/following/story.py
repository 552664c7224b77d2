"""The log of `echelon run`: changes of objects become lines with a time, and stays of pods on nodes.

    informers ─► Story ─► lines (printed by `follow`)
                    └───► stays (drawn by `chart`)

Lines are per unit: a Job by its name, else a group, else a pod.  Changes are collected for a moment, so that a gang of
64 pods is one line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...api.group_kinds import group_of
from ...api.objects import meta
from ...api.objects.vocabulary import INITIALLY_SCHEDULED, JOB_NAME
from ...api.scheme import (
    COMPOSITE_POD_GROUPS,
    EVENTS,
    JOB_SETS,
    JOBS,
    NODES,
    POD_GROUPS,
    PODS,
    TRAIN_JOBS,
    Object,
    Resource,
)
from ...base.paths import spoken
from ...client.informer import Caches

#: How many calls in a row may return no lines while more pods of a gang are being bound.
_MOST_HELD = 5
#: Cluster time between two texts of a warning about the same object.
_SECONDS_BETWEEN_WARNINGS = 30.0
#: Warnings that say what other lines say: `waits`, `evicted`, `failed`.
_TOLD_OTHERWISE = (
    "FailedScheduling",
    "GangUnschedulable",
    "GangPreempted",
    "Failed",
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "PodFailurePolicy",
    "MaxFailedIndexesExceeded",
    "FailedIndexes",
)
#: Conditions that end a top-level object, by kind.
_ENDINGS = {"Job": ("Complete", "Failed"), "JobSet": ("Completed", "Failed"), "TrainJob": ("Complete", "Failed")}


@dataclass(frozen=True)
class Line:
    """One line of the log."""

    at: float
    verb: str
    subject: str
    text: str


@dataclass
class Stay:
    """A pod on a node; `end` is None while it is there."""

    unit: str
    node: str
    begin: float
    end: float | None = None


def unit_of(pod: Object) -> str:
    """The unit of a pod: its Job, else its PodGroup, else the pod itself."""
    job = meta.labels(pod).get(JOB_NAME)
    if job:
        return job
    return group_of(pod) or meta.name(pod)


def outcome(kind: str, obj: Object) -> str | None:
    """`complete`, `failed`, or None while it runs."""
    good, bad = _ENDINGS[kind]
    if meta.condition_is(obj, good):
        return "complete"
    return "failed" if meta.condition_is(obj, bad) else None


class Story:
    """Records changes from its creation on; `tell` returns the lines since the last call."""

    def __init__(self, caches: Caches, now: Callable[[], float], domain_keys: tuple[str, ...]) -> None:
        self._now = now
        self._domain_keys = domain_keys
        self._nodes = caches.of(NODES)
        self._lines: list[Line] = []
        #: What to tell at the next call: pods just bound by unit, victims counted by unit and preemptor,
        #: each with the time of the first.
        self._placed: dict[str, tuple[float, list[Object]]] = {}
        self._evicted: dict[tuple[str, str], tuple[float, int]] = {}
        self._growing = False
        self._held = 0
        self._waits: dict[str, str] = {}
        #: Every stay on a node, in order, by pod uid.
        self.stays: dict[str, Stay] = {}
        caches.of(PODS).add_handler(self._pod)
        #: Of each object and reason, when a warning was last told, and its text.
        self._warned: dict[tuple[str, str], tuple[float, str]] = {}
        caches.of(EVENTS).add_handler(self._preempted)
        caches.of(EVENTS).add_handler(self._warning)
        for resource in (JOBS, JOB_SETS, TRAIN_JOBS):
            caches.of(resource).add_handler(self._ending(resource))
        for resource in (POD_GROUPS, COMPOSITE_POD_GROUPS):
            caches.of(resource).add_handler(self._waiting(resource))

    def say(self, verb: str, subject: str, text: str = "") -> None:
        self._lines.append(Line(self._now(), verb, subject, text))

    def tell(self, *, last: bool = False) -> list[Line]:
        """New lines, collected by unit and in order of time; none while more changes of the same kind arrive."""
        if self._growing and self._held < _MOST_HELD and not last:
            self._growing = False
            self._held += 1
            return []
        self._growing, self._held = False, 0
        for (unit, preemptor), (at, count) in self._evicted.items():
            told = f"preempted by {preemptor}" if preemptor else "preempted"
            self._lines.append(Line(at, "evicted", unit, f"{_pods(count)}, {told}"))
        for unit, (at, pods) in self._placed.items():
            self._lines.append(Line(at, "placed", unit, f"{_pods(len(pods))} → {self._where(pods)}"))
        self._evicted.clear()
        self._placed.clear()
        lines, self._lines = self._lines, []
        return sorted(lines, key=lambda line: line.at)

    # -- listening -------------------------------------------------------------------------------------

    def _pod(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        node = pod["spec"].get("nodeName")
        if not node:
            return
        uid = meta.uid(pod)
        ended = new is None or (new.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        stay = self.stays.get(uid)
        if stay is None and not ended:
            self.stays[uid] = Stay(unit_of(pod), node, self._now())
            self._placed.setdefault(unit_of(pod), (self._now(), []))[1].append(pod)
            self._growing = True
        elif stay is not None and stay.end is None and ended:
            stay.end = self._now()

    def _preempted(self, old: Object | None, new: Object | None) -> None:
        """Which pods were preempted, and for what: the scheduler's event names it as `related`."""
        if old is not None or new is None or new.get("reason") != "Preempted":
            return
        victim = self.stays.get(new["involvedObject"].get("uid", ""))
        if victim is not None:
            related = new.get("related") or {}
            preemptor = f"{related.get('kind')}/{related.get('name')}" if related else ""
            first, count = self._evicted.get((victim.unit, preemptor), (self._now(), 0))
            self._evicted[victim.unit, preemptor] = (first, count + 1)
            self._growing = True

    def _warning(self, _: Object | None, event: Object | None) -> None:
        """A warning, once for each object and reason; another text for the same only after a while."""
        if event is None or event.get("type") != "Warning" or event.get("reason") in _TOLD_OTHERWISE:
            return
        about, reason, text = event["involvedObject"], str(event["reason"]), str(event.get("message", ""))
        subject = f"{about.get('kind')}/{about.get('name')}"
        at, last = self._warned.get((subject, reason), (-_SECONDS_BETWEEN_WARNINGS, ""))
        if text != last and self._now() - at >= _SECONDS_BETWEEN_WARNINGS:
            self._warned[subject, reason] = (self._now(), text)
            self.say("warning", subject, f"{reason}: {text}")

    def _ending(self, resource: Resource) -> Callable[[Object | None, Object | None], None]:
        def heard(old: Object | None, new: Object | None) -> None:
            if new is None:
                return
            name = f"{resource.kind}/{meta.name(new)}"
            self._restart(name, old, new)
            now = outcome(resource.kind, new)
            if now and (old is None or outcome(resource.kind, old) is None):
                self.say(now, name, "" if now == "complete" else _why_failed(new))

        return heard

    def _restart(self, name: str, old: Object | None, new: Object) -> None:
        before = ((old or {}).get("status") or {}).get("restarts") or 0
        after = (new.get("status") or {}).get("restarts") or 0
        if after > before:
            counted = (new["status"].get("restartsCountTowardsMax") or 0) > (
                ((old or {}).get("status") or {}).get("restartsCountTowardsMax") or 0
            )
            self.say("restarts", name, "counts towards maxRestarts" if counted else "not counted towards maxRestarts")

    def _waiting(self, resource: Resource) -> Callable[[Object | None, Object | None], None]:
        """A line for a pending root group each time its message changes; child groups are left out."""
        type_ = INITIALLY_SCHEDULED[resource.kind]

        def heard(_: Object | None, new: Object | None) -> None:
            if new is None or new["spec"].get("parentCompositePodGroupName"):
                return
            state = meta.find_condition(new, type_)
            message = str(state["message"]) if state is not None and state["status"] == "False" else ""
            name = f"{resource.kind}/{meta.name(new)}"
            if message and self._waits.get(name) != message:
                self.say("waits", name, message)
            self._waits[name] = message

        return heard

    def _where(self, pods: list[Object]) -> str:
        """The narrowest domain that all pods share, or the number of their nodes."""
        nodes = sorted({pod["spec"]["nodeName"] for pod in pods})
        if len(nodes) == 1:
            return str(nodes[0])
        shared = [values[0] for values in zip(*map(self._path, nodes), strict=True) if len(set(values)) == 1]
        place = spoken(shared)
        return f"{place} ({len(nodes)} nodes)" if place else f"{len(nodes)} nodes"

    def _path(self, node: str) -> tuple[str, ...]:
        obj = self._nodes.get(node)
        labels = meta.labels(obj) if obj else {}
        return tuple(labels.get(key, "") for key in self._domain_keys)


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _why_failed(obj: Object) -> str:
    failed = meta.find_condition(obj, "Failed")
    return f"{failed.get('reason', '')}: {failed.get('message', '')}" if failed else ""
