"""Why a demand is blocked: for every group of its tree what it needs, what the best domains offer, and why nodes are
excluded.  The numbers come from the roll-up bound; where the bound is too high, from searching with smaller needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import groupby

import numpy as np

from ..cluster.arrays import Bools, Ints, distinct
from ..cluster.free_amounts import clip
from ..cluster.node_filters import allowed, exclusions
from ..cluster.node_table import NodeTable
from ..cluster.pod_index import means
from ..cluster.regions import CLUSTER, Region, path_of, rows_of, split_by_label
from ..cluster.running_terms import closures
from ..cluster.view import ClusterView, Running
from ..records.demand import Composite, Demand, Group, Leaf, Limits, Peers, Shape, given
from ..records.domain_owners import ownership_term
from ..records.reasons import Reason, ReasonKind
from ..records.verdict import DomainCount, Shortage, UnitName
from ..search.backtrack import descent
from ..search.strategy import search, trial_state_for
from ..space.bounds import copies, own_level
from ..space.budget import Steps
from ..space.canonical import Part, PartBuilder, walk, weight
from ..space.tasks import Found, NotFound
from ..space.trial_state import AmountState, SlotState

RegionAt = Callable[[int], Region]

#: Steps for one "how many would fit" question.  All of them together get the decision's budget divided by SHARE, but at
#: least FEWEST steps: the answers are numbers for people, not a verdict.  A shortage says if they are not settled.
TRIAL_STEPS, SHARE, FEWEST = 2_000, 5, 2_000
#: Domains that are compared in order to list the best.
DOMAINS_LOOKED_AT = 64
#: Owners of domains that a reason names.
OWNERS_NAMED = 2


def shortages(view: ClusterView, demand: Demand, limits: Limits = Limits()) -> tuple[Shortage, ...]:
    """One for every group: those that fail by themselves first, innermost first, then those that wait for others.

    A group is judged inside the best domain of the keyed groups above it, since that is where it would have to be.
    """
    builder, known = PartBuilder(view), dict[tuple[object, ...], tuple[Shortage, Region]]()
    steps = Steps(max(FEWEST, limits.steps // SHARE))
    found: list[tuple[tuple[bool, int], Shortage]] = []
    level: list[tuple[Group, Region]] = [(demand.root, CLUSTER)]
    depth = 0
    while level:
        below: list[tuple[Group, Region]] = []
        for group, around in level:
            part = builder.part(group, "minimum")
            # Equal groups have equal shortages.
            kind = (part.type, *_held(group), around.key)
            if kind not in known:
                known[kind] = _Group(view, group, part, around, steps).judged(limits.domains_listed)
            shortage, best = known[kind]
            found.append(((shortage.have >= shortage.need, -depth), replace(shortage, group=group.id)))
            if isinstance(group, Composite):
                below += ((child, best) for child in group.children)
        level = below
        depth += 1
    found.sort(key=lambda item: item[0])
    return tuple(shortage for _, shortage in found)


def _held(group: Group) -> tuple[int, int]:
    """The minimum of a group, and how many members of a leaf are bound."""
    return (group.min_count, len(group.bound)) if isinstance(group, Leaf) else (group.min_groups, 0)


def present(group: Group) -> int:
    """How many pods, bound ones included, or children a group has."""
    if isinstance(group, Composite):
        return len(group.children)
    return len(group.bound) + sum(len(pods.members) for pods in group.classes)


class _Group:
    """One group by itself, as if no other group used the region around it."""

    def __init__(self, view: ClusterView, group: Group, part: Part, around: Region, steps: Steps) -> None:
        self.view, self.group, self.part, self.table, self.around = view, group, part, view.node_table, around
        self.steps, self.settled = steps, True
        #: How many fit, by content of a domain: equal domains are searched once, unless pins or holders differ.
        self._known: dict[object, int] = {}
        self._alike = not any(one.pins or one.exclusive for one in walk(part))
        self.state: SlotState | AmountState = trial_state_for(view, self.part, around)
        self.need, self.bound = _held(group)
        if self.part.supply and self.bound >= self.need and isinstance(group, Leaf):
            self.need = self.bound + 1  # the minimum is bound; the shortage is about one more pod

    def judged(self, listed: int) -> tuple[Shortage, Region]:
        """What it lacks, with the best `listed` domains, and the region in which its children are looked at."""
        regions, offers = self._offers()
        order = self._order(regions, offers, listed)
        tried = [(self._count(region, int(offers[spot])), region) for spot in order for region in (regions(spot),)]
        tried.sort(key=lambda pair: (-pair[0].have, -self._promise_to_children(pair[1])))
        best = max((count.have for count, _ in tried), default=self.bound)
        shortage = Shortage(
            self.group.id, self.need, best, self._key(), tuple(count for count, _ in tried), len(offers),
            self._exclusions(), isinstance(self.group, Composite), present(self.group),
            path_of(self.table, self.around), *self._each(), self._held_on() if not len(offers) else (), self.settled,
        )  # fmt: skip
        inside = tried[0][1] if tried and tried[0][1].rows is None else self.around
        return shortage, inside

    def _order(self, regions: RegionAt, offers: Ints, number: int) -> list[int]:
        """The best domains first; of equal ones, first those with a node that could take a pod if it were empty."""
        order: list[int] = np.argsort(-offers, kind="stable")[:DOMAINS_LOOKED_AT].tolist()
        shape = self._largest
        if shape is None:
            return order[:number]
        found: list[int] = []
        for _, alike in groupby(order, offers.__getitem__):
            helpful, others = list[int](), list[int]()
            for spot in alike:
                if len(found) + len(helpful) < number:
                    (helpful if self._could_hold(shape, regions(spot)) else others).append(spot)
            found += helpful + others
        return found[:number]

    def _could_hold(self, shape: Shape, region: Region) -> bool:
        """Whether a domain has a node that would take such a pod if it were empty."""
        rows = rows_of(self.table, region)
        nodes = (self.table.nodes[row].allocatable for row in rows[allowed(self.table, shape, rows)].tolist())
        wanted = [(name, amount) for name, amount in shape.requests if amount > 0]
        return any(all(node.get(name, given(name)) >= amount for name, amount in wanted) for node in nodes)

    def _held_on(self) -> tuple[str, ...]:
        return tuple(self.table.name(row) for row in self.part.pins)

    def _key(self) -> str:
        """Its own key, or that of the domain around it; "" for the whole cluster."""
        if self.part.keys:
            return self.part.keys[-1]
        return self.table.levels[self.around.level] if self.around.level >= 0 else ""

    def _each(self) -> tuple[int, str]:
        """The minimum and the key of one child, if all children are equal leaves."""
        children = self.part.children
        if not children or not children[0].is_leaf or len({child.type for child in children}) > 1:
            return 0, ""
        return children[0].need, children[0].keys[-1] if children[0].keys else ""

    def _promise_to_children(self, region: Region) -> float:
        """How much of its children's needs a region covers, by the bound: orders domains in which equally many fit."""
        if region.rows is not None:
            return 0.0
        kinds = {child.type: child for child in self.part.children}
        return sum(self._share(child, region) for child in kinds.values())

    def _share(self, child: Part, region: Region) -> float:
        own = max(own_level(self.state, child), region.level)
        if own not in self.state.levels:
            return 0.0
        low, high = self.table.inner(region.level, region.index, own)
        most = int(promised(self.state, child, own, low, high).max(initial=0))
        return min(most, child.need) / max(1, child.need)

    def _offers(self) -> tuple[RegionAt, Ints]:
        """The domains of its key and, for each, how much of the need fits by the bound."""
        key = self.part.keys[-1] if self.part.keys else None
        level = self.around.level if key is None else self.table.level_of.get(key)
        if level is None:
            return self._unlisted(str(key))
        named = self._named_around(level)
        level = max(level, self.around.level)
        low, high = self.table.inner(self.around.level, self.around.index, level)
        offers = self._promised(level, low, high)
        indices = low + np.flatnonzero(self._admissible(level)[low:high] & named)
        return (lambda spot: Region(level, int(indices[spot]))), offers[indices - low]

    def _named_around(self, level: int) -> bool:
        """Whether the region around it lies in a named domain of a wider level."""
        if level >= self.around.level:
            return True
        domain = self.table.domains(level)[rows_of(self.table, self.around)[0]]
        return level < 0 or bool(self.table.named(level)[domain])

    def _admissible(self, level: int) -> Bools:
        fine = self.table.named(level).copy()
        if self.part.pins:
            pinned = distinct(self.table.domains(level)[list(self.part.pins)].tolist())
            fine &= np.isin(np.arange(len(fine)), pinned)
        return fine

    def _unlisted(self, key: str) -> tuple[RegionAt, Ints]:
        regions = split_by_label(self.table, self.around, key)
        offers = []
        for region in regions:
            rows = rows_of(self.table, region)
            room = sum(
                min(int(self.view.slot_cache.slots(shape).rows[rows].sum()), most)
                for shape, most in _supply(self.part).items()
            )
            offers.append(self.bound + room if isinstance(self.group, Leaf) else self.need)
        return regions.__getitem__, np.array(offers, dtype=np.int64)

    def _promised(self, level: int, low: int, high: int) -> Ints:
        total = promised(self.state, self.part, level, low, high)
        if not isinstance(self.group, Leaf):
            return total
        total += self.bound
        if self.part.exclusive and self.table.level_of.get(self.part.exclusive.key) == level:
            total[self.state.held_domains(self.part)[low:high]] = self.bound
        return total

    def _count(self, region: Region, promised: int) -> DomainCount:
        have = promised if promised < self.need and self._exact() else self._reached(region, promised)
        short = self._short_of(region) if have < self.need else ""
        return DomainCount(
            path_of(self.table, region), self.need, have, short, self._holder(region), *self._nodes(region)
        )

    def _nodes(self, region: Region) -> tuple[int, int]:
        """The nodes of a region, and those that take at least one of a leaf's largest pods."""
        rows, shape = rows_of(self.table, region), self._largest
        if shape is None or not isinstance(self.group, Leaf):
            return len(rows), 0
        return len(rows), int((self.view.slot_cache.slots(shape).rows[rows] > 0).sum())

    def _exact(self) -> bool:
        return isinstance(self.group, Leaf) and isinstance(self.state, SlotState)

    def _reached(self, region: Region, promised: int) -> int:
        """The most that fits in a region, by searching; equal domains are searched once."""
        if region.rows is not None or not self._alike:
            return self._tried(region, promised)
        alike = (promised, self.state.content(region.level, region.index))
        if alike not in self._known:
            self._known[alike] = self._tried(region, promised)
        return self._known[alike]

    def _tried(self, region: Region, promised: int) -> int:
        """The most that a search finds; a need that the budget leaves open counts as too large."""
        part = replace(self.part, keys=(), exclusive=None)
        low, high = min(promised, self.bound), min(promised, self.need)
        goal = high
        while low < high:
            found = self._search(relaxed(part, goal - self.bound), region)
            if isinstance(found, Found):
                low = goal
            else:
                high = goal - 1
                self.settled &= found.proved
            goal = (low + high + 1) // 2
        return promised if low == self.need else low

    def _search(self, part: Part, region: Region) -> Found | NotFound:
        """Search; where children may be chosen, first with exactly the cheapest ones, which is easier."""
        if 0 < part.need < len(part.children):
            found = self._trial(replace(part, children=part.children[: part.need]), region)
            if isinstance(found, Found):
                return found
        return self._trial(part, region)

    def _trial(self, part: Part, region: Region) -> Found | NotFound:
        """Search within the budget, with enough steps for one descent at least."""
        with self.steps.lend(min(TRIAL_STEPS, self.steps.left // 2), least=descent(part)) as trial:
            return search(self.view, part, region, trial)

    def _short_of(self, region: Region) -> str:
        """The resource that runs out first for the largest pods below."""
        shape = self._largest
        if shape is None:
            return ""
        rows = rows_of(self.table, region)
        fine = rows[allowed(self.table, shape, rows)]
        names, counts = _by_resource(self.table, shape, fine)
        if not len(fine) or not names:
            return ""
        slots, scarcest = min(zip(counts.sum(axis=1).tolist(), names, strict=True))
        # Where every resource suffices, terms about other pods exclude these.
        if isinstance(self.group, Leaf):
            enough = slots >= self.need - self.bound
        else:
            enough = shape.has_pod_rules and slots >= self.part.pods
        return "" if enough else scarcest

    @cached_property
    def _largest(self) -> Shape | None:
        shapes = [ask.shape for leaf in _leaves(self.part) for ask in leaf.asks]
        return max(shapes, key=weight) if shapes else None

    def _holder(self, region: Region) -> UnitName | None:
        exclusive = self.part.exclusive
        if exclusive is None:
            return None
        exclusivity = self.view.exclusivity
        domain = exclusivity.domain(exclusive.key, int(rows_of(self.table, region)[0]))
        others = [group for group in exclusivity.holders(exclusive).get(domain, {}) if group != self.part.group]
        peers = ownership_term(exclusive).peers
        shared = self._largest is not None and ownership_term(exclusive) in self._largest.anti_affinity
        for pod in self.view.all_running() if others or shared else ():
            # Pods of one group may be several units, in different domains.
            alike = pod.group == others[0] and pod.exclusive == exclusive if others else meant(peers, pod)
            row = self.table.row(pod.node) if alike else None
            if row is not None and exclusivity.domain(exclusive.key, row) == domain:
                unit = self.view.unit(pod.unit)
                return UnitName(pod.unit, unit.name if unit else "", unit.priority if unit else 0)
        return None

    def _exclusions(self) -> dict[Reason, int]:
        """Nodes that take no pod of the leaf's largest shape."""
        shape = self._largest
        return excluded_nodes(self.view, shape) if shape is not None and isinstance(self.group, Leaf) else {}


def promised(state: SlotState | AmountState, part: Part, level: int, low: int, high: int) -> Ints:
    """For the domains low..high of a level: pods of a leaf, or children of a composite, that fit by the bound."""
    total = np.zeros(high - low, dtype=np.int64)
    if part.is_leaf:
        for shape, most in _supply(part).items():
            total += np.minimum(state.slots(shape, level)[low:high], most)
        return total
    for kind, number in Counter(child.type for child in part.children).items():
        child = next(child for child in part.children if child.type == kind)
        total += np.minimum(copies(state, child, level, low, high), number)
    if isinstance(state, SlotState):
        sizes = np.cumsum(sorted(child.pods for child in part.children))
        slots = state.slots(state.shape, level)[low:high]
        total = np.minimum(total, np.searchsorted(sizes, slots, side="right"))
    return total


def _supply(part: Part) -> Counter[Shape]:
    supply = Counter[Shape]()
    for ask in part.asks:
        supply[ask.shape] += ask.most
    return supply


def meant(peers: Peers, pod: Running) -> bool:
    return pod.identity is not None and means(peers, pod.identity)


def excluded_nodes(view: ClusterView, shape: Shape) -> dict[Reason, int]:
    """Nodes that take no pod of a shape, each counted once under its first reason."""
    table, reasons = view.node_table, dict[Reason, int]()
    open_rows = np.ones(table.size, dtype=np.bool_)
    closed_by_pods = closures(table, view.pod_index, shape) if shape.has_pod_rules else ()
    for reason, shut in (*exclusions(table, shape), *closed_by_pods, *_full(table, shape)):
        number = int((open_rows & shut).sum())
        if number:
            reason = _with_owners(view, reason)
            reasons[reason] = reasons.get(reason, 0) + number  # taints of one key and value may differ in effect
        open_rows &= ~shut
    return reasons


def _with_owners(view: ClusterView, reason: Reason) -> Reason:
    """The reason with the names of those that own the domains, or that are in the way of owning one."""
    peers = reason.peers
    if peers is None or reason.kind not in (ReasonKind.OWNED_DOMAIN, ReasonKind.SHARED_DOMAIN):
        return reason
    owned, units = reason.kind is ReasonKind.OWNED_DOMAIN, dict[int, None]()
    for pod in view.all_running():
        if any(term.peers == peers for term in pod.repels) if owned else meant(peers, pod):
            units[pod.unit] = None
    names = sorted({unit.name for unit in map(view.unit, units) if unit is not None})
    more = [f"{len(names) - OWNERS_NAMED} more"] if len(names) > OWNERS_NAMED else []
    return reason._replace(detail=(*reason.detail, *names[:OWNERS_NAMED], *more))


def _full(table: NodeTable, shape: Shape) -> Iterator[tuple[Reason, Bools]]:
    """For every resource in turn the rows that have too little of it for one pod."""
    for name, amount in shape.requests:
        known = table.resources.get(name)
        if amount > 0:
            nowhere = np.ones(table.size, dtype=np.bool_)
            kind = ReasonKind.HOST_PORT if given(name) else ReasonKind.SHORT_OF
            yield Reason(kind, (name,)), nowhere if known is None else table.free[known] < clip(amount)


def relaxed(part: Part, need: int) -> Part:
    """The same part with a smaller need."""
    if part.is_leaf:
        least = {part.asks[0].shape: need} if len(part.asks) == 1 else {}
        return replace(part, need=need, pods=need, least=least, asks=tuple(replace(ask, least=0) for ask in part.asks))
    if need >= len(part.children):
        return replace(part, need=need)
    # The cheapest children count towards the minimum.
    children = tuple(sorted(part.children, key=lambda child: (child.pods, child.type, child.group)))
    return replace(part, need=need, pods=sum(child.pods for child in children[:need]), least={}, children=children)


def _leaves(part: Part) -> list[Part]:
    return [part] if part.is_leaf else [leaf for child in part.children for leaf in _leaves(child)]


def _by_resource(table: NodeTable, shape: Shape, rows: Ints) -> tuple[list[str], Ints]:
    """The resources that a shape requests and, for each, how many pods every row takes by that resource alone."""
    asked = [(name, clip(amount)) for name, amount in shape.requests if amount > 0]
    counts: Ints = np.zeros((len(asked), len(rows)), dtype=np.int64)  # none of what no node has
    for row, (name, amount) in enumerate(asked):
        if name in table.resources:
            counts[row] = np.maximum(table.free[table.resources[name], rows] // amount, 0)
    return [name for name, _ in asked], counts
