"""A Deployment that is scaled while it is paused or has two templates: each ReplicaSet keeps its share."""

from __future__ import annotations

import pytest

from echelon.api.scheme import Object

from .objects import replica_set
from .rollouts import decided, deployment, sized_for


def sizes(owner: Object, *sets: Object) -> dict[str, int]:
    return decided(owner, *sets).sizes


def test_sizes_in_proportion_are_those_of_the_documentation() -> None:
    """10 replicas, 8 old and 5 new of at most 13; scaled to 15, at most 18: 11 old and 7 new."""
    owner = deployment(15)
    sets = [
        replica_set(owner, "old", 8, annotations=sized_for(10, 13)),
        replica_set(owner, "new", 5, image="new", available=0, age=10, annotations=sized_for(10, 13)),
    ]
    plan = decided(owner, *sets)
    assert plan.sizes == {"old": 11, "new": 7}
    assert plan.events == [
        "Normal ScalingReplicaSet Scaled up replica set old from 8 to 11",
        "Normal ScalingReplicaSet Scaled up replica set new from 5 to 7",
    ]
    for name in ("old", "new"):
        annotations = plan.patches[name]["metadata"]["annotations"]
        assert {key: annotations[key] for key in sized_for(0, 0)} == sized_for(15, 18)


SHARES: list[tuple[str, int, int, dict[str, int], dict[str, int]]] = [
    # what, replicas now, surge, sizes before for 10 and 10 + surge, sizes after
    ("both shrink", 5, 3, {"old": 8, "new": 5}, {"old": 5, "new": 3}),
    ("the largest takes what rounding leaves", 11, 0, {"old": 5, "mid": 3, "new": 2}, {"old": 6, "mid": 3, "new": 2}),
    ("of equal ones the newest grows", 11, 0, {"old": 5, "new": 5}, {"old": 5, "new": 6}),
    ("of equal ones the oldest shrinks", 9, 0, {"old": 5, "new": 5}, {"old": 4, "new": 5}),
    ("of three equal ones the newest takes the rest", 14, 0, {"old": 3, "mid": 3, "new": 3},
     {"old": 4, "mid": 4, "new": 6}),
    ("no more is added than there is room", 15, 0, {"old": 5, "new": 5}, {"old": 7, "new": 8}),
    ("no more is taken than is too much", 5, 2, {"old": 4, "mid": 4, "new": 4}, {"old": 2, "mid": 2, "new": 3}),
    ("down to none", 0, 3, {"old": 8, "new": 5}, {"old": 0, "new": 0}),
    ("more pods than may be: the largest gives", 10, 0, {"old": 9, "new": 4}, {"old": 6, "new": 4}),
    ("to a single one", 1, 0, {"old": 5, "mid": 3, "new": 2}, {"old": 1, "mid": 0, "new": 0}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("replicas", "surge", "before", "after"), [one[1:] for one in SHARES], ids=[one[0] for one in SHARES]
)
def test_sizes_in_proportion(replicas: int, surge: int, before: dict[str, int], after: dict[str, int]) -> None:
    owner = deployment(replicas, surge)
    sets = [
        replica_set(owner, name, size, image="new" if name == "new" else name, age=500 - 100 * number, available=0,
                    annotations=sized_for(10 if replicas != 10 else 12, 10 + surge))
        for number, (name, size) in enumerate(before.items())
    ]  # fmt: skip
    found = sizes(owner, *sets)
    assert before | found == after


def test_without_a_note_of_the_size_before_the_share_is_that_of_the_pods_there_were() -> None:
    owner = deployment(20, 0)
    owner["status"] = {"replicas": 10}
    sets = [
        replica_set(owner, "old", 6, annotations={"deployment.kubernetes.io/desired-replicas": "10"}),
        replica_set(owner, "new", 4, image="new", available=0),
    ]
    assert sizes(owner, *sets) == {"old": 12, "new": 8}


def test_if_nothing_says_what_there_was_the_largest_takes_all() -> None:
    owner = deployment(20, 0)
    sets = [
        replica_set(owner, "old", 6, annotations={"deployment.kubernetes.io/desired-replicas": "10"}),
        replica_set(owner, "new", 4, image="new", available=0),
    ]
    assert sizes(owner, *sets) == {"old": 16}


def test_only_replica_sets_with_replicas_say_that_the_deployment_was_scaled() -> None:
    owner = deployment(10, progressDeadlineSeconds=600)
    new = replica_set(owner, "new", 4, image="new", annotations=sized_for(10, 13))
    rolled = decided(owner, replica_set(owner, "old", 0, annotations=sized_for(5, 8)), new)
    assert rolled.sizes == {"new": 10}
    assert rolled.plan.requeue_after == 601
    scaled = decided(owner, replica_set(owner, "old", 1, annotations=sized_for(5, 8)), new)
    assert scaled.sizes == {"old": 2, "new": 11}
    # Sizes in proportion are no progress of the rollout, and no lack of it.
    assert scaled.plan.requeue_after is None


def test_a_replica_set_that_says_nothing_about_its_size_does_not_count_as_scaled() -> None:
    owner = deployment(10, surge=0, unavailable=0)
    old = replica_set(owner, "old", 10)
    new = replica_set(owner, "new", 0, image="new", age=1)
    assert sizes(owner, old, new) == {"old": 9}


def test_a_paused_deployment_scales_the_only_replica_set_that_has_replicas() -> None:
    owner = deployment(10, paused=True)
    old = replica_set(owner, "old", 4, annotations=sized_for(4, 7))
    assert sizes(owner, old, replica_set(owner, "new", 0, image="new")) == {"old": 10}


def test_a_paused_deployment_without_pods_scales_its_newest_replica_set() -> None:
    owner = deployment(2, paused=True)
    older, old = replica_set(owner, "older", 0, image="x", age=900), replica_set(owner, "old", 0, age=600)
    assert sizes(owner, older, old, replica_set(owner, "new", 0, image="new", age=1000)) == {"new": 2}
    assert sizes(owner, old, older) == {"old": 2}
    assert sizes(owner) == {}


def test_a_paused_deployment_of_the_right_size_changes_nothing() -> None:
    owner = deployment(4, paused=True)
    assert decided(owner, replica_set(owner, "old", 4, annotations=sized_for(4, 7))).patches == {}


def test_old_replica_sets_end_once_the_newest_has_all_pods_available() -> None:
    owner = deployment(4, paused=True)
    old = replica_set(owner, "old", 2, annotations=sized_for(4, 7))
    new = replica_set(owner, "new", 4, image="new", annotations=sized_for(4, 7))
    assert sizes(owner, old, new) == {"old": 0}


@pytest.mark.parametrize("short", [{"available": 3}, {"annotations": sized_for(5, 8)}, {"replicas": 3}])
def test_a_newest_one_that_lacks_something_does_not_end_the_old_ones(short: Object) -> None:
    owner = deployment(4, surge=2, paused=True)
    old = replica_set(owner, "old", 2, annotations=sized_for(4, 6))
    given = {"replicas": 4, "available": 4, "annotations": sized_for(4, 6), **short}
    new = replica_set(owner, "new", image="new", **given)
    assert "old" not in sizes(owner, old, new)


def test_recreate_keeps_two_sizes_as_they_are() -> None:
    owner = deployment(6, paused=True, strategy={"type": "Recreate"})
    old = replica_set(owner, "old", 2, annotations=sized_for(4, 4))
    new = replica_set(owner, "new", 2, image="new", annotations=sized_for(4, 4))
    assert decided(owner, old, new).sizes == {}


def test_sizes_that_stay_are_noted_as_sized_for_the_new_number() -> None:
    """Else the next sync would take the Deployment for scaled again."""
    owner = deployment(10, surge="50%")
    old = replica_set(owner, "old", 12, annotations=sized_for(12, 15))
    new = replica_set(owner, "new", 3, image="new", available=0, annotations=sized_for(12, 15))
    plan = decided(owner, old, new)
    assert plan.sizes == {}
    assert plan.events == []
    assert [plan.patches[name]["metadata"]["annotations"] for name in ("old", "new")] == [
        {"deployment.kubernetes.io/desired-replicas": "10"},
        {"deployment.kubernetes.io/desired-replicas": "10", "deployment.kubernetes.io/revision": "1"},
    ]
