"""Senseless questions are refused with the field at fault; what merely cannot be had is blocked and says so."""

from __future__ import annotations

import time

import pytest

from echelon.engine import (
    BadInput,
    Blocked,
    Bound,
    Demand,
    Group,
    Node,
    Placed,
    PodClass,
    Running,
    Shape,
    Verdict,
    decide,
    judge,
    sentence,
)
from echelon.engine.records.demand import LARGEST
from echelon.testing.placement import NOW, ClusterBuilder, composite, fresh_id, gang, pods

#: CPU seconds; a demand of a million pods takes less than one on a quiet machine.
A_FEW_SECONDS = 10.0


def asking(number: int = 1, **requests: object) -> PodClass:
    shape = Shape(tuple(sorted({"pods": 1, **requests}.items())))  # type: ignore[arg-type]
    return PodClass(shape, tuple(fresh_id() for _ in range(number)))


def having(number: int = 1, **allocatable: object) -> ClusterBuilder:
    cluster = ClusterBuilder()
    for index in range(number):
        cluster.view.put_node(Node(f"n{index}", {}, {"pods": 110, **allocatable}))  # type: ignore[dict-item]
    return cluster


# ---- refused


def chain(length: int) -> Group:
    group: Group = gang(1, pods(1, cpu=1))
    for _ in range(length - 1):
        group = composite(1, group)
    return group


def cycle() -> Group:
    group = composite(1, gang(1, pods(1, cpu=1)))
    object.__setattr__(group, "children", (group,))
    return group


def twice_the_same_leaf() -> Group:
    leaf = gang(1, pods(1, cpu=1))
    return composite(1, leaf, leaf)


SENSELESS = {
    "negative request": (lambda: gang(1, asking(cpu=-5)), "root.classes[0].shape.requests[cpu]: must be 0 or more"),
    "fraction": (lambda: gang(1, asking(cpu=1.5)), "root.classes[0].shape.requests[cpu]: must be a whole number"),
    "not a number": (lambda: gang(1, asking(cpu=float("nan"))), "must be a whole number, not nan"),
    "infinite": (lambda: gang(1, asking(cpu=float("inf"))), "must be a whole number, not inf"),
    "text": (lambda: gang(1, asking(cpu="1")), "must be a whole number, not '1'"),
    "negative minimum": (lambda: gang(-1, pods(1, cpu=1)), "root.min_count: must be 0 or more, not -1"),
    "negative minimum of groups": (
        lambda: composite(1, composite(-2, gang(1, pods(1)))),
        "root.children[0].min_groups: must be 0 or more, not -2",
    ),
    "the same pod twice": (lambda: gang(2, PodClass(Shape(()), (7, 7))), "root.classes[0].members: a member is named"),
    "waiting and bound": (
        lambda: gang(2, PodClass(Shape(()), (7,)), bound=(Bound(7, "n0"),)),
        "root.bound: a member is named twice",
    ),
    "the same group twice": (twice_the_same_leaf, "is already root.children[0]"),
    "cycle": (cycle, "root.children[0]: group"),
    "five levels": (lambda: chain(5), "children[0]: lies deeper than 4 levels of groups"),
    "thousands of levels": (lambda: chain(5000), "lies deeper than 4 levels of groups"),
}


@pytest.mark.parametrize("case", SENSELESS)
def test_a_senseless_demand_is_refused_with_the_field_at_fault(case: str) -> None:
    build, message = SENSELESS[case]
    cluster = having(cpu=8000)
    before = cluster.view.fingerprint()
    with pytest.raises(BadInput) as refused:
        cluster.decide(build())
    assert message in str(refused.value)
    assert str(refused.value).startswith(refused.value.path)
    assert cluster.view.fingerprint() == before


def test_four_levels_are_fine() -> None:
    assert isinstance(having(cpu=8000).decide(chain(4)), Placed)


@pytest.mark.parametrize("amount", [float("nan"), 1.5, "8", None])
def test_a_node_with_amounts_that_are_no_numbers_is_refused(amount: object) -> None:
    cluster = having(cpu=1000)
    with pytest.raises(BadInput, match=r"node new\.allocatable\[cpu\]: must be a whole number"):
        cluster.view.put_node(Node("new", {}, {"cpu": amount}))  # type: ignore[dict-item]
    assert cluster.view.node_names() == ["n0"]


def test_a_running_pod_with_a_negative_request_is_refused_and_the_view_stays_as_it_was() -> None:
    cluster = having(cpu=1000)
    cluster.run("n0", cpu=1, pod=5)
    before = cluster.view.fingerprint()
    with pytest.raises(BadInput, match=r"pod 5\.requests\[cpu\]: must be 0 or more, not -1"):
        cluster.view.bind(Running(5, "n0", (("cpu", -1),), 1, NOW))
    assert cluster.view.fingerprint() == before


# ---- blocked, with a reason


EI = 1 << 60


@pytest.mark.parametrize(
    ("request_", "allocatable"),
    [(EI, 1 << 50), (EI, EI), (10**29, 10**30), (LARGEST + 1, 1 << 62), (LARGEST, LARGEST - 1)],
)
def test_amounts_beyond_all_measure_are_blocked(request_: int, allocatable: int) -> None:
    verdict = having(memory=allocatable).decide(gang(1, asking(memory=request_)))
    assert isinstance(verdict, Blocked)
    assert verdict.proved
    assert "memory" in sentence(verdict, {})


def test_the_largest_amount_still_counts_exactly() -> None:
    cluster = having(3, memory=LARGEST)
    assert isinstance(cluster.decide(gang(6, asking(6, memory=LARGEST // 2))), Placed)
    assert isinstance(cluster.decide(gang(7, asking(7, memory=LARGEST // 2))), Blocked)


def test_sums_over_many_nodes_do_not_overflow() -> None:
    """Free amounts of these nodes add up to more than 64 bits hold."""
    cluster = having(3000, memory=EI, cpu=1000)
    mixed = gang(4, asking(2, memory=LARGEST // 2, cpu=500), asking(2, memory=LARGEST // 4, cpu=300))
    assert isinstance(cluster.decide(mixed), Placed)


def test_many_pods_of_an_exbibyte_on_one_node_leave_no_room_that_is_not_there() -> None:
    """Bound past the scheduler: what they hold adds up to more than 64 bits hold."""
    cluster = having(memory=1 << 40)
    for _ in range(1000):
        cluster.view.bind(Running(fresh_id(), "n0", (("memory", EI),), fresh_id(), NOW))
    assert isinstance(cluster.decide(gang(1, asking(memory=1))), Blocked)


@pytest.mark.parametrize("cpu", [0, -1000])
def test_a_node_with_nothing_or_less_takes_only_pods_that_ask_for_nothing(cpu: int) -> None:
    cluster = having(cpu=cpu)
    assert isinstance(cluster.decide(gang(1, asking(cpu=1))), Blocked)
    assert isinstance(cluster.decide(gang(1, asking(cpu=0))), Placed)


def test_a_node_without_pod_slots_takes_nothing() -> None:
    assert isinstance(having(pods=0).decide(gang(1, asking())), Blocked)


@pytest.mark.parametrize("key", ["rack", "example.com/nobody-has-it"])
def test_a_key_that_no_node_carries_is_named_and_dropping_it_is_the_fix(key: str) -> None:
    for group in (gang(1, pods(1, cpu=1), key=key), composite(1, gang(1, pods(1, cpu=1)), key=key)):
        verdict = having(cpu=4000).decide(group)
        assert isinstance(verdict, Blocked)
        assert f"no node has the label {group.topology}" in sentence(verdict, {})
        assert [fix.kind for fix in verdict.fixes] == ["widen"]


@pytest.mark.parametrize(
    ("group", "told"),
    [
        (lambda: gang(1), "needs 1 pod but has none"),
        (lambda: gang(1, pods(0, cpu=1)), "needs 1 pod but has none"),
        (lambda: gang(5, pods(2, cpu=1)), "needs 5 pods but has only 2"),
        (lambda: gang(5, pods(2, cpu=1), bound=(Bound(1, "n0"),)), "needs 5 pods but has only 3"),
        (lambda: composite(1), "needs 1 group but has none"),
        (lambda: composite(5, gang(1, pods(1, cpu=1))), "needs 5 groups but has only 1"),
    ],
)
def test_a_minimum_above_what_is_there_says_so(group: object, told: str) -> None:
    verdict = having(cpu=8000).decide(group())  # type: ignore[operator]
    assert isinstance(verdict, Blocked)
    assert verdict.proved
    assert told in sentence(verdict, {})


@pytest.mark.parametrize("group", [gang(0), composite(0), composite(0, gang(0))])
def test_nothing_asked_for_is_placed_as_nothing(group: Group) -> None:
    verdict = having(cpu=1000).decide(group)
    assert isinstance(verdict, Placed)
    assert not verdict.assignment


def test_a_member_bound_to_an_unknown_node_counts_and_pins_nothing() -> None:
    cluster = ClusterBuilder().nodes("a", 2, cpu=1, rack="r1").nodes("b", 2, cpu=1, rack="r2")
    verdict = cluster.decide(gang(3, pods(2, cpu=1), key="rack", bound=(Bound(77, "gone"),)))
    assert isinstance(verdict, Placed)
    assert len(verdict.assignment) == 2


# ---- very large


def in_time(cluster: ClusterBuilder, root: Group) -> Verdict:
    begun = time.process_time()
    verdict = decide(cluster.view, Demand(root), NOW)
    assert time.process_time() - begun < A_FEW_SECONDS
    return verdict


def million(leaves: int) -> Group:
    """A million pods in so many rack gangs."""
    each = 1_000_000 // leaves
    gangs = [gang(each, pods(each, cpu=0.01), key="rack") for _ in range(leaves)]
    return gangs[0] if leaves == 1 else composite(leaves, *gangs)


@pytest.mark.parametrize("leaves", [1, 1000])
def test_a_million_pods_that_do_not_fit_are_blocked_in_time_and_the_proof_is_confirmed(leaves: int) -> None:
    cluster, root = ClusterBuilder().nodes("a", 1000, cpu=64, rack="r1"), million(leaves)
    verdict = in_time(cluster, root)
    assert isinstance(verdict, Blocked)
    assert verdict.proved
    judgement = judge(cluster.view, Demand(root), verdict, NOW)
    assert judgement.problems == ()
    assert judgement.confirmed


@pytest.mark.parametrize("leaves", [1, 1000])
def test_a_million_pods_that_fit_are_placed_in_time(leaves: int) -> None:
    verdict = in_time(ClusterBuilder().nodes("a", 9100, cpu=64, rack="r1"), million(leaves))
    assert isinstance(verdict, Placed)
    assert len(verdict.assignment) == 1_000_000
