"""What is asked for: a tree of groups whose leaves hold pods.

Ids are opaque integers chosen by the caller; a verdict speaks of members and groups by these ids only.  A group
with the basic policy has a minimum of 1.  Children that are not ready are left out by the caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]

#: A host port is a resource of which every node has this much: an address takes a share, all addresses take all.
PORT_SHARES = 1 << 20
PORT = "host port "
#: The key of a term whose one domain is the whole cluster.
EVERYWHERE = ""

#: What an identity says of a pod beside its labels, by names that no label can have: the priority of the Job that it
#: belongs to, and the key of the domains that its group has alone.
JOB_RANK = "rank of its Job"
OWN_KEY = "key of the domains that its group has alone"

#: No node counts as having more of a resource (4 PiB of memory), and a pod that requests more fits nowhere: sums over
#: thousands of pods stay within 64 bits.
LARGEST = 1 << 52


def given(resource: str) -> int:
    """What a node has of a resource that it does not list."""
    return PORT_SHARES if resource.startswith(PORT) else 0


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement on a node's labels or fields."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """All requirements must hold; a pod's terms are alternatives.  An empty term matches no node."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class Toleration:
    """Empty key with Exists tolerates everything; empty effect means any effect."""

    key: str = ""
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """What terms of other pods match: a pod's namespace, its labels and those of the namespace, sorted."""

    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    namespace_labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Peers:
    """Which pods a term matches: by labels, in these namespaces or in namespaces with such labels.

    No `labels` at all (None) mean no pod, no requirement means every pod; the same holds for `namespace_labels`.
    """

    labels: tuple[Requirement, ...] | None
    namespaces: tuple[str, ...] = ()
    namespace_labels: tuple[Requirement, ...] | None = None


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A term about other pods: affinity to share a domain of the key with them, anti-affinity not to."""

    key: str
    peers: Peers


@dataclass(frozen=True, slots=True)
class Spread:
    """No domain of the key may hold more than `max_skew` such pods beyond the emptiest."""

    key: str
    max_skew: int
    peers: Peers
    #: With fewer domains than this the emptiest counts as empty.
    min_domains: int = 1
    #: Whether nodes that the pod may not use are left out of the count.
    honour_affinity: bool = True
    honour_taints: bool = False


@dataclass(frozen=True, slots=True)
class Preference:
    """A soft term: about nodes, about pods to be near to (or far from, if the weight is below 0), or an even spread."""

    weight: int
    about: NodeTerm | PodTerm | Spread


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Shape:
    """Everything about a pod that decides where it fits; equal pods have equal shapes.

    Amounts are exact integers in the resource's own unit (cpu: millicores, others: units), sorted by name, and
    always hold `pods: 1`.  `unsupported` names pod fields that placement cannot honour yet: such a shape fits
    nowhere, and the explanation says which field.
    """

    requests: tuple[tuple[str, int], ...]
    node_selector: tuple[tuple[str, str], ...] = ()
    node_terms: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    unsupported: tuple[str, ...] = ()
    #: The nodes from which each of its volumes can be reached, as alternatives; all volumes count.
    volumes: tuple[tuple[NodeTerm, ...], ...] = ()
    #: The same for the devices that it has been given.
    devices: tuple[tuple[NodeTerm, ...], ...] = ()
    #: What it still waits for, in the caller's words; until then it fits nowhere.
    waits: tuple[str, ...] = ()
    #: Required terms about other pods.
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    #: Set where terms of this demand or of running pods could match this pod; labels that no term names may be missing.
    identity: Identity | None = None
    #: Soft terms: they decide among nodes that are equally good.
    preferences: tuple[Preference, ...] = ()
    #: The hash, 0 until it is computed: shapes are keys of many tables and slow to hash.
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        if not self._hash:
            content = (
                self.requests, self.node_selector, self.node_terms, self.tolerations, self.unsupported, self.volumes,
                self.devices, self.waits, self.affinity, self.anti_affinity, self.spread, self.identity,
                self.preferences,
            )  # fmt: skip
            object.__setattr__(self, "_hash", hash(content))
        return self._hash

    @property
    def has_pod_rules(self) -> bool:
        """Whether terms about pods, its own or those of others, decide where it goes."""
        return bool(self.identity or self.affinity or self.anti_affinity or self.spread)


@dataclass(frozen=True, slots=True)
class Exclusive:
    """One group per domain of `key` among groups of equal `rank` (their priority)."""

    key: str
    rank: int


@dataclass(frozen=True, slots=True)
class PodClass:
    """Interchangeable members: same shape, same role; ids in order of rank."""

    shape: Shape
    members: tuple[int, ...]
    role: str = ""
    #: Set where soft terms of this demand or of running pods could match the members; only preferences read it.
    identity: Identity | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """A member that already runs (or is on its way) on a node; it counts and pins the domain.

    On a node that the view does not know (any more) it still counts, and pins nothing.
    """

    member: int
    node: str
    role: str = ""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A PodGroup: at least `min_count` of its members (bound ones included) or none."""

    id: int
    min_count: int
    classes: tuple[PodClass, ...]
    bound: tuple[Bound, ...] = ()
    #: Required topology key: all members share one domain of it.
    topology: str | None = None
    #: Preferred topology keys, narrowest first.
    preferred: tuple[str, ...] = ()
    exclusive: Exclusive | None = None
    #: Members the group will have in the end if that is known and more than now: guides a basic group's domain.
    final_size: int | None = None


@dataclass(frozen=True, slots=True)
class Composite:
    """A CompositePodGroup: at least `min_groups` of its children hold, or none."""

    id: int
    min_groups: int
    children: tuple[Leaf | Composite, ...]
    topology: str | None = None
    preferred: tuple[str, ...] = ()


Group = Leaf | Composite


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one decision may cost: counted in steps, and therefore equal on every machine."""

    steps: int = 50_000
    #: Fixes that a blocked verdict lists; 0 skips the search for them.
    fixes: int = 5
    #: Domains that a shortage lists.
    domains_listed: int = 5


@dataclass(frozen=True, slots=True)
class Demand:
    """One decision: the root of a hierarchy (a plain pod is a leaf of one)."""

    root: Group
    priority: int = 0
    #: False for preemptionPolicy Never.
    may_preempt: bool = True

    def leaves(self) -> Iterator[Leaf]:
        stack: list[Group] = [self.root]
        while stack:
            group = stack.pop()
            if isinstance(group, Leaf):
                yield group
            else:
                stack.extend(reversed(group.children))
