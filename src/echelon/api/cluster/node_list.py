"""Reads the nodes of a real cluster, as `kubectl get nodes -o yaml` or `-o json` prints them, to simulate them.

Kept are names, labels, taints, whether a node is cordoned, capacity and allocatable.  The state of the real node is
left out: a simulated node is ready.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from ...base import quantity
from ..objects import name_formats
from ..objects.vocabulary import HOSTNAME
from ..scheme import NODES, Object
from .pools import WELL_KNOWN_LEVELS, BadCluster, Cluster

#: Taints with this prefix come and go with the state of a node; cordoned nodes keep theirs.
_STATE_TAINTS = "node.kubernetes.io/"
_CORDONED = "node.kubernetes.io/unschedulable"
_OBJECTS = re.compile(r"^apiVersion:|\A\s*\{\s*\"apiVersion\"", re.MULTILINE)


def holds_objects(text: str) -> bool:
    """Whether a file has API objects rather than pools."""
    return _OBJECTS.search(text) is not None


def read(text: str, source: str) -> Cluster:
    """The nodes of a file; its levels are the well-known ones that any node has a label for."""
    nodes: dict[str, Object] = {}
    for entry, line in _entries(text, source):
        node = _node(entry, f"{source}:{line}")
        name = node["metadata"]["name"]
        if name in nodes:
            raise BadCluster(f"{source}:{line}: duplicate node {name!r}")
        nodes[name] = node
    if not nodes:
        raise BadCluster(f"{source}: contains no nodes")
    used = {key for node in nodes.values() for key in node["metadata"]["labels"]}
    return Cluster(tuple(level for level in WELL_KNOWN_LEVELS if level.key in used), (), tuple(nodes.values()))


def _entries(text: str, source: str) -> Iterator[tuple[Any, int]]:
    """Every object of the file, of lists too, with its line."""
    try:
        for root in yaml.compose_all(text, Loader=yaml.CSafeLoader):
            yield from _objects(root)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise BadCluster(f"{source}:{line}: not YAML: {error.problem}") from error


def _objects(root: yaml.Node | None) -> Iterator[tuple[Any, int]]:
    if root is None:
        return
    pairs = root.value if isinstance(root, yaml.MappingNode) else ()
    items = next((value for key, value in pairs if key.value == "items" and isinstance(value, yaml.SequenceNode)), None)
    if items is not None:
        for item in items.value:
            yield from _objects(item)
    else:
        yield yaml.CSafeLoader("").construct_document(root), root.start_mark.line + 1


def _node(entry: Any, place: str) -> Object:
    if not isinstance(entry, dict) or entry.get("kind") != NODES.kind:
        kind = entry.get("kind") if isinstance(entry, dict) else type(entry).__name__
        raise BadCluster(f"{place}: expected Node objects, found {kind}")
    metadata, spec, status = (_mapping(entry.get(key), f"{place}: {key}") for key in ("metadata", "spec", "status"))
    name = str(metadata.get("name") or "")
    problems = name_formats.dns1123_subdomain(name)
    if problems:
        raise BadCluster(f"{place}: metadata.name: {problems[0]}")
    labels = {str(key): str(value) for key, value in _mapping(metadata.get("labels"), f"{place}: labels").items()}
    capacity = _amounts(status, "capacity", place)
    taints = [dict(taint) for taint in spec.get("taints") or () if _is_kept(taint, place)]
    kept: Object = (
        {"taints": [{key: taint[key] for key in taint if key != "timeAdded"} for taint in taints]} if taints else {}
    )
    if spec.get("unschedulable"):
        kept["unschedulable"] = True
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": {"name": name, "labels": {HOSTNAME: name} | labels},
        "spec": kept,
        "status": {"capacity": capacity, "allocatable": _amounts(status, "allocatable", place) or capacity},
    }


def _is_kept(taint: Any, place: str) -> bool:
    key = str(_mapping(taint, f"{place}: spec.taints").get("key") or "")
    return key == _CORDONED or not key.startswith(_STATE_TAINTS)


def _amounts(status: dict[str, Any], field: str, place: str) -> dict[str, str]:
    amounts: dict[str, str] = {}
    for key, value in _mapping(status.get(field), f"{place}: status.{field}").items():
        try:
            quantity.parse(str(value))
        except ValueError as error:
            raise BadCluster(f"{place}: status.{field}.{key}: {value!r} is not a quantity: {error}") from error
        amounts[str(key)] = quantity.canonical(str(value))
    if field == "capacity" and not amounts:
        raise BadCluster(f"{place}: status.capacity is missing")
    return amounts


def _mapping(value: Any, place: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadCluster(f"{place}: must be a mapping of keys to values")
    return value
