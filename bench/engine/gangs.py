"""Regular gangs and hierarchies: what most clusters see most of the time."""

from __future__ import annotations

from echelon.engine import Demand

from .harness import Case, World
from .worlds import BLOCK, RACK, ZONE, all_of, gang, shape, tree


def big_gang() -> World:
    return tree(1, 1, 10, 100), [Demand(gang(1000, shape(8)))]


def preferred_rack() -> World:
    """512 nodes in a 4 × 8 × 8 tree of racks of two; the gang would like one rack and needs all."""
    return tree(4, 8, 8, 2), [Demand(gang(512, shape(8), preferred=(RACK, BLOCK, ZONE)))]


def rack_gangs() -> World:
    blocks = [all_of([gang(16, shape(8), RACK) for _ in range(12)], BLOCK) for _ in range(12)]
    return tree(1, 16, 16, 16), [Demand(all_of(blocks))]


def many_gangs() -> World:
    """2250 decisions, each considering all 50 racks and bound before the next."""
    view = tree(1, 1, 50, 100, gpus=4)
    return view, [Demand(gang(4, shape(gpus=1), RACK)) for _ in range(2250)]


def four_levels() -> World:
    """20 zone groups of 5 block groups of 10 rack-gangs of 10 pods; 20 zones of 10 blocks of 25 racks of 20 nodes."""
    blocks = [all_of([gang(10, shape(8), RACK) for _ in range(10)], BLOCK) for _ in range(100)]
    parts = [all_of(blocks[start : start + 5], ZONE) for start in range(0, 100, 5)]
    return tree(20, 10, 25, 20), [Demand(all_of(parts))]


CASES = (
    Case("big-gang", "one 1000-pod gang, 1000 nodes", 3, big_gang),
    Case("preferred-rack", "one 512-pod gang, 512 nodes (4×8×8), preferred rack", 3, preferred_rack),
    Case("rack-gangs", "144 rack-gangs of 16 under 12 blocks, 4096 nodes", 60, rack_gangs),
    Case("many-gangs", "2250 gangs of 4, 5000 nodes in 50 racks (20,000 pods/s)", 450, many_gangs),
    Case("four-levels", "10,000 pods in 4 levels, 100,000 nodes", 400, four_levels, memory=300),
)
