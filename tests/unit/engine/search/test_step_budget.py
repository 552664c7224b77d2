"""Hard packings end in a placement, a proof, or an honest "budget exhausted"; never in a false proof."""

from __future__ import annotations

from collections import Counter

import pytest

from echelon.base.rng import Rng
from echelon.engine import Blocked, ClusterView, Leaf, Limits, Placed, Steps, sentence
from echelon.engine.cluster.regions import Region
from echelon.engine.explain import diagnose
from echelon.engine.search.strategy import search
from echelon.engine.space.canonical import Part
from echelon.engine.space.tasks import Found, NotFound
from echelon.testing.placement import ClusterBuilder, composite, gang, pods


def flat(sizes: list[int]) -> Leaf:
    return gang(len(sizes), *(pods(number, cpu=size) for size, number in Counter(sizes).items()))


#: Sizes that fill ten nodes of 16 to the last core, by construction.
EXACT = [9, 7, 9, 7, 8, 5, 3, 6, 6, 4, 11, 5, 10, 6, 12, 4, 13, 3, 7, 6, 3, 5, 5, 6]


def test_a_full_cluster_is_packed_to_the_last_core() -> None:
    assert sum(EXACT) == 160
    assert isinstance(ClusterBuilder().nodes("n", 10, cpu=16).decide(flat(EXACT)), Placed)


def test_pieces_too_many_are_a_proof_without_search() -> None:
    verdict = ClusterBuilder(limits=Limits(steps=0)).nodes("n", 10, cpu=16).decide(flat([9] * 9 + [10] * 2))
    assert isinstance(verdict, Blocked)
    assert verdict.proved


def tight(pods_asked: int) -> tuple[Leaf, int]:
    """Pods of 3 to 9 cores, and the fewest nodes of 16 that have the cores for them."""
    rng = Rng(5)
    sizes = [3 + rng.below(7) for _ in range(pods_asked)]
    return flat(sizes), -(-sum(sizes) // 16)


def test_a_tight_mix_of_sizes_is_packed() -> None:
    leaf, nodes = tight(150)
    verdict = ClusterBuilder().nodes("n", nodes, cpu=16).decide(leaf)
    assert isinstance(verdict, Placed)
    assert len(verdict.assignment) == 150


def test_an_ended_budget_is_no_proof_and_says_so() -> None:
    leaf, nodes = tight(150)
    verdict = ClusterBuilder(limits=Limits(steps=0)).nodes("n", nodes, cpu=16).decide(leaf)
    assert isinstance(verdict, Blocked)
    assert not verdict.proved
    assert "within the step budget" in sentence(verdict, {})


def test_numbers_that_the_budget_did_not_settle_say_so() -> None:
    """Forty nodes, each to be filled to the last core by three pods that only chance brings together."""
    rng, sizes = Rng(1), list[int]()
    for _ in range(40):
        one, two = 260 + rng.below(140), 260 + rng.below(100)
        sizes += [one, two, 1000 - one - two]
    verdict = ClusterBuilder(limits=Limits(steps=0)).nodes("n", 40, cpu=1000).decide(flat(sizes))
    assert isinstance(verdict, Blocked)
    (shortage,) = verdict.shortages
    assert not shortage.settled
    assert 0 < shortage.have < shortage.need
    assert "as far as the step budget told" in sentence(verdict, {})


def test_an_explanation_takes_no_more_than_its_share_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty groups of unlike pods in a cluster that is too full: each number is tried, none at length."""
    cluster, taken = ClusterBuilder(limits=Limits(steps=20_000)), list[int]()
    for rack in range(8):
        cluster.nodes(f"r{rack}", 6, cpu=16, rack=f"r{rack}")
    gangs = [gang(5, pods(2, cpu=5 + number % 3), pods(3, cpu=3), key="rack") for number in range(60)]

    def counted(view: ClusterView, part: Part, region: Region, steps: Steps) -> Found | NotFound:
        before = steps.left
        found = search(view, part, region, steps)
        taken.append(before - steps.left)
        return found

    monkeypatch.setattr(diagnose, "search", counted)
    verdict = cluster.decide(composite(60, *gangs))
    assert isinstance(verdict, Blocked)
    assert 0 < sum(taken) <= 20_000


def test_unequal_gangs_that_cannot_share_racks_are_proved_blocked() -> None:
    cluster = ClusterBuilder()
    for rack in range(12):
        cluster.nodes(f"r{rack:02}", 10, cpu=1, rack=f"r{rack:02}")
    sizes = [7] * 6 + [6] * 5 + [4] * 9 + [5]
    verdict = cluster.decide(composite(len(sizes), *(gang(size, pods(size, cpu=1), key="rack") for size in sizes)))
    assert isinstance(verdict, Blocked)
    assert verdict.proved


def test_the_same_question_gets_the_same_answer() -> None:
    leaf = flat(EXACT)
    cluster = ClusterBuilder().nodes("n", 12, cpu=16)
    assert cluster.decide(leaf) == cluster.decide(leaf)


def test_amounts_finer_than_any_common_unit_are_packed_all_the_same() -> None:
    leaf = gang(4, pods(2, gpu=3_333_333_333), pods(2, gpu=2_222_222_221))
    cluster = ClusterBuilder().nodes("n", 2, cpu=8, gpu=5_555_555_554)
    verdict = cluster.decide(leaf)
    assert isinstance(verdict, Placed)
    assert len(verdict.assignment) == 4
