"""What `echelon tree` says of an object: its state, group, domain, why it waits, and by what it was evicted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...api.group_kinds import group_of
from ...api.objects import meta
from ...api.objects.vocabulary import BLOCK, INITIALLY_SCHEDULED, RACK, REGION, ZONE
from ...api.scheme import (
    COMPOSITE_POD_GROUPS,
    JOB_SETS,
    JOBS,
    POD_GROUPS,
    PODS,
    TRAIN_JOBS,
    WORKLOADS,
    Object,
    Resource,
)
from ...base.paths import spoken
from .snapshot import Snapshot

_DOMAIN_KEYS = (REGION, ZONE, BLOCK, RACK)
_GROUPS = (POD_GROUPS, COMPOSITE_POD_GROUPS)
_ENDED = ("Succeeded", "Failed")
#: Conditions of Jobs, JobSets and TrainJobs that have no pods to wait for.
_ENDS = ("Complete", "Completed", "Failed", "Suspended")
_OWNERS = (TRAIN_JOBS, JOB_SETS, JOBS)


@dataclass(frozen=True)
class Eviction:
    """Pods of an object that were evicted at one time."""

    pods: int
    #: The preemptor, by the object that owns its group; "" if it is not known.
    by: str
    #: As the event or condition says it.
    why: str
    at: str


@dataclass(frozen=True)
class TreeEntry:
    """One object of a tree; texts are "" where there is nothing to say."""

    kind: str
    name: str
    state: str
    #: Counts: pods done, restarts.
    progress: str
    #: Of a group: its policy and topology.
    policy: str
    #: The groups that place it: `PodGroup/…`.
    groups: tuple[str, ...]
    #: The narrowest domain that its running pods share; of a pod the node too.
    domain: str
    #: Why it waits, now.
    reason: str
    evictions: tuple[Eviction, ...]
    children: tuple[TreeEntry, ...]

    def as_data(self) -> dict[str, Any]:
        """As JSON has it: without what is empty."""
        own = {key: value for key, value in asdict(self).items() if value and key != "children"}
        own |= {key: list(own[key]) for key in ("groups", "evictions") if key in own}
        return own | ({"children": [child.as_data() for child in self.children]} if self.children else {})


def entry_of(snapshot: Snapshot, resource: Resource, obj: Object) -> TreeEntry:
    reason = _reason(snapshot, resource, obj)
    return TreeEntry(
        kind=resource.kind,
        name=meta.name(obj),
        state=_state(resource, obj, reason),
        progress=_progress(resource, obj),
        policy=_policy(resource, obj) if resource in _GROUPS else "",
        groups=tuple(f"{kind.kind}/{meta.name(group)}" for kind, group in snapshot.groups(resource, obj)),
        domain=_domain(snapshot, resource, obj),
        reason=reason,
        evictions=tuple(_evictions(snapshot, resource, obj)),
        children=tuple(entry_of(snapshot, kind, child) for kind, child in snapshot.children(resource, obj)),
    )


def _state(resource: Resource, obj: Object, reason: str) -> str:
    if resource is PODS:
        return "Terminating" if meta.deleting(obj) else _phase(obj)
    if resource in _GROUPS:
        told = meta.find_condition(obj, INITIALLY_SCHEDULED[resource.kind])
        if told is None or (told["status"] == "True" and reason):  # placed once, waiting again
            return "Pending"
        return str(told["reason"])
    if resource is WORKLOADS:
        return ""
    return next((type_ for type_ in _ENDS if meta.condition_is(obj, type_)), "Active")


def _progress(resource: Resource, obj: Object) -> str:
    status = obj.get("status") or {}
    if resource is JOBS:
        wanted = obj["spec"].get("completions") or obj["spec"].get("parallelism") or 1
        return f"{status.get('succeeded', 0)}/{wanted} done, {status.get('active', 0)} active"
    restarts = status.get("restarts") if resource is JOB_SETS else 0
    return f"{restarts} restart{'s' if restarts > 1 else ''}" if restarts else ""


def _policy(resource: Resource, group: Object) -> str:
    gang = group["spec"]["schedulingPolicy"].get("gang")
    policy = f"gang of {gang['minCount' if resource is POD_GROUPS else 'minGroupCount']}" if gang else "basic"
    keys = ((group["spec"].get("schedulingConstraints") or {}).get("topology")) or ()
    return f"{policy} in one {keys[0]['key'].rpartition('/')[2]}" if keys else policy


# -- where -------------------------------------------------------------------------------------------------


def _domain(snapshot: Snapshot, resource: Resource, obj: Object) -> str:
    nodes = sorted({pod["spec"]["nodeName"] for pod in _pods(snapshot, resource, obj) if _on_a_node(pod)})
    if resource is PODS:
        node = obj["spec"].get("nodeName")
        return spoken([*filter(None, _path(snapshot, node)), node]) if node else ""
    shared: list[str] = []
    for values in zip(*(_path(snapshot, node) for node in nodes), strict=True):
        if len(set(values)) > 1:
            break
        shared.append(values[0])
    return spoken(shared)


def _path(snapshot: Snapshot, node: str) -> list[str]:
    labels = meta.labels(snapshot.nodes[node]) if node in snapshot.nodes else {}
    return [labels.get(key, "") for key in _DOMAIN_KEYS]


def _pods(snapshot: Snapshot, resource: Resource, obj: Object) -> Iterable[Object]:
    """The pods below an object, itself if it is one."""
    if resource is PODS:
        yield obj
    for kind, child in snapshot.children(resource, obj):
        yield from _pods(snapshot, kind, child)


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def _on_a_node(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and _phase(pod) not in _ENDED


# -- why ---------------------------------------------------------------------------------------------------


def _reason(snapshot: Snapshot, resource: Resource, obj: Object) -> str:
    """Why it waits: its pods know it best, since a group that was placed once keeps saying so."""
    if resource is PODS:
        waits = not obj["spec"].get("nodeName") and _phase(obj) == "Pending"
        return _message(obj, "PodScheduled") if waits else ""
    if resource is JOBS or resource is POD_GROUPS:
        told = (_reason(snapshot, PODS, pod) for pod in _pods(snapshot, resource, obj))
        reason = next(filter(None, told), "")
        if reason:
            return reason
    groups = [(resource, obj)] if resource in _GROUPS else snapshot.groups(resource, obj)
    told = (_message(group, INITIALLY_SCHEDULED[kind.kind]) for kind, group in groups)
    return next(filter(None, told), "") or _warned(snapshot, resource, obj)


def _warned(snapshot: Snapshot, resource: Resource, obj: Object) -> str:
    """The newest warning about an owner that has nothing yet: its controller could not make it, or was not allowed."""
    if resource not in _OWNERS or any(meta.condition_is(obj, type_) for type_ in _ENDS):
        return ""
    if next(iter(snapshot.children(resource, obj)), None) is not None:
        return ""
    about = [one for one in snapshot.events if (one.get("involvedObject") or {}).get("uid") == meta.uid(obj)]
    warnings = [one for one in about if one.get("type") == "Warning"]
    return str(max(warnings, key=_time).get("message", "")) if warnings else ""


def _message(obj: Object, type_: str) -> str:
    """The message of a condition that is false."""
    found = meta.find_condition(obj, type_)
    return str(found.get("message", "")) if found is not None and found["status"] == "False" else ""


# -- what was evicted --------------------------------------------------------------------------------------


def _evictions(snapshot: Snapshot, resource: Resource, obj: Object) -> Iterable[Eviction]:
    """Of a Job, PodGroup or pod: evictions of its pods, gone ones too, by preemptor and time; oldest first."""
    if resource not in (JOBS, POD_GROUPS, PODS):
        return
    found: dict[tuple[str, str], list[str]] = {}
    for event in snapshot.events:
        if event.get("reason") == "Preempted" and _concerns(snapshot, event, resource, obj):
            by, why = _preemptor(snapshot, event), re.sub(r" on node \S+$", "", str(event.get("message", "")))
            found.setdefault((by, why), []).append(_time(event))
    for (by, why), times in sorted(found.items(), key=lambda item: max(item[1])):
        yield Eviction(len(times), by, why, max(times))
    told = _disrupted(obj) if resource is PODS and not found else None
    if told is not None:
        yield told


def _concerns(snapshot: Snapshot, event: Object, resource: Resource, obj: Object) -> bool:
    """Whether an event is about a pod of this object; names tell it of pods that are gone."""
    about = event.get("involvedObject") or {}
    if about.get("kind") != PODS.kind:
        return False
    name = str(about.get("name", ""))
    if resource is PODS:
        return bool(about.get("uid") == meta.uid(obj))
    if resource is JOBS:
        return re.fullmatch(rf"{re.escape(meta.name(obj))}(-\d+)?-[a-z0-9]{{5}}", name) is not None
    jobs = [job for job in snapshot.objects[JOBS] if group_of(job["spec"]["template"]) == meta.name(obj)]
    present = snapshot.find(PODS, name)
    return (present is not None and group_of(present) == meta.name(obj)) or any(
        _concerns(snapshot, event, JOBS, job) for job in jobs
    )


def _preemptor(snapshot: Snapshot, event: Object) -> str:
    """The preemptor by the object that owns it: people know JobSet/high, not its group."""
    related = event.get("related") or {}
    for resource in (*_GROUPS, PODS):
        if related.get("kind") == resource.kind:
            found = snapshot.find(resource, str(related.get("name", "")))
            owner = meta.controller_of(found) if found is not None else None
            if owner is not None:
                return f"{owner['kind']}/{owner['name']}"
    return f"{related['kind']}/{related.get('name', '')}" if related.get("kind") else ""


def _disrupted(pod: Object) -> Eviction | None:
    """A pod that says itself that it is evicted: by the eviction API, a taint, or another scheduler."""
    told = meta.true_condition(pod, "DisruptionTarget")
    if told is None:
        return None
    why = ": ".join(filter(None, (str(told.get("reason", "")), str(told.get("message", "")))))
    return Eviction(1, "", why, str(told.get("lastTransitionTime", "")))


def _time(event: Object) -> str:
    times: Sequence[object] = (
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    return str(next(filter(None, times), ""))
