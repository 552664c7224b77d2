"""Every spec of upstream's integration suite for the JobSet controller, on our API and controller.

The order is upstream's.  Specs of feature gates that are off run with the feature switched off.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.scheme import EVENTS_V1, JOB_SETS, JOBS, SERVICES, Object
from tests.integration.jobset_rig import A, B, C, Rig, jobset, on_rig, replicated

POD_FAILURE = "PodFailurePolicy"
NO_RESTART_JOB = frozenset({"RestartJob"})


def policy(*rules: Object, **more: Any) -> Object:
    """A failure policy with one restart, unless told."""
    return {"failurePolicy": {"maxRestarts": 1, "rules": list(rules), **more}}


def rule(action: str, **more: Any) -> Object:
    return {"name": "", "action": action, "onJobFailureReasons": [], **more}


def waits_for(**states: str) -> list[Object]:
    names = {"a": A, "b": B}
    return [{"name": names[name], "status": status} for name, status in states.items()]


# -- creation and success ------------------------------------------------------------------------------------


@pytest.mark.conformance("JS-I01")
def test_suspend_may_be_set() -> None:
    async def story(rig: Rig) -> None:
        await rig.edit(suspend=True)

    on_rig(jobset(), story)


@pytest.mark.conformance("JS-I02")
def test_jobs_are_created() -> None:
    async def story(rig: Rig) -> None:
        assert len(await rig.jobs()) == 4

    on_rig(jobset(), story)


@pytest.mark.conformance("JS-I03", "JS-I12", "JS-I42")
def test_it_succeeds_after_all_jobs() -> None:
    async def story(rig: Rig) -> None:
        assert await rig.plane.names(SERVICES) == ["test-js"]
        await rig.complete()
        assert await rig.condition("Completed") == ("True", "AllJobsCompleted")
        assert (await rig.status())["terminalState"] == "Completed"
        assert await rig.counters() == {A: {"succeeded": 1}, B: {"succeeded": 3}}

    on_rig(jobset(), story)


@pytest.mark.conformance("JS-I04")
def test_a_job_of_an_owner_of_the_same_name_and_another_uid_is_ignored() -> None:
    async def story(rig: Rig) -> None:
        (first, *_) = await rig.jobs()
        spec = {"template": deepcopy(first["spec"]["template"])}
        spec["template"]["metadata"] = {}
        labels = {**meta.labels(first), "jobset.sigs.k8s.io/replicatedjob-name": "unknown"}
        owner = {**first["metadata"]["ownerReferences"][0], "uid": "another"}
        metadata = {"name": "foreign", "labels": labels, "ownerReferences": [owner]}
        await rig.plane.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
        await rig.complete(A, B)
        assert await rig.condition("Completed") == ("True", "AllJobsCompleted")
        assert await rig.counters() == {A: {"succeeded": 1}, B: {"succeeded": 3}}

    on_rig(jobset(), story)


@pytest.mark.conformance("JS-I05")
def test_it_does_not_succeed_before_every_job() -> None:
    async def story(rig: Rig) -> None:
        await rig.complete(count=3)
        await rig.ready()
        assert await rig.is_active()
        assert await rig.counters() == {A: {"succeeded": 1}, B: {"succeeded": 2, "ready": 1, "active": 1}}

    on_rig(jobset(), story)


@pytest.mark.conformance("JS-I06")
def test_success_of_all_without_targets() -> None:
    async def story(rig: Rig) -> None:
        await rig.complete(A)
        assert await rig.is_active()
        await rig.complete(B)
        assert await rig.condition("Completed") == ("True", "AllJobsCompleted")

    on_rig(jobset(successPolicy={"operator": "All", "targetReplicatedJobs": []}), story)


@pytest.mark.conformance("JS-I07")
def test_success_of_all_with_targets() -> None:
    async def story(rig: Rig) -> None:
        await rig.complete(A)
        assert await rig.is_active()
        await rig.complete(B, count=1)
        assert await rig.is_active()
        await rig.complete(B)
        assert await rig.condition("Completed") == ("True", "AllJobsCompleted")

    on_rig(jobset(successPolicy={"operator": "All", "targetReplicatedJobs": [B]}), story)


@pytest.mark.parametrize(
    "targets",
    [
        pytest.param([B], marks=pytest.mark.conformance("JS-I08")),
        pytest.param([], marks=pytest.mark.conformance("JS-I09", "JS-I44")),
    ],
)
def test_success_of_any(targets: list[str]) -> None:
    async def story(rig: Rig) -> None:
        await rig.complete(B, count=1)
        assert await rig.condition("Completed") == ("True", "AllJobsCompleted")
        assert [meta.deleting(job) for job in await rig.jobs()] == [True, False, True, True]

    on_rig(jobset(successPolicy={"operator": "Any", "targetReplicatedJobs": targets}), story)


# -- failure -------------------------------------------------------------------------------------------------


@pytest.mark.conformance("JS-I10", "JS-I13", "JS-I45")
def test_without_a_policy_any_failure_fails_it() -> None:
    async def story(rig: Rig) -> None:
        await rig.fail()
        assert await rig.condition("Failed") == ("True", "FailedJobs")
        assert await rig.restarts() == (0, 0)
        assert [meta.deleting(job) for job in await rig.jobs()] == [False, True, True, True]

    on_rig(jobset(), story)


@pytest.mark.conformance("JS-I11")
def test_one_headless_service_per_jobset() -> None:
    async def story(rig: Rig) -> None:
        (service,) = await rig.plane.all(SERVICES)
        assert (meta.name(service), service["spec"]["clusterIP"]) == ("test-js", "None")
        assert service["spec"]["selector"] == {"jobset.sigs.k8s.io/jobset-name": "test-js"}
        await rig.complete()
        assert await rig.condition("Completed") == ("True", "AllJobsCompleted")

    on_rig(jobset(), story)


@pytest.mark.conformance("JS-I14")
def test_it_fails_after_the_last_restart() -> None:
    async def story(rig: Rig) -> None:
        await rig.fail()
        assert await rig.is_active()
        await rig.release(4)
        await rig.fail()
        assert await rig.condition("Failed") == ("True", "ReachedMaxRestarts")

    on_rig(jobset(**policy()), story)


CRITICAL = "some critical error with a message"


@pytest.mark.parametrize(
    ("rules", "reason", "message", "fails"),
    [
        pytest.param([rule("FailJobSet")], POD_FAILURE, "", True, marks=pytest.mark.conformance("JS-I15")),
        pytest.param(
            [rule("FailJobSet", onJobFailureReasons=["BackoffLimitExceeded"])],
            POD_FAILURE,
            "",
            False,
            marks=pytest.mark.conformance("JS-I16"),
        ),
        pytest.param(
            [rule("FailJobSet", onJobFailureMessagePatterns=["some message"])],
            POD_FAILURE,
            CRITICAL,
            False,
            marks=pytest.mark.conformance("JS-I17"),
        ),
        pytest.param(
            [rule("FailJobSet", onJobFailureReasons=[POD_FAILURE], onJobFailureMessagePatterns=["some message"])],
            POD_FAILURE,
            CRITICAL,
            False,
            marks=pytest.mark.conformance("JS-I18"),
        ),
        pytest.param(
            [rule("FailJobSet", onJobFailureReasons=[POD_FAILURE], onJobFailureMessagePatterns=[CRITICAL])],
            POD_FAILURE,
            CRITICAL,
            True,
            marks=pytest.mark.conformance("JS-I19"),
        ),
        pytest.param(
            [rule("FailJobSet", onJobFailureReasons=[POD_FAILURE], onJobFailureMessagePatterns=["critical error"])],
            POD_FAILURE,
            CRITICAL,
            True,
            marks=pytest.mark.conformance("JS-I20"),
        ),
    ],
)
def test_reasons_and_messages_of_failures(rules: list[Object], reason: str, message: str, fails: bool) -> None:
    async def story(rig: Rig) -> None:
        await rig.fail(reason=reason, message=message)
        assert await rig.is_active() is not fails
        assert await rig.restarts() == ((0, 0) if fails else (1, 1))

    on_rig(jobset(**policy(*rules)), story)


FIRST_ELSE_FAIL = [rule("RestartJobSet", onJobFailureReasons=[POD_FAILURE]), rule("FailJobSet")]


@pytest.mark.parametrize(
    "off",
    [
        pytest.param(NO_RESTART_JOB, marks=pytest.mark.conformance("JS-I21")),
        pytest.param(frozenset(), marks=pytest.mark.conformance("JS-I23")),
    ],
)
def test_the_whole_restarts(off: frozenset[str]) -> None:
    async def story(rig: Rig) -> None:
        await rig.fail(reason=POD_FAILURE)
        assert await rig.is_active()
        assert await rig.restarts() == (1, 1)
        assert await rig.job_counters(A, "jobRestarts") is None
        assert await rig.job_counters(A, "jobRestartsCountTowardsMax") is None

    on_rig(jobset(**policy(*FIRST_ELSE_FAIL)), story, disabled_features=off)


@pytest.mark.conformance("JS-I22")
def test_the_condition_of_a_restart() -> None:
    async def story(rig: Rig) -> None:
        await rig.fail(reason=POD_FAILURE)
        assert await rig.condition("RestartingJobSet") == ("True", "FailurePolicy_Rule1")
        await rig.release(4)
        await rig.ready()
        assert await rig.condition("RestartingJobSet") == ("False", "JobsReady")

    on_rig(jobset(**policy(rule("RestartJobSet", onJobFailureReasons=[POD_FAILURE]) | {"name": "Rule1"})), story)


@pytest.mark.parametrize(
    ("action", "counted"),
    [
        pytest.param("RestartJob", [1], marks=pytest.mark.conformance("JS-I24")),
        pytest.param("RestartJobAndIgnoreMaxRestarts", None, marks=pytest.mark.conformance("JS-I25")),
    ],
)
def test_one_job_restarts(action: str, counted: list[int] | None) -> None:
    async def story(rig: Rig) -> None:
        await rig.fail(reason=POD_FAILURE)
        assert await rig.is_active()
        assert await rig.restarts() == (0, 0)
        assert await rig.job_counters(A, "jobRestarts") == [1]
        assert await rig.job_counters(A, "jobRestartsCountTowardsMax") == counted
        assert [meta.deleting(job) for job in await rig.jobs()] == [True, False, False, False]

    on_rig(jobset(**policy(rule(action, onJobFailureReasons=[POD_FAILURE]), rule("FailJobSet"))), story)


@pytest.mark.parametrize(
    ("strategy", "meanwhile"),
    [
        pytest.param("Recreate", {0: 1, 1: 3}, marks=pytest.mark.conformance("JS-I26")),
        pytest.param("BlockingRecreate", {0: 1}, marks=pytest.mark.conformance("JS-I27")),
    ],
)
def test_strategies_of_restarts(strategy: str, meanwhile: dict[int, int]) -> None:
    async def story(rig: Rig) -> None:
        await rig.fail(reason=POD_FAILURE)
        assert (await rig.restarts())[0] == 1
        await rig.release(3)
        assert await rig.attempts() == meanwhile
        await rig.release(1)
        assert await rig.attempts() == {1: 4}

    on_rig(jobset(**policy(restartStrategy=strategy)), story)


@pytest.mark.parametrize(
    "off",
    [
        pytest.param(NO_RESTART_JOB, marks=pytest.mark.conformance("JS-I28")),
        pytest.param(frozenset(), marks=pytest.mark.conformance("JS-I29")),
    ],
)
def test_restarts_that_do_not_count_never_end(off: frozenset[str]) -> None:
    async def story(rig: Rig) -> None:
        for number in (1, 2, 3):
            await rig.fail(reason=POD_FAILURE)
            assert await rig.is_active()
            assert await rig.restarts() == (number, 0)
            assert await rig.job_counters(A, "jobRestarts") is None
            await rig.release(4)

    rules = [rule("RestartJobSetAndIgnoreMaxRestarts", onJobFailureReasons=[POD_FAILURE])]
    on_rig(jobset(**policy(*rules)), story, disabled_features=off)


FEW = "MaxFailedIndexesExceeded"


@pytest.mark.parametrize(
    ("rules", "parent", "reason", "fails"),
    [
        pytest.param(
            [rule("FailJobSet", onJobFailureReasons=["FailedIndexes"], targetReplicatedJobs=[B])],
            B,
            "FailedIndexes",
            True,
            marks=pytest.mark.conformance("JS-I30"),
        ),
        pytest.param(
            [rule("FailJobSet", onJobFailureReasons=["BackoffLimitExceeded"], targetReplicatedJobs=[A])],
            B,
            "BackoffLimitExceeded",
            False,
            marks=pytest.mark.conformance("JS-I31"),
        ),
        pytest.param(
            [
                rule("FailJobSet", onJobFailureReasons=[FEW], targetReplicatedJobs=[A]),
                rule("RestartJobSet", onJobFailureReasons=[FEW], targetReplicatedJobs=[A]),
            ],
            A,
            FEW,
            True,
            marks=pytest.mark.conformance("JS-I32"),
        ),
        pytest.param(
            [
                rule("RestartJobSet", onJobFailureReasons=[FEW], targetReplicatedJobs=[A]),
                rule("FailJobSet", onJobFailureReasons=[FEW], targetReplicatedJobs=[A]),
            ],
            A,
            FEW,
            False,
            marks=pytest.mark.conformance("JS-I33"),
        ),
    ],
)
def test_targets_and_order_of_rules(rules: list[Object], parent: str, reason: str, fails: bool) -> None:
    async def story(rig: Rig) -> None:
        await rig.fail(parent, reason)
        assert await rig.is_active() is not fails
        assert await rig.restarts() == ((0, 0) if fails else (1, 1))

    on_rig(jobset(**policy(*rules)), story)


@pytest.mark.conformance("JS-I34")
def test_rules_for_one_replicated_job_and_for_the_rest() -> None:
    async def story(rig: Rig) -> None:
        for number in (1, 2, 3):
            await rig.fail(A, FEW)
            assert await rig.is_active()
            assert await rig.restarts() == (number, 0)
            await rig.release(4)
        await rig.fail(B, FEW)
        assert await rig.condition("Failed") == ("True", "FailJobSetFailurePolicyAction")
        assert await rig.restarts() == (3, 0)

    first = rule("RestartJobSetAndIgnoreMaxRestarts", onJobFailureReasons=[FEW], targetReplicatedJobs=[A])
    on_rig(jobset(**policy(first, rule("FailJobSet"))), story)


@pytest.mark.conformance("JS-I35")
def test_it_succeeds_after_one_failure() -> None:
    async def story(rig: Rig) -> None:
        await rig.complete(B, count=1)
        await rig.fail(A)
        await rig.release(4)
        assert await rig.attempts() == {1: 4}
        await rig.complete()
        assert await rig.condition("Completed") == ("True", "AllJobsCompleted")

    on_rig(jobset(**policy()), story)


# -- suspended -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(None, marks=pytest.mark.conformance("JS-I36")),
        pytest.param("InOrder", marks=pytest.mark.conformance("JS-I47")),
        pytest.param("AnyOrder", marks=pytest.mark.conformance("JS-I48")),
    ],
)
def test_created_suspended(order: str | None) -> None:
    async def story(rig: Rig) -> None:
        assert len(await rig.jobs()) == 4
        assert await rig.all_suspended() == [True]
        assert await rig.condition("Suspended") == ("True", "SuspendedJobs")
        assert await rig.counters() == {A: {"suspended": 1}, B: {"suspended": 3}}

    more = {"startupPolicy": {"startupPolicyOrder": order}} if order else {}
    on_rig(jobset(suspend=True, **more), story)


@pytest.mark.conformance("JS-I37")
def test_resumed_with_changed_pod_templates() -> None:
    async def story(rig: Rig) -> None:
        await rig.stopped()
        jobs = deepcopy((await rig.plane.get(JOB_SETS, rig.name))["spec"]["replicatedJobs"])
        for entry in jobs:
            template = entry["template"]["spec"]["template"]
            template["metadata"] = {"labels": {"label": "value"}, "annotations": {"annotation": "value"}}
            template["spec"] |= {"nodeSelector": {"a": "a"}, "tolerations": [{"key": "key", "operator": "Exists"}]}
        await rig.edit(replicatedJobs=jobs)
        assert await rig.counters() == {A: {"suspended": 1}, B: {"suspended": 3}}
        await rig.edit(suspend=False)
        assert await rig.all_suspended() == [False]
        assert await rig.condition("Suspended") == ("False", "ResumeJobs")
        for job in await rig.jobs():
            template = job["spec"]["template"]
            assert template["metadata"]["labels"]["label"] == "value"
            assert template["metadata"]["annotations"]["annotation"] == "value"
            assert template["spec"]["nodeSelector"] == {"a": "a"}
            assert template["spec"]["tolerations"] == [{"key": "key", "operator": "Exists"}]
        await rig.complete()
        assert await rig.condition("Completed") == ("True", "AllJobsCompleted")
        assert await rig.counters() == {A: {"succeeded": 1}, B: {"succeeded": 3}}

    on_rig(jobset(suspend=True), story)


@pytest.mark.conformance("JS-I38")
def test_a_running_one_is_suspended() -> None:
    async def story(rig: Rig) -> None:
        assert await rig.all_suspended() == [False]
        await rig.edit(suspend=True)
        assert await rig.all_suspended() == [True]
        assert await rig.condition("Suspended") == ("True", "SuspendedJobs")

    on_rig(jobset(suspend=False), story)


@pytest.mark.conformance("JS-I39")
def test_a_deleted_service_comes_back() -> None:
    async def story(rig: Rig) -> None:
        await rig.plane.delete(SERVICES, "test-js")
        await rig.settle()
        assert await rig.plane.names(SERVICES) == ["test-js"]

    on_rig(jobset(), story)


# -- volume claims -------------------------------------------------------------------------------------------


def with_claims(name: str, *names: str, **spec: Any) -> Object:
    mounts = [{"name": one, "mountPath": f"/{one}"} for one in names]
    entry = replicated("worker")
    entry["template"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = mounts
    policies = [
        {
            "templates": [
                {
                    "metadata": {"name": one, "creationTimestamp": None},
                    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
                    "status": {},
                }
            ],
            "retentionPolicy": {"whenDeleted": "Retain" if one.endswith("retain") else "Delete"},
        }
        for one in names
    ]
    return jobset(entry, name=name, volumeClaimPolicies=policies, **spec)


@pytest.mark.conformance("JS-I40")
def test_claims_to_delete_and_to_retain() -> None:
    async def story(rig: Rig) -> None:
        assert await rig.claims() == ["test-volume-retain-volume-test", "test-volume-volume-test"]
        await rig.complete()
        assert await rig.condition("Completed") == ("True", "AllJobsCompleted")
        await rig.plane.delete(JOB_SETS, "volume-test")
        again = Rig(rig.plane, "volume-test-2")
        await rig.plane.create(with_claims("volume-test-2", "test-volume-retain"))
        await again.settle()
        assert "volume-test-2-worker-0" in await rig.plane.names(JOBS)
        await again.complete()
        assert await again.condition("Completed") == ("True", "AllJobsCompleted")

    on_rig(with_claims("volume-test", "test-volume", "test-volume-retain"), story)


@pytest.mark.conformance("JS-I41")
def test_claims_while_suspended() -> None:
    async def story(rig: Rig) -> None:
        assert await rig.claims() == ["test-volume-volume-test"]

    on_rig(with_claims("volume-test", "test-volume", suspend=True), story)


# -- status, names, order ------------------------------------------------------------------------------------


@pytest.mark.conformance("JS-I43")
def test_counters_follow_the_jobs() -> None:
    async def story(rig: Rig) -> None:
        await rig.ready()
        assert await rig.counters() == {A: {"ready": 1, "active": 1}, B: {"ready": 3, "active": 3}}

    on_rig(jobset(suspend=False), story)


@pytest.mark.conformance("JS-I46")
def test_the_service_of_a_generated_name() -> None:
    async def story(rig: Rig) -> None:
        assert await rig.plane.names(SERVICES) == [rig.name]
        assert rig.name.startswith("name-prefix")

    body = jobset()
    body["metadata"] = {"generateName": "name-prefix", "namespace": "default"}
    on_rig(body, story)


IN_ORDER = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}


@pytest.mark.conformance("JS-I49")
def test_resumed_in_any_order() -> None:
    async def story(rig: Rig) -> None:
        await rig.edit(suspend=False)
        assert await rig.all_suspended() == [False]
        assert await rig.counters() == {A: {}, B: {}}

    on_rig(jobset(suspend=True, startupPolicy={"startupPolicyOrder": "AnyOrder"}), story)


@pytest.mark.conformance("JS-I50")
def test_resumed_in_order() -> None:
    async def story(rig: Rig) -> None:
        await rig.edit(suspend=False)
        assert await rig.counters() == {A: {}, B: {"suspended": 3}}
        await rig.ready(A)
        assert await rig.counters() == {A: {"ready": 1, "active": 1}, B: {}}
        assert (await rig.condition("StartupPolicyInProgress") or "")[0] == "True"
        await rig.ready(B)
        assert await rig.counters() == {A: {"ready": 1, "active": 1}, B: {"ready": 3, "active": 3}}
        assert (await rig.condition("StartupPolicyCompleted") or "")[0] == "True"

    on_rig(jobset(suspend=True, **IN_ORDER), story)


@pytest.mark.conformance("JS-I51")
def test_started_in_order() -> None:
    async def story(rig: Rig) -> None:
        assert len(await rig.jobs()) == 1
        assert (await rig.condition("StartupPolicyInProgress") or "")[0] == "True"
        await rig.ready(A)
        assert len(await rig.jobs()) == 4
        await rig.active(B)
        assert (await rig.condition("StartupPolicyInProgress") or "")[0] == "True"
        await rig.ready(B)
        assert (await rig.condition("StartupPolicyCompleted") or "")[0] == "True"
        assert (await rig.condition("StartupPolicyInProgress") or "")[0] == "False"

    on_rig(jobset(**IN_ORDER), story)


@pytest.mark.conformance("JS-I52")
def test_restarted_in_order() -> None:
    async def story(rig: Rig) -> None:
        await rig.ready(A)
        await rig.ready(B)
        assert (await rig.condition("StartupPolicyCompleted") or "")[0] == "True"
        await rig.complete(B, count=1)
        await rig.fail(B)
        await rig.release(4)
        assert [meta.name(job) for job in await rig.jobs()] == [f"test-js-{A}-0"]
        assert (await rig.condition("StartupPolicyInProgress") or "")[0] == "True"
        await rig.ready(A)
        await rig.ready(B)
        assert (await rig.condition("StartupPolicyCompleted") or "")[0] == "True"
        assert await rig.attempts() == {1: 4}

    on_rig(jobset(**IN_ORDER, **policy()), story)


@pytest.mark.conformance("JS-I53")
def test_the_coordinator_is_on_every_job() -> None:
    async def story(rig: Rig) -> None:
        for job in await rig.jobs():
            for written in (meta.labels(job), meta.annotations(job)):
                assert written["jobset.sigs.k8s.io/coordinator"] == f"test-js-{A}-0-0.test-js"

    entries = [replicated(A, job={"completionMode": "Indexed", "completions": 1}), replicated(B, 3)]
    on_rig(jobset(*entries, coordinator={"replicatedJob": A}), story)


@pytest.mark.conformance("JS-I54")
def test_one_depends_on_ready() -> None:
    async def story(rig: Rig) -> None:
        assert len(await rig.jobs()) == 1
        await rig.ready(A)
        assert len(await rig.jobs()) == 4
        await rig.ready(B)
        assert await rig.counters() == {A: {"ready": 1, "active": 1}, B: {"ready": 3, "active": 3}}

    on_rig(jobset(replicated(A), replicated(B, 3, dependsOn=waits_for(a="Ready"))), story)


@pytest.mark.conformance("JS-I55")
def test_a_chain_of_dependencies() -> None:
    async def story(rig: Rig) -> None:
        assert len(await rig.jobs()) == 1
        await rig.complete(A)
        assert len(await rig.jobs()) == 2
        await rig.ready(B)
        assert len(await rig.jobs()) == 5
        await rig.complete()
        assert await rig.counters() == {A: {"succeeded": 1}, B: {"succeeded": 1}, C: {"succeeded": 3}}

    second = replicated(B, dependsOn=waits_for(a="Complete"))
    on_rig(jobset(replicated(A), second, replicated(C, 3, dependsOn=waits_for(b="Ready"))), story)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param("Complete", marks=pytest.mark.conformance("JS-I56")),
        pytest.param("Ready", marks=pytest.mark.conformance("JS-I57")),
    ],
)
def test_one_depends_on_two(first: str) -> None:
    async def story(rig: Rig) -> None:
        assert len(await rig.jobs()) == 2
        await (rig.complete(A) if first == "Complete" else rig.ready(A))
        assert len(await rig.jobs()) == 2
        await rig.complete(B)
        assert len(await rig.jobs()) == 5
        await rig.complete()
        assert await rig.counters() == {A: {"succeeded": 1}, B: {"succeeded": 1}, C: {"succeeded": 3}}
        assert await rig.condition("Completed") == ("True", "AllJobsCompleted")

    third = replicated(C, 3, dependsOn=waits_for(a=first, b="Complete"))
    on_rig(jobset(replicated(A), replicated(B), third), story)


@pytest.mark.conformance("JS-I58")
def test_dependencies_hold_on_resume() -> None:
    async def story(rig: Rig) -> None:
        assert [meta.name(job) for job in await rig.jobs()] == [f"test-js-{A}-0"]
        assert await rig.all_suspended() == [True]
        await rig.edit(suspend=False)
        assert len(await rig.jobs()) == 1
        await rig.ready(A)
        assert len(await rig.jobs()) == 4
        assert await rig.all_suspended() == [False]
        await rig.ready(B)
        assert await rig.counters() == {A: {"ready": 1, "active": 1}, B: {"ready": 3, "active": 3}}

    on_rig(jobset(replicated(A), replicated(B, 3, dependsOn=waits_for(a="Ready")), suspend=True), story)


# -- others --------------------------------------------------------------------------------------------------


@pytest.mark.conformance("JS-I59", "JS-I60", "JS-I61")
def test_one_that_another_controller_manages() -> None:
    async def story(rig: Rig) -> None:
        await rig.settle()
        assert await rig.jobs() == []
        await rig.edit(suspend=False)
        assert await rig.jobs() == []
        counters = {"name": A, "ready": 2, "succeeded": 3, "failed": 4, "active": 5, "suspended": 6}
        condition = {
            "type": "Failed",
            "status": "False",
            "reason": "ByTest",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        status = {"restarts": 1, "conditions": [condition], "replicatedJobsStatus": [counters]}
        stored = await rig.plane.get(JOB_SETS, rig.name)
        await rig.plane.api.update(JOB_SETS, {**stored, "status": status}, "default", "status")
        await rig.settle()
        assert await rig.status() == status

    on_rig(jobset(managedBy="example.com/other-controller", suspend=True), story)


@pytest.mark.conformance("JS-I62")
def test_one_goes_after_its_ttl() -> None:
    async def story(rig: Rig) -> None:
        await rig.fail()
        assert [meta.deleting(job) for job in await rig.jobs()] == [False, True, True, True]
        await rig.plane.wait(2)
        assert meta.deleting(await rig.plane.get(JOB_SETS, rig.name))

    on_rig(jobset(ttlSecondsAfterFinished=2), story)

    async def other(rig: Rig) -> None:
        await rig.complete()
        await rig.plane.wait(600)
        assert not meta.deleting(await rig.plane.get(JOB_SETS, rig.name))

    on_rig(jobset(), other)


@pytest.mark.conformance("JS-I63")
def test_a_bad_job_template_is_told_in_a_series_of_events() -> None:
    async def story(rig: Rig) -> None:
        await rig.plane.wait(30)
        (event,) = [one for one in await rig.plane.all(EVENTS_V1) if one["reason"] == "JobCreationFailed"]
        assert (event["type"], event["regarding"]["kind"], event["regarding"]["name"]) == ("Warning", "JobSet", "bad")
        assert event["series"]["count"] > 1

    entry = replicated(A)
    entry["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = ""
    on_rig(jobset(entry, name="bad"), story)


SIZE = {"completionMode": "Indexed", "parallelism": 2, "completions": 2}


@pytest.mark.parametrize(
    "off",
    [
        pytest.param(frozenset(), marks=pytest.mark.conformance("JS-I64")),
        pytest.param(frozenset({"ElasticJobSet"}), marks=pytest.mark.conformance("JS-I65")),
    ],
)
def test_a_new_size(off: frozenset[str]) -> None:
    async def story(rig: Rig) -> None:
        larger = [replicated("workers", job={**SIZE, "parallelism": 4, "completions": 4})]
        if off:
            with pytest.raises(ApiError):
                await rig.edit(replicatedJobs=larger)
            return
        await rig.edit(replicatedJobs=larger)
        (job,) = await rig.jobs()
        assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (4, 4)

    on_rig(jobset(replicated("workers", job=SIZE)), story, disabled_features=off)
