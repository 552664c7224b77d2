"""The status of a PodDisruptionBudget."""

from __future__ import annotations

import pytest

from echelon.api.scheme import Object
from echelon.api.views.cluster_views import BudgetView
from echelon.api.views.pod_views import PodView
from echelon.base.instants import to_time
from echelon.decide.disruption_budgets import reconcile
from echelon.decide.plan import Plan

NOW = 1_800_000_000.0


def budget(status: Object | None = None, **spec: object) -> Object:
    obj: Object = {"metadata": {"name": "b", "namespace": "ns", "generation": 1}, "spec": spec}
    return obj | ({"status": status} if status else {})


def covered_pod(name: str, *, ready: bool = True, phase: str = "Running") -> Object:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {"metadata": {"name": name, "namespace": "ns"}, "status": {"phase": phase, "conditions": [condition]}}


def plan_of(obj: Object, pods: list[Object], now: float = NOW) -> Plan:
    return reconcile(BudgetView(obj), [PodView(one) for one in pods], now)


def status_of(obj: Object, pods: list[Object], now: float = NOW) -> Object:
    write = plan_of(obj, pods, now).status
    assert write is not None
    return write.status


@pytest.mark.parametrize(
    ("spec", "allowed", "desired"),
    [
        ({"minAvailable": 2}, 2, 2),
        ({"minAvailable": "50%"}, 2, 2),
        ({"minAvailable": "60%"}, 1, 3),
        ({"maxUnavailable": 1}, 1, 3),
        ({"maxUnavailable": "30%"}, 2, 2),
        ({"minAvailable": 9}, 0, 9),
    ],
)
def test_numbers_and_percentages_of_four_healthy_pods(spec: Object, allowed: int, desired: int) -> None:
    status = status_of(budget(**spec), [covered_pod(f"p{index}") for index in range(4)])
    assert (status["disruptionsAllowed"], status["desiredHealthy"]) == (allowed, desired)
    assert (status["currentHealthy"], status["expectedPods"]) == (4, 4)


def test_only_ready_pods_that_stay_are_healthy_and_ended_ones_do_not_count() -> None:
    going = covered_pod("going")
    going["metadata"]["deletionTimestamp"] = to_time(NOW)
    pods = [covered_pod("a"), covered_pod("b", ready=False), covered_pod("c", phase="Succeeded"), going]
    status = status_of(budget(minAvailable=1), pods)
    assert (status["currentHealthy"], status["expectedPods"], status["disruptionsAllowed"]) == (1, 3, 0)


def test_a_granted_eviction_counts_as_gone_until_it_is_given_up() -> None:
    granted = budget({"disruptedPods": {"p0": to_time(NOW)}}, minAvailable=1)
    pods = [covered_pod("p0"), covered_pod("p1")]
    plan = plan_of(granted, pods, NOW + 1)
    assert plan.status is not None
    assert plan.status.status["disruptionsAllowed"] == 0
    assert plan.requeue_after == pytest.approx(119)
    later = status_of(granted, pods, NOW + 121)
    assert later["disruptionsAllowed"] == 1
    assert "disruptedPods" not in later


def test_a_status_that_is_true_is_not_written_again() -> None:
    pods = [covered_pod("p0"), covered_pod("p1")]
    first = status_of(budget(minAvailable=1), pods)
    assert plan_of(budget(first, minAvailable=1), pods, NOW + 5).status is None


@pytest.mark.parametrize(
    ("spec", "allowed", "expected"),
    [({"maxUnavailable": 1}, 0, 3), ({"minAvailable": "100%"}, 0, 3), ({"minAvailable": 1}, 1, 2)],
)
def test_a_pod_that_its_controller_has_yet_to_replace_counts(spec: Object, allowed: int, expected: int) -> None:
    left = [PodView(covered_pod("a")), PodView(covered_pod("b"))]
    plan = reconcile(BudgetView(budget(**spec)), left, NOW, lambda pod: ("uid", 3))
    assert plan.status is not None
    assert plan.status.status["disruptionsAllowed"] == allowed
    assert plan.status.status["expectedPods"] == expected


def said(status: Object) -> tuple[str, str]:
    (condition,) = status["conditions"]
    return condition["status"], condition["reason"]


def test_a_budget_says_whether_it_can_spare_a_pod() -> None:
    pods = [covered_pod("p0"), covered_pod("p1")]
    assert said(status_of(budget(minAvailable=1), pods)) == ("True", "SufficientPods")
    assert said(status_of(budget(minAvailable=2), pods)) == ("False", "InsufficientPods")


def test_a_budget_without_numbers_keeps_one_pod_and_one_without_pods_spares_none() -> None:
    status = status_of(budget(), [covered_pod("p0"), covered_pod("p1")])
    assert (status["disruptionsAllowed"], status["desiredHealthy"]) == (1, 1)
    empty = status_of(budget(minAvailable=0), [])
    assert (empty["disruptionsAllowed"], empty["expectedPods"]) == (0, 0)


def test_more_may_be_unavailable_than_there_are() -> None:
    status = status_of(budget(maxUnavailable=9), [covered_pod("p0"), covered_pod("p1", ready=False)])
    assert (status["desiredHealthy"], status["disruptionsAllowed"]) == (0, 1)


@pytest.mark.parametrize(("passed", "counts"), [(119, True), (119.5, True), (120, False)])
def test_a_granted_eviction_is_forgotten_after_two_minutes(passed: float, counts: bool) -> None:
    granted = budget({"disruptedPods": {"p0": to_time(NOW), "gone": to_time(NOW)}}, minAvailable=1)
    status = status_of(granted, [covered_pod("p0"), covered_pod("p1")], NOW + passed)
    assert status.get("disruptedPods", {}) == ({"p0": to_time(NOW)} if counts else {})


def test_a_status_that_is_true_is_looked_at_again_when_the_first_grant_runs_out() -> None:
    granted = budget({"disruptedPods": {"p0": to_time(NOW), "p1": to_time(NOW - 60)}}, minAvailable=1)
    pods = [covered_pod("p0"), covered_pod("p1")]
    first = plan_of(granted, pods)
    assert first.status is not None
    assert first.requeue_after == 60
    again = plan_of({**granted, "status": first.status.status}, pods, NOW + 10)
    assert again.status is None
    assert again.requeue_after == 50
