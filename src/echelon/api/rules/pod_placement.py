"""Rules of scheduling fields: node selectors, tolerations, taints, affinity, spread, gates, groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import FieldError, forbidden_field, invalid, not_supported, required
from . import fields, metadata

EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")
NODE_OPERATORS = ("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn")
LABEL_OPERATORS = ("DoesNotExist", "Exists", "In", "NotIn")
UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Part = Mapping[str, Any]


def check(path: str, spec: Part) -> list[FieldError]:
    """Every placement field of a pod spec."""
    affinity: Part = spec.get("affinity") or {}
    return [
        *metadata.check_labels(f"{path}.nodeSelector", spec.get("nodeSelector")),
        *tolerations(f"{path}.tolerations", spec.get("tolerations") or ()),
        *_node_affinity(f"{path}.affinity.nodeAffinity", affinity.get("nodeAffinity") or {}),
        *_pod_affinity(f"{path}.affinity.podAffinity", affinity.get("podAffinity") or {}),
        *_pod_affinity(f"{path}.affinity.podAntiAffinity", affinity.get("podAntiAffinity") or {}),
        *_spread(f"{path}.topologySpreadConstraints", spec.get("topologySpreadConstraints") or ()),
        *_gates(path, spec),
        *_group(f"{path}.schedulingGroup", spec.get("schedulingGroup")),
    ]


def tolerations(path: str, items: Sequence[Part]) -> list[FieldError]:
    problems: list[FieldError] = []
    for index, item in enumerate(items):
        where = f"{path}[{index}]"
        key, operator, effect = item.get("key", ""), item.get("operator", "Equal"), item.get("effect", "")
        problems += fields.optional(f"{where}.key", key, fields.label_key)
        if not key and operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            problems.append(invalid(f"{where}.operator", operator, detail))
        if "tolerationSeconds" in item and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            problems.append(invalid(f"{where}.effect", effect, detail))
        if operator == "Exists" and item.get("value"):
            problems.append(
                invalid(f"{where}.operator", item["value"], "value must be empty when `operator` is 'Exists'")
            )
        elif operator == "Equal":
            problems += fields.label_value(f"{where}.operator", item.get("value", ""))
        problems += fields.one_of(f"{where}.operator", operator, ("Equal", "Exists"))
        if effect:
            problems += fields.one_of(f"{where}.effect", effect, EFFECTS)
    return problems


def taints(path: str, items: Sequence[Part]) -> list[FieldError]:
    problems: list[FieldError] = []
    seen: dict[tuple[Any, Any], int] = {}
    for index, item in enumerate(items):
        where = f"{path}[{index}]"
        problems += fields.needed(f"{where}.key", item.get("key"), fields.label_key)
        problems += fields.label_value(f"{where}.value", item.get("value", ""))
        if not item.get("effect"):
            problems.append(required(f"{where}.effect"))
        else:
            problems += fields.one_of(f"{where}.effect", item["effect"], EFFECTS)
        if seen.setdefault((item.get("key"), item.get("effect")), index) != index:
            problems.append(
                FieldError(
                    "FieldValueDuplicate", where, "Duplicate value: taints must be unique by key and effect pair"
                )
            )
    return problems


def requirement(path: str, item: Part, operators: Sequence[str]) -> list[FieldError]:
    """One expression of a selector: the operator determines the number of values."""
    problems = fields.needed(f"{path}.key", item.get("key"), fields.label_key)
    operator, values = item.get("operator", ""), item.get("values") or ()
    if operator not in operators:
        return [*problems, not_supported(f"{path}.operator", operator, operators)]
    if operator in ("In", "NotIn") and not values:
        problems.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist") and values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        problems.append(forbidden_field(f"{path}.values", detail))
    elif operator in ("Gt", "Lt") and len(values) != 1:
        problems.append(required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    return problems


def label_selector(path: str, selector: Part | None) -> list[FieldError]:
    selector = selector or {}
    problems = metadata.check_labels(f"{path}.matchLabels", selector.get("matchLabels"))
    for index, item in enumerate(selector.get("matchExpressions") or ()):
        problems += requirement(f"{path}.matchExpressions[{index}]", item, LABEL_OPERATORS)
    return problems


def _term(path: str, term: Part) -> list[FieldError]:
    problems: list[FieldError] = []
    for field in ("matchExpressions", "matchFields"):
        for index, item in enumerate(term.get(field) or ()):
            problems += requirement(f"{path}.{field}[{index}]", item, NODE_OPERATORS)
    return problems


def node_selector(path: str, selector: Part) -> list[FieldError]:
    """Node selector terms, of which a node must match one."""
    where, terms = f"{path}.nodeSelectorTerms", selector.get("nodeSelectorTerms") or ()
    if not terms:
        return [required(where, "must have at least one node selector term")]
    return [problem for index, term in enumerate(terms) for problem in _term(f"{where}[{index}]", term)]


def _node_affinity(path: str, affinity: Part) -> list[FieldError]:
    problems: list[FieldError] = []
    if _REQUIRED in affinity:
        problems += node_selector(f"{path}.{_REQUIRED}", affinity[_REQUIRED])
    for index, item in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{path}.{_PREFERRED}[{index}]"
        problems += _weight(f"{where}.weight", item.get("weight", 0))
        problems += _term(f"{where}.preference", item.get("preference") or {})
    return problems


def _pod_affinity(path: str, affinity: Part) -> list[FieldError]:
    problems: list[FieldError] = []
    for index, term in enumerate(affinity.get(_REQUIRED) or ()):
        problems += _pod_term(f"{path}.{_REQUIRED}[{index}]", term)
    for index, item in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{path}.{_PREFERRED}[{index}]"
        problems += _weight(f"{where}.weight", item.get("weight", 0))
        problems += _pod_term(f"{where}.podAffinityTerm", item.get("podAffinityTerm") or {})
    return problems


def _weight(path: str, weight: int) -> list[FieldError]:
    return [] if 1 <= weight <= 100 else [invalid(path, weight, "must be in the range 1-100")]


def _pod_term(path: str, term: Part) -> list[FieldError]:
    problems = label_selector(f"{path}.labelSelector", term.get("labelSelector"))
    problems += label_selector(f"{path}.namespaceSelector", term.get("namespaceSelector"))
    if not term.get("topologyKey"):
        return [*problems, required(f"{path}.topologyKey", "can not be empty")]
    return problems + fields.label_key(f"{path}.topologyKey", term["topologyKey"])


def _spread(path: str, items: Sequence[Part]) -> list[FieldError]:
    problems: list[FieldError] = []
    for index, item in enumerate(items):
        where = f"{path}[{index}]"
        if item.get("maxSkew", 0) <= 0:
            problems.append(invalid(f"{where}.maxSkew", item.get("maxSkew", 0), "must be greater than zero"))
        if not item.get("topologyKey"):
            problems.append(required(f"{where}.topologyKey", "can not be empty"))
        else:
            problems += fields.label_key(f"{where}.topologyKey", item["topologyKey"])
        problems += fields.one_of(f"{where}.whenUnsatisfiable", item.get("whenUnsatisfiable", ""), UNSATISFIABLE)
        problems += label_selector(f"{where}.labelSelector", item.get("labelSelector"))
    return problems


def _gates(path: str, spec: Part) -> list[FieldError]:
    gates = spec.get("schedulingGates") or ()
    problems = fields.unique(f"{path}.schedulingGates", gates)
    for index, gate in enumerate(gates):
        problems += fields.needed(f"{path}.schedulingGates[{index}].name", gate.get("name"), fields.label_key)
    if gates and spec.get("nodeName"):
        detail = "cannot be set until all schedulingGates have been cleared"
        problems.append(forbidden_field(f"{path}.nodeName", detail))
    return problems


def _group(path: str, group: Part | None) -> list[FieldError]:
    if group is None:
        return []
    name = group.get("podGroupName")
    if name is None:
        return [invalid(f"{path}.podGroupName", None, "must specify one of: `podGroupName`")]
    return fields.long_name(f"{path}.podGroupName", name)
