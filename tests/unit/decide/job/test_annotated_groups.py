"""Groups of Jobs that ask for them in an annotation."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.objects.vocabulary import JOB_SCHEDULING, POD_GROUP
from echelon.api.scheme import JOBS, Object
from echelon.api.views.group_views import PodGroupView
from echelon.api.views.job_views import JobView
from echelon.decide.job.annotated_groups import group_key, reconcile
from echelon.decide.plan import NOTHING, ApplyPatch, Create, Plan

GANG = '{"schedulingPolicy": {"gang": {}}}'


def job(asked: str | None = GANG, label: str = "work", parallelism: int = 4, **status: Any) -> JobView:
    metadata: Object = {"name": "work", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    if asked is not None:
        metadata["annotations"] = {JOB_SCHEDULING: asked}
    template = {"metadata": {"labels": {POD_GROUP: label}} if label else {}, "spec": {"priorityClassName": "high"}}
    spec = {"parallelism": parallelism, "completions": parallelism, "template": template}
    return JobView(
        {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": metadata, "spec": spec, "status": status}
    )


def group(least: int, owner: str = "u") -> PodGroupView:
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": owner, "controller": True}]
    metadata = {"name": "work", "namespace": "default", "uid": "g", "ownerReferences": owners}
    return PodGroupView({"metadata": metadata, "spec": {"schedulingPolicy": {"gang": {"minCount": least}}}})


def reasons(plan: Plan) -> list[str]:
    return [note.reason for note in plan.notes]


def test_the_group_has_the_name_of_the_label_and_needs_all_pods() -> None:
    ((creation,),) = reconcile(job(), None).stages
    assert isinstance(creation, Create)
    assert creation.obj["metadata"]["name"] == "work"
    assert creation.obj["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert creation.obj["spec"] == {"schedulingPolicy": {"gang": {"minCount": 4}}, "priorityClassName": "high"}


def test_an_empty_label_is_the_group_of_the_jobs_own_name() -> None:
    made = job()
    labelled = {**made.obj["spec"]["template"], "metadata": {"labels": {POD_GROUP: ""}}}
    generated = JobView({**made.obj, "spec": {**made.obj["spec"], "template": labelled}})
    assert group_key(generated) == "default/work"
    ((creation,),) = reconcile(generated, None).stages
    assert isinstance(creation, Create)
    assert creation.obj["metadata"]["name"] == "work"


def test_what_the_annotation_says_is_what_the_group_says() -> None:
    asked = (
        '{"schedulingPolicy": {"gang": {"minCount": 2}}, "schedulingConstraints": {"topology": [{"key": "rack"}]},'
        ' "disruptionMode": {"all": {}}}'
    )
    ((creation,),) = reconcile(job(asked), None).stages
    assert isinstance(creation, Create)
    assert creation.obj["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
    assert creation.obj["spec"]["schedulingConstraints"] == {"topology": [{"key": "rack"}]}
    assert creation.obj["spec"]["disruptionMode"] == {"all": {}}


def test_a_job_that_grows_moves_the_minimum_of_its_group() -> None:
    assert reconcile(job(), group(4)) == NOTHING
    ((change,),) = reconcile(job(parallelism=6), group(4)).stages
    assert isinstance(change, ApplyPatch)
    assert change.patch.body["spec"] == {"schedulingPolicy": {"gang": {"minCount": 6}}}


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("gang", "not JSON"),
        ("[]", "must be an object"),
        ('{"schedulingPolicy": 4}', "must be an object"),
        ('{"schedulingPolicy": {"gang": {"minCount": 9}}}', "must not be greater than parallelism (4)"),
        ('{"schedulingPolicy": {}}', "must specify one of"),
    ],
)
def test_what_is_wrong_in_the_annotation_is_told_and_makes_no_group(asked: str, text: str) -> None:
    plan = reconcile(job(asked), None)
    assert reasons(plan) == ["InvalidScheduling"]
    assert text in plan.notes[0].message
    assert not plan.stages


def test_pods_without_the_label_and_groups_of_others_are_told() -> None:
    assert reasons(reconcile(job(label=""), None)) == ["GroupLabelMissing"]
    assert reasons(reconcile(job(), group(4, owner="other"))) == ["PodGroupTaken"]


def test_jobs_that_do_not_ask_or_have_ended_are_left_alone() -> None:
    assert reconcile(job(None), None) == NOTHING
    assert reconcile(job(conditions=[{"type": "Complete", "status": "True"}]), None) == NOTHING
