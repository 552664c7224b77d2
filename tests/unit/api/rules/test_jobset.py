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
        ([replicated(pods=MOUNTED)], claims("data")),
        (
            [replicated("a"), replicated("b")],
            {"executionPolicy": {"executionPolicyOrder": "InOrder", "replicatedJobsStatus": "Succeeded"}},
        ),
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
        ([], rule(onJobFailureMessagePatterns=["("]), "not a regular expression"),
        ([], rule(onJobFailureMessagePatterns=["(a)\\1"]), "back references and look-around are not supported"),
        proves(
            ["JS-U11"], [], {"failurePolicy": {"restartStrategy": "InPlaceRestart"}}, "InPlaceRestart is not served yet"
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


def test_exclusive_placement_needs_indexed_jobs() -> None:
    annotations = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "topology.kubernetes.io/rack"}
    assert refused(JOB_SETS, job_set(annotations=annotations)) == []
    loose = job_set(replicated(job={"completionMode": "NonIndexed"}), annotations=annotations)
    assert "needs completionMode Indexed" in refused(JOB_SETS, loose)[0]


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
        proves(["JS-W37"], "replicatedJobs.0.template.spec.parallelism", 5),
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


def test_what_is_not_done_yet_is_said() -> None:
    warnings = rules.warnings(JOB_SETS, job_set(startupPolicy={"startupPolicyOrder": "InOrder"}, **claims()))
    assert [warning.split(" ")[0] for warning in warnings] == ["spec.startupPolicy", "spec.volumeClaimPolicies:"]
    assert rules.warnings(JOB_SETS, job_set()) == []


def test_a_new_jobset_has_no_status() -> None:
    obj = {**job_set(), "status": {"restarts": 9}}
    rules.prepare_create(JOB_SETS, obj, 0.0)
    assert "status" not in obj
