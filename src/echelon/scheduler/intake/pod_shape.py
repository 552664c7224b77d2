"""From a pod to its `Shape`: everything that decides where it fits.

What placement cannot honour yet goes to `Shape.unsupported` by its field path, so that the pod stays pending and
says why; nothing a pod asks for is ignored.  Soft preferences become `Shape.preferences`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary, ref

import msgspec

from ...api.objects import meta
from ...api.scheme import Object
from ...base import quantity
from ...engine import PORT, PORT_SHARES, NodeTerm, Preference, Requirement, Shape, Toleration
from . import pod_affinity

_NODE_OPERATORS = frozenset(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
#: Volumes that any node can provide: they come from the API, from memory or from the node itself.
_VOLUMES_ANYWHERE = frozenset(
    ("configMap", "downwardAPI", "emptyDir", "gitRepo", "hostPath", "image", "nfs", "projected", "secret")
)
#: Volumes that are claims: `volumes` says what they ask for.
_CLAIMS = frozenset(("persistentVolumeClaim", "ephemeral"))

#: What differs between pods of one shape; nothing of it decides where they fit.
_APART = frozenset(("hostname", "nodeName", "schedulingGroup"))
#: So many specs are remembered with their shape.
_REMEMBERED = 4096

Amounts = dict[str, int]


class Shapes:
    """Every shape once, so that comparing them costs nothing; a spec that was met before is not read again."""

    def __init__(self) -> None:
        #: As long as a pod has it; both sides hold it weakly.
        self._known: WeakKeyDictionary[Shape, ref[Shape]] = WeakKeyDictionary()
        self._read: dict[bytes, Shape] = {}

    def of(self, pod: Object) -> Shape:
        spec = pod["spec"]
        told: list[Any] = [{name: value for name, value in spec.items() if name not in _APART}]
        if "affinity" in spec or "topologySpreadConstraints" in spec:
            # PodTerms between pods speak of the pod's own namespace and labels.
            told += meta.namespace(pod), meta.labels(pod)
        words = msgspec.json.encode(told)
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


def of_pod(pod: Object) -> Shape:
    """The shape of a pod; equal specs give equal shapes."""
    spec = pod["spec"]
    tolerations, odd_tolerations = _tolerations(spec)
    terms, odd_terms = _node_terms(spec)
    others = pod_affinity.terms_of(pod)
    return Shape(
        requests=requests(spec),
        node_selector=tuple(sorted((spec.get("nodeSelector") or {}).items())),
        node_terms=terms,
        tolerations=tolerations,
        unsupported=(*odd_tolerations, *odd_terms, *others.odd, *_unsupported(spec)),
        affinity=others.affinity,
        anti_affinity=others.anti_affinity,
        spread=others.spread,
        preferences=(*_node_preferences(spec), *others.preferences),
    )


def requests(spec: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """What a pod holds on its node, by the rules of kube-scheduler.

    Containers and sidecars add up; an init container needs its own amount beside the sidecars started before it;
    pod-level resources replace the sum; overhead comes on top.
    """
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _requested(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _requested(container)
        if container.get("restartPolicy") == "Always":
            _add(total, own)
            _add(sidecars, own)
            own = sidecars
        else:
            own = {name: own.get(name, 0) + sidecars.get(name, 0) for name in own | sidecars}
        _raise_to(peak, own)
    _raise_to(total, peak)
    total |= _requested(spec)
    _add(total, _parsed(spec.get("overhead")))
    total |= _host_ports(spec)
    total["pods"] = 1
    return tuple(sorted((name, amount) for name, amount in total.items() if amount))


def _host_ports(spec: Mapping[str, Any]) -> Amounts:
    """Ports of the node that a pod takes: one address of a port, or all of them."""
    taken: Amounts = {}
    for container in (*(spec.get("containers") or ()), *_sidecars(spec)):
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (spec.get("hostNetwork") and port.get("containerPort"))
            if number:
                name = f"{PORT}{number}/{port.get('protocol') or 'TCP'}"
                address = port.get("hostIP") or "0.0.0.0"  # noqa: S104
                if address == "0.0.0.0":  # noqa: S104
                    taken[name] = PORT_SHARES
                else:
                    taken[f"{name} of {address}"] = PORT_SHARES
                    taken[name] = min(PORT_SHARES, taken.get(name, 0) + 1)
    return taken


def _sidecars(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always")


def _requested(holder: Mapping[str, Any]) -> Amounts:
    """The requests of a container or pod; a limit without a request is a request."""
    resources = holder.get("resources") or {}
    return _parsed(resources.get("limits")) | _parsed(resources.get("requests"))


def _parsed(amounts: Mapping[str, Any] | None) -> Amounts:
    return {name: quantity.parse(value, name) for name, value in (amounts or {}).items()}


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        if amount > total.get(name, 0):
            total[name] = amount


def _tolerations(spec: Mapping[str, Any]) -> tuple[tuple[Toleration, ...], list[str]]:
    found: list[Toleration] = []
    odd: list[str] = []
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        operator = toleration.get("operator") or "Equal"
        rest = (toleration.get("value") or "", toleration.get("effect") or "")
        if operator == "Exists":
            found.append(Toleration(toleration.get("key") or "", "Exists", *rest))
        elif operator == "Equal":
            found.append(Toleration(toleration.get("key") or "", "Equal", *rest))
        else:
            odd.append(f"spec.tolerations[{index}].operator")
    # Order and repetition mean nothing, so that they do not make two shapes of one.
    return tuple(sorted(set(found), key=lambda t: (t.key, t.operator, t.value, t.effect))), odd


def _node_terms(spec: Mapping[str, Any]) -> tuple[tuple[NodeTerm, ...] | None, list[str]]:
    """The alternatives of required node affinity; None when there is no such requirement."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    selector = affinity.get(_REQUIRED)
    return (None, []) if selector is None else node_terms(selector, f"spec.affinity.nodeAffinity.{_REQUIRED}")


def node_terms(selector: Mapping[str, Any], path: str) -> tuple[tuple[NodeTerm, ...], list[str]]:
    """The alternatives of a node selector, and the paths of what could not be read."""
    terms: list[NodeTerm] = []
    odd: list[str] = []
    for index, term in enumerate(selector.get("nodeSelectorTerms") or ()):
        here = f"{path}.nodeSelectorTerms[{index}]"
        labels, odd_labels = _requirements(term.get("matchExpressions") or (), f"{here}.matchExpressions")
        fields, odd_fields = _requirements(term.get("matchFields") or (), f"{here}.matchFields")
        terms.append(NodeTerm(labels, fields))
        odd += odd_labels + odd_fields
    return tuple(terms), odd


def _node_preferences(spec: Mapping[str, Any]) -> Iterator[Preference]:
    """Preferred node affinity; terms that cannot be read are no reason to keep a pod waiting."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    for preference in affinity.get(_PREFERRED) or ():
        labels, odd_labels = _requirements(preference["preference"].get("matchExpressions") or (), "")
        fields, odd_fields = _requirements(preference["preference"].get("matchFields") or (), "")
        if not odd_labels and not odd_fields:
            yield Preference(int(preference["weight"]), NodeTerm(labels, fields))


def _requirements(expressions: Iterable[Mapping[str, Any]], path: str) -> tuple[tuple[Requirement, ...], list[str]]:
    found: list[Requirement] = []
    odd: list[str] = []
    for index, expression in enumerate(expressions):
        operator = expression.get("operator")
        if operator not in _NODE_OPERATORS:
            odd.append(f"{path}[{index}].operator")
            continue
        found.append(Requirement(expression["key"], operator, tuple(expression.get("values") or ())))
    return tuple(found), odd


def _unsupported(spec: Mapping[str, Any]) -> Iterator[str]:
    for index, volume in enumerate(spec.get("volumes") or ()):
        for kind in volume:
            if kind != "name" and kind not in _VOLUMES_ANYWHERE | _CLAIMS and volume[kind] is not None:
                yield f"spec.volumes[{index}].{kind}"
    if spec.get("resourceClaims"):
        yield "spec.resourceClaims"
