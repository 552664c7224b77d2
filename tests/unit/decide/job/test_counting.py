"""Every ended pod is counted once, whichever write is the last that succeeds."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.scheme import Object
from echelon.api.views.group_views import PodGroupView
from echelon.api.views.job_views import JobView
from echelon.base.instants import to_time
from echelon.decide.gang_trouble import Gangs
from echelon.decide.job.model import managed_elsewhere
from echelon.decide.plan import ApplyPatch, Create

from .objects import NOW, indexed, job, job_pod, running
from .plans import actions, conditions, created, plan, reasons, status, stripped


def uncounted(**uids: list[str]) -> Object:
    return {"uncountedTerminatedPods": uids}


def test_pods_of_both_kinds_are_counted_when_they_have_lost_their_finalizer() -> None:
    stored = running(succeeded=3, failed=4, **uncounted(succeeded=["uid-a", "uid-b"], failed=["uid-c", "uid-d"]))
    the_job = job(stored, completions=20, parallelism=1)
    # Two are there without finalizer or gone, two keep theirs for now: they lose it in this sync.
    pods = [job_pod("a", "Succeeded"), job_pod("c", "Failed"), job_pod("d", "Failed", tracked=False)]
    result = plan(the_job, *pods)
    assert sorted(stripped(result)) == ["a", "c"]
    assert (status(result)["succeeded"], status(result)["failed"]) == (5, 6)
    assert status(result)["uncountedTerminatedPods"] == {}
    # New pods wait for the write that counts.
    assert created(result) == []
    assert result.requeue_after == 0


@pytest.mark.parametrize("kind", ["succeeded", "failed"])
def test_recorded_pods_that_are_gone_are_counted_before_others_are_made(kind: str) -> None:
    result = plan(job(running(**uncounted(**{kind: ["uid-a"]})), completions=3, parallelism=1))
    assert status(result)[kind] == 1
    assert created(result) == []
    assert result.requeue_after == 0


def test_recorded_pods_count_towards_completion_and_the_limit_before_they_are_in_the_counters() -> None:
    done = job(running(succeeded=1, **uncounted(succeeded=["uid-a"])), completions=2)
    result = plan(done, job_pod("a", "Succeeded", tracked=False))
    assert conditions(result)[0] == ("SuccessCriteriaMet", "True", "CompletionsReached")
    lost = job(running(failed=1, **uncounted(failed=["uid-a"])), backoffLimit=1)
    assert conditions(plan(lost))[0] == ("FailureTarget", "True", "BackoffLimitExceeded")


def test_a_recorded_pod_is_not_counted_again_whatever_its_phase_says() -> None:
    """A pod on its way out is recorded as failed; that it ends well after all does not make it a success too."""
    the_job = job(running(**uncounted(failed=["uid-a"])), completions=1, podReplacementPolicy="TerminatingOrFailed")
    result = plan(the_job, job_pod("a", "Succeeded", deleting=True))
    assert stripped(result) == ["a"]
    assert status(result)["failed"] == 1
    assert "succeeded" not in status(result)
    assert "conditions" not in status(result)


def test_an_indexed_job_counts_its_completed_indexes_once() -> None:
    the_job = indexed(4, running(succeeded=2, completedIndexes="0,1"), parallelism=2)
    result = plan(the_job, job_pod("a", "Succeeded", 1), job_pod("b", "Succeeded", 2), job_pod("c", "Succeeded", 9))
    assert sorted(stripped(result)) == ["a", "c"]
    assert (status(result)["succeeded"], status(result)["completedIndexes"]) == (3, "0-2")
    assert status(result)["uncountedTerminatedPods"] == {}


def test_a_success_without_a_readable_index_is_let_go() -> None:
    result = plan(indexed(2, running()), job_pod("a", "Succeeded"))
    assert stripped(result) == ["a"]
    assert result.status is None


def test_a_failure_out_of_range_is_let_go() -> None:
    result = plan(indexed(2, running(), backoffLimit=0), job_pod("a", "Failed", 2), job_pod("b", index=0))
    assert stripped(result) == ["a"]
    assert status(result)["uncountedTerminatedPods"] == {}
    assert "conditions" not in status(result)


def test_what_does_not_fit_into_a_write_is_recorded_by_the_next_one() -> None:
    pods = [job_pod(f"p{number:03}", "Failed") for number in range(501)]
    the_job = job(running(), parallelism=1, completions=1, backoffLimit=1000)
    first = plan(the_job, *pods)
    assert len(status(first)["uncountedTerminatedPods"]["failed"]) == 500
    # A success now would forgive the one that is left, so that it waits.
    won = plan(the_job, *pods, job_pod("s", "Succeeded"))
    assert "conditions" not in status(won)
    # A failure need not wait.
    strict = job(running(), parallelism=1, completions=1, backoffLimit=0)
    assert conditions(plan(strict, *pods)) == [("FailureTarget", "True", "BackoffLimitExceeded")]


@pytest.mark.parametrize("ended", [{}, uncounted(succeeded=["uid-a"]), uncounted(failed=["uid-a"])])
def test_a_job_ends_only_when_every_pod_is_in_the_counters(ended: Object) -> None:
    target = {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"}
    stored = running(failed=2, conditions=[target], **ended)
    result = plan(job(stored, backoffLimit=1), job_pod("b", "Failed"))
    # The one that is recorded now is counted by the next write.
    assert [one[0] for one in conditions(result)] == ["FailureTarget"]
    settled = plan(job({**stored, "uncountedTerminatedPods": {}}, backoffLimit=1))
    assert [one[0] for one in conditions(settled)] == ["FailureTarget", "Failed"]


def test_failures_before_a_success_count_and_pods_that_it_ends_do_not() -> None:
    the_job = indexed(3, running(active=2), successPolicy={"rules": [{"succeededCount": 1}]})
    pods = [job_pod("a", "Failed", 0), job_pod("b", "Succeeded", 1), job_pod("c", index=2)]
    first = plan(the_job, *pods)
    assert conditions(first) == [("SuccessCriteriaMet", "True", "SuccessPolicy")]
    assert status(first)["uncountedTerminatedPods"] == {"failed": ["uid-a"]}
    assert stripped(first) == []
    the_job["status"] = status(first)
    second = plan(the_job, *pods)
    assert sorted(stripped(second)) == ["a", "b", "c"]
    assert status(second)["failed"] == 1


def test_a_deleted_job_counts_what_ended_and_lets_the_rest_go() -> None:
    the_job = indexed(3, running(active=2), metadata={"deletionTimestamp": to_time(NOW)}, backoffLimitPerIndex=3)
    pods = [job_pod("a", index=0), job_pod("b", "Failed", 1), job_pod("c", "Succeeded", 2)]
    result = plan(the_job, *pods)
    assert stripped(result) == ["a"]
    assert status(result)["uncountedTerminatedPods"] == {"failed": ["uid-b"]}
    assert status(result)["completedIndexes"] == "2"


def indexed_failed(the_job: Object, *pods: Object) -> str:
    found: str = status(plan(the_job, *pods))["failedIndexes"]
    return found


def test_only_counted_failures_use_up_the_attempts_of_an_index() -> None:
    ignore = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}]}
    the_job = indexed(2, running(), backoffLimitPerIndex=0, podFailurePolicy=ignore)
    other = job_pod("b", index=1)
    assert indexed_failed(the_job, job_pod("a", "Failed", 0, exit_code=42), other) == ""
    assert indexed_failed(the_job, job_pod("a", "Failed", 0, exit_code=1), other) == "0"


def test_a_fail_index_rule_means_nothing_to_a_job_that_does_not_count_per_index() -> None:
    rules = [
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}},
    ]
    the_job = indexed(1, running(active=1), backoffLimit=0, podFailurePolicy={"rules": rules})
    result = plan(the_job, job_pod("a", "Failed", 0, exit_code=42))
    assert stripped(result) == ["a"]
    assert "conditions" not in status(result)


@pytest.mark.parametrize(
    ("pod", "ends"),
    [
        (job_pod("a", "Failed", exit_code=42), True),
        (job_pod("a", "Failed", exit_code=42, tracked=False), False),
        (job_pod("r", "Failed", exit_code=42), False),
        (job_pod("a", "Failed", exit_code=0), False),
        (job_pod("a", "Running", exit_code=42), False),
    ],
    ids=["new", "counted", "recorded", "without a failure", "not ended"],
)
def test_a_fail_job_rule_looks_at_failures_that_are_new(pod: Object, ends: bool) -> None:
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [7]}}]
    stored = running(**uncounted(failed=["uid-r"]))
    result = plan(job(stored, podFailurePolicy={"rules": rules}), pod)
    found = status(result).get("conditions", []) if result.status is not None else []
    assert [one["reason"] for one in found] == ["PodFailurePolicy"] * ends


# -- adoption and trouble ------------------------------------------------------------------------------------


def test_only_matching_orphans_that_stay_are_adopted() -> None:
    def orphan(name: str, **more: Any) -> Object:
        made = job_pod(name, **more)
        del made["metadata"]["ownerReferences"]
        return made

    stranger = orphan("stranger")
    stranger["metadata"]["labels"] = {"app": "other"}
    result = plan(job(running()), orphans=[orphan("a"), orphan("leaving", deleting=True), stranger])
    found = actions(result, ApplyPatch)
    assert [one.name for one in found] == ["a"]
    # It has the finalizer already; and one that is gone meanwhile needs no owner.
    assert "finalizers" not in found[0].patch.body["metadata"]
    assert found[0].gone_is_fine
    assert result.requeue_after == 0


def test_refused_pods_are_told_by_condition_and_no_pods_mean_no_refusal() -> None:
    refused = plan(job(running())).refused
    assert refused is not None
    (condition,) = refused.status["conditions"]
    assert (condition["type"], condition["message"]) == ("CreationFailed", "{error}")
    assert plan(job(running(active=1)), job_pod("a")).refused is None
    stuck = {"type": "CreationFailed", "status": "True", "reason": "Refused", "message": "quota"}
    made = plan(job(running(active=1, conditions=[stuck])), job_pod("a"))
    assert conditions(made) == [("CreationFailed", "False", "Created")]


def test_a_refused_workload_is_told_as_well() -> None:
    the_job = job()
    template = {"metadata": {}, "spec": {"containers": [{"name": "c"}]}}
    result = plan(the_job, template=template)
    assert [type(one) for stage in result.stages for one in stage] == [Create]
    assert created(result) == []
    assert result.requeue_after == 0
    assert result.refused is not None
    assert result.refused.status["conditions"][0]["type"] == "CreationFailed"


def test_without_workloads_pods_start_alone_and_a_wish_for_a_gang_is_told() -> None:
    plain: Object = {"metadata": {}, "spec": {"containers": [{"name": "c"}]}}
    calm = plan(job(), template=plain, grouping=False)
    assert len(created(calm)) == 1
    assert reasons(calm) == []
    asking = plan(job(scheduling={"policy": {"gang": {}}}), template=plain, grouping=False)
    assert len(created(asking)) == 1
    assert conditions(asking) == [("GroupingDegraded", "True", "WorkloadsSwitchedOff")]
    assert reasons(asking) == ["WorkloadsSwitchedOff"]


def waiting_gang() -> Gangs:
    waits = {"type": "PodGroupInitiallyScheduled", "status": "False", "lastTransitionTime": to_time(NOW - 60)}
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    return Gangs([PodGroupView({"metadata": {"name": "g"}, "spec": spec, "status": {"conditions": [waits]}})])


def test_a_gang_that_is_not_placed_is_told_while_the_job_runs() -> None:
    pending = {"type": "GangPending", "status": "True", "reason": "GangUnschedulable", "message": "PodGroup g: "}
    told = plan(job(running(active=1)), job_pod("a"), gangs=waiting_gang())
    assert conditions(told) == [("GangPending", "True", "GangUnschedulable")]
    paused = plan(job(running(conditions=[pending]), suspend=True), gangs=waiting_gang())
    assert ("GangPending", "False", "JobSuspended") in conditions(paused)
    ended = plan(job(running(succeeded=1, conditions=[pending])), gangs=waiting_gang())
    assert ("GangPending", "False", "JobEnded") in conditions(ended)
    failed = plan(job(running(failed=9, conditions=[pending]), suspend=True), gangs=waiting_gang())
    assert ("GangPending", "False", "JobEnded") in conditions(failed)


@pytest.mark.parametrize(
    ("manager", "elsewhere"),
    [("", False), ("kubernetes.io/job-controller", False), ("kueue.x-k8s.io/multikueue", True)],
)
def test_a_job_that_names_another_controller_is_left_to_it(manager: str, elsewhere: bool) -> None:
    assert managed_elsewhere(JobView(job(managedBy=manager))) is elsewhere
