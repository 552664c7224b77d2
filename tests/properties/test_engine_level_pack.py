"""Nested packing by itself: answers as by brute force on small trees, and full clusters filled to the last slot."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine import Demand, Group, Placed, Steps, decide, problems
from echelon.engine.cluster.regions import CLUSTER, Region
from echelon.engine.packing.bin_fill import BinFill, FillOrder, FillProblem
from echelon.engine.packing.level_pack import pack_levels
from echelon.engine.placement import place
from echelon.engine.search import strategy as door
from echelon.engine.search.backtrack import Backtrack
from echelon.engine.search.strategy import search, trial_state_for
from echelon.engine.space.canonical import Part, PartBuilder
from echelon.engine.space.tasks import Found, NotFound
from echelon.testing.placement import NOW, ClusterBuilder, composite, gang, pods
from tests.properties.brute_force import feasible
from tests.properties.hierarchies import examples
from tests.properties.reached import Reached, reaches


def racks(sizes: list[list[int]]) -> ClusterBuilder:
    """Blocks of racks of so many one-core nodes."""
    cluster = ClusterBuilder()
    for block, inside in enumerate(sizes):
        for rack, nodes in enumerate(inside):
            cluster.nodes(f"n-{block}-{rack}", nodes, cpu=1, block=f"b{block}", rack=f"r{rack}")
    return cluster


def answer(cluster: ClusterBuilder, root: Group, steps: int = 20_000) -> Found | NotFound | None:
    part = PartBuilder(cluster.view).part(root, "minimum")

    def inside(tree: Part, region: Region, share: Steps) -> Found | NotFound:
        return search(cluster.view, tree, region, share)

    return pack_levels(trial_state_for(cluster.view, part, CLUSTER), part, CLUSTER, Steps(steps), inside)


@reaches(fits=25, does_not_fit=49)
@examples(150)
@given(st.integers(0, 1 << 32))
def test_small_trees_are_answered_as_by_brute_force(reached: Reached, seed: int) -> None:
    rng = Random(seed)
    cluster = racks([[rng.randint(0, 3) for _ in range(rng.randint(1, 3))] for _ in range(rng.randint(1, 2))])
    cluster.node("spare", cpu=0, block="b0", rack="r0")
    composites = [
        composite(number, *(gang(size, pods(size, cpu=1), key="rack") for size in rng.choices((1, 1, 2, 3), k=number)),
                  key="block")
        for number in rng.choices((1, 2, 3), k=rng.randint(1, 2))
    ]  # fmt: skip
    root = composite(len(composites), *composites)
    found = answer(cluster, root)
    if feasible(cluster.view, Demand(root)):
        reached("fits")
        assert isinstance(found, Found)
    else:
        reached("does_not_fit")
        assert found == NotFound(proved=True)


@pytest.mark.parametrize("seed", range(5))
def test_a_cluster_is_filled_to_the_last_slot(seed: int) -> None:
    """Gangs cut out of 12 racks in 3 blocks, dealt to composites of each block: a placement exists and is found."""
    rng = Random(seed)
    sizes = [[rng.randint(8, 16) for _ in range(4)] for _ in range(3)]
    composites = []
    for block in sizes:
        gangs = [part for rack in block for part in (rack // 3, rack // 4, rack - rack // 3 - rack // 4)]
        rng.shuffle(gangs)
        for dealt in (gangs[:3], gangs[3:7], gangs[7:]):
            leaves = [gang(size, pods(size, cpu=1), key="rack") for size in dealt]
            composites.append(composite(len(leaves), *leaves, key="block"))
    rng.shuffle(composites)
    cluster, root = racks(sizes), composite(9, *composites)
    assert isinstance(answer(cluster, root), Found)
    verdict = cluster.decide(root)
    assert isinstance(verdict, Placed)
    assert problems(cluster.view, Demand(root), verdict, NOW) == []


def test_mixed_pods_fill_racks_to_the_last_gpu() -> None:
    cluster = ClusterBuilder()
    for rack in ("r1", "r2"):
        cluster.nodes(rack, 2, cpu=64, gpu=8, rack=rack)
    shapes = {8: 1, 4: 2, 2: 3, 1: 2}
    gangs = [gang(sum(shapes.values()), *(pods(n, cpu=g, gpu=g) for g, n in shapes.items()), key="rack")]
    gangs += [gang(2, pods(2, cpu=4, gpu=4), key="rack")]
    root = composite(2, *gangs)
    assert answer(cluster, root) == NotFound(proved=True)  # 24 GPUs in one rack of 16
    fitting = composite(
        2, gang(3, pods(1, gpu=8), pods(2, gpu=4), key="rack"), gang(9, pods(7, gpu=2), pods(2, gpu=1), key="rack")
    )
    verdict = cluster.decide(fitting)
    assert isinstance(verdict, Placed)
    assert problems(cluster.view, Demand(fitting), verdict, NOW) == []


def test_composites_whose_gangs_have_keys_of_different_levels_are_not_mixed_up() -> None:
    cluster = ClusterBuilder()
    for rack in ("r1", "r2"):
        cluster.nodes(rack, 2, cpu=2, block="b", rack=rack)
    in_racks = composite(1, gang(3, pods(3, cpu=1), key="rack"), key="block")
    on_hosts = composite(2, *(gang(2, pods(2, cpu=1), key="host") for _ in range(2)), key="block")
    root = composite(2, in_racks, on_hosts)
    verdict = cluster.decide(root)
    assert isinstance(verdict, Placed)
    assert problems(cluster.view, Demand(root), verdict, NOW) == []


@reaches(fits=26, does_not_fit=23)
@examples(100)
@given(st.integers(0, 1 << 32))
def test_mixed_pods_in_rack_gangs_are_answered_as_by_brute_force(reached: Reached, seed: int) -> None:
    """Sizes that divide one another and sizes that do not, one resource or two, nodes that are partly taken."""
    rng = Random(seed)
    cluster = ClusterBuilder()
    for rack in range(rng.randint(1, 3)):
        for node in range(rng.randint(1, 2)):
            cluster.node(f"n-{rack}-{node}", cpu=rng.randint(2, 8), gpu=rng.randint(1, 5), rack=f"r{rack}")
    sizes = rng.choice(((1, 2, 4), (1, 2, 3), (2, 3)))
    gangs = []
    for _ in range(rng.randint(1, 3)):
        drawn = [pods(1, cpu=rng.choice((1, size)), gpu=size) for size in rng.choices(sizes, k=rng.randint(1, 2))]
        gangs.append(gang(len(drawn), *drawn, key="rack"))
    root = composite(len(gangs), *gangs)
    found = answer(cluster, root)
    if feasible(cluster.view, Demand(root)):
        reached("fits")
        assert isinstance(found, Found)
        verdict = cluster.decide(root)
        assert isinstance(verdict, Placed)
        assert problems(cluster.view, Demand(root), verdict, NOW) == []
    else:
        reached("does_not_fit")
        assert found == NotFound(proved=True)


def test_an_ended_budget_is_no_proof() -> None:
    rng = Random(3)
    sizes = [rng.randint(5, 9) for _ in range(24)]
    leaves = [gang(size, pods(size, cpu=1), key="rack") for size in sizes]
    cluster = racks([[sum(sizes) // 8 + 1] * 8])
    assert answer(cluster, composite(24, *leaves), steps=2) == NotFound(proved=False)


# ---- trees that are regular only down to some depth


class _OnlyInside(Backtrack):
    """A search that knows nothing of whole trees, only of what is inside a domain."""

    def run(self, region: Region) -> Found | NotFound:
        return NotFound(proved=False) if region.level < 0 else super().run(region)


def irregular(seed: int) -> tuple[ClusterBuilder, Group]:
    """Two or three blocks, some nodes in no rack; rack gangs with members to spare, gangs of a whole block, and
    composites that can do without a child."""
    rng = Random(seed)
    cluster, equal = ClusterBuilder(), rng.random() < 0.4
    for block in range(rng.randint(2, 3)):
        for rack in range(rng.randint(1, 2)):
            labels = {} if rng.random() < 0.15 else {"rack": f"r{rack}"}
            cluster.nodes(f"n-{block}-{rack}", rng.randint(1, 2), cpu=rng.randint(2, 4), block=f"b{block}", **labels)
    composites = []
    for _ in range(rng.randint(2, 3)):
        gangs = []
        for _ in range(rng.randint(1, 2)):
            drawn = [pods(1, cpu=1 if equal else rng.randint(1, 2)) for _ in range(rng.randint(1, 3))]
            key = rng.choice(("rack", "rack", None))
            gangs.append(gang(max(1, len(drawn) - rng.randint(0, 1)), *drawn, **({"key": key} if key else {})))
        composites.append(composite(max(1, len(gangs) - rng.randint(0, 1)), *gangs, key="block"))
    return cluster, composite(len(composites), *composites)


@reaches(fits=69, does_not_fit=4)
@examples(150)
@given(st.integers(0, 1 << 32))
def test_irregular_trees_are_answered_as_by_brute_force(reached: Reached, seed: int) -> None:
    cluster, root = irregular(seed)
    found = answer(cluster, root)
    reached("fits" if isinstance(found, Found) else "does_not_fit")
    assert isinstance(found, Found) == feasible(cluster.view, Demand(root))
    assert isinstance(found, Found) or found == NotFound(proved=True)


@reaches(placed=43)
@examples(100)
@given(st.integers(0, 1 << 32))
def test_what_is_put_together_from_domains_is_a_placement(reached: Reached, seed: int) -> None:
    """With the searches over whole trees out of the way, verdicts come from domains, and the checker passes them."""
    cluster, root = irregular(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "Backtrack", _OnlyInside)
        patch.setattr(door, "solve_placement", lambda *_: None)
        patch.setattr(place, "is_small", lambda *_: False)
        verdict = decide(cluster.view, Demand(root, may_preempt=False), NOW)
    if isinstance(verdict, Placed):
        reached("placed")
        assert problems(cluster.view, Demand(root), verdict, NOW) == []
    assert isinstance(verdict, Placed) == feasible(cluster.view, Demand(root))


# ---- one level by itself


@reaches(fits=20, does_not_fit=30)
@examples(100)
@given(st.integers(0, 1 << 32))
def test_domains_are_filled_exactly_when_brute_force_fills_them(reached: Reached, seed: int) -> None:
    rng = Random(seed)
    sizes = rng.sample(range(1, 10), k=rng.randint(1, 4))
    rooms = [rng.randint(3, 15) for _ in range(rng.randint(1, 4))]
    numbers = tuple(rng.randint(1, 3) for _ in sizes)
    problem = FillProblem(0, [(size,) for size in sizes], numbers, [(room,) for room in rooms], rooms, exact=True)
    filled = BinFill(problem, FillOrder(), lambda *_: True, lambda _: None).run()
    parts = [size for size, number in zip(sizes, numbers, strict=True) for _ in range(number)]
    assert (filled is not None) == _fit(tuple(sorted(parts)), tuple(sorted(rooms)))
    reached("fits" if filled else "does_not_fit")
    if filled is not None:
        assert tuple(map(sum, zip(*(taken for _, taken in filled), strict=True))) == numbers
        assert all(sum(map(int.__mul__, taken, sizes)) <= rooms[spot] for spot, taken in filled)


@cache
def _fit(parts: tuple[int, ...], rooms: tuple[int, ...]) -> bool:
    """Whether parts fit into rooms: the largest into each room in turn."""
    if not parts:
        return True
    *rest, largest = parts
    return any(
        _fit(tuple(rest), tuple(sorted((*rooms[:spot], room - largest, *rooms[spot + 1 :]))))
        for spot, room in enumerate(rooms)
        if room >= largest
    )
