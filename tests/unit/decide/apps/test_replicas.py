"""ReplicaSets and ReplicationControllers: which pods are made, which go, and what the status counts."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.scheme import PODS, Object
from echelon.api.views.pod_views import PodView
from echelon.api.views.replica_views import ReplicaSetView, ReplicationControllerView
from echelon.decide.apps import victims
from echelon.decide.apps.replicas import ObservedReplicas, reconcile
from echelon.decide.plan import ApplyPatch, Create, Delete, Plan

from .objects import NOW, pod, reference, replicated


def decided(owner: Object, *pods: Object, **more: Any) -> Plan:
    view = ReplicaSetView(owner) if owner["kind"] == "ReplicaSet" else ReplicationControllerView(owner)
    views = [PodView(one) for one in pods]
    observed = ObservedReplicas(
        view,
        owned=[one for one in views if one.controlled_by(view.uid)],
        orphans=[one for one in views if one.controller is None],
        related=lambda: [one for one in views if one.controller is not None],
        **more,
    )
    return reconcile(observed, NOW)


def deleted(plan: Plan) -> list[str]:
    return [action.name for stage in plan.stages for action in stage if isinstance(action, Delete)]


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
def test_pods_are_created_in_batches_that_double(kind: str) -> None:
    plan = decided(replicated(kind, replicas=10))
    assert [len(stage) for stage in plan.stages] == [1, 2, 4, 3]
    first = plan.stages[0][0]
    assert isinstance(first, Create)
    assert first.obj["metadata"] == {
        "labels": {"app": "a"},
        "generateName": "web-",
        "namespace": "default",
        "ownerReferences": [reference(replicated(kind))],
    }
    assert first.obj["spec"] == {"containers": [{"name": "c", "image": "i"}]}


def test_at_most_500_pods_are_created_at_a_time() -> None:
    assert sum(len(stage) for stage in decided(replicated(replicas=2000)).stages) == 500


def test_creations_keep_to_the_room_that_there_is_and_are_tried_again() -> None:
    plan = decided(replicated(replicas=3), room=2)
    assert sum(len(stage) for stage in plan.stages) == 2
    assert plan.requeue_after == 10
    assert decided(replicated(replicas=3), room=3).requeue_after is None


def test_as_many_pods_as_wanted_are_left_alone() -> None:
    owner = replicated(replicas=1)
    plan = decided(owner, pod("a", owner), room=0)
    assert plan.stages == ()
    assert plan.requeue_after is None
    assert sum(len(stage) for stage in decided(replicated(replicas=1)).stages) == 1


def test_nothing_is_created_in_a_namespace_that_is_deleted_or_for_an_owner_that_is() -> None:
    assert decided(replicated(), namespace_closed=True).stages == ()
    assert decided(replicated(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})).stages == ()


def test_pods_that_ended_or_are_deleted_do_not_count() -> None:
    owner = replicated(replicas=1)
    plan = decided(owner, pod("a", owner, phase="Failed"), pod("b", owner, deleting=True))
    assert [len(stage) for stage in plan.stages] == [1]
    assert plan.status is not None
    assert plan.status.status == {"replicas": 0, "observedGeneration": 1, "terminatingReplicas": 1}


def test_orphans_that_match_are_adopted_and_pods_that_do_not_are_released() -> None:
    owner = replicated(replicas=2)
    plan = decided(
        owner, pod("mine", owner), pod("orphan"), pod("lost", owner, labels={"app": "b"}), pod("x", labels={})
    )
    assert [len(stage) for stage in plan.stages] == [2]
    patches = {action.name: action for action in plan.stages[0] if isinstance(action, ApplyPatch)}
    assert patches["orphan"].patch.body["metadata"] == {"uid": "uid-orphan", "ownerReferences": [reference(owner)]}
    assert patches["lost"].patch.body["metadata"]["ownerReferences"] == [{"$patch": "delete", "uid": "uid-web"}]
    assert patches["lost"].resource is PODS
    # A pod that goes meanwhile is neither adopted nor released, and that is fine.
    assert all(patch.gone_is_fine for patch in patches.values())


def test_an_owner_that_is_deleted_adopts_and_releases_nothing() -> None:
    owner = replicated(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert decided(owner, pod("lost", owner, labels={}), pod("orphan")).stages == ()


def test_a_selector_of_expressions_selects() -> None:
    owner = replicated(replicas=1, selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]})
    assert [action.name for action in decided(owner, pod("orphan")).stages[0] if isinstance(action, ApplyPatch)] == [
        "orphan"
    ]


VICTIMS: list[tuple[str, Object, Object]] = [
    ("one that is not bound before one that is", {"node": "", "phase": "Pending", "ready_for": None}, {}),
    ("a pending one before a running one", {"phase": "Pending"}, {}),
    ("one that is not ready before one that is", {"ready_for": None}, {}),
    (
        "the one with the lower deletion cost",
        {"annotations": {victims.DELETION_COST: "-5"}},
        {"annotations": {victims.DELETION_COST: "10"}, "ready_for": 1},
    ),
    ("a cost that is no number counts as 0", {}, {"annotations": {victims.DELETION_COST: "+1"}, "age": 9000}),
    ("one that has been ready for far less time", {"ready_for": 10}, {"ready_for": 10_000}),
    ("one whose container was restarted more often", {"restarts": 3}, {"restarts": 1}),
    ("a far younger one", {"age": 10, "ready_for": None}, {"age": 90_000, "ready_for": None}),
]


@pytest.mark.parametrize(("goes", "stays"), [one[1:] for one in VICTIMS], ids=[one[0] for one in VICTIMS])
def test_the_pod_that_costs_least_goes(goes: Object, stays: Object) -> None:
    owner = replicated(replicas=1)
    # The uid, which decides at last, speaks for the other one.
    plan = decided(owner, pod("z", owner, **goes), pod("a", owner, **stays))
    assert deleted(plan) == ["z"]
    assert [note.message for note in plan.notes] == ["Deleted pod: z"]


def test_a_set_of_none_deletes_all_of_its_pods() -> None:
    owner = replicated(replicas=0)
    assert deleted(decided(owner, pod("a", owner), pod("b", owner))) == ["a", "b"]


def test_of_equal_pods_one_of_those_that_share_a_node_goes() -> None:
    owner, other = replicated(replicas=2), replicated(name="old")
    plan = decided(
        owner, pod("a", owner, node="alone"), pod("b", owner, node="shared"), pod("c", owner, node="free"),
        pod("other", other, node="shared"),
    )  # fmt: skip
    assert deleted(plan) == ["b"]


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("7", 7),
        ("-7", -7),
        ("0", 0),
        ("+7", 0),
        ("007", 0),
        ("", 0),
        ("x", 0),
        ("9" * 30, 0),
        ("2147483648", 0),
        ("2147483647", 2147483647),
        ("-2147483648", -2147483648),
        ("-2147483649", 0),
    ],
)
def test_deletion_cost(text: str, cost: int) -> None:
    assert victims.deletion_cost(PodView(pod("a", annotations={victims.DELETION_COST: text}))) == cost


def test_the_status_counts_ready_available_and_fully_labelled_pods() -> None:
    owner = replicated(replicas=3, minReadySeconds=50)
    owner["spec"]["template"] = {**owner["spec"]["template"], "metadata": {"labels": {"app": "a", "v": "2"}}}
    pods = [
        pod("a", owner, ready_for=100, labels={"app": "a", "v": "2"}),
        pod("b", owner, ready_for=20),
        pod("c", owner, ready_for=None),
    ]
    plan = decided(owner, *pods)
    assert plan.status is not None
    assert plan.status.status == {
        "replicas": 3,
        "fullyLabeledReplicas": 1,
        "readyReplicas": 2,
        "availableReplicas": 1,
        "terminatingReplicas": 0,
        "observedGeneration": 1,
    }
    assert plan.requeue_after == 30
    owner["status"] = plan.status.status
    assert decided(owner, *pods).status is None


@pytest.mark.parametrize(("ready_for", "available", "wait"), [(49, 0, 1), (50, 1, None), (51, 1, None)])
def test_a_pod_is_available_from_the_second_on_in_which_it_has_been_ready_for_long_enough(
    ready_for: float, available: int, wait: float | None
) -> None:
    owner = replicated(replicas=1, minReadySeconds=50)
    plan = decided(owner, pod("a", owner, ready_for=ready_for))
    assert plan.status is not None
    assert plan.status.status.get("availableReplicas", 0) == available
    assert plan.requeue_after == wait


def test_a_pod_that_does_not_say_since_when_it_is_ready_is_waited_for() -> None:
    for seconds, available, wait in ((50, 0, 50), (0, 1, None)):
        owner = replicated(replicas=1, minReadySeconds=seconds)
        unsure = pod("a", owner)
        del unsure["status"]["conditions"][0]["lastTransitionTime"]
        plan = decided(owner, unsure)
        assert plan.status is not None
        assert plan.status.status.get("availableReplicas", 0) == available
        assert plan.requeue_after == wait


def test_a_replication_controller_does_not_count_terminating_pods() -> None:
    owner = replicated("ReplicationController", replicas=0)
    plan = decided(owner, pod("a", owner, deleting=True))
    assert plan.status is not None
    assert "terminatingReplicas" not in plan.status.status


def test_a_refusal_is_told_once_and_taken_back() -> None:
    owner = replicated(replicas=1)
    plan = decided(owner)
    assert plan.refused is not None
    (condition,) = plan.refused.status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("ReplicaFailure", "True", "FailedCreate")
    assert condition["message"] == "{error}"
    deleting = decided(replicated(replicas=0), pod("a", replicated(replicas=0)))
    assert deleting.refused is not None
    assert deleting.refused.status["conditions"][0]["reason"] == "FailedDelete"
    owner["status"] = {**plan.refused.status, "conditions": [{**condition, "message": "no room"}]}
    again = decided(owner)
    assert again.refused is not None
    assert again.refused.status["conditions"][0]["message"] == "no room"
    better = decided(owner, pod("a", owner))
    assert better.status is not None
    assert "conditions" not in better.status.status
