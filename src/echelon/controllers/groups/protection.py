"""The two protection controllers: PodGroups wait for their pods, CompositePodGroups for their child groups.

A watch may lag, so before a group's finalizer is removed its members are listed from the server: what is listed
enters the caches, and the decision is made on those.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from ...api.group_kinds import group_of
from ...api.objects import meta
from ...api.objects.vocabulary import COMPOSITE_PROTECTION, POD_GROUP_PROTECTION
from ...api.scheme import COMPOSITE_POD_GROUPS, POD_GROUPS, PODS, Object, Resource
from ...api.views.group_views import CompositePodGroupView, GroupView, PodGroupView
from ...api.views.pod_views import PodView
from ...client.informer import Caches, ViewCache, revision
from ...decide.plan import NOTHING, Plan
from ...decide.protection import any_active, reconcile
from ..runner import Source, own_key

G = TypeVar("G", bound=GroupView)

_GROUP = "pod-group"
_PARENT = "parent-group"
#: Seconds for which a list serves all groups that were deleted before it.
_LIST_SECONDS = 1.0


class _Surveys:
    """Which lists from the server are still recent enough."""

    def __init__(self, *resources: Resource) -> None:
        self._resources = resources
        #: (kind, namespace) -> the revision listed, and when
        self._made: dict[tuple[Resource, str], tuple[int, float]] = {}

    def missing(self, group: GroupView, now: float) -> list[tuple[Resource, str]]:
        """The lists to be made before a group that is being deleted may go."""
        wanted = [(resource, group.namespace) for resource in self._resources]
        return [one for one in wanted if not self._is_good(one, revision(group.obj), now)]

    def made(self, resource: Resource, namespace: str, at: int, now: float) -> None:
        self._made = {one: made for one, made in self._made.items() if now - made[1] <= _LIST_SECONDS}
        self._made[resource, namespace] = (at, now)

    def _is_good(self, one: tuple[Resource, str], since: int, now: float) -> bool:
        at, made = self._made.get(one, (-1, 0.0))
        return at >= since and now - made <= _LIST_SECONDS


class _Protection(ABC, Generic[G]):
    """What both have in common."""

    def __init__(self, groups: ViewCache[G], *listed: Resource) -> None:
        self._groups = groups
        self._surveys = _Surveys(*listed)

    @abstractmethod
    def decide(self, key: str, now: float) -> Plan:
        """Remove the finalizer of a group that is being deleted and, as far as the caches tell, not needed."""

    def unsure(self, key: str, now: float) -> Iterable[tuple[Resource, str]]:
        group = self._groups.get(key)
        if group is None or self.decide(key, now) is NOTHING:
            return ()
        return self._surveys.missing(group, now)

    def surveyed(self, resource: Resource, namespace: str, at: int, now: float) -> None:
        self._surveys.made(resource, namespace, at, now)


class PodGroupProtection(_Protection[PodGroupView]):
    name = "podgroup-protection"

    def __init__(self, caches: Caches) -> None:
        super().__init__(caches.views(PodGroupView), PODS)
        self._pods = caches.views(PodView, {_GROUP: group_of_pod})

    def sources(self) -> Sequence[Source]:
        return (Source(POD_GROUPS, own_key), Source(PODS, self._deleting_group))

    def decide(self, key: str, now: float) -> Plan:
        group = self._groups.get(key)
        if group is None:
            return NOTHING
        return reconcile(group, POD_GROUP_PROTECTION, any_active(self._pods.find(_GROUP, key)))

    def _deleting_group(self, pod: Object) -> Iterable[str]:
        """The group of a pod, if that is being deleted."""
        return [key for key in group_of_pod(pod) if (group := self._groups.get(key)) and group.deleting]


class CompositePodGroupProtection(_Protection[CompositePodGroupView]):
    name = "compositepodgroup-protection"

    def __init__(self, caches: Caches) -> None:
        groups = caches.views(CompositePodGroupView, {_PARENT: parent_of_group})
        super().__init__(groups, COMPOSITE_POD_GROUPS, POD_GROUPS)
        self._leaves = caches.views(PodGroupView, {_PARENT: parent_of_group})

    def sources(self) -> Sequence[Source]:
        return (
            Source(COMPOSITE_POD_GROUPS, own_key),
            Source(COMPOSITE_POD_GROUPS, parent_of_group),
            Source(POD_GROUPS, parent_of_group),
        )

    def decide(self, key: str, now: float) -> Plan:
        group = self._groups.get(key)
        if group is None:
            return NOTHING
        children = bool(self._groups.find(_PARENT, key) or self._leaves.find(_PARENT, key))
        return reconcile(group, COMPOSITE_PROTECTION, children)


def group_of_pod(pod: Object) -> Iterable[str]:
    name = group_of(pod)
    return (f"{meta.namespace(pod)}/{name}",) if name else ()


def parent_of_group(group: Object) -> Iterable[str]:
    name = group["spec"].get("parentCompositePodGroupName")
    return (f"{meta.namespace(group)}/{name}",) if name else ()
