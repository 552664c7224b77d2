"""What a group's object says about its scheduling, read once when the object arrives.

    PodGroup, CompositePodGroup ─► policy_of ─► Policy ─► `tree` (who is complete), `demands` (what the engine is asked)

Also how groups are named here, and the shape in which `layout` says that something is wrong with a tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...api.objects import meta, vocabulary
from ...api.scheme import COMPOSITE_POD_GROUPS, POD_GROUPS, Object

COMPOSITE = COMPOSITE_POD_GROUPS.kind
POD_GROUP = POD_GROUPS.kind


class GroupKey(NamedTuple):
    """What names a group: children name parents and pods name groups, so uids will not do."""

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
    #: Fields of the group itself that placement cannot honour yet.
    unsupported: tuple[str, ...] = ()


def policy_of(group: Object) -> Policy:
    """The policy of a PodGroup or CompositePodGroup; its Workload is not consulted."""
    spec = group["spec"]
    gang = (spec.get("schedulingPolicy") or {}).get("gang")
    minimum = int(gang.get("minCount") or gang.get("minGroupCount") or 1) if gang else 1
    topology = (spec.get("schedulingConstraints") or {}).get("topology") or ()
    workload = spec.get("workloadRef") or {}
    notes = meta.annotations(group)
    preferred = notes.get(vocabulary.PREFERRED_TOPOLOGY, "").split(",")
    return Policy(
        minimum=minimum,
        gang=gang is not None,
        topology=topology[0]["key"] if topology else None,
        preferred=tuple(key.strip() for key in preferred if key.strip()),
        exclusive=notes.get(vocabulary.EXCLUSIVE_TOPOLOGY, ""),
        whole="all" in (spec.get("disruptionMode") or {}),
        priority=int(spec.get("priority") or 0),
        may_preempt=spec.get("preemptionPolicy") != "Never",
        workload=workload.get("workloadName", ""),
        template=workload.get("templateName", ""),
        parent=spec.get("parentCompositePodGroupName") or "",
        unsupported=("PodGroup spec.resourceClaims",) if spec.get("resourceClaims") else (),
    )
