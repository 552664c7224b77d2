"""The two protection controllers: PodGroups wait for their pods, CompositePodGroups for their child groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..api import meta
from ..api.scheme import COMPOSITE_POD_GROUPS, POD_GROUPS, PODS, Object
from ..api.vocabulary import COMPOSITE_PROTECTION, POD_GROUP_PROTECTION
from ..client.informer import Caches
from ..decide.plan import NOTHING, Plan
from ..decide.protection import any_active, release
from .runner import Source, own_key

_GROUP = "pod-group"
_PARENT = "parent-group"


class PodGroupProtection:
    name = "podgroup-protection"

    def __init__(self, caches: Caches) -> None:
        self._groups = caches.of(POD_GROUPS)
        self._pods = caches.of(PODS, {_GROUP: group_of_pod})

    def sources(self) -> Sequence[Source]:
        return (Source(POD_GROUPS, own_key), Source(PODS, self._deleting_group))

    def decide(self, key: str, now: float) -> Plan:
        group = self._groups.get(key)
        if group is None:
            return NOTHING
        return release(POD_GROUPS, group, POD_GROUP_PROTECTION, any_active(self._pods.find(_GROUP, key)))

    def _deleting_group(self, pod: Object) -> Iterable[str]:
        """Pods of groups that are not going anywhere concern nobody here."""
        return [key for key in group_of_pod(pod) if (group := self._groups.get(key)) and meta.deleting(group)]


class CompositePodGroupProtection:
    name = "compositepodgroup-protection"

    def __init__(self, caches: Caches) -> None:
        self._groups = caches.of(COMPOSITE_POD_GROUPS, {_PARENT: parent_of_group})
        self._leaves = caches.of(POD_GROUPS, {_PARENT: parent_of_group})

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
        return release(COMPOSITE_POD_GROUPS, group, COMPOSITE_PROTECTION, children)


def group_of_pod(pod: Object) -> Iterable[str]:
    name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    return (f"{meta.namespace(pod)}/{name}",) if name else ()


def parent_of_group(group: Object) -> Iterable[str]:
    name = group["spec"].get("parentCompositePodGroupName")
    return (f"{meta.namespace(group)}/{name}",) if name else ()
