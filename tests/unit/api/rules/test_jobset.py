"""JobSet: defaults, what refers to what, and what may change."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api import rules
from echelon.api.scheme import JOB_SETS, Object

from .builders import edited, job_set, on_update, proves, refused, replicated

INDEXED = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}


def pod_spec(obj: Object) -> Object:
    spec: Object = obj["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return spec


@pytest.mark.conformance("JS-W01", "JS-W05")
def test_jobs_are_indexed_and_their_pods_restart() -> None:
    obj = job_set()
    assert obj["spec"]["replicatedJobs"][0]["template"]["spec"]["completionMode"] == "Indexed"
    assert pod_spec(obj)["restartPolicy"] == "OnFailure"


@pytest.mark.conformance("JS-W02")
def test_another_completion_mode_is_kept() -> None:
    obj = job_set(replicated(job={"completionMode": "NonIndexed"}))
    assert obj["spec"]["replicatedJobs"][0]["template"]["spec"]["completionMode"] == "NonIndexed"


@pytest.mark.conformance("JS-W03", "JS-W04", "JS-W09")
def test_defaults_of_network_and_policies() -> None:
    spec = job_set()["spec"]
    assert spec["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    assert spec["successPolicy"] == {"operator": "All"}
    assert spec["startupPolicy"] == {"startupPolicyOrder": "AnyOrder"}
    assert "failurePolicy" not in spec


@pytest.mark.conformance("JS-W17")
def test_an_empty_failure_policy_recreates() -> None:
    assert job_set(failurePolicy={})["spec"]["failurePolicy"]["restartStrategy"] == "Recreate"


@pytest.mark.conformance("JS-W28")
def test_claims_are_deleted_by_default() -> None:
    obj = job_set(volumeClaimPolicies=[{"templates": []}])
    assert obj["spec"]["volumeClaimPolicies"][0]["retentionPolicy"] == {"whenDeleted": "Delete"}


@pytest.mark.conformance("JS-U05")
def test_unnamed_rules_are_numbered_even_beside_a_named_one() -> None:
    policy = {"rules": [{"action": "FailJobSet"}, {"action": "FailJobSet", "name": "mine"}, {"action": "FailJobSet"}]}
    names = [rule["name"] for rule in job_set(failurePolicy=policy)["spec"]["failurePolicy"]["rules"]]
    assert names == ["failurePolicyRule0", "mine", "failurePolicyRule2"]


def test_sending_a_manifest_again_changes_nothing() -> None:
    old = job_set()
    again = job_set()
    rules.default(JOB_SETS, again, old)
    assert again == old


def rule(**more: Any) -> Object:
    return {"failurePolicy": {"rules": [{"name": "r", "action": "RestartJobSet", **more}]}}


CHAIN = [replicated("a"), replicated("b", dependsOn=[{"name": "a", "status": "Complete"}])]
COORDINATED = [replicated(job=INDEXED, replicas=2)]
IN_PLACE = {**INDEXED, "backoffLimit": 2**31 - 1, "podReplacementPolicy": "Failed"}
AT_ONE_BARRIER = {"failurePolicy": {"restartStrategy": "InPlaceRestart"}}
MOUNTED = {"containers": [{"name": "c", "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}


def claims(*names: str, **meta: str) -> Object:
    return {"volumeClaimPolicies": [{"templates": [{"metadata": {"name": name, **meta}} for name in names]}]}


@pytest.mark.parametrize(
    ("jobs", "spec"),
    [
        proves(["JS-W26"], [], {"replicatedJobs": []}),
        proves(["JS-W12"], [replicated(replicas=0)], {}),
        proves(["JS-W21"], CHAIN, {"startupPolicy": {"startupPolicyOrder": "AnyOrder"}}),
        proves(
            ["JS-U09"],
            [
                replicated("a"),
                replicated("b"),
                replicated("c", dependsOn=[{"name": "a", "status": "Ready"}, {"name": "b", "status": "Complete"}]),
            ],
            {},
        ),
        ([], rule(onJobFailureReasons=["BackoffLimitExceeded"], targetReplicatedJobs=["workers"])),
        ([], rule(action="RestartJob", onJobFailureMessagePatterns=["^exit code [0-9]+$"])),
        (COORDINATED, {"coordinator": {"replicatedJob": "workers", "jobIndex": 1, "podIndex": 1}}),
        ([], {"managedBy": "kueue.x-k8s.io/multikueue"}),
        ([], {"network": {"subdomain": "training"}}),
        proves(["JS-E13"], [replicated(job=IN_PLACE)], AT_ONE_BARRIER),
        ([replicated(pods=MOUNTED)], claims("data")),
        (
            [replicated("a"), replicated("b")],
            {"executionPolicy": {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}},
        ),
        (CHAIN, {"executionPolicy": {}}),
        (CHAIN, {"executionPolicy": {"executionPolicyOrder": "AnyOrder"}}),
        ([], {"executionPolicy": {"replicatedJobsStatus": "Succeeded"}}),
        proves(["JS-U01"], [replicated(replicas=2_000, job={"parallelism": 50})], {}),
        ([replicated("a", replicas=1_000), replicated("b", replicas=1_000)], {}),
    ],
)
def test_a_good_jobset_is_accepted(jobs: list[Object], spec: Object) -> None:
    assert refused(JOB_SETS, job_set(*jobs, **spec)) == []


@pytest.mark.parametrize(
    ("jobs", "spec", "sentence"),
    [
        proves(
            ["JS-W10"],
            [],
            {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["nosuch"]}},
            "spec.successPolicy.targetReplicatedJobs[0]",
        ),
        proves(["JS-W11"], [replicated(replicas=-1)], {}, "spec.replicatedJobs[0].replicas"),
        proves(
            ["JS-W22"],
            CHAIN,
            {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
            "spec.startupPolicy.startupPolicyOrder",
        ),
        proves(
            ["JS-W23"],
            [replicated("a", dependsOn=[{"name": "b", "status": "Ready"}]), replicated("b")],
            {},
            "spec.replicatedJobs[0].dependsOn: Forbidden",
        ),
        proves(
            ["JS-W24"],
            [replicated("a"), replicated("b", dependsOn=[{"name": "a", "status": "Failed"}])],
            {},
            "spec.replicatedJobs[1].dependsOn[0].status: Unsupported",
        ),
        proves(
            ["JS-U09"],
            [replicated("a"), replicated("b", dependsOn=[{"name": "b", "status": "Ready"}])],
            {},
            "must be the name of an earlier entry",
        ),
        proves(
            ["JS-U09"],
            [replicated("a"), replicated("b", dependsOn=[{"name": "c", "status": "Ready"}]), replicated("c")],
            {},
            "must be the name of an earlier entry",
        ),
        proves(
            ["JS-U01"],
            [replicated(replicas=2**16, job={"parallelism": 2**15})],
            {},
            "the product of replicas and parallelism",
        ),
        proves(["JS-U02"], [], {"network": {"subdomain": "Not_A_Name"}}, "spec.network.subdomain: Invalid value"),
        proves(["JS-U02"], [], {"network": {"subdomain": "a.b"}}, "a DNS-1035 label must consist of"),
        proves(["JS-U02"], [replicated("x" * 60)], {}, "job names generated for this JobSet will exceed 63 characters"),
        proves(
            ["JS-U02"],
            [replicated("x" * 51, job=INDEXED)],
            {},
            "pod names generated for this JobSet will exceed 63 characters",
        ),
        proves(["JS-U03"], [replicated(groupName="9lives")], {}, "spec.replicatedJobs[0].groupName: Invalid value"),
        proves(["JS-U04"], [], {"managedBy": "nobody"}, "spec.managedBy: Invalid value"),
        proves(["JS-U04"], [], {"managedBy": "a.io/" + "x" * 60}, "spec.managedBy: Too long"),
        proves(["JS-U05"], [], rule(name="x" * 129), "must be between 1 and 128 characters long"),
        proves(["JS-U05"], [], rule(name="9x"), "must begin with a letter"),
        proves(
            ["JS-U05"],
            [],
            {"failurePolicy": {"rules": [{"name": "r", "action": "FailJobSet"}] * 2}},
            'rules[1].name: Duplicate value: "r"',
        ),
        proves(
            ["JS-U06"], [], rule(onJobFailureReasons=["Tired"]), 'onJobFailureReasons[0]: Unsupported value: "Tired"'
        ),
        proves(["JS-U06"], [], rule(targetReplicatedJobs=["nosuch"]), "targetReplicatedJobs[0]: Invalid value"),
        proves(["JS-U07"], [replicated(replicas=1025)], rule(action="RestartJob"), "has more than 1024 replicas"),
        ([], {"failurePolicy": {"maxRestarts": -1}}, "spec.failurePolicy.maxRestarts: Invalid value: -1"),
        ([], rule(onJobFailureMessagePatterns=["("]), "not a regular expression"),
        ([], rule(onJobFailureMessagePatterns=["(a)\\1"]), "back references and look-around are not supported"),
        proves(
            ["JS-U11"],
            [replicated(job=IN_PLACE | {"backoffLimit": 6})],
            AT_ONE_BARRIER,
            "template.spec.backoffLimit: Invalid value: 6: must be 2147483647 when restartStrategy is InPlaceRestart",
        ),
        proves(
            ["JS-U11"],
            [replicated(job=IN_PLACE | {"podReplacementPolicy": "TerminatingOrFailed"})],
            AT_ONE_BARRIER,
            "template.spec.podReplacementPolicy: Invalid value",
        ),
        proves(
            ["JS-U11"],
            [replicated(job=IN_PLACE | {"completions": 3})],
            AT_ONE_BARRIER,
            "completions and parallelism must be set and equal to each other",
        ),
        proves(
            ["JS-U11"],
            [replicated(job={name: value for name, value in IN_PLACE.items() if name != "completions"})],
            AT_ONE_BARRIER,
            "completions and parallelism must be set and equal to each other",
        ),
        (
            [
                replicated("a", job=IN_PLACE),
                replicated("b", job=IN_PLACE, dependsOn=[{"name": "a", "status": "Ready"}]),
            ],
            AT_ONE_BARRIER,
            "replicatedJobs cannot start one after the other",
        ),
        proves(["JS-U08"], COORDINATED, {"coordinator": {"replicatedJob": "nosuch"}}, "spec.coordinator.replicatedJob"),
        proves(
            ["JS-U08"], [], {"coordinator": {"replicatedJob": "workers"}}, "must be an Indexed job with completions set"
        ),
        proves(
            ["JS-U08"],
            COORDINATED,
            {"coordinator": {"replicatedJob": "workers", "jobIndex": 2}},
            "spec.coordinator.jobIndex",
        ),
        proves(
            ["JS-U08"],
            COORDINATED,
            {"coordinator": {"replicatedJob": "workers", "podIndex": 2}},
            "spec.coordinator.podIndex",
        ),
        proves(
            ["JS-U08", "JS-W27"],
            COORDINATED,
            {"coordinator": {"replicatedJob": "workers"}, "network": {"subdomain": "s" * 60}},
            "the coordinator's address must be a label value",
        ),
        proves(
            ["JS-W30"],
            [replicated(pods=MOUNTED)],
            claims("data", namespace="other"),
            "metadata.namespace: Forbidden: must be empty",
        ),
        proves(
            ["JS-W31"], [], {"volumeClaimPolicies": [{"templates": []}] * 51}, "spec.volumeClaimPolicies: Too many: 51"
        ),
        proves(
            ["JS-U10"], [replicated(pods=MOUNTED)], claims("data", "data"), 'metadata.name: Duplicate value: "data"'
        ),
        proves(["JS-U10"], [], claims("data"), "must be mounted by at least one container"),
        proves(
            ["JS-U10"],
            [replicated(pods={**MOUNTED, "volumes": [{"name": "data", "emptyDir": {}}]})],
            claims("data"),
            "must not be declared as a volume",
        ),
        (
            [replicated("a", replicas=1_000), replicated("b", replicas=1_001)],
            {},
            "spec.replicatedJobs: Invalid value: 2001: the replicas of all replicated jobs must not exceed 2000",
        ),
        (
            [replicated(replicas=2_000, job={"parallelism": 51})],
            {},
            "the pods of all replicated jobs (replicas times parallelism) must not exceed 100000",
        ),
        ([], {"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds: Invalid value: 0"),
        (
            [],
            {"executionPolicy": {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Failed"}},
            "InOrder waits for Succeeded alone",
        ),
        (
            [],
            {"executionPolicy": {"executionPolicyOrder": "InOrder"}},
            "spec.executionPolicy.replicatedJobsStatus: Required value",
        ),
        (
            [],
            {"executionPolicy": {"executionPolicyOrder": "AnyOrder", "replicatedJobsStatus": "Failed"}},
            "InOrder waits for Succeeded alone",
        ),
        ([], {"executionPolicy": {"executionPolicyOrder": "Any"}}, "spec.executionPolicy.executionPolicyOrder"),
        (
            CHAIN,
            {"executionPolicy": {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}},
            "InOrder and dependsOn are mutually exclusive",
        ),
        (
            [],
            {
                "executionPolicy": {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"},
                "startupPolicy": {"startupPolicyOrder": "InOrder"},
            },
            "InOrder and startupPolicy InOrder are mutually exclusive",
        ),
    ],
)
def test_a_bad_jobset_is_refused(jobs: list[Object], spec: Object, sentence: str) -> None:
    problems = refused(JOB_SETS, job_set(*jobs, **spec))
    assert len(problems) == 1
    assert sentence in problems[0]


@pytest.mark.conformance("JS-W27")
def test_a_long_name_leaves_no_room_for_the_coordinator() -> None:
    obj = job_set(replicated("w", job=INDEXED), name="a" * 45, coordinator={"replicatedJob": "w"})
    assert any("the coordinator's address" in problem for problem in refused(JOB_SETS, obj))


@pytest.mark.conformance("JS-W32")
def test_a_claim_policy_has_at_most_fifty_templates() -> None:
    problems = refused(JOB_SETS, job_set(**claims(*[f"c{i}" for i in range(51)])))
    assert any("spec.volumeClaimPolicies[0].templates: Too many: 51" in problem for problem in problems)


POD = "spec.replicatedJobs.0.template.spec.template"
ADAPTABLE = [
    (f"{POD}.spec.nodeSelector", {"a": "b"}),
    (f"{POD}.spec.tolerations", [{"operator": "Exists"}]),
    (f"{POD}.spec.schedulingGates", [{"name": "g"}]),
    (f"{POD}.metadata", {"labels": {"a": "b"}, "annotations": {"c": "d"}}),
]


@pytest.mark.conformance("JS-W06", "JS-W19")
@pytest.mark.parametrize(("path", "value"), ADAPTABLE)
@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, True)])
def test_a_suspended_jobset_may_be_adapted(path: str, value: Any, before: bool, after: bool) -> None:
    old = job_set(suspend=before)
    assert on_update(JOB_SETS, edited(edited(old, path, value), "spec.suspend", after), old) == []


@pytest.mark.conformance("JS-W07", "JS-W20")
@pytest.mark.parametrize(("path", "value"), ADAPTABLE)
def test_a_running_jobset_may_not(path: str, value: Any) -> None:
    old = job_set()
    assert on_update(JOB_SETS, edited(old, path, value), old) == [
        'spec.replicatedJobs: Invalid value: ["workers"]: field is immutable'
    ]


@pytest.mark.conformance("JS-W13", "JS-W14")
def test_a_jobset_is_suspended_and_resumed() -> None:
    running, suspended = job_set(), job_set(suspend=True)
    assert on_update(JOB_SETS, suspended, running) == []
    assert on_update(JOB_SETS, running, suspended) == []
    assert on_update(JOB_SETS, edited(running, "spec.ttlSecondsAfterFinished", 5), running) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        proves(["JS-W08"], "network.subdomain", "other"),
        proves(["JS-W08"], "network.enableDNSHostnames", False),
        proves(["JS-W15"], "successPolicy.operator", "Any"),
        proves(["JS-W16"], "failurePolicy", {"maxRestarts": 3}),
        proves(["JS-W16"], "failurePolicy", None),
        proves(["JS-W18"], "managedBy", "acme.io/m"),
        proves(["JS-W25"], "replicatedJobs.1.dependsOn.0.status", "Ready"),
        proves(["JS-W29"], "volumeClaimPolicies", []),
        ("coordinator", {"replicatedJob": "a"}),
        ("executionPolicy", {"executionPolicyOrder": "AnyOrder"}),
        ("replicatedJobs.0.replicas", 5),
        proves(["JS-U12"], "replicatedJobs", list(reversed(CHAIN))),
        proves(["JS-U12"], "replicatedJobs", [*CHAIN, replicated("c")]),
        ("replicatedJobs", CHAIN[:1]),
    ],
)
def test_what_never_changes(path: str, value: Any) -> None:
    old = job_set(*CHAIN, suspend=True, failurePolicy={"maxRestarts": 1})
    problems = on_update(JOB_SETS, edited(old, f"spec.{path}", value), old)
    assert len(problems) == 1
    assert "immutable" in problems[0]


JOB = "spec.replicatedJobs.0.template.spec"


def sized(obj: Object, parallelism: int, completions: int) -> Object:
    return edited(edited(obj, f"{JOB}.parallelism", parallelism), f"{JOB}.completions", completions)


@pytest.mark.conformance("JS-W33")
@pytest.mark.parametrize("size", [1, 4])
def test_indexed_jobs_may_be_resized(size: int) -> None:
    old = job_set(replicated(job=INDEXED))
    assert on_update(JOB_SETS, sized(old, size, size), old) == []


@pytest.mark.parametrize(
    ("job", "size", "sentence"),
    [
        proves(
            ["JS-W34"],
            INDEXED,
            (4, 5),
            "completions: Invalid value: 5: completions must be equal to parallelism for Elastic Indexed Jobs",
        ),
        proves(["JS-W35"], INDEXED | {"completionMode": "NonIndexed"}, (4, 4), "field is immutable"),
        proves(["JS-W36"], INDEXED, (0, 0), "parallelism: Invalid value: 0: parallelism must be >= 1"),
        (INDEXED, (4, 2), "completions must be equal to parallelism"),
        (INDEXED, (4, 10**9), "completions must be equal to parallelism"),
    ],
)
def test_a_bad_size_is_refused(job: Object, size: tuple[int, int], sentence: str) -> None:
    old = job_set(replicated(job=job))
    assert sentence in on_update(JOB_SETS, sized(old, *size), old)[0]


@pytest.mark.conformance("JS-U13")
@pytest.mark.parametrize("end", ["Completed", "Failed"])
def test_a_jobset_that_has_ended_keeps_its_size(end: str) -> None:
    old = job_set(replicated(job=INDEXED)) | {"status": {"conditions": [{"type": end, "status": "True"}]}}
    (problem,) = on_update(JOB_SETS, sized(old, 4, 4), old)
    assert "spec.replicatedJobs[0].template.spec: Forbidden: Cannot mutate parallelism or completions" in problem


@pytest.mark.conformance("JS-U13")
def test_other_fields_do_not_change_with_the_size() -> None:
    old = job_set(replicated(job=INDEXED))
    new = edited(sized(old, 4, 4), f"{POD}.spec.containers.0.image", "other")
    assert "field is immutable" in on_update(JOB_SETS, new, old)[0]


@pytest.mark.conformance("JS-U12")
def test_sizes_are_matched_by_name() -> None:
    old = job_set(replicated("a", job=INDEXED), replicated("b", job=INDEXED | {"completions": 3, "parallelism": 3}))
    turned = edited(old, "spec.replicatedJobs", list(reversed(old["spec"]["replicatedJobs"])))
    assert "field is immutable" in on_update(JOB_SETS, turned, old)[0]
    added = edited(old, "spec.replicatedJobs", [*old["spec"]["replicatedJobs"], replicated("c", job=INDEXED)])
    assert "field is immutable" in on_update(JOB_SETS, edited(added, "spec.suspend", True), old)[0]


@pytest.mark.parametrize(
    ("spec", "size", "sentence"),
    [
        proves(["JS-G09"], {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 2}}}}, 1, "minCount"),
        ({"coordinator": {"replicatedJob": "workers", "podIndex": 1}}, 1, "spec.coordinator.podIndex"),
        ({}, 100_001, "must not exceed 100000"),
    ],
)
def test_a_size_that_breaks_another_rule_is_refused(spec: Object, size: int, sentence: str) -> None:
    old = job_set(replicated(job=INDEXED), **spec)
    assert sentence in on_update(JOB_SETS, sized(old, size, size), old)[0]


CONTAINER = f"{POD}.spec.containers.0"


@pytest.mark.conformance("JS-K09")
@pytest.mark.parametrize("part", ["requests", "limits"])
@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, True), (False, False)])
def test_resources_may_change_while_suspended(part: str, before: bool, after: bool) -> None:
    old = job_set(suspend=before)
    new = edited(edited(old, f"{CONTAINER}.resources.{part}", {"cpu": "2"}), "spec.suspend", after)
    assert len(on_update(JOB_SETS, new, old)) == (0 if before or after else 1)


@pytest.mark.conformance("JS-K09")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{CONTAINER}.resources.claims", [{"name": "gpu"}]),
        (f"{CONTAINER}.image", "other"),
        (f"{POD}.spec.containers", [{"name": "c", "image": "x"}, {"name": "d", "image": "x"}]),
    ],
)
def test_the_rest_of_a_container_stays_as_it_is(path: str, value: Any) -> None:
    old = job_set(suspend=True)
    assert "field is immutable" in on_update(JOB_SETS, edited(old, path, value), old)[0]


def test_what_is_deprecated_is_said() -> None:
    warnings = rules.warnings(JOB_SETS, job_set(startupPolicy={"startupPolicyOrder": "InOrder"}))
    assert [warning.split(" ")[0] for warning in warnings] == ["spec.startupPolicy"]
    assert rules.warnings(JOB_SETS, job_set()) == []


def test_a_suspended_job_in_the_template_is_said_to_run() -> None:
    (warning,) = rules.warnings(JOB_SETS, job_set(replicated(job={"suspend": True})))
    assert warning.startswith("spec.replicatedJobs[0].template.spec.suspend has no effect")


def test_a_jobset_without_replicas_is_said_to_run_nothing() -> None:
    (warning,) = rules.warnings(JOB_SETS, job_set(replicated(replicas=0)))
    assert warning.startswith("spec.replicatedJobs: there are no replicas")
    assert rules.warnings(JOB_SETS, job_set(replicated(replicas=0), replicated("b"))) == []


NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"


def test_what_has_no_effect_alone_is_said() -> None:
    (warning,) = rules.warnings(JOB_SETS, job_set(network={"enableDNSHostnames": False, "subdomain": "s"}))
    assert warning.startswith("spec.network.subdomain has no effect")
    selecting = edited(job_set(), "metadata.annotations", {NODE_SELECTOR: "true"})
    (warning,) = rules.warnings(JOB_SETS, selecting)
    assert warning.startswith(f"the annotation {NODE_SELECTOR} has no effect without")
    selecting["metadata"]["annotations"]["alpha.jobset.sigs.k8s.io/exclusive-topology"] = "rack"
    assert rules.warnings(JOB_SETS, selecting) == []


def test_a_name_that_no_job_can_have_is_refused_where_it_is_written() -> None:
    (told,) = refused(JOB_SETS, edited(job_set(), "metadata.name", "a.b"))
    assert told.startswith('metadata.name: Invalid value: "a.b": a DNS-1035 label must')


def test_a_new_jobset_has_no_status() -> None:
    obj = {**job_set(), "status": {"restarts": 9}}
    rules.prepare_create(JOB_SETS, obj, 0.0)
    assert "status" not in obj


def test_a_status_to_wait_for_without_order_is_said() -> None:
    (warning,) = rules.warnings(JOB_SETS, job_set(executionPolicy={"replicatedJobsStatus": "Succeeded"}))
    assert warning.startswith("spec.executionPolicy.replicatedJobsStatus has no effect")


def test_an_execution_policy_is_stored_as_it_is_sent() -> None:
    assert job_set(executionPolicy={})["spec"]["executionPolicy"] == {}
