"""How many pods of each class leaves take that need only some of their members, as CP-SAT constraints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..space.canonical import Part

Place = TypeVar("Place")


def portions(
    cp: Any, integer: Callable[[int], Any], leaves: list[Part], where: Mapping[Place, Any], exactly: bool = True
) -> dict[tuple[Place, int], Any]:
    """By place and ask, how many pods equal leaves take; `where` says how many of the leaves are at a place.

    They take `exactly` what they need, or more.
    """
    leaf, pods = leaves[0], dict[tuple[Place, int], Any]()
    for place, there in where.items():
        for number, ask in enumerate(leaf.asks):
            some = pods[place, number] = integer(ask.most * len(leaves))
            cp.add(some <= ask.most * there)
            cp.add(some >= ask.least * there)
        total = sum(pods[place, number] for number in range(len(leaf.asks)))
        cp.add(total == leaf.need * there if exactly else total >= leaf.need * there)
    return pods
