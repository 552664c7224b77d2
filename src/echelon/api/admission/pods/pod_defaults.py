"""Pod defaults: tolerations for failing nodes, and the priority label of JobSet pods."""

from __future__ import annotations

from ...objects.vocabulary import JOBSET_NAME, JOBSET_PRIORITY
from ...scheme import Object
from .exclusive_placement import priority_label

#: Default tolerationSeconds for nodes that are not ready or unreachable.
UNREACHABLE_SECONDS = 300
_FAILING_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def tolerate_failing_nodes(pod: Object) -> None:
    """Add the two default tolerations, unless the pod already tolerates the taint."""
    spec = pod.setdefault("spec", {})
    given = spec.get("tolerations") or []
    spec["tolerations"] = given + [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": UNREACHABLE_SECONDS}
        for key in _FAILING_NODE_TAINTS
        if not any(_tolerates(toleration, key) for toleration in given)
    ]


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def label_priority(pod: Object) -> None:
    """Label pods of a JobSet with their priority."""
    meta = pod["metadata"]
    if JOBSET_NAME not in (meta.get("annotations") or {}) and JOBSET_NAME not in (meta.get("labels") or {}):
        return
    priority = pod["spec"].get("priority")
    if priority is not None:
        meta.setdefault("labels", {})[JOBSET_PRIORITY] = priority_label(priority)
