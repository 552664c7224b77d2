"""TrainJobs whose runtimes leave the gang to another scheduler: coscheduling and volcano."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from echelon.api.objects import meta
from echelon.api.scheme import JOB_SETS, TRAIN_JOBS, Object, Resource
from tests.unit.decide.trainjob.stage import LLM, RUNTIMES, TORCH, Stage, runtime, trainjob

COSCHEDULING = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", builtin=False)
VOLCANO = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", builtin=False)
REQUESTS = {"resources": {"requests": {"cpu": "1", "memory": "4Gi"}}}


def on(name: str, policy: Object, *, ordered: bool = True, **template: Any) -> Object:
    changed = deepcopy(RUNTIMES[name]["spec"]["template"])
    for rj in changed["spec"]["replicatedJobs"]:
        if not ordered:
            rj.pop("dependsOn", None)
        rj["template"]["spec"]["template"]["spec"]["containers"][0] |= REQUESTS
    return runtime(name, podGroupPolicy=policy, template=changed | template)


class GangStage(Stage):
    """A stage with both schedulers' kinds."""

    def plan(self) -> Any:
        self.gang_kinds = {COSCHEDULING.group: COSCHEDULING, VOLCANO.group: VOLCANO}
        return super().plan()


@pytest.mark.conformance("TJ-36")
def test_coscheduling_counts_every_pod_that_starts_together() -> None:
    job = trainjob(LLM, trainer={"numNodes": 100}, suspend=True)
    stage = GangStage(job, on(LLM, {"coscheduling": {"scheduleTimeoutSeconds": 100}}, ordered=False))
    group = stage.get(COSCHEDULING, "train")
    assert group["spec"] == {
        "minMember": 102,
        "minResources": {"cpu": "102", "memory": "408Gi"},
        "scheduleTimeoutSeconds": 100,
    }
    assert meta.controlled_by(group, "t")
    for rj in stage.jobset["spec"]["replicatedJobs"]:
        labels = rj["template"]["spec"]["template"]["metadata"]["labels"]
        assert labels == {"scheduling.x-k8s.io/pod-group": "train"}
    assert stage.created[-2:] == [("PodGroup", "train"), ("JobSet", "train")]


def test_pods_that_wait_for_others_are_not_waited_for() -> None:
    stage = GangStage(trainjob(LLM, trainer={"numNodes": 4}), on(LLM, {"coscheduling": {}}))
    assert stage.get(COSCHEDULING, "train")["spec"]["minMember"] == 4
    marked = [
        rj["name"]
        for rj in stage.jobset["spec"]["replicatedJobs"]
        if "labels" in (rj["template"]["spec"]["template"].get("metadata") or {})
    ]
    assert marked == ["node"]


def test_a_launcher_that_waits_for_its_nodes_joins_their_group() -> None:
    name = "deepspeed-distributed"
    stage = GangStage(trainjob(name, trainer={"numNodes": 4}), on(name, {"coscheduling": {}}))
    assert stage.get(COSCHEDULING, "train")["spec"]["minMember"] == 3
    for rj in stage.jobset["spec"]["replicatedJobs"]:
        assert "labels" in rj["template"]["spec"]["template"]["metadata"]


@pytest.mark.conformance("TJ-38")
def test_a_group_changes_only_while_its_trainjob_is_suspended() -> None:
    stage = GangStage(trainjob(TORCH, trainer={"numNodes": 2}, suspend=True), on(TORCH, {"coscheduling": {}}))
    stage.objects[COSCHEDULING, "train"]["spec"]["minMember"] = 7
    stage.settle()
    assert stage.get(COSCHEDULING, "train")["spec"]["minMember"] == 2
    stage.edit(TRAIN_JOBS, "train", suspend=False)
    stage.objects[COSCHEDULING, "train"]["spec"]["minMember"] = 7
    stage.settle()
    assert stage.get(COSCHEDULING, "train")["spec"]["minMember"] == 7


def test_volcano_has_queue_priority_and_network_topology() -> None:
    topology = {"mode": "hard", "highestTierAllowed": 1}
    metadata = {"annotations": {"scheduling.volcano.sh/queue-name": "fast"}}
    made = on(TORCH, {"volcano": {"networkTopology": topology}}, metadata=metadata)
    made["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"] |= {
        "priorityClassName": "high"
    }
    stage = GangStage(trainjob(TORCH, trainer={"numNodes": 2}), made)
    assert stage.get(VOLCANO, "train")["spec"] == {
        "minMember": 2,
        "minResources": {"cpu": "2", "memory": "8Gi"},
        "queue": "fast",
        "priorityClassName": "high",
        "networkTopology": topology,
    }
    annotations = stage.replicated("node")["template"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {"scheduling.k8s.io/group-name": "train"}


@pytest.mark.parametrize(("policy", "group"), [("coscheduling", COSCHEDULING), ("volcano", VOLCANO)])
def test_where_the_kind_is_missing_the_trainjob_says_so_and_waits(policy: str, group: Resource) -> None:
    stage = Stage(trainjob(), on(TORCH, {policy: {}}))
    assert stage.names(JOB_SETS) == []
    said = stage.events[0][2]
    assert f"podGroupPolicy.{policy}: the server does not serve PodGroup in {group.api_version}" in said
    stage.gang_kinds = {group.group: group}
    stage.settle()
    assert stage.names(JOB_SETS) == ["train"]


def test_someone_elses_group_is_reported_and_not_taken() -> None:
    foreign = {"apiVersion": COSCHEDULING.api_version, "kind": "PodGroup", "metadata": {"name": "train"}, "spec": {}}
    stage = GangStage(trainjob(), on(TORCH, {"coscheduling": {}}), beside=[(COSCHEDULING, foreign)])
    assert stage.names(JOB_SETS) == []
    assert "PodGroup train exists and belongs to someone else" in stage.events[0][2]
