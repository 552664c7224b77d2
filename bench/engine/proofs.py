"""Random demands on 30 to 200 nodes that just do not fit: how many of the engine's proofs does the judge confirm?

Racks are partly held by others, so that they differ.  What is asked for adds up to less than is free, mostly; it
does not fit because of how it is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from echelon.engine import ClusterView, Composite, Demand, Group

from .harness import World
from .worlds import BLOCK, NOW, RACK, all_of, gang, mixed_gang, next_id, occupy, shape, tree


def held(rng: Random, sizes: tuple[int, ...]) -> tuple[ClusterView, list[int]]:
    """30 to 200 nodes in two blocks of racks, some of them held; and the whole nodes free in each rack."""
    racks, nodes = rng.randint(2, 5), rng.randint(8, 20)
    view = tree(1, 2, racks, nodes)
    names, free = view.node_names(), []
    for start in range(0, len(names), nodes):
        taken = rng.sample(names[start : start + nodes], rng.randint(0, nodes // 2))
        for name in taken:
            occupy(view, [name], shape(rng.choice(sizes)), 1000, NOW - 10, next_id())
        free.append(nodes - len(taken))
    return view, free


def equal_gangs(seed: int) -> World:
    """Rack-gangs of one size, one more than racks hold, though nodes would suffice for it."""
    rng = Random(seed)
    view, free = held(rng, (8,))
    size = rng.randint(3, max(free))
    gangs = sum(rack // size for rack in free) + 1
    return view, [Demand(all_of([gang(size, shape(8), RACK) for _ in range(gangs)]))]


def unequal_gangs(seed: int) -> World:
    """Rack-gangs of two or three sizes that take most of what is free."""
    rng = Random(seed)
    view, free = held(rng, (8,))
    sizes = [rng.randint(max(free) // 3, max(2, 2 * max(free) // 3)) for _ in range(3)]
    gangs: list[Group] = []
    left = sum(free)
    while True:
        size = rng.choice(sizes)
        if size > left:
            break
        left -= size
        gangs.append(gang(size, shape(8), RACK))
    return view, [Demand(all_of(gangs))]


def in_blocks(seed: int) -> World:
    """Composites that want a block each for rack-gangs of their own sizes."""
    rng = Random(seed)
    view, free = held(rng, (8,))
    half = len(free) // 2
    parts: list[Group] = []
    for racks in (free[:half], free[half:]):
        sizes = [max(1, rng.choice(racks) - rng.randint(0, 3)) for _ in range(rng.randint(2, len(racks) + 1))]
        parts.append(all_of([gang(size, shape(8), RACK) for size in sizes], BLOCK))
    return view, [Demand(all_of(parts))]


def some_of(seed: int) -> World:
    """A composite that needs some of its composites, and each of these some of its rack-gangs."""
    rng = Random(seed)
    view, free = held(rng, (8,))
    blocks: list[Group] = []
    for _ in range(3):
        sizes = [rng.choice(free) + rng.randint(0, 1) for _ in range(len(free) // 2 + 1)]
        children = tuple(gang(size, shape(8), RACK) for size in sizes)
        blocks.append(Composite(next_id(), len(children) - 1, children, BLOCK))
    return view, [Demand(Composite(next_id(), 2, tuple(blocks)))]


def mixed_pods(seed: int) -> World:
    """Rack-gangs of 8-, 4- and 2-GPU pods on racks in which nodes are partly held."""
    rng = Random(seed)
    view, free = held(rng, (8, 6, 5, 4, 3))
    gangs: list[Group] = []
    for rack in free:
        numbers = [
            (shape(8), max(1, rack - rng.randint(0, 3))),
            (shape(4), rng.randint(1, 6)),
            (shape(2), rng.randint(1, 6)),
        ]
        gangs.append(mixed_gang(numbers, RACK))
    return view, [Demand(all_of(gangs))]


def two_resources(seed: int) -> World:
    """Rack-gangs of pods that take much of one resource or of the other."""
    rng = Random(seed)
    view, free = held(rng, (8,))
    gangs: list[Group] = []
    for rack in free:
        pairs = max(1, rack - rng.randint(0, 1))
        gangs.append(
            mixed_gang([(shape(5, 3), pairs), (shape(3, 5), pairs), (shape(0, 1), rng.randint(0, 2) + 1)], RACK)
        )
    return view, [Demand(all_of(gangs))]


FAMILIES: dict[str, Callable[[int], World]] = {
    "equal rack-gangs": equal_gangs,
    "unequal rack-gangs": unequal_gangs,
    "rack-gangs in blocks": in_blocks,
    "some of some": some_of,
    "mixed GPU pods": mixed_pods,
    "two resources": two_resources,
}
