"""The status of a Deployment: counters, availability, progress against the deadline, and refusals of its pods."""

from __future__ import annotations

import pytest

from echelon.api.scheme import Object
from echelon.base.instants import to_time

from .objects import NOW, replica_set
from .rollouts import Decided, decided, deployment, sized_for


def test_counters_add_up_over_all_replica_sets() -> None:
    owner = deployment(5, 1, 1)
    old = replica_set(owner, "old", 3, ready=2, available=1, status={"terminatingReplicas": 2})
    new = replica_set(owner, "new", 2, image="new", age=1, there=2, ready=2, available=1)
    status = decided(owner, old, new).status
    assert {name: count for name, count in status.items() if name != "conditions"} == {
        "observedGeneration": 1,
        "replicas": 5,
        "updatedReplicas": 2,
        "readyReplicas": 4,
        "availableReplicas": 2,
        # The newest grows to 3: of 6 pods 2 are available.
        "unavailableReplicas": 4,
        "terminatingReplicas": 2,
    }


def test_counters_of_nothing_are_left_out() -> None:
    status = decided(deployment(0)).status
    assert {name for name in status if name != "conditions"} == {"observedGeneration", "terminatingReplicas"}


def test_more_available_pods_than_wanted_are_not_a_negative_number_of_unavailable_ones() -> None:
    owner = deployment(1)
    assert "unavailableReplicas" not in decided(owner, replica_set(owner, "new", 1, image="new", there=3)).status


@pytest.mark.parametrize(
    ("replicas", "unavailable", "there", "available"),
    [(4, 1, 3, True), (1, 1, 0, True), (4, 1, 2, False), (4, 0, 3, False), (4, 9, 0, True), (0, 1, 0, True),
     (4, "50%", 2, True), (4, "49%", 2, False)],
)  # fmt: skip
def test_a_deployment_is_available_with_as_many_pods_as_must_be(
    replicas: int, unavailable: int | str, there: int, available: bool
) -> None:
    owner = deployment(replicas, 1, unavailable)
    plan = decided(owner, replica_set(owner, "new", replicas, image="new", available=there))
    condition = plan.condition("Available")
    assert condition is not None
    found = (condition["status"], condition["reason"], condition["message"])
    if available:
        assert found == ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        message = "Deployment does not have minimum availability."
        assert found == ("False", "MinimumReplicasUnavailable", message)


def test_a_recreate_deployment_is_available_only_with_all_of_its_pods() -> None:
    owner = deployment(4, strategy={"type": "Recreate", "rollingUpdate": None})
    plan = decided(owner, replica_set(owner, "new", 4, image="new", available=3))
    assert plan.condition("Available")["status"] == "False"  # type: ignore[index]


# -- progress ------------------------------------------------------------------------------------------------


def progressing(status: str = "True", reason: str = "ReplicaSetUpdated", ago: float = 100) -> Object:
    return {
        "type": "Progressing",
        "status": status,
        "reason": reason,
        "message": "as it was",
        "lastUpdateTime": to_time(NOW - ago),
        "lastTransitionTime": to_time(NOW - 300),
    }


def rolled(condition: Object | None, *, seen: Object | None = None, available: int = 1, **spec: object) -> Decided:
    """One sync of a Deployment of two whose new ReplicaSet has two pods; `seen` is what its status said before."""
    owner = deployment(2, 1, 0, **{"progressDeadlineSeconds": 600, **spec})
    counts = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1}
    owner["status"] = {**counts, **(seen or {}), "conditions": [condition] if condition else []}
    new = replica_set(owner, "new", 2, image="new", available=available, annotations=sized_for(2, 3))
    return decided(owner, new)


def found(plan: Decided) -> tuple[str, str] | None:
    condition = plan.condition("Progressing")
    return None if condition is None else (condition["status"], condition["reason"])


def test_a_rollout_is_complete_when_all_pods_are_of_the_new_template_and_available() -> None:
    plan = rolled(progressing(), available=2)
    condition = plan.condition("Progressing")
    assert condition == {
        "type": "Progressing",
        "status": "True",
        "reason": "NewReplicaSetAvailable",
        "message": 'ReplicaSet "new" has successfully progressed.',
        "lastUpdateTime": to_time(NOW),
        "lastTransitionTime": to_time(NOW - 300),
    }
    assert plan.plan.requeue_after is None


@pytest.mark.parametrize(
    "seen",
    [{"updatedReplicas": 1}, {"replicas": 3}, {"readyReplicas": 0}, {"availableReplicas": 0}],
    ids=lambda seen: next(iter(seen)),
)
def test_a_counter_that_moves_is_progress_and_starts_the_deadline_again(seen: Object) -> None:
    plan = rolled(progressing(), seen=seen)
    condition = plan.condition("Progressing")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("True", "ReplicaSetUpdated")
    assert condition["message"] == 'ReplicaSet "new" is progressing.'
    assert condition["lastUpdateTime"] == to_time(NOW)
    assert condition["lastTransitionTime"] == to_time(NOW - 300)
    assert plan.plan.requeue_after == 601


@pytest.mark.parametrize("seen", [{"updatedReplicas": 3, "replicas": 3}, {"readyReplicas": 2}])
def test_counters_that_stay_or_fall_are_no_progress(seen: Object) -> None:
    plan = rolled(progressing(ago=100), seen=seen)
    assert plan.condition("Progressing") == progressing(ago=100)
    assert plan.plan.requeue_after == 501


@pytest.mark.parametrize(("ago", "late"), [(599, False), (600, False), (601, True), (5000, True)])
def test_no_progress_within_the_deadline_is_told(ago: float, late: bool) -> None:
    plan = rolled(progressing(ago=ago), seen={"readyReplicas": 2})
    if late:
        condition = plan.condition("Progressing")
        assert condition is not None
        assert (condition["status"], condition["reason"]) == ("False", "ProgressDeadlineExceeded")
        assert condition["message"] == 'ReplicaSet "new" has timed out progressing.'
        assert condition["lastTransitionTime"] == to_time(NOW)
        assert plan.plan.requeue_after is None
    else:
        assert found(plan) == ("True", "ReplicaSetUpdated")
        assert plan.plan.requeue_after == 601 - ago


def test_a_rollout_that_was_late_goes_on_when_it_moves() -> None:
    late = progressing("False", "ProgressDeadlineExceeded", ago=5)
    assert found(rolled(late, seen={"readyReplicas": 2})) == ("False", "ProgressDeadlineExceeded")
    assert found(rolled(late, seen={"availableReplicas": 0})) == ("True", "ReplicaSetUpdated")
    assert found(rolled(late, available=2)) == ("True", "NewReplicaSetAvailable")


def test_a_complete_rollout_that_loses_pods_is_not_late() -> None:
    """Progress is about rollouts; a pod that fails long after one is the ReplicaSet's business."""
    complete = progressing(reason="NewReplicaSetAvailable", ago=90_000)
    plan = rolled(complete, seen={"readyReplicas": 2, "availableReplicas": 2})
    assert plan.condition("Progressing") == complete
    # A new template is a rollout again; the old end is no reason to call it late.
    owner = deployment(2, 1, 0, progressDeadlineSeconds=600)
    counts = {"replicas": 3, "updatedReplicas": 1, "readyReplicas": 2, "availableReplicas": 2, "observedGeneration": 1}
    owner["status"] = {**counts, "conditions": [complete]}
    sets = [replica_set(owner, "old", 2), replica_set(owner, "new", 1, image="new", age=1, available=0)]
    assert found(decided(owner, *sets)) == ("True", "NewReplicaSetAvailable")
    # Its first progress makes it one that goes on.
    owner["status"] |= {"updatedReplicas": 0}
    assert found(decided(owner, *sets)) == ("True", "ReplicaSetUpdated")


def test_a_complete_rollout_that_replaces_a_pod_stays_complete() -> None:
    complete = progressing(reason="NewReplicaSetAvailable", ago=90_000)
    seen = {"readyReplicas": 0, "availableReplicas": 0}
    assert rolled(complete, seen=seen).condition("Progressing") == complete
    # One without any pods as well: it is as large as it should be.
    owner = deployment(0, progressDeadlineSeconds=600)
    owner["status"] = {"replicas": 1, "observedGeneration": 1, "conditions": [complete]}
    assert decided(owner, replica_set(owner, "new", 0, image="new")).condition("Progressing") == complete


def test_a_deployment_that_is_deleted_makes_no_progress() -> None:
    owner = deployment(2, progressDeadlineSeconds=600, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    owner["status"] = {"conditions": [progressing()]}
    plan = decided(owner, replica_set(owner, "new", 2, image="new"))
    assert plan.condition("Progressing") == progressing()
    assert plan.plan.requeue_after is None


def test_a_replica_set_that_is_there_already_is_told_once() -> None:
    plan = rolled(None, seen={"readyReplicas": 2})
    condition = plan.condition("Progressing")
    assert condition is not None
    assert (condition["reason"], condition["message"]) == ("FoundNewReplicaSet", 'Found new replica set "new"')
    assert rolled(condition, seen={"readyReplicas": 2}).condition("Progressing") == condition


def test_without_a_deadline_progress_is_forgotten() -> None:
    plan = rolled(progressing(), seen={"readyReplicas": 0}, progressDeadlineSeconds=None)
    assert plan.condition("Progressing") is None
    assert plan.plan.requeue_after is None
    assert rolled(None, progressDeadlineSeconds=2**31 - 1).condition("Progressing") is None


def test_before_the_new_replica_set_is_there_the_deployment_is_the_subject() -> None:
    owner = deployment(0, progressDeadlineSeconds=600)
    plan = decided(owner, namespace_closed=True)
    condition = plan.condition("Progressing")
    assert condition is not None
    assert condition["message"] == 'Deployment "web" has successfully progressed.'


# -- pauses --------------------------------------------------------------------------------------------------


def test_a_pause_stops_the_deadline_and_the_end_of_it_starts_it_again() -> None:
    paused = rolled(progressing(ago=5000), paused=True)
    condition = paused.condition("Progressing")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("Unknown", "DeploymentPaused")
    assert paused.plan.requeue_after is None
    still = rolled({**condition, "lastUpdateTime": to_time(NOW - 5000)}, paused=True)
    assert still.condition("Progressing") == {**condition, "lastUpdateTime": to_time(NOW - 5000)}
    resumed = rolled({**condition, "lastUpdateTime": to_time(NOW - 5000)}, seen={"readyReplicas": 2})
    assert found(resumed) == ("Unknown", "DeploymentResumed")
    assert resumed.plan.requeue_after == 601


def test_a_pause_does_not_hide_that_the_rollout_was_late_nor_needs_a_deadline() -> None:
    late = progressing("False", "ProgressDeadlineExceeded")
    assert rolled(late, paused=True).condition("Progressing") == late
    assert rolled(None, paused=True, progressDeadlineSeconds=None).condition("Progressing") is None


# -- refusals ------------------------------------------------------------------------------------------------


def refusing(name: str, image: str, reason: str) -> Object:
    condition = {"type": "ReplicaFailure", "status": "True", "reason": reason, "message": f"{name} may not"}
    return replica_set(deployment(), name, 1, image=image, status={"conditions": [condition]})


def test_a_refusal_of_pods_is_told_of_the_newest_replica_set_first() -> None:
    owner = deployment(2)
    old, new = refusing("old", "old", "FailedDelete"), refusing("new", "new", "FailedCreate")
    condition = decided(owner, old, new).condition("ReplicaFailure")
    assert condition is not None
    assert (condition["status"], condition["reason"], condition["message"]) == ("True", "FailedCreate", "new may not")
    calm = replica_set(owner, "new", 1, image="new")
    condition = decided(owner, old, calm).condition("ReplicaFailure")
    assert condition is not None
    assert condition["reason"] == "FailedDelete"
    owner["status"] = {"conditions": [condition]}
    assert decided(owner, calm).condition("ReplicaFailure") is None


def test_a_status_that_is_as_it_was_is_not_written() -> None:
    owner = deployment(2, progressDeadlineSeconds=600)
    new = replica_set(owner, "new", 2, image="new", annotations=sized_for(2, 5))
    first = decided(owner, new)
    assert first.plan.status is not None
    settled = {**first.plan.status.obj, "status": first.status}
    new["metadata"]["annotations"] |= {"deployment.kubernetes.io/revision": "1"}
    again = decided(settled, new)
    assert again.plan.status is None
    assert again.patches == {}
