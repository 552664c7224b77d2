"""Sets default values, as kube-apiserver does before storing.

Each definition is compiled once into a function that changes one tree in place: first constants (from the schemas and
from data/defaults.yaml), then the defaults that depend on other fields (the functions below), then the children.

Custom kinds only get the defaults of their own schema, and inside native types those of the published schemas.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from ..scheme import Object
from . import definitions
from .decoding import copy_tree
from .definitions import Schema

Filler = Callable[[Any], None]


@cache
def filler(name: str, *, custom: bool = False) -> Filler:
    """The function that sets the defaults of an object of this definition, in place."""
    compiled: list[Filler] = []

    def fill(obj: Any) -> None:
        if not compiled:
            compiled.append(_compile(name, custom))
        compiled[0](obj)

    return fill


def _compile(name: str, custom: bool) -> Filler:
    return _struct(definitions.lookup(name), custom, native=definitions.is_native(name), name=name)


def _struct(schema: Schema, custom: bool, *, native: bool, name: str = "") -> Filler:
    scalars, trees = schema_defaults(schema, custom, native)
    if not custom:
        overlay = definitions.constant_defaults().get(name, {})
        scalars |= {field: value for field, value in overlay.items() if not isinstance(value, dict)}
        trees |= {field: value for field, value in overlay.items() if isinstance(value, dict)}
    derive = None if custom else _DERIVED.get(name)
    children = [
        (field, child)
        for field, inner in schema.get("properties", {}).items()
        if (child := _child(inner, custom, native)) is not None
    ]

    def fill(obj: Any) -> None:
        if type(obj) is not dict:
            return
        for field, value in scalars.items():
            if field not in obj:
                obj[field] = value
        for field, tree in trees.items():
            if field not in obj:
                obj[field] = copy_tree(tree)
        if derive is not None:
            derive(obj)
        for field, child in children:
            inner = obj.get(field)
            if inner is not None:
                child(inner)

    return fill


def schema_defaults(schema: Schema, custom: bool, native: bool) -> tuple[Object, Object]:
    """The defaults in the schema that apply: scalars, and trees that must be copied."""
    scalars: Object = {}
    trees: Object = {}
    for field, inner in schema.get("properties", {}).items():
        if "default" not in inner:
            continue
        value = inner["default"]
        if isinstance(value, (dict, list)):
            # Go always writes embedded structs as {}; published schemas of custom kinds do not mention them.
            if not (custom and native):
                trees[field] = value
        elif custom and native:
            # Published schemas of custom kinds leave out zeros.
            if value:
                scalars[field] = value
        elif custom or value or inner.get("x-written"):
            scalars[field] = value
    return scalars, trees


def _child(schema: Schema, custom: bool, native: bool) -> Filler | None:
    if "$ref" in schema:
        name = schema["$ref"]
        return filler(name, custom=custom) if _has_defaults(name, custom) else None
    if "properties" in schema:
        return _struct(schema, custom, native=native)
    if "items" in schema:
        return _each_item(_child(schema["items"], custom, native))
    if isinstance(schema.get("additionalProperties"), dict):
        return _each_value(_child(schema["additionalProperties"], custom, native))
    return None


def _each_item(child: Filler | None) -> Filler | None:
    if child is None:
        return None

    def fill(items: Any) -> None:
        if type(items) is list:
            for item in items:
                child(item)

    return fill


def _each_value(child: Filler | None) -> Filler | None:
    if child is None:
        return None

    def fill(entries: Any) -> None:
        if type(entries) is dict:
            for item in entries.values():
                child(item)

    return fill


@cache
def _has_defaults(name: str, custom: bool) -> bool:
    """Whether this definition or one below it has a default; others are skipped."""
    seen: dict[str, None] = {}
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen[current] = None
        schema = definitions.lookup(current)
        native = definitions.is_native(current)
        if any(any(schema_defaults(struct, custom, native)) for struct in _structs(schema)):
            return True
        if not custom and (current in definitions.constant_defaults() or current in _DERIVED):
            return True
        waiting += definitions.references(schema)
    return False


def _structs(schema: Schema) -> Iterator[Schema]:
    """A schema and the schemas nested in it, without following references."""
    yield schema
    for inner in schema.get("properties", {}).values():
        yield from _structs(inner)
    for holder in ("items", "additionalProperties"):
        if isinstance(schema.get(holder), dict):
            yield from _structs(schema[holder])


def _pull_policy(image: str) -> str:
    """Images without a tag or with `latest` are pulled each time; a digest pins them."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rsplit("/", 1)[-1].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _container(container: Object) -> None:
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = _pull_policy(container.get("image", ""))


def _volume(volume: Object) -> None:
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}
    image = volume.get("image")
    if image is not None and "pullPolicy" not in image:
        image["pullPolicy"] = _pull_policy(image.get("reference", ""))


def _pod(pod: Object) -> None:
    spec = pod["spec"]
    spec.setdefault("enableServiceLinks", True)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        resources = container.get("resources") or {}
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **resources.get("requests", {})}
        if spec.get("hostNetwork"):
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port.get("containerPort", 0))


def _namespace(namespace: Object) -> None:
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata.setdefault("labels", {}).setdefault("kubernetes.io/metadata.name", metadata["name"])


def _node_status(status: Object) -> None:
    if "allocatable" not in status and "capacity" in status:
        status["allocatable"] = dict(status["capacity"])


def _secret(secret: Object) -> None:
    """`stringData` is write-only: it is moved into `data`."""
    for key, text in secret.pop("stringData", {}).items():
        secret.setdefault("data", {})[key] = binascii.b2a_base64(text.encode(), newline=False).decode()


def _service_spec(spec: Object) -> None:
    for port in spec.get("ports", ()):
        port.setdefault("targetPort", port.get("port", 0))
    if spec.get("sessionAffinity") == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {})
        config.setdefault("clientIP", {}).setdefault("timeoutSeconds", 3 * 60 * 60)
    else:
        spec.pop("sessionAffinityConfig", None)
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")


_JOB_CONSTANTS = {"completionMode": "NonIndexed", "suspend": False, "manualSelector": False}


def _job_spec(spec: Object) -> None:
    """Only of a Job: a CronJob keeps its template as it is written."""
    for field, value in _JOB_CONSTANTS.items():
        spec.setdefault(field, value)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")


def _job(job: Object) -> None:
    """A Job without labels takes those of its template."""
    _job_spec(job["spec"])
    labels = job["spec"].get("template", {}).get("metadata", {}).get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def _deployment_strategy(strategy: Object) -> None:
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")


def _daemon_set_strategy(strategy: Object) -> None:
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)


def _stateful_set_strategy(strategy: Object) -> None:
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})


def _replication_controller(controller: Object) -> None:
    """Selector and labels are those of the template where there are none."""
    labels = ((controller["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not controller["spec"].get("selector"):
            controller["spec"]["selector"] = dict(labels)
        if not controller["metadata"].get("labels"):
            controller["metadata"]["labels"] = dict(labels)


_CORE = "io.k8s.api.core.v1."
_APPS = "io.k8s.api.apps.v1."
#: Defaults that depend on other fields, by definition; run after the constants and before the children.
_DERIVED: dict[str, Filler] = {
    _CORE + "Container": _container,
    _CORE + "EphemeralContainer": _container,
    _CORE + "Volume": _volume,
    _CORE + "Pod": _pod,
    _CORE + "Namespace": _namespace,
    _CORE + "NodeStatus": _node_status,
    _CORE + "Secret": _secret,
    _CORE + "ServiceSpec": _service_spec,
    _CORE + "ReplicationController": _replication_controller,
    _APPS + "DeploymentStrategy": _deployment_strategy,
    _APPS + "DaemonSetUpdateStrategy": _daemon_set_strategy,
    _APPS + "StatefulSetUpdateStrategy": _stateful_set_strategy,
    "io.k8s.api.batch.v1.Job": _job,
}
