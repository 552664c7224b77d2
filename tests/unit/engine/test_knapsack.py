"""Among many single pods the cheapest that make room are found exactly: as brute force finds them."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from echelon.engine import inquiry
from echelon.engine.verdict import Evict
from echelon.testing.placement import NOW, Cluster, gang, pods


def least(sizes: list[tuple[str, int, int]], room: dict[str, int], need: int, per_pod: int) -> tuple[int, int]:
    """The least (work, units) over all subsets that leave slots enough."""
    found = []
    for number in range(len(sizes) + 1):
        for gone in combinations(sizes, number):
            free = dict(room)
            for node, size, _ in gone:
                free[node] += size
            if sum(cpus // per_pod for cpus in free.values()) >= need:
                found.append((sum(work for _, _, work in gone), number))
    return min(found)


@pytest.mark.parametrize("seed", range(25))
def test_the_least_work_and_then_the_fewest_units_go(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiry, "BRANCHED", 0)
    rng = Random(seed)
    cluster, sizes, room = Cluster(), list[tuple[str, int, int]](), dict[str, int]()
    for node in ("a", "b", "c"):
        cluster.node(node, cpu=8)
        room[node] = 8
        while (size := rng.randint(1, 4)) <= room[node] and len(sizes) < 11:
            age = rng.randint(1, 5)
            cluster.run(node, cpu=size, priority=1, started=NOW - age)
            sizes.append((node, size, age * 1000))
            room[node] -= size
    per_pod = rng.choice((2, 3))
    slots = sum(cpus // per_pod for cpus in room.values())
    need = rng.randint(slots + 1, sum(8 // per_pod for _ in room))
    verdict = cluster.decide(gang(need, pods(need, cpu=per_pod)), priority=5)
    assert isinstance(verdict, Evict), verdict
    assert (verdict.loss.work, verdict.loss.units) == least(sizes, room, need, per_pod)
