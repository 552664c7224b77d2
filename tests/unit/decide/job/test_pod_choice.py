"""How many pods a Job runs, which of them go, which come next and when."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.scheme import Object
from echelon.base.instants import to_time
from echelon.decide.job import backoff

from .objects import NOW, indexed, job, job_pod, ready, running
from .plans import PLAIN, conditions, created, deleted, indexes, plan, status, stripped

COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


# -- how many ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "stored", "running_pods", "made", "gone"),
    [
        ({"parallelism": 3, "completions": 5}, {"succeeded": 1}, 2, 1, 0),
        ({"parallelism": 3, "completions": 5}, {"succeeded": 3}, 2, 0, 0),
        ({"parallelism": 3, "completions": 5}, {"succeeded": 4}, 2, 0, 1),
        ({"parallelism": 3, "completions": 5}, {"succeeded": 3}, 0, 2, 0),
        ({"parallelism": 0, "completions": 5}, {}, 2, 0, 2),
        ({"parallelism": 3, "completions": None}, {}, 1, 2, 0),
        ({"parallelism": 3, "completions": None}, {"succeeded": 1}, 1, 0, 0),
        ({"parallelism": 600, "completions": 600}, {}, 0, 500, 0),
        ({"parallelism": None, "completions": 5}, {}, 0, 1, 0),
    ],
)
def test_as_many_run_as_are_wanted_and_left_to_do(
    spec: Object, stored: Object, running_pods: int, made: int, gone: int
) -> None:
    pods = [job_pod(f"p{number}") for number in range(running_pods)]
    result = plan(job(running(active=running_pods, **stored), **spec), *pods)
    assert (len(created(result)), len(deleted(result))) == (made, gone)
    found = status(result).get("active", 0) if result.status is not None else running_pods
    assert found == running_pods + made - gone


def test_indexes_that_failed_for_good_are_not_left_to_do() -> None:
    the_job = indexed(4, running(failed=2, failedIndexes="0,1"), parallelism=4, backoffLimitPerIndex=0)
    assert indexes(plan(the_job)) == [2, 3]
    surplus = [job_pod(str(number), index=number) for number in (0, 1, 2, 3)]
    assert len(deleted(plan(the_job, *surplus))) == 2


def test_a_terminating_pod_that_is_waited_for_keeps_its_index() -> None:
    the_job = indexed(3, running(), podReplacementPolicy="Failed")
    assert indexes(plan(the_job, job_pod("a", index=0, deleting=True))) == [1, 2]
    other = indexed(3, running(), podReplacementPolicy="TerminatingOrFailed")
    untracked = job_pod("a", index=0, deleting=True, tracked=False)
    assert indexes(plan(other, untracked, now=NOW + 60)) == [0, 1, 2]


def test_a_failure_policy_waits_for_terminating_pods_unless_it_is_told_otherwise() -> None:
    policy = {"podFailurePolicy": {"rules": []}}
    leaving = job_pod("a", deleting=True, tracked=False)
    assert created(plan(job(running(), **policy), leaving, now=NOW + 60)) == []
    told = job(running(), podReplacementPolicy="TerminatingOrFailed", **policy)
    assert len(created(plan(told, leaving, now=NOW + 60))) == 1


# -- which go ------------------------------------------------------------------------------------------------


def aged(name: str, *, age: float = 90, restarts: int = 0, bound: bool = True, **more: Any) -> Object:
    made = job_pod(name, **more)
    made["metadata"]["creationTimestamp"] = to_time(NOW - age)
    made["status"]["containerStatuses"] = [{"name": "c", "restartCount": restarts, "state": {}}]
    if not bound:
        del made["spec"]["nodeName"]
    return made


def ready_for(seconds: float) -> Object:
    return {"conditions": [{**ready(), "lastTransitionTime": to_time(NOW - seconds)}]}


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        ({"bound": False, "phase": "Pending"}, {"phase": "Pending"}),
        ({"phase": "Pending"}, {}),
        ({}, ready_for(5)),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, ready_for(5)),
        (ready_for(5), ready_for(50)),
        ({"restarts": 3}, {"restarts": 1}),
        ({"age": 10}, {"age": 20}),
    ],
    ids=["not bound", "pending", "not ready", "no longer ready", "ready for less time", "restarted more", "younger"],
)
def test_the_pod_that_costs_least_goes(goes: Object, stays: Object) -> None:
    pods = [aged("a", **stays), aged("z", **goes)]
    assert deleted(plan(job(running(active=2), completions=2), *pods)) == ["z"]
    # Of two pods of one index as well.
    twins = [aged("a", index=0, **stays), aged("z", index=0, **goes)]
    assert deleted(plan(indexed(1, running(active=2)), *twins)) == ["z"]


def test_pods_without_a_place_go_before_those_with_one() -> None:
    pods = [aged("a", index=0), aged("b", index=1), aged("c", index=2, phase="Pending"), aged("d"), aged("e", index=9)]
    the_job = indexed(3, running(active=5), parallelism=2)
    assert sorted(deleted(plan(the_job, *pods))) == ["c", "d", "e"]
    assert sorted(deleted(plan(indexed(3, running(active=5)), *pods))) == ["d", "e"]


def test_pods_that_go_are_reported_as_terminating_and_no_longer_ready() -> None:
    pods = [aged("a", **ready_for(50)), aged("b", **ready_for(5)), aged("c", deleting=True, tracked=False)]
    result = plan(job(running(active=2), completions=9), *pods)
    assert deleted(result) == ["b"]
    found = status(result)
    assert (found["active"], found["ready"], found["terminating"]) == (1, 1, 2)


def test_at_most_500_pods_of_a_suspended_job_go_at_a_time() -> None:
    pods = [job_pod(f"p{number}") for number in range(501)]
    assert len(deleted(plan(job(running(active=501), suspend=True), *pods))) == 500


# -- when the next comes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0), (1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 320), (7, 600), (1000, 600)]
)
def test_the_wait_doubles_up_to_ten_minutes(failures: int, seconds: float) -> None:
    assert backoff.delay(failures) == seconds


def wait(*pods: Object, now: float = NOW) -> float | None:
    result = plan(job(running(failed=1), backoffLimit=9), *pods, now=now)
    assert (created(result) == []) is (result.requeue_after is not None)
    return result.requeue_after


def test_a_failure_as_late_as_the_last_success_is_forgiven() -> None:
    failed = job_pod("f", "Failed", tracked=False, finished=NOW - 5)
    for finished, expected in ((NOW - 5, None), (NOW - 4, None), (NOW - 6, 5)):
        success = job_pod("s", "Succeeded", tracked=False, finished=finished)
        result = plan(job(running(succeeded=1, failed=1), completions=3), success, failed)
        assert result.requeue_after == expected


def test_pods_that_were_sent_away_are_no_failures() -> None:
    """Suspension and scaling down take the finalizer off first."""
    assert wait(job_pod("a", "Failed", tracked=False, deleting=True, finished=NOW)) is None
    assert wait(job_pod("a", "Failed", tracked=False, finished=NOW)) == 10
    assert wait(job_pod("a", tracked=False, deleting=True)) is None


def test_the_end_of_a_pod_is_the_best_guess_that_its_record_allows() -> None:
    def failed(**more: Any) -> Object:
        made = job_pod("a", "Failed", tracked=False, **more)
        made["status"]["containerStatuses"] = [{"name": "c", "restartCount": 0, "state": {}}]
        return made

    # The last of its containers; when it stopped being ready; when its deletion began; when it was made.
    two = failed()
    ended = [{"state": {"terminated": {"exitCode": 1, "finishedAt": to_time(NOW - ago)}}} for ago in (7, 4)]
    two["status"]["containerStatuses"] = ended
    assert wait(two) == 6
    unready = [{"type": "Ready", "status": "False", "lastTransitionTime": to_time(NOW - 3)}]
    assert wait(failed(conditions=unready)) == 7
    partly = failed(conditions=unready)
    partly["status"]["containerStatuses"] = [ended[0], {"state": {}}]
    assert wait(partly) == 7
    assert wait(failed(), now=NOW - 85) == 5
    assert wait(failed(conditions=[ready()]), now=NOW - 85) == 5
    # A tracked pod on its way out failed when its deletion began: 30 seconds before the end that it has.
    leaving = job_pod("b", index=0, deleting=True, annotations={COUNT: "0"})
    the_job = indexed(1, running(active=1), backoffLimitPerIndex=3)
    assert plan(the_job, leaving, now=NOW - 25).requeue_after == 5
    del leaving["metadata"]["deletionGracePeriodSeconds"]
    assert plan(the_job, leaving, now=NOW + 4).requeue_after == 6


def test_an_index_waits_for_its_counted_and_its_ignored_failures() -> None:
    the_job = indexed(1, running(active=1), backoffLimitPerIndex=9)
    failed = job_pod("a", "Failed", 0, finished=NOW, annotations={COUNT: "1", IGNORED: "2"})
    assert plan(the_job, failed).requeue_after == 80
    (made,) = created(plan(the_job, failed, now=NOW + 80))
    assert made["metadata"]["annotations"][COUNT] == "2"
    assert made["metadata"]["annotations"][IGNORED] == "2"


def test_the_latest_failure_of_an_index_counts() -> None:
    the_job = indexed(2, running(active=2), backoffLimitPerIndex=9)
    early = job_pod("a", "Failed", 0, finished=NOW - 50, annotations={COUNT: "0"})
    late = job_pod("b", "Failed", 0, finished=NOW - 5, annotations={COUNT: "1"})
    beyond = job_pod("c", "Failed", 7, finished=NOW - 1, annotations={COUNT: "1"})
    result = plan(the_job, late, early, beyond, job_pod("d", index=1))
    assert created(result) == []
    assert result.requeue_after == 15
    # The earlier one is let go of, the later one keeps the count; one out of range is not counted at all.
    assert status(result)["uncountedTerminatedPods"] == {"failed": ["uid-a"]}
    assert stripped(result) == ["c"]


def test_of_many_waits_the_shortest_is_slept() -> None:
    the_job = indexed(3, running(active=3), backoffLimitPerIndex=9)
    pods = [job_pod(str(n), "Failed", n, finished=NOW, annotations={COUNT: str(n)}) for n in (2, 0, 1)]
    assert plan(the_job, *pods).requeue_after == 10


# -- ends ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "restarts", "ends"), [(0, 0, False), (0, 1, True), (3, 2, False), (3, 3, True)])
def test_restarts_in_place_of_all_containers_count(limit: int, restarts: int, ends: bool) -> None:
    one, two = job_pod("a"), job_pod("b", "Pending")
    one["status"]["containerStatuses"] = [{"name": "c", "restartCount": restarts // 2, "state": {}}]
    two["status"]["initContainerStatuses"] = [{"name": "i", "restartCount": restarts - restarts // 2, "state": {}}]
    template = {**PLAIN, "spec": {**PLAIN["spec"], "restartPolicy": "OnFailure"}}
    result = plan(job(running(), parallelism=2, completions=2, backoffLimit=limit), one, two, template=template)
    assert bool(status(result).get("conditions")) is ends
    # Containers of pods that are not restarted in place say nothing.
    assert not status(plan(job(running(), parallelism=2, completions=2, backoffLimit=limit), one, two)).get(
        "conditions"
    )


@pytest.mark.parametrize(("limit", "failed", "ends"), [(None, 6, False), (None, 7, True), (2, 2, False), (2, 3, True)])
def test_a_job_fails_with_one_failure_more_than_its_limit(limit: int | None, failed: int, ends: bool) -> None:
    result = plan(job(running(failed=failed), backoffLimit=limit))
    assert bool(status(result).get("conditions")) is ends


def test_without_a_limit_of_its_own_a_job_that_counts_per_index_has_none() -> None:
    the_job = indexed(
        9, running(failed=99, failedIndexes=""), parallelism=1, backoffLimit=None, backoffLimitPerIndex=50
    )
    assert indexes(plan(the_job)) == [0]


@pytest.mark.parametrize(
    ("most", "failed", "expected"),
    [(1, "0", []), (1, "0,1", ["MaxFailedIndexesExceeded"]), (0, "0", ["MaxFailedIndexesExceeded"]), (0, "", []),
     (None, "0-2", []), (None, "0-3", ["FailedIndexes"])],
)  # fmt: skip
def test_failed_indexes_end_a_job_when_they_are_too_many_or_the_last(
    most: int | None, failed: str, expected: list[str]
) -> None:
    the_job = indexed(4, running(failedIndexes=failed), backoffLimitPerIndex=0, maxFailedIndexes=most)
    assert [reason for _, _, reason in conditions(plan(the_job))] == expected


@pytest.mark.parametrize(
    ("rule", "done", "met"),
    [
        ({"succeededIndexes": "0,2"}, "0,2", True),
        ({"succeededIndexes": "0,2"}, "0-1", False),
        ({"succeededIndexes": "0,2"}, "1-3", False),
        ({"succeededIndexes": "0,2", "succeededCount": 1}, "1-2", True),
        ({"succeededIndexes": "0,2", "succeededCount": 1}, "1,3", False),
        ({"succeededCount": 3}, "0-1", False),
        ({"succeededCount": 2}, "0-1", True),
        ({}, "0-1", False),
    ],
)
def test_a_success_rule_is_met_by_its_indexes_or_by_enough_of_them(rule: Object, done: str, met: bool) -> None:
    the_job = indexed(5, running(completedIndexes=done), parallelism=0, successPolicy={"rules": [{}, rule]})
    result = plan(the_job)
    found = status(result).get("conditions", []) if result.status is not None else []
    assert [one["message"] for one in found] == ["Matched rules at index 1"] * met


def test_a_job_without_completions_ends_with_one_success_when_nothing_runs() -> None:
    the_job = job(running(succeeded=1), completions=None, parallelism=2)
    assert conditions(plan(the_job)) == [("SuccessCriteriaMet", "True", "CompletionsReached")]
    busy = plan(the_job, job_pod("a"))
    assert "conditions" not in status(busy)
    none_yet = plan(job(running(), completions=None, parallelism=2))
    assert len(created(none_yet)) == 2


def test_pods_that_are_too_many_do_not_keep_a_job_from_completing() -> None:
    result = plan(job(running(active=1, succeeded=2), completions=2, parallelism=2), job_pod("a"))
    assert deleted(result) == ["a"]
    assert conditions(result) == [("SuccessCriteriaMet", "True", "CompletionsReached")]


def test_more_successes_than_were_asked_for_are_told_at_the_end() -> None:
    met = {"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached", "message": "m"}
    events = [
        [note.reason for note in plan(job(running(succeeded=count, conditions=[met]), completions=2)).notes]
        for count in (2, 3)
    ]
    assert events == [["Completed"], ["Completed", "TooManySucceededPods"]]
    unlimited = plan(job(running(succeeded=3, conditions=[met]), completions=None))
    assert [note.reason for note in unlimited.notes] == ["Completed"]
