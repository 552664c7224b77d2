"""Gangs that are not placed, told on the objects that users made: Job, JobSet and TrainJob.

    PodGroup, CompositePodGroup (conditions written by the scheduler)
        └► condition GangPending and an event on the Job, and on the JobSet; an event on the TrainJob of the JobSet

A TrainJob gets no condition, because its clients take conditions they do not know for its state; its events come with
each change of the condition of its JobSet.  Groups of Jobs that do not run yet are not looked at.  Explanations change
with every pod that ends somewhere: another text for the same reason is told only after a while, and a Job whose gang
belongs to a JobSet only points to it, so that a gang of many Jobs costs no more writes than it has Jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..api.objects.vocabulary import GANG_PENDING, INITIALLY_SCHEDULED
from ..api.scheme import COMPOSITE_POD_GROUPS, POD_GROUPS, Object, Resource
from ..api.views.group_views import GroupView
from ..api.views.job_views import JobView
from ..api.views.object_view import Condition, ObjectView
from ..api.views.pod_views import PodView
from ..base.instants import parse
from .plan import Draft, Note, Plan
from .status_draft import EventType, StatusDraft

#: Something that an event can be about.
Target = tuple[Resource, Object]

SCHEDULED = "GangScheduled"
UNSCHEDULABLE = "GangUnschedulable"
PREEMPTED = "GangPreempted"
RELEASED = "GangReleased"
DELETED = "GangDeleted"
#: Members were lost and cannot be placed again.
INCOMPLETE = "GangIncomplete"
#: What is worse is told first.
_ORDER = (DELETED, RELEASED, PREEMPTED, UNSCHEDULABLE, INCOMPLETE)
_DISRUPTIONS = {"ReleasedByScheduler": RELEASED}
#: Pods of a new gang are made and placed meanwhile.
_GRACE_SECONDS = 5.0
#: Between two texts for the same reason; on one of many Jobs of a JobSet, which says the same.
SECONDS_BETWEEN_TEXTS = 15.0
SECONDS_BETWEEN_TEXTS_OF_PARTS = 120.0


@dataclass(frozen=True)
class Gangs:
    """The groups that an object's pods are in."""

    groups: Sequence[GroupView] = ()
    #: The time before which no other text for the same reason is told.
    quiet_until: float = 0.0
    #: `Kind/name` of the object that says more; "" if this one is to say all.
    spokesman: str = ""
    #: Pods of the object: one that waits though its group was placed is a member that the gang has lost.
    pods: Sequence[PodView] = ()
    #: Jobs of which some tell of gangs of their own or of lost members, for their JobSet to repeat.
    below: Sequence[JobView] = ()


NO_GANGS = Gangs()


class _Found(NamedTuple):
    """In the order in which it is told: what is worse first, and what holds up a whole tree before its parts."""

    rank: int
    inner: bool
    name: str
    whose: str
    message: str


@dataclass(frozen=True)
class _Trouble:
    reason: str
    message: str


def tell(gangs: Gangs, status: StatusDraft, draft: Draft, now: float, also: Sequence[Target] = ()) -> None:
    """Set or clear the condition, with an event on the object and on those in `also`."""
    told = status.find(GANG_PENDING)
    found = _worst(gangs, draft, now)
    if found is None:
        if told is not None and told["status"] == "True":
            _set(status, "False", SCHEDULED, "the gang is placed", "Normal", also)
        return
    if told is not None and (told["status"], told["reason"]) == ("True", found.reason):
        if told["message"] == found.message:
            return
        if now < gangs.quiet_until:
            draft.requeue(gangs.quiet_until - now)
            return
    _set(status, "True", found.reason, found.message, "Warning", also)


def clear(status: StatusDraft, why: str) -> None:
    """The object has ended or is suspended: nothing is placed for it, and nothing should be."""
    if status.is_true(GANG_PENDING):
        StatusDraft.set(status, GANG_PENDING, "False", why, "no gang is to be placed")


def in_use(gangs: Gangs, jobs: Sequence[JobView]) -> Gangs:
    """The groups that these Jobs are in, with those above them, and what the Jobs say themselves."""
    by_name = {(group.resource.kind, group.name): group for group in gangs.groups}
    joined = {job.spec.template.group_name for job in jobs if not job.spec.suspend}
    found: dict[str, GroupView] = {}
    for name in sorted(joined):
        group = by_name.get((POD_GROUPS.kind, name))
        while group is not None and group.uid not in found:
            found[group.uid] = group
            group = by_name.get((COMPOSITE_POD_GROUPS.kind, group.spec.parent_composite_pod_group_name))
    return replace(gangs, groups=list(found.values()), below=jobs)


def was_told(obj: Object, plan: Plan) -> bool:
    """Whether a plan tells something new."""
    if plan.status is None:
        return False
    return _condition(plan.status.status) != _condition(obj.get("status") or {})


def owner_of(view: ObjectView[Any, Any], resource: Resource) -> list[Target]:
    """The controlling owner of an object if it is of this kind, as much of it as an event needs."""
    owner = view.controller
    if owner is None or owner.kind != resource.kind:
        return []
    return [(resource, {"metadata": {"name": owner.name, "namespace": view.namespace, "uid": owner.uid}})]


def _condition(status: Object) -> Object | None:
    return next((one for one in status.get("conditions") or () if one.get("type") == GANG_PENDING), None)


def _set(
    status: StatusDraft,
    value: str,
    reason: str,
    message: str,
    event: EventType,
    also: Sequence[Target],
) -> None:
    # The rule of a Job's own conditions, that only a change of status counts, does not hold for explanations.
    if StatusDraft.set(status, GANG_PENDING, value, reason, message):
        status.note(event, reason, message)
        status.notes.extend(Note(resource, obj, event, reason, message) for resource, obj in also)


def _worst(gangs: Gangs, draft: Draft, now: float) -> _Trouble | None:
    found: list[_Found] = []
    for group in gangs.groups:
        reason, message = _read(group, draft, now)
        if reason:
            inner, name = bool(group.spec.parent_composite_pod_group_name), f"{group.resource.kind} {group.name}"
            found.append(_Found(_ORDER.index(reason), inner, group.name, name, message))
    if not found:
        found += _lost_members(gangs, draft, now)
    for job in gangs.below:
        told, joins = job.condition(GANG_PENDING), job.spec.template.group_name
        if told is not None and told.status == "True" and (told.reason == INCOMPLETE or not joins):
            found.append(_Found(_ORDER.index(told.reason), False, job.name, f"Job {job.name}", told.message))
    if not found:
        return None
    first = min(found)
    reason = _ORDER[first.rank]
    if gangs.spokesman and reason != INCOMPLETE:
        why = f"the condition {GANG_PENDING} of {gangs.spokesman} says why"
        return _Trouble(reason, f"{first.whose} is not placed; {why}")
    same = sum(one[:2] == first[:2] for one in found) - 1
    more = f" (and {same} more like it)" if same else ""
    return _Trouble(reason, f"{first.whose}{more}: {first.message}")


def _read(group: GroupView, draft: Draft, now: float) -> tuple[str, str]:
    """What is wrong with a group; ("", "") if nothing is, or it is too early to tell."""
    if group.deleting:
        return DELETED, "it was deleted, and stays until its last pod has ended"
    disrupted = group.condition("DisruptionTarget")
    if disrupted is not None and disrupted.status == "True":
        return _DISRUPTIONS.get(disrupted.reason, PREEMPTED), disrupted.message
    waiting = group.condition(INITIALLY_SCHEDULED[group.resource.kind])
    if waiting is None or waiting.status != "False":
        return "", ""
    if group.spec.scheduling_policy.gang is None and not group.spec.parent_composite_pod_group_name:
        return "", ""  # neither a gang nor part of one: its pods tell
    return (UNSCHEDULABLE, waiting.message) if _lasts(waiting, draft, now) else ("", "")


def _lost_members(gangs: Gangs, draft: Draft, now: float) -> list[_Found]:
    """Of each gang, the first pod that waits, with the number of those that do."""
    waiting: dict[str, list[PodView]] = {}
    placed = {group.name for group in gangs.groups if group.spec.scheduling_policy.gang is not None}
    for pod in gangs.pods if placed else ():
        if pod.spec.node_name or pod.deleting or pod.group_name not in placed:
            continue
        told = pod.condition("PodScheduled")
        if told is not None and told.status == "False":
            waiting.setdefault(pod.group_name, []).append(pod)
    found: list[_Found] = []
    for name, pods in waiting.items():
        told = min(pods, key=lambda pod: pod.name).condition("PodScheduled")
        assert told is not None
        if _lasts(told, draft, now):
            number = "1 pod waits" if len(pods) == 1 else f"{len(pods)} pods wait"
            whose, message = f"{POD_GROUPS.kind} {name}", f"{number}: {told.message}"
            found.append(_Found(_ORDER.index(INCOMPLETE), False, name, whose, message))
    return found


def _lasts(told: Condition, draft: Draft, now: float) -> bool:
    """Whether a condition holds for so long that it is worth telling; if not, it is looked at again then."""
    left = parse(told.last_transition_time) + _GRACE_SECONDS - now if told.last_transition_time else 0.0
    if left > 0:
        draft.requeue(left)
    return left <= 0
