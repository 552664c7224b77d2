"""Volume claims and the size of Jobs, kept in step with the spec."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, JOBS, POD_GROUPS, SERVICES, VOLUME_CLAIMS, WORKLOADS, Object
from echelon.decide.plan import Create
from tests.unit.decide.jobset.stage import Stage, jobset, replicated

SPEC = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}


def policy(*names: str, retention: str = "Delete", **metadata: Any) -> Object:
    templates = [{"metadata": {"name": name, **metadata}, "spec": SPEC} for name in names]
    return {"templates": templates, "retentionPolicy": {"whenDeleted": retention}}


def mounting(*names: str, part: str = "containers") -> Object:
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    main = {"name": "main", "image": "busybox"}
    if part == "containers":
        return {"containers": [{**main, "volumeMounts": mounts}]}
    return {"containers": [main], part: [{"name": "setup", "image": "busybox", "volumeMounts": mounts}]}


@pytest.mark.conformance("JS-I40", "JS-U25")
def test_claims_come_before_jobs_and_only_those_to_delete_have_an_owner() -> None:
    policies = [policy("data", labels={"team": "a"}, annotations={"why": "b"}), policy("kept", retention="Retain")]
    stage = Stage(jobset(replicated("a", pod=mounting("data", "kept")), volumeClaimPolicies=policies))
    made = [kind for kind, _ in stage.created if kind in ("PersistentVolumeClaim", "Job")]
    assert made == ["PersistentVolumeClaim", "PersistentVolumeClaim", "Job"]
    data, kept = stage.all(VOLUME_CLAIMS)
    assert (meta.name(data), meta.name(kept)) == ("data-test-js", "kept-test-js")
    assert meta.controlled_by(data, meta.uid(stage.jobset))
    assert "ownerReferences" not in kept["metadata"]
    assert meta.labels(data) == {"team": "a", "jobset.sigs.k8s.io/jobset-name": "test-js"}
    assert (meta.annotations(data), data["spec"]) == ({"why": "b"}, SPEC)


@pytest.mark.conformance("JS-U25")
@pytest.mark.parametrize("part", ["containers", "initContainers"])
def test_a_volume_is_added_where_it_is_mounted(part: str) -> None:
    volumes = [{"name": "own", "emptyDir": {}}]
    entries = [replicated("a", pod={**mounting("data", part=part), "volumes": volumes}), replicated("b")]
    stage = Stage(jobset(*entries, volumeClaimPolicies=[policy("data")]))
    claimed = {"name": "data", "persistentVolumeClaim": {"claimName": "data-test-js"}}
    assert stage.get(JOBS, "test-js-a-0")["spec"]["template"]["spec"]["volumes"] == [*volumes, claimed]
    assert "volumes" not in stage.get(JOBS, "test-js-b-0")["spec"]["template"]["spec"]


@pytest.mark.conformance("JS-I41")
def test_a_suspended_jobset_has_its_claims() -> None:
    stage = Stage(jobset(replicated("a", pod=mounting("data")), volumeClaimPolicies=[policy("data")], suspend=True))
    assert stage.names(VOLUME_CLAIMS) == ["data-test-js"]


def claim(**metadata: Any) -> Object:
    return {"metadata": {"name": "data-test-js", **metadata}, "spec": SPEC}


def with_claim(found: Object, retention: str = "Retain") -> Stage:
    made = jobset(replicated("a", pod=mounting("data")), volumeClaimPolicies=[policy("data", retention=retention)])
    return Stage(made, beside=[(VOLUME_CLAIMS, found)])


@pytest.mark.conformance("JS-U25")
def test_a_claim_that_was_kept_is_used_again() -> None:
    stage = with_claim(claim())
    assert stage.job_names() == ["test-js-a-0"]
    assert stage.names(VOLUME_CLAIMS) == ["data-test-js"]


def test_jobs_wait_for_a_claim_that_is_going() -> None:
    stage = with_claim(claim(deletionTimestamp="2026-01-01T00:00:00Z"), "Delete")
    assert stage.job_names() == []
    assert stage.settle() is not None
    del stage.objects[VOLUME_CLAIMS, "data-test-js"]
    stage.settle()
    assert stage.job_names() == ["test-js-a-0"]


def test_a_claim_of_somebody_else_is_told_and_never_taken() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "x", "controller": True}
    stage = with_claim(claim(ownerReferences=[owner]))
    assert stage.job_names() == []
    (event, *_) = stage.events
    assert event[:2] == ("Warning", "PVCCreationFailed")
    assert "belongs to StatefulSet db" in event[2]


@pytest.mark.conformance("JS-U25")
def test_a_refused_claim_is_told_in_an_event() -> None:
    stage = Stage(jobset(replicated("a"), suspend=True))
    stage.edit_jobset(volumeClaimPolicies=[policy("data")])
    del stage.objects[VOLUME_CLAIMS, "data-test-js"]
    (creation,) = [action for actions in stage.plan().stages for action in actions if isinstance(action, Create)]
    assert creation.refused is not None
    assert (creation.refused.type, creation.refused.reason) == ("Warning", "PVCCreationFailed")


@pytest.mark.parametrize(
    ("owner", "spec", "told"),
    [
        ("other", {"clusterIP": "None", "selector": {"jobset.sigs.k8s.io/jobset-name": "other"}}, True),
        ("other", {"clusterIP": "None", "selector": {"jobset.sigs.k8s.io/jobset-name": "test-js"}}, False),
        ("test-js", {"clusterIP": "None", "selector": {"jobset.sigs.k8s.io/jobset-name": "test-js"}}, False),
        ("other", {"selector": {"jobset.sigs.k8s.io/jobset-name": "test-js"}}, True),
        ("other", {"clusterIP": "None"}, True),
    ],
)
def test_a_service_of_somebody_else_is_told_unless_it_finds_the_pods(owner: str, spec: Object, told: bool) -> None:
    reference = {"apiVersion": "v1", "kind": "JobSet", "name": owner, "uid": "another", "controller": True}
    service = {"metadata": {"name": "shared", "ownerReferences": [reference]}, "spec": spec}
    body = jobset(replicated("a"), network={"enableDNSHostnames": True, "subdomain": "shared"})
    stage = Stage(body, beside=[(SERVICES, service)])
    assert stage.job_names() == ["test-js-a-0"]
    assert ("ServiceNotOwned" in stage.reasons()) is told


def resize(stage: Stage, size: int, entry: int = 0) -> None:
    jobs = [dict(one) for one in stage.jobset["spec"]["replicatedJobs"]]
    template = jobs[entry]["template"]
    spec = {**template["spec"], "parallelism": size, "completions": size}
    jobs[entry] = {**jobs[entry], "template": {**template, "spec": spec}}
    stage.edit_jobset(replicatedJobs=jobs)


def size_of(stage: Stage, job: str) -> tuple[int, int]:
    spec = stage.get(JOBS, job)["spec"]
    return spec["parallelism"], spec["completions"]


@pytest.mark.conformance("JS-I64")
@pytest.mark.parametrize("suspended", [False, True])
def test_a_new_size_goes_to_the_jobs_in_place(suspended: bool) -> None:
    stage = Stage(jobset(replicated("a", 2, 2), replicated("b", 1, 2), suspend=suspended))
    uids = {name: meta.uid(stage.get(JOBS, name)) for name in stage.job_names()}
    resize(stage, 4)
    assert [size_of(stage, name) for name in stage.job_names()] == [(4, 4), (4, 4), (2, 2)]
    assert {name: meta.uid(stage.get(JOBS, name)) for name in stage.job_names()} == uids
    resize(stage, 1)
    assert size_of(stage, "test-js-a-0") == (1, 1)


def test_a_job_that_is_complete_keeps_its_size() -> None:
    stage = Stage(jobset(replicated("a", 2, 2)))
    stage.complete("test-js-a-0")
    resize(stage, 4)
    assert (size_of(stage, "test-js-a-0"), size_of(stage, "test-js-a-1")) == ((2, 2), (4, 4))


@pytest.mark.conformance("JS-K07")
@pytest.mark.parametrize("restarts", [0, 1])
def test_a_failure_during_scaling_goes_first(restarts: int) -> None:
    stage = Stage(jobset(replicated("a", 2, 2), failurePolicy={"maxRestarts": restarts}))
    stage.fail("test-js-a-0", settle=False)
    jobs = [dict(one) for one in stage.jobset["spec"]["replicatedJobs"]]
    jobs[0]["template"]["spec"] |= {"parallelism": 4, "completions": 4}
    stage.edit(JOB_SETS, "test-js", replicatedJobs=jobs)
    stage.enact(stage.plan())
    assert size_of(stage, "test-js-a-1") == (2, 2)
    stage.settle()
    if restarts:
        stage.finalize(JOBS)
        stage.settle()
        assert (size_of(stage, "test-js-a-1"), stage.restarts()) == ((4, 4), (1, 1))
    else:
        assert stage.condition("Failed") == ("True", "ReachedMaxRestarts")


GANG = {"schedulingPolicy": {"gang": {}}}
PER_JOB = {**GANG, "replicatedJobs": [{"targetReplicatedJobs": ["a"], "job": {}}]}


@pytest.mark.conformance("JS-G09")
@pytest.mark.parametrize(("scheduling", "before", "after"), [(GANG, [4], [6]), (PER_JOB, [2, 2], [3, 3])])
def test_gangs_grow_with_their_jobs(scheduling: Object, before: list[int], after: list[int]) -> None:
    stage = Stage(jobset(replicated("a", 2, 2), scheduling=scheduling))

    def sizes() -> list[int]:
        return [group["spec"]["schedulingPolicy"]["gang"]["minCount"] for group in stage.all(POD_GROUPS)]

    def in_workload() -> str:
        return str(stage.all(WORKLOADS)[0]["spec"])

    uids = [meta.uid(group) for group in stage.all(POD_GROUPS)]
    assert sizes() == before
    resize(stage, 3)
    assert sizes() == after
    assert f"'minCount': {after[0]}" in in_workload()
    assert f"'minCount': {before[0]}" not in in_workload()
    assert [meta.uid(group) for group in stage.all(POD_GROUPS)] == uids


@pytest.mark.conformance("JS-K06")
def test_an_exclusive_job_grows_with_its_group() -> None:
    exclusive = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    stage = Stage(jobset(replicated("a", 2, 2), annotations=exclusive))
    resize(stage, 3)
    groups = stage.all(POD_GROUPS)
    assert [group["spec"]["schedulingPolicy"]["gang"]["minCount"] for group in groups] == [3, 3]
    assert [size_of(stage, name) for name in stage.job_names()] == [(3, 3), (3, 3)]


@pytest.mark.parametrize("policy", [{"basic": {}}, {"gang": {"minCount": 2}}])
def test_a_group_without_a_size_of_its_own_making_stays(policy: Object) -> None:
    stage = Stage(jobset(replicated("a", 2, 2), scheduling={"schedulingPolicy": policy}))
    before = stage.all(POD_GROUPS)[0]["spec"]
    resize(stage, 3)
    assert stage.all(POD_GROUPS)[0]["spec"] == before
