"""`echelon tree`: what it is asked for, and siblings in the order people count."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from rich.console import Console

from echelon.api.scheme import (
    COMPOSITE_POD_GROUPS,
    JOB_SETS,
    JOBS,
    POD_GROUPS,
    PODS,
    TRAIN_JOBS,
    Object,
)
from echelon.cli.showing.drawing import drawn
from echelon.cli.showing.entries import entry_of
from echelon.cli.showing.snapshot import SHOWN, Snapshot, by_number
from echelon.cli.showing.targets import parse
from echelon.cli.tree import tree


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("low", "low: expected KIND/NAME, for example jobset/training"),
        ("job/", "job/: expected KIND/NAME, for example jobset/training"),
        ("/low", "/low: expected KIND/NAME, for example jobset/training"),
        ("thing/low", "thing/low: unknown kind 'thing'; use one of"),
    ],
)
def test_a_target_that_names_no_object_is_refused(target: str, words: str) -> None:
    done = CliRunner().invoke(tree, [target])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"echelon: {words}")


def test_siblings_are_listed_as_people_count() -> None:
    names = ["w-10-0", "w-2-1", "w-2", "driver", "w-2-0", "9"]
    ordered = sorted(({"metadata": {"name": name}} for name in names), key=by_number)
    assert [obj["metadata"]["name"] for obj in ordered] == ["9", "driver", "w-2", "w-2-0", "w-2-1", "w-10-0"]


@pytest.mark.parametrize(
    ("arguments", "targets"),
    [
        (["jobset/low"], [(JOB_SETS, "low")]),
        (["JobSet/low", "jobs/a"], [(JOB_SETS, "low"), (JOBS, "a")]),
        (["jobset.jobset.x-k8s.io/low", "pod/p", "job.batch/j"], [(JOB_SETS, "low"), (PODS, "p"), (JOBS, "j")]),
        (["trainjob.trainer.kubeflow.org/t"], [(TRAIN_JOBS, "t")]),
        (["podgroup.scheduling.k8s.io/g"], [(POD_GROUPS, "g")]),
        (["podgroups.v1beta1.scheduling.k8s.io/g"], [(POD_GROUPS, "g")]),
        (["jobset", "low", "high"], [(JOB_SETS, "low"), (JOB_SETS, "high")]),
    ],
)
def test_names_are_taken_as_kubectl_prints_and_takes_them(arguments: list[str], targets: object) -> None:
    assert parse(arguments) == targets


def test_a_kind_of_another_group_is_unknown() -> None:
    done = CliRunner().invoke(tree, ["job.example.com/j"])
    assert done.exit_code == 2
    assert "unknown kind 'job.example.com'" in done.stderr


def owned(kind: str, name: str) -> list[Object]:
    return [{"kind": kind, "name": name, "uid": f"{kind}-{name}", "controller": True}]


def pod(name: str, node: str | None, why: str = "") -> Object:
    waits = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}]
    return {
        "metadata": {"name": name, "uid": name, "ownerReferences": owned("Job", "low-0")},
        "spec": {"schedulingGroup": {"podGroupName": "low-group"}, **({"nodeName": node} if node else {})},
        "status": {"phase": "Running"} if node else {"phase": "Pending", "conditions": waits},
    }


def group(name: str, kind: str, owner: str) -> Object:
    told = [{"type": f"{kind}InitiallyScheduled", "status": "True", "reason": "Scheduled", "message": ""}]
    policy = {"gang": {"minCount" if kind == "PodGroup" else "minGroupCount": 2}}
    return {
        "metadata": {"name": name, "uid": name, "ownerReferences": owned("JobSet", owner)},
        "spec": {"schedulingPolicy": policy},
        "status": {"conditions": told},
    }


def preempted(victim: str, time: str) -> Object:
    return {
        "metadata": {"name": f"{victim}.1"},
        "reason": "Preempted",
        "message": "Preempted by compositepodgroup default/high-group (priority 9) on node n7",
        "involvedObject": {"kind": "Pod", "name": victim, "uid": f"gone-{victim}"},
        "related": {"kind": "CompositePodGroup", "name": "high-group"},
        "lastTimestamp": time,
    }


def snapshot(*pods: Object, events: list[Object] | None = None) -> Snapshot:
    job = {
        "metadata": {"name": "low-0", "uid": "Job-low-0", "ownerReferences": owned("JobSet", "low")},
        "spec": {"completions": 2, "template": {"spec": {"schedulingGroup": {"podGroupName": "low-group"}}}},
        "status": {"active": 2},
    }
    objects: dict[object, list[Object]] = {
        JOB_SETS: [{"metadata": {"name": "low", "uid": "JobSet-low"}, "spec": {}}],
        JOBS: [job],
        POD_GROUPS: [group("low-group", "PodGroup", "low")],
        COMPOSITE_POD_GROUPS: [group("high-group", "CompositePodGroup", "high")],
        PODS: list(pods),
    }
    labels = {"topology.kubernetes.io/block": "b0"}
    nodes = {f"n{rack}": labels | {"topology.kubernetes.io/rack": f"b0-r{rack}"} for rack in range(3)}
    return Snapshot(
        {resource: objects.get(resource, []) for resource in SHOWN},
        events or [],
        {name: {"metadata": {"name": name, "labels": its}} for name, its in nodes.items()},
    )


def test_an_owner_that_has_nothing_yet_says_what_its_controller_was_refused() -> None:
    def warning(text: str, time: str) -> Object:
        about = {"kind": "TrainJob", "name": "t", "uid": "TrainJob-t"}
        return {"metadata": {}, "type": "Warning", "message": text, "involvedObject": about, "lastTimestamp": time}

    events = [warning("runtime a not found", "2026-01-02"), warning("runtime b not found", "2026-01-01")]
    known = snapshot(events=events)
    job: Object = {"metadata": {"name": "t", "uid": "TrainJob-t"}, "spec": {}}
    assert entry_of(known, TRAIN_JOBS, job).reason == "runtime a not found"
    ended = {**job, "status": {"conditions": [{"type": "Failed", "status": "True"}]}}
    assert entry_of(known, TRAIN_JOBS, ended).reason == ""
    known.objects[JOB_SETS].append({"metadata": {"name": "t", "uid": "s", "ownerReferences": owned("TrainJob", "t")}})
    assert entry_of(known, TRAIN_JOBS, job).reason == "", "what it has says what it waits for"


def test_an_object_is_where_its_running_pods_are() -> None:
    one_rack = entry_of(known := snapshot(pod("a", "n0"), pod("b", "n0")), JOBS, known.objects[JOBS][0])
    assert one_rack.domain == "b0-r0"
    assert one_rack.groups == ("PodGroup/low-group",)
    two_racks = entry_of(known := snapshot(pod("a", "n0"), pod("b", "n1")), JOB_SETS, known.objects[JOB_SETS][0])
    assert two_racks.domain == "b0"
    assert [child.domain for child in two_racks.children[0].children] == ["b0-r0/n0", "b0-r1/n1"]


def test_a_group_that_waits_again_says_why_its_pods_wait() -> None:
    known = snapshot(pod("a", None, "no room"), pod("b", None, "no room"))
    group = entry_of(known, POD_GROUPS, known.objects[POD_GROUPS][0])
    assert (group.state, group.reason, group.policy) == ("Pending", "no room", "gang of 2")
    job = entry_of(known, JOBS, known.objects[JOBS][0])
    console = Console(width=60)
    with console.capture() as captured:
        console.print(drawn(job))
    assert captured.get().count("no room") == 1


def test_an_eviction_names_the_owner_of_the_preemptor_though_its_pods_are_gone() -> None:
    events = [
        preempted("low-0-0-abcde", "2026-01-01T00:00:01Z"),
        preempted("low-0-1-fghij", "2026-01-01T00:00:02Z"),
        preempted("low-0-more-0-abcde", "2026-01-01T00:00:03Z"),  # a pod of the Job low-0-more
    ]
    known = snapshot(pod("low-0-0-zzzzz", "n0"), events=events)
    for resource in (JOBS, POD_GROUPS):
        (eviction,) = entry_of(known, resource, known.objects[resource][0]).evictions
        assert (eviction.pods, eviction.by, eviction.at) == (2, "JobSet/high", "2026-01-01T00:00:02Z")
        assert eviction.why == "Preempted by compositepodgroup default/high-group (priority 9)"
    data = entry_of(known, JOB_SETS, known.objects[JOB_SETS][0]).as_data()
    assert data["children"][0]["evictions"][0]["by"] == "JobSet/high"
    assert "reason" not in data
