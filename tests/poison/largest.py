"""Objects of the largest allowed size, one per part of an object that can be long, and the writes that are timed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from .corpus import APPLY, CONTAINERS, JSON_PATCH, MERGE, STRATEGIC, TEMPLATE, Odd, Tree, collection, named
from .plane import Connection

#: Bytes of JSON, a little less than is accepted.
_BYTES = 1_400_000
#: Values, a little fewer than are accepted; containers, ports and the like grow when defaults are set.
_VALUES = 115_000


def _many(make: Callable[[int], Any], bytes_: int = _BYTES) -> list[Any]:
    """As many entries as fit into an object."""
    size, values = len(json.dumps(make(10_000))) + 1, 1 + _values(make(10_000))
    return [make(index) for index in range(min(_VALUES // values, bytes_ // size))]


def _pairs(make: Callable[[int], tuple[str, Any]], bytes_: int = _BYTES) -> Tree:
    return dict(_many(make, bytes_))


def _values(tree: Any) -> int:
    """Entries of all lists and objects in a tree."""
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return len(parts) + sum(map(_values, parts))


def largest() -> Iterator[Odd]:
    yield from _metadata()
    yield from _pods()
    yield from _jobs()
    yield from _cluster_kinds()


def _metadata() -> Iterator[Odd]:
    def config_map(id_: str, metadata: Tree) -> Odd:
        return named(id_, "v1", "ConfigMap", {"metadata": metadata})

    text = "v" * 250_000
    yield config_map("largest-labels", {"labels": _pairs(lambda i: (f"label{i}", "v"))})
    yield config_map("largest-annotations", {"annotations": _pairs(lambda i: (f"a{i}", ""), 250_000)})
    yield config_map("largest-annotation", {"annotations": {"a": text}})
    yield config_map("largest-finalizers", {"finalizers": _many(lambda i: f"example.com/f{i}")})
    owner = {"apiVersion": "v1", "kind": "Pod"}
    yield config_map("largest-owners", {"ownerReferences": _many(lambda i: {**owner, "name": "p", "uid": f"u{i}"})})
    data = _pairs(lambda i: (f"k{i}", "v"))
    yield named("largest-keys", "v1", "ConfigMap", {"data": data})
    yield named("largest-value", "v1", "ConfigMap", {"data": {"k": "v" * 1_000_000}})
    yield named("largest-secret", "v1", "Secret", {"data": _pairs(lambda i: (f"k{i}", "dg=="))})
    yield named("largest-strings", "v1", "Secret", {"stringData": _pairs(lambda i: (f"k{i}", "v"))})


def _pods() -> Iterator[Odd]:
    def pod(id_: str, spec: Tree) -> Odd:
        return named(f"largest-{id_}", "v1", "Pod", {"spec": {**CONTAINERS, **spec}})

    def container(**fields: Any) -> list[Tree]:
        return [{"name": "c", "image": "i", **fields}]

    yield pod("tolerations", {"tolerations": _many(lambda i: {"key": f"t{i}", "operator": "Exists"})})
    yield pod("containers", {"containers": _many(lambda i: {"name": f"c{i}", "image": "i"}, 250_000)})
    init = _many(lambda i: {"name": f"i{i}", "image": "i"}, 250_000)
    yield pod("init-containers", {"initContainers": init})
    yield pod("env", {"containers": container(env=_many(lambda i: {"name": f"E{i}", "value": "v"}))})
    yield pod("args", {"containers": container(args=_many(lambda i: f"a{i}"))})
    yield pod("ports", {"containers": container(ports=_many(lambda i: {"containerPort": i % 60_000 + 1}, 700_000))})
    mounts = _many(lambda i: {"name": f"v{i}", "mountPath": f"/m{i}"}, 700_000)
    volumes = [{"name": mount["name"], "emptyDir": {}} for mount in mounts]
    yield pod("volumes", {"volumes": volumes, "containers": container(volumeMounts=mounts)})
    requests = _pairs(lambda i: (f"example.com/r{i}", "1"), 600_000)
    yield pod("resources", {"containers": container(resources={"limits": requests})})
    yield pod("gates", {"schedulingGates": _many(lambda i: {"name": f"g{i}"})})
    yield pod("node-selector", {"nodeSelector": _pairs(lambda i: (f"s{i}", "v"))})
    expressions = _many(lambda i: {"key": f"k{i}", "operator": "In", "values": ["a", "b"]})
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = _many(lambda i: {"matchExpressions": [{"key": f"k{i}", "operator": "In", "values": ["a", "b"]}]})
    yield pod("node-terms", {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}}})
    term = [{"matchExpressions": expressions}]
    yield pod("node-expressions", {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": term}}}})
    values = [{"matchExpressions": [{"key": "k", "operator": "In", "values": _many(lambda i: f"v{i}")}]}]
    yield pod("node-values", {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": values}}}})

    def pod_term(index: int) -> Tree:
        return {"topologyKey": f"t{index}", "labelSelector": {"matchLabels": {"a": "b"}}}

    yield pod("pod-affinity", {"affinity": {"podAffinity": {required: _many(pod_term)}}})
    yield pod("pod-anti-affinity", {"affinity": {"podAntiAffinity": {required: _many(pod_term)}}})

    def spread(index: int) -> Tree:
        return {"maxSkew": 1, "topologyKey": f"t{index}", "whenUnsatisfiable": "DoNotSchedule"}

    yield pod("spread", {"topologySpreadConstraints": _many(spread)})
    yield pod("pull-secrets", {"imagePullSecrets": _many(lambda i: {"name": f"s{i}"})})
    aliases = _many(lambda i: {"ip": "10.0.0.1", "hostnames": [f"h{i}"]})
    yield pod("host-aliases", {"hostAliases": aliases})


def _jobs() -> Iterator[Odd]:
    containers = _many(lambda i: {"name": f"c{i}", "image": "i"}, 200_000)
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    yield named("largest-job", "batch/v1", "Job", {"spec": {"template": template, "suspend": True}})
    uncounted = {"uncountedTerminatedPods": {"succeeded": _many(lambda i: f"uid-{i}")}}
    yield named("largest-uncounted", "batch/v1", "Job", {"spec": {"template": TEMPLATE, "suspend": True}}, uncounted)
    indexes = {"completedIndexes": ",".join(str(index) for index in range(0, 200_000, 2))}
    spec = {"template": TEMPLATE, "suspend": True, "completionMode": "Indexed", "completions": 250_000}
    yield named("largest-indexes", "batch/v1", "Job", {"spec": spec}, indexes)
    set_version, job = "jobset.x-k8s.io/v1alpha2", {"spec": {"template": TEMPLATE}}
    jobs = [{"name": f"r{index}", "replicas": 1, "template": job} for index in range(1_900)]
    yield named("largest-jobset", set_version, "JobSet", {"spec": {"replicatedJobs": jobs, "suspend": True}})
    running = {"spec": {"template": template, "parallelism": 3, "completions": 3}}
    yield named("largest-running-job", "batch/v1", "Job", running)
    labels = _pairs(lambda i: (f"l{i}", "v"))
    trainer = {"runtimeRef": {"name": "torch-distributed"}, "suspend": True}
    tree = {"metadata": {"labels": labels}, "spec": trainer}
    yield named("largest-trainjob", "trainer.kubeflow.org/v1alpha1", "TrainJob", tree)


def _cluster_kinds() -> Iterator[Odd]:
    taints = _many(lambda i: {"key": f"t{i}", "effect": "NoSchedule"})
    yield named("largest-taints", "v1", "Node", {"spec": {"taints": taints, "unschedulable": True}})
    labels = _pairs(lambda i: (f"l{i}", "v"))
    yield named("largest-node-labels", "v1", "Node", {"metadata": {"labels": labels}})
    capacity = _pairs(lambda i: (f"example.com/r{i}", "1"), 600_000)
    conditions = _many(lambda i: {"type": f"T{i}", "status": "True"})
    yield named("largest-capacity", "v1", "Node", {}, {"capacity": capacity})
    yield named("largest-conditions", "v1", "Node", {}, {"conditions": conditions})
    rules = _many(lambda i: {"apiGroups": [""], "resources": [f"r{i}"], "verbs": ["get"]})
    yield named("largest-rules", "rbac.authorization.k8s.io/v1", "ClusterRole", {"rules": rules})
    subjects = _many(lambda i: {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": f"u{i}"})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    binding = {"subjects": subjects, "roleRef": role}
    yield named("largest-subjects", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", binding)
    expressions = _many(lambda i: {"key": f"k{i}", "operator": "Exists"})
    budget = {"minAvailable": 1, "selector": {"matchExpressions": expressions}}
    yield named("largest-selector", "policy/v1", "PodDisruptionBudget", {"spec": budget})
    ports = _many(lambda i: {"name": f"p{i}", "port": i % 60_000 + 1}, 500_000)
    yield named("largest-ports", "v1", "Service", {"spec": {"ports": ports, "selector": {"a": "b"}}})


def writes(connection: Connection, odd: Odd) -> Iterator[tuple[str, Callable[[], int]]]:
    """What is done with a largest object, one after the other: the name of the step, and the call that does it."""
    path, name = collection(odd.obj), odd.obj["metadata"]["name"]
    one, body = f"{path}/{name}", json.dumps(odd.obj).encode()
    yield "create", lambda: connection("POST", path, body).code
    if odd.status is not None:
        status = json.dumps({"status": odd.status}).encode()
        yield "status", lambda: connection("PATCH", f"{one}/status", status, MERGE).code
    yield "get", lambda: connection("GET", one).code
    yield "list", lambda: connection("GET", path).code
    change = {"metadata": {"labels": {"changed": "1"}}}
    yield "merge", lambda: connection("PATCH", one, change, MERGE).code
    if "echelon" not in odd.obj["apiVersion"]:
        yield "strategic", lambda: connection("PATCH", one, {"metadata": {"labels": {"changed": "2"}}}, STRATEGIC).code
    operations = [{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}]
    yield "json", lambda: connection("PATCH", one, operations, JSON_PATCH).code
    yield "put", lambda: connection("PUT", one, connection("GET", one).body).code
    yield "apply", lambda: connection("PATCH", f"{one}?fieldManager=m&force=true", body, APPLY).code
    yield "apply again", lambda: connection("PATCH", f"{one}?fieldManager=m&force=true", body, APPLY).code
    yield "merge after apply", lambda: connection("PATCH", one, {"metadata": {"labels": {"changed": "3"}}}, MERGE).code
    yield "strict", lambda: connection("PUT", f"{one}?fieldValidation=Strict", connection("GET", one).body).code
    gone = {"metadata": {"finalizers": None}}
    yield "delete", lambda: connection("DELETE", f"{one}?gracePeriodSeconds=0").code
    yield "finalize", lambda: connection("PATCH", one, gone, MERGE).code
    apply = f"{one}-applied?fieldManager=m&force=true"
    applied = json.dumps({**odd.obj, "metadata": {**odd.obj["metadata"], "name": f"{name}-applied"}}).encode()
    yield "apply new", lambda: connection("PATCH", apply, applied, APPLY).code
    yield "delete applied", lambda: connection("DELETE", f"{one}-applied?gracePeriodSeconds=0").code
