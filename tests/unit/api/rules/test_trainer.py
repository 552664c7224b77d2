"""TrainJob and runtimes: what the object alone decides (422), defaults, and times on patches."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api import rules
from echelon.api.scheme import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, Object
from echelon.base.instants import to_time

from .builders import edited, on_update, proves, refused, replicated, runtime, runtime_patch, step, train_job

NOW = 1_800_000_000.0
EARLIER = "2026-01-01T00:00:00Z"


@pytest.mark.conformance("TJ-27")
def test_defaults_of_a_trainjob() -> None:
    spec = train_job()["spec"]
    assert spec["suspend"] is False
    assert spec["managedBy"] == "trainer.kubeflow.org/trainjob-controller"
    assert spec["runtimeRef"] == {"name": "torch", "apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime"}


def initialized(address: str) -> Object:
    return train_job(initializer={"dataset": {"storageUri": address}, "model": {"storageUri": address}})


@pytest.mark.parametrize(
    "obj",
    [
        proves(["TJ-23"], train_job("a" * 63)),
        proves(["TJ-12"], train_job(trainer={"numNodes": 0})),
        proves(["TJ-13"], train_job(trainer={"numProcPerNode": 1})),
        proves(["TJ-24"], train_job(managedBy="kueue.x-k8s.io/multikueue")),
        proves(["TJ-21"], initialized("")),
        proves(["TJ-21"], initialized("s3://bucket/path")),
        proves(["TJ-22"], train_job(trainer={"command": ["x" * 1048576]})),
        proves(["TJ-26"], train_job(runtimePatches=[runtime_patch(pods={"terminationGracePeriodSeconds": 0})])),
    ],
)
def test_a_good_trainjob_is_accepted(obj: Object) -> None:
    assert refused(TRAIN_JOBS, obj) == []


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        proves(["TJ-23"], train_job("9lives"), "metadata.name"),
        proves(["TJ-23"], train_job("ends-"), "metadata.name"),
        proves(["TJ-23"], train_job("Upper"), "metadata.name"),
        proves(["TJ-23"], train_job("a" * 64), "metadata.name"),
        proves(["TJ-12"], train_job(trainer={"numNodes": -1}), "spec.trainer.numNodes"),
        proves(["TJ-13", "TJ-19"], train_job(trainer={"numProcPerNode": 0}), "spec.trainer.numProcPerNode"),
        proves(["TJ-24"], train_job(managedBy="acme.io/me"), "spec.managedBy"),
        proves(["TJ-21"], initialized("bucket/path"), "spec.initializer."),
        proves(["TJ-21"], initialized("s3://"), "spec.initializer."),
        proves(["TJ-22"], train_job(trainer={"args": ["x" * 1048577]}), "spec.trainer.args"),
        proves(
            ["TJ-26"],
            train_job(runtimePatches=[runtime_patch(pods={"terminationGracePeriodSeconds": -1})]),
            "spec.runtimePatches[0]",
        ),
    ],
)
def test_a_bad_trainjob_is_refused(obj: Object, field: str) -> None:
    problems = refused(TRAIN_JOBS, obj)
    assert problems
    assert all(problem.startswith(field) for problem in problems)


def test_options_about_stages_are_checked_as_on_jobsets() -> None:
    good, bad = train_job(), train_job()
    bad["metadata"]["annotations"] = {"echelon.dev/quota-admission": "never"}
    (problem,) = refused(TRAIN_JOBS, bad)
    assert problem.startswith("metadata.annotations[echelon.dev/quota-admission]: Unsupported value")
    assert on_update(TRAIN_JOBS, bad, good) == [problem]


@pytest.mark.conformance("TJ-29", "TJ-32")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("managedBy", "kueue.x-k8s.io/multikueue"),
        ("runtimeRef.name", "other"),
        ("initializer.dataset.storageUri", "s3://other/place"),
        ("trainer.image", "other"),
        ("activeDeadlineSeconds", 9),
    ],
)
def test_what_a_trainjob_is_made_of_stays_even_while_suspended(path: str, value: Any) -> None:
    old = train_job(
        suspend=True,
        trainer={"image": "x"},
        initializer={"dataset": {"storageUri": "s3://some/place"}},
        activeDeadlineSeconds=5,
    )
    problems = on_update(TRAIN_JOBS, edited(old, f"spec.{path}", value), old)
    assert len(problems) == 1
    assert problems[0].startswith(f"spec.{path.split('.')[0]}: Invalid value")
    assert problems[0].endswith("field is immutable")


@pytest.mark.conformance("TJ-30")
def test_some_fields_of_a_patch_stay_once_set() -> None:
    old = train_job(suspend=True, runtimePatches=[runtime_patch(pods={"terminationGracePeriodSeconds": 300})])
    new = train_job(suspend=True, runtimePatches=[runtime_patch(pods={"terminationGracePeriodSeconds": 10})])
    problems = on_update(TRAIN_JOBS, new, old)
    assert len(problems) == 1
    assert "terminationGracePeriodSeconds: Invalid value: 10: field is immutable" in problems[0]


@pytest.mark.conformance("TJ-31")
def test_where_pods_go_may_be_patched_again() -> None:
    old = train_job(suspend=True, runtimePatches=[runtime_patch(pods={"nodeSelector": {"a": "1"}})])
    new = train_job(suspend=True, runtimePatches=[runtime_patch(pods={"nodeSelector": {"a": "2"}})])
    assert on_update(TRAIN_JOBS, new, old) == []


@pytest.mark.conformance("TJ-28")
def test_new_patches_are_stamped_unless_they_say_when() -> None:
    obj = train_job(runtimePatches=[runtime_patch("a.io/a"), runtime_patch("a.io/b", time=EARLIER)])
    rules.prepare_create(TRAIN_JOBS, obj, NOW)
    assert [patch["time"] for patch in obj["spec"]["runtimePatches"]] == [to_time(NOW), EARLIER]


@pytest.mark.conformance("TJ-33")
def test_only_changed_patches_are_stamped_anew() -> None:
    changed = {"nodeSelector": {"a": "b"}}
    old = train_job(runtimePatches=[runtime_patch("a.io/same", time=EARLIER), runtime_patch("a.io/else", time=EARLIER)])
    new = train_job(
        runtimePatches=[
            runtime_patch("a.io/same"),
            runtime_patch("a.io/else", pods=changed, time="2026-06-06T00:00:00Z"),
            runtime_patch("a.io/new"),
            runtime_patch("a.io/dated", time="2026-06-06T00:00:00Z"),
        ]
    )
    rules.prepare_update(TRAIN_JOBS, new, old, "", NOW)
    times = {patch["manager"]: patch["time"] for patch in new["spec"]["runtimePatches"]}
    assert times == {
        "a.io/same": EARLIER,
        "a.io/else": to_time(NOW),
        "a.io/new": to_time(NOW),
        "a.io/dated": "2026-06-06T00:00:00Z",
    }


@pytest.mark.conformance("TJ-1")
def test_a_good_runtime_is_accepted() -> None:
    assert refused(CLUSTER_TRAINING_RUNTIMES, runtime()) == []


@pytest.mark.conformance("TJ-5")
def test_defaults_of_the_mpi_policy() -> None:
    assert runtime(mlPolicy={"mpi": {}})["spec"]["mlPolicy"]["mpi"] == {
        "numProcPerNode": 1,
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": "/root/.ssh",
        "runLauncherAsNode": False,
    }


INJECTED = {"torch": {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["node"]}]}}}
IN_ORDER = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
CHAIN = [step("node", "trainer"), {**replicated("b"), "dependsOn": [{"name": "node", "status": "Ready"}]}]


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        proves(["TJ-2"], runtime(mlPolicy={"torch": {}, "mpi": {}}), "spec.mlPolicy"),
        proves(["TJ-2"], runtime(mlPolicy={"torch": {}, "mpi": {}, "jax": {}, "flux": {}}), "spec.mlPolicy"),
        proves(
            ["TJ-3"], runtime(mlPolicy={"mpi": {"mpiImplementation": "Other"}}), "spec.mlPolicy.mpi.mpiImplementation"
        ),
        proves(["TJ-4"], runtime(mlPolicy={"mpi": {"numProcPerNode": 0}}), "spec.mlPolicy.mpi.numProcPerNode"),
        proves(["TJ-90"], runtime(podGroupPolicy={"coscheduling": {}, "workload": {}}), "spec.podGroupPolicy"),
        (runtime(mlPolicy=INJECTED), "spec.mlPolicy.torch.envInjection.targets[0].containerNames"),
        (runtime(*CHAIN, template=IN_ORDER), "spec.template.spec.startupPolicy"),
    ],
)
def test_a_bad_runtime_is_refused(obj: Object, field: str) -> None:
    problems = refused(CLUSTER_TRAINING_RUNTIMES, obj)
    assert len(problems) == 1
    assert problems[0].startswith(field)


def on_node(**entry: Any) -> Object:
    """A runtime with one scheduling entry, for its trainer."""
    return runtime(scheduling={"replicatedJobs": [{"targetReplicatedJobs": ["node"], **entry}]})


TWICE = [{"targetReplicatedJobs": ["node"]}, {"targetReplicatedJobs": ["node"]}]
ENTRY = "spec.scheduling.replicatedJobs[0]"
IN_RACK = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
IN_BLOCK = step("node", "trainer")
IN_BLOCK["template"]["metadata"]["annotations"] = {"echelon.dev/required-topology": "block"}


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (runtime(scheduling={}, podGroupPolicy={"workload": {}}), "spec.scheduling: Forbidden"),
        (on_node(schedulingPolicy={"gang": {"minCount": 2}}), f"{ENTRY}.schedulingPolicy.gang.minCount: Forbidden"),
        (on_node(schedulingPolicy={"gang": {}, "basic": {}}), f"{ENTRY}.schedulingPolicy"),
        (on_node(schedulingPolicy={}), f"{ENTRY}.schedulingPolicy"),
        (on_node(disruptionMode={"all": {}, "single": {}}), f"{ENTRY}.disruptionMode"),
        (
            on_node(schedulingConstraints={"topology": [{"key": "no key"}]}),
            f"{ENTRY}.schedulingConstraints.topology[0]",
        ),
        (on_node(job={"schedulingPolicy": {"gang": {"minCount": 1}}}), f"{ENTRY}.job.schedulingPolicy.gang.minCount"),
        (runtime(scheduling={"replicatedJobs": TWICE}), "spec.scheduling.replicatedJobs[1].targetReplicatedJobs[0]"),
        (
            runtime(scheduling={"replicatedJobs": [{"targetReplicatedJobs": ["other"]}]}),
            f"{ENTRY}.targetReplicatedJobs[0]: Invalid",
        ),
        (
            runtime(*CHAIN, scheduling={"replicatedJobs": [{"targetReplicatedJobs": ["node", "b"], "job": {}}]}),
            f"{ENTRY}.targetReplicatedJobs: Invalid",
        ),
        (runtime(*[replicated(f"r{i}") for i in range(9)], scheduling={}), "spec.scheduling.replicatedJobs: Invalid"),
        (
            runtime(step("node", "trainer"), replicated("b", pods={"priorityClassName": "high"}), scheduling={}),
            "spec.template.spec.replicatedJobs[1].template.spec.template.spec.priorityClassName",
        ),
        (
            runtime(IN_BLOCK, scheduling=IN_RACK),
            "spec.template.spec.replicatedJobs[0].template.metadata.annotations[echelon.dev/required-topology]",
        ),
    ],
)
def test_scheduling_of_a_runtime_that_cannot_hold_is_refused(obj: Object, field: str) -> None:
    (problem,) = refused(CLUSTER_TRAINING_RUNTIMES, obj)
    assert problem.startswith(field)


def test_a_runtime_without_a_template_is_taken_with_a_warning_that_says_which_it_uses() -> None:
    seed = {"metadata": {"name": "mpi-runtime"}, "spec": {"podGroupPolicy": {"workload": {}}}}
    assert refused(CLUSTER_TRAINING_RUNTIMES, seed) == []
    (told,) = rules.warnings(CLUSTER_TRAINING_RUNTIMES, seed)
    assert told.endswith("is empty: TrainJobs run on the template of plain-cpu")


def test_a_runtime_may_change_except_for_its_policies() -> None:
    old = runtime(*CHAIN, template={"network": {"subdomain": "a"}})
    assert on_update(CLUSTER_TRAINING_RUNTIMES, edited(old, "spec.mlPolicy.numNodes", 7), old) == []
    moved = edited(old, "spec.template.spec.network.subdomain", "b")
    assert "spec.template.spec.network: Invalid value" in on_update(CLUSTER_TRAINING_RUNTIMES, moved, old)[0]
    waiting = edited(old, "spec.template.spec.replicatedJobs.1.dependsOn.0.status", "Complete")
    assert "replicatedJobs[1].dependsOn: Invalid" in on_update(CLUSTER_TRAINING_RUNTIMES, waiting, old)[0]


@pytest.mark.conformance("TJ-7")
def test_a_deprecated_runtime_draws_a_warning() -> None:
    old = runtime()
    old["metadata"]["labels"] = {"trainer.kubeflow.org/support": "deprecated"}
    assert "is deprecated" in rules.warnings(CLUSTER_TRAINING_RUNTIMES, old)[0]
    assert rules.warnings(CLUSTER_TRAINING_RUNTIMES, runtime()) == []
