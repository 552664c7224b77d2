"""TrainJobs against their runtime and their JobSet, and runtimes against their steps: refused with 403."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.api import rules
from echelon.api.admission import admit_create, admit_update, warnings
from echelon.api.errors import ApiError
from echelon.api.scheme import (
    CLUSTER_TRAINING_RUNTIMES,
    CUSTOM_RESOURCE_DEFINITIONS,
    JOB_SETS,
    PRIORITY_CLASSES,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    Object,
    Resource,
)

from ..rules.builders import Cluster, edited, named, proves, replicated, runtime, runtime_patch, step, train_job

NODE = step("node", "trainer")
DATA, MODEL = step("dataset-initializer", "dataset-initializer"), step("model-initializer", "model-initializer")
LLM = runtime(DATA, MODEL, NODE, name="llm")
INSTALLER = {
    "initContainers": [{"name": "flux-installer", "image": "x"}],
    "containers": [{"name": "node", "image": "x"}],
}
LOCAL = {**runtime(name="local"), "kind": "TrainingRuntime"}
LOCAL["metadata"]["namespace"] = "ns"
INJECTED = {"torch": {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["sidecar"]}]}}}
CLUSTER = Cluster(
    *[
        (CLUSTER_TRAINING_RUNTIMES, found)
        for found in (
            runtime(),
            LLM,
            runtime(name="mpi", mlPolicy={"mpi": {"runLauncherAsNode": True}}),
            runtime(name="xgboost", mlPolicy={"xgboost": {}}),
            runtime(replicated("node", pods=INSTALLER), name="flux", mlPolicy={"flux": {}}),
            runtime(replicated("dataset-initializer"), NODE, name="no-container"),
            runtime(name="injected", mlPolicy=INJECTED),
        )
    ],
    (TRAINING_RUNTIMES, LOCAL),
)


def denied(obj: Object) -> str:
    with pytest.raises(ApiError) as refused:
        admit_create(TRAIN_JOBS, obj, CLUSTER)
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    start = 'admission webhook "validator.trainjob.trainer.kubeflow.org" denied the request: '
    assert refused.value.message.startswith(start)
    return refused.value.message.removeprefix(start)


def on(name: str, kind: str = "ClusterTrainingRuntime", **spec: Any) -> Object:
    return train_job(runtimeRef={"name": name, "kind": kind}, **spec)


DATASET = {"initializer": {"dataset": {"storageUri": "s3://some/place"}}}


@pytest.mark.parametrize(
    "obj",
    [
        proves(["TJ-9"], on("torch")),
        proves(["TJ-9"], on("local", "TrainingRuntime")),
        proves(["TJ-14"], on("llm", initializer={"dataset": {}, "model": {}})),
        proves(["TJ-18"], on("torch", trainer={"numProcPerNode": 4})),
        proves(
            ["TJ-25"],
            on(
                "llm",
                runtimePatches=[runtime_patch("kueue.k8s.io/manager", "node"), runtime_patch(job="model-initializer")],
            ),
        ),
        on("mpi", trainer={"numNodes": 1}),
    ],
)
def test_a_trainjob_that_fits_its_runtime_is_admitted(obj: Object) -> None:
    admit_create(TRAIN_JOBS, obj, CLUSTER)


def patched(**pods: Any) -> Object:
    return on("torch", runtimePatches=[runtime_patch(pods=pods)])


@pytest.mark.parametrize(
    ("obj", "sentence"),
    [
        proves(["TJ-10"], on("nosuch"), 'clustertrainingruntimes.trainer.kubeflow.org "nosuch" not found'),
        proves(["TJ-10"], on("torch", "TrainingRuntime"), 'trainingruntimes.trainer.kubeflow.org "torch" not found'),
        proves(["TJ-11"], on("torch", "OtherRuntime"), "unsupported runtime: OtherRuntime.trainer.kubeflow.org"),
        proves(["TJ-15"], on("torch", **DATASET), "the runtime has no replicated job dataset-initializer"),
        proves(["TJ-14"], on("no-container", **DATASET), "has no container dataset-initializer"),
        proves(
            ["TJ-16"], on("torch", trainer={"env": [{"name": "PET_NODE_RANK", "value": "0"}]}), "spec.trainer.env[0]"
        ),
        proves(
            ["TJ-17"],
            on("mpi", trainer={"numNodes": 1, "env": [{"name": "OMPI_MCA_plm_rsh_args"}]}),
            "is set by the mpi policy itself",
        ),
        proves(
            ["TJ-17"], on("xgboost", trainer={"env": [{"name": "DMLC_TASK_ID"}]}), "is set by the xgboost policy itself"
        ),
        proves(["TJ-20"], on("flux"), "already has the init container flux-installer"),
        proves(
            ["TJ-25"],
            on("torch", runtimePatches=[runtime_patch("kueue.k8s.io/")]),
            "spec.runtimePatches[0].manager: Invalid value",
        ),
        proves(
            ["TJ-35"],
            on("torch", runtimePatches=[runtime_patch(job="nosuch")]),
            "the runtime has no such replicated job",
        ),
        proves(["TJ-35"], patched(containers=[{"name": "nosuch"}]), ".containers[0].name: Invalid value"),
        proves(["TJ-35"], patched(initContainers=[{"name": "nosuch"}]), ".initContainers[0].name: Invalid value"),
        proves(
            ["TJ-35"], patched(containers=[{"name": "node", "env": [{"name": "A"}]}]), ".containers[0].env: Forbidden"
        ),
        (on("mpi", trainer={"numNodes": 2}), "needs the replicated jobs launcher and node"),
        (on("injected"), "names node/sidecar, which its template lacks"),
    ],
)
def test_a_trainjob_that_does_not_is_denied(obj: Object, sentence: str) -> None:
    assert sentence in denied(obj)


@pytest.mark.conformance("TJ-15")
def test_an_initializer_needs_its_volume() -> None:
    bare = runtime(
        replicated("dataset-initializer", pods={"containers": [{"name": "dataset-initializer", "image": "x"}]})
    )
    with pytest.raises(ApiError, match="mounts no volume initializer"):
        admit_create(TRAIN_JOBS, on("torch", **DATASET), Cluster((CLUSTER_TRAINING_RUNTIMES, bare)))


@pytest.mark.conformance("TJ-19")
def test_what_the_schema_refuses_is_left_to_it() -> None:
    admit_create(TRAIN_JOBS, on("nosuch", trainer={"numProcPerNode": 0}), CLUSTER)
    sneaky = {**on("nosuch"), "status": {"conditions": "no list"}}
    assert "not found" in denied(sneaky)


def child(**active: int) -> Cluster:
    """The cluster with a JobSet of this TrainJob that has so many active Jobs."""
    counts = [{"name": name, "active": number} for name, number in active.items()]
    made = named("tj", status={"replicatedJobsStatus": counts})
    return Cluster((CLUSTER_TRAINING_RUNTIMES, runtime()), (JOB_SETS, made))


OLD = on("torch", runtimePatches=[runtime_patch(pods={"nodeSelector": {"a": "1"}})])
NEW = on("torch", runtimePatches=[runtime_patch(pods={"nodeSelector": {"a": "2"}})])


@pytest.mark.conformance("TJ-34")
@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("cluster", [CLUSTER, child(node=0)])
def test_patches_change_around_a_suspension(before: bool, after: bool, cluster: Cluster) -> None:
    admit_update(TRAIN_JOBS, edited(NEW, "spec.suspend", after), edited(OLD, "spec.suspend", before), cluster)


@pytest.mark.conformance("TJ-34")
def test_patches_do_not_change_while_anything_runs() -> None:
    with pytest.raises(ApiError, match="can only be modified while the TrainJob is suspended"):
        admit_update(TRAIN_JOBS, NEW, OLD, CLUSTER)
    suspended = edited(OLD, "spec.suspend", True)
    with pytest.raises(ApiError) as refused:
        admit_update(TRAIN_JOBS, NEW, suspended, child(node=1, other=2))
    assert refused.value.code == 403
    assert refused.value.message.count("is active") == 2


def test_parts_may_be_added_until_there_is_a_jobset() -> None:
    old, new = on("torch"), on("torch", trainer={"numNodes": 2})
    admit_update(TRAIN_JOBS, new, old, CLUSTER)
    for changed, was in ((new, old), (old, new)):
        with pytest.raises(ApiError, match="may not be added or removed once the TrainJob has a JobSet"):
            admit_update(TRAIN_JOBS, changed, was, child())


def test_a_trainjob_outlives_its_runtime() -> None:
    gone = Cluster()
    admit_update(TRAIN_JOBS, edited(OLD, "spec.suspend", True), OLD, gone)


@pytest.mark.conformance("TJ-6")
@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        (
            step("node", "trainer", replicas=2),
            "spec.template.spec.replicatedJobs[0].replicas: Invalid value: 2: always must be 1",
        ),
        (step("node", "trainer", container="other"), "must have the container node"),
        (step("d", "dataset-initializer", container="other"), "must have the container dataset-initializer"),
    ],
)
def test_a_runtime_holds_what_its_steps_need(job: Object, sentence: str) -> None:
    for resource in (CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES):
        made = runtime(job)
        if resource.namespaced:
            made["metadata"]["namespace"] = "ns"
        with pytest.raises(ApiError) as refused:
            admit_create(resource, made, CLUSTER)
        assert refused.value.code == 403
        assert sentence in refused.value.message
        if resource is CLUSTER_TRAINING_RUNTIMES or "replicas" in sentence:
            with pytest.raises(ApiError):
                admit_update(resource, made, runtime(), CLUSTER)
    made["metadata"]["labels"] = {"trainer.kubeflow.org/webhook-validation": "disabled"}
    admit_create(TRAINING_RUNTIMES, made, CLUSTER)


def test_a_namespaced_runtime_may_lose_the_container_of_a_step_and_is_warned() -> None:
    made = runtime(step("node", "trainer", container="other"))
    made["metadata"]["namespace"] = "ns"
    admit_update(TRAINING_RUNTIMES, made, runtime(), CLUSTER)
    (told,) = rules.warnings(TRAINING_RUNTIMES, made)
    assert told.endswith("Required value: must have the container node")


ELSEWHERE = {"podGroupPolicy": {"coscheduling": {}}}
QUEUES = {"podGroupPolicy": {"volcano": {}}}
DEFINED = [
    (
        CUSTOM_RESOURCE_DEFINITIONS,
        {**named(name), "status": {"conditions": [{"type": "Established", "status": "True"}]}},
    )
    for name in ("podgroups.scheduling.x-k8s.io", "podgroups.scheduling.volcano.sh")
]


def _on_runtime(made: Object, *beside: tuple[Resource, Object]) -> tuple[str, list[str]]:
    """The refusal of a TrainJob with a trainer on that runtime, and its warnings if there is none."""
    cluster = Cluster((CLUSTER_TRAINING_RUNTIMES, made), *beside)
    obj = on("torch", trainer={"numNodes": 2})
    try:
        admit_create(TRAIN_JOBS, obj, cluster)
    except ApiError as error:
        return f"{error.code} {error.message}", []
    return "", warnings(TRAIN_JOBS, obj, cluster)


def test_a_trainjob_on_a_runtime_without_a_node_container_is_refused() -> None:
    refused, _ = _on_runtime(runtime(step("node", "trainer", container="other")))
    assert "the runtime's replicated job node has no container node, in which training runs" in refused


@pytest.mark.parametrize(
    ("resources", "refused"),
    [
        ({"requests": {"cpu": "1"}}, True),
        ({"requests": {"cpu": "100m"}}, False),
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, False),
        ({"requests": {"memory": "1Gi"}}, False),
    ],
)
def test_requests_above_the_runtimes_limits_are_refused(resources: Object, refused: bool) -> None:
    small = step("node", "trainer")
    small["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "100m"}}
    cluster = Cluster((CLUSTER_TRAINING_RUNTIMES, runtime(small)))
    obj = on("torch", trainer={"resourcesPerNode": resources})
    if not refused:
        admit_create(TRAIN_JOBS, obj, cluster)
        return
    with pytest.raises(ApiError) as error:
        admit_create(TRAIN_JOBS, obj, cluster)
    assert "spec.trainer.resourcesPerNode.requests[cpu]" in error.value.message
    assert "must be at most the limit of 100m, which is the runtime's; set limits as well" in error.value.message


@pytest.mark.parametrize(("policy", "group"), [(ELSEWHERE, "scheduling.x-k8s.io"), (QUEUES, "scheduling.volcano.sh")])
def test_a_gang_of_another_scheduler_needs_its_kind(policy: Object, group: str) -> None:
    made = runtime(NODE, **policy)
    refused, _ = _on_runtime(made)
    assert f"the server does not serve PodGroup in {group}/" in refused
    (told,) = warnings(CLUSTER_TRAINING_RUNTIMES, made, CLUSTER)
    assert told.endswith("TrainJobs are refused until then")
    assert warnings(CLUSTER_TRAINING_RUNTIMES, made, Cluster(*DEFINED)) == []
    leaving = [(kind, edited(one, "metadata.deletionTimestamp", "2026-01-01T00:00:00Z")) for kind, one in DEFINED]
    assert f"the server does not serve PodGroup in {group}/" in _on_runtime(made, *leaving)[0]


def test_pods_of_such_a_gang_should_name_its_scheduler() -> None:
    refused, (told,) = _on_runtime(runtime(NODE, **ELSEWHERE), *DEFINED)
    assert refused == ""
    assert "the scheduler here does not read PodGroups of scheduling.x-k8s.io; set schedulerName on the pods of" in told
    theirs = step("node", "trainer")
    theirs["template"]["spec"]["template"]["spec"]["schedulerName"] = "scheduler-plugins"
    assert _on_runtime(runtime(theirs, **ELSEWHERE), *DEFINED) == ("", [])


def test_volcano_needs_a_queue_with_a_name_and_a_priority_that_exists() -> None:
    high = step("node", "trainer")
    high["template"]["spec"]["template"]["spec"] |= {"priorityClassName": "high", "schedulerName": "volcano"}
    made = runtime(high, **QUEUES)
    assert 'the PriorityClass "high" of node does not exist' in _on_runtime(made, *DEFINED)[0]
    assert _on_runtime(made, *DEFINED, (PRIORITY_CLASSES, named("high"))) == ("", [])
    made["spec"]["template"]["metadata"] = {"annotations": {"scheduling.volcano.sh/queue-name": ""}}
    refused, _ = _on_runtime(made, *DEFINED, (PRIORITY_CLASSES, named("high")))
    assert "the annotation scheduling.volcano.sh/queue-name of its JobSet must not be empty" in refused


def test_mpi_without_a_launcher_is_warned_about() -> None:
    _, (told,) = _on_runtime(runtime(NODE, mlPolicy={"mpi": {}}))
    assert told == "mlPolicy.mpi: the runtime has no replicated job launcher, so nothing starts the processes"


def test_a_trainer_that_the_runtime_has_no_place_for_is_warned_about() -> None:
    _, (told,) = _on_runtime(runtime(replicated("other")))
    assert told.startswith("spec.trainer: no replicated job of the runtime has the label")


@pytest.mark.conformance("TJ-6")
def test_an_unknown_step_is_accepted() -> None:
    admit_create(CLUSTER_TRAINING_RUNTIMES, runtime(step("x", "evaluator", replicas=3)), CLUSTER)


GANG = {"podGroupPolicy": {"workload": {}}}


@pytest.mark.conformance("TJ-91")
@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (
            runtime(replicated("a", pods={"schedulingGroup": {"podGroupName": "g"}}), **GANG),
            ".template.spec.schedulingGroup",
        ),
        (runtime(replicated("a", job={"scheduling": {}}), **GANG), "replicatedJobs[0].template.spec.scheduling"),
        (runtime(template={"scheduling": {}}, **GANG), "spec.template.spec.scheduling"),
    ],
)
def test_a_gang_runtime_leaves_grouping_to_us(obj: Object, field: str) -> None:
    with pytest.raises(ApiError, match="may not be set together with") as refused:
        admit_create(CLUSTER_TRAINING_RUNTIMES, obj, CLUSTER)
    assert field in refused.value.message


def test_a_gang_runtime_has_at_most_eight_groups() -> None:
    with pytest.raises(ApiError, match="a Workload holds at most 8 groups, these need 9"):
        admit_create(CLUSTER_TRAINING_RUNTIMES, runtime(*[replicated(f"r{i}") for i in range(9)], **GANG), CLUSTER)
    admit_create(CLUSTER_TRAINING_RUNTIMES, runtime(*[replicated(f"r{i}") for i in range(8)], **GANG), CLUSTER)


SCHEDULING: dict[str, Any] = {"scheduling": {"schedulingConstraints": {"topology": [{"key": "rack"}]}}}
PARENT = "scheduling.k8s.io/parent-compositepodgroup"
REQUIRED, PREFERRED = "echelon.dev/required-topology", "echelon.dev/preferred-topology"
GROUPED = Cluster(
    *[
        (CLUSTER_TRAINING_RUNTIMES, found)
        for found in (
            runtime(NODE, name="in-rack", **SCHEDULING),
            runtime(step("node", "trainer", replicas=4), name="sliced", **GANG),
            runtime(NODE, name="volcano", podGroupPolicy={"volcano": {}}),
            runtime(NODE, name="gang", **GANG),
        )
    ]
)


def annotated(name: str, notes: dict[str, str], **spec: Any) -> Object:
    obj = on(name, **spec)
    obj["metadata"]["annotations"] = notes
    return obj


@pytest.mark.parametrize(
    ("obj", "sentence"),
    [
        (annotated("in-rack", {REQUIRED: "block"}), "the runtime's spec.scheduling says rack"),
        (
            annotated("volcano", {REQUIRED: "rack"}),
            f"metadata.annotations[{REQUIRED}]: Forbidden: the runtime makes no",
        ),
        (annotated("volcano", {PREFERRED: "rack"}), f"metadata.annotations[{PREFERRED}]: Forbidden: the runtime makes"),
        (annotated("gang", {REQUIRED: "rack", PARENT: "p"}), f"metadata.annotations[{REQUIRED}]: Forbidden: the group"),
        (
            annotated("gang", {PREFERRED: "rack,no key!"}),
            f'metadata.annotations[{PREFERRED}]: Invalid value: "no key!"',
        ),
        (annotated("gang", {REQUIRED: "no key!"}), f"metadata.annotations[{REQUIRED}]: Invalid value"),
        (annotated("in-rack", {PARENT: "p"}), "spec.scheduling makes groups of its own"),
        (annotated("volcano", {PARENT: "p"}), "the runtime groups its pods by podGroupPolicy.volcano"),
        (annotated("sliced", {PARENT: "No Name"}, trainer={"numNodes": 4}), f"metadata.annotations[{PARENT}]"),
        (annotated("volcano", {"echelon.dev/progress-reports": "yes"}), "echelon.dev/progress-reports"),
        (on("sliced", trainer={"numNodes": 6}), "cannot be spread evenly over the 4 Jobs node"),
    ],
)
def test_a_trainjob_that_contradicts_its_runtimes_groups_is_denied(obj: Object, sentence: str) -> None:
    with pytest.raises(ApiError) as refused:
        admit_create(TRAIN_JOBS, obj, GROUPED)
    assert refused.value.code == 403
    assert sentence in refused.value.message


def test_what_agrees_with_the_runtimes_groups_is_taken() -> None:
    admit_create(TRAIN_JOBS, annotated("in-rack", {REQUIRED: "rack"}), GROUPED)
    admit_create(TRAIN_JOBS, on("sliced", trainer={"numNodes": 8}), GROUPED)


@pytest.mark.parametrize(
    ("obj", "sentence"),
    [
        (runtime(step("node", "trainer", replicas=2), mlPolicy={"jax": {}}, **GANG), "mlPolicy.jax numbers its nodes"),
        (runtime(step("model-initializer", "model-initializer", replicas=2), **GANG), "always must be 1"),
        (
            runtime(replicated("a", pods={"schedulingGroup": {"podGroupName": "g"}}), **SCHEDULING),
            "may not be set together with spec.scheduling",
        ),
        (
            edited(
                runtime(NODE, **GANG),
                "spec.template.metadata",
                {"annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}},
            ),
            "alpha.jobset.sigs.k8s.io/exclusive-topology]: Forbidden",
        ),
        (
            edited(
                runtime(NODE, **GANG),
                "metadata",
                {"name": "x", "annotations": {"trainer.kubeflow.org/gang-start": "x"}},
            ),
            "must be together",
        ),
    ],
)
def test_a_runtime_whose_groups_cannot_be_is_denied(obj: Object, sentence: str) -> None:
    with pytest.raises(ApiError) as refused:
        admit_create(CLUSTER_TRAINING_RUNTIMES, obj, CLUSTER)
    assert sentence in refused.value.message


def test_a_grouped_trainer_may_be_several_jobs() -> None:
    admit_create(CLUSTER_TRAINING_RUNTIMES, runtime(step("node", "trainer", replicas=2), **GANG), CLUSTER)


QLORA = ["model.lora_attn_modules=[q_proj]", "model.quantize_base=True"]
TUNED = Cluster(
    *[
        (CLUSTER_TRAINING_RUNTIMES, runtime(name=name))
        for name in ("torchtune-llama3.2-1b", "torchtune-llama3.3-70b", "torchtune-qwen2.5-1.5b", "torchtune-other-7b")
    ]
)


def tuned(model: str, *args: str, **trainer: Any) -> Object:
    return on(f"torchtune-{model}", trainer={"command": ["tune", "run"], "args": list(args), **trainer})


@pytest.mark.conformance("TJ-45")
@pytest.mark.parametrize(
    ("obj", "sentence"),
    [
        (tuned("other-7b"), "must contain a supported model"),
        (tuned("llama3.2-1b", numNodes=2), "spec.trainer.numNodes: Invalid value: 2"),
        (tuned("llama3.3-70b", QLORA[0], numNodes=2), "LoRA supports one node only"),
        (tuned("qwen2.5-1.5b", *QLORA), "does not support QLoRA"),
        (tuned("llama3.2-1b", *QLORA, numProcPerNode=2), "spec.trainer.numProcPerNode"),
        (
            tuned("llama3.2-1b", *QLORA, resourcesPerNode={"limits": {"nvidia.com/gpu": 2}}),
            "spec.trainer.resourcesPerNode",
        ),
        (tuned("llama3.2-1b", "epochs=1", "output_dir=/tmp"), "spec.trainer.args[1]: Forbidden"),
    ],
)
def test_a_recipe_that_does_not_exist_is_denied(obj: Object, sentence: str) -> None:
    with pytest.raises(ApiError) as refused:
        admit_create(TRAIN_JOBS, obj, TUNED)
    assert refused.value.code == 403
    assert sentence in refused.value.message


@pytest.mark.parametrize(
    "obj", [tuned("llama3.2-1b", *QLORA), tuned("llama3.3-70b", numNodes=4), tuned("qwen2.5-1.5b", QLORA[0])]
)
def test_a_recipe_that_exists_is_admitted(obj: Object) -> None:
    admit_create(TRAIN_JOBS, obj, TUNED)


@pytest.mark.conformance("TJ-7")
def test_a_deprecated_runtime_draws_a_warning() -> None:
    old = runtime()
    old["metadata"]["labels"] = {"trainer.kubeflow.org/support": "deprecated"}
    assert "is deprecated" in warnings(TRAIN_JOBS, on("torch"), Cluster((CLUSTER_TRAINING_RUNTIMES, old)))[0]
    assert warnings(TRAIN_JOBS, on("torch"), CLUSTER) == []


def test_names_too_long_for_pods_and_variables_of_jax_draw_warnings() -> None:
    jax = Cluster((CLUSTER_TRAINING_RUNTIMES, runtime(mlPolicy={"jax": {}})))
    obj = on("torch", trainer={"env": [{"name": "JAX_PROCESS_ID"}]})
    obj["metadata"]["name"] = "a" * 60
    assert [warning.split(":")[0] for warning in warnings(TRAIN_JOBS, obj, jax)] == [
        "spec.trainer.env[0]",
        "metadata.name",
    ]


def test_what_has_no_effect_on_a_trainjob_draws_warnings() -> None:
    found = {part: {"storageUri": f"{scheme}://a/b"} for part, scheme in (("dataset", "ftp"), ("model", "cache"))}
    obj = annotated("llm", {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}, initializer=found)
    exclusive, dataset, model = warnings(TRAIN_JOBS, obj, CLUSTER)
    assert exclusive.startswith("metadata.annotations[alpha.jobset.sigs.k8s.io/exclusive-topology]: has no effect")
    assert dataset.startswith("spec.initializer.dataset.storageUri: initializers know hf://, s3://, cache://;")
    assert model.startswith("spec.initializer.model.storageUri: initializers know hf://, s3://;")
    known = {"dataset": {"storageUri": "cache://a/b"}, "model": {"storageUri": "hf://a/b"}}
    assert warnings(TRAIN_JOBS, on("llm", initializer=known), CLUSTER) == []
