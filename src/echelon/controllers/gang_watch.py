"""Which gangs an object's pods are in, for `decide.gang_trouble`; and when the object last told about them."""

from __future__ import annotations

from collections.abc import Iterable

from ..api.group_kinds import group_of
from ..api.objects import meta
from ..api.objects.subtree import items, mapping
from ..api.objects.vocabulary import GROUP_PER_JOB
from ..api.scheme import JOBS, Object
from ..api.views.group_views import CompositePodGroupView, GroupView, PodGroupView
from ..client.informer import Caches, by_controller
from ..decide.gang_trouble import SECONDS_BETWEEN_TEXTS, SECONDS_BETWEEN_TEXTS_OF_PARTS, Gangs, was_told
from ..decide.plan import Plan

#: The index of objects by the groups that their pod templates name.
GROUPS_JOINED = "groups-joined"
_CONTROLLER = "controller"


class GangWatch:
    """One for each controller."""

    def __init__(self, caches: Caches) -> None:
        self._pod_groups = caches.views(PodGroupView, {_CONTROLLER: by_controller})
        self._composites = caches.views(CompositePodGroupView, {_CONTROLLER: by_controller})
        #: When an object last told something, by key; forgotten when it may say more.
        self._told: dict[str, float] = {}

    def of(self, obj: Object, key: str, now: float, spokesman: str = "") -> Gangs:
        """The groups that the object controls, and those that its templates name."""
        groups: dict[str, GroupView] = {}
        for cache in (self._pod_groups, self._composites):
            groups |= {group.key: group for group in cache.find(_CONTROLLER, meta.uid(obj))}
        for joined in groups_joined(obj):
            named = self._pod_groups.get(joined)
            if named is not None:
                groups[joined] = named
        quiet_until = self._told.get(key, 0.0)
        quiet_until += SECONDS_BETWEEN_TEXTS_OF_PARTS if spokesman else SECONDS_BETWEEN_TEXTS
        if quiet_until <= now:
            self._told.pop(key, None)
        return Gangs(list(groups.values()), quiet_until, spokesman)

    def heard(self, obj: Object, key: str, plan: Plan, now: float) -> Plan:
        """The plan, remembered if it tells something."""
        if was_told(obj, plan):
            self._told[key] = now
        return plan


def groups_joined(obj: Object) -> Iterable[str]:
    """Keys of the PodGroups that the pod templates of a Job or JobSet name."""
    if obj["kind"] == JOBS.kind:
        names = {group_of(mapping(obj, "spec", "template"))}
    else:
        names = {name for one in items(obj, "spec", "replicatedJobs") for name in _named_by_jobs(one)}
    return [f"{meta.namespace(obj)}/{name}" for name in sorted(names) if name]


def _named_by_jobs(replicated_job: Object) -> list[str]:
    """The one group of all Jobs, or the group of each."""
    prefix = mapping(replicated_job, "template", "metadata", "annotations").get(GROUP_PER_JOB)
    if prefix:
        return [f"{prefix}-{index}" for index in range(int(replicated_job.get("replicas", 1)))]
    return [group_of(mapping(replicated_job, "template", "spec", "template"))]
