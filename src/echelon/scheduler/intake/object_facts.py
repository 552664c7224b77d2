"""What scheduling reads off single objects, without state.

    Node ─► node_of ─► the engine's Node
    Pod  ─► role_of, rank_of, started_at ─► `pod_events`

An event that leaves `node_facts` or `group_facts` as they were means nothing to scheduling.
"""

from __future__ import annotations

from typing import Any

from ...api.objects import meta, vocabulary
from ...api.scheme import NODES, Object
from ...api.views.cluster_views import NodeView
from ...api.views.group_views import GroupView
from ...api.views.pod_views import PodView
from ...base import quantity
from ...base.decimals import read_count
from ...base.instants import parse
from ...engine import LARGEST, Node, Taint
from ..devices.allotments import SKIPS, SKIPS_FEATURE

_NO_INDEX = 1 << 31
#: By the status of the condition Ready.
_STATES = {
    "False": Taint(vocabulary.NOT_READY, "", "NoSchedule"),
    "Unknown": Taint(vocabulary.UNREACHABLE, "", "NoSchedule"),
}
#: What placement looks at of one node; real nodes have a few dozen.
_MOST_RESOURCES, _MOST_TAINTS = 1_000, 1_000


def node_of(node: NodeView) -> Node:
    """A Node as the engine sees it."""
    allocatable = node.status.allocatable or node.status.capacity
    # Native resources (without a slash) come first: they are not among those left out.
    counted = sorted(sorted(allocatable, key=lambda name: ("/" in name, name))[:_MOST_RESOURCES])
    return Node(
        name=node.name,
        labels=dict(node.labels),
        allocatable={name: quantity.parse(allocatable[name], name) for name in counted} | _features(node),
        taints=_taints(node),
        unschedulable=node.spec.unschedulable,
    )


def _features(node: NodeView) -> dict[str, int]:
    """What the kubelet of a node can do that pods may need."""
    return {SKIPS: LARGEST} if SKIPS_FEATURE in node.status.declared_features else {}


def _taints(node: NodeView) -> tuple[Taint, ...]:
    """The taints of a node, and the one that a node that is not ready is about to get.

    The taint of a cordon is left out where the node itself says that it is cordoned.  More taints than can be compared
    with every pod become one that only a toleration of everything tolerates.
    """
    if len(node.spec.taints) > _MOST_TAINTS:
        return (Taint(f"{len(node.spec.taints)} taints", "", "NoSchedule"),)
    cordoned = node.spec.unschedulable
    found = [
        Taint(taint.key, taint.value, taint.effect)
        for taint in node.spec.taints
        if not (cordoned and taint.key == vocabulary.UNSCHEDULABLE)
    ]
    state = _STATES.get(node.ready)
    if state is not None and state not in found:
        found.append(state)
    return tuple(found)


def node_facts(node: NodeView) -> tuple[Any, ...]:
    status = node.status
    return node.labels, node.spec, node.ready, status.allocatable, status.capacity, status.declared_features


def group_facts(group: GroupView) -> tuple[Any, ...]:
    return group.uid, group.spec, group.annotations, group.controller


def role_of(pod: PodView) -> str:
    """What makes members different parts of one job: their controller, else their replicated job."""
    owner = pod.controller
    return owner.uid if owner is not None else pod.labels.get(vocabulary.REPLICATED_JOB_NAME, "")


def is_static(pod: PodView) -> bool:
    """Whether the object only mirrors a pod that a kubelet runs from its own files."""
    owner = pod.controller
    return vocabulary.MIRROR_POD in pod.annotations or (owner is not None and owner.kind == NODES.kind)


def rank_of(pod: PodView) -> tuple[int, str, str]:
    """Order among interchangeable members: completion index, then age, then name."""
    index = read_count(pod.annotations.get(vocabulary.COMPLETION_INDEX, ""))
    return (_NO_INDEX if index is None else index, pod.metadata.creation_timestamp, pod.name)


def bound_at(pod: Object) -> str:
    """When a pod got its node, by the clock of the API server; "" if it has none.  Such times compare as text."""
    condition = meta.find_condition(pod, "PodScheduled")
    bound = condition is not None and condition.get("status") == "True"
    return str(condition.get("lastTransitionTime") or "") if condition is not None and bound else ""


def started_at(pod: PodView, now: float) -> float:
    """When a pod that runs began to; now if it does not say."""
    started = pod.status.start_time
    return parse(started) if started else now
