"""JobSets and TrainJobs on a cluster that did not know them: their kinds, our controllers, our scheduler.

On the real side the Jobs and the clean-up are kube-controller-manager's.
"""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from echelon.api.errors import ApiError
from echelon.api.objects import meta
from echelon.api.objects.builtin_runtimes import builtin_runtimes
from echelon.api.objects.vocabulary import HOSTNAME, RACK
from echelon.api.schema.crd_manifests import custom_resource_definitions
from echelon.api.schema.decoding import copy_tree
from echelon.api.scheme import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    JOB_SETS,
    JOBS,
    POD_GROUPS,
    PODS,
    SECRETS,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    WORKLOADS,
    Object,
    Resource,
)
from echelon.api.verbs import Patch, PatchType, Verbs, WatchOptions, WriteOptions
from echelon.cli import main

from .conftest import Side, gate_sets
from .controlplane import ControlPlane, GateSet
from .installing import kubectl_now
from .job_objects import jobset, train_job
from .open_definitions import open_definition
from .waiting import is_gone, until
from .working_plane import at_work_on, with_all_kinds

#: What our programs do is tried on every gate set; what only the kinds do is the same on all.
everywhere = pytest.mark.parametrize("side", ["embedded", *gate_sets()], indirect=True)
#: In short runs too.
without_gates = pytest.mark.parametrize("side", ["embedded", *gate_sets(GateSet.NONE)], indirect=True)


@pytest.fixture
async def kinds(side: Side) -> Verbs:
    return await with_all_kinds(side)


@pytest.fixture
async def at_work(side: Side) -> AsyncIterator[Verbs]:
    async with at_work_on(side) as verbs:
        yield verbs


async def has(verbs: Verbs, resource: Resource, name: str, namespace: str, condition: str) -> bool:
    return meta.condition_is(await verbs.get(resource, name, namespace), condition)


@pytest.mark.cluster
@pytest.mark.parametrize("side", ["real"], indirect=True)
async def test_definitions_are_taken_without_a_warning_and_established(side: Side) -> None:
    for definition in custom_resource_definitions():
        heard: list[str] = []
        options = WriteOptions(dry_run=True, field_validation="Strict", warn=heard.append)
        fresh = {**definition, "metadata": {"name": definition["metadata"]["name"]}}
        with suppress(ApiError):  # it may be there already
            await side.verbs.delete(CUSTOM_RESOURCE_DEFINITIONS, meta.name(fresh))
        await until(functools.partial(is_gone, side.verbs, CUSTOM_RESOURCE_DEFINITIONS, meta.name(fresh)))
        await side.verbs.create(CUSTOM_RESOURCE_DEFINITIONS, fresh, "", options)
        assert heard == []
        await side.verbs.create(CUSTOM_RESOURCE_DEFINITIONS, fresh)
        name = meta.name(fresh)
        await until(functools.partial(has, side.verbs, CUSTOM_RESOURCE_DEFINITIONS, name, "", "Established"))
        made = await side.verbs.get(CUSTOM_RESOURCE_DEFINITIONS, meta.name(fresh))
        assert not meta.condition_is(made, "NonStructuralSchema")


@pytest.mark.cluster
def test_kubectl_applies_prints_and_explains_the_kinds(real_plane: ControlPlane, tmp_path: Path) -> None:
    kubectl = functools.partial(kubectl_now, real_plane, "--cache-dir", str(tmp_path))

    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=CliRunner().invoke(main, ["crds"]).output)
    kubectl("wait", "--for=condition=Established", "crd/jobsets.jobset.x-k8s.io", "--timeout=180s")
    kubectl("apply", "-f", "-", given=json.dumps(jobset("shown", suspend=True)))
    header, row = kubectl("get", "jobset", "shown").splitlines()
    assert header.split() == ["NAME", "TERMINALSTATE", "RESTARTS", "COMPLETED", "SUSPENDED", "STAGE", "AGE"]
    assert row.split()[0] == "shown"
    assert "How the pods are grouped for placement." in kubectl("explain", "jobset.spec.scheduling")
    kubectl("delete", "jobset", "shown")


@pytest.mark.cluster
@pytest.mark.parametrize("side", ["real"], indirect=True)
async def test_watch_from_before_a_kind_was_known_is_refused_as_expired(kinds: Verbs) -> None:
    """The embedded server's own tests do the same with a window of a few changes."""
    with pytest.raises(ApiError) as refused:
        async with aclosing(kinds.watch(JOB_SETS, options=WatchOptions(resource_version="1"))) as events:
            await anext(events)
    assert (refused.value.code, refused.value.reason) == (410, "Expired")


async def test_schemas_fill_in_the_same(kinds: Verbs, namespace: str) -> None:
    sent = jobset("filled", suspend=True)
    pod = sent["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80}]
    made = await kinds.create(JOB_SETS, sent, namespace)
    entry = made["spec"]["replicatedJobs"][0]
    assert entry["groupName"] == "default"
    assert entry["template"]["spec"]["template"]["spec"]["containers"][0]["ports"][0]["protocol"] == "TCP"
    trained = await kinds.create(TRAIN_JOBS, train_job("filled", "torch-distributed"), namespace)
    assert trained["spec"]["runtimeRef"] == {
        "apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "torch-distributed",
    }  # fmt: skip
    assert (trained["spec"]["suspend"], trained["spec"]["managedBy"]) == (
        False,
        "trainer.kubeflow.org/trainjob-controller",
    )


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished"),
        ({"startupPolicy": {"startupPolicyOrder": "Sideways"}}, "spec.startupPolicy.startupPolicyOrder"),
        ({"coordinator": {}}, "spec.coordinator.replicatedJob"),
        ({"suspend": "yes"}, "spec.suspend"),
    ],
    ids=["limit", "enum", "required", "type"],
)
async def test_schemas_refuse_the_same(kinds: Verbs, namespace: str, spec: Object, field: str) -> None:
    with pytest.raises(ApiError) as refused:
        await kinds.create(JOB_SETS, jobset("wrong", **spec), namespace)
    assert refused.value.code == 422
    assert field in [cause["field"] for cause in refused.value.details["causes"]]


async def test_schemas_drop_what_they_do_not_know_and_say_so(kinds: Verbs, namespace: str) -> None:
    heard: list[str] = []
    options = WriteOptions(warn=heard.append)
    made = await kinds.create(JOB_SETS, jobset("strays", suspend=True, nosuch=1), namespace, options)
    assert "nosuch" not in made["spec"]
    assert heard == ['unknown field "spec.nosuch"']


@without_gates
async def test_jobset_runs_to_its_end_as_one_gang_in_one_rack(at_work: Verbs, namespace: str) -> None:
    gang = {
        "schedulingPolicy": {"gang": {}},
        "schedulingConstraints": {"topology": [{"key": RACK}]},
    }
    await at_work.create(JOB_SETS, jobset("gang", scheduling=gang), namespace)

    async def bound() -> bool:
        pods = (await at_work.list(PODS, namespace)).items
        return len(pods) == 4 and all(pod["spec"].get("nodeName") for pod in pods)

    await until(bound)
    racks = {pod["spec"]["nodeName"].rpartition("-")[0] for pod in (await at_work.list(PODS, namespace)).items}
    assert len(racks) == 1
    groups = (await at_work.list(POD_GROUPS, namespace)).items
    assert [group["spec"]["schedulingPolicy"] for group in groups] == [{"gang": {"minCount": 4}}]
    assert len((await at_work.list(WORKLOADS, namespace)).items) == 1
    await until(lambda: has(at_work, JOB_SETS, "gang", namespace, "Completed"))


@without_gates
async def test_jobset_that_ran_and_was_suspended_goes_on_elsewhere(at_work: Verbs, namespace: str) -> None:
    """As an evicted one does that a queue admits to other nodes; most servers keep templates of started Jobs."""
    made = jobset("js", scheduling={"schedulingPolicy": {"gang": {}}})
    pods = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pods["containers"][0]["command"] = ["sleep", "9d"]
    await at_work.create(JOB_SETS, made, namespace)
    await until(lambda: _are_on(at_work, namespace, "train-"))

    async def change(spec: Object) -> None:
        await at_work.patch(JOB_SETS, "js", Patch(PatchType.MERGE, {"spec": spec}), namespace)

    await change({"suspend": True})
    await until(lambda: has(at_work, JOB_SETS, "js", namespace, "Suspended"))
    jobs = copy_tree((await at_work.get(JOB_SETS, "js", namespace))["spec"]["replicatedJobs"])
    jobs[0]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {HOSTNAME: "train-r1-n1"}
    await change({"replicatedJobs": jobs})
    await change({"suspend": False})
    await until(lambda: _are_on(at_work, namespace, "train-r1-n1"))

    async def is_resumed() -> bool:
        return not await has(at_work, JOB_SETS, "js", namespace, "Suspended")

    await until(is_resumed)  # told after its Jobs were
    await at_work.delete(JOB_SETS, "js", namespace)


async def _are_on(verbs: Verbs, namespace: str, node: str) -> bool:
    """Whether there are four pods, all on nodes whose names begin so."""
    pods = [pod for pod in (await verbs.list(PODS, namespace)).items if not meta.deleting(pod)]
    return len(pods) == 4 and all(pod["spec"].get("nodeName", "").startswith(node) for pod in pods)


@pytest.mark.cluster
@pytest.mark.parametrize("side", ["real"], indirect=True)
async def test_what_our_own_server_would_refuse_is_not_acted_on(at_work: Verbs, namespace: str) -> None:
    policy = {"operator": "All", "targetReplicatedJobs": ["nosuch"]}
    await at_work.create(JOB_SETS, jobset("wrong", successPolicy=policy), namespace)

    async def told() -> list[str]:
        events = (await at_work.list(EVENTS, namespace)).items
        return [event["message"] for event in events if event["reason"] == "InvalidSpec"]

    await until(told)
    [message] = await told()
    assert "nosuch" in message
    assert (await at_work.list(JOBS, namespace)).items == []


@everywhere
@pytest.mark.parametrize(
    "runtime",
    ["plain-cpu", "torch-distributed-gang", "jax-distributed", "xgboost-distributed", "flux-distributed-gang"],
)
async def test_train_job_runs_to_its_end(at_work: Verbs, namespace: str, runtime: str) -> None:
    trainer = {"image": "busybox", "command": ["sleep", "2"], "resourcesPerNode": {"requests": {"cpu": "50m"}}}
    await at_work.create(TRAIN_JOBS, train_job("model", runtime, **trainer), namespace)
    await until(lambda: has(at_work, TRAIN_JOBS, "model", namespace, "Complete"))
    assert meta.condition_is(await at_work.get(JOB_SETS, "model", namespace), "Completed")
    [job] = (await at_work.list(JOBS, namespace)).items
    assert job["status"]["succeeded"] == 2
    assert bool((await at_work.list(POD_GROUPS, namespace)).items) == runtime.endswith("gang")


@everywhere
@pytest.mark.parametrize(("runtime", "nodes"), [("deepspeed-distributed", 1), ("mlx-distributed-gang", 2)])
async def test_mpi_train_job_runs_to_its_end(at_work: Verbs, namespace: str, runtime: str, nodes: int) -> None:
    trainer = {"numNodes": nodes, "image": "busybox", "command": ["mpirun", "sleep", "2"]}
    await at_work.create(TRAIN_JOBS, train_job("model", runtime, **trainer), namespace)
    await until(lambda: has(at_work, TRAIN_JOBS, "model", namespace, "Complete"))
    hosts = await at_work.get(CONFIG_MAPS, "model-mpi-hostfile", namespace)
    assert len(hosts["data"]["hostfile"].splitlines()) == nodes
    keys = await at_work.get(SECRETS, "model-mpi-ssh-auth", namespace)
    assert (keys["type"], keys["immutable"]) == ("kubernetes.io/ssh-auth", True)
    status = (await at_work.get(TRAIN_JOBS, "model", namespace))["status"]["jobsStatus"]
    assert {one["name"]: one["succeeded"] for one in status}["launcher"] == 1


@everywhere
async def test_train_job_waits_for_the_groups_of_another_scheduler(at_work: Verbs, namespace: str) -> None:
    """Our own server refuses it; elsewhere the TrainJob says what is missing, and goes on once it is there."""
    group = "scheduling.x-k8s.io"
    runtime = next(one for one in builtin_runtimes() if meta.name(one) == "plain-cpu")
    spec = {**runtime["spec"], "podGroupPolicy": {"coscheduling": {}}}
    own = {**runtime, "kind": TRAINING_RUNTIMES.kind, "metadata": {"name": "elsewhere"}, "spec": spec}
    await at_work.create(TRAINING_RUNTIMES, own, namespace)
    job = train_job("model", "elsewhere")
    job["spec"]["runtimeRef"]["kind"] = TRAINING_RUNTIMES.kind

    async def told() -> bool:
        events = (await at_work.list(EVENTS, namespace)).items
        return any("does not serve PodGroup in scheduling.x-k8s.io/v1alpha1" in one["message"] for one in events)

    refused = False
    try:
        await at_work.create(TRAIN_JOBS, job, namespace)
    except ApiError as error:
        refused = error.code == 403
    if not refused:
        await until(told)
        assert (await at_work.list(JOB_SETS, namespace)).items == []
    definition = open_definition(group, "v1alpha1", "podgroups", "PodGroup")
    await at_work.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    try:
        await until(lambda: has(at_work, CUSTOM_RESOURCE_DEFINITIONS, f"podgroups.{group}", "", "Established"))
        if refused:
            await at_work.create(TRAIN_JOBS, job, namespace)
        await until(lambda: has(at_work, TRAIN_JOBS, "model", namespace, "Complete"))
    finally:
        await at_work.delete(CUSTOM_RESOURCE_DEFINITIONS, f"podgroups.{group}")
