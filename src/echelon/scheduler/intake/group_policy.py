"""What a group's object says about its scheduling, read once when the object arrives.

    PodGroup, CompositePodGroup ─► policy_of ─► Policy ─► `group_tree` (complete?), `demands` (what the engine is asked)

Also the keys by which groups are known here, and how `tree_validation` says that something is wrong with a tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...api.objects import vocabulary
from ...api.scheme import COMPOSITE_POD_GROUPS, POD_GROUPS
from ...api.views.group_views import GroupView

COMPOSITE = COMPOSITE_POD_GROUPS.kind
POD_GROUP = POD_GROUPS.kind


class GroupKey(NamedTuple):
    """The key of a group: children and pods refer to groups by name, not by uid."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a tree is not scheduled; `waiting` if only something is still missing, otherwise it is wrong."""

    text: str
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """What a group's object says about its scheduling."""

    #: Pods of a PodGroup, child groups of a CompositePodGroup; 1 for the basic policy.
    minimum: int
    gang: bool
    topology: str | None
    preferred: tuple[str, ...]
    exclusive: str
    #: Whether the whole group is evicted as one.
    whole: bool
    priority: int
    may_preempt: bool
    workload: str
    template: str
    parent: str


def policy_of(group: GroupView) -> Policy:
    """The policy of a PodGroup or CompositePodGroup; its Workload is not consulted."""
    spec, annotations = group.spec, group.annotations
    gang = spec.scheduling_policy.gang
    topology = spec.scheduling_constraints.topology
    preferred = annotations.get(vocabulary.PREFERRED_TOPOLOGY, "").split(",")
    return Policy(
        minimum=1 if gang is None else gang.min_count or gang.min_group_count or 1,
        gang=gang is not None,
        topology=topology[0].key if topology else None,
        preferred=tuple(key.strip() for key in preferred if key.strip()),
        exclusive=annotations.get(vocabulary.EXCLUSIVE_TOPOLOGY, ""),
        whole="all" in spec.disruption_mode,
        priority=spec.priority,
        may_preempt=spec.preemption_policy != "Never",
        workload=spec.workload_ref.workload_name,
        template=spec.workload_ref.template_name,
        parent=spec.parent_composite_pod_group_name,
    )
