"""Every spec of upstream's integration suite for the JobSet webhooks, through the API; and applying a JobSet again."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from echelon.api.errors import ApiError
from echelon.api.scheme import JOB_SETS, Object
from echelon.api.verbs import Patch, PatchType, WriteOptions
from echelon.runtime import virtual_time
from tests.controller_plane import ControllerPlane
from tests.integration.jobset_rig import jobset, replicated

INDEXED = {"completionMode": "Indexed"}
ELASTIC = {**INDEXED, "parallelism": 2, "completions": 2}


def one(job: Object | None = None, **spec: Any) -> Object:
    made = jobset(replicated("rjob", job=INDEXED if job is None else job), name="js")
    for default in ("network", "successPolicy"):
        del made["spec"][default]
    made["spec"] |= spec
    return made


def two(status: str = "Ready", **spec: Any) -> Object:
    entries = [replicated("rjob-1"), replicated("rjob-2", dependsOn=[{"name": "rjob-1", "status": status}])]
    return jobset(*entries, name="depends-on", **spec)


def created(body: Object, *changes: Callable[[Object], None], **options: Any) -> Object:
    """The JobSet as stored, after updates of all of it; nothing but the API runs."""

    async def main() -> Object:
        plane = ControllerPlane(**options)
        await plane.api.bootstrap()
        made = await plane.create(body)
        for change in changes:
            made = deepcopy(made)
            change(made)
            made = await plane.api.update(JOB_SETS, made, "default")
        return made

    return virtual_time.run(main())


def refused(body: Object, *changes: Callable[[Object], None], **options: Any) -> str:
    with pytest.raises(ApiError) as caught:
        created(body, *changes, **options)
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    return str(caught.value)


def sets(path: str, value: Any) -> Callable[[Object], None]:
    """Set one field of the spec; items of lists by index."""

    def change(made: Object) -> None:
        *parents, last = path.split(".")
        holder: Any = made["spec"]
        for part in parents:
            holder = holder[int(part)] if part.isdigit() else holder.setdefault(part, {})
        holder[int(last) if last.isdigit() else last] = value

    return change


JOB = "replicatedJobs.0.template.spec"
POD = f"{JOB}.template.spec"
NOTES = f"{JOB}.template.metadata.annotations"


def sized(parallelism: int, completions: int) -> Callable[[Object], None]:
    def change(made: Object) -> None:
        sets(f"{JOB}.parallelism", parallelism)(made)
        sets(f"{JOB}.completions", completions)(made)

    return change


@pytest.mark.conformance("JS-W01", "JS-W03", "JS-W04", "JS-W05", "JS-W09")
def test_defaults() -> None:
    body = one({})
    del body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["restartPolicy"]
    spec = created(body)["spec"]
    assert spec["replicatedJobs"][0]["template"]["spec"]["completionMode"] == "Indexed"
    assert spec["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    assert spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"
    assert spec["successPolicy"] == {"operator": "All"}


@pytest.mark.conformance("JS-W02", "JS-W17")
def test_what_is_set_stays_and_an_empty_failure_policy_is_completed() -> None:
    spec = created(one({"completionMode": "NonIndexed"}, failurePolicy={}))["spec"]
    assert spec["replicatedJobs"][0]["template"]["spec"]["completionMode"] == "NonIndexed"
    assert spec["failurePolicy"]["restartStrategy"] == "Recreate"


def claims(policies: int = 1, templates: int = 1, **metadata: Any) -> Object:
    names = [[f"test-volume-{policy}-{number}" for number in range(templates)] for policy in range(policies)]
    body = one()
    container = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": name, "mountPath": f"/{name}"} for group in names for name in group]
    body["spec"]["volumeClaimPolicies"] = [
        {"templates": [{"metadata": {"name": name, **metadata}, "spec": {}, "status": {}} for name in group]}
        for group in names
    ]
    return body


@pytest.mark.conformance("JS-W28")
def test_claims_go_with_the_jobset_unless_told() -> None:
    (policy,) = created(claims())["spec"]["volumeClaimPolicies"]
    assert policy["retentionPolicy"] == {"whenDeleted": "Delete"}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            jobset(replicated("zero-replicas", 0, INDEXED), name="js"), marks=pytest.mark.conformance("JS-W12")
        ),
        pytest.param(two(startupPolicy={"startupPolicyOrder": "AnyOrder"}), marks=pytest.mark.conformance("JS-W21")),
        pytest.param(one(replicatedJobs=None), marks=pytest.mark.conformance("JS-W26")),
    ],
)
def test_accepted(body: Object) -> None:
    created(body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            one(successPolicy={"operator": "All", "targetReplicatedJobs": ["does-not-exist"]}),
            marks=pytest.mark.conformance("JS-W10"),
        ),
        pytest.param(jobset(replicated("negative", -1, INDEXED), name="js"), marks=pytest.mark.conformance("JS-W11")),
        pytest.param(two(startupPolicy={"startupPolicyOrder": "InOrder"}), marks=pytest.mark.conformance("JS-W22")),
        pytest.param(
            jobset(replicated("rjob-1", dependsOn=[{"name": "rjob-1", "status": "Ready"}]), name="js"),
            marks=pytest.mark.conformance("JS-W23"),
        ),
        pytest.param(two("Failed"), marks=pytest.mark.conformance("JS-W24")),
        pytest.param(
            jobset(replicated("rjob-a"), name="a" * 60, coordinator={"replicatedJob": "rjob-a"}),
            marks=pytest.mark.conformance("JS-W27"),
        ),
        pytest.param(claims(namespace="invalid-namespace"), marks=pytest.mark.conformance("JS-W30")),
        pytest.param(claims(policies=51), marks=pytest.mark.conformance("JS-W31")),
        pytest.param(claims(templates=51), marks=pytest.mark.conformance("JS-W32")),
    ],
)
def test_refused(body: Object) -> None:
    refused(body)


@pytest.mark.parametrize(
    ("body", "change"),
    [
        pytest.param(
            one(suspend=True), sets(f"{POD}.nodeSelector", {"test": "test"}), marks=pytest.mark.conformance("JS-W06")
        ),
        pytest.param(one(), sets("suspend", True), marks=pytest.mark.conformance("JS-W13")),
        pytest.param(one(suspend=True), sets("suspend", False), marks=pytest.mark.conformance("JS-W14")),
        pytest.param(one(suspend=True), sets(NOTES, {"new": "annotation"}), marks=pytest.mark.conformance("JS-W19")),
        pytest.param(
            one(suspend=True),
            sets(f"{POD}.schedulingGates", [{"name": "example.com/gate"}]),
            marks=pytest.mark.conformance("JS-W19"),
        ),
        pytest.param(one(ELASTIC), sized(4, 4), marks=pytest.mark.conformance("JS-W33")),
    ],
)
def test_changes_that_are_accepted(body: Object, change: Callable[[Object], None]) -> None:
    created(body, change)


IMMUTABLE = "field is immutable"


@pytest.mark.parametrize(
    ("body", "change", "sentence"),
    [
        pytest.param(
            one(), sets(f"{POD}.nodeSelector", {"test": "test"}), IMMUTABLE, marks=pytest.mark.conformance("JS-W07")
        ),
        pytest.param(
            one(),
            sets(f"{POD}.hostname", "test"),
            IMMUTABLE,
            marks=pytest.mark.conformance("JS-W08"),
        ),
        pytest.param(
            one(),
            sets("successPolicy.targetReplicatedJobs", ["test", "test2"]),
            "immutable",
            marks=pytest.mark.conformance("JS-W15"),
        ),
        pytest.param(
            one(failurePolicy={"maxRestarts": 3}),
            sets("failurePolicy", {"maxRestarts": 21}),
            "immutable",
            marks=pytest.mark.conformance("JS-W16"),
        ),
        pytest.param(
            one(suspend=True), sets("managedBy", "new-manager"), IMMUTABLE, marks=pytest.mark.conformance("JS-W18")
        ),
        pytest.param(one(), sets(NOTES, {"new": "annotation"}), IMMUTABLE, marks=pytest.mark.conformance("JS-W20")),
        pytest.param(
            two(),
            sets("replicatedJobs.1.dependsOn.0", {"name": "rjob-1", "status": "Complete"}),
            IMMUTABLE,
            marks=pytest.mark.conformance("JS-W25"),
        ),
        pytest.param(
            claims(),
            sets("volumeClaimPolicies.0.retentionPolicy.whenDeleted", "Retain"),
            "immutable",
            marks=pytest.mark.conformance("JS-W29"),
        ),
        pytest.param(
            one(ELASTIC),
            sized(4, 5),
            "completions must be equal to parallelism for Elastic Indexed Jobs",
            marks=pytest.mark.conformance("JS-W34"),
        ),
        pytest.param(
            one({**ELASTIC, "completionMode": "NonIndexed"}),
            sized(4, 4),
            IMMUTABLE,
            marks=pytest.mark.conformance("JS-W35"),
        ),
        pytest.param(
            one(ELASTIC),
            sized(0, 0),
            "parallelism must be >= 1",
            marks=pytest.mark.conformance("JS-W36"),
        ),
    ],
)
def test_changes_that_are_refused(body: Object, change: Callable[[Object], None], sentence: str) -> None:
    assert sentence in refused(body, change)


@pytest.mark.conformance("JS-W37")
def test_without_the_feature_sizes_do_not_change() -> None:
    assert IMMUTABLE in refused(one(ELASTIC), sized(4, 4), disabled_features=frozenset({"ElasticJobSet"}))


@pytest.mark.conformance("JS-E10")
@pytest.mark.parametrize("spec", [{}, {"volumeClaimPolicies": []}, {"failurePolicy": {"rules": []}}])
def test_applying_the_same_jobset_three_times_is_one_generation(spec: Object) -> None:
    async def main() -> None:
        plane = ControllerPlane()
        await plane.api.bootstrap()
        body = {
            "apiVersion": JOB_SETS.api_version,
            "kind": "JobSet",
            "metadata": {"name": "test", "namespace": "default"},
            "spec": {"replicatedJobs": [{"name": "worker", "replicas": 2, "template": _template()}], **spec},
        }
        options = WriteOptions(field_manager="e2e", force=True)
        stored = [
            await plane.api.patch(JOB_SETS, "test", Patch(PatchType.APPLY, body), "default", "", options)
            for _ in range(3)
        ]
        assert [(made["metadata"]["generation"], made["metadata"]["resourceVersion"]) for made in stored] == [
            (1, stored[0]["metadata"]["resourceVersion"])
        ] * 3

    virtual_time.run(main())


def _template() -> Object:
    container = {"name": "test-container", "image": "bash", "command": ["bash", "-c"], "args": ["sleep 5"]}
    return {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}}
