"""The commonest question, answered without search: one leaf of equal pods, anywhere in a region or in one domain of it.

Slots decide alone here, so one comparison over the domains of the key is a placement or a proof.
"""

from __future__ import annotations

import numpy as np

from .agenda import Found, NotFound, Put
from .fill import compact
from .layout import Ints
from .parts import Part
from .regions import Region
from .view import ClusterView

#: Slots beyond this count as equal.
MANY = 1 << 30


def settle(view: ClusterView, part: Part, region: Region) -> Found | NotFound | None:
    """The answer, or None if the part is not as plain as that."""
    if part.children or part.pins or len(part.asks) != 1 or not part.need or region.rows is not None:
        return None
    chosen = _choose(view, part, region)
    if chosen is None or isinstance(chosen, NotFound):
        return chosen
    ask = part.asks[0]
    slots = view.capacity.slots(ask.shape)
    rows, counts = compact(view.layout, ask.shape, slots.rows, chosen, part.need)
    return Found([(part, chosen)], [Put(part, ask, rows, counts)])


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
    layout = view.layout
    level = layout.level_of.get(part.keys[0])
    if len(part.keys) > 1 or level is None or level <= region.level:
        return None
    low, high = layout.inner(region.level, region.index, level)
    counts = slots.roll(level)[low:high]
    fitting = layout.named(level)[low:high] & (counts >= part.need)
    if part.exclusive is not None:
        if view.occupancy.domains_of(part.exclusive, part.group):
            return None
        fitting &= ~view.occupancy.taken(part.exclusive)[low:high]
    found = np.flatnonzero(fitting)
    if not len(found) or part.need > part.supply:
        return NotFound(proved=True)
    return Region(level, low + int(found[preference(part, counts[found]).argmin()]))
