"""Evicting for pods with terms about others in wider domains than a node: whoever goes, the newcomers fit then."""

from __future__ import annotations

from random import Random

import pytest

from echelon.engine import Demand, Evict, Identity, Leaf, Peers, PodTerm, Requirement, Spread, decide, problems
from echelon.testing.placement import LEVELS, NOW, ClusterBuilder, gang, pods

PRIORITY = 5


def called(app: str) -> Identity:
    return Identity("ns", (("app", app),))


def meaning(*apps: str) -> Peers:
    return Peers((Requirement("app", "In", apps),), ("ns",))


def crowded(rng: Random) -> ClusterBuilder:
    """Racks in zones, full of pods with names; a few are too high to go, a few keep the newcomers away."""
    cluster, racks, nodes = ClusterBuilder(), rng.randint(2, 4), rng.randint(4, 8)
    for rack in range(racks):
        for number in range(nodes):
            name, left = f"n{rack}-{number}", 8
            cluster.node(name, cpu=8, rack=f"r{rack}", zone=f"z{rack // 2}")
            while left > 0:
                size = min(left, rng.choice((1, 2, 2, 4)))
                left -= size
                level = LEVELS[rng.choice(("rack", "zone"))]
                repels = (PodTerm(level, meaning("new")),) if rng.random() < 0.01 else ()
                priority = rng.choice((1, 2, 3, 9)) if rng.random() < 0.1 else rng.randint(1, 3)
                started, identity = NOW - rng.randint(1, 900), called(rng.choice("abcdd"))
                cluster.run(name, size, 0, priority, started=started, identity=identity, repels=repels)
    return cluster


def minding(rng: Random, kind: str) -> Leaf:
    level, number = LEVELS[rng.choice(("rack", "zone"))], rng.randint(1, 6)
    term = PodTerm(level, meaning(rng.choice("abc")))
    terms: dict[str, dict[str, object]] = {
        "near others": {"affinity": (term,)},
        "away from others": {"anti_affinity": (term,)},
        "evenly spread": {"spread": (Spread(level, 1, meaning("new"), 1),)},
        "one a rack": {"anti_affinity": (PodTerm(LEVELS["rack"], meaning("new")),)},
    }
    number = 2 if kind == "one a rack" else number
    return gang(number, pods(number, cpu=rng.choice((2, 4, 8)), identity=called("new"), **terms[kind]))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["near others", "away from others", "evenly spread", "one a rack"])
@pytest.mark.parametrize("seed", range(3))
def test_victims_are_evicted_only_if_the_newcomers_fit_without_them(seed: int, kind: str) -> None:
    rng = Random(seed)
    view, demand = crowded(rng).view, Demand(minding(rng, kind), PRIORITY)
    verdict = decide(view, demand, NOW)
    assert problems(view, demand, verdict, NOW) == []
    if isinstance(verdict, Evict):
        for unit in verdict.units:
            view.unbind_all([pod.pod for pod in view.pods_of(unit)])
        assert set(decide(view, demand, NOW).assignment) == set(verdict.placement.assignment)  # type: ignore[union-attr]


def test_cheap_victims_in_a_rack_that_stays_closed_are_spared() -> None:
    """Whoever keeps the newcomer out of the first rack is too high to go, so dearer ones go in the second."""
    cluster = ClusterBuilder().nodes("a", 40, cpu=4, rack="r1").nodes("b", 40, cpu=4, rack="r2")
    cluster.node("keeper", cpu=1, rack="r1").run("keeper", 1, priority=9, identity=called("keeper"))
    for number in range(40):
        cluster.run(f"a-{number}", 4, priority=1, started=NOW - 1, identity=called("cheap"))
        cluster.run(f"b-{number}", 4, priority=1, started=NOW - 90 - number, identity=called("dear"))
    away = PodTerm(LEVELS["rack"], meaning("keeper"))
    newcomers = gang(2, pods(2, cpu=4, identity=called("new"), anti_affinity=(away,)))
    verdict = decide(cluster.view, Demand(newcomers, PRIORITY), NOW)
    assert isinstance(verdict, Evict)
    assert sorted(verdict.placement.assignment.values()) == ["b-0", "b-1"]
