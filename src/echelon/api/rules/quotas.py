"""Rules of ResourceQuota and LimitRange: names of resources, scopes, amounts that contradict each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base import quantity
from ..errors import FieldError, duplicate, forbidden_field, invalid, required
from ..objects import name_formats
from ..objects.subtree import items, mapping
from ..scheme import Object
from . import fields, resources
from .kind import KindRules

_COUNTED = (
    "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services",
    "services.loadbalancers", "services.nodeports",
)  # fmt: skip
_COMPUTE = ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
_EPHEMERAL = ("ephemeral-storage", "limits.ephemeral-storage", "requests.ephemeral-storage")
_STORAGE = "requests.storage"
_QUOTA_HUGE_PAGES = (resources.HUGE_PAGES, f"requests.{resources.HUGE_PAGES}")
#: Resource names without a slash that a quota may limit.
_STANDARD = frozenset((*_COUNTED, *_COMPUTE, *_EPHEMERAL, _STORAGE))

_POD_SCOPES = ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity")
#: Scope → standard resources that it can be combined with.
_SCOPES: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(_POD_SCOPES, frozenset(("pods", *_COMPUTE))),
    "BestEffort": frozenset(("pods",)),
    "VolumeAttributesClass": frozenset(("persistentvolumeclaims", _STORAGE)),
}
_CONTRADICTIONS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
#: Scopes that a selector can only ask to exist.
_EXIST_ONLY = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_EXIST_ONLY_SENTENCE = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def _is_standard(name: str) -> bool:
    return name in _STANDARD or name.startswith(_QUOTA_HUGE_PAGES)


def _resource_name(path: str, name: str) -> list[FieldError]:
    problems = fields.label_key(path, name)
    if not problems and "/" not in name and not _is_standard(name) and name != "storage":
        problems.append(invalid(path, name, "must be a standard resource type or fully qualified"))
    return problems


def _is_integer(name: str) -> bool:
    """Counts of objects and of devices."""
    if name in _COUNTED:
        return True
    native = "/" not in name or "kubernetes.io/" in name
    return not native and not name.startswith("requests.") and not name_formats.qualified_name(f"requests.{name}")


# -- ResourceQuota -----------------------------------------------------------------------------------------------


def _amounts(path: str, amounts: Mapping[str, Any]) -> list[FieldError]:
    problems: list[FieldError] = []
    for name, amount in sorted(amounts.items()):
        where = f"{path}[{name}]"
        problems += _resource_name(where, name)
        if "/" not in name and not _is_standard(name):
            problems.append(invalid(where, name, "must be a standard resource for quota"))
        if quantity.exact(amount) < 0:
            problems.append(invalid(where, amount, "must be greater than or equal to 0"))
        if _is_integer(name) and quantity.parse(amount, "cpu") % 1000:
            problems.append(invalid(where, amount, "must be an integer"))
    return problems


def _quota_spec(obj: Object) -> list[FieldError]:
    hard, scopes = mapping(obj, "spec", "hard"), items(obj, "spec", "scopes")
    problems = _amounts("spec.hard", hard)
    for scope in scopes:
        if scope not in _SCOPES:
            problems.append(invalid("spec.scopes", scopes, "unsupported scope"))
        problems += [
            invalid("spec.scopes", scopes, "unsupported scope applied to resource") for _ in _unsuited(scope, hard)
        ]
    if _contradict(scopes):
        problems.append(invalid("spec.scopes", scopes, "conflicting scopes"))
    return problems + _scope_selector("spec.scopeSelector.matchExpressions", obj, hard)


def _unsuited(scope: str, hard: Mapping[str, Any]) -> list[str]:
    """Standard resources that the scope cannot be combined with."""
    suited = _SCOPES.get(scope)
    return [] if suited is None else [name for name in sorted(hard) if _is_standard(name) and name not in suited]


def _contradict(scopes: Sequence[str]) -> bool:
    return any(pair <= set(scopes) for pair in _CONTRADICTIONS)


def _scope_selector(path: str, obj: Object, hard: Mapping[str, Any]) -> list[FieldError]:
    selector = mapping(obj, "spec", "scopeSelector")
    terms: list[Object] = selector.get("matchExpressions") or []
    problems: list[FieldError] = []
    for term in terms:
        scope, operator = term.get("scopeName", ""), term.get("operator", "")
        if scope not in _SCOPES:
            problems.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        problems += [invalid(path, selector, "unsupported scope applied to resource") for _ in _unsuited(scope, hard)]
        if scope in _EXIST_ONLY and operator != "Exists":
            problems.append(invalid(f"{path}.operator", operator, _EXIST_ONLY_SENTENCE))
        problems += _term_values(path, operator, term.get("values") or [])
    if _contradict([term.get("scopeName", "") for term in terms]):
        problems.append(invalid(path, items(obj, "spec", "scopes"), "conflicting scopes"))
    return problems


def _term_values(path: str, operator: str, values: Sequence[str]) -> list[FieldError]:
    if operator in ("In", "NotIn"):
        sentence = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        return [] if values else [required(f"{path}.values", sentence)]
    if operator in ("Exists", "DoesNotExist"):
        sentence = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        return [invalid(f"{path}.values", values, sentence)] if values else []
    return [invalid(f"{path}.operator", operator, "not a valid selector operator")]


def _quota_update(new: Object, old: Object) -> list[FieldError]:
    problems = _quota_spec(new)
    scopes = items(new, "spec", "scopes")
    if set(scopes) != set(items(old, "spec", "scopes")):
        problems.append(invalid("spec.scopes", scopes, "field is immutable"))
    return problems


def _quota_status(new: Object, old: Object) -> list[FieldError]:
    return _amounts("status.hard", mapping(new, "status", "hard")) + _amounts(
        "status.used", mapping(new, "status", "used")
    )


RESOURCE_QUOTA = KindRules(validate_create=_quota_spec, validate_update=_quota_update, validate_status=_quota_status)


# -- LimitRange --------------------------------------------------------------------------------------------------

_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
_POD_TYPES = ("Container", "Pod")
_PARTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _limit_defaults(obj: Object, old: Object | None) -> None:
    """Limits of containers: `default` from `max`, then `defaultRequest` from `default` and `min`."""
    for item in items(obj, "spec", "limits"):
        if item.get("type") != "Container":
            continue
        limits = {**mapping(item, "max"), **mapping(item, "default")}
        requests = {**mapping(item, "min"), **limits, **mapping(item, "defaultRequest")}
        for field, amounts in (("default", limits), ("defaultRequest", requests)):
            if amounts:
                item[field] = amounts


def _limit_range(obj: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    seen: set[str] = set()
    for index, item in enumerate(items(obj, "spec", "limits")):
        path, kind = f"spec.limits[{index}]", item.get("type", "")
        problems += _limit_type(f"{path}.type", kind)
        if kind in seen:
            problems.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        problems += _limit_names(path, kind, item)
        storage = [part for part in ("min", "max") if "storage" in mapping(item, part)]
        if kind == "PersistentVolumeClaim" and not storage:
            detail = "either minimum or maximum storage value is required, but neither was provided"
            problems.append(required(f"{path}.limits", detail))
        for name in sorted({name for part in _PARTS for name in mapping(item, part)}):
            problems += _limit_amounts(path, name, item)
    return problems


def _limit_type(path: str, kind: str) -> list[FieldError]:
    problems = fields.label_key(path, kind)
    if not problems and "/" not in kind and kind not in _TYPES:
        problems.append(invalid(path, kind, "must be a standard limit type or fully qualified"))
    return problems


def _limit_names(path: str, kind: str, item: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    for part in _PARTS:
        amounts = mapping(item, part)
        if kind == "Pod" and part in ("default", "defaultRequest"):
            if amounts:
                problems.append(forbidden_field(f"{path}.{part}", "may not be specified when `type` is 'Pod'"))
            continue
        for name in sorted(amounts):
            where = f"{path}.{part}[{name}]"
            problems += _resource_name(where, name)
            if kind in _POD_TYPES and "/" not in name:
                problems += _container_resource(where, name)
    return problems


def _container_resource(path: str, name: str) -> list[FieldError]:
    if name in resources.STANDARD or name.startswith(resources.HUGE_PAGES):
        return []
    return [invalid(path, name, "must be a standard resource for containers")]


#: (field and amount that the message is about, smaller, larger, sentence): what may not exceed what.
_ORDER = (
    ("min", "min", "min", "max", "min value {} is greater than max value {}"),
    ("defaultRequest",) * 2 + ("min", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest",) * 2 + ("defaultRequest", "max", "default request value {} is greater than max value {}"),
    ("defaultRequest",) * 2
    + ("defaultRequest", "default", "default request value {} is greater than default limit value {}"),
    ("default", "min", "min", "default", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)


def _limit_amounts(path: str, name: str, item: Object) -> list[FieldError]:
    """Amounts of one resource that contradict each other."""
    given = {part: mapping(item, part)[name] for part in _PARTS if name in mapping(item, part)}
    if item.get("type") == "Pod":
        given.pop("default", None)
        given.pop("defaultRequest", None)
    problems: list[FieldError] = []
    for field, shown, low, high, sentence in _ORDER:
        if low in given and high in given and quantity.exact(given[low]) > quantity.exact(given[high]):
            said = sentence.format(given[low], given[high])
            problems.append(invalid(f"{path}.{field}[{name}]", given[shown], said))
    problems += _limit_ratio(f"{path}.maxLimitRequestRatio[{name}]", given)
    limit, request = given.get("default"), given.get("defaultRequest")
    if not resources.overcommits(name) and limit and request and quantity.exact(limit) != quantity.exact(request):
        sentence = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        problems.append(invalid(f"{path}.defaultRequest[{name}]", request, sentence))
    return problems


def _limit_ratio(path: str, given: Mapping[str, Any]) -> list[FieldError]:
    ratio = given.get("maxLimitRequestRatio")
    if ratio is None:
        return []
    problems: list[FieldError] = []
    if quantity.exact(ratio) < quantity.exact(1):
        problems.append(invalid(path, ratio, f"ratio {ratio} is less than 1"))
    least = quantity.exact(given.get("min", 0))
    if "max" in given and least > 0:
        most = quantity.exact(given["max"]) / least
        if quantity.exact(ratio) / quantity.exact(1) > most:
            problems.append(invalid(path, ratio, f"ratio {ratio} is greater than max/min = {most:f}"))
    return problems


LIMIT_RANGE = KindRules(
    default=_limit_defaults, validate_create=_limit_range, validate_update=lambda new, old: _limit_range(new)
)
