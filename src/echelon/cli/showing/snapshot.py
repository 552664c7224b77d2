"""The objects that `echelon tree` shows, read at once, and which of them belong together.

Works on any cluster: it only lists.  Children are owned objects (TrainJob → JobSet → Job → pods) or, for a Workload or
a group, the group hierarchy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...api.errors import ApiError
from ...api.group_kinds import group_of
from ...api.objects import meta
from ...api.scheme import (
    COMPOSITE_POD_GROUPS,
    EVENTS,
    JOB_SETS,
    JOBS,
    NODES,
    POD_GROUPS,
    PODS,
    TRAIN_JOBS,
    WORKLOADS,
    Object,
    Resource,
)
from ...api.verbs import Verbs
from ..output import counting_order

SHOWN = (TRAIN_JOBS, JOB_SETS, JOBS, WORKLOADS, COMPOSITE_POD_GROUPS, POD_GROUPS, PODS)
_GROUPS = (COMPOSITE_POD_GROUPS, POD_GROUPS)


@dataclass
class Snapshot:
    """All objects of one namespace that a tree can contain, its events, and the nodes."""

    objects: dict[Resource, list[Object]]
    events: list[Object]
    nodes: dict[str, Object]
    #: Kinds that whoever asks may not list, with the words of the server.
    hidden: dict[Resource, str] = field(default_factory=dict)

    @staticmethod
    async def read(verbs: Verbs, namespace: str) -> Snapshot:
        hidden: dict[Resource, str] = {}

        async def items(resource: Resource, space: str) -> list[Object]:
            try:
                return sorted((await verbs.list(resource, space)).items, key=by_number)
            except ApiError as error:
                if error.code == 403:
                    hidden[resource] = str(error)
                elif error.code != 404:  # kinds that this cluster does not serve
                    raise
                return []

        listed = {resource: await items(resource, namespace) for resource in SHOWN}
        events = await items(EVENTS, namespace)
        nodes = await items(NODES, "")
        return Snapshot(listed, events, {meta.name(node): node for node in nodes}, hidden)

    def find(self, resource: Resource, name: str) -> Object | None:
        return next((obj for obj in self.objects[resource] if meta.name(obj) == name), None)

    def children(self, resource: Resource, obj: Object) -> Iterable[tuple[Resource, Object]]:
        name = meta.name(obj)
        if resource is WORKLOADS:
            for kind in _GROUPS:
                for group in self.objects[kind]:
                    spec = group["spec"]
                    belongs = (spec.get("workloadRef") or {}).get("workloadName") == name
                    if belongs and not spec.get("parentCompositePodGroupName"):
                        yield kind, group
        elif resource is COMPOSITE_POD_GROUPS:
            for kind in _GROUPS:
                for group in self.objects[kind]:
                    if group["spec"].get("parentCompositePodGroupName") == name:
                        yield kind, group
        elif resource is POD_GROUPS:
            for pod in self.objects[PODS]:
                if group_of(pod) == name:
                    yield PODS, pod
        else:
            for kind in (JOB_SETS, JOBS, PODS):
                for child in self.objects[kind]:
                    if meta.controlled_by(child, meta.uid(obj)):
                        yield kind, child

    def groups(self, resource: Resource, obj: Object) -> list[tuple[Resource, Object]]:
        """The groups that place an object: of a pod or Job its PodGroup, of others the roots they control."""
        if resource in (PODS, JOBS):
            name = group_of(obj if resource is PODS else obj["spec"]["template"])
            found = self.find(POD_GROUPS, name) if name else None
            if found is not None:
                return [(POD_GROUPS, found)]
        return [
            (kind, group)
            for kind in _GROUPS
            for group in self.objects[kind]
            if meta.controlled_by(group, meta.uid(obj)) and not group["spec"].get("parentCompositePodGroupName")
        ]


def by_number(obj: Object) -> list[tuple[int, str]]:
    """Sort key of an object by its name, as people count."""
    return counting_order(meta.name(obj))
