"""From a pod to its `Shape`: everything that decides where it fits.

What placement does not support, or what cannot be read, goes to `Shape.unsupported` by its field path: the pod stays
pending with that reason.  Nothing that a pod asks for is ignored.  Soft preferences become `Shape.preferences`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary, ref

import msgspec

from ...api.views.object_view import read_all
from ...api.views.placement_views import NodeSelector, PlacementSpec, ResourceAmounts, SelectorExpression
from ...api.views.pod_views import PodView
from ...base import quantity
from ...engine import PORT, PORT_SHARES, NodeTerm, Operator, Preference, Requirement, Shape, Toleration
from ..devices.claim_state import NOTHING_ASKED, DevicesAsked
from . import pod_affinity

_NODE_OPERATORS: dict[str, Operator] = {
    "In": "In",
    "NotIn": "NotIn",
    "Exists": "Exists",
    "DoesNotExist": "DoesNotExist",
    "Gt": "Gt",
    "Lt": "Lt",
}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
#: Volumes that any node can provide: they come from the API, from memory or from the node itself.
_VOLUMES_ANYWHERE = frozenset(
    ("configMap", "downwardAPI", "emptyDir", "gitRepo", "hostPath", "image", "nfs", "projected", "secret")
)
#: Volumes that are claims: `volumes` says what they ask for.
_KNOWN_VOLUMES = _VOLUMES_ANYWHERE | {"persistentVolumeClaim", "ephemeral"}

#: What differs between pods of one shape; nothing of it decides where they fit.
_APART = frozenset(("hostname", "nodeName", "schedulingGroup"))
#: Bytes of a spec that is looked at part by part, and is not remembered.
_LARGE = 64 * 1024
#: The longest field that placement works on, in bytes of JSON: thousands of tolerations or terms.
_LONGEST_FIELD = 64 * 1024
_PLACEMENT = ("tolerations", "nodeSelector", "affinity", "topologySpreadConstraints", "overhead", "resources")
#: The most resources and ports of a container.
_MOST_ENTRIES = 1_000
#: The most fields that one shape names as unsupported for their length.
_MOST_TOLD = 3
#: The most specs that are remembered with their shape.
_REMEMBERED = 4096

Amounts = dict[str, int]


class Shapes:
    """Every shape once, so that comparing them costs nothing; a spec that was met before is not read again."""

    def __init__(self) -> None:
        #: As long as a pod has it; both sides hold it weakly.
        self._known: WeakKeyDictionary[Shape, ref[Shape]] = WeakKeyDictionary()
        self._read: dict[bytes, Shape] = {}

    def of(self, pod: PodView) -> Shape:
        spec = pod.obj["spec"]
        told: list[Any] = [{name: value for name, value in spec.items() if name not in _APART}]
        if "affinity" in spec or "topologySpreadConstraints" in spec:
            # Terms between pods refer to the pod's own namespace and labels.
            told += pod.namespace, pod.labels
        words = msgspec.json.encode(told)
        if len(words) > _LARGE:
            return self.one(_of_large_pod(pod))
        shape = self._read.get(words)
        if shape is None:
            if len(self._read) >= _REMEMBERED:
                self._read.clear()
            shape = self._read[words] = self.one(of_pod(pod))
        return shape

    def one(self, shape: Shape) -> Shape:
        """The one that stands for all equal to it."""
        held = self._known.get(shape)
        known = held() if held is not None else None
        if known is None:
            known, self._known[shape] = shape, ref(shape)
        return known


def _of_large_pod(pod: PodView) -> Shape:
    """The shape of a pod whose spec may say more about its place than can be worked on beside other pods."""
    spec, too_long = dict(pod.obj["spec"]), list[str]()
    for field in _PLACEMENT:
        if field in spec and len(msgspec.json.encode(spec[field])) > _LONGEST_FIELD:
            too_long.append(f"spec.{field}")
            del spec[field]
    for field in ("containers", "initContainers"):
        listed = spec.get(field) or ()
        if any(_long_parts(container) for container in listed):
            too_long += [f"spec.{field}[{i}].{part}" for i, one in enumerate(listed) for part in _long_parts(one)]
            spec[field] = [_without_long_parts(container) for container in listed]
    shape = of_pod(PodView({**pod.obj, "spec": spec}))
    unsupported = tuple(f"{path} of this length" for path in too_long[:_MOST_TOLD])
    return replace(shape, unsupported=(*shape.unsupported, *unsupported))


def _long_parts(container: Mapping[str, Any]) -> list[str]:
    resources, ports = container.get("resources") or {}, container.get("ports") or ()
    amounts = sum(len(resources.get(field) or ()) for field in ("requests", "limits"))
    return ["resources"] * (amounts > _MOST_ENTRIES) + ["ports"] * (len(ports) > _MOST_ENTRIES)


def _without_long_parts(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """Resources that every node has stay: a pod with a node holds them."""
    made, parts = dict(container), _long_parts(container)
    if "resources" in parts:
        amounts = made["resources"]
        made["resources"] = {
            field: {name: value for name, value in (amounts.get(field) or {}).items() if "/" not in name}
            for field in ("requests", "limits")
        }
    if "ports" in parts:
        del made["ports"]
    return made


def of_pod(pod: PodView) -> Shape:
    """The shape of a pod; equal specs give equal shapes."""
    spec, unread = read_all(PlacementSpec, pod.obj["spec"], "spec")
    tolerations, odd_tolerations = _tolerations(spec)
    terms, odd_terms = _node_terms(spec)
    others = pod_affinity.terms_of(pod, spec)
    return Shape(
        requests=requests(spec),
        node_selector=tuple(sorted(spec.node_selector.items())),
        node_terms=terms,
        tolerations=tolerations,
        unsupported=(*unread, *odd_tolerations, *odd_terms, *others.odd, *_unsupported(spec)),
        affinity=others.affinity,
        anti_affinity=others.anti_affinity,
        spread=others.spread,
        preferences=(*_node_preferences(spec), *others.preferences),
    )


def requests(spec: PlacementSpec) -> tuple[tuple[str, int], ...]:
    """What a pod holds on its node, by the rules of kube-scheduler.

    Containers and sidecars add up; an init container needs its own amount beside the sidecars started before it;
    pod-level resources replace the sum; overhead comes on top.
    """
    total: Amounts = {}
    for container in spec.containers:
        _add(total, _requested(container.resources))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        own = _requested(container.resources)
        if container.restart_policy == "Always":
            _add(total, own)
            _add(sidecars, own)
            own = sidecars
        else:
            own = {name: own.get(name, 0) + sidecars.get(name, 0) for name in own | sidecars}
        _raise_to(peak, own)
    _raise_to(total, peak)
    total |= _requested(spec.resources)
    _add(total, _parsed(spec.overhead))
    total |= _host_ports(spec)
    total["pods"] = 1
    return tuple(sorted((name, amount) for name, amount in total.items() if amount))


def _host_ports(spec: PlacementSpec) -> Amounts:
    """Ports of the node that a pod takes: one address of a port, or all of them."""
    taken: Amounts = {}
    sidecars = (one for one in spec.init_containers if one.restart_policy == "Always")
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            number = port.host_port or (spec.host_network and port.container_port)
            if number:
                name = f"{PORT}{number}/{port.protocol or 'TCP'}"
                address = port.host_ip or "0.0.0.0"  # noqa: S104
                if address == "0.0.0.0":  # noqa: S104
                    taken[name] = PORT_SHARES
                else:
                    taken[f"{name} of {address}"] = PORT_SHARES
                    taken[name] = min(PORT_SHARES, taken.get(name, 0) + 1)
    return taken


def _requested(resources: ResourceAmounts) -> Amounts:
    """The requests of a container or pod; a limit without a request is a request."""
    if not resources.limits and not resources.requests:
        return {}
    return _parsed(resources.limits) | _parsed(resources.requests)


def _parsed(amounts: Mapping[str, Any]) -> Amounts:
    return {name: quantity.parse(value, name) for name, value in amounts.items()}


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        if amount > total.get(name, 0):
            total[name] = amount


def _tolerations(spec: PlacementSpec) -> tuple[tuple[Toleration, ...], list[str]]:
    found: list[Toleration] = []
    odd: list[str] = []
    for index, toleration in enumerate(spec.tolerations):
        if toleration.operator == "Exists":
            found.append(Toleration(toleration.key, "Exists", toleration.value, toleration.effect))
        elif toleration.operator in ("", "Equal"):
            found.append(Toleration(toleration.key, "Equal", toleration.value, toleration.effect))
        else:
            odd.append(f"spec.tolerations[{index}].operator")
    # Order and repetition mean nothing, so that they do not make two shapes of one.
    return tuple(sorted(set(found), key=lambda t: (t.key, t.operator, t.value, t.effect))), odd


def _node_terms(spec: PlacementSpec) -> tuple[tuple[NodeTerm, ...] | None, list[str]]:
    """The alternatives of required node affinity; None when there is no such requirement."""
    selector = spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    return (None, []) if selector is None else node_terms(selector, f"spec.affinity.nodeAffinity.{_REQUIRED}")


def node_terms(selector: NodeSelector, path: str) -> tuple[tuple[NodeTerm, ...], list[str]]:
    """The alternatives of a node selector, and the paths of what could not be read."""
    terms: list[NodeTerm] = []
    odd: list[str] = []
    for index, term in enumerate(selector.node_selector_terms):
        here = f"{path}.nodeSelectorTerms[{index}]"
        labels, odd_labels = _requirements(term.match_expressions, f"{here}.matchExpressions")
        fields, odd_fields = _requirements(term.match_fields, f"{here}.matchFields")
        terms.append(NodeTerm(labels, fields))
        odd += odd_labels + odd_fields
    return tuple(terms), odd


def _node_preferences(spec: PlacementSpec) -> Iterator[Preference]:
    """Preferred node affinity; terms that cannot be read are no reason to keep a pod waiting."""
    for one in spec.affinity.node_affinity.preferred_during_scheduling_ignored_during_execution:
        labels, odd_labels = _requirements(one.preference.match_expressions, "")
        fields, odd_fields = _requirements(one.preference.match_fields, "")
        if not odd_labels and not odd_fields:
            yield Preference(one.weight, NodeTerm(labels, fields))


def _requirements(expressions: Iterable[SelectorExpression], path: str) -> tuple[tuple[Requirement, ...], list[str]]:
    found: list[Requirement] = []
    odd: list[str] = []
    for index, expression in enumerate(expressions):
        operator = _NODE_OPERATORS.get(expression.operator)
        if operator is None:
            odd.append(f"{path}[{index}].operator")
        else:
            found.append(Requirement(expression.key, operator, expression.values))
    return tuple(found), odd


def with_devices(shape: Shape, asked: DevicesAsked) -> Shape:
    """A shape with what its ResourceClaims ask for: devices as resources, and the nodes of those it has already."""
    if asked is NOTHING_ASKED:
        return shape
    read = [node_terms(selector, "ResourceClaim status.allocation.nodeSelector") for selector in asked.reach]
    amounts = dict(shape.requests)
    for name, amount in asked.requests:
        amounts[name] = amounts.get(name, 0) + amount
    return replace(
        shape,
        requests=tuple(sorted(amounts.items())),
        devices=tuple(dict.fromkeys(terms for terms, _ in read)),
        waits=(*shape.waits, *asked.waits),
        unsupported=(*shape.unsupported, *asked.unsupported, *(path for _, odd in read for path in odd)),
    )


def _unsupported(spec: PlacementSpec) -> Iterator[str]:
    for index, volume in enumerate(spec.volumes):
        for kind in volume:
            if kind != "name" and kind not in _KNOWN_VOLUMES and volume[kind] is not None:
                yield f"spec.volumes[{index}].{kind}"
