"""Pods that no node will ever end."""

from __future__ import annotations

import pytest

from echelon.api.scheme import PODS, Object
from echelon.api.views.cluster_views import NodeView
from echelon.api.views.pod_views import PodView
from echelon.base.instants import to_time
from echelon.decide.nodes.lost_pods import reconcile
from echelon.decide.plan import NOTHING, ApplyPatch, Delete, Plan

NOW = 1_800_000_000.0
DELETE = Delete(PODS, "ns", "p", "u", grace_period_seconds=0)


def node(ready: str = "True", *, out_of_service: bool = False) -> NodeView:
    taints = [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}] if out_of_service else []
    conditions = [{"type": "Ready", "status": ready}]
    return NodeView({"metadata": {"name": "n"}, "spec": {"taints": taints}, "status": {"conditions": conditions}})


def decided(
    on: str, where: NodeView | None, *, phase: str = "Running", deleting: bool = False, grace: int | None = 30
) -> Plan:
    metadata: Object = {"name": "p", "namespace": "ns", "uid": "u"}
    if deleting:
        metadata |= {"deletionTimestamp": to_time(NOW), "deletionGracePeriodSeconds": grace}
    spec = {"nodeName": on} if on else {}
    return reconcile(PodView({"metadata": metadata, "spec": spec, "status": {"phase": phase}}), where, NOW)


def written(plan: Plan) -> Object:
    """The status that the first stage writes."""
    (patch,) = plan.stages[0]
    assert isinstance(patch, ApplyPatch)
    assert (patch.name, patch.subresource, patch.gone_is_fine) == ("p", "status", True)
    assert patch.patch.body["metadata"] == {"uid": "u"}
    status: Object = patch.patch.body["status"]
    return status


def test_pods_that_a_node_takes_care_of_are_left_alone() -> None:
    assert decided("n", node()) == NOTHING
    assert decided("n", node(), deleting=True) == NOTHING
    assert decided("n", node("Unknown"), deleting=True) == NOTHING
    assert decided("", None) == NOTHING


def test_a_pod_of_a_node_that_is_gone_fails_as_disrupted_and_goes() -> None:
    for deleting in (False, True):
        plan = decided("n", None, deleting=deleting)
        status = written(plan)
        assert status["phase"] == "Failed"
        (condition,) = status["conditions"]
        assert (condition["type"], condition["status"]) == ("DisruptionTarget", "True")
        assert (condition["reason"], condition["lastTransitionTime"]) == ("DeletionByPodGC", to_time(NOW))
        assert plan.stages[1:] == ((DELETE,),)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_one_that_ended_keeps_its_result(phase: str) -> None:
    assert decided("n", None, phase=phase).stages == ((DELETE,),)


def test_a_pod_that_was_never_bound_and_is_deleted_fails_and_is_not_deleted_twice() -> None:
    plan = decided("", None, phase="Pending", deleting=True)
    assert written(plan) == {"phase": "Failed"}
    assert len(plan.stages) == 1


def test_a_deletion_without_a_grace_period_is_not_repeated() -> None:
    assert len(decided("n", None, deleting=True, grace=0).stages) == 1
    assert len(decided("n", None, deleting=True, grace=1).stages) == 2
    assert decided("n", None, phase="Failed", deleting=True, grace=0).empty


def test_a_deleted_pod_of_a_node_out_of_service_goes() -> None:
    plan = decided("n", node("Unknown", out_of_service=True), deleting=True)
    assert written(plan) == {"phase": "Failed"}
    assert plan.stages[1:] == ((DELETE,),)
    # Only a deleted one, and only if the node does not answer.
    assert decided("n", node("Unknown", out_of_service=True)) == NOTHING
    assert decided("n", node("True", out_of_service=True), deleting=True) == NOTHING
