"""Tables against what a real server printed for the same objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from echelon.api import scheme
from echelon.api.schema import kind_schema
from echelon.api.scheme import Object, Resource
from echelon.base import instants
from echelon.server.http.replies.columns import columns_of
from echelon.server.http.replies.durations import duration
from echelon.server.http.replies.tables import table

GOLDEN: dict[str, Any] = msgspec.json.decode((Path(__file__).parent / "data" / "tables.json").read_bytes())
#: When the real server was asked.
NOW = instants.parse("2026-11-15T19:27:23.500Z")
RESOURCES = {
    r.plural: r
    for r in (
        scheme.PODS,
        scheme.NODES,
        scheme.JOBS,
        scheme.POD_GROUPS,
        scheme.WORKLOADS,
        scheme.NAMESPACES,
        scheme.PRIORITY_CLASSES,
        scheme.EVENTS,
    )
}


def shown(resource: Resource, objects: list[Object], now: float = NOW) -> Object:
    return table(resource, objects, {"resourceVersion": "1"}, now=now, include="Metadata")


def described(result: Object) -> list[list[Any]]:
    return [[c["name"], c["type"], c["format"], c["priority"]] for c in result["columnDefinitions"]]


@pytest.mark.conformance("API-110")
@pytest.mark.parametrize("plural", sorted(RESOURCES))
def test_table_equals_the_real_server(plural: str) -> None:
    golden = GOLDEN[plural]
    result = shown(RESOURCES[plural], golden["objects"])
    assert described(result) == golden["columns"]
    assert [row["cells"] for row in result["rows"]] == golden["cells"]


def test_composites_have_a_status_that_the_real_server_does_not_print() -> None:
    golden = GOLDEN["compositepodgroups"]
    result = shown(scheme.COMPOSITE_POD_GROUPS, golden["objects"])
    extra = [c["name"] for c in result["columnDefinitions"]].index("Status")
    assert [c for c in described(result) if c[0] != "Status"] == golden["columns"]
    cells = [[cell for i, cell in enumerate(row["cells"]) if i != extra] for row in result["rows"]]
    assert cells == golden["cells"]
    assert [row["cells"][extra] for row in result["rows"]] == ["Pending"]


@pytest.mark.conformance("API-110")
@pytest.mark.parametrize("resource", scheme.RESOURCES, ids=lambda r: f"{r.plural}.{r.version}")
def test_every_kind_prints_a_name_an_age_and_even_a_bare_bookmark(resource: Resource) -> None:
    columns = columns_of(resource)
    assert [c.format for c in columns].count("name") == 1
    assert {"Age", "Last Seen", "Created At", "Pod Labels"} & {c.name for c in columns}
    bookmark: Object = {"kind": resource.kind, "metadata": {"resourceVersion": "7"}}
    assert len(shown(resource, [bookmark])["rows"][0]["cells"]) == len(columns)


@pytest.mark.parametrize(
    ("include", "expected"), [("Metadata", "PartialObjectMetadata"), ("Object", "Node"), ("None", None)]
)
def test_rows_carry_what_was_asked_for(include: Any, expected: str | None) -> None:
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}, "spec": {}}
    row = table(scheme.NODES, [node], {}, now=NOW, include=include)["rows"][0]
    assert (row["object"]["kind"] if row["object"] else None) == expected


def printed_pod(status: Object, spec: Object | None = None, **metadata: Any) -> Object:
    containers = {"containers": [{"name": "a"}, {"name": "b"}]}
    return {"metadata": {"name": "p", **metadata}, "spec": {**containers, **(spec or {})}, "status": status}


def container(name: str, ready: bool = False, restarts: int = 0, **state: Object) -> Object:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state}


READY = {"type": "Ready", "status": "True"}


@pytest.mark.parametrize(
    ("case", "status", "spec", "word"),
    [
        ("phase", {"phase": "Pending"}, {}, "Pending"),
        ("pod reason beats phase", {"phase": "Failed", "reason": "Evicted"}, {}, "Evicted"),
        (
            "gated",
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            {},
            "SchedulingGated",
        ),
        (
            "waiting",
            {"phase": "Pending", "containerStatuses": [container("a", waiting={"reason": "ContainerCreating"})]},
            {},
            "ContainerCreating",
        ),
        (
            "exit code",
            {"phase": "Failed", "containerStatuses": [container("a", terminated={"exitCode": 3})]},
            {},
            "ExitCode:3",
        ),
        (
            "signal",
            {"phase": "Failed", "containerStatuses": [container("a", terminated={"exitCode": 137, "signal": 9})]},
            {},
            "Signal:9",
        ),
        (
            "one completed, one runs, ready",
            {
                "phase": "Running",
                "conditions": [READY],
                "containerStatuses": [
                    container("a", terminated={"exitCode": 0, "reason": "Completed"}),
                    container("b", ready=True, running={}),
                ],
            },
            {},
            "Running",
        ),
        (
            "one completed, one runs, not ready",
            {
                "phase": "Running",
                "containerStatuses": [
                    container("a", terminated={"exitCode": 0, "reason": "Completed"}),
                    container("b", ready=True, running={}),
                ],
            },
            {},
            "NotReady",
        ),
        (
            "init progress",
            {"phase": "Pending", "initContainerStatuses": [container("i", running={}), container("j")]},
            {"initContainers": [{"name": "i"}, {"name": "j"}]},
            "Init:0/2",
        ),
        (
            "init failure",
            {"initContainerStatuses": [container("i", terminated={"exitCode": 1, "reason": "Error"})]},
            {"initContainers": [{"name": "i"}]},
            "Init:Error",
        ),
        (
            "sidecar that has started is no init any more",
            {
                "phase": "Running",
                "initContainerStatuses": [{**container("i", ready=True, running={}), "started": True}],
                "containerStatuses": [container("a", ready=True, running={})],
            },
            {"initContainers": [{"name": "i", "restartPolicy": "Always"}]},
            "Running",
        ),
    ],
)  # fmt: skip
def test_pod_status_word(case: str, status: Object, spec: Object, word: str) -> None:
    assert shown(scheme.PODS, [printed_pod(status, spec)])["rows"][0]["cells"][2] == word


@pytest.mark.parametrize(("phase", "word"), [("Running", "Terminating"), ("Succeeded", "Succeeded")])
def test_pod_being_deleted_is_terminating_unless_it_has_ended(phase: str, word: str) -> None:
    deleted = printed_pod({"phase": phase}, deletionTimestamp="2026-11-15T19:27:00Z")
    assert shown(scheme.PODS, [deleted])["rows"][0]["cells"][2] == word


def test_restarts_tell_when_the_last_one_was() -> None:
    restarted = container("a", restarts=2, running={})
    restarted["lastState"] = {"terminated": {"finishedAt": "2026-11-15T19:22:23Z"}}
    cells = shown(scheme.PODS, [printed_pod({"phase": "Running", "containerStatuses": [restarted]})])["rows"][0][
        "cells"
    ]
    assert cells[3] == "2 (5m ago)"


@pytest.mark.parametrize(
    ("conditions", "word"),
    [
        ([], "Running"),
        (["Suspended"], "Suspended"),
        (["FailureTarget"], "FailureTarget"),
        (["SuccessCriteriaMet", "Complete"], "Complete"),
        (["FailureTarget", "Failed"], "Failed"),
    ],
)
def test_job_status_word(conditions: list[str], word: str) -> None:
    status = {"conditions": [{"type": type_, "status": "True"} for type_ in conditions]}
    job = {"metadata": {"name": "j"}, "spec": {"parallelism": 3}, "status": status}
    cells = shown(scheme.JOBS, [job])["rows"][0]["cells"]
    assert cells[1:3] == [word, "0/1 of 3"]


def test_group_being_disturbed_says_so() -> None:
    conditions = [
        {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"},
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
    ]
    group = {
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"gang": {}}},
        "status": {"conditions": conditions},
    }
    assert shown(scheme.POD_GROUPS, [group])["rows"][0]["cells"][3] == "PreemptionByScheduler"


@pytest.mark.parametrize("resource", [r for r in scheme.RESOURCES if not r.builtin], ids=lambda r: r.plural)
def test_custom_kinds_print_what_their_definition_declares(resource: Resource) -> None:
    declared = [column["name"] for column in kind_schema.printer_columns(resource)] or ["Age"]
    assert [column.name for column in columns_of(resource)] == ["Name", *declared]


def test_custom_kinds_fill_their_own_columns() -> None:
    status = {"restarts": 1, "terminalState": "Failed", "conditions": [{"type": "Completed", "status": "False"}]}
    job_set = {"metadata": {"name": "s"}, "spec": {"suspend": False}, "status": status}
    assert shown(scheme.JOB_SETS, [job_set])["rows"][0]["cells"][1:5] == ["Failed", "1", "False", "false"]
    train_job = {"metadata": {"name": "t"}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    assert shown(scheme.TRAIN_JOBS, [train_job])["rows"][0]["cells"][1] == "Complete"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (0, "0s"), (119, "119s"), (120, "2m"), (150, "2m30s"), (599, "9m59s"), (600, "10m"),
        (10799, "179m"), (10800, "3h"), (11100, "3h5m"), (28800, "8h"), (172799, "47h"), (172800, "2d"),
        (180000, "2d2h"), (691200, "8d"), (63071999, "729d"), (63072000, "2y"), (63158400, "2y1d"), (252288000, "8y"),
    ],
)  # fmt: skip
def test_ages_get_coarser_with_time(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def cells(resource: Resource, obj: Object) -> dict[str, Any]:
    result = shown(resource, [obj])
    return dict(zip([c["name"] for c in result["columnDefinitions"]], result["rows"][0]["cells"], strict=True))


def test_claims_volumes_and_classes_are_printed_as_kubectl_users_know_them() -> None:
    born = {"name": "x", "creationTimestamp": "2026-11-15T19:26:23Z"}
    spec = {"volumeName": "v", "storageClassName": "s"}
    status = {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOncePod"]}
    claim = cells(scheme.VOLUME_CLAIMS, {"metadata": born, "spec": spec, "status": status})
    assert list(claim.values()) == ["x", "Bound", "v", "1Gi", "RWOP", "s", "<unset>", "60s", "<unset>"]
    reclaim = {"persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "n", "name": "c"}}
    spec = {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], **reclaim}
    volume = cells(scheme.VOLUMES, {"metadata": born, "spec": spec, "status": {"phase": "Available"}})
    assert list(volume.values())[:6] == ["x", "2Gi", "RWO,ROX", "Retain", "Available", "n/c"]
    marked = {**born, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    storage = cells(scheme.STORAGE_CLASSES, {"metadata": marked, "provisioner": "a/b"})
    assert list(storage.values()) == ["x (default)", "a/b", "Delete", "Immediate", False, "60s"]


def row(resource: Resource, obj: Object) -> list[Any]:
    """The cells of one object, in order."""
    return list(cells(resource, obj).values())


@pytest.mark.conformance("API-110")
def test_namespaced_kinds_print_what_a_real_server_prints() -> None:
    quota = {
        "metadata": {"name": "q"},
        "status": {"hard": {"pods": "5", "cpu": "2", "limits.cpu": "4"}, "used": {"pods": "1", "limits.cpu": "500m"}},
    }
    assert row(scheme.RESOURCE_QUOTAS, quota)[1:3] == ["cpu: 0/2, pods: 1/5", "limits.cpu: 500m/4"]
    addresses = [{"ip": f"10.0.0.{number}"} for number in range(1, 5)]
    subset = {"addresses": addresses, "ports": [{"port": 80}]}
    assert row(scheme.ENDPOINTS, {"metadata": {"name": "e"}, "subsets": [subset]})[1] == (
        "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 1 more..."
    )
    assert row(scheme.ENDPOINTS, {"metadata": {"name": "e"}})[1] == "<none>"
    one = {"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]}
    assert row(scheme.ENDPOINT_SLICES, one)[1:4] == ["IPv4", "<unset>", "10.0.0.1"]
    containers = [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]
    template = {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": containers}}
    assert row(scheme.POD_TEMPLATES, {"metadata": {"name": "t"}, "template": template})[1:] == ["a,b", "i,j", "x=y"]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    revision = {"metadata": {"name": "r", "ownerReferences": [owner]}, "revision": 3}
    assert row(scheme.CONTROLLER_REVISIONS, revision)[1:3] == ["daemonset.apps/d", 3]


def test_a_cell_that_cannot_be_told_does_not_hide_the_others() -> None:
    node: Object = {"metadata": {"name": "n", "labels": "odd"}, "status": {"conditions": [{"type": "Ready"}]}}
    (row,) = shown(scheme.NODES, [node])["rows"]
    assert row["cells"][:3] == ["n", "NotReady", "<unknown>"]
