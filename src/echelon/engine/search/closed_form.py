"""The most common parts, answered without search: one leaf of equal pods, anywhere in a region or in one domain of it,
and equal leaves with an exclusive domain each.

Slots alone decide here, so one comparison over the domains of the key is a placement or a proof.  `solve_closed_form`
answers for a part of any tree; `fast_path` goes from a demand that is one such leaf straight to the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..cluster.arrays import Ints
from ..cluster.regions import Region
from ..cluster.view import ClusterView
from ..space.canonical import Part
from ..space.compact import compact
from ..space.tasks import Found, NotFound, Put

#: Slots beyond this count as equal.
MANY = 1 << 30


def solve_closed_form(view: ClusterView, part: Part, region: Region) -> Found | NotFound | None:
    """The answer, or None if the part is of another kind."""
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
    """Equal leaves that must all hold, each alone in its domain: as many domains as leaves."""
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
    order = domain_order(first, slots).argsort(kind="stable")[:number]
    seats = [Region(level, index) for index in found[order].tolist()]
    placed = list(zip(part.children, seats, strict=True))
    return Found([(part, region), *placed], [_put(view, child, seat) for child, seat in placed])


def _put(view: ClusterView, part: Part, region: Region) -> Put:
    ask = part.asks[0]
    slots = view.slot_cache.slots(ask.shape)
    return Put(part, ask, *compact(view.node_table, ask.shape, slots.rows, region, part.need, slots.roll))


def domain_order(part: Part, slots: Ints) -> Ints:
    """Smaller is better: most members first, then the tightest domain (or the roomiest for growing groups)."""
    slots = np.minimum(slots, MANY)
    if part.growing:
        return -slots
    wanted = min(max(part.target, part.pods), MANY)
    order: Ints = slots - np.minimum(slots, wanted) * (2 * MANY)
    return order


def _choose(view: ClusterView, part: Part, region: Region) -> Region | NotFound | None:
    """The best domain that holds the part."""
    slots = view.slot_cache.slots(part.asks[0].shape)
    if not part.keys and part.exclusive is None:
        enough = part.need <= min(part.supply, int(slots.roll(region.level)[region.index]))
        return region if enough else NotFound(proved=True)
    domains = _fitting(view, (part,), region)
    if domains is None:
        return None
    level, found, counts = domains
    if not len(found) or part.need > part.supply:
        return NotFound(proved=True)
    return Region(level, found.item(domain_order(part, counts).argmin()))


def _fitting(view: ClusterView, alike: Sequence[Part], region: Region) -> tuple[int, Ints, Ints] | None:
    """The level of the one key of equal leaves, its domains that hold one of them, and their slots."""
    table, part = view.node_table, alike[0]
    level = table.level_of.get(part.keys[0])
    if len(part.keys) > 1 or level is None or level <= region.level:
        return None
    low, high = table.inner(region.level, region.index, level)
    slots = view.slot_cache.slots(part.asks[0].shape).roll(level)[low:high]
    fitting = table.named(level)[low:high] & (slots >= part.need)
    if part.exclusive is not None:
        if any(view.exclusivity.domains_of(part.exclusive, each.group) for each in alike):
            return None
        fitting &= ~view.exclusivity.taken(part.exclusive)[low:high]
    found = fitting.nonzero()[0]
    return level, found + low, slots[found]
