"""The trees that `level_pack` takes: whether a tree is regular, and to which depth."""

from __future__ import annotations

from ..cluster.regions import Region
from ..space.bounds import own_level
from ..space.canonical import Part, walk
from ..space.trial_state import AmountState, SlotState


def regular_depth(state: SlotState | AmountState, root: Part, region: Region) -> int:
    """The depth to which all groups must hold, those of one depth in domains of one level inside the depth above.

    0 if the tree is not regular at all, if bound members, exclusivity or unlisted keys make equal domains differ, or
    if there is only one domain, which would be the same problem again.
    """
    if any(part.pins or part.exclusive is not None or _unlisted(state, part) for part in walk(root)):
        return 0
    parts, depth, around = [root], 0, region.level
    while all(part.children and part.need >= len(part.children) for part in parts):
        below = [child for part in parts for child in part.children]
        levels = {own_level(state, part) for part in below}
        if len(levels) > 1 or min(levels) <= around or any(len(part.keys) != 1 for part in below):
            break
        parts, depth, (around,) = below, depth + 1, levels
    low, high = state.table.inner(region.level, region.index, around)
    return depth if high - low > 1 or are_whole_leaves(state, parts) else 0


def are_whole_leaves(state: SlotState | AmountState, parts: list[Part]) -> bool:
    """Whether parts are leaves that take all of their members, or any of equal ones."""
    counted = isinstance(state, SlotState)
    return all(
        part.is_leaf and 0 < part.need <= part.supply and (counted or part.need == part.supply) for part in parts
    )


def _unlisted(state: SlotState | AmountState, part: Part) -> bool:
    return any(key not in state.table.level_of for key in part.keys)


def at_depth(root: Part, depth: int) -> list[Part]:
    """The parts of a depth."""
    parts = [root]
    for _ in range(depth):
        parts = [child for part in parts for child in part.children]
    return parts
