"""What API objects say, as far as scheduling looks at it: plain reading, without state.

    Node ─► node_of ─► the engine's Node
    Pod  ─► group_name, role_of, rank_of, started_at, has_ended ─► `pods`

An event that leaves `node_facts` or `group_facts` as they were means nothing to scheduling.
"""

from __future__ import annotations

from typing import Any

from ...api.objects import meta, vocabulary
from ...api.scheme import Object
from ...base import quantity
from ...base.instants import parse
from ...engine import Node, Taint

_NO_INDEX = 1 << 31


def node_of(node: Object) -> Node:
    """A Node as the engine sees it."""
    spec = node.get("spec") or {}
    status = node.get("status") or {}
    allocatable = status.get("allocatable") or status.get("capacity") or {}
    return Node(
        name=meta.name(node),
        labels=dict(meta.labels(node)),
        allocatable={name: quantity.parse(amount, name) for name, amount in sorted(allocatable.items())},
        taints=tuple(Taint(t["key"], t.get("value") or "", t["effect"]) for t in spec.get("taints") or ()),
        unschedulable=bool(spec.get("unschedulable")),
    )


def node_facts(node: Object) -> tuple[Any, ...]:
    status = node.get("status") or {}
    return meta.labels(node), node.get("spec"), status.get("allocatable"), status.get("capacity")


def group_facts(group: Object) -> tuple[Any, ...]:
    return meta.uid(group), group["spec"], meta.annotations(group), meta.controller_of(group)


def group_name(pod: Object) -> str:
    """The PodGroup that a pod names, "" if none."""
    return (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") or ""


def has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def role_of(pod: Object) -> str:
    """What makes members different parts of one job: their controller, else their replicated job."""
    owner = meta.controller_of(pod)
    if owner is not None:
        return str(owner["uid"])
    return meta.labels(pod).get(vocabulary.REPLICATED_JOB_NAME, "")


def rank_of(pod: Object) -> tuple[int, str, str]:
    """Order among interchangeable members: completion index, then age, then name."""
    index = meta.annotations(pod).get(vocabulary.COMPLETION_INDEX, "")
    created = pod["metadata"].get("creationTimestamp") or ""
    return (int(index) if index.isdigit() else _NO_INDEX, created, meta.name(pod))


def started_at(pod: Object, now: float) -> float:
    """When a pod that runs began to; now if it does not say."""
    started = (pod.get("status") or {}).get("startTime")
    return parse(started) if started else now
