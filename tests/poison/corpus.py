"""The corpus: odd objects that a real server accepts, and odd requests that it answers with an error.

The pieces are in `objects.yaml`; here they are put into objects, and what is too large to be written down is generated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from echelon.api.objects import vocabulary
from echelon.api.scheme import by_kind

Tree = dict[str, Any]
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
_PIECES: Tree = yaml.load((Path(__file__).parent / "objects.yaml").read_text(), yaml.CSafeLoader)
_ANNOTATIONS = (
    vocabulary.COMPLETION_INDEX,
    "batch.kubernetes.io/job-index-failure-count",
    vocabulary.RUN_SECONDS,
    vocabulary.EXIT_CODE,
    vocabulary.JOBSET_EXCLUSIVE_TOPOLOGY,
)


@dataclass(frozen=True)
class Odd:
    """An object, and a status to be written once it exists."""

    id: str
    obj: Tree
    status: Tree | None = None


@dataclass(frozen=True)
class OddRequest:
    id: str
    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"


def collection(obj: Tree) -> str:
    """The path of the collection that an object belongs to."""
    resource = by_kind(obj["apiVersion"], obj["kind"])
    assert resource is not None, obj["kind"]
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    return f"{base}/namespaces/default/{resource.plural}" if resource.namespaced else f"{base}/{resource.plural}"


def objects() -> list[Odd]:
    found: list[Odd] = []
    for make in (_pods, _jobs, _job_sets, _nodes, _budgets, _others, _definitions, _large):
        found += make()
    return found


def named(id_: str, api_version: str, kind: str, tree: Tree, status: Tree | None = None) -> Odd:
    metadata = {**tree.get("metadata", {}), "name": f"odd-{id_}"}
    return Odd(id_, {"apiVersion": api_version, "kind": kind, **tree, "metadata": metadata}, status)


CONTAINERS: Tree = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE: Tree = {"spec": {"restartPolicy": "Never", **CONTAINERS}}


def _pods() -> Iterator[Odd]:
    for index, text in enumerate(_PIECES["texts"]):
        for number, key in enumerate(_ANNOTATIONS):
            metadata = {"annotations": {key: text}}
            yield named(f"annotated-{number}-{index}", "v1", "Pod", {"metadata": metadata, "spec": CONTAINERS})
    for index, status in enumerate(_PIECES["pod_statuses"]):
        yield named(f"pod-status-{index}", "v1", "Pod", {"spec": CONTAINERS}, status)
    for index, spec in enumerate(_PIECES["pod_specs"]):
        yield named(f"pod-spec-{index}", "v1", "Pod", {"spec": {**CONTAINERS, **spec}})
    owners = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "gone", "uid": "gone", "controller": True},
        {"apiVersion": "odd/v1", "kind": "Odd", "name": "odd", "uid": "odd", "controller": True},
        {"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "x", "blockOwnerDeletion": True},
    ]
    for index, owner in enumerate(owners):
        finalizers = ["example.com/never"] if index else []
        metadata = {"ownerReferences": [owner], "finalizers": finalizers}
        yield named(f"owned-{index}", "v1", "Pod", {"metadata": metadata, "spec": CONTAINERS})


def _jobs() -> Iterator[Odd]:
    for index, spec in enumerate(_PIECES["job_specs"]):
        yield named(f"job-{index}", "batch/v1", "Job", {"spec": {"template": TEMPLATE, **spec}})
    many = {"template": TEMPLATE, "completionMode": "Indexed", "completions": 2**31 - 1, "parallelism": 1}
    for index, status in enumerate(_PIECES["job_statuses"]):
        yield named(f"job-status-{index}", "batch/v1", "Job", {"spec": many}, status)
    labels = (
        "jobset.sigs.k8s.io/job-index",
        "jobset.sigs.k8s.io/restart-attempt",
        "jobset.sigs.k8s.io/replicatedjob-name",
    )
    for (number, label), value in product(enumerate(labels), ("", "x", "99999999999999999999", "00")):
        metadata = {"labels": {label: value, "jobset.sigs.k8s.io/jobset-name": "odd-jobset-0"}}
        tree = {"metadata": metadata, "spec": {"template": TEMPLATE, "suspend": True}}
        yield named(f"job-label-{number}-{len(value)}", "batch/v1", "Job", tree)


def _job_sets() -> Iterator[Odd]:
    version, kind = "jobset.x-k8s.io/v1alpha2", "JobSet"
    jobs = [{"name": "r", "replicas": 1, "template": {"spec": {"template": TEMPLATE}}}]
    for index, spec in enumerate(_PIECES["jobset_specs"]):
        yield named(f"jobset-{index}", version, kind, {"spec": {"replicatedJobs": jobs, **spec}})
    for index, status in enumerate(_PIECES["jobset_statuses"]):
        tree = {"spec": {"replicatedJobs": jobs, "suspend": True}}
        yield named(f"jobset-status-{index}", version, kind, tree, status)
    none = [{**jobs[0], "replicas": 0}]
    yield named("jobset-none", version, kind, {"spec": {"replicatedJobs": none}})


def _nodes() -> Iterator[Odd]:
    for index, tree in enumerate(_PIECES["nodes"]):
        yield named(f"node-{index}", "v1", "Node", {"spec": {"unschedulable": True}, **tree})


def _budgets() -> Iterator[Odd]:
    for index, spec in enumerate(_PIECES["budgets"]):
        yield named(f"budget-{index}", "policy/v1", "PodDisruptionBudget", {"spec": spec})


def _others() -> Iterator[Odd]:
    for prefix, pieces in (("other", "others"), ("group", "groups"), ("training", "training"), ("cluster", "cluster")):
        for index, tree in enumerate(_PIECES[pieces]):
            rest = {field: value for field, value in tree.items() if field != "status"}
            yield named(f"{prefix}-{index}", tree["apiVersion"], tree["kind"], rest, tree.get("status"))


def _definitions() -> Iterator[Odd]:
    for index, spec in enumerate(_PIECES["definitions"]):
        name = f"{spec['names']['plural']}.{spec['group']}"
        tree = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
        yield Odd(f"definition-{index}", {**tree, "metadata": {"name": name}})


def _large() -> Iterator[Odd]:
    key = _ANNOTATIONS[0]
    digits = {"metadata": {"annotations": {key: "9" * 5_000}}, "spec": CONTAINERS}
    yield named("digits", "v1", "Pod", digits)
    yield named("long-text", "v1", "Pod", {"metadata": {"annotations": {key: "x" * 200_000}}, "spec": CONTAINERS})
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": f"p{i}", "uid": f"u{i}"} for i in range(10_000)]
    yield named("owners", "v1", "ConfigMap", {"metadata": {"ownerReferences": owners}})
    taints = [{"key": f"t{index}", "effect": "NoSchedule"} for index in range(5_000)]
    labels = {f"l{index}": "v" for index in range(5_000)}
    yield named("node-tainted", "v1", "Node", {"metadata": {"labels": labels}, "spec": {"taints": taints}})
    tolerations = [{"key": f"t{index}", "operator": "Exists"} for index in range(2_000)]
    yield named("tolerations", "v1", "Pod", {"spec": {**CONTAINERS, "tolerations": tolerations}})
    containers = [{"name": f"c{index}", "image": "i"} for index in range(1_000)]
    yield named("containers", "v1", "Pod", {"spec": {"containers": containers}})
    yield named("large-map", "v1", "ConfigMap", {"data": {f"k{index}": "v" * 100 for index in range(5_000)}})
    finalizers = [f"example.com/f{index}" for index in range(1_000)]
    yield named("finalizers", "v1", "ConfigMap", {"metadata": {"finalizers": finalizers}})
    budget = {"spec": {"minAvailable": "0" * 5_000 + "5%"}}
    yield named("budget-digits", "policy/v1", "PodDisruptionBudget", budget)


# -- requests ------------------------------------------------------------------------------------------------

_MAPS, _PODS, _TARGET = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods", "target"
_DEEP = '{"a":' * 5_000 + "1" + "}" * 5_000


def requests() -> list[OddRequest]:
    """They may change `configmaps/target` and `pods/target`, which exist."""
    return [*_bodies(), *_queries(), *_patches(), *_paths()]


def _bodies() -> Iterator[OddRequest]:
    bodies: list[Any] = [
        b"",
        b"{",
        b"}",
        b"[",
        b"[]",
        b"null",
        b"1",
        b'"x"',
        b"{}",
        b'{"a":',
        b"\xff\xfe",
        b"\x00",
        b'{"kind":1}',
        b'{"metadata":[]}',
        b'{"metadata":null}',
        b'{"metadata":{"name":null}}',
        b'{"metadata":{"name":{}}}',
        b'{"metadata":{"name":"a","labels":[]}}',
        b'{"metadata":{"name":"a","labels":{"a":1}}}',
        b'{"metadata":{"name":"a"},"data":{"a":"\\ud800"}}',
        b'{"a":1e999}',
        b'{"metadata":{"name":"a","generation":1e30}}',
        b'{"apiVersion":"v9"}',
        b'{"kind":"Pod"}',
        b'{"kind":"List","items":[{}]}',
        b'{"metadata":{"name":"A B"}}',
        b'{"metadata":{"name":"' + b"a" * 300 + b'"}}',
        b'{"metadata":{"namespace":"other","name":"a"}}',
        b'{"metadata":{"name":"a","deletionTimestamp":"x"}}',
        b'{"metadata":{"name":"a","ownerReferences":[null,{}]}}',
        b'{"metadata":{"name":"a","managedFields":[{"fieldsV1":1}]}}',
        b'{"metadata":{"name":"a","resourceVersion":"5"}}',
        b"9" * 5_000,
        b'{"a":' + b"9" * 5_000 + b"}",
        _DEEP,
        "[" * 5_000 + "]" * 5_000,
        '{"metadata":{"ownerReferences":[' + ",".join(["{}"] * 500_000) + "]}}",
        "[" + "1," * 1_400_000 + "1]",
    ]
    for index, body in enumerate(bodies):
        yield OddRequest(f"post-{index}", "POST", _MAPS, body)
        yield OddRequest(f"put-{index}", "PUT", f"{_MAPS}/{_TARGET}", body)
    texts = [
        "a: b: c",
        "\t",
        "&a [*a]",
        "a: &x [1]\nb: *x",
        "!!python/object:x {}",
        "- " * 3_000,
        "? ? ? ?",
        "%YAML 9\n---\n",
        "a: 2020-01-01",
        "metadata: {name: 1}",
        "metadata:\n  name: a\n  name: b",
        "...",
        "--- a\n--- b",
        "{a: 1, a: 2}",
        "x: [" + "1," * 1_400_000 + "1]",
    ]
    for index, text in enumerate(texts):
        yield OddRequest(f"yaml-{index}", "POST", _MAPS, text, "application/yaml")
    for index, type_ in enumerate(
        (
            "text/plain",
            "application/xml",
            "x",
            "application/json; charset=odd",
            ";",
            "application/vnd.kubernetes.protobuf",
        )
    ):
        yield OddRequest(f"type-{index}", "POST", _MAPS, b"k8s\x00\xff\xff", type_)


def _queries() -> Iterator[OddRequest]:
    numbers = ["-1", "abc", "1.5", "9" * 30, "9" * 5_000, "%C2%B2", "", "0x1", "+5", "NaN"]
    for name, value in product(("limit", "resourceVersion"), numbers):
        yield OddRequest(f"{name}-{value[:6]}-{len(value)}", "GET", f"{_PODS}?{name}={value}")
    for value in numbers:
        yield OddRequest(f"grace-{value[:6]}-{len(value)}", "DELETE", f"{_PODS}/none?gracePeriodSeconds={value}")
    queries = [
        "labelSelector=a%20in%20(",
        "labelSelector=%3D",
        "labelSelector=" + "a%2C" * 2_000,
        "labelSelector=a%20in%20()",
        "fieldSelector=x%3D1",
        "fieldSelector=metadata.name",
        "fieldSelector=%3D%3D",
        "continue=x",
        "continue=e30",
        "continue=" + "A" * 5_000,
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=Odd&resourceVersion=1",
        "resourceVersion=1&resourceVersionMatch=Exact&limit=1",
        "watch=1&resourceVersion=abc",
        "watch=1&sendInitialEvents=true",
        "watch=1&timeoutSeconds=x",
        "sendInitialEvents=1",
        "%ff=%fe",
        "=&&=",
        "watch=1&resourceVersion=99999999999999&timeoutSeconds=1",
    ]
    for index, query in enumerate(queries):
        yield OddRequest(f"query-{index}", "GET", f"{_PODS}?{query}")
    for index, query in enumerate(
        ("dryRun=x", "dryRun=All&dryRun=y", "fieldValidation=odd", "fieldManager=" + "m" * 500, "fieldManager=%00")
    ):
        yield OddRequest(f"write-{index}", "POST", f"{_MAPS}?{query}", {"metadata": {"name": f"w{index}"}})
    for index, body in enumerate(
        (
            "[]",
            "1",
            '{"gracePeriodSeconds":9223372036854775807}',
            '{"gracePeriodSeconds":"x"}',
            '{"propagationPolicy":"odd"}',
            '{"preconditions":{"uid":1}}',
            '{"kind":"Pod"}',
            _DEEP,
            '{"dryRun":["x"]}',
        )
    ):
        yield OddRequest(f"delete-{index}", "DELETE", f"{_PODS}/none", body)


def _patches() -> Iterator[OddRequest]:
    merges = [
        "1",
        "null",
        "[]",
        "{}",
        '{"metadata":null}',
        '{"metadata":{"name":"other"}}',
        '{"metadata":{"uid":"x"}}',
        '{"metadata":{"resourceVersion":1}}',
        '{"metadata":{"labels":1}}',
        '{"spec":null}',
        '{"spec":{"containers":[{}]}}',
        '{"spec":{"containers":null}}',
        '{"status":1}',
        _DEEP,
        '{"$patch":"odd"}',
        '{"$patch":"delete"}',
        '{"metadata":{"$retainKeys":1}}',
        '{"spec":{"$setElementOrder/containers":1}}',
        '{"spec":{"containers":[{"$patch":"delete"}]}}',
        '{"spec":{"$deleteFromPrimitiveList/x":{}}}',
        '{"metadata":{"finalizers":["x","x"]}}',
        '{"spec":{"tolerations":[{"tolerationSeconds":1e30}]}}',
        "[" + "1," * 1_000_000 + "1]",
    ]
    for (index, body), type_ in product(enumerate(merges), (MERGE, STRATEGIC, APPLY)):
        name = type_.split("/")[1].split("+")[0]
        path = f"{_PODS}/{_TARGET}" + ("?fieldManager=odd&force=true" if type_ == APPLY else "")
        yield OddRequest(f"{name}-{index}", "PATCH", path, body, type_)
    operations: list[Any] = [
        {},
        [],
        [{}],
        [1],
        [{"op": "odd"}],
        [{"op": "add"}],
        [{"op": "add", "path": 1}],
        [{"op": "add", "path": "x", "value": 1}],
        [{"op": "remove", "path": ""}],
        [{"op": "replace", "path": "", "value": []}],
        [{"op": "add", "path": "/metadata/labels/" + "~" * 100, "value": 1}],
        [{"op": "add", "path": "/spec/containers/" + "9" * 5_000, "value": 1}],
        [{"op": "add", "path": "/spec/containers/²", "value": 1}],
        [{"op": "test", "path": "/metadata/name", "value": {}}],
        [{"op": "move", "from": "/spec", "path": "/spec/x"}],
        [{"op": "copy", "from": "", "path": "/metadata/x"}] * 30,
        [{"op": "copy", "from": "/nope", "path": "/x"}],
        [{"op": "test", "path": "/a"}] * 20_000,
        [{"op": "add", "path": "/" + "a/" * 5_000, "value": 1}],
    ]
    for index, body in enumerate(operations):
        yield OddRequest(f"json-patch-{index}", "PATCH", f"{_PODS}/{_TARGET}", json.dumps(body), JSON_PATCH)


def _paths() -> Iterator[OddRequest]:
    paths = [
        "/api/v1/namespaces//pods",
        "/api/v1/namespaces/%2e%2e/pods",
        f"{_PODS}/%00",
        f"{_PODS}/a%2Fb",
        f"{_PODS}/" + "a" * 5_000,
        "/apis//",
        "/apis/x",
        "/apis/batch/v9/jobs",
        "/api/v2",
        "/openapi/v3/odd",
        "/%ff",
        f"{_PODS}/{_TARGET}/odd",
        f"{_PODS}/{_TARGET}/status/odd",
        "/..",
        "/api/v1/watch",
        f"{_MAPS}/{_TARGET}/status",
        "/api/v1/nodes/none/status",
    ]
    for (index, path), method in product(enumerate(paths), ("GET", "POST", "DELETE")):
        yield OddRequest(f"path-{index}-{method}", method, path, "{}" if method == "POST" else None)
    for method in ("HEAD", "OPTIONS", "TRACE", "ODD", "CONNECT"):
        yield OddRequest(f"method-{method}", method, _PODS)
    for index, body in enumerate(
        ("{}", '{"target":{}}', '{"target":{"name":"none"}}', '{"target":{"kind":"Pod","name":"x"}}', "[]", _DEEP)
    ):
        yield OddRequest(f"binding-{index}", "POST", f"{_PODS}/{_TARGET}/binding", body)
        yield OddRequest(f"eviction-{index}", "POST", f"{_PODS}/none/eviction", body)
