"""From runtime and TrainJob to the JobSet."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import yaml

from echelon.api.objects import meta
from echelon.api.scheme import CONFIG_MAPS, JOB_SETS, Object
from tests.unit.decide.trainjob.stage import LLM, RUNTIMES, TORCH, Stage, runtime, trainjob


@pytest.mark.conformance("TJ-40", "TJ-69")
def test_the_simplest_trainjob_becomes_a_jobset_of_one_node() -> None:
    stage = Stage(trainjob())
    assert meta.controlled_by(stage.jobset, "t")
    node = stage.replicated("node")
    assert node["replicas"] == 1
    assert (node["template"]["spec"]["parallelism"], node["template"]["spec"]["completions"]) == (1, 1)
    assert stage.jobset["spec"]["suspend"] is False
    assert stage.env("node") == {
        "PET_NNODES": "1",
        "PET_NPROC_PER_NODE": "1",
        "PET_NODE_RANK": {
            "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
        },
        "PET_MASTER_ADDR": "train-node-0-0.train",
        "PET_MASTER_PORT": "29500",
    }
    assert stage.container("node")["ports"] == [{"containerPort": 29500, "protocol": "TCP"}]


@pytest.mark.conformance("TJ-40")
@pytest.mark.parametrize(("asked", "nodes"), [({}, 100), ({"numNodes": 8}, 8), ({"numNodes": 0}, 0)])
def test_nodes_come_from_the_trainjob_else_from_the_runtime(asked: dict[str, int], nodes: int) -> None:
    stage = Stage(trainjob(trainer=asked), runtime(TORCH, mlPolicy={"numNodes": 100, "torch": {}}))
    job = stage.replicated("node")["template"]["spec"]
    assert (job["parallelism"], job["completions"]) == (nodes, nodes)
    assert stage.env("node")["PET_NNODES"] == str(nodes)


@pytest.mark.conformance("TJ-45")
@pytest.mark.parametrize(
    ("trainer", "processes"),
    [
        ({"resourcesPerNode": {"requests": {"cpu": "4"}}}, "4"),
        ({}, "1"),
        ({"resourcesPerNode": {"limits": {"cpu": "2500m"}}}, "3"),
        ({"resourcesPerNode": {"limits": {"cpu": "700m"}}}, "1"),
        ({"resourcesPerNode": {"limits": {"nvidia.com/gpu": "8"}}}, "auto"),
        ({"resourcesPerNode": {"limits": {"nvidia.com/gpu": "8"}}, "numProcPerNode": 4}, "4"),
    ],
)
def test_processes_per_node(trainer: Object, processes: str) -> None:
    assert Stage(trainjob(trainer=trainer)).env("node")["PET_NPROC_PER_NODE"] == processes


def test_the_runtimes_own_gpus_count_beside_an_override_of_something_else() -> None:
    stage = Stage(trainjob(LLM, trainer={"resourcesPerNode": {"limits": {"memory": "1Gi"}}}))
    assert stage.container("node")["resources"]["limits"] == {"nvidia.com/gpu": 2, "memory": "1Gi"}
    assert stage.env("node")["PET_NPROC_PER_NODE"] == "auto"


def test_the_master_is_found_under_the_real_subdomain() -> None:
    template = deepcopy(RUNTIMES[TORCH]["spec"]["template"])
    template["spec"]["network"] = {"subdomain": "net"}
    stage = Stage(trainjob(), runtime(TORCH, template=template))
    assert stage.env("node")["PET_MASTER_ADDR"] == "train-node-0-0.net"


@pytest.mark.conformance("TJ-45")
def test_torch_variables_go_to_further_containers_that_are_listed() -> None:
    template = deepcopy(RUNTIMES[TORCH]["spec"]["template"])
    pod = template["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["initContainers"] = [{"name": "warm"}, {"name": "other"}]
    pod["containers"].append({"name": "sidecar"})
    targets = [{"jobName": "node", "containerNames": ["warm", "sidecar"]}]
    policy = {"torch": {"envInjection": {"targets": targets}}}
    stage = Stage(trainjob(), runtime(TORCH, template=template, mlPolicy=policy))
    warm, other = stage.pod("node")["initContainers"]
    sidecar = stage.pod("node")["containers"][1]
    assert len(warm["env"]) == len(sidecar["env"]) == 5
    assert "env" not in other


@pytest.mark.conformance("TJ-45")
def test_a_missing_injection_target_is_reported() -> None:
    policy = {"torch": {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["nobody"]}]}}}
    stage = Stage(trainjob(), runtime(TORCH, mlPolicy=policy))
    assert stage.names(JOB_SETS) == []
    assert stage.events[0][1:] == (
        "TrainJobResourcesCreationFailed",
        "mlPolicy.torch.envInjection: 'node' has no container 'nobody'",
    )
    assert stage.settle() == 5


def test_the_trainers_variables_come_before_those_of_the_policy() -> None:
    variables = [{"name": "LR", "value": "1"}]
    stage = Stage(trainjob(trainer={"env": variables}))
    assert list(stage.env("node"))[:2] == ["LR", "PET_NNODES"]


@pytest.mark.parametrize(("policy", "image"), [({}, "busybox"), ({"jax": {}}, "nvcr.io/nvidia/jax:25.10-py3")])
def test_a_runtime_without_a_template_has_that_of_its_framework(policy: Object, image: str) -> None:
    bare = {**RUNTIMES[TORCH], "spec": {"mlPolicy": policy} if policy else {"podGroupPolicy": {}}}
    stage = Stage(trainjob(trainer={"numNodes": 8}), bare)
    assert stage.container("node")["image"] == image
    assert stage.replicated("node")["template"]["spec"]["parallelism"] == 8


def test_the_trainers_words_replace_the_runtimes_each_on_its_own() -> None:
    trainer = {
        "image": "mine",
        "args": ["--x"],
        "env": [{"name": "LR", "value": "1"}, {"name": "PET_NNODES", "value": "9"}],
    }
    stage = Stage(trainjob(LLM, trainer=trainer))
    node = stage.container("node")
    assert (node["image"], node["args"]) == ("mine", ["--x"])
    assert node["command"][:2] == ["tune", "run"]
    assert stage.env("node")["LR"] == "1"
    assert stage.env("node")["PET_NNODES"] == "9"
    assert stage.container("dataset-initializer")["image"].endswith("dataset-initializer")


def test_initializers_get_their_sources_and_the_trainer_waits_for_them() -> None:
    secret = {"name": "token"}
    initializer = {
        "dataset": {"storageUri": "s3://bucket/data", "env": [{"name": "REGION", "value": "eu"}], "secretRef": secret},
        "model": {"storageUri": "hf://org/model"},
    }
    stage = Stage(trainjob(LLM, initializer=initializer, trainer={"numNodes": 4}))
    assert stage.env("dataset-initializer") == {"STORAGE_URI": "s3://bucket/data", "REGION": "eu"}
    assert stage.container("dataset-initializer")["envFrom"] == [{"secretRef": secret}]
    assert stage.env("model-initializer") == {"STORAGE_URI": "hf://org/model"}
    assert stage.replicated("node")["dependsOn"] == [
        {"name": "dataset-initializer", "status": "Complete"},
        {"name": "model-initializer", "status": "Complete"},
    ]
    sizes = [rj["template"]["spec"]["parallelism"] for rj in stage.jobset["spec"]["replicatedJobs"]]
    assert sizes == [1, 1, 4]


def test_without_a_source_the_runtimes_own_initializers_run() -> None:
    assert Stage(trainjob(LLM)).env("dataset-initializer") == {"STORAGE_URI": "hf://tatsu-lab/alpaca"}


def patch(pod: Object, manager: str = "acme.io/x", **template: Any) -> Object:
    change = {"name": "node", "template": {"spec": {"template": pod}}}
    return {
        "manager": manager,
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [change]}, **template}},
    }


@pytest.mark.conformance("TJ-39", "TJ-44")
def test_patches_merge_by_name_and_touch_only_their_job() -> None:
    template = deepcopy(RUNTIMES[LLM]["spec"]["template"])
    node = template["spec"]["replicatedJobs"][2]["template"]["spec"]["template"]["spec"]
    env = [{"name": "INIT_ENV", "value": "old"}, {"name": "DATASET_PATH", "value": "kept"}]
    node["initContainers"] = [{"name": "init", "image": "i", "env": env}]
    changed = [{"name": "INIT_ENV", "value": "new"}, {"name": "NEW_VALUE", "value": "added"}]
    pod = {
        "metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}},
        "spec": {
            "serviceAccountName": "sa",
            "terminationGracePeriodSeconds": 300,
            "initContainers": [{"name": "init", "env": changed}],
        },
    }
    stage = Stage(
        trainjob(LLM, runtimePatches=[patch(pod, metadata={"labels": {"js": "1"}})]), runtime(LLM, template=template)
    )
    spec = stage.pod("node")
    (init,) = spec["initContainers"]
    assert {one["name"]: one["value"] for one in init["env"]} == {
        "INIT_ENV": "new",
        "NEW_VALUE": "added",
        "DATASET_PATH": "kept",
    }
    assert init["image"] == "i"
    assert (spec["serviceAccountName"], spec["terminationGracePeriodSeconds"]) == ("sa", 300)
    assert stage.replicated("node")["template"]["spec"]["template"]["metadata"]["labels"] == {"l": "1"}
    assert "terminationGracePeriodSeconds" not in stage.pod("dataset-initializer")
    assert meta.labels(stage.jobset) == {"js": "1"}
    assert "PET_NNODES" in stage.env("node")


def test_later_patches_go_over_earlier_ones() -> None:
    first = patch({"spec": {"nodeSelector": {"a": "1", "b": "1"}, "tolerations": [{"key": "x"}]}})
    second = patch({"spec": {"nodeSelector": {"b": "2"}, "tolerations": [{"key": "y"}]}}, "acme.io/y")
    spec = Stage(trainjob(runtimePatches=[first, second])).pod("node")
    assert spec["nodeSelector"] == {"a": "1", "b": "2"}
    assert spec["tolerations"] == [{"key": "y"}]


def test_a_patch_of_an_unknown_job_is_reported() -> None:
    change = {"trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [{"name": "nobody"}]}}}}
    stage = Stage(trainjob(runtimePatches=[{"manager": "acme.io/x", **change}]))
    assert stage.events[0][2] == "runtimePatches: the runtime has no replicated job 'nobody'"


@pytest.mark.conformance("TJ-63", "TJ-64")
def test_the_runtime_is_kept_in_a_snapshot() -> None:
    stage = Stage(trainjob())
    stored = stage.get(CONFIG_MAPS, "train-runtime-snapshot")
    (owner,) = stored["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("TrainJob", "t")
    assert owner["controller"] is True
    assert owner["blockOwnerDeletion"] is True
    kept = yaml.safe_load(stored["data"]["runtime"])
    assert (kept["kind"], kept["metadata"]["name"]) == ("ClusterTrainingRuntime", TORCH)
    assert kept["spec"] == RUNTIMES[TORCH]["spec"]
    assert [kind for kind, _ in stage.created] == ["TrainJob", "ConfigMap", "JobSet"]


@pytest.mark.conformance("TJ-65", "TJ-68")
def test_a_runtime_edited_later_changes_nothing() -> None:
    stage = Stage(trainjob(suspend=True))
    stage.runtime = runtime(TORCH, mlPolicy={"numNodes": 7, "torch": {}})
    before = stage.replicated("node")
    stage.edit_trainjob(suspend=False)
    assert stage.replicated("node") == before
    assert stage.jobset["spec"]["suspend"] is False


@pytest.mark.conformance("TJ-66")
def test_a_deleted_snapshot_is_taken_again() -> None:
    stage = Stage(trainjob())
    del stage.objects[CONFIG_MAPS, "train-runtime-snapshot"]
    stage.settle()
    assert stage.names(CONFIG_MAPS) == ["train-runtime-snapshot"]


OWNED = {"apiVersion": "v1", "kind": "TrainJob", "name": "train", "uid": "t", "controller": True}


@pytest.mark.conformance("TJ-67")
@pytest.mark.parametrize(
    ("owners", "data", "said"),
    [
        ([], {"runtime": "{}"}, "does not belong to this TrainJob"),
        ([OWNED], {}, "has no key 'runtime'"),
        ([OWNED], {"runtime": "{"}, "holds no YAML"),
        ([OWNED], {"runtime": "kind: ClusterTrainingRuntime"}, "holds another runtime than torch-distributed"),
    ],
)
def test_an_unusable_snapshot_is_reported(owners: list[Object], data: Object, said: str) -> None:
    stored = {"metadata": {"name": "train-runtime-snapshot", "ownerReferences": owners}, "data": data}
    stage = Stage(trainjob(), beside=[(CONFIG_MAPS, stored)])
    assert stage.names(JOB_SETS) == []
    assert said in stage.events[0][2]


def test_a_runtime_that_has_gone_is_reported() -> None:
    stage = Stage(trainjob("nothing"))
    assert stage.events[0][2] == "ClusterTrainingRuntime nothing not found"
    assert stage.conditions() == []


@pytest.mark.conformance("TJ-11")
def test_an_unknown_kind_of_runtime_fails_the_trainjob() -> None:
    obj = trainjob()
    obj["spec"]["runtimeRef"]["kind"] = "Recipe"
    stage = Stage(obj)
    assert stage.conditions() == [("Failed", "True", "TrainingRuntimeNotSupported")]


@pytest.mark.conformance("TJ-37")
def test_a_trainjob_managed_elsewhere_is_left_alone() -> None:
    stage = Stage(trainjob(managedBy="kueue.x-k8s.io/multikueue"))
    assert stage.created == [("TrainJob", "train")]
    assert "status" not in stage.trainjob


def test_a_foreign_jobset_of_the_name_is_left_alone() -> None:
    stage = Stage(trainjob(), beside=[(JOB_SETS, {"metadata": {"name": "train"}, "spec": {}})])
    assert stage.jobset["spec"] == {}
    assert "belongs to someone else" in stage.events[0][2]


def test_options_about_stages_go_to_the_jobset() -> None:
    annotations = {"echelon.dev/quota-admission": "stage", "example.com/mine": "x"}
    made = meta.annotations(Stage(trainjob(annotations=annotations)).jobset)
    assert made["echelon.dev/quota-admission"] == "stage"
    assert "example.com/mine" not in made
