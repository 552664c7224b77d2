"""Workload and PodGroup of a Job, against the objects that a real 1.37 cluster made."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.objects.vocabulary import GROUPING_DEGRADED
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
    spec = {"parallelism": parallelism, "completions": 4} | (
        {"scheduling": scheduling} if scheduling is not None else {}
    )
    ((_, workload),) = made(plan(job(**spec)))
    (template,) = workload["spec"]["podGroupTemplates"]
    assert template == {"name": "train-pgt-0", "schedulingPolicy": policy}


def test_a_gang_does_not_wait_for_more_pods_than_there_will_be() -> None:
    ((_, workload),) = made(plan(job(parallelism=6, completions=2, scheduling=GANG_ALL)))
    assert workload["spec"]["podGroupTemplates"][0]["schedulingPolicy"] == {"gang": {"minCount": 2}}


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


def brought(*templates: Object) -> Object:
    """A Workload that its user made for the Job."""
    spec = {**WORKLOAD["spec"], "podGroupTemplates": list(templates)}
    return {**WORKLOAD, "metadata": {"name": "brought", "namespace": "ns", "uid": "b"}, "spec": spec}


BASIC = {"name": "plain", "schedulingPolicy": {"basic": {}}}


def problem_of(result: Plan) -> Object:
    assert result.status is not None
    [condition] = [one for one in result.status.status["conditions"] if one["type"] == GROUPING_DEGRADED]
    return dict(condition)


def problems(result: Plan) -> list[tuple[str, str]]:
    """The reason of the condition that says what is wrong, and the reason of the event."""
    condition = problem_of(result)
    return [(condition["reason"], note.reason) for note in result.notes if note.type == "Warning"]


@pytest.mark.conformance("JOB-W30")
def test_a_workload_that_names_the_job_is_used_and_not_written() -> None:
    """A real 1.37 cluster makes another beside it; see docs/concepts/differences.md."""
    ((resource, group),) = made(plan(gang_job(), workloads=[brought(BASIC)]))
    assert resource is POD_GROUPS
    assert group["spec"] == {
        "workloadRef": {"workloadName": "brought", "templateName": "plain"},
        "schedulingPolicy": {"basic": {}},
    }
    later = plan(gang_job(5), workloads=[brought(BASIC)], groups=[stored(group, "g")])
    assert changes(later) == []
    assert {obj["spec"]["schedulingGroup"]["podGroupName"] for _, obj in made(later)} == {group["metadata"]["name"]}


def test_a_brought_workload_that_was_there_first_keeps_its_min_count() -> None:
    template = {"name": "two", "schedulingPolicy": {"gang": {"minCount": 2}}}
    ((_, group),) = made(plan(gang_job(3), workloads=[brought(template)]))
    result = plan(gang_job(3), workloads=[brought(template)], groups=[stored(group, "g")])
    assert changes(result) == []
    assert kinds(result) == ["Pod"] * 3


@pytest.mark.parametrize(
    ("templates", "annotation"),
    [
        ((BASIC, {**BASIC, "name": "other"}), ""),
        ((), ""),
        ((BASIC,), "nosuch"),
        (({"name": "big", "schedulingPolicy": {"gang": {"minCount": 9}}},), ""),
    ],
    ids=["two templates", "none", "no such template", "more pods than there are"],
)
def test_a_brought_workload_that_cannot_be_used_means_plain_pods_and_says_why(
    templates: tuple[Object, ...], annotation: str
) -> None:
    the_job = gang_job()
    if annotation:
        the_job["metadata"]["annotations"] = {"scheduling.k8s.io/group-template-name": annotation}
    result = plan(the_job, workloads=[brought(*templates)])
    assert set(kinds(result)) == {"Pod"}
    assert all("schedulingGroup" not in obj["spec"] for _, obj in made(result))
    assert problems(result) == [("UnsupportedWorkload", "UnsupportedWorkload")]


def test_the_annotation_chooses_among_the_templates_of_a_brought_workload() -> None:
    the_job = gang_job()
    the_job["metadata"]["annotations"] = {"scheduling.k8s.io/group-template-name": "other"}
    ((_, group),) = made(plan(the_job, workloads=[brought(BASIC, {**BASIC, "name": "other"})]))
    assert group["spec"]["workloadRef"]["templateName"] == "other"


def test_a_template_that_no_brought_workload_has_is_not_looked_for_in_the_jobs_own() -> None:
    the_job = gang_job()
    the_job["metadata"]["annotations"] = {"scheduling.k8s.io/group-template-name": "shard"}
    result = plan(the_job, workloads=[WORKLOAD])
    assert problem_of(result)["message"] == (
        "no Workload with a podGroupTemplate shard names this Job in its controllerRef; pods start without a group"
    )


def test_a_workload_that_comes_after_the_jobs_own_is_reported_and_not_used() -> None:
    result = plan(gang_job(), workloads=[WORKLOAD, brought(BASIC)], groups=[GROUP])
    assert {obj["spec"]["schedulingGroup"]["podGroupName"] for _, obj in made(result)} == {GROUP["metadata"]["name"]}
    assert problems(result) == [("WorkloadIgnored", "WorkloadIgnored")]


def test_a_problem_is_told_once_and_taken_back_when_it_is_solved() -> None:
    the_job = gang_job(2)
    first = plan(the_job, workloads=[brought()])
    assert first.status is not None
    the_job["status"] = first.status.status
    pods = [job_pod("a", index=0), job_pod("b", index=1)]
    again = plan(the_job, *pods, workloads=[brought()])
    assert [note.reason for note in again.notes] == []
    assert again.status is None or problem_of(again)["status"] == "True"
    assert problem_of(plan(the_job, *pods))["status"] == "False"


def test_a_workload_that_was_of_no_use_when_the_job_began_stays_so() -> None:
    big = brought({"name": "big", "schedulingPolicy": {"gang": {"minCount": 9}}})
    the_job = gang_job(2)
    the_job["status"] = running(active=1)
    assert problems(plan(the_job, job_pod("a", index=0), workloads=[big])) == [("UnsupportedWorkload",) * 2]
    assert problems(plan(the_job, job_pod("a", index=0), workloads=[brought(BASIC)])) == [("WorkloadIgnored",) * 2]


@pytest.mark.conformance("JOB-W31")
def test_a_group_of_another_workload_is_ignored() -> None:
    other = {**GROUP, "spec": {**GROUP["spec"], "workloadRef": {"workloadName": "foreign", "templateName": "t"}}}
    assert kinds(plan(gang_job(), workloads=[WORKLOAD], groups=[other])) == ["PodGroup"]


def grouped_pod(name: str, index: int) -> Object:
    pod = job_pod(name, index=index)
    pod["spec"]["schedulingGroup"] = {"podGroupName": GROUP["metadata"]["name"]}
    return pod


def test_a_deleted_workload_of_a_running_gang_is_reported_and_the_group_is_kept() -> None:
    the_job = gang_job(2)
    the_job["status"] = running(active=1)
    result = plan(the_job, grouped_pod("a", 0), groups=[GROUP])
    assert [obj["spec"]["schedulingGroup"]["podGroupName"] for _, obj in made(result)] == [GROUP["metadata"]["name"]]
    assert problems(result) == [("WorkloadMissing", "WorkloadMissing")]


def test_a_deleted_group_of_a_running_gang_is_reported() -> None:
    the_job = gang_job(2)
    the_job["status"] = running(active=2)
    pods = [grouped_pod("a", 0), grouped_pod("b", 1)]
    going = {**GROUP, "metadata": {**GROUP["metadata"], "deletionTimestamp": "2027-01-15T08:00:00Z"}}
    assert problems(plan(the_job, *pods, workloads=[WORKLOAD], groups=[going])) == [("PodGroupDeleted",) * 2]
    assert problems(plan(the_job, *pods, workloads=[WORKLOAD])) == [("PodGroupMissing",) * 2]


@pytest.mark.conformance("JOB-W32")
def test_two_workloads_or_groups_of_one_job_mean_no_group_and_a_warning() -> None:
    twice = plan(gang_job(), workloads=[WORKLOAD, stored(WORKLOAD, "second")])
    assert set(kinds(twice)) == {"Pod"}
    assert [note.reason for note in twice.notes] == ["AmbiguousWorkload"]
    groups = plan(gang_job(), workloads=[WORKLOAD], groups=[GROUP, stored(GROUP, "second")])
    assert set(kinds(groups)) == {"Pod"}
    assert all("schedulingGroup" not in obj["spec"] for _, obj in made(groups))


@pytest.mark.conformance("JOB-W33")
def test_a_workload_with_two_templates_does_not_block_the_job() -> None:
    """A real 1.37 cluster creates no pods at all; see docs/concepts/differences.md."""
    templates = [{"name": "a"}, {"name": "b"}]
    odd = {**WORKLOAD, "spec": {**WORKLOAD["spec"], "podGroupTemplates": templates}}
    result = plan(gang_job(), workloads=[odd])
    assert set(kinds(result)) == {"Pod"}
    assert problems(result) == [("UnsupportedWorkload", "UnsupportedWorkload")]


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


def nested_parent() -> Object:
    parent = parent_workload()
    [_, workers] = parent["spec"]["podGroupTemplates"]
    composite = {"name": "trial", "podGroupTemplates": [workers]}
    parent["spec"] = {**parent["spec"], "podGroupTemplates": [], "compositePodGroupTemplates": [composite]}
    return parent


def test_a_delegated_group_is_made_under_the_composite_that_the_job_names() -> None:
    the_job = owned(job(), "SuperJob", annotation="workers")
    the_job["metadata"]["annotations"]["scheduling.k8s.io/parent-compositepodgroup"] = "trial-1"
    ((resource, group),) = made(plan(the_job, workloads=[nested_parent()]))
    assert resource is POD_GROUPS
    assert group["spec"]["parentCompositePodGroupName"] == "trial-1"
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}


@pytest.mark.parametrize(("workloads", "reason"), [([], "WorkloadMissing"), ([1], "UnsupportedWorkload")])
def test_a_delegated_job_without_its_template_runs_plain_and_says_so(workloads: list[int], reason: str) -> None:
    result = plan(owned(job(), "SuperJob", annotation="nosuch"), workloads=[parent_workload() for _ in workloads])
    assert set(kinds(result)) == {"Pod"}
    assert problems(result) == [(reason, reason)]


@pytest.mark.parametrize("owner", ["JobSet", "CronJob"])
def test_an_owned_job_with_terms_of_its_own_makes_its_groups_itself(owner: str) -> None:
    the_job = owned(gang_job(), owner)
    ((resource, workload),) = made(plan(the_job))
    assert resource is WORKLOADS
    assert workload["spec"]["controllerRef"] == {"apiGroup": "batch", "kind": "Job", "name": "gangjob"}
    assert workload["spec"]["podGroupTemplates"][0]["schedulingPolicy"] == {"gang": {"minCount": 2}}
