"""Rules of Role, ClusterRole, RoleBinding and ClusterRoleBinding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import FieldError, immutable, invalid, not_supported, required
from ..objects import name_formats
from ..scheme import Object
from . import fields, pod_placement
from .kind import KindRules

_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


def _rules(obj: Object, *, namespaced: bool) -> list[FieldError]:
    return [
        problem
        for index, rule in enumerate(obj.get("rules") or ())
        for problem in _rule(f"rules[{index}]", rule, namespaced)
    ]


def _rule(path: str, rule: Mapping[str, Any], namespaced: bool) -> list[FieldError]:
    problems: list[FieldError] = []
    if not rule.get("verbs"):
        problems.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    if urls := rule.get("nonResourceURLs"):
        where = f"{path}.nonResourceURLs"
        if namespaced:
            problems.append(invalid(where, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            problems.append(invalid(where, urls, detail))
        return problems
    if not rule.get("apiGroups"):
        problems.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        problems.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return problems


def _role(obj: Object) -> list[FieldError]:
    return _rules(obj, namespaced=True)


def _cluster_role(obj: Object) -> list[FieldError]:
    problems = _rules(obj, namespaced=False)
    aggregation = obj.get("aggregationRule")
    if aggregation is None:
        return problems
    path = "aggregationRule.clusterRoleSelectors"
    selectors = aggregation.get("clusterRoleSelectors") or ()
    if not selectors:
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        problems.append(required(path, detail))
    for index, selector in enumerate(selectors):
        problems += pod_placement.label_selector(f"{path}[{index}]", selector)
    return problems


def _binding_default(obj: Object, old: Object | None) -> None:
    reference = obj.get("roleRef")
    if reference is not None and not reference.get("apiGroup"):
        reference["apiGroup"] = _GROUP
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
            subject["apiGroup"] = _GROUP


def _binding(*, namespaced: bool) -> Callable[[Object], list[FieldError]]:
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)

    def check(obj: Object) -> list[FieldError]:
        reference = obj.get("roleRef") or {}
        problems: list[FieldError] = []
        if reference.get("apiGroup", "") != _GROUP:
            problems.append(not_supported("roleRef.apiGroup", reference.get("apiGroup", ""), (_GROUP,)))
        if reference.get("kind", "") not in kinds:
            problems.append(not_supported("roleRef.kind", reference.get("kind", ""), kinds))
        if not reference.get("name"):
            problems.append(required("roleRef.name"))
        else:
            problems += fields.path_segment("roleRef.name", reference["name"])
        for index, subject in enumerate(obj.get("subjects") or ()):
            problems += _subject(f"subjects[{index}]", subject, namespaced)
        return problems

    return check


def _subject(path: str, subject: Mapping[str, Any], namespaced: bool) -> list[FieldError]:
    name, kind, group = subject.get("name", ""), subject.get("kind", ""), subject.get("apiGroup", "")
    problems = [] if name else [required(f"{path}.name")]
    if kind not in _SUBJECTS:
        return [*problems, not_supported(f"{path}.kind", kind, _SUBJECTS)]
    if kind != "ServiceAccount":
        return problems if group == _GROUP else [*problems, not_supported(f"{path}.apiGroup", group, (_GROUP,))]
    if name:
        problems += [invalid(f"{path}.name", name, text) for text in name_formats.dns1123_subdomain(name)]
    if group:
        problems.append(not_supported(f"{path}.apiGroup", group, ("",)))
    if not namespaced and not subject.get("namespace"):
        problems.append(required(f"{path}.namespace"))
    return problems


def _binding_update(check: Callable[[Object], list[FieldError]]) -> Callable[[Object, Object], list[FieldError]]:
    def checked(new: Object, old: Object) -> list[FieldError]:
        same = new.get("roleRef") == old.get("roleRef")
        return check(new) + ([] if same else [immutable("roleRef", new.get("roleRef"))])

    return checked


def _binding_rules(*, namespaced: bool) -> KindRules:
    check = _binding(namespaced=namespaced)
    return KindRules(default=_binding_default, validate_create=check, validate_update=_binding_update(check))


ROLE = KindRules(validate_create=_role, validate_update=lambda new, old: _role(new))
CLUSTER_ROLE = KindRules(validate_create=_cluster_role, validate_update=lambda new, old: _cluster_role(new))
ROLE_BINDING = _binding_rules(namespaced=True)
CLUSTER_ROLE_BINDING = _binding_rules(namespaced=False)
