"""Clusters that are nearly or exactly full: unequal gangs into unequal racks, mixed pods onto nodes.

Every instance is drawn from a seed.  Those of a `filled` family are cut out of the cluster, so that a placement is
known to exist; `drawn` ones have random sizes with the same total, so that nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from random import Random

from echelon.engine import Composite, Demand, Group, Leaf, Shape

from .harness import Case, World
from .worlds import BLOCK, RACK, all_of, gang, mixed_gang, next_id, racks_of, shape, tree

RACKS, GANGS, PER_BLOCK = 25, 100, 5


def unequal_racks(rng: Random) -> list[int]:
    """25 racks of about 1000 nodes in all."""
    return [rng.randint(32, 48) for _ in range(RACKS)]


def cut(rng: Random, total: int, parts: int) -> list[int]:
    """A number as a sum of so many parts of at least 1."""
    marks = [0, *sorted(rng.sample(range(1, total), parts - 1)), total]
    return [after - before for before, after in pairwise(marks)]


def filled_gangs(rng: Random, racks: list[int], fill: float) -> list[list[int]]:
    """Four gangs for each rack, together a share `fill` of all nodes."""
    sizes = [cut(rng, rack, GANGS // RACKS) for rack in racks]
    surplus = sum(racks) - round(sum(racks) * fill)
    while surplus:
        gangs = sizes[rng.randrange(RACKS)]
        spot = rng.randrange(len(gangs))
        if gangs[spot] > 1:
            gangs[spot] -= 1
            surplus -= 1
    return sizes


def flat(fill: float, seed: int) -> World:
    """Gangs without anything above them but the root."""
    rng = Random(seed)
    racks = unequal_racks(rng)
    sizes = [size for gangs in filled_gangs(rng, racks, fill) for size in gangs]
    rng.shuffle(sizes)
    return racks_of(racks, PER_BLOCK), [Demand(all_of([gang(size, shape(8), RACK) for size in sizes]))]


def nested(fill: float, seed: int) -> World:
    """The same gangs in 15 composites, three to a block of five racks."""
    rng = Random(seed)
    racks = unequal_racks(rng)
    sizes = filled_gangs(rng, racks, fill)
    composites: list[Group] = []
    for start in range(0, RACKS, PER_BLOCK):
        inside = [size for gangs in sizes[start : start + PER_BLOCK] for size in gangs]
        rng.shuffle(inside)
        marks = [0, *sorted(rng.sample(range(1, len(inside)), 2)), len(inside)]
        for low, high in pairwise(marks):
            composites.append(all_of([gang(size, shape(8), RACK) for size in inside[low:high]], BLOCK))
    rng.shuffle(composites)
    return racks_of(racks, PER_BLOCK), [Demand(all_of(composites))]


def drawn(fill: float, seed: int) -> World:
    """Sizes from a wide range that only add up right: many instances have no placement."""
    rng = Random(seed)
    racks = unequal_racks(rng)
    left, sizes = round(sum(racks) * fill), []
    while left:
        sizes.append(min(left, rng.randint(9, 24)))
        left -= sizes[-1]
    return racks_of(racks, PER_BLOCK), [Demand(all_of([gang(size, shape(8), RACK) for size in sizes]))]


def one_too_many(seed: int) -> World:
    """A full cluster and one pod more: counting proves it."""
    view, (demand,) = flat(1.0, seed)
    assert not isinstance(demand.root, Leaf)
    return view, [Demand(all_of([*demand.root.children, gang(1, shape(8), RACK)]))]


def mixed(fill: float, seed: int, nodes: int = 256) -> World:
    """Pods of 8, 4, 2 and 1 GPUs, three gangs to a rack of 16 nodes."""
    rng = Random(seed)
    gangs: list[Group] = []
    for _ in range(nodes // 16):
        pieces = [piece for _ in range(16) for piece in _split(rng, 8)]
        rng.shuffle(pieces)
        keep = round(16 * 8 * fill)
        while sum(pieces) > keep:
            pieces.pop(next(spot for spot, piece in enumerate(pieces) if piece <= max(1, sum(pieces) - keep)))
        marks = [0, *sorted(rng.sample(range(1, len(pieces)), 2)), len(pieces)]
        for low, high in pairwise(marks):
            gangs.append(
                _of_kinds([shape(8), shape(4), shape(2), shape(1)], [shape(size) for size in pieces[low:high]])
            )
    rng.shuffle(gangs)
    return tree(1, 4, nodes // 64, 16), [Demand(all_of(gangs))]


def _split(rng: Random, size: int) -> list[int]:
    """A node's GPUs cut in halves as chance will have it."""
    if size == 1 or rng.random() < 0.4:
        return [size]
    return _split(rng, size // 2) + _split(rng, size // 2)


def uneven_shapes(seed: int) -> World:
    """Two resources that do not go with each other, 64 nodes, racks of 8: three gangs to a rack, about 95 % full."""
    rng = Random(seed)
    gangs: list[Group] = []
    kinds = [shape(gpus, slots) for gpus, slots in ((3, 2), (2, 3), (1, 2), (4, 3), (1, 1))]
    for _ in range(8):
        pods = [kinds[spot] for _ in range(8) for spot in rng.choice(((0, 0, 2), (0, 1, 1), (3, 0, 2), (3, 1, 4, 4)))]
        rng.shuffle(pods)
        gangs += [_of_kinds(kinds, pods[start::3]) for start in range(3)]
    rng.shuffle(gangs)
    return tree(1, 1, 8, 8), [Demand(all_of(gangs))]


def irregular(seed: int) -> World:
    """64 nodes in four blocks of two racks: what each holds is cut into rack gangs, a gang of the block's own without
    a key, members beyond a minimum, and a child too many of which the composite can do without."""
    rng = Random(seed)
    kinds = [shape(gpus, slots) for gpus, slots in ((3, 2), (2, 3), (1, 2), (4, 3), (1, 1))]
    blocks: list[Group] = []
    for _ in range(4):
        gangs, drivers = list[Group](), list[Shape]()
        for _ in range(2):
            sets = rng.choices(((0, 0, 2), (0, 1, 1), (3, 0, 2), (3, 1, 4, 4)), k=8)
            pods = [kinds[spot] for filled in sets for spot in filled]
            rng.shuffle(pods)
            drivers += pods[:2]
            gangs += [_of_kinds(kinds, pods[start::3], extra=rng.choice((0, 0, 1))) for start in (2, 3, 4)]
        gangs += [_of_kinds(kinds, drivers, None), _of_kinds(kinds, rng.choices(kinds, k=40))]
        blocks.append(Composite(next_id(), len(gangs) - 1, tuple(gangs), BLOCK))
    rng.shuffle(blocks)
    return tree(1, 4, 2, 8), [Demand(all_of(blocks))]


def _of_kinds(kinds: list[Shape], pods: list[Shape], key: str | None = RACK, extra: int = 0) -> Leaf:
    """A gang of these pods; with `extra` members of the kind it has most of that it can do without."""
    numbers = {kind: pods.count(kind) for kind in kinds if kind in pods}
    numbers[max(numbers, key=lambda kind: numbers[kind])] += extra
    leaf = mixed_gang(list(numbers.items()), key)
    return replace(leaf, min_count=len(pods))


def three_partition(seed: int) -> World:
    """24 equal racks of 40, each to be filled by exactly three gangs of 11 to 19."""
    rng = Random(seed)
    sizes = []
    for _ in range(24):
        one, two = rng.randint(11, 16), rng.randint(11, 14)
        sizes += [one, two, 40 - one - two]
    rng.shuffle(sizes)
    return racks_of([40] * 24, 6), [Demand(all_of([gang(size, shape(8), RACK) for size in sizes]))]


CASES = (
    *(
        Case(f"tight-{name}-{fill}", f"100 gangs, 25 racks, {name}, {fill} % full", 100, partial(build, fill / 100, 1))
        for name, build in (("flat", flat), ("nested", nested))
        for fill in (95, 98, 100)
    ),
    *(
        Case(f"mixed-{fill}", f"1/2/4/8-GPU pods, 256 nodes, {fill} % full", 250, partial(mixed, fill / 100, 1))
        for fill in (97, 100)
    ),
)

#: Families of random instances: name, what to build from a seed.
FAMILIES: dict[str, Callable[[int], World]] = {
    "flat gangs, 95 % full": partial(flat, 0.95),
    "flat gangs, 98 % full": partial(flat, 0.98),
    "flat gangs, 100 % full": partial(flat, 1.0),
    "gangs in 15 block composites, 95 % full": partial(nested, 0.95),
    "gangs in 15 block composites, 98 % full": partial(nested, 0.98),
    "gangs in 15 block composites, 100 % full": partial(nested, 1.0),
    "drawn sizes, 98 % full": partial(drawn, 0.98),
    "drawn sizes, 100 % full": partial(drawn, 1.0),
    "one pod too many": one_too_many,
    "mixed GPU pods, 97 % full": partial(mixed, 0.97),
    "mixed GPU pods, 100 % full": partial(mixed, 1.0),
    "two resources, 64 nodes": uneven_shapes,
    "three-partition, 24 racks": three_partition,
    "irregular trees, 64 nodes": irregular,
}
