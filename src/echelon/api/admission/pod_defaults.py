"""Pods: a grace period on failing nodes, and the label by which JobSets of equal priority keep apart."""

from __future__ import annotations

from ..objects.vocabulary import JOBSET_NAME, JOBSET_PRIORITY
from ..scheme import Object

#: How long a pod stays on a node that stops answering, unless it says otherwise.
UNREACHABLE_SECONDS = 300
_NODE_TROUBLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def tolerate_node_trouble(pod: Object) -> None:
    """Add the two tolerations every pod has, where it does not tolerate that taint already."""
    spec = pod.setdefault("spec", {})
    given = spec.get("tolerations") or []
    spec["tolerations"] = given + [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": UNREACHABLE_SECONDS}
        for key in _NODE_TROUBLE
        if not any(_tolerates(toleration, key) for toleration in given)
    ]


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def label_priority(pod: Object) -> None:
    """Every pod of a JobSet carries its priority as a label; a minus sign is no label value, so it becomes `n`."""
    meta = pod["metadata"]
    if JOBSET_NAME not in (meta.get("annotations") or {}) and JOBSET_NAME not in (meta.get("labels") or {}):
        return
    priority = pod["spec"].get("priority")
    if priority is not None:
        meta.setdefault("labels", {})[JOBSET_PRIORITY] = f"n{-priority}" if priority < 0 else str(priority)
