"""Hierarchies as a user meets them through kubectl: why they wait, how they recover, who is next in line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import kubectl as kubectl_module
from tests.e2e.kubectl import Kubectl
from tests.e2e.process import UpProcess

pytestmark = pytest.mark.skipif(kubectl_module.PATH is None, reason="needs kubectl")

#: Six seconds until a lost node is noticed and its pods are evicted.
SPEED = 60
BLOCK, RACK = "topology.kubernetes.io/block", "topology.kubernetes.io/rack"
CLUSTER = f"""
levels: [{{name: block, key: {BLOCK}}}, {{name: rack, key: {RACK}}}]
pools: [{{name: gpu, counts: {{block: 2, rack: 2, node: 2}}, capacity: {{cpu: 8, memory: 16Gi, nvidia.com/gpu: 1}}}}]
"""


@pytest.fixture
def kubectl(tmp_path: Path) -> Iterator[Kubectl]:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    up = UpProcess(tmp_path / "data", "--speed", str(SPEED), "--cluster", str(tmp_path / "cluster.yaml"))
    up.start()
    yield Kubectl(up.kubeconfig, tmp_path / "cache")
    up.stop()


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.2)


def pod_spec(seconds: str = "infinity") -> dict[str, Any]:
    limits = {"nvidia.com/gpu": 1}
    container = {"name": "c", "image": "registry.example/c:1", "resources": {"limits": limits}}
    return {"restartPolicy": "Never", "containers": [{**container, "command": ["sleep", seconds]}]}


def job(pods: int, seconds: str = "infinity") -> dict[str, Any]:
    return {"parallelism": pods, "completions": pods, "backoffLimit": 20, "template": {"spec": pod_spec(seconds)}}


def job_set(name: str, *entries: dict[str, Any], **spec: Any) -> dict[str, Any]:
    body = {"replicatedJobs": list(entries), **spec}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name}, "spec": body}


def blocks(kubectl: Kubectl, *select: str) -> list[str]:
    """The block of every pod that runs."""
    nodes = {one["metadata"]["name"]: one["metadata"]["labels"][BLOCK] for one in kubectl.object("nodes")["items"]}
    pods = kubectl.object("pods", *select)["items"]
    return sorted(
        nodes.get(pod["spec"].get("nodeName", ""), "") for pod in pods if "deletionTimestamp" not in pod["metadata"]
    )


def test_a_gang_of_gangs_whose_node_is_lost_runs_again_as_a_whole_in_another_block(kubectl: Kubectl) -> None:
    gang: dict[str, Any] = {"schedulingPolicy": {"gang": {}}}
    scheduling = {
        **gang,
        "disruptionMode": {"all": {}},
        "schedulingConstraints": {"topology": [{"key": BLOCK}]},
        "replicatedJobs": [
            {
                "targetReplicatedJobs": ["workers"],
                "job": {**gang, "schedulingConstraints": {"topology": [{"key": RACK}]}},
            }
        ],
    }
    workers = {"name": "workers", "replicas": 2, "template": {"spec": job(2)}}
    kubectl("create", manifest=job_set("train", workers, scheduling=scheduling))
    until(lambda: len(set(blocks(kubectl))) == 1 and "" not in blocks(kubectl), "four pods in one block")
    (first,) = set(blocks(kubectl))
    assert len(blocks(kubectl)) == 4
    node = kubectl.object("pods")["items"][0]["spec"]["nodeName"]
    kubectl("annotate", "node", node, "echelon.dev/node-failure=lost")
    (other,) = {one["metadata"]["labels"][BLOCK] for one in kubectl.object("nodes")["items"]} - {first}
    until(lambda: blocks(kubectl, "--field-selector=status.phase=Running") == [other] * 4, "the gang to run again")
    told = kubectl("get", "events", "--field-selector", "reason=Released")
    assert "which cannot be completed" in told
    assert f"as a whole it fits in {other}" in told
    assert kubectl.object("jobset", "train")["status"].get("restarts", 0) == 0
    until(
        lambda: all(
            line.split()[3] == "Scheduled" for line in kubectl("get", "podgroups", "--no-headers").splitlines()
        ),
        "the groups to say that they run",
    )


def composite(name: str, mode: str, groups: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": name},
        "spec": {
            "workloadRef": {"workloadName": "w", "templateName": name},
            "schedulingPolicy": {"gang": {"minGroupCount": groups}},
            "schedulingConstraints": {"topology": [{"key": BLOCK}]},
            "disruptionMode": {mode: {}},
        },
    }


def pod_group(name: str, parent: str, pods: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {
            "workloadRef": {"workloadName": "w", "templateName": "leaf"},
            "parentCompositePodGroupName": parent,
            "schedulingPolicy": {"gang": {"minCount": pods}},
            "schedulingConstraints": {"topology": [{"key": RACK}]},
        },
    }


def members(group: str, *numbers: int) -> list[dict[str, Any]]:
    spec = {**pod_spec(), "schedulingGroup": {"podGroupName": group}}
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{group}-{number}"}, "spec": spec}
        for number in numbers
    ]


def test_a_tree_made_by_hand_says_why_it_waits_and_recovers_from_a_deleted_node(kubectl: Kubectl) -> None:
    kubectl("create", manifest=[composite("tree", "all", 2), pod_group("a", "tree", 2), *members("a", 0, 1)])
    kubectl("create", manifest=[pod_group("b", "tree", 2), *members("b", 0)])
    # Everything that waits has a reason of its own, and what would help it.
    until(
        lambda: "fix: create 1 more pod" in kubectl("describe", "pod", "b-0"),
        "the reason of the pod of the incomplete group",
    )
    lack = "waiting for child groups: 1 of 2 are complete (PodGroup/b is waiting for pods: 1 of 2 exist)"
    for kind, name, text in (
        ("podgroup", "b", "waiting for pods: 1 of 2 exist; fix: create 1 more pod"),
        ("podgroup", "a", f"waiting for sibling groups: CompositePodGroup/tree is {lack}; fix: create 1 more pod"),
        ("compositepodgroup", "tree", f"{lack}; fix: create 1 more pod"),
        ("pod", "a-0", f"PodGroup/a is waiting for sibling groups: CompositePodGroup/tree is {lack}; fix: create"),
    ):
        until(lambda kind=kind, name=name, text=text: text in kubectl("describe", kind, name), f"the reason of {name}")  # type: ignore[misc]
    kubectl("create", manifest=members("b", 1))
    until(lambda: len(set(blocks(kubectl))) == 1 and "" not in blocks(kubectl), "four pods in one block")
    (first,) = set(blocks(kubectl))

    # A node is deleted; its pod is gone, and the user makes it again.
    node = kubectl.object("pod", "b-1")["spec"]["nodeName"]
    kubectl("delete", "node", node)
    until(lambda: kubectl.run("get", "pod", "b-1").code != 0, "the pod of the deleted node to go")
    assert len(blocks(kubectl)) == 3, "it waits for the missing pod"
    kubectl("create", manifest=members("b", 1))
    until(lambda: kubectl("get", "pods", "--no-headers").count("\n") == 1, "the tree to be released")
    kubectl("create", manifest=[*members("a", 0, 1), *members("b", 0)])
    until(lambda: "" not in blocks(kubectl) and len(blocks(kubectl)) == 4, "the tree to run again")
    assert first not in blocks(kubectl)
    assert "Released" in kubectl("describe", "compositepodgroup", "tree")


def test_the_later_stage_of_a_jobset_is_next_in_line(kubectl: Kubectl) -> None:
    def trainer(seconds: str, **more: Any) -> dict[str, Any]:
        return {"name": "trainer", "replicas": 1, "template": {"spec": job(8, seconds)}, **more}

    prepare = {"name": "prepare", "replicas": 1, "template": {"spec": job(1, "90")}}
    del prepare["template"]["spec"]["template"]["spec"]["containers"][0]["resources"]  # type: ignore[index]
    after = [{"name": "prepare", "status": "Complete"}]
    kubectl("create", manifest=job_set("staged", prepare, trainer("1200", dependsOn=after)))
    time.sleep(0.1)
    kubectl("create", manifest=job_set("meanwhile", trainer("240")))
    time.sleep(0.1)
    kubectl("create", manifest=job_set("later", trainer("120")))
    column = "custom-columns=SET:.metadata.labels.jobset\\.sigs\\.k8s\\.io/jobset-name,PHASE:.status.phase"

    def sets(phase: str) -> set[str]:
        lines = kubectl(
            "get", "pods", "-l", "jobset.sigs.k8s.io/replicatedjob-name=trainer", "--no-headers", "-o", column
        )
        return {line.split()[0] for line in lines.splitlines() if line.split()[1] == phase}

    until(lambda: sets("Pending") == {"staged", "later"}, "the stage to begin behind the other JobSet")
    assert sets("Running") == {"meanwhile"}
    # The pods of one JobSet do not end at the same moment.
    until(lambda: "meanwhile" not in sets("Running"), "the GPUs to be free again")
    until(lambda: bool(sets("Running")), "the next in line to run")
    assert sets("Running") == {"staged"}
