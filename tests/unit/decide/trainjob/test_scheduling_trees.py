"""`spec.scheduling` of a runtime: groups with topology and disruption mode, trees, and TrainJobs below a parent."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import COMPOSITE_POD_GROUPS, CONFIG_MAPS, POD_GROUPS, TRAIN_JOBS, WORKLOADS, Object
from echelon.decide.plan import Create, Note
from tests.unit.decide.trainjob.stage import LLM, RUNTIMES, TORCH, Stage, counts, runtime, trainjob

RACK, BLOCK = "topology.kubernetes.io/rack", "topology.kubernetes.io/block"
IN_RACK = {"topology": [{"key": RACK}]}
PARENT, TEMPLATE = "scheduling.k8s.io/parent-compositepodgroup", "scheduling.k8s.io/group-template-name"


def gang(pods: int) -> Object:
    return {"schedulingPolicy": {"gang": {"minCount": pods}}}


def basic() -> Object:
    return {"schedulingPolicy": {"basic": {}}}


def templates(stage: Stage) -> Object:
    spec: Object = stage.get(WORKLOADS, "train")["spec"]
    return {key: value for key, value in spec.items() if key != "controllerRef"}


def sliced(replicas: int, **scheduling: Any) -> Object:
    """A torch runtime whose trainer is several Jobs."""
    template = deepcopy(RUNTIMES[TORCH]["spec"]["template"])
    template["spec"]["replicatedJobs"][0]["replicas"] = replicas
    return runtime(TORCH, template=template, scheduling=scheduling)


def mpi(*, launcher_is_node: bool, depends: bool = True, together: bool = False) -> Object:
    made = runtime("deepspeed-distributed-gang")
    made["spec"]["mlPolicy"]["mpi"]["runLauncherAsNode"] = launcher_is_node
    if not depends:
        for rj in made["spec"]["template"]["spec"]["replicatedJobs"]:
            rj.pop("dependsOn", None)
    if together:
        made["metadata"]["annotations"] = {"trainer.kubeflow.org/gang-start": "together"}
    return made


def test_the_gang_of_the_trainer_has_a_topology_and_a_disruption_mode() -> None:
    entry = {"targetReplicatedJobs": ["node"], "schedulingConstraints": IN_RACK, "disruptionMode": {"all": {}}}
    stage = Stage(trainjob(LLM, trainer={"numNodes": 4}), runtime(LLM, scheduling={"replicatedJobs": [entry]}))
    terms = {"schedulingConstraints": IN_RACK, "disruptionMode": {"all": {}}}
    assert templates(stage) == {
        "podGroupTemplates": [
            {"name": "node", **gang(4), **terms},
            {"name": "dataset-initializer", **basic()},
            {"name": "model-initializer", **basic()},
        ]
    }
    group = stage.get(POD_GROUPS, stage.pod("node")["schedulingGroup"]["podGroupName"])
    assert group["spec"] == {"workloadRef": {"workloadName": "train", "templateName": "node"}, **gang(4), **terms}


def test_a_policy_at_the_top_is_one_group_named_as_the_trainjob() -> None:
    stage = Stage(trainjob(TORCH, trainer={"numNodes": 3}), runtime(TORCH, scheduling={}))
    assert templates(stage) == {"podGroupTemplates": [{"name": "train", **gang(3)}]}


def test_a_policy_at_the_top_over_stages_is_one_group_for_each() -> None:
    stage = Stage(trainjob(LLM, trainer={"numNodes": 3}), runtime(LLM, scheduling={"disruptionMode": {"all": {}}}))
    found = templates(stage)["podGroupTemplates"]
    assert [(one["name"], one["schedulingPolicy"]) for one in found] == [
        ("dataset-initializer", {"gang": {"minCount": 1}}),
        ("model-initializer", {"gang": {"minCount": 1}}),
        ("node", {"gang": {"minCount": 3}}),
    ]


def test_a_whole_trainjob_is_one_composite_group_with_its_stages_as_children() -> None:
    scheduling = {
        "schedulingConstraints": {"topology": [{"key": BLOCK}]},
        "disruptionMode": {"all": {}},
        "replicatedJobs": [
            {"targetReplicatedJobs": ["dataset-initializer", "model-initializer"], **basic()},
            {"targetReplicatedJobs": ["node"], "schedulingConstraints": IN_RACK},
        ],
    }
    stage = Stage(trainjob(LLM, trainer={"numNodes": 4}), runtime(LLM, scheduling=scheduling))
    (root,) = templates(stage)["compositePodGroupTemplates"]
    assert root == {
        "name": "root",
        **basic(),
        "schedulingConstraints": {"topology": [{"key": BLOCK}]},
        "disruptionMode": {"all": {}},
        "podGroupTemplates": [
            {"name": "dataset-initializer-model-initializer", **basic()},
            {"name": "node", **gang(4), "schedulingConstraints": IN_RACK},
        ],
    }
    (composite,) = stage.all(COMPOSITE_POD_GROUPS)
    assert meta.controlled_by(composite, "t")
    parents = [group["spec"]["parentCompositePodGroupName"] for group in stage.all(POD_GROUPS)]
    assert parents == [meta.name(composite)] * 2
    kinds = [kind for kind, _ in stage.created]
    assert kinds == ["TrainJob", "ConfigMap", "Workload", "CompositePodGroup", "PodGroup", "PodGroup", "JobSet"]


def test_a_tree_without_stages_is_a_gang_of_gangs() -> None:
    template = deepcopy(RUNTIMES[TORCH]["spec"]["template"])
    (node,) = template["spec"]["replicatedJobs"]
    template["spec"]["replicatedJobs"].append({**deepcopy(node), "name": "eval"})
    entries = [{"targetReplicatedJobs": ["node"]}, {"targetReplicatedJobs": ["eval"]}]
    made = runtime(TORCH, template=template, scheduling={"schedulingPolicy": {"gang": {}}, "replicatedJobs": entries})
    (root,) = templates(Stage(trainjob(TORCH), made))["compositePodGroupTemplates"]
    assert root["schedulingPolicy"] == {"gang": {"minGroupCount": 2}}


def test_each_job_of_a_trainer_is_a_gang_of_its_own() -> None:
    entry = {"targetReplicatedJobs": ["node"], "job": {"schedulingConstraints": IN_RACK}}
    stage = Stage(trainjob(TORCH, trainer={"numNodes": 8}), sliced(4, replicatedJobs=[entry]))
    assert templates(stage) == {
        "podGroupTemplates": [{"name": "node-job", **gang(2), "schedulingConstraints": IN_RACK}]
    }
    prefix = stage.replicated("node")["template"]["metadata"]["annotations"]["echelon.dev/group-per-job"]
    assert stage.names(POD_GROUPS) == [f"{prefix}-{index}" for index in range(4)]
    node = stage.replicated("node")
    assert (node["replicas"], node["template"]["spec"]["parallelism"], node["template"]["spec"]["completions"]) == (
        4,
        2,
        2,
    )


def test_a_trainer_of_several_jobs_is_a_gang_of_gangs() -> None:
    entry = {"targetReplicatedJobs": ["node"], "schedulingPolicy": {"gang": {}}, "job": {}}
    stage = Stage(trainjob(TORCH, trainer={"numNodes": 8}), sliced(4, replicatedJobs=[entry]))
    (trainer,) = templates(stage)["compositePodGroupTemplates"]
    assert trainer["schedulingPolicy"] == {"gang": {"minGroupCount": 4}}
    assert trainer["podGroupTemplates"] == [{"name": "node-job", **gang(2)}]
    (composite,) = stage.names(COMPOSITE_POD_GROUPS)
    assert {group["spec"]["parentCompositePodGroupName"] for group in stage.all(POD_GROUPS)} == {composite}


def test_torch_over_several_jobs_gives_out_ranks_where_nodes_meet() -> None:
    """A pod's index counts within its Job: as a rank it would be there several times."""
    entry = {"targetReplicatedJobs": ["node"], "job": {}}
    stage = Stage(trainjob(TORCH, trainer={"numNodes": 8}), sliced(4, replicatedJobs=[entry]))
    env = stage.env("node")
    assert "PET_NODE_RANK" not in env
    assert env["PET_NNODES"] == "8"
    assert env["PET_RDZV_ENDPOINT"] == "train-node-0-0.train:29500"


def test_nodes_that_cannot_be_spread_evenly_are_reported() -> None:
    stage = Stage(trainjob(TORCH, trainer={"numNodes": 7}), sliced(2, replicatedJobs=[]))
    assert stage.names(WORKLOADS) == []
    (note,) = [one for one in stage.plan().notes if isinstance(one, Note)]
    assert "numNodes 7 cannot be spread evenly over 2 Jobs node" in note.message


def test_composites_go_with_their_groups_while_suspended_and_come_back() -> None:
    entry = {"targetReplicatedJobs": ["node"], "schedulingPolicy": {"gang": {}}, "job": {}}
    stage = Stage(trainjob(TORCH, trainer={"numNodes": 2}), sliced(2, replicatedJobs=[entry]))
    before = [*stage.names(COMPOSITE_POD_GROUPS), *stage.names(POD_GROUPS)]
    stage.edit_trainjob(suspend=True)
    stage.set_jobset(replicatedJobsStatus=[counts("node", suspended=2)])
    assert stage.names(COMPOSITE_POD_GROUPS) == stage.names(POD_GROUPS) == []
    assert stage.names(WORKLOADS) == ["train"]
    stage.edit_trainjob(suspend=False)
    assert [*stage.names(COMPOSITE_POD_GROUPS), *stage.names(POD_GROUPS)] == before


def test_free_parts_of_another_priority_are_left_out_of_the_workload() -> None:
    template = deepcopy(RUNTIMES[LLM]["spec"]["template"])
    template["spec"]["replicatedJobs"][-1]["template"]["spec"]["template"]["spec"]["priorityClassName"] = "high"
    made = runtime(LLM, template=template, podGroupPolicy={"workload": {}})
    stage = Stage(trainjob(LLM, trainer={"numNodes": 2}), made)
    assert [one["name"] for one in templates(stage)["podGroupTemplates"]] == ["trainer"]
    assert "schedulingGroup" not in stage.pod("dataset-initializer")


def beside_node(name: str, **more: Any) -> Object:
    """The template of torch with another replicated job."""
    template: Object = deepcopy(RUNTIMES[TORCH]["spec"]["template"])
    (node,) = template["spec"]["replicatedJobs"]
    template["spec"]["replicatedJobs"].append({**deepcopy(node), "name": name, **more})
    return template


def test_slices_beside_a_part_that_is_placed_freely_have_a_basic_root() -> None:
    template = beside_node("eval")
    template["spec"]["replicatedJobs"][0]["replicas"] = 2
    entry = {"targetReplicatedJobs": ["node"], "schedulingPolicy": {"gang": {}}, "job": {}}
    made = runtime(TORCH, template=template, scheduling={"replicatedJobs": [entry]})
    stage = Stage(trainjob(TORCH, trainer={"numNodes": 2}), made)
    (root,) = templates(stage)["compositePodGroupTemplates"]
    assert root["schedulingPolicy"] == {"basic": {}}
    assert [one["name"] for one in root["compositePodGroupTemplates"]] == ["node"]
    assert [one["name"] for one in root["podGroupTemplates"]] == ["eval"]
    first, *later = [kind for kind, _ in stage.created if kind.endswith("PodGroup")]
    assert first == "CompositePodGroup"
    assert later == ["CompositePodGroup", "PodGroup", "PodGroup", "PodGroup"]


def test_parents_are_created_in_a_stage_of_their_own_before_their_children() -> None:
    entry = {"targetReplicatedJobs": ["node"], "schedulingPolicy": {"gang": {}}, "job": {}}
    made = sliced(2, disruptionMode={"all": {}}, replicatedJobs=[entry])
    stage = Stage(trainjob(TORCH, trainer={"numNodes": 2}), made)
    stage.objects = {key: obj for key, obj in stage.objects.items() if key[0] in (TRAIN_JOBS, CONFIG_MAPS, WORKLOADS)}
    kinds = [[one.obj["kind"] for one in actions if isinstance(one, Create)] for actions in stage.plan().stages]
    assert kinds == [["CompositePodGroup"], ["CompositePodGroup"], ["PodGroup", "PodGroup"], ["JobSet"]]


def test_a_root_counts_every_group_below_it() -> None:
    """Four groups of single Jobs and one of another part."""
    template = beside_node("eval")
    template["spec"]["replicatedJobs"][0]["replicas"] = 4
    entries = [{"targetReplicatedJobs": ["node"], "job": {}}, {"targetReplicatedJobs": ["eval"]}]
    made = runtime(TORCH, template=template, scheduling={"schedulingPolicy": {"gang": {}}, "replicatedJobs": entries})
    (root,) = templates(Stage(trainjob(TORCH, trainer={"numNodes": 4}), made))["compositePodGroupTemplates"]
    assert root["schedulingPolicy"] == {"gang": {"minGroupCount": 5}}


def test_a_root_counts_a_composite_group_below_it_once() -> None:
    template = beside_node("eval")
    template["spec"]["replicatedJobs"][0]["replicas"] = 4
    slices = {"targetReplicatedJobs": ["node"], "schedulingPolicy": {"gang": {}}, "job": {}}
    entries = [slices, {"targetReplicatedJobs": ["eval"]}]
    made = runtime(TORCH, template=template, scheduling={"schedulingPolicy": {"gang": {}}, "replicatedJobs": entries})
    (root,) = templates(Stage(trainjob(TORCH, trainer={"numNodes": 4}), made))["compositePodGroupTemplates"]
    assert root["schedulingPolicy"] == {"gang": {"minGroupCount": 2}}


def test_a_single_job_may_have_a_group_per_job_too() -> None:
    entry = {"targetReplicatedJobs": ["node"], "job": {}}
    stage = Stage(trainjob(TORCH, trainer={"numNodes": 3}), sliced(1, replicatedJobs=[entry]))
    (group,) = stage.all(POD_GROUPS)
    assert meta.name(group).endswith("-0")
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}


@pytest.mark.parametrize("policy", ["startupPolicy", "executionPolicy"])
def test_parts_that_start_in_order_do_not_count_but_for_the_first(policy: str) -> None:
    template = beside_node("late")
    template["spec"][policy] = {f"{policy}Order": "InOrder"}
    made = runtime(TORCH, template=template, podGroupPolicy={"workload": {}})
    stage = Stage(trainjob(TORCH, trainer={"numNodes": 8}), made)
    assert templates(stage) == {"podGroupTemplates": [{"name": "trainer", **gang(8)}]}


def test_a_part_called_launcher_trains_only_under_mpi() -> None:
    template = beside_node("launcher")
    template["spec"]["replicatedJobs"][1]["template"].pop("metadata")
    made = runtime(TORCH, template=template, podGroupPolicy={"workload": {}})
    found = templates(Stage(trainjob(TORCH, trainer={"numNodes": 2}), made))["podGroupTemplates"]
    assert [(one["name"], one["schedulingPolicy"]) for one in found] == [
        ("trainer", {"gang": {"minCount": 2}}),
        ("launcher", {"basic": {}}),
    ]


# -- mpi -------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("TJ-85")
@pytest.mark.parametrize(
    ("made", "pods"),
    [
        (mpi(launcher_is_node=True), 7),
        (mpi(launcher_is_node=True, together=True), 8),
        (mpi(launcher_is_node=True, depends=False), 8),
        (mpi(launcher_is_node=False), 8),
        (mpi(launcher_is_node=False, together=True), 9),
        (mpi(launcher_is_node=False, depends=False), 9),
    ],
)
def test_launcher_and_nodes_of_mpi_are_one_gang_of_those_that_can_start_together(made: Object, pods: int) -> None:
    stage = Stage(trainjob("deepspeed-distributed-gang", trainer={"numNodes": 8}), made)
    assert templates(stage) == {"podGroupTemplates": [{"name": "trainer", **gang(pods)}]}
    assert stage.pod("launcher")["schedulingGroup"] == stage.pod("node")["schedulingGroup"]


@pytest.mark.parametrize("together", [False, True])
def test_a_gang_that_starts_together_waits_for_nobody_in_it(together: bool) -> None:
    made = mpi(launcher_is_node=True, together=together)
    stage = Stage(trainjob("deepspeed-distributed-gang", trainer={"numNodes": 8}), made)
    assert ("dependsOn" in stage.replicated("launcher")) is not together


def test_only_waits_for_ready_inside_the_gang_are_dropped() -> None:
    made = mpi(launcher_is_node=True, together=True)
    node, launcher = made["spec"]["template"]["spec"]["replicatedJobs"]
    data = {**deepcopy(node), "name": "data"}
    made["spec"]["template"]["spec"]["replicatedJobs"] = [data, node, launcher]
    node["dependsOn"] = [{"name": "data", "status": "Ready"}]
    launcher["dependsOn"] += [{"name": "data", "status": "Complete"}]
    stage = Stage(trainjob("deepspeed-distributed-gang", trainer={"numNodes": 8}), made)
    assert stage.replicated("node")["dependsOn"] == [{"name": "data", "status": "Ready"}]
    assert stage.replicated("launcher")["dependsOn"] == [{"name": "data", "status": "Complete"}]


@pytest.mark.parametrize("framework", ["jax", "xgboost", "flux", "torch"])
def test_a_gang_of_all_nodes_on_every_framework(framework: str) -> None:
    name = f"{framework}-distributed-gang"
    stage = Stage(trainjob(name, trainer={"numNodes": 8, "command": ["run"]}), RUNTIMES[name])
    assert templates(stage) == {"podGroupTemplates": [{"name": "trainer", **gang(8)}]}


def test_a_smaller_minimum_is_told_by_an_event() -> None:
    template = deepcopy(RUNTIMES[TORCH]["spec"]["template"])
    (node,) = template["spec"]["replicatedJobs"]
    late = {**deepcopy(node), "name": "late", "dependsOn": [{"name": "node", "status": "Ready"}]}
    template["spec"]["replicatedJobs"].append(late)
    made = runtime(TORCH, template=template, podGroupPolicy={"workload": {}})
    stage = Stage(trainjob(TORCH, trainer={"numNodes": 8}), made)
    stage.objects = {key: obj for key, obj in stage.objects.items() if key[0] in (TRAIN_JOBS, CONFIG_MAPS)}
    ((create,),) = stage.plan().stages
    assert isinstance(create, Create)
    assert create.created is not None
    assert create.created.reason == "GangMinCountAdjusted"
    assert "complete with 8 of 16 pods" in create.created.message


# -- below a parent --------------------------------------------------------------------------------------------


def search(minimum: int) -> list[tuple[Any, Object]]:
    """A search over hyper-parameters: a Workload with a gang of trials, and the group of all trials."""
    trial = {"name": "trial", **gang(minimum), "disruptionMode": {"all": {}}}
    composite = {"name": "trials", "schedulingPolicy": {"gang": {"minGroupCount": 4}}, "podGroupTemplates": [trial]}
    workload = {"metadata": {"name": "search"}, "spec": {"compositePodGroupTemplates": [composite]}}
    reference = {"workloadName": "search", "templateName": "trials"}
    group = {"metadata": {"name": "trials"}, "spec": {"workloadRef": reference}}
    return [(WORKLOADS, workload), (COMPOSITE_POD_GROUPS, group)]


def test_a_trainjob_below_a_parent_makes_its_gang_from_the_parents_workload() -> None:
    notes = {PARENT: "trials"}
    stage = Stage(trainjob(LLM, trainer={"numNodes": 2}, annotations=notes), beside=search(2))
    (group,) = stage.all(POD_GROUPS)
    assert group["spec"] == {
        "workloadRef": {"workloadName": "search", "templateName": "trial"},
        **gang(2),
        "disruptionMode": {"all": {}},
        "parentCompositePodGroupName": "trials",
    }
    assert stage.pod("node")["schedulingGroup"] == {"podGroupName": meta.name(group)}
    assert "schedulingGroup" not in stage.pod("dataset-initializer")
    assert stage.names(WORKLOADS) == ["search"]
    assert [one["kind"] for one in group["metadata"]["ownerReferences"]] == ["TrainJob"]


def test_launcher_and_nodes_go_below_a_parent_together() -> None:
    made = mpi(launcher_is_node=True, depends=False)
    stage = Stage(
        trainjob("deepspeed-distributed-gang", trainer={"numNodes": 2}, annotations={PARENT: "trials"}),
        made,
        beside=search(2),
    )
    (group,) = stage.names(POD_GROUPS)
    joined = {stage.pod(name)["schedulingGroup"]["podGroupName"] for name in ("launcher", "node")}
    assert joined == {group}


@pytest.mark.parametrize(
    ("beside", "notes", "nodes", "message"),
    [
        ([], {PARENT: "trials"}, 2, "waiting for CompositePodGroup trials to be created"),
        (search(2)[1:], {PARENT: "trials"}, 2, "waiting for Workload search"),
        (search(2), {PARENT: "trials", TEMPLATE: "other"}, 2, "no podGroupTemplate other; it has: trial"),
        (search(3), {PARENT: "trials"}, 2, "minCount 3 of template trial in Workload search is more than the 2 pods"),
    ],
)
def test_what_is_wrong_with_a_parent_is_said_on_the_trainjob(
    beside: list[tuple[Any, Object]], notes: dict[str, str], nodes: int, message: str
) -> None:
    stage = Stage(trainjob(TORCH, trainer={"numNodes": nodes}, annotations=notes), beside=beside)
    (note,) = stage.plan().notes
    assert note.resource == TRAIN_JOBS
    assert message in note.message
    assert stage.plan().requeue_after == 5
