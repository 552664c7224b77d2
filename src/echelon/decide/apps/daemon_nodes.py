"""Which nodes a DaemonSet's pods belong on: node name, node selector, required affinity and taints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...api.objects.subtree import items, mapping
from ...api.scheme import Object
from ...api.views.cluster_views import NodeTaint, NodeView

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NODE = "node.kubernetes.io/"
_NODE_NAME = "metadata.name"
#: Of 64 bits.
_NUMBER = re.compile(r"-?[0-9]{1,19}")


def tolerations(template: Object) -> list[Object]:
    """Those of the template, and those that let a daemon stay where other pods may not."""
    automatic: list[Object] = [
        {"key": f"{_NODE}{key}", "operator": "Exists", "effect": "NoExecute"} for key in ("not-ready", "unreachable")
    ]
    pressures = ["disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"]
    if mapping(template, "spec").get("hostNetwork"):
        pressures.append("network-unavailable")
    automatic += [{"key": f"{_NODE}{key}", "operator": "Exists", "effect": "NoSchedule"} for key in pressures]
    written = items(template, "spec", "tolerations")
    return [*written, *(one for one in automatic if one not in written)]


def should_run(template: Object, node: NodeView) -> tuple[bool, bool]:
    """Whether a pod should be made on a node, and whether one that is there should stay."""
    spec = mapping(template, "spec")
    if spec.get("nodeName") not in (None, "", node.name):
        return False, False
    if any(node.labels.get(key) != value for key, value in mapping(spec, "nodeSelector").items()):
        return False, False
    required = mapping(spec, "affinity", "nodeAffinity").get(_REQUIRED)
    if required is not None and not any(_term(term, node) for term in items(required, "nodeSelectorTerms")):
        return False, False
    tolerated = tolerations(template)
    refusing = [taint for taint in node.spec.taints if not any(_tolerates(one, taint) for one in tolerated)]
    effects = {taint.effect for taint in refusing}
    return not effects & {"NoSchedule", "NoExecute"}, "NoExecute" not in effects


def _tolerates(toleration: Mapping[str, Any], taint: NodeTaint) -> bool:
    if toleration.get("effect") not in (None, "", taint.effect):
        return False
    key = toleration.get("key") or ""
    if key and key != taint.key:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == taint.value


def _term(term: Object, node: NodeView) -> bool:
    expressions, fields = items(term, "matchExpressions"), items(term, "matchFields")
    if not expressions and not fields:
        return False
    return all(_expression(one, node.labels) for one in expressions) and all(
        _expression(one, {_NODE_NAME: node.name}) for one in fields
    )


def _expression(one: Object, labels: Mapping[str, str]) -> bool:
    value = labels.get(one.get("key", ""))
    operator: str = one.get("operator") or ""
    values: list[str] = one.get("values") or []
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    bound, number = _number(values[0]) if values else None, _number(value)
    if bound is None or number is None:
        return False
    return number > bound if operator == "Gt" else number < bound


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None


def bound_to(spec: Object, node: str) -> Object:
    """The spec of a pod that only this node can take: its own affinity is replaced, which the node fulfils."""
    term = {"matchFields": [{"key": _NODE_NAME, "operator": "In", "values": [node]}]}
    affinity = {**mapping(spec, "affinity")}
    affinity["nodeAffinity"] = {**mapping(affinity, "nodeAffinity"), _REQUIRED: {"nodeSelectorTerms": [term]}}
    return {**spec, "affinity": affinity}


def node_of(pod: Object) -> str:
    """The node of a pod, also before it is bound."""
    spec = mapping(pod, "spec")
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    for term in items(spec, "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms"):
        for field in items(term, "matchFields"):
            if field.get("key") == _NODE_NAME and field.get("operator") == "In" and len(field.get("values") or ()) == 1:
                return str(field["values"][0])
    return ""
