"""Topology objects of Kueue and KAI: node labels from wide to narrow, where the cluster serves such objects.

They are read from time to time instead of watched: most clusters serve neither kind, and a watch of kinds that may come
and go would need the right to read every CustomResourceDefinition.
"""

from __future__ import annotations

import logging

from ..api.cluster.topology_levels import TopologyObject
from ..api.errors import ApiError
from ..api.objects import meta
from ..api.objects.subtree import items
from ..api.scheme import Object, Resource
from ..api.verbs import Verbs

log = logging.getLogger(__name__)

KUEUE_GROUP = "kueue.x-k8s.io"
KAI_GROUP = "kai.scheduler"


def _topologies(group: str, version: str) -> Resource:
    return Resource(group, version, "topologies", "Topology", namespaced=False, builtin=False)


#: By group, its versions, the newest first.
_KINDS = {
    KUEUE_GROUP: tuple(_topologies(KUEUE_GROUP, version) for version in ("v1beta2", "v1beta1", "v1alpha1")),
    KAI_GROUP: (_topologies(KAI_GROUP, "v1alpha1"),),
}


class TopologyReader:
    """Reads them again and again; that it may not is logged once."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._refused: set[str] = set()

    async def read(self) -> list[TopologyObject]:
        """Those of Kueue, else those of KAI, by name; none where neither is served or may be read."""
        for versions in _KINDS.values():
            for resource in versions:
                found = await self._list(resource)
                if found:
                    return found
        return []

    async def _list(self, resource: Resource) -> list[TopologyObject]:
        try:
            listed = await self._verbs.list(resource)
        except ApiError as error:
            if error.code == 403 and resource.group not in self._refused:
                self._refused.add(resource.group)
                log.warning("topology levels are not taken from %s: %s", resource.qualified, error)
            if error.code in (403, 404):
                return []
            raise
        return [
            TopologyObject(f"Topology/{meta.name(one)} of {resource.group}", _keys(one))
            for one in sorted(listed.items, key=meta.name)
        ]


def _keys(obj: Object) -> tuple[str, ...]:
    named = (level.get("nodeLabel") for level in items(obj, "spec", "levels") if isinstance(level, dict))
    return tuple(dict.fromkeys(key for key in named if isinstance(key, str) and key))
