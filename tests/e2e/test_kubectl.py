"""Real kubectl against the embedded server over the durable store."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from echelon.testing.builders import bare_pod

from .kubectl import Kubectl

GOLDEN_ERRORS = json.loads((Path(__file__).parents[1] / "conformance" / "data" / "errors.json").read_text())["cases"]


def pod_group(name: str, minimum: int = 2) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}},
    }


def job(name: str) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": template},
    }


def node(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/rack": "r1"}},
        "status": {
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "Up", "message": "up"}],
        },
    }


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_version_and_api_resources(kubectl: Kubectl) -> None:
    assert "Server Version: v1.37.1+echelon" in kubectl("version")
    rows = {line.split()[0]: line for line in kubectl("api-resources").splitlines()[1:]}
    assert rows["pods"].split() == ["pods", "po", "v1", "true", "Pod"]
    assert "scheduling.k8s.io/v1beta1" in rows["podgroups"]
    assert "scheduling.k8s.io/v1alpha3" in rows["compositepodgroups"]
    assert {"jobs", "jobsets", "trainjobs", "clustertrainingruntimes", "priorityclasses", "leases"} <= rows.keys()


@pytest.mark.conformance("API-100")
def test_apply_creates_then_leaves_unchanged_then_configures(kubectl: Kubectl) -> None:
    assert kubectl("apply", manifest=bare_pod("applied", labels={"app": "a"})) == "pod/applied created\n"
    before = kubectl.object("pod", "applied")["metadata"]["resourceVersion"]
    assert kubectl("apply", manifest=bare_pod("applied", labels={"app": "a"})) == "pod/applied unchanged\n"
    assert kubectl.object("pod", "applied")["metadata"]["resourceVersion"] == before
    assert kubectl("apply", manifest=bare_pod("applied", labels={"app": "b"})) == "pod/applied configured\n"
    assert kubectl.object("pod", "applied")["metadata"]["labels"] == {"app": "b"}


def test_apply_of_a_custom_kind_twice_writes_nothing_the_second_time(kubectl: Kubectl) -> None:
    template = {"spec": {"template": job("x")["spec"]["template"]}}
    made = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "twice"},
        "spec": {"replicatedJobs": [{"name": "workers", "template": template}]},
    }
    assert kubectl("apply", manifest=made) == "jobset.jobset.x-k8s.io/twice created\n"
    before = kubectl.object("jobset", "twice")
    # Without merge keys kubectl sends the whole list again, as it does to a real server; nothing comes of it.
    assert kubectl("apply", manifest=made) == "jobset.jobset.x-k8s.io/twice configured\n"
    assert kubectl.object("jobset", "twice") == before


@pytest.mark.conformance("API-100")
@pytest.mark.parametrize(
    "made", [pod_group("twice"), job("twice"), config_map("twice", a="1")], ids=lambda m: m["kind"]
)
def test_apply_twice_changes_nothing_for_other_kinds(kubectl: Kubectl, made: dict[str, Any]) -> None:
    assert kubectl("apply", manifest=made).endswith("/twice created\n")
    assert kubectl("apply", manifest=made).endswith("/twice unchanged\n")


def test_get_prints_tables_yaml_and_selections(kubectl: Kubectl) -> None:
    kubectl(
        "apply",
        manifest=[
            bare_pod("red", labels={"colour": "red"}),
            bare_pod("blue", labels={"colour": "blue"}),
        ],
    )
    header, *rows = kubectl("get", "pods", "-l", "colour").splitlines()
    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row.split()[:4] for row in rows] == [["blue", "0/1", "Pending", "0"], ["red", "0/1", "Pending", "0"]]
    assert kubectl("get", "pods", "-l", "colour=red", "-o", "name") == "pod/red\n"
    assert "NOMINATED NODE" in kubectl("get", "pod", "red", "-o", "wide")
    read = kubectl.object("pod", "red")
    assert (read["kind"], read["status"]["phase"], read["spec"]["restartPolicy"]) == ("Pod", "Pending", "Always")
    assert kubectl("get", "pods", "--field-selector", "metadata.name=blue", "-o", "name") == "pod/blue\n"
    kubectl("get", "pods", "-A", "--sort-by", ".metadata.name")
    kubectl("get", "all")


def test_get_of_scheduling_kinds_prints_their_columns(kubectl: Kubectl) -> None:
    kubectl("apply", manifest=pod_group("printed"))
    header, row = kubectl("get", "podgroups", "printed").splitlines()
    assert header.split() == ["NAME", "POLICY", "WORKLOAD", "STATUS", "AGE"]
    assert row.split()[:4] == ["printed", "Gang", "<none>", "Pending"]


def open_watches(kubectl: Kubectl) -> int:
    told = kubectl("get", "--raw", "/metrics").splitlines()
    return sum(int(line.split()[-1]) for line in told if line.startswith("apiserver_longrunning_requests{"))


def read_lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


@pytest.mark.conformance("API-39")
def test_watch_shows_what_happens_as_it_happens(kubectl: Kubectl) -> None:
    kubectl("apply", manifest=config_map("watched", a="1"))
    others = open_watches(kubectl)
    process = kubectl.start("get", "configmap", "-w", "--output-watch-events", "-l", "watched=yes")
    try:
        # The watch begins with what there is: nothing yet.
        while open_watches(kubectl) == others:
            time.sleep(0.05)
        kubectl("label", "configmap", "watched", "watched=yes")
        kubectl("patch", "configmap", "watched", "--type=merge", "-p", '{"data": {"b": "2"}}')
        kubectl("delete", "configmap", "watched")
        header, *events = read_lines(process, 4)
    finally:
        process.kill()
        process.communicate()
    assert header.split() == ["EVENT", "NAME", "DATA", "AGE"]
    assert [line.split()[:3] for line in events] == [
        ["ADDED", "watched", "1"],
        ["MODIFIED", "watched", "2"],
        ["DELETED", "watched", "2"],
    ]


def test_describe_tells_the_story_of_each_kind(kubectl: Kubectl) -> None:
    kubectl(
        "create",
        manifest=[node("described"), bare_pod("described"), pod_group("described"), job("described")],
    )
    assert "Node:" in kubectl("describe", "pod", "described")
    shown = kubectl("describe", "node", "described")
    assert "topology.kubernetes.io/rack=r1" in shown
    assert "Non-terminated Pods:" in shown
    assert "Min Count:" in kubectl("describe", "podgroup", "described")
    assert "Completions:" in kubectl("describe", "job", "described")


def test_describe_shows_the_events_of_an_object(kubectl: Kubectl) -> None:
    kubectl("create", manifest=bare_pod("eventful"))
    uid = kubectl.object("pod", "eventful")["metadata"]["uid"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "eventful.1", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "eventful", "uid": uid, "apiVersion": "v1"},
        "reason": "Tested",
        "message": "an event for describe",
        "type": "Normal",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    kubectl("create", manifest=event)
    assert "an event for describe" in kubectl("describe", "pod", "eventful")
    assert "Tested" in kubectl("events", "--for", "pod/eventful")


def test_patch_in_all_three_ways(kubectl: Kubectl) -> None:
    kubectl("create", manifest=config_map("patched", a="1", b="2"))
    kubectl("patch", "cm", "patched", "--type=merge", "-p", '{"data": {"a": null, "c": "3"}}')
    assert kubectl.object("cm", "patched")["data"] == {"b": "2", "c": "3"}
    kubectl("patch", "cm", "patched", "--type=json", "-p", '[{"op": "replace", "path": "/data/b", "value": "4"}]')
    assert kubectl.object("cm", "patched")["data"] == {"b": "4", "c": "3"}
    kubectl("create", manifest=node("patched"))
    condition = '{"status": {"conditions": [{"type": "Extra", "status": "True", "reason": "r", "message": "m"}]}}'
    kubectl("patch", "node", "patched", "--subresource=status", "-p", condition)
    conditions = kubectl.object("node", "patched")["status"]["conditions"]
    assert sorted(c["type"] for c in conditions) == ["Extra", "Ready"]


def test_label_and_annotate(kubectl: Kubectl) -> None:
    kubectl("create", manifest=bare_pod("labelled"))
    kubectl("label", "pod", "labelled", "tier=web")
    kubectl("annotate", "pod", "labelled", "note=hello")
    metadata = kubectl.object("pod", "labelled")["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"tier": "web"}, {"note": "hello"})
    kubectl("label", "pod", "labelled", "tier-")
    assert "labels" not in kubectl.object("pod", "labelled")["metadata"]


def test_cordon_changes_the_node(kubectl: Kubectl) -> None:
    kubectl("create", manifest=node("cordoned"))
    kubectl("cordon", "cordoned")
    assert "Ready,SchedulingDisabled" in kubectl("get", "node", "cordoned")


def test_wait_ends_when_the_condition_comes(kubectl: Kubectl) -> None:
    kubectl("create", manifest=pod_group("waited"))
    waiting = kubectl.start("wait", "podgroup/waited", "--for=condition=PodGroupInitiallyScheduled", "--timeout=90s")
    time.sleep(0.5)
    assert waiting.poll() is None
    condition = {
        "type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    change = json.dumps({"status": {"conditions": [condition]}})
    kubectl("patch", "podgroup", "waited", "--subresource=status", "--type=merge", "-p", change)
    out, err = waiting.communicate(timeout=90)
    assert (waiting.returncode, out) == (0, "podgroup.scheduling.k8s.io/waited condition met\n"), err


def test_delete_waits_until_the_object_is_gone(kubectl: Kubectl) -> None:
    kubectl(
        "create",
        manifest={**bare_pod("held"), "metadata": {"name": "held", "finalizers": ["example.com/held"]}},
    )
    deleting = kubectl.start("delete", "pod", "held", "--wait")
    time.sleep(0.7)
    assert deleting.poll() is None
    kubectl("patch", "pod", "held", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    out, err = deleting.communicate(timeout=90)
    assert (deleting.returncode, out) == (0, 'pod "held" deleted\n'), err
    missing = kubectl.run("get", "pod", "held")
    assert missing.code == 1
    assert missing.err == 'Error from server (NotFound): pods "held" not found\n'


def test_explain_scheduling_kinds_with_descriptions(kubectl: Kubectl) -> None:
    shown = kubectl("explain", "podgroup.spec")
    assert "GROUP:      scheduling.k8s.io" in shown
    for field in ("schedulingPolicy", "disruptionMode", "priorityClassName", "workloadRef"):
        assert field in shown
    assert "<no description>" not in shown
    assert "minCount" in kubectl("explain", "podgroup.spec.schedulingPolicy.gang")
    assert "minGroupCount" in kubectl(
        "explain", "compositepodgroup.spec.schedulingPolicy.gang", "--api-version=scheduling.k8s.io/v1alpha3"
    )


@pytest.mark.parametrize("verb", ["create", "apply"])
def test_dry_run_answers_as_if_and_stores_nothing(kubectl: Kubectl, verb: str) -> None:
    printed = kubectl(verb, "--dry-run=server", "-o", "yaml", manifest=pod_group("imagined"))
    assert yaml.safe_load(printed)["metadata"]["uid"]
    assert kubectl.run("get", "podgroup", "imagined").code == 1


@pytest.mark.parametrize("case", ["no policy", "minCount negative", "two topology keys", "bad name"])
def test_rejected_object_gets_the_message_of_the_real_server(kubectl: Kubectl, case: str) -> None:
    golden = next(entry for entry in GOLDEN_ERRORS if entry["case"] == case)
    made = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", **golden["request"]["body"]}
    outcome = kubectl.run("create", manifest=made)
    assert outcome.code == 1
    assert golden["response"]["message"].removeprefix("PodGroup.scheduling.k8s.io ") in outcome.err


def test_unknown_field_is_refused_by_name(kubectl: Kubectl) -> None:
    made = pod_group("typo")
    made["spec"]["schedulingPollicy"] = {}
    outcome = kubectl.run("apply", manifest=made)
    assert outcome.code == 1
    assert 'strict decoding error: unknown field "spec.schedulingPollicy"' in outcome.err


def test_replace_edit_and_delete_by_label(kubectl: Kubectl) -> None:
    kubectl("create", manifest=config_map("replaced", a="1"))
    kubectl("replace", manifest=config_map("replaced", b="2"))
    assert kubectl.object("cm", "replaced")["data"] == {"b": "2"}
    kubectl("label", "cm", "replaced", "sweep=yes")
    assert kubectl("delete", "cm", "-l", "sweep=yes") == 'configmap "replaced" deleted\n'
    diff = kubectl.run("diff", manifest=config_map("replaced", b="2"))
    assert diff.code == 1  # kubectl's way to say: they differ
    assert "b: " in diff.out


def test_logs_give_a_clear_answer(kubectl: Kubectl) -> None:
    kubectl("create", manifest=bare_pod("silent"))
    outcome = kubectl.run("logs", "silent")
    assert outcome.code == 1
    assert 'no logs are kept for pod "silent"' in outcome.err
    assert "it has not been scheduled to a node" in kubectl.run("exec", "silent", "--", "true").err
