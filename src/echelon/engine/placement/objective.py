"""What a placement is worth: its objective, read off where groups and pods are, and a lower bound of it.

The objective is (roles missing, groups left out, members left out, preferred keys missed, spare slots around the
groups), smaller is better, the first that differs decides.  It depends on nothing but the placement: a preferred key
is honoured if all pods of a group share a domain of it, whether that was sought or not.

`bound` is a lower bound in the same order: each number holds for all placements that agree in the numbers before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ..cluster.arrays import Ints
from ..cluster.node_table import NodeTable
from ..cluster.regions import CLUSTER, Region, domain_around
from ..cluster.view import ClusterView
from ..records.demand import Composite, Demand, Group, Leaf, Shape
from ..records.verdict import Objective
from ..space.canonical import keys_of
from ..space.tasks import Found, Put

#: More slots than any domain has.
LARGEST_NUMBER = int(np.iinfo(np.int64).max)


@dataclass(slots=True)
class DraftPlacement:
    """A placement before members have nodes: the region of every group that holds, pods on rows."""

    seats: dict[int, Region] = field(default_factory=dict)
    puts: list[Put] = field(default_factory=list)
    proved: bool = True

    def add(self, found: Found) -> None:
        self.seats.update((part.group, region) for part, region in found.seats)
        self.puts += found.puts


def groups_of(root: Group) -> list[Group]:
    """All groups of a tree, parents before children."""
    found: list[Group] = [root]
    for group in found:
        if isinstance(group, Composite):
            found.extend(group.children)
    return found


# ---- preferred keys


def count_missed_preferences(view: ClusterView, root: Group, draft: DraftPlacement) -> dict[int, int]:
    """Preferred keys missed, by group that has any; its region and those below are narrowed to the best key met."""
    preferring = [group for group in groups_of(root) if group.preferred]
    if not preferring:
        return {}
    rows = _rows_below(view, root, draft)
    missed = {}
    for group in preferring:
        missed[group.id] = len(group.preferred)
        if group.id in draft.seats:
            missed[group.id] = _missed(view.node_table, group, rows[group.id])
    _narrow(view.node_table, root, CLUSTER, draft, rows, missed)
    return missed


def find_regions(view: ClusterView, root: Group, draft: DraftPlacement) -> None:
    """Set the regions of groups that hold, where only their pods are known."""
    groups = groups_of(root)
    rows = _rows_below(view, root, draft)
    _narrow(view.node_table, root, CLUSTER, draft, rows, {group.id: len(group.preferred) for group in groups})


def _rows_below(view: ClusterView, group: Group, draft: DraftPlacement) -> dict[int, list[int]]:
    """The rows of all pods of each group, new and bound."""
    found: dict[int, list[int]] = {}
    new: dict[int, list[int]] = {}
    for put in draft.puts:
        new.setdefault(put.part.group, []).extend(put.rows.tolist())

    def collect(group: Group) -> list[int]:
        if isinstance(group, Leaf):
            bound = (view.node_table.row(bound.node) for bound in group.bound)
            rows = new.get(group.id, []) + [row for row in bound if row is not None]
        else:
            rows = [row for child in group.children for row in collect(child)]
        found[group.id] = rows
        return rows

    collect(group)
    return found


def _missed(table: NodeTable, group: Group, rows: list[int]) -> int:
    honoured = (number for number, key in enumerate(group.preferred) if _shared(table, key, rows))
    return next(honoured, len(group.preferred))


def _shared(table: NodeTable, key: str, rows: list[int]) -> bool:
    """Whether rows lie in one domain of a key."""
    if not rows:
        return True
    level = table.level_of.get(key)
    ids = table.column(key).ids if level is None else table.domains(level)
    first = int(ids[rows[0]])
    named = first >= 0 if level is None else bool(table.named(level)[first])
    return named and bool((ids[rows] == first).all())


def _narrow(
    table: NodeTable,
    group: Group,
    around: Region,
    draft: DraftPlacement,
    rows: dict[int, list[int]],
    missed: Mapping[int, int],
) -> None:
    if group.id not in draft.seats:
        return
    region, honoured = around, missed.get(group.id, len(group.preferred))
    extra = group.preferred[honoured] if honoured < len(group.preferred) else None
    if rows[group.id]:
        for key in keys_of(table, group, extra):
            region = domain_around(table, region, key, rows[group.id][0])
        draft.seats[group.id] = region
    for child in group.children if isinstance(group, Composite) else ():
        _narrow(table, child, region, draft, rows, missed)


# ---- the objective


def objective_and_bound(
    view: ClusterView, demand: Demand, draft: DraftPlacement, assignment: Mapping[int, str]
) -> tuple[Objective, Objective]:
    """The objective of a draft, and a lower bound that needs no search."""
    missed = count_missed_preferences(view, demand.root, draft)
    groups, leaves = groups_of(demand.root), list(demand.leaves())
    asked = sum(len(pods.members) for leaf in leaves for pods in leaf.classes)
    spare, least = _around_groups(view, leaves, draft)
    objective = Objective(
        roles_missing=sum(_roles_missing(leaf, assignment) for leaf in leaves),
        groups_left_out=len(groups) - len(draft.seats),
        members_left_out=asked - len(assignment),
        preferred_missed=sum(missed.values()),
        spare_slots=spare,
    )
    return objective, _bound(view, demand, objective, least)


def _bound(view: ClusterView, demand: Demand, objective: Objective, least_spare: int) -> Objective:
    """A lower bound; `least_spare` holds for placements of all groups that miss the same preferred keys."""
    if not any(objective.without_spare):
        return Objective(spare_slots=least_spare)
    by_slots = LeftOutBound(view)
    if any(objective.left_out):
        return Objective(*by_slots.left_out(demand))
    missed = by_slots.missed(group for group in groups_of(demand.root) if group.preferred)
    # No group misses fewer keys than this: if the sum is the same, every placement misses the same keys.
    spare = least_spare if missed == objective.preferred_missed else 0
    return Objective(preferred_missed=missed, spare_slots=spare)


def _roles_missing(leaf: Leaf, assignment: Mapping[int, str]) -> int:
    if len(leaf.classes) == 1 and leaf.classes[0].members and leaf.classes[0].members[0] in assignment:
        return 0
    present = {bound.role for bound in leaf.bound}
    roles = {pods.role for pods in leaf.classes if pods.members} - present
    return len(roles - {pods.role for pods in leaf.classes if any(member in assignment for member in pods.members)})


def is_measured(leaf: Leaf) -> bool:
    """Whether spare slots count: not for a group that will grow, for which a tight domain is no gain."""
    if leaf.final_size is None:
        return leaf.min_count > 1 or leaf.topology is None
    return leaf.final_size <= len(leaf.bound) + sum(len(pods.members) for pods in leaf.classes)


def _around_groups(view: ClusterView, leaves: Iterable[Leaf], draft: DraftPlacement) -> tuple[int, int]:
    """Spare slots around the pods of each leaf and shape, and the fewest if each leaf were alone.

    Slots of shapes with rules between pods do not measure a domain and are not counted.
    """
    measured = {leaf.id for leaf in leaves if is_measured(leaf)}
    pods: dict[int, list[tuple[Shape, int]]] = {}
    for put in draft.puts:
        if put.part.group in measured and not put.ask.shape.has_pod_rules:
            _count(pods.setdefault(put.part.group, []), put.ask.shape, int(put.counts.sum()))
    spare = least = 0
    known: dict[tuple[int, int, int], int] = {}
    for leaf, shape, count in ((leaf, *each) for leaf, counts in pods.items() for each in counts):
        region, slots = draft.seats[leaf], view.slot_cache.slots(shape)
        if region.rows is not None:
            spare += int(slots.rows[region.rows].sum()) - count
            continue
        domains = slots.roll(region.level)
        spare += int(domains[region.index]) - count
        if (id(shape), region.level, count) not in known:
            known[id(shape), region.level, count] = _tightest(domains, count)
        least += known[id(shape), region.level, count]
    return spare, least


def _count(pods: list[tuple[Shape, int]], shape: Shape, more: int) -> None:
    """Add to the pods of a shape; shapes are slow to hash and there are few of them."""
    for number, (known, count) in enumerate(pods):
        if known is shape or known == shape:
            pods[number] = (known, count + more)
            return
    pods.append((shape, more))


def _tightest(domains: Ints, count: int) -> int:
    return int(domains[domains >= count].min(initial=LARGEST_NUMBER)) - count


# ---- the bound by slots


class LeftOutBound:
    """What no placement can avoid, by slots alone.

    A group has at best a domain of its key to itself, with all slots that are free there now.  What does not fit even
    so is left out, and a preferred key of which no domain holds the whole group is missed.
    """

    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self._most: dict[tuple[int, str | None], int] = {}

    def left_out(self, demand: Demand) -> tuple[int, int, int]:
        """Roles, groups and members that no placement covers."""
        leaves = list(demand.leaves())
        roles, groups, members = (sum(numbers) for numbers in zip(*map(self._leaf, leaves), strict=True))
        return roles, groups, max(members, self._beyond_all_slots(leaves))

    def _leaf(self, leaf: Leaf) -> tuple[int, int, int]:
        slots = [min(len(pods.members), self._best(pods.shape, leaf.topology)) for pods in leaf.classes]
        placed = {pods.role for pods, count in zip(leaf.classes, slots, strict=True) if count}
        roles = {pods.role for pods in leaf.classes if pods.members} - placed - {bound.role for bound in leaf.bound}
        members = sum(len(pods.members) for pods in leaf.classes)
        if sum(slots) + len(leaf.bound) < leaf.min_count:
            return len(roles), 1, members
        return len(roles), 0, members - sum(slots)

    def _best(self, shape: Shape, key: str | None) -> int:
        """The most slots in a domain of a key; no limit for shapes with rules between pods."""
        if shape.has_pod_rules:
            return 1 << 40
        known = (id(shape), key)
        if known not in self._most:
            level = -1 if key is None else self.view.node_table.level_of.get(key, -1)
            self._most[known] = int(self.view.slot_cache.slots(shape).roll(level).max(initial=0))
        return self._most[known]

    def _beyond_all_slots(self, leaves: Iterable[Leaf]) -> int:
        """Members for which there are no slots in the whole cluster, shape by shape."""
        waiting = _pods(leaves)
        return sum(max(0, count - self._best(shape, None)) for shape, count in waiting.items())

    def missed(self, groups: Iterable[Group]) -> int:
        """Preferred keys that are missed wherever all members of these groups are placed."""
        return sum(self._missed(group) for group in groups)

    def _missed(self, group: Group) -> int:
        pods = _pods(Demand(group).leaves())
        return next((n for n, key in enumerate(group.preferred) if self._holds(pods, key)), len(group.preferred))

    def _holds(self, pods: Mapping[Shape, int], key: str) -> bool:
        """Whether some domain of a key has slots for these pods, each shape by itself."""
        table = self.view.node_table
        level = table.level_of.get(key)
        if level is None:
            return True
        fitting = table.named(level).copy()
        for shape, count in pods.items():
            if not shape.has_pod_rules:
                slots: Ints = self.view.slot_cache.slots(shape).roll(level)
                fitting &= slots >= count
        return bool(np.any(fitting))


def _pods(leaves: Iterable[Leaf]) -> dict[Shape, int]:
    found: dict[Shape, int] = {}
    for leaf in leaves:
        for pods in leaf.classes:
            found[pods.shape] = found.get(pods.shape, 0) + len(pods.members)
    return found
