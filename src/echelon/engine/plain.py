"""The commonest questions, answered without search: one leaf of equal pods, anywhere in a region or in one domain of
it, and leaves that are alike and want a domain each.

Slots decide alone here, so one comparison over the domains of the key is a placement or a proof.  `settle` answers
for a part of any tree; `at_once` goes from a demand that is nothing but one such leaf straight to the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .agenda import Found, NotFound, Put
from .arrays import Ints
from .capacity import NEVER, Slots
from .demand import Demand, Leaf
from .fill import compact, descend
from .layout import Layout
from .parts import Part
from .regions import Region
from .soft import has_wishes
from .verdict import Placed
from .view import ClusterView
from .worth import is_measured

#: Slots beyond this count as equal.
MANY = 1 << 30


def settle(view: ClusterView, part: Part, region: Region) -> Found | NotFound | None:
    """The answer, or None if the part is not as plain as that."""
    if part.pins or not part.need or region.rows is not None:
        return None
    if part.children:
        return _each_alone(view, part, region)
    if len(part.asks) != 1:
        return None
    chosen = _choose(view, part, region)
    if chosen is None or isinstance(chosen, NotFound):
        return chosen
    return Found([(part, chosen)], [_put(view, part, chosen)])


def _each_alone(view: ClusterView, part: Part, region: Region) -> Found | NotFound | None:
    """Leaves that are alike and must all hold, each alone in its domain: as many domains as there are leaves."""
    first, number = part.children[0], len(part.children)
    plain = not part.keys and part.need == number and len(first.asks) == 1 and first.exclusive and first.need
    if not plain or first.pins or any(child.type != first.type for child in part.children):
        return None
    domains = _fitting(view, part.children, region)
    if domains is None:
        return None
    level, found, slots = domains
    if len(found) < number or first.need > first.supply:
        return NotFound(proved=True)
    order = preference(first, slots).argsort(kind="stable")[:number]
    seats = [Region(level, index) for index in found[order].tolist()]
    placed = list(zip(part.children, seats, strict=True))
    return Found([(part, region), *placed], [_put(view, child, seat) for child, seat in placed])


def _put(view: ClusterView, part: Part, region: Region) -> Put:
    ask = part.asks[0]
    slots = view.capacity.slots(ask.shape)
    return Put(part, ask, *compact(view.layout, ask.shape, slots.rows, region, part.need, slots.roll))


def preference(part: Part, slots: Ints) -> Ints:
    """Smaller is better: most members first, then the tightest domain (or the roomiest for growing groups)."""
    slots = np.minimum(slots, MANY)
    if part.growing:
        return -slots
    wanted = min(max(part.target, part.pods), MANY)
    order: Ints = slots - np.minimum(slots, wanted) * (2 * MANY)
    return order


def _choose(view: ClusterView, part: Part, region: Region) -> Region | NotFound | None:
    """The best domain that holds the part."""
    slots = view.capacity.slots(part.asks[0].shape)
    if not part.keys and part.exclusive is None:
        enough = part.need <= min(part.supply, int(slots.roll(region.level)[region.index]))
        return region if enough else NotFound(proved=True)
    domains = _fitting(view, (part,), region)
    if domains is None:
        return None
    level, found, counts = domains
    if not len(found) or part.need > part.supply:
        return NotFound(proved=True)
    return Region(level, found.item(preference(part, counts).argmin()))


def _fitting(view: ClusterView, alike: Sequence[Part], region: Region) -> tuple[int, Ints, Ints] | None:
    """The level of the one key of leaves that are alike, its domains that hold one of them, and their slots."""
    layout, part = view.layout, alike[0]
    level = layout.level_of.get(part.keys[0])
    if len(part.keys) > 1 or level is None or level <= region.level:
        return None
    low, high = layout.inner(region.level, region.index, level)
    slots = view.capacity.slots(part.asks[0].shape).roll(level)[low:high]
    fitting = layout.named(level)[low:high] & (slots >= part.need)
    if part.exclusive is not None:
        if any(view.occupancy.domains_of(part.exclusive, each.group) for each in alike):
            return None
        fitting &= ~view.occupancy.taken(part.exclusive)[low:high]
    found = fitting.nonzero()[0]
    return level, found + low, slots[found]


def at_once(view: ClusterView, demand: Demand) -> Placed | None:
    """The verdict for one leaf of equal pods that all fit; None if it is not as plain as that or does not fit whole.

    The same as the long road through parts and search would lead to, at a fraction of its cost.
    """
    leaf = demand.root
    if not isinstance(leaf, Leaf) or len(leaf.classes) != 1 or leaf.bound or leaf.preferred:
        return None
    (pods,) = leaf.classes
    layout, shape, count = view.layout, pods.shape, len(pods.members)
    if not count or leaf.min_count > count or shape.tied or not layout.knows(shape.requests):
        return None
    if has_wishes(layout, pods):
        return None
    level = _level(view, leaf)
    if level is None:
        return None
    slots = view.capacity.slots(shape)
    found = _seat(view, leaf, slots, level, count)
    if found is None:
        return None
    index, spare = found
    domain = {leaf.id: layout.domain_path(level, index)}
    objective = (0, 0, 0, 0, spare)  # nothing is left out, and no domain that is open to it is tighter
    assignment = _assigned(layout, slots, (level, index), pods.members)
    return Placed(assignment, domain, frozenset((leaf.id,)), objective, objective)


def _assigned(layout: Layout, slots: Slots, domain: tuple[int, int], members: Sequence[int]) -> dict[int, str]:
    """Members in order, close together inside a domain that has the room."""
    count = len(members)
    if count <= slots.most:
        row, domain = descend(layout, slots, domain, count)
        if row >= 0:
            return dict.fromkeys(members, layout.name(row))
    rows, counts = compact(layout, slots.shape, slots.rows, Region(*domain), count, slots.roll)
    spots, nodes = list[str](), layout.nodes
    for row, number in zip(rows.tolist(), counts.tolist(), strict=True):
        spots += [nodes[row].name] * number
    return dict(zip(members, spots, strict=True))


def _level(view: ClusterView, leaf: Leaf) -> int | None:
    """The level in whose domains a leaf may be, -1 for the cluster; None if it is not one listed level."""
    exclusive = leaf.exclusive
    if exclusive is None:
        return -1 if leaf.topology is None else view.layout.level_of.get(leaf.topology)
    if leaf.topology not in (None, exclusive.key) or view.occupancy.domains_of(exclusive, leaf.id):
        return None
    return view.layout.level_of.get(exclusive.key)


def _seat(view: ClusterView, leaf: Leaf, slots: Slots, level: int, count: int) -> tuple[int, int] | None:
    """The domain for a leaf, and the slots that stay free around it there, as far as they count."""
    everywhere = slots.roll(-1).item(0)
    if not count <= everywhere < MANY:
        return None
    measured = is_measured(leaf)
    if level < 0:
        return 0, everywhere - count if measured else 0
    domains = slots.roll(level)
    if measured and leaf.exclusive is None and view.layout.all_named(level):
        best = slots.tightest(level, 0, len(domains), count)
        return None if best < 0 else (best, domains.item(best) - count)
    closed = domains < count
    if leaf.exclusive is not None:
        closed |= view.occupancy.taken(leaf.exclusive)
    if not view.layout.all_named(level):
        closed |= ~view.layout.named(level)
    enough = np.where(closed, NEVER, domains)
    best = int(enough.argmin())
    have = enough.item(best)
    if have == NEVER:
        return None
    if measured:
        return best, have - count
    return _roomy(enough, leaf.final_size or MANY), 0


def _roomy(enough: Ints, wanted: int) -> int:
    """The tightest domain for the final size of a group; the roomiest if none holds it or nobody knows it."""
    ample = np.where(enough >= wanted, enough, NEVER)
    best = int(ample.argmin())
    return best if ample.item(best) < NEVER else int(np.where(enough == NEVER, -1, enough).argmax())
