"""The health of nodes as a decision: which conditions and taints follow, and when a taint ends a pod."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.scheme import Object
from echelon.api.views.cluster_views import LeaseView, NodeView
from echelon.api.views.pod_views import PodView
from echelon.base.instants import to_time
from echelon.decide.nodes import lifecycle, taint_eviction
from echelon.decide.nodes.lifecycle import Heartbeat
from echelon.decide.plan import ApplyPatch, Delete, Plan

NOW = 1_800_000_000.0
LATER = to_time(NOW)
UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"


def node(taints: list[Object] | None = None, cordoned: bool = False, **conditions: str) -> NodeView:
    return NodeView(
        {
            "metadata": {"name": "n0", "uid": "u", "resourceVersion": "7", "creationTimestamp": to_time(NOW - 1000)},
            "spec": {"taints": taints or [], "unschedulable": cordoned},
            "status": {"conditions": [{"type": type_, "status": status} for type_, status in conditions.items()]},
        }
    )


def pod(tolerations: list[Object] | None = None, bound: float = NOW - 500, **status: Any) -> PodView:
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": to_time(bound)},
        {"type": "Ready", "status": "True"},
    ]
    return PodView(
        {
            "metadata": {"name": "p", "namespace": "ns", "uid": "pu", "creationTimestamp": to_time(bound)},
            "spec": {"nodeName": "n0", "tolerations": tolerations or []},
            "status": {"phase": "Running", "conditions": conditions, **status},
        }
    )


def beat(age: float, seconds: int = 40) -> Heartbeat:
    return Heartbeat(LeaseView({"metadata": {"name": "n0"}, "spec": {"leaseDurationSeconds": seconds}}), NOW - age)


def patches(plan: Plan) -> list[ApplyPatch]:
    return [action for stage in plan.stages for action in stage if isinstance(action, ApplyPatch)]


def taints_after(plan: Plan) -> list[tuple[str, str]] | None:
    """Keys and effects that the plan writes; None if it leaves the taints alone."""
    for patch in patches(plan):
        if not patch.subresource:
            return [(taint["key"], taint["effect"]) for taint in patch.patch.body["spec"]["taints"] or ()]
    return None


@pytest.mark.parametrize(
    ("heartbeat", "expired", "again"),
    [
        (None, False, None),
        (beat(0), False, 50),
        (beat(49), False, 1),
        (beat(50), True, None),
        (beat(50, seconds=900), False, 850),
        (beat(900, seconds=900), True, None),
    ],
)
def test_a_lease_is_waited_for_as_long_as_it_says_and_at_least_fifty_seconds(
    heartbeat: Heartbeat | None, expired: bool, again: float | None
) -> None:
    plan = lifecycle.reconcile(node(Ready="True"), heartbeat, (), NOW)
    assert (bool(patches(plan)), plan.requeue_after) == (expired, again)


def test_an_expired_lease_makes_every_reported_condition_unknown_and_tells_the_node() -> None:
    plan = lifecycle.reconcile(node(Ready="True", DiskPressure="False"), beat(60), (), NOW)
    (patch,) = patches(plan)
    assert (patch.subresource, patch.patch.body["metadata"]["resourceVersion"]) == ("status", "7")
    told = {one["type"]: (one["status"], one["reason"]) for one in patch.patch.body["status"]["conditions"]}
    assert told == {
        "Ready": ("Unknown", "NodeStatusUnknown"),
        "MemoryPressure": ("Unknown", "NodeStatusNeverUpdated"),
        "DiskPressure": ("Unknown", "NodeStatusUnknown"),
        "PIDPressure": ("Unknown", "NodeStatusNeverUpdated"),
    }
    assert [(note.reason, note.message) for note in plan.notes] == [
        ("NodeNotReady", "Node n0 status is now: NodeNotReady")
    ]


BOTH = [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
OWN = {"key": "team", "value": "a", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("observed", "taints"),
    [
        (node(), None),
        (node(Ready="True"), None),
        (node(Ready="Unknown"), BOTH),
        (node(Ready="False"), [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
        (node([OWN], Ready="Unknown"), [("team", "NoExecute"), *BOTH]),
        (node([{"key": UNREACHABLE, "effect": "NoExecute"}], Ready="Unknown"), list(reversed(BOTH))),
        (node([{"key": key, "effect": effect} for key, effect in BOTH], Ready="Unknown"), None),
        (node([{"key": key, "effect": effect} for key, effect in BOTH], Ready="True"), []),
        (
            node([{"key": key, "effect": effect} for key, effect in BOTH], Ready="False"),
            [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")],
        ),
        # Nobody has said how these nodes are: taints set by hand stay.
        (node([{"key": NOT_READY, "effect": "NoSchedule"}]), None),
        (node([{"key": UNREACHABLE, "effect": "NoExecute"}]), None),
        (node(MemoryPressure="True"), [("node.kubernetes.io/memory-pressure", "NoSchedule")]),
        (node(NetworkUnavailable="True"), [("node.kubernetes.io/network-unavailable", "NoSchedule")]),
        (node(cordoned=True), [("node.kubernetes.io/unschedulable", "NoSchedule")]),
        (node([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]), []),
    ],
)
def test_taints_follow_conditions_and_cordons(observed: NodeView, taints: list[tuple[str, str]] | None) -> None:
    assert taints_after(lifecycle.reconcile(observed, None, (), NOW)) == taints


def test_taints_that_stay_keep_their_value_and_time() -> None:
    old = {"key": "team", "value": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    (patch,) = patches(lifecycle.reconcile(node([old], Ready="False"), None, (), NOW))
    assert patch.patch.body["spec"]["taints"] == [
        old,
        {"key": NOT_READY, "effect": "NoSchedule", "timeAdded": LATER},
        {"key": NOT_READY, "effect": "NoExecute", "timeAdded": LATER},
    ]


@pytest.mark.parametrize(("ready", "marked"), [("Unknown", 1), ("False", 0), ("True", 0)])
def test_pods_of_a_node_that_is_not_heard_of_are_not_ready(ready: str, marked: int) -> None:
    ended = pod(phase="Succeeded")
    plan = lifecycle.reconcile(node(Ready=ready), None, (pod(), ended), NOW)
    written = [patch for patch in patches(plan) if patch.resource.kind == "Pod"]
    assert [patch.patch.body["status"]["conditions"][0]["status"] for patch in written] == ["False"] * marked
    assert len([note for note in plan.notes if note.resource.kind == "Pod"]) == marked


def tolerates(key: str = "", seconds: int | None = None, operator: str = "Exists", value: str = "") -> Object:
    made: Object = {"key": key, "operator": operator, "effect": "NoExecute", "value": value}
    return made if seconds is None else {**made, "tolerationSeconds": seconds}


def taint(key: str, added: float | None, value: str = "", effect: str = "NoExecute") -> Object:
    made = {"key": key, "value": value, "effect": effect}
    return made if added is None else {**made, "timeAdded": to_time(added)}


OLD, NEW = taint("a", NOW - 100), taint("b", NOW - 10)


@pytest.mark.parametrize(
    ("observed", "taints", "left"),
    [
        (pod(), [], None),
        (pod(), [OLD], 0),
        (pod(), [taint("a", NOW, effect="NoSchedule")], None),
        (pod([tolerates("a")]), [OLD], None),
        (pod([tolerates("b")]), [OLD], 0),
        (pod([tolerates("a", 300)]), [OLD], 200),
        (pod([tolerates("a", 100)]), [OLD], 0),
        (pod([tolerates("a", -5)]), [OLD], 0),
        (pod([tolerates("", 300)]), [OLD, NEW], 200),
        (pod([tolerates("a"), tolerates("b", 300)]), [OLD, NEW], 290),
        # The first toleration that matches counts.
        (pod([tolerates("a", 300), tolerates("a")]), [OLD], 200),
        (pod([tolerates(), tolerates("a", 300)]), [OLD], None),
        (pod([tolerates("a", operator="Equal", value="x")]), [taint("a", NOW, "x")], None),
        (pod([tolerates("a", operator="Equal", value="y")]), [taint("a", NOW, "x")], 0),
        # A pod that came later tolerates the taint from then on.
        (pod([tolerates("a", 300)], bound=NOW - 20), [OLD], 280),
        # Without a time, from when it was first seen.
        (pod([tolerates("a", 300)]), [taint("a", None)], 260),
        (pod(phase="Succeeded"), [OLD], None),
    ],
)
def test_a_pod_stays_as_long_as_it_tolerates_every_taint(
    observed: PodView, taints: list[Object], left: float | None
) -> None:
    plan = taint_eviction.reconcile(observed, node(taints), lambda _: NOW - 40, NOW)
    assert plan.requeue_after == (left or None)
    deleted = [action for stage in plan.stages for action in stage if isinstance(action, Delete)]
    assert len(deleted) == (left == 0)


def test_an_evicted_pod_says_why_before_it_is_deleted() -> None:
    plan = taint_eviction.reconcile(pod(), node([OLD]), lambda _: NOW, NOW)
    (patch,) = patches(plan)
    (condition,) = patch.patch.body["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "DeletionByTaintManager")
    assert plan.notes[0].message == "Marking for deletion Pod ns/p"
