"""Exclusive placement: what a JobSet may ask for by annotation, and what contradicts it."""

from __future__ import annotations

import pytest

from echelon.api.scheme import JOB_SETS, Object

from .builders import edited, job_set, on_update, refused, replicated

KEY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
RACK = {KEY: "topology.kubernetes.io/rack"}
BY_NODES = {**RACK, "alpha.jobset.sigs.k8s.io/node-selector": "true"}
TWO = [replicated("a"), replicated("b")]


def owned(name: str, **job: object) -> Object:
    """A replicated job with an annotation of its own."""
    made = replicated(name, job=dict(job))
    made["template"]["metadata"] = {"annotations": RACK}
    return made


@pytest.mark.parametrize("value", ["", "no key", "a/b/c", "x" * 400])
def test_the_value_is_the_key_of_a_node_label(value: str) -> None:
    (problem,) = refused(JOB_SETS, job_set(annotations={KEY: value}))
    assert f"metadata.annotations[{KEY}]" in problem
    entry = owned("a")
    entry["template"]["metadata"] = {"annotations": {KEY: value}}
    (problem,) = refused(JOB_SETS, job_set(entry))
    assert f"spec.replicatedJobs[0].template.metadata.annotations[{KEY}]" in problem


def test_jobs_need_an_index_0() -> None:
    assert refused(JOB_SETS, job_set(annotations=RACK)) == []
    loose = {"completionMode": "NonIndexed"}
    assert "needs completionMode Indexed" in refused(JOB_SETS, job_set(replicated(job=loose), annotations=RACK))[0]
    assert "needs completionMode Indexed" in refused(JOB_SETS, job_set(owned("a", **loose)))[0]
    of_pods = replicated(job=loose)
    of_pods["template"]["spec"]["template"]["metadata"] = {"annotations": RACK}
    assert "needs completionMode Indexed" in refused(JOB_SETS, job_set(of_pods))[0]


@pytest.mark.parametrize(
    ("scheduling", "path"),
    [
        ({}, "spec.scheduling.schedulingPolicy.gang"),
        ({"schedulingPolicy": {"gang": {}}}, "spec.scheduling.schedulingPolicy.gang"),
        ({"schedulingPolicy": {"basic": {}}}, "spec.scheduling.schedulingPolicy.basic"),
        (
            {"replicatedJobs": [{"targetReplicatedJobs": ["b"], "job": {}}, {"targetReplicatedJobs": ["a"]}]},
            "spec.scheduling.replicatedJobs[1]",
        ),
    ],
)
def test_a_group_of_several_jobs_cannot_place_them_exclusively(scheduling: Object, path: str) -> None:
    for made in (
        job_set(*TWO, annotations=RACK, scheduling=scheduling),
        job_set(owned("a"), replicated("b"), scheduling=scheduling),
    ):
        (problem,) = refused(JOB_SETS, made)
        assert problem.startswith(path)
        assert "cannot hold one domain per Job" in problem
    assert refused(JOB_SETS, job_set(*TWO, annotations=BY_NODES, scheduling=scheduling)) == []


def test_a_group_per_job_can() -> None:
    per_job = {"replicatedJobs": [{"targetReplicatedJobs": [name], "job": {}} for name in "ab"]}
    assert refused(JOB_SETS, job_set(*TWO, annotations=RACK, scheduling=per_job)) == []


def test_a_job_with_a_domain_of_its_own_makes_no_groups_itself() -> None:
    gang = {"scheduling": {"schedulingPolicy": {"gang": {}}}}
    (problem,) = refused(JOB_SETS, job_set(owned("a", **gang)))
    assert "spec.replicatedJobs[0].template.spec.scheduling" in problem
    assert refused(JOB_SETS, job_set(owned("a"), replicated("b", job=gang))) == []


def test_a_tree_of_groups_holds_512_replicated_jobs() -> None:
    many = [replicated(f"r{index}") for index in range(513)]
    assert refused(JOB_SETS, job_set(*many[:512], annotations=RACK)) == []
    (problem,) = refused(JOB_SETS, job_set(*many, annotations=RACK))
    assert problem.startswith("spec.replicatedJobs")
    assert "at most 512 entries" in problem
    assert refused(JOB_SETS, job_set(*many)) == []


@pytest.mark.parametrize("after", [{}, {KEY: "topology.kubernetes.io/block"}, BY_NODES])
def test_the_annotations_change_only_while_suspended(after: dict[str, str]) -> None:
    running, suspended = (job_set(annotations=RACK, suspend=suspend) for suspend in (False, True))
    assert on_update(JOB_SETS, edited(suspended, "metadata.annotations", after), suspended) == []
    (problem,) = on_update(JOB_SETS, edited(running, "metadata.annotations", after), running)
    assert "may change only while the JobSet is suspended" in problem
    assert on_update(JOB_SETS, edited(running, "metadata.annotations", {**RACK, "other": "x"}), running) == []
