"""Counting bounds of the judge: necessary conditions for a demand to fit.  Where one fails, that is a proof.

Constraints are left out (pod rules, fragmentation by other groups), never added, so "could fit" proves nothing.  Each
group is looked at in every domain that it may have, its children inside that domain.  Sums over children and domains
must be possible: pods against slots, amounts against free amounts, copies of equal groups against domains.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..records.demand import Composite, Demand, Group, Leaf, Shape, Toleration, given
from .facts import Facts, Identity, bound_nodes, groups_of, keys, satisfied, supply

#: More copies than any demand has.
UNLIMITED_COPIES = 1 << 40


class NodeSet:
    """A set of nodes with the answers found for it; compared by identity."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.domains: dict[tuple[str, ...], dict[tuple[Identity, ...], NodeSet]] = {}
        self.could_hold: dict[object, bool] = {}
        self.slots: dict[Shape, int] = {}


class CountingBounds:
    """Necessary conditions for a demand on a cluster."""

    def __init__(self, facts: Facts, demand: Demand) -> None:
        self.facts, self.demand = facts, demand
        self.everywhere = NodeSet(tuple(facts.nodes))
        self._resources = sorted({r for leaf in demand.leaves() for p in leaf.classes for r, _ in p.shape.requests})
        self._kinds: dict[int, object] = {}
        self._shapes: dict[Shape, int] = {}
        self._least_shapes: dict[tuple[Shape, ...], Shape] = {}

    def excluded(self) -> bool:
        """Whether counting alone proves that no further group or pod of the demand can be placed."""
        root = self.demand.root
        if satisfied(root):
            return not any(self._advances(root, self.everywhere))
        return not self.could_hold(root, self.everywhere)

    def _advances(self, group: Group, around: NodeSet) -> Iterator[bool]:
        """For a group that holds: whether each further pod or group below it could be placed."""
        for inside in self.node_sets(group, around):
            if isinstance(group, Leaf):
                yield any(self.slots(shape, inside) for shape, _ in supply(group))
                continue
            for child in group.children:
                if satisfied(child):
                    yield from self._advances(child, inside)
                else:
                    yield self.could_hold(child, inside)

    # ---- domains

    def node_sets(self, group: Group, around: NodeSet) -> Iterator[NodeSet]:
        """The domains that a group may have inside a node set; with bound members only the one that they are in."""
        asked = keys(group)
        if not asked:
            yield around
            return
        pins = {self._identity(name, asked) for name in bound_nodes(group) if name in self.facts.nodes}
        for identity, inside in self._domains(around, asked).items():
            if pins <= {identity} and not self._taken(group, identity[-1]):
                yield inside

    def _domains(self, around: NodeSet, asked: list[str]) -> dict[tuple[Identity, ...], NodeSet]:
        known = around.domains.get(tuple(asked))
        if known is None:
            found: dict[tuple[Identity, ...], list[str]] = {}
            for name in around.names:
                identity = self._identity(name, asked)
                if identity is not None:
                    found.setdefault(identity, []).append(name)
            known = {identity: NodeSet(tuple(names)) for identity, names in found.items()}
            around.domains[tuple(asked)] = known
        return known

    def _identity(self, name: str, asked: list[str]) -> tuple[Identity, ...] | None:
        found = [self.facts.domain(name, key) for key in asked]
        return tuple(each for each in found if each is not None) if None not in found else None

    def _taken(self, group: Group, domain: Identity) -> bool:
        if not isinstance(group, Leaf) or group.exclusive is None:
            return False
        return bool(self.facts.holders(group.exclusive).get(domain, set()) - {group.id})

    # ---- what could hold in them

    def could_hold(self, group: Group, around: NodeSet) -> bool:
        """Whether a group could hold inside a node set if no other group were placed."""
        kind = self.kind(group)
        if kind not in around.could_hold:
            around.could_hold[kind] = any(self.could_hold_in(group, inside) for inside in self.node_sets(group, around))
        return around.could_hold[kind]

    def could_hold_in(self, group: Group, inside: NodeSet) -> bool:
        """The same for one domain."""
        if not self._amounts_suffice(group, inside):
            return False
        if isinstance(group, Leaf):
            return self.pods_in(group, inside) >= need(group)
        return self.children_in(group, inside) >= group.min_groups

    def pods_in(self, leaf: Leaf, inside: NodeSet) -> int:
        """An upper bound of the leaf's members that fit in a domain."""
        return sum(min(self.slots(shape, inside), number) for shape, number in supply(leaf))

    def children_in(self, group: Composite, inside: NodeSet) -> int:
        """An upper bound of the children that hold in a domain at a time."""
        by_kind: dict[object, list[Group]] = {}
        for child in group.children:
            by_kind.setdefault(self.kind(child), []).append(child)
        total = 0
        for children in by_kind.values():
            if self.could_hold(children[0], inside):
                total += min(len(children), self.copies(children[0], inside))
        most, spent = self._slots_of(group, inside), 0
        for number, pods in enumerate(sorted(map(least_pods, group.children))):
            spent += pods
            if spent > most:
                return min(total, number)
        return total

    def copies(self, group: Group, around: NodeSet) -> int:
        """An upper bound of the groups equal to this one that hold inside a node set at a time."""
        return sum(self._copies_in(group, inside) for inside in self.node_sets(group, around))

    def _copies_in(self, group: Group, inside: NodeSet) -> int:
        pods = least_pods(group)
        if not pods:
            return UNLIMITED_COPIES
        most = self._slots_of(group, inside) // pods
        if isinstance(group, Leaf):
            return min(most, 1) if group.exclusive else most
        kinds = {self.kind(child): child for child in group.children}
        children = sum(self.copies(child, inside) for child in kinds.values())
        return min(most, children // max(1, group.min_groups))

    def slots(self, shape: Shape, inside: NodeSet) -> int:
        """Slots for a shape in a node set."""
        if shape not in inside.slots:
            slots = self.facts.slots(shape)
            inside.slots[shape] = sum(slots.get(name, 0) for name in inside.names)
        return inside.slots[shape]

    def _slots_of(self, group: Group, inside: NodeSet) -> int:
        """Slots for pods of any shape below a group, as if each requested the least that any of them requests."""
        shapes = shapes_below(group)
        if len(shapes) <= 1:
            return self.slots(shapes[0], inside) if shapes else 0
        slots = [self.facts.slots(shape) for shape in shapes]
        least = self.facts.slots(self._least_shape(shapes))
        return sum(least.get(name, 0) for name in inside.names if any(name in each for each in slots))

    def _least_shape(self, shapes: list[Shape]) -> Shape:
        key = tuple(shapes)
        if key not in self._least_shapes:
            asked = [dict(shape.requests) for shape in shapes]
            least = {name: min(each.get(name, 0) for each in asked) for name in self._resources}
            everything = (Toleration("", "Exists"),)
            self._least_shapes[key] = Shape(tuple(sorted(least.items())), tolerations=everything)
        return self._least_shapes[key]

    def _amounts_suffice(self, group: Group, inside: NodeSet) -> bool:
        shapes = shapes_below(group)
        if len(shapes) == 1:
            return True  # slots decide
        usable = [name for name in inside.names if any(self.facts.slots(shape).get(name) for shape in shapes)]
        for resource in self._resources:
            least, free = least_amount(group, resource), (self._free(name, resource) for name in usable)
            if least and least > sum(max(0, amount) for amount in free):
                return False
        return True

    def _free(self, name: str, resource: str) -> int:
        return self.facts.free(name).get(resource, given(resource))

    # ---- equal groups

    def kind(self, group: Group) -> object:
        """Equal for groups that differ only in their ids."""
        known = self._kinds.get(group.id)
        if known is None:
            known = self._kinds[group.id] = self._kind(group)
        return known

    def _kind(self, group: Group) -> object:
        own = group.id if bound_nodes(group) or (isinstance(group, Leaf) and group.exclusive) else None
        if isinstance(group, Composite):
            return ("composite", own, group.min_groups, group.topology, tuple(map(self.kind, group.children)))
        shapes = sorted((self._shapes.setdefault(shape, len(self._shapes)), number) for shape, number in supply(group))
        return ("leaf", own, need(group), group.topology, tuple(shapes))


def need(leaf: Leaf) -> int:
    """Pods that a leaf still needs to hold."""
    return max(0, leaf.min_count - len(leaf.bound))


def shapes_below(group: Group) -> list[Shape]:
    return list({shape: None for leaf in leaves_below(group) for shape, _ in supply(leaf)})


def leaves_below(group: Group) -> list[Leaf]:
    return [each for each in groups_of(group) if isinstance(each, Leaf)]


def least_pods(group: Group) -> int:
    """The fewest further pods with which a group holds."""
    if isinstance(group, Leaf):
        return need(group)
    return sum(sorted(map(least_pods, group.children))[: max(0, group.min_groups)])


def least_amount(group: Group, resource: str) -> int:
    """The least further amount of a resource with which a group holds."""
    if isinstance(group, Composite):
        return sum(sorted(least_amount(child, resource) for child in group.children)[: max(0, group.min_groups)])
    left, total = need(group), 0
    for amount, number in sorted((dict(shape.requests).get(resource, 0), number) for shape, number in supply(group)):
        total += amount * min(left, number)
        left -= min(left, number)
    return total
