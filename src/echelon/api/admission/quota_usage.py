"""What an object uses of a ResourceQuota, as kube-apiserver counts it.

    count/jobs.batch, secrets, pods …     objects; `pods` and compute only until a pod has ended
    requests.cpu, limits.memory …         sums over the containers of pods
    requests.storage, gold.storageclass…  sums over claims

A quota with scopes counts only pods (or claims) that all its scopes match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ...base import quantity
from ..objects import pod_amounts
from ..objects.subtree import items, mapping
from ..rules.resources import HUGE_PAGES, quality_of_service
from ..scheme import PODS, SERVICES, VOLUME_CLAIMS, Object, Resource

Amounts = Mapping[str, str]
#: (group, plural) of a kind.
Kind = tuple[str, str]

_POD, _SERVICE, _CLAIM = (("", one.plural) for one in (PODS, SERVICES, VOLUME_CLAIMS))
_COUNTED = ("configmaps", "replicationcontrollers", "resourcequotas", "secrets")
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_CLASS = ".storageclass.storage.k8s.io/"
_DEVICES = ".deviceclass.resource.k8s.io/devices"
_TERMINAL = ("Succeeded", "Failed")
#: Compute resources that every container must state if a quota limits them.
_DEMANDED = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")


def kind_counted(name: str) -> Kind | None:
    """The kind whose objects a resource of a quota is about; None if nothing uses it."""
    if name.startswith("count/"):
        plural, _, group = name.removeprefix("count/").partition(".")
        return group, plural
    if name in _COUNTED:
        return "", name
    if name.partition(".")[0] == SERVICES.plural:
        return _SERVICE
    if name in (VOLUME_CLAIMS.plural, "requests.storage") or _CLASS in name:
        return _CLAIM
    if name.endswith(_DEVICES):
        return "resource.k8s.io", "resourceclaims"
    compute = name.removeprefix("requests.").removeprefix("limits.")
    if name == PODS.plural or compute in _COMPUTE or compute.startswith(HUGE_PAGES):
        return _POD
    extended = "/" in name and "kubernetes.io/" not in name and name.startswith("requests.")
    return _POD if extended else None


@dataclass(frozen=True)
class QuotaTerms:
    """The spec of a quota, read once."""

    name: str
    #: What is counted, with its bound; resources that nothing uses are left out.
    hard: Amounts
    scopes: tuple[Object, ...]
    #: The resources of each kind.
    by_kind: Mapping[Kind, tuple[str, ...]]

    @staticmethod
    def of(quota: Object) -> QuotaTerms:
        hard = {name: amount for name, amount in mapping(quota, "spec", "hard").items() if kind_counted(name)}
        by_kind: dict[Kind, tuple[str, ...]] = {}
        for name in sorted(hard):
            kind = kind_counted(name)
            if kind is not None:
                by_kind[kind] = (*by_kind.get(kind, ()), name)
        plain = [{"scopeName": scope, "operator": "Exists"} for scope in items(quota, "spec", "scopes")]
        selected = items(quota, "spec", "scopeSelector", "matchExpressions")
        return QuotaTerms(quota["metadata"]["name"], hard, (*plain, *selected), by_kind)

    def usage(self, kind: Kind, obj: Object) -> Amounts:
        """What one object uses of this quota, by resource."""
        wanted = self.by_kind.get(kind)
        if wanted is None or not self.matches(kind, obj):
            return {}
        used = _USAGES[kind](obj) if kind in _USAGES else _count(kind)
        return {name: used[name] for name in wanted if name in used}

    def matches(self, kind: Kind, obj: Object) -> bool:
        return kind in self.by_kind and all(_in_scope(scope, kind, obj) for scope in self.scopes)

    def counts_only(self, kind: Kind) -> bool:
        """Whether every object of a kind uses the same: one of each resource."""
        return kind not in _USAGES and not self.scopes

    def unstated(self, kind: Kind, obj: Object) -> str:
        """`must specify cpu for: c1,c2; …`: compute resources that containers of a new pod have to state, or ""."""
        if kind != _POD or not self.matches(kind, obj) or mapping(obj, "spec", "resources"):
            return ""
        containers = (*items(obj, "spec", "containers"), *items(obj, "spec", "initContainers"))
        stated = [(one.get("name", ""), _compute(mapping(one, "resources"))) for one in containers]
        told = []
        for name in sorted(set(_DEMANDED).intersection(self.by_kind[kind])):
            lacking = sorted(container for container, used in stated if name not in used)
            if lacking:
                told.append(f"{name} for: {','.join(lacking)}")
        return f"must specify {'; '.join(told)}" if told else ""


def kind_of(resource: Resource) -> Kind:
    stored = resource.stored_as or resource
    return stored.group, stored.plural


def _count(kind: Kind) -> dict[str, str]:
    group, plural = kind
    return {f"count/{plural}.{group}" if group else f"count/{plural}": "1", **({} if group else {plural: "1"})}


def _compute(resources: Mapping[str, Amounts]) -> dict[str, str]:
    """Requests and limits under the names that quotas have for them."""
    used: dict[str, str] = {}
    for name, amount in mapping(resources, "requests").items():
        if name in _COMPUTE or name.startswith(HUGE_PAGES):
            used[name] = amount
        used[f"requests.{name}"] = amount
    used |= {f"limits.{name}": amount for name, amount in mapping(resources, "limits").items() if name in _COMPUTE}
    return used


def _pod_usage(pod: Object) -> dict[str, str]:
    if mapping(pod, "status").get("phase") in _TERMINAL:
        return {"count/pods": "1"}
    spec = mapping(pod, "spec")
    sums = {part: pod_amounts.total(spec, part) for part in ("requests", "limits")}
    return {"count/pods": "1", "pods": "1", **_compute(sums)}


def _service_usage(service: Object) -> dict[str, str]:
    spec = mapping(service, "spec")
    kind, ports = spec.get("type"), items(spec, "ports")
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [port for port in ports if port.get("nodePort")]
    node_ports = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    balancers = int(kind == "LoadBalancer")
    return {**_count(_SERVICE), "services.nodeports": str(node_ports), "services.loadbalancers": str(balancers)}


def _claim_usage(claim: Object) -> dict[str, str]:
    used = _count(_CLAIM)
    storage = mapping(claim, "spec", "resources", "requests").get("storage")
    if storage is not None:
        allocated = mapping(claim, "status", "allocatedResources").get("storage", "0")
        used["requests.storage"] = max(storage, allocated, key=quantity.exact)
    chosen = mapping(claim, "spec").get("storageClassName")
    if chosen:
        used |= {
            f"{chosen}{_CLASS}{name}": used[name]
            for name in ("persistentvolumeclaims", "requests.storage")
            if name in used
        }
    return used


_USAGES: Mapping[Kind, Callable[[Object], dict[str, str]]] = {
    _POD: _pod_usage,
    _SERVICE: _service_usage,
    _CLAIM: _claim_usage,
}


# -- scopes ------------------------------------------------------------------------------------------------------


def _in_scope(scope: Object, kind: Kind, obj: Object) -> bool:
    name = scope.get("scopeName", "")
    if kind == _CLAIM:
        return name == "VolumeAttributesClass" and _one_of(scope, _attribute_classes(obj))
    if kind != _POD:
        return False
    spec = mapping(obj, "spec")
    if name in ("Terminating", "NotTerminating"):
        return ("activeDeadlineSeconds" in spec) is (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        return bool(quality_of_service(spec) == "BestEffort") is bool(name == "BestEffort")
    if name == "PriorityClass":
        chosen = spec.get("priorityClassName")
        return _one_of(scope, [chosen] if chosen else [])
    return name == "CrossNamespacePodAffinity" and _looks_elsewhere(spec)


def _one_of(scope: Object, values: Iterable[str]) -> bool:
    present, wanted = set(values), set(scope.get("values") or ())
    match scope.get("operator"):
        case "Exists":
            return bool(present)
        case "DoesNotExist":
            return not present
        case "In":
            return bool(present & wanted)
    return not present or bool(present - wanted)


def _attribute_classes(claim: Object) -> set[str]:
    spec, status = mapping(claim, "spec"), mapping(claim, "status")
    target = mapping(status, "modifyVolumeStatus").get("targetVolumeAttributesClassName")
    named = (spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"), target)
    return {name for name in named if name}


def _looks_elsewhere(spec: Object) -> bool:
    """Whether a term between pods is about other namespaces."""
    for part in ("podAffinity", "podAntiAffinity"):
        rules = mapping(spec, "affinity", part)
        preferred = items(rules, "preferredDuringSchedulingIgnoredDuringExecution")
        terms = [
            *items(rules, "requiredDuringSchedulingIgnoredDuringExecution"),
            *(one.get("podAffinityTerm") or {} for one in preferred),
        ]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False
