"""A demand in canonical form: what must be placed where for the tree to hold, whatever the order of its input.

A `Part` is a group as the search sees it: how many pods or children are still needed, within which nested topology
keys, and where bound members pin it.  Equal parts have equal types, so the search does not try one after the other.
Three goals are tried in turn: everything, the minimum with every role covered, the bare minimum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ..cluster.free_amounts import PLAIN, is_device
from ..cluster.node_table import NodeTable
from ..cluster.view import ClusterView
from ..records.demand import Composite, Exclusive, Group, Leaf, PodClass, Shape

Goal = Literal["everything", "roles", "minimum"]


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """Equal pods of one leaf: at least `least`, at most `most` of them."""

    shape: Shape
    role: str
    least: int
    most: int


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    group: int
    #: Equal for parts that differ in their ids only.
    type: int
    #: Topology keys, each within the domain of the one before.
    keys: tuple[str, ...]
    #: Rows of bound members below; they decide the domain.
    pins: tuple[int, ...]
    #: Pods still to place (leaf), children that must hold (composite).
    need: int
    #: The fewest pods that make it hold, in all and by shape.
    pods: int
    least: Mapping[Shape, int]
    # leaf
    asks: tuple[Ask, ...] = ()
    exclusive: Exclusive | None = None
    #: Pods for which the chosen domain should have slots.
    target: int = 0
    #: Of unknown final size: prefer the domain with the most slots.
    growing: bool = False
    # composite, in the order the search takes them
    children: tuple[Part, ...] = ()

    @property
    def supply(self) -> int:
        """Pods that a leaf has."""
        return sum(ask.most for ask in self.asks)

    @property
    def is_leaf(self) -> bool:
        return not self.children

    def kinds(self, exactly: bool = True) -> list[list[Part]]:
        """The children for a model that counts: equal leaves together if their number in a domain says everything.

        Unless leaves get `exactly` what they need, that holds only for those that need all their members.
        """
        kinds: dict[object, list[Part]] = {}
        for number, child in enumerate(self.children):
            by_number = child.need == child.supply or (exactly and len(child.asks) == 1)
            countable = child.is_leaf and not child.pins and by_number
            kinds.setdefault(child.type if countable else ("single", number), []).append(child)
        return list(kinds.values())


class PartBuilder:
    """Builds parts of one demand for one goal; equal content gets an equal type over all goals."""

    def __init__(self, view: ClusterView) -> None:
        self._table: NodeTable = view.node_table
        self._types: dict[object, int] = {}
        self._shapes: dict[Shape, int] = {}

    def part(self, group: Group, goal: Goal, narrowed: Mapping[int, str] | None = None) -> Part:
        """`narrowed` adds a preferred key to groups, as if it were required."""
        extra = (narrowed or {}).get(group.id)
        if isinstance(group, Leaf):
            return self._leaf(group, goal, extra)
        children = [self.part(child, goal, narrowed) for child in group.children]
        return self._composite(group, goal, extra, children)

    def aims(self, root: Group) -> list[Part]:
        """Parts of which any one would be progress: the root's minimum, or more for a root that already holds.

        In the latter case each aim is one leaf with one more pod, or one more group that holds; the groups above
        keep their domains.
        """
        return list(self._aims(root))

    def _aims(self, group: Group) -> Iterator[Part]:
        part = self.part(group, "minimum")
        if not satisfied(group):
            yield part
        elif isinstance(group, Leaf):
            if part.supply:
                yield self._leaf(replace(group, min_count=len(group.bound) + 1), "minimum", None)
        else:
            for child in group.children:
                for aim in self._aims(child):
                    kind = self._type(("aim", part.type, aim.type), None)
                    yield replace(part, type=kind, need=1, pods=aim.pods, least=aim.least, children=(aim,))

    def _leaf(self, leaf: Leaf, goal: Goal, extra: str | None) -> Part:
        asks = _asks(leaf, goal)
        members = sum(ask.most for ask in asks)
        need = max(0, leaf.min_count - len(leaf.bound), sum(ask.least for ask in asks))
        keys = keys_of(self._table, leaf, extra)
        pins = self._pins(leaf)
        growing = leaf.min_count <= 1 and leaf.final_size is None and leaf.topology is not None
        target = max(members, (leaf.final_size or 0) - len(leaf.bound))
        content = tuple((self._shape(ask.shape), ask.role, ask.least, ask.most) for ask in asks)
        signature = ("leaf", need, keys, pins, leaf.exclusive, target, growing, content)
        return Part(
            leaf.id, self._type(signature, leaf.id if pins else None), keys, pins, need, need, _least(asks, need),
            asks, leaf.exclusive, target, growing,
        )  # fmt: skip

    def _composite(self, group: Composite, goal: Goal, extra: str | None, children: list[Part]) -> Part:
        need = max(len(children), group.min_groups) if goal == "everything" else group.min_groups
        keys = keys_of(self._table, group, extra)
        pins = tuple(sorted({pin for child in children for pin in child.pins}))
        all_needed = need >= len(children)
        ordered = sorted(children, key=lambda part: self._rank(part, all_needed))
        pods = sum(sorted(part.pods for part in children)[:need])
        least = Counter[Shape]()
        if all_needed:
            for part in children:
                least.update(part.least)
        signature = ("composite", need, keys, tuple(part.type for part in ordered))
        kind = self._type(signature, group.id if pins else None)
        return Part(group.id, kind, keys, pins, need, pods, least, children=tuple(ordered))

    def _rank(self, part: Part, all_needed: bool) -> tuple[object, ...]:
        """Largest first if all must hold; otherwise the cheapest make the minimum."""
        narrow = max((self._table.level_of.get(key, 0) + 1 for key in part.keys), default=0)
        size = -part.pods if all_needed else part.pods
        return (not part.pins, -narrow, size, part.type, part.group)

    def _shape(self, shape: Shape) -> int:
        """A number for a shape, since shapes are slow to hash."""
        return self._shapes.setdefault(shape, len(self._shapes))

    def _type(self, signature: object, unique: int | None) -> int:
        return self._types.setdefault((signature, unique), len(self._types))

    def _pins(self, leaf: Leaf) -> tuple[int, ...]:
        rows = {self._table.row(bound.node) for bound in leaf.bound}
        return tuple(sorted(row for row in rows if row is not None))


def keys_of(table: NodeTable, group: Group, preferred: str | None = None) -> tuple[str, ...]:
    """The keys that all pods of a group share a domain of, wide before narrow; a `preferred` one as if required."""
    exclusive = group.exclusive.key if isinstance(group, Leaf) and group.exclusive else None
    return table.in_order((group.topology, exclusive, preferred))


def satisfied(group: Group) -> bool:
    """Whether a group has its minimum in bound members."""
    if isinstance(group, Leaf):
        return len(group.bound) >= group.min_count
    return sum(map(satisfied, group.children)) >= group.min_groups


def _asks(leaf: Leaf, goal: Goal) -> tuple[Ask, ...]:
    """The classes of a leaf, largest pods first, with the least number of each."""
    missing = leaf.min_count - len(leaf.bound)
    if missing >= sum(len(pods.members) for pods in leaf.classes):
        goal = "everything"
    elif goal == "roles" and missing > 0 and len({pods.role for pods in leaf.classes}) == 1:
        goal = "minimum"  # any pod covers the only role
    if goal != "roles" and len(leaf.classes) == 1 and leaf.classes[0].members:
        (pods,) = leaf.classes
        size = len(pods.members)
        return (Ask(pods.shape, pods.role, size if goal == "everything" else 0, size),)
    merged = merge(leaf.classes)
    sizes = {key: len(members) for key, members in merged.items()}
    must = dict.fromkeys(merged, 0)
    if goal == "everything":
        must = dict(sizes)
    elif goal == "roles":
        covered = {bound.role for bound in leaf.bound}
        for shape, role in sorted(merged, key=lambda key: weight(key[0])):
            if role not in covered:
                covered.add(role)
                must[shape, role] = 1
    ordered = list(merged)
    if len(ordered) > 1:
        ordered.sort(key=lambda key: (*(-amount for amount in weight(key[0])), repr(key)))
    return tuple(Ask(shape, role, must[shape, role], sizes[shape, role]) for shape, role in ordered)


def _least(asks: tuple[Ask, ...], need: int) -> Mapping[Shape, int]:
    """The fewest pods of each shape if `need` are placed in all."""
    if len(asks) == 1:
        return {asks[0].shape: need} if need else {}
    members, least = sum(ask.most for ask in asks), Counter[Shape]()
    for shape in {ask.shape: None for ask in asks}:
        alike = [ask for ask in asks if ask.shape == shape]  # several roles may share a shape
        others = members - sum(ask.most for ask in alike)
        least[shape] = max(sum(ask.least for ask in alike), need - others)
    return +least


def merge(classes: tuple[PodClass, ...]) -> dict[tuple[Shape, str], list[int]]:
    """Members by (shape, role), in their order."""
    merged: dict[tuple[Shape, str], list[int]] = {}
    for pods in classes:
        if pods.members:
            merged.setdefault((pods.shape, pods.role), []).extend(pods.members)
    return merged


def weight(shape: Shape) -> tuple[int, ...]:
    """How big a pod is: devices first, then cpu, then memory."""
    amounts = dict(shape.requests)
    devices = sum(amount for name, amount in shape.requests if is_device(name))
    return (devices, amounts.get("cpu", 0), amounts.get("memory", 0))


def main_resource(shape: Shape) -> str:
    """The resource that measures a pod's size: a device if it requests one, else the first plain resource."""
    asked = [name for name, amount in shape.requests if amount > 0]
    devices = [name for name in asked if is_device(name)]
    return (devices or [name for name in PLAIN if name in asked] or asked)[0]


def walk(part: Part) -> Iterator[Part]:
    yield part
    for child in part.children:
        yield from walk(child)


def shapes_of(part: Part) -> list[Shape]:
    return list(dict.fromkeys(ask.shape for each in walk(part) for ask in each.asks))


def without_pod_rules(part: Part) -> Part:
    """The same part without terms between pods."""
    if not any(shape.has_pod_rules for shape in shapes_of(part)):
        return part
    least = Counter[Shape]()
    for shape, count in part.least.items():
        least[_alone(shape)] += count
    asks = tuple(replace(ask, shape=_alone(ask.shape)) for ask in part.asks)
    return replace(part, least=least, asks=asks, children=tuple(map(without_pod_rules, part.children)))


def _alone(shape: Shape) -> Shape:
    return replace(shape, affinity=(), anti_affinity=(), spread=(), identity=None)
