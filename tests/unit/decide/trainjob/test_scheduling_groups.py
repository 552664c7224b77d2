"""`podGroupPolicy.workload`: the Workload and PodGroups of a TrainJob."""

from __future__ import annotations

from copy import deepcopy

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, POD_GROUPS, TRAIN_JOBS, WORKLOADS, Object
from echelon.api.views.trainjob_views import TrainJobView
from echelon.decide.trainjob.group_names import group_name, group_of_job, safe_hash, template_name
from echelon.decide.trainjob.model import read
from tests.unit.decide.trainjob.stage import RUNTIMES, Stage, counts, runtime, trainjob

GANG, LLM_GANG = "torch-distributed-gang", "torchtune-llama3.2-1b-gang"
RACK = "topology.kubernetes.io/rack"
#: Metadata of something that the TrainJob controls.
OWNED: Object = {"ownerReferences": [{"kind": "TrainJob", "name": "train", "uid": "t", "controller": True}]}


def policy(minimum: int) -> Object:
    return {"gang": {"minCount": minimum}}


@pytest.mark.conformance("TJ-83")
def test_a_gang_of_all_nodes_is_made_before_the_jobset() -> None:
    stage = Stage(trainjob(GANG, trainer={"numNodes": 100}))
    workload = stage.get(WORKLOADS, "train")
    assert workload["spec"] == {
        "controllerRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainJob", "name": "train"},
        "podGroupTemplates": [{"name": "trainer", "schedulingPolicy": policy(100)}],
    }
    assert meta.controlled_by(workload, "t")
    (group,) = stage.all(POD_GROUPS)
    assert meta.name(group).startswith("train-trainer-")
    assert group["spec"] == {
        "workloadRef": {"workloadName": "train", "templateName": "trainer"},
        "schedulingPolicy": policy(100),
    }
    mine, theirs = group["metadata"]["ownerReferences"]
    assert (mine["kind"], mine["controller"], mine["uid"]) == ("TrainJob", True, "t")
    assert theirs == {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "Workload",
        "name": "train",
        "uid": meta.uid(workload),
    }
    assert stage.pod("node")["schedulingGroup"] == {"podGroupName": meta.name(group)}
    assert [kind for kind, _ in stage.created] == ["TrainJob", "ConfigMap", "Workload", "PodGroup", "JobSet"]


@pytest.mark.conformance("TJ-84")
def test_initializers_form_a_basic_group_of_their_own() -> None:
    stage = Stage(trainjob(LLM_GANG, trainer={"numNodes": 8}))
    templates = stage.get(WORKLOADS, "train")["spec"]["podGroupTemplates"]
    assert templates == [
        {"name": "initializer", "schedulingPolicy": {"basic": {}}},
        {"name": "trainer", "schedulingPolicy": policy(8)},
    ]
    initializer, trainer = stage.names(POD_GROUPS)
    assert stage.pod("dataset-initializer")["schedulingGroup"] == {"podGroupName": initializer}
    assert stage.pod("model-initializer")["schedulingGroup"] == {"podGroupName": initializer}
    assert stage.pod("node")["schedulingGroup"] == {"podGroupName": trainer}


def test_any_other_job_of_the_runtime_is_placed_freely() -> None:
    template = deepcopy(RUNTIMES[GANG]["spec"]["template"])
    template["spec"]["replicatedJobs"].append({"name": "evaluator", "template": {"spec": {"template": {"spec": {}}}}})
    stage = Stage(trainjob(GANG, trainer={"numNodes": 8}), runtime(GANG, template=template))
    templates = stage.get(WORKLOADS, "train")["spec"]["podGroupTemplates"]
    assert [(one["name"], one["schedulingPolicy"]) for one in templates] == [
        ("trainer", policy(8)),
        ("evaluator", {"basic": {}}),
    ]


def test_pods_that_wait_for_others_of_the_gang_do_not_count() -> None:
    template = deepcopy(RUNTIMES[GANG]["spec"]["template"])
    (node,) = template["spec"]["replicatedJobs"]
    late = {**deepcopy(node), "name": "late", "dependsOn": [{"name": "node", "status": "Ready"}]}
    template["spec"]["replicatedJobs"].append(late)
    stage = Stage(trainjob(GANG, trainer={"numNodes": 8}), runtime(GANG, template=template))
    (group,) = stage.all(POD_GROUPS)
    assert group["spec"]["schedulingPolicy"] == policy(8)
    assert stage.pod("late")["schedulingGroup"] == stage.pod("node")["schedulingGroup"]


def test_no_nodes_no_gang() -> None:
    stage = Stage(trainjob(GANG, trainer={"numNodes": 0}))
    assert stage.all(POD_GROUPS)[0]["spec"]["schedulingPolicy"] == {"basic": {}}


def test_the_gang_can_be_kept_in_one_domain() -> None:
    words = {"echelon.dev/required-topology": RACK, "echelon.dev/preferred-topology": "host"}
    stage = Stage(trainjob(LLM_GANG, trainer={"numNodes": 4}, annotations=words))
    initializer, trainer = stage.all(POD_GROUPS)
    assert trainer["spec"]["schedulingConstraints"] == {"topology": [{"key": RACK}]}
    assert meta.annotations(trainer)["echelon.dev/preferred-topology"] == "host"
    assert "schedulingConstraints" not in initializer["spec"]


def test_the_pods_priority_class_reaches_the_group() -> None:
    template = deepcopy(RUNTIMES[GANG]["spec"]["template"])
    template["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["priorityClassName"] = "high"
    stage = Stage(trainjob(GANG), runtime(GANG, template=template))
    assert stage.all(POD_GROUPS)[0]["spec"]["priorityClassName"] == "high"


@pytest.mark.conformance("TJ-88")
def test_groups_go_when_a_suspended_job_is_quiet_and_come_back_under_the_same_names() -> None:
    stage = Stage(trainjob(GANG, trainer={"numNodes": 2}))
    names, workload = stage.names(POD_GROUPS), stage.get(WORKLOADS, "train")
    stage.set_jobset(replicatedJobsStatus=[counts("node", active=1)])
    template = stage.replicated("node")
    stage.edit_trainjob(suspend=True)
    assert stage.jobset["spec"]["suspend"] is True
    assert stage.names(POD_GROUPS) == names
    stage.set_jobset(replicatedJobsStatus=[counts("node", suspended=1)])
    assert stage.names(POD_GROUPS) == []
    assert stage.get(WORKLOADS, "train") == workload
    stage.edit_trainjob(suspend=False)
    assert stage.names(POD_GROUPS) == names
    assert stage.jobset["spec"]["suspend"] is False
    assert stage.replicated("node") == template


def test_created_suspended_it_has_a_workload_but_no_groups_yet() -> None:
    stage = Stage(trainjob(GANG, suspend=True))
    assert (stage.names(WORKLOADS), stage.names(POD_GROUPS), stage.names(JOB_SETS)) == (["train"], [], ["train"])


def test_a_resume_waits_until_an_old_group_is_gone() -> None:
    stage = Stage(trainjob(GANG, suspend=True))
    name = stage.pod("node")["schedulingGroup"]["podGroupName"]
    stage.add(POD_GROUPS, {"metadata": {"name": name, "deletionTimestamp": "2027-01-15T08:00:00Z"}})
    stage.edit_trainjob(suspend=False)
    assert stage.jobset["spec"]["suspend"] is True
    stage.finalize(POD_GROUPS)
    stage.settle()
    assert stage.jobset["spec"]["suspend"] is False


@pytest.mark.conformance("TJ-87")
def test_a_controller_that_died_in_between_makes_no_second_workload() -> None:
    stage = Stage(trainjob(GANG))
    for resource, name in list(stage.objects):
        if resource in (POD_GROUPS, JOB_SETS):
            del stage.objects[resource, name]
    stage.settle()
    assert len(stage.all(WORKLOADS)) == len(stage.all(POD_GROUPS)) == len(stage.all(JOB_SETS)) == 1


def test_a_foreign_workload_of_the_name_gives_way_to_another_name() -> None:
    stage = Stage(trainjob(GANG), beside=[(WORKLOADS, {"metadata": {"name": "train"}, "spec": {}})])
    (mine,) = stage.owned(WORKLOADS, stage.get(TRAIN_JOBS, "train"))
    assert meta.name(mine).startswith("train-")
    (group,) = stage.all(POD_GROUPS)
    assert group["spec"]["workloadRef"]["workloadName"] == meta.name(mine)


def test_a_jobset_that_began_ungrouped_stays_so() -> None:
    stage = Stage(trainjob(GANG, suspend=True))
    for resource, name in list(stage.objects):
        if resource == WORKLOADS:
            del stage.objects[resource, name]
    del stage.pod("node")["schedulingGroup"]
    stage.settle()
    assert stage.all(WORKLOADS) == []


@pytest.mark.conformance("TJ-92", "TJ-93")
def test_group_names_are_short_stable_and_apart() -> None:
    other = {**trainjob(), "metadata": {**trainjob()["metadata"], "uid": "other"}}
    first, second = read(TrainJobView(trainjob())), read(TrainJobView(other))
    assert group_name(first, "w", "trainer") == group_name(first, "w", "trainer")
    assert group_name(first, "w", "trainer") != group_name(second, "w", "trainer")
    for template in ("t" * 63, "trainer", "initializer"):
        assert len(group_name(first, "w" * 63, template)) <= 63
    assert group_name(first, "w" * 63, "trainer").split("-")[1] == "trainer"


def test_names_at_the_limit_are_kept_and_longer_ones_are_cut() -> None:
    tj = read(TrainJobView(trainjob()))
    mark = safe_hash("t" + "trainer")
    longest = "w" * (63 - len("trainer") - len(mark) - 2)
    assert group_name(tj, longest, "trainer") == f"{longest}-trainer-{mark}"
    assert len(group_name(tj, longest + "w", "trainer")) == 63
    assert template_name(["t" * 31, "u" * 31]) == "t" * 31 + "-" + "u" * 31
    cut = template_name(["t" * 31, "u" * 32])
    assert len(cut) <= 63
    assert cut != template_name(["t" * 31, "u" * 33])


def test_there_is_room_for_the_index_of_every_job() -> None:
    tj = read(TrainJobView(trainjob()))
    for jobs in (1, 9, 10, 1000):
        prefix = group_name(tj, "w" * 63, "node-job", jobs)
        assert len(group_of_job(prefix, jobs)) == 63
    assert group_name(tj, "w", "node-job", 4) == group_name(tj, "w", "node-job")


def test_the_hash_is_fnv_1a() -> None:
    """Offset basis and prime of 32 bits; published value of the hash of "a": 0xe40c292c."""
    assert safe_hash("a") == "".join("bcdfghjklmnpqrstvwxz2456789"[ord(c) % 27] for c in str(0xE40C292C))


def test_two_workloads_of_one_trainjob_are_told() -> None:
    stage = Stage(trainjob(GANG))
    stage.add(WORKLOADS, {**stage.get(WORKLOADS, "train"), "metadata": {**OWNED, "name": "second"}})
    assert "several Workloads belong to this TrainJob: second, train" in stage.plan().notes[0].message


def test_a_workload_that_names_nobody_is_not_taken_for_the_trainjobs() -> None:
    stage = Stage(trainjob(GANG), beside=[(WORKLOADS, {"metadata": {**OWNED, "name": "other"}, "spec": {}})])
    assert stage.names(WORKLOADS) == ["other", "train"]


def test_a_foreign_group_of_a_wanted_name_is_told_and_never_taken() -> None:
    stage = Stage(trainjob(GANG, suspend=True))
    name = stage.pod("node")["schedulingGroup"]["podGroupName"]
    stage.add(POD_GROUPS, {"metadata": {"name": name}, "spec": {}})
    stage.edit_trainjob(suspend=False)
    assert f"PodGroup {name} exists and belongs to someone else" in stage.plan().notes[0].message
    assert stage.jobset["spec"]["suspend"] is True


def test_nothing_is_left_to_do_when_all_is_there() -> None:
    assert Stage(trainjob(GANG, trainer={"numNodes": 2})).plan().empty


def test_a_resume_goes_on_with_groups_that_are_there() -> None:
    stage = Stage(trainjob(GANG, trainer={"numNodes": 2}))
    stage.set_jobset(replicatedJobsStatus=[counts("node", active=1)])
    stage.edit_trainjob(suspend=True)
    stage.edit_trainjob(suspend=False)
    assert stage.jobset["spec"]["suspend"] is False


def test_the_runtimes_annotations_shape_the_group_and_the_trainjobs_come_first() -> None:
    template = deepcopy(RUNTIMES[GANG]["spec"]["template"])
    metadata = template["spec"]["replicatedJobs"][0]["template"]["metadata"]
    metadata["annotations"] = {"echelon.dev/required-topology": RACK}
    made = runtime(GANG, template=template)
    key = [{"key": RACK}]
    assert Stage(trainjob(GANG), made).all(POD_GROUPS)[0]["spec"]["schedulingConstraints"] == {"topology": key}
    own = trainjob(GANG, annotations={"echelon.dev/required-topology": "block"})
    assert Stage(own, made).all(POD_GROUPS)[0]["spec"]["schedulingConstraints"] == {"topology": [{"key": "block"}]}
