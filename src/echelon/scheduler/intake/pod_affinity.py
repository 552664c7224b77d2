"""What pods ask of one another: from affinity, anti-affinity and spread in a pod's spec to the engine's terms.

    spec ─► terms_of ─► Shape            what a pod asks, the keys of matchLabelKeys filled in from its own labels
    labels ─► identity_of ─► Running     what terms of other pods match
    demand ─► with_identities ─► engine  pods that some term could match get their identity, cut to the labels it reads

Labels that no term reads do not make two shapes of equal pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ...api.views.placement_views import (
    PlacementSpec,
    PodAffinity,
    PodAffinityTerm,
    SelectorOfLabels,
    SpreadConstraint,
)
from ...api.views.pod_views import PodView
from ...engine import (
    Composite,
    Demand,
    Identity,
    Leaf,
    NodeTerm,
    Operator,
    Peers,
    PodClass,
    PodIndex,
    PodTerm,
    Preference,
    Requirement,
    Shape,
    Spread,
    means,
)
from ...engine import Group as Wanted
from .group_tree import Member

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_OPERATORS: dict[str, Operator] = {
    "In": "In",
    "NotIn": "NotIn",
    "Exists": "Exists",
    "DoesNotExist": "DoesNotExist",
}
#: What kube-scheduler gives a required term of a running pod that means the newcomer (hardPodAffinityWeight).
HARD_AFFINITY_WEIGHT = 1
#: Every namespace has this label, whether its object says so or not.
_NAMESPACE_NAME = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class PodTerms:
    """What a pod requires of others, what it would like, and the paths of what could not be read."""

    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    preferences: tuple[Preference, ...] = ()
    odd: tuple[str, ...] = ()


def identity_of(pod: PodView, namespace_labels: Mapping[str, str]) -> Identity:
    known = {**namespace_labels, _NAMESPACE_NAME: pod.namespace}
    return Identity(pod.namespace, tuple(sorted(pod.labels.items())), tuple(sorted(known.items())))


def terms_of(pod: PodView, spec: PlacementSpec) -> PodTerms:
    affinity, anti_affinity = spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity
    odd: list[str] = []
    near = _pod_terms(pod, affinity, "spec.affinity.podAffinity", odd)
    far = _pod_terms(pod, anti_affinity, "spec.affinity.podAntiAffinity", odd)
    preferences = [*_preferences(pod, affinity, 1), *_preferences(pod, anti_affinity, -1)]
    spread = []
    for index, one in enumerate(spec.topology_spread_constraints):
        if one.when_unsatisfiable == "DoNotSchedule":
            spread.append(_spread(pod, one, f"spec.topologySpreadConstraints[{index}]", odd))
        else:
            preferences.append(Preference(1, _spread(pod, one, "", [])))
    return PodTerms(near, far, tuple(spread), tuple(preferences), tuple(odd))


def _pod_terms(pod: PodView, affinity: PodAffinity, path: str, odd: list[str]) -> tuple[PodTerm, ...]:
    found: dict[PodTerm, None] = {}
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        found[_pod_term(pod, term, f"{path}.{_REQUIRED}[{index}]", odd)] = None
    return tuple(found)


def _pod_term(pod: PodView, term: PodAffinityTerm, path: str, odd: list[str]) -> PodTerm:
    labels = _selector(term.label_selector, f"{path}.labelSelector", odd)
    labels = _with_keys(labels, pod, term.match_label_keys, "In")
    labels = _with_keys(labels, pod, term.mismatch_label_keys, "NotIn")
    namespace_labels = _selector(term.namespace_selector, f"{path}.namespaceSelector", odd)
    namespaces = tuple(sorted(term.namespaces))
    if not namespaces and namespace_labels is None:
        namespaces = (pod.namespace,)
    return PodTerm(term.topology_key, Peers(labels, namespaces, namespace_labels))


def _preferences(pod: PodView, affinity: PodAffinity, sign: int) -> Iterator[Preference]:
    """Preferred terms; what cannot be read of them is no reason to keep a pod waiting."""
    for one in affinity.preferred_during_scheduling_ignored_during_execution:
        yield Preference(sign * one.weight, _pod_term(pod, one.pod_affinity_term, "", []))


def _spread(pod: PodView, one: SpreadConstraint, path: str, odd: list[str]) -> Spread:
    labels = _selector(one.label_selector, f"{path}.labelSelector", odd)
    labels = _with_keys(labels, pod, one.match_label_keys, "In")
    return Spread(
        key=one.topology_key,
        max_skew=one.max_skew,
        peers=Peers(labels, (pod.namespace,)),
        min_domains=one.min_domains,
        honour_affinity=one.node_affinity_policy == "Honor",
        honour_taints=one.node_taints_policy == "Honor",
    )


def _selector(selector: SelectorOfLabels | None, path: str, odd: list[str]) -> tuple[Requirement, ...] | None:
    """A label selector; None if there is none, which selects nothing."""
    if selector is None:
        return None
    found = [Requirement(key, "In", (value,)) for key, value in selector.match_labels.items()]
    for index, expression in enumerate(selector.match_expressions):
        operator = _OPERATORS.get(expression.operator)
        if operator is None:
            odd.append(f"{path}.matchExpressions[{index}].operator")
        else:
            found.append(Requirement(expression.key, operator, tuple(sorted(expression.values))))
    return _sorted(found)


def _with_keys(
    labels: tuple[Requirement, ...] | None, pod: PodView, keys: Iterable[str], operator: Operator
) -> tuple[Requirement, ...] | None:
    """The selector narrowed by the pod's own values; keys that it does not have count for nothing."""
    if labels is None or not keys:
        return labels
    own = pod.labels
    return _sorted([*labels, *(Requirement(key, operator, (own[key],)) for key in keys if key in own)])


def _sorted(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(set(requirements), key=lambda one: (one.key, one.operator, one.values)))


# ---- identities in a demand


def with_identities(demand: Demand, members: Mapping[int, Member], pod_index: PodIndex) -> Demand:
    """The demand with the identities of pods that a term of its own or of running pods could match."""
    binding = dict.fromkeys(term.peers for term in pod_index.repelling())
    soft = dict.fromkeys(_peers(pod_index.preferring()))
    for leaf in demand.leaves():
        for pods in leaf.classes:
            binding |= dict.fromkeys(awaited_peers(pods))
            binding |= dict.fromkeys(term.peers for term in pods.shape.anti_affinity)
            soft |= dict.fromkeys(_peers(pods.shape.preferences))
    if not binding and not soft:
        return demand
    filters = _IdentityFilter(list(binding)), _IdentityFilter(list(soft))
    return replace(demand, root=_group_with_identities(demand.root, members, *filters))


def _peers(preferences: Iterable[Preference]) -> Iterator[Peers]:
    return (preference.about.peers for preference in preferences if not isinstance(preference.about, NodeTerm))


def preferences_of(shape: Shape) -> tuple[Preference, ...]:
    """The preferences of a running pod about pods to come; its required affinity counts as a preference too."""
    if not shape.preferences and not shape.affinity:
        return ()
    needed = (Preference(HARD_AFFINITY_WEIGHT, term) for term in shape.affinity)
    return (*(preference for preference in shape.preferences if isinstance(preference.about, PodTerm)), *needed)


def awaited_peers(pods: PodClass | Member) -> list[Peers]:
    """The peers whose arrival can make a pod fit."""
    shape = pods.shape
    return [term.peers for term in shape.affinity] + [spread.peers for spread in shape.spread]


#: A namespace, and a label with its value.
_Mark = tuple[str, str, str]


class AwaitedPeers:
    """The peers whose arrival could make waiting pods fit, with the number of pods that need them.

    Every job may need pods of its own, so peers are found by a label that they must have, if there is one.
    """

    def __init__(self) -> None:
        self._marked: dict[_Mark | None, Counter[Peers]] = {}

    def __bool__(self) -> bool:
        return bool(self._marked)

    def count(self, wanted: Iterable[Peers], times: int) -> None:
        """A pod that needs these peers comes (1) or goes (-1)."""
        for peers in wanted:
            for mark in _marks(peers):
                found = self._marked.setdefault(mark, Counter())
                found[peers] += times
                if not found[peers]:
                    del found[peers]
                if not found:
                    del self._marked[mark]

    def means(self, identity: Identity) -> bool:
        """Whether waiting pods may need a pod of this identity."""
        marks = (None, *((identity.namespace, *label) for label in identity.labels))
        return any(means(peers, identity) for mark in marks for peers in self._marked.get(mark, ()))


def _marks(peers: Peers) -> Iterable[_Mark | None]:
    """Labels of which every matching pod has one; None stands for every pod."""
    named = next((one for one in peers.labels or () if one.operator == "In"), None)
    if named is None or peers.namespace_labels is not None:
        return (None,)
    return [(space, named.key, value) for space in peers.namespaces for value in dict.fromkeys(named.values)]


class _IdentityFilter:
    """Identities cut down to the labels that some terms read."""

    def __init__(self, peers: list[Peers]) -> None:
        self._peers = peers
        self._labels = {one.key for each in peers for one in each.labels or ()}
        self._spaces = {one.key for each in peers for one in each.namespace_labels or ()}
        self._known: dict[Identity, Identity | None] = {}

    def of(self, identity: Identity) -> Identity | None:
        """The identity cut down; None if no term matches it."""
        seen = Identity(
            identity.namespace,
            tuple(label for label in identity.labels if label[0] in self._labels),
            tuple(label for label in identity.namespace_labels if label[0] in self._spaces),
        )
        if seen not in self._known:
            self._known[seen] = seen if any(means(peers, seen) for peers in self._peers) else None
        return self._known[seen]


def _group_with_identities(
    group: Wanted, members: Mapping[int, Member], binding: _IdentityFilter, soft: _IdentityFilter
) -> Wanted:
    if isinstance(group, Composite):
        children = (_group_with_identities(child, members, binding, soft) for child in group.children)
        return replace(group, children=tuple(children))
    return _leaf(group, members, binding, soft)


def _leaf(leaf: Leaf, members: Mapping[int, Member], binding: _IdentityFilter, soft: _IdentityFilter) -> Leaf:
    classes: list[PodClass] = []
    for pods in leaf.classes:
        by_identity: dict[Identity | None, list[int]] = {}
        for member in pods.members:
            by_identity.setdefault(binding.of(members[member].identity), []).append(member)
        for identity, alike in by_identity.items():
            # Preferences do not split a class: that would change how its pods are counted.
            preferred = soft.of(members[alike[0]].identity)
            shape = pods.shape if identity is None else replace(pods.shape, identity=identity)
            classes.append(PodClass(shape, tuple(alike), pods.role, preferred))
    return replace(leaf, classes=tuple(classes))
