"""What a JobSet says about gangs that are not placed, and about what cannot be made for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from echelon.api.scheme import JOBS, SERVICES, Object
from echelon.api.views.group_views import PodGroupView
from echelon.base.instants import to_time
from echelon.decide.gang_trouble import Gangs
from echelon.decide.jobset.reconcile import reconcile
from echelon.decide.plan import Create, Plan
from tests.unit.decide.plain_api import START

from .stage import A, Stage, jobset, replicated

GROUP = "of-the-user"


def waiting_gang(name: str = GROUP) -> Gangs:
    waits = {"type": "PodGroupInitiallyScheduled", "status": "False", "message": "no room"}
    tree = {
        "metadata": {"name": name, "uid": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
        "status": {"conditions": [{**waits, "lastTransitionTime": to_time(START - 60)}]},
    }
    return Gangs([PodGroupView(tree)])


def grouped(**spec: object) -> Object:
    return jobset(replicated(A, pod={"schedulingGroup": {"podGroupName": GROUP}}), **spec)


def looked_at(stage: Stage, gangs: Gangs) -> Plan:
    return reconcile(replace(stage.observed(), gangs=gangs), stage.now)


def said(plan: Plan, type_: str) -> tuple[str, str, str] | None:
    if plan.status is None:
        return None
    found = [one for one in plan.status.status["conditions"] if one["type"] == type_]
    return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None


def test_a_gang_of_running_jobs_that_is_not_placed_is_told() -> None:
    stage = Stage(grouped())
    plan = looked_at(stage, waiting_gang())
    assert said(plan, "GangPending") == ("True", "GangUnschedulable", f"PodGroup {GROUP}: no room")
    assert [(note.type, note.reason) for note in plan.notes] == [("Warning", "GangUnschedulable")]
    assert said(looked_at(stage, waiting_gang("of-others")), "GangPending") is None


def test_the_owner_of_the_jobset_gets_the_event_too() -> None:
    obj = grouped()
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "tj", "uid": "t"}
    obj["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    plan = looked_at(Stage(obj), waiting_gang())
    assert [note.obj["metadata"]["name"] for note in plan.notes] == ["test-js", "tj"]


@pytest.mark.parametrize("end", ["suspended", "failed", "completed"])
def test_nothing_is_to_be_placed_for_a_jobset_that_is_suspended_or_over(end: str) -> None:
    stage = Stage(grouped())
    plan = looked_at(stage, waiting_gang())
    assert plan.status is not None
    stage.jobset["status"] = plan.status.status
    if end == "suspended":
        stage.jobset["spec"]["suspend"] = True
    elif end == "failed":
        stage.fail(f"test-js-{A}-0", settle=False)
    else:
        stage.jobset["status"]["conditions"] += [{"type": "Completed", "status": "True"}]
    found = said(looked_at(stage, waiting_gang()), "GangPending")
    reason = "JobSetSuspended" if end == "suspended" else "JobSetEnded"
    assert found == ("False", reason, "no gang is to be placed")


def test_a_name_that_somebody_else_has_is_told_and_looked_at_again() -> None:
    name = f"test-js-{A}-0"
    stage = Stage(jobset(replicated(A)), beside=[(JOBS, {"metadata": {"name": name}, "spec": {}})])
    plan = stage.plan()
    assert plan.requeue_after == 10
    assert stage.condition("CreationFailed") == ("True", "JobCreationFailed")
    # The name becomes free: the Job is made, and the condition ends.
    del stage.objects[JOBS, name]
    stage.settle()
    assert stage.job_names() == [name]
    assert stage.condition("CreationFailed") == ("False", "Created")
    assert stage.plan().requeue_after is None


def test_a_service_of_somebody_else_is_told() -> None:
    taken = {"metadata": {"name": "test-js"}, "spec": {}}
    stage = Stage(jobset(replicated(A)), beside=[(SERVICES, taken)])
    assert stage.condition("CreationFailed") == ("True", "ServiceNotOwned")


def test_a_refusal_of_the_server_is_told_in_its_words() -> None:
    stage = Stage(jobset(replicated(A)))
    stage.objects = {key: one for key, one in stage.objects.items() if key[0] is not JOBS}
    plan = stage.plan()
    (create,) = [one for stage_ in plan.stages for one in stage_ if isinstance(one, Create)]
    assert create.refused is not None
    assert (create.refused.type, create.refused.reason) == ("Warning", "JobCreationFailed")
    assert create.refused.message == "{error}"
    assert plan.refused is not None
    (condition,) = [one for one in plan.refused.status["conditions"] if one["type"] == "CreationFailed"]
    assert (condition["status"], condition["reason"], condition["message"]) == ("True", "Refused", "{error}")


def test_a_decision_makes_at_most_a_hundred_jobs_and_the_next_one_the_rest() -> None:
    stage = Stage(jobset(replicated(A, 130)))
    assert len(stage.job_names()) == 130
    stage.objects = {key: one for key, one in stage.objects.items() if key[0] is not JOBS}
    made = [one for stage_ in stage.plan().stages for one in stage_ if isinstance(one, Create)]
    assert len(made) == 100


def test_pods_that_are_done_count_as_ready_beside_those_that_run() -> None:
    stage = Stage(jobset(replicated(A, 1, 3)))
    name = f"test-js-{A}-0"
    for ready, done, counted in ((1, 1, {}), (2, 1, {"ready": 1}), (0, 3, {"ready": 1})):
        stage.objects[JOBS, name] = {**stage.get(JOBS, name), "status": {"ready": ready, "succeeded": done}}
        stage.settle()
        assert stage.counts(A) == counted


def test_the_end_of_a_restart_is_told() -> None:
    stage = Stage(jobset(replicated(A, 2), failurePolicy={"maxRestarts": 1}))
    stage.fail(f"test-js-{A}-0")
    stage.finalize(JOBS)
    stage.settle()
    stage.ready(f"test-js-{A}-0")
    assert stage.condition("RestartingJobSet") == ("True", "DefaultFailurePolicy")
    stage.complete(f"test-js-{A}-1")
    assert stage.condition("RestartingJobSet") == ("False", "JobsReady")
    assert "JobsReady" in stage.reasons()


@pytest.mark.parametrize(
    ("rule", "by"), [({"name": "mine"}, "failure policy rule mine"), (None, "the default failure policy action")]
)
def test_a_restart_says_which_rule_made_it(rule: Object | None, by: str) -> None:
    rules = [{"action": "RestartJobSetAndIgnoreMaxRestarts", **rule}] if rule else []
    stage = Stage(jobset(replicated(A), failurePolicy={"maxRestarts": 1, "rules": rules}))
    stage.fail(f"test-js-{A}-0")
    assert [message for _, reason, message in stage.events if reason.endswith("FailurePolicyAction")] == [
        f"restart 1 of the jobset by {by} (first failed job: test-js-{A}-0)"
    ]


def test_a_restart_of_one_job_is_told() -> None:
    rules = [{"name": "alone", "action": "RestartJobAndIgnoreMaxRestarts"}]
    stage = Stage(jobset(replicated(A, 2), failurePolicy={"rules": rules}))
    stage.fail(f"test-js-{A}-1")
    assert [message for _, reason, message in stage.events if reason.endswith("FailurePolicyAction")] == [
        f"restart of the job alone by failure policy rule alone (first failed job: test-js-{A}-1)"
    ]
