"""Workload and PodGroup of a Job, against the objects that a real 1.37 cluster made."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.scheme import POD_GROUPS, PODS, WORKLOADS, Object
from echelon.decide.job.reconcile import reconcile
from echelon.decide.plan import ApplyPatch, Create, Plan

from .objects import UID, indexed, job, job_pod, observed, running

JOB_REF = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "name": "gangjob",
    "uid": UID,
    "controller": True,
    "blockOwnerDeletion": True,
}
#: As captured, without what the server adds on its own.
REAL_WORKLOAD: Object = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "Workload",
    "metadata": {"name": "gangjob-7884887bd4", "namespace": "ns", "ownerReferences": [JOB_REF]},
    "spec": {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "gangjob"},
        "podGroupTemplates": [
            {
                "name": "gangjob-pgt-0",
                "schedulingPolicy": {"gang": {"minCount": 2}},
                "disruptionMode": {"all": {}},
            }
        ],
    },
}
REAL_POD_GROUP: Object = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "metadata": {
        "name": "gangjob-7884887bd4-gangjob-pgt-0-848b48b89f",
        "namespace": "ns",
        "ownerReferences": [
            JOB_REF,
            {
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "Workload",
                "name": "gangjob-7884887bd4",
                "uid": "cbe1be2e",
            },
        ],
    },
    "spec": {
        "workloadRef": {"workloadName": "gangjob-7884887bd4", "templateName": "gangjob-pgt-0"},
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "disruptionMode": {"all": {}},
    },
}
GANG_ALL = {"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}}


def gang_job(count: int = 2, **spec: Any) -> Object:
    made = indexed(count, **{"scheduling": GANG_ALL, **spec})
    made["metadata"]["name"] = "gangjob"
    return made


def stored(obj: Object, uid: str) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "uid": uid, "resourceVersion": "7"}}


WORKLOAD = stored(REAL_WORKLOAD, "cbe1be2e")
GROUP = stored(REAL_POD_GROUP, "3b9059d6")


def plan(the_job: Object, *pods: Object, **more: Any) -> Plan:
    return reconcile(observed(the_job, *pods, **more), 1_800_000_000.0)


def made(result: Plan) -> list[tuple[Any, Object]]:
    return [(action.resource, action.obj) for stage in result.stages for action in stage if isinstance(action, Create)]


def kinds(result: Plan) -> list[str]:
    return [resource.kind for resource, _ in made(result)]


def changes(result: Plan) -> list[tuple[Any, Any]]:
    return [
        (action.resource, action.patch.body)
        for stage in result.stages
        for action in stage
        if isinstance(action, ApplyPatch)
    ]


@pytest.mark.conformance("JOB-W4", "JOB-W12", "JOB-W29", "JOB-W49", "SCH-198")
def test_workload_then_pod_group_then_pods_as_on_a_real_cluster() -> None:
    first = plan(gang_job())
    assert made(first) == [(WORKLOADS, REAL_WORKLOAD)]
    assert first.status is None
    second = plan(gang_job(), workloads=[WORKLOAD])
    assert made(second) == [(POD_GROUPS, REAL_POD_GROUP)]
    assert second.status is None
    third = plan(gang_job(), workloads=[WORKLOAD], groups=[GROUP])
    assert kinds(third) == ["Pod", "Pod"]
    assert [obj["spec"]["schedulingGroup"] for _, obj in made(third)] == [
        {"podGroupName": "gangjob-7884887bd4-gangjob-pgt-0-848b48b89f"}
    ] * 2
    assert made(third)[0][1]["metadata"]["ownerReferences"] == [JOB_REF]


@pytest.mark.conformance("JOB-W36", "JOB-W37")
@pytest.mark.parametrize(
    ("scheduling", "parallelism", "policy"),
    [
        (None, 4, {"basic": {}}),
        ({}, 4, {"basic": {}}),
        ({"schedulingPolicy": {"basic": {}}}, 4, {"basic": {}}),
        ({"schedulingPolicy": {"gang": {}}}, 4, {"gang": {"minCount": 4}}),
        ({"schedulingPolicy": {"gang": {}}}, 0, {"gang": {"minCount": 1}}),
        ({"schedulingPolicy": {"gang": {"minCount": 2}}}, 4, {"gang": {"minCount": 2}}),
    ],
)
def test_the_policy_compiled(scheduling: Object | None, parallelism: int, policy: Object) -> None:
    spec = {"parallelism": parallelism} | ({"scheduling": scheduling} if scheduling is not None else {})
    ((_, workload),) = made(plan(job(**spec)))
    (template,) = workload["spec"]["podGroupTemplates"]
    assert template == {"name": "train-pgt-0", "schedulingPolicy": policy}


@pytest.mark.conformance("JOB-W13", "JOB-W14", "JOB-W38", "SCH-198")
def test_constraints_claims_and_priority_class_reach_template_and_group() -> None:
    wishes = {
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "resourceClaims": [{"name": "c", "resourceClaimName": "x"}],
    }
    the_job = gang_job(4, scheduling={"schedulingPolicy": {"gang": {"minCount": 2}}, **wishes})
    the_job["spec"]["template"]["spec"]["priorityClassName"] = "high"
    ((_, workload),) = made(plan(the_job))
    expected = {**wishes, "priorityClassName": "high", "schedulingPolicy": {"gang": {"minCount": 2}}}
    assert workload["spec"]["podGroupTemplates"] == [{"name": "gangjob-pgt-0", **expected}]
    ((_, group),) = made(plan(the_job, workloads=[stored(workload, "w")]))
    assert {key: group["spec"][key] for key in expected} == expected


# -- who gets them -------------------------------------------------------------------------------------------


def owned(the_job: Object, kind: str = "JobSet", *, annotation: str | None = None) -> Object:
    the_job["metadata"]["ownerReferences"] = [
        {"apiVersion": "example.com/v1", "kind": kind, "name": "parent", "uid": "p", "controller": True}
    ]
    if annotation is not None:
        the_job["metadata"]["annotations"] = {"scheduling.k8s.io/group-template-name": annotation}
    return the_job


@pytest.mark.conformance("JOB-W8", "JOB-W25", "SCH-195")
@pytest.mark.parametrize("delegating", [False, True])
def test_a_template_with_its_own_group_gets_neither_and_keeps_it(delegating: bool) -> None:
    the_job = job()
    if delegating:
        owned(the_job, annotation="workers")
    the_job["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "mine"}
    ((resource, obj),) = made(plan(the_job, workloads=[parent_workload()]))
    assert resource is PODS
    assert obj["spec"]["schedulingGroup"] == {"podGroupName": "mine"}


@pytest.mark.conformance("JOB-W23", "JOB-W24")
@pytest.mark.parametrize("kind", ["JobSet", "CronJob"])
def test_an_owned_job_without_delegation_gets_neither(kind: str) -> None:
    ((resource, obj),) = made(plan(owned(job(), kind)))
    assert resource is PODS
    assert "schedulingGroup" not in obj["spec"]


def test_an_owner_that_is_no_controller_does_not_matter() -> None:
    the_job = owned(job())
    del the_job["metadata"]["ownerReferences"][0]["controller"]
    assert kinds(plan(the_job)) == ["Workload"]


@pytest.mark.conformance("JOB-W9", "JOB-W17", "SCH-196")
def test_a_job_created_suspended_gets_its_groups_before_any_pod() -> None:
    assert kinds(plan(gang_job(suspend=True))) == ["Workload"]
    assert kinds(plan(gang_job(suspend=True), workloads=[WORKLOAD])) == ["PodGroup"]
    assert kinds(plan(gang_job(suspend=True), workloads=[WORKLOAD], groups=[GROUP])) == []


@pytest.mark.conformance("JOB-W27")
@pytest.mark.parametrize(
    ("status", "pods"),
    [
        ({}, [job_pod("a")]),
        ({"startTime": "2027-01-15T08:00:00Z"}, []),
        ({"succeeded": 1}, []),
        ({"failed": 1}, []),
        ({"conditions": [{"type": "Suspended", "status": "False"}]}, []),
    ],
)
def test_a_job_that_has_begun_ungrouped_stays_ungrouped(status: Object, pods: list[Object]) -> None:
    result = plan(job(status, parallelism=3, completions=3), *pods)
    assert set(kinds(result)) == {"Pod"}
    assert all("schedulingGroup" not in obj["spec"] for _, obj in made(result))


@pytest.mark.conformance("JOB-W28")
def test_existing_groups_are_used_by_a_job_that_has_begun() -> None:
    the_job = gang_job(2)
    the_job["status"] = running(active=1)
    result = plan(the_job, job_pod("a", index=0), workloads=[WORKLOAD], groups=[GROUP])
    assert [obj["spec"]["schedulingGroup"]["podGroupName"] for _, obj in made(result)] == [GROUP["metadata"]["name"]]


@pytest.mark.conformance("JOB-W30", "JOB-W31")
def test_foreign_objects_are_ignored() -> None:
    foreign = stored(WORKLOAD, "f")
    foreign["metadata"] = {"name": "foreign", "namespace": "ns", "uid": "f"}
    assert kinds(plan(gang_job(), workloads=[foreign])) == ["Workload"]
    other = {**GROUP, "spec": {**GROUP["spec"], "workloadRef": {"workloadName": "foreign", "templateName": "t"}}}
    assert kinds(plan(gang_job(), workloads=[WORKLOAD], groups=[other])) == ["PodGroup"]


@pytest.mark.conformance("JOB-W32")
def test_two_workloads_or_groups_of_one_job_mean_no_group_and_a_warning() -> None:
    twice = plan(gang_job(), workloads=[WORKLOAD, stored(WORKLOAD, "second")])
    assert set(kinds(twice)) == {"Pod"}
    assert [note.reason for note in twice.notes] == ["AmbiguousWorkload"]
    groups = plan(gang_job(), workloads=[WORKLOAD], groups=[GROUP, stored(GROUP, "second")])
    assert all("schedulingGroup" not in obj["spec"] for _, obj in made(groups))


@pytest.mark.conformance("JOB-W33")
def test_a_workload_with_two_templates_blocks_the_job() -> None:
    templates = [{"name": "a"}, {"name": "b"}]
    odd = {**WORKLOAD, "spec": {**WORKLOAD["spec"], "podGroupTemplates": templates}}
    result = plan(gang_job(), workloads=[odd])
    assert result.stages == ()
    assert result.status is None
    assert [note.reason for note in result.notes] == ["UnsupportedWorkload"]


# -- elastic -------------------------------------------------------------------------------------------------


@pytest.mark.conformance("JOB-W15", "JOB-W16", "SCH-199")
@pytest.mark.parametrize(
    ("scheduling", "parallelism", "count"),
    [
        ({"schedulingPolicy": {"gang": {}}}, 5, 5),
        ({"schedulingPolicy": {"gang": {"minCount": 3}}}, 5, 3),
    ],
)
def test_an_elastic_change_moves_min_count_in_workload_then_group(
    scheduling: Object, parallelism: int, count: int
) -> None:
    the_job = gang_job(parallelism, scheduling=scheduling, suspend=True)
    result = plan(the_job, workloads=[WORKLOAD], groups=[GROUP])
    policy = {"gang": {"minCount": count}}
    template = WORKLOAD["spec"]["podGroupTemplates"][0]
    version = WORKLOAD["metadata"].get("resourceVersion")
    (_, workload_patch), (_, group_patch) = changes(result)
    assert workload_patch == {
        "metadata": {"resourceVersion": version},
        "spec": {"podGroupTemplates": [{**template, "schedulingPolicy": policy}]},
    }
    assert group_patch == {"spec": {"schedulingPolicy": policy}}
    assert len(result.stages) == 2


def test_equal_counts_cause_no_write() -> None:
    assert changes(plan(gang_job(), workloads=[WORKLOAD], groups=[GROUP])) == []


# -- delegated -----------------------------------------------------------------------------------------------


def parent_workload(count: int = 3) -> Object:
    template = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": count}}}
    return {
        "metadata": {"name": "parent-workload", "namespace": "ns", "uid": "w"},
        "spec": {
            "controllerRef": {"apiGroup": "example.com", "kind": "SuperJob", "name": "parent"},
            "podGroupTemplates": [{"name": "other", "schedulingPolicy": {"basic": {}}}, template],
        },
    }


@pytest.mark.conformance("JOB-W20", "JOB-W21", "JOB-W22", "SCH-200")
def test_a_delegated_job_takes_its_group_from_the_parents_template() -> None:
    result = plan(owned(job(), "SuperJob", annotation="workers"), workloads=[parent_workload()])
    ((resource, group),) = made(result)
    assert resource is POD_GROUPS
    assert group["metadata"]["name"] == "parent-workload-workers-5cfd5c5556"
    assert group["spec"] == {
        "workloadRef": {"workloadName": "parent-workload", "templateName": "workers"},
        "schedulingPolicy": {"gang": {"minCount": 3}},
    }
    assert [owner["kind"] for owner in group["metadata"]["ownerReferences"]] == ["Job"]
    assert changes(result) == []


@pytest.mark.conformance("JOB-W35")
@pytest.mark.parametrize(("count", "written"), [(3, []), (7, [7])])
def test_a_delegated_group_follows_the_parents_min_count(count: int, written: list[int]) -> None:
    the_job = owned(job(), "SuperJob", annotation="workers")
    ((_, group),) = made(plan(the_job, workloads=[parent_workload()]))
    result = plan(the_job, workloads=[parent_workload(count)], groups=[stored(group, "g")])
    assert [body["spec"]["schedulingPolicy"]["gang"]["minCount"] for _, body in changes(result)] == written


@pytest.mark.parametrize("annotation", ["missing-template"])
def test_a_missing_parent_template_means_plain_pods(annotation: str) -> None:
    the_job = owned(job(), "SuperJob", annotation=annotation)
    assert kinds(plan(the_job, workloads=[parent_workload()])) == ["Pod"]
    assert kinds(plan(the_job)) == ["Pod"]
