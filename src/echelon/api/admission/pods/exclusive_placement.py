"""Exclusive placement by schedulers other than ours: affinity for the leader of a Job, its domain for the followers.

    pod of index 0     ─► affinity to its own Job, anti-affinity to other Jobs of its priority
    pods of the others ─► a node selector for the leader's domain; refused until the leader has one

Pods in a group come together and have one domain by their group, so all of them get the affinity at once.  Our own
scheduler knows from the group that it has its domain for itself; such pods are left alone.
"""

from __future__ import annotations

from typing import Any

from ...errors import ApiError, forbidden
from ...group_kinds import group_of
from ...objects import meta
from ...objects.subtree import mapping
from ...objects.vocabulary import (
    COMPLETION_INDEX,
    JOBSET_EXCLUSIVE_TOPOLOGY,
    JOBSET_JOB_KEY,
    JOBSET_NAME,
    JOBSET_NODE_SELECTOR,
    JOBSET_PRIORITY,
    OUR_SCHEDULERS,
)
from ...scheme import NODES, PODS, Object
from ..reader import Reader

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TRANSIENT = "this is an expected, transient error"


def domain_key(pod: Object) -> str:
    """The topology key of which a pod's Job has a domain for itself, unless nodes are labelled for that; else ""."""
    annotations = meta.annotations(pod)
    if JOBSET_NAME not in annotations or JOBSET_NODE_SELECTOR in annotations:
        return ""
    return annotations.get(JOBSET_EXCLUSIVE_TOPOLOGY, "")


def is_grouped(pod: Object) -> bool:
    return bool(group_of(pod))


def is_leader(pod: Object) -> bool:
    return meta.annotations(pod).get(COMPLETION_INDEX) == "0"


def priority_label(priority: int) -> str:
    """A priority as a label value; `-` is not valid there and becomes `n`."""
    return f"n{-priority}" if priority < 0 else str(priority)


def add_affinity(spec: Object, key: str, job: str, priority: str) -> None:
    """Near pods of the own Job, away from those of other Jobs of the same priority; other terms are kept."""
    own = {"key": JOBSET_JOB_KEY, "operator": "In", "values": [job]}
    others = [
        {"key": JOBSET_JOB_KEY, "operator": "Exists"},
        {"key": JOBSET_JOB_KEY, "operator": "NotIn", "values": [job]},
        {"key": JOBSET_PRIORITY, "operator": "In", "values": [priority]},
    ]
    affinity = spec.setdefault("affinity", {})
    for kind, expressions in (("podAffinity", [own]), ("podAntiAffinity", others)):
        term = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": key, "namespaceSelector": {}}
        terms: list[Any] = affinity.setdefault(kind, {}).setdefault(_REQUIRED, [])
        terms.append(term)


def complete(pod: Object, reader: Reader) -> None:
    """Add what a pod of an exclusive Job needs; `ApiError` for a follower that has nowhere to follow to."""
    key = domain_key(pod)
    if not key or (is_grouped(pod) and pod["spec"].get("schedulerName") in OUR_SCHEDULERS):
        return
    if is_grouped(pod) or is_leader(pod):
        labels = meta.labels(pod)
        add_affinity(pod["spec"], key, labels.get(JOBSET_JOB_KEY, ""), labels.get(JOBSET_PRIORITY, ""))
        return
    leader = _leader(pod, reader)
    pod["spec"].setdefault("nodeSelector", {})[key] = _domain(pod, leader, key, reader)


def _leader(pod: Object, reader: Reader) -> Object:
    """The leader that a pod follows; the first thing to be missing is what it is told."""
    name, owner = _leader_name(pod), meta.controller_of(pod)
    found = [
        other
        for other in reader.list(PODS, meta.namespace(pod))
        if _stem(other) == name and is_leader(other) and not meta.deleting(other) and not _ended(other)
    ]
    if len(found) != 1:
        raise _refused(pod, f"expected 1 leader pod ({name}), but got {len(found)}. {_TRANSIENT}")
    whose = meta.controller_of(found[0])
    mine, other = (one["uid"] if one else "" for one in (owner, whose))
    if mine != other:
        raise _refused(pod, f"follower pod owner UID ({mine}) != leader pod owner UID ({other})")
    if not mapping(found[0], "spec").get("nodeName"):
        raise _refused(pod, f"leader pod not yet scheduled, not creating follower pod. {_TRANSIENT}")
    return found[0]


def _domain(pod: Object, leader: Object, key: str, reader: Reader) -> str:
    name: str = leader["spec"]["nodeName"]
    node = reader.get(NODES, name)
    if node is None:
        raise _refused(pod, f"the node {name} of the leader pod {meta.name(leader)} does not exist")
    value: str = meta.labels(node).get(key, "")
    if not value:
        raise _refused(pod, f"the node {name} of the leader pod {meta.name(leader)} has no label {key}")
    return value


def _leader_name(pod: Object) -> str:
    """`<jobset>-<replicated job>-<job index>-0`: the name of the Job and the index of the leader."""
    owner = meta.controller_of(pod)
    return f"{owner['name']}-0" if owner else ""


def _stem(pod: Object) -> str:
    """A pod's name without its random end."""
    return meta.name(pod).rpartition("-")[0]


def _ended(pod: Object) -> bool:
    return mapping(pod, "status").get("phase") in ("Succeeded", "Failed")


def _refused(pod: Object, detail: str) -> ApiError:
    return forbidden(PODS, meta.name(pod), detail)
