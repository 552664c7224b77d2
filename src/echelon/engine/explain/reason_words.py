"""Reasons in words: why nodes take no pod, and what fits in no cluster.

The text is for people only; whatever decides reads the records of `records.reasons`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...base.paths import spoken
from ...base.quantity import spelt
from ..records.demand import Peers, PodTerm, Requirement
from ..records.reasons import (
    BoundApart,
    BoundOutside,
    Contradiction,
    EmptyNodeTerm,
    ImpossibleNodeTerm,
    KeptApart,
    Reason,
    ReasonKind,
    TermsExclude,
    TooLarge,
)
from .counted import listed, plural

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODE_TERMS = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
POD_AFFINITY = f"spec.affinity.podAffinity.{_REQUIRED}"
POD_ANTI_AFFINITY = f"spec.affinity.podAntiAffinity.{_REQUIRED}"

#: Reasons that hold for the pod whatever the node.
ABOUT_THE_POD = frozenset(
    {
        ReasonKind.UNSUPPORTED_FIELD,
        ReasonKind.REQUEST_TOO_LARGE,
        ReasonKind.WAITING_FOR,
        ReasonKind.VOLUME_IN_USE,
    }
)


def most_frequent(exclusions: Mapping[Reason, int]) -> list[tuple[Reason, int]]:
    """Reasons with their nodes, the most nodes first."""
    return sorted(exclusions.items(), key=lambda item: (-item[1], item[0].kind.value, item[0].detail))


def about_pod(reason: Reason) -> str:
    """A reason that holds whatever the node."""
    match reason.kind:
        case ReasonKind.UNSUPPORTED_FIELD:
            return f"{', '.join(reason.detail)} is not supported"
        case ReasonKind.REQUEST_TOO_LARGE:
            return f"the request of {reason.detail[0]} is too large to be counted"
        case ReasonKind.VOLUME_IN_USE:
            return f"{pods_in_words(reason.peers)} is in use by another pod"
        case _:
            return reason.detail[0]


def about_nodes(reason: Reason, nodes: int) -> str:
    """What so many nodes have in common, after their number: "2" + "are cordoned"."""
    are, have, do = plural(nodes, "is", "are"), plural(nodes, "has", "have"), plural(nodes, "does", "do")
    match reason.kind:
        case ReasonKind.CORDONED:
            return f"{are} cordoned (kubectl uncordon NODE)"
        case ReasonKind.TAINT:
            key, value = reason.detail
            return f"{have} the untolerated taint {f'{key}={value}' if value else key}"
        case ReasonKind.NODE_SELECTOR:
            return f"{do} not match spec.nodeSelector {'='.join(reason.detail)}"
        case ReasonKind.NODE_AFFINITY:
            return f"{do} not match spec.affinity.nodeAffinity"
        case ReasonKind.VOLUME_NODE_AFFINITY:
            return f"{do} not match the node affinity of its volumes"
        case ReasonKind.DEVICES_ELSEWHERE:
            return f"{do} not reach the devices of its resource claims"
        case ReasonKind.POD_ANTI_AFFINITY:
            return f"{are} too near to pods with {pods_in_words(reason.peers)} (its anti-affinity)"
        case ReasonKind.RUNNING_ANTI_AFFINITY:
            return f"{are} too near to running pods with anti-affinity to {pods_in_words(reason.peers)}"
        case ReasonKind.OWNED_DOMAIN:
            key, *owners = reason.detail
            return f"{are} in {_domains(key, nodes)} that {listed(owners)} at its own priority has alone"
        case ReasonKind.SHARED_DOMAIN:
            key, *owners = reason.detail
            others = f"pods of other Jobs of its own priority ({listed(owners)})"
            return f"{are} in {_domains(key, nodes)} with {others}, and it needs one alone"
        case ReasonKind.SPREAD_KEY:
            return f"{plural(nodes, 'lacks', 'lack')} the label {reason.detail[0]} (its topology spread)"
        case ReasonKind.POD_AFFINITY:
            return f"{are} not near to pods with {pods_in_words(reason.peers)} (its affinity)"
        case ReasonKind.HOST_PORT:
            return f"{have} {reason.detail[0]} in use"
        case ReasonKind.SHORT_OF:
            return f"{are} short of {reason.detail[0]}"
        case _:
            return about_pod(reason)


def impossible(contradiction: Contradiction) -> str:
    """Why a group fits in no cluster."""
    match contradiction:
        case TooLarge(resource, amount, most):
            largest = f"the largest node has {spelt(resource, most)}" if most else "no node has any"
            return f"requests {spelt(resource, amount)} {resource}, {largest}"
        case BoundOutside(key, node):
            return f"its pod on {node} runs outside any {level(key)}: the node has no label {key}"
        case BoundApart(key, places):
            told = listed([f"{spoken(domain)} ({node})" for domain, node in places])
            return f"its pods already run in {len(places)} {level(key)}s: {told}"
        case TermsExclude(near, apart):
            return f"{_near(near)} and {_apart(apart)} exclude one another"
        case KeptApart(apart, key):
            return f"{_apart(apart)} keeps its pods apart, but all must be in one {level(key)}"
        case EmptyNodeTerm(number):
            return f"{NODE_TERMS}[{number}] is empty, which matches no node"
        case ImpossibleNodeTerm(number, requirements, ()):
            return f"{NODE_TERMS}[{number}] contradicts itself ({_all(requirements)})"
        case ImpossibleNodeTerm(number, requirements, selected):
            path = f"{NODE_TERMS}[{number}]"
            return f"spec.nodeSelector ({_all(selected)}) and {path} ({_all(requirements)}) exclude one another"


def level(key: str) -> str:
    """The short name of a topology key: `rack`, `node`."""
    short = key.rsplit("/", 1)[-1]
    return "node" if short == "hostname" else short


def _domains(key: str, nodes: int) -> str:
    return f"{'an' if level(key)[0] in 'aeiou' else 'a'} {level(key)}" if nodes == 1 else f"{level(key)}s"


def pods_in_words(peers: Peers | None) -> str:
    """Which pods a term is about, as a label selector is written."""
    if peers is None or peers.labels is None:
        return "no labels"
    return ", ".join(map(_requirement, peers.labels)) or "any labels"


def _near(term: PodTerm) -> str:
    return f"{POD_AFFINITY} (near {pods_in_words(term.peers)}{_shared(term)})"


def _apart(term: PodTerm) -> str:
    return f"{POD_ANTI_AFFINITY} (away from {pods_in_words(term.peers)}{_shared(term)})"


def _shared(term: PodTerm) -> str:
    name = level(term.key)
    return f" {'on' if name == 'node' else 'in'} the same {name}"


def _all(requirements: tuple[Requirement, ...]) -> str:
    return " and ".join(map(_requirement, requirements))


def _requirement(requirement: Requirement) -> str:
    key, values = requirement.key, ", ".join(requirement.values)
    match requirement.operator:
        case "In":
            return f"{key}={values}" if len(requirement.values) == 1 else f"{key} in ({values})"
        case "NotIn":
            return f"{key} not in ({values})"
        case "DoesNotExist":
            return f"no {key}"
        case "Gt":
            return f"{key} > {values}"
        case "Lt":
            return f"{key} < {values}"
    return key
