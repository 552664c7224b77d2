"""A decision that is broken off anywhere leaves the view as it was."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import CO_GENERATOR
from pathlib import Path
from types import FrameType

import pytest

from echelon.engine import ClusterView, Demand, Group, Identity, Node, decide, decision
from echelon.testing.placement import NOW, ClusterBuilder, composite, exclusive, gang, pods, shape

ENGINE = str(Path(decision.__file__).parent)


class BrokenOff(BaseException):
    """Like a cancellation: no error that anyone would catch on the way."""


def contested() -> tuple[ClusterBuilder, Group]:
    """Three racks of running units; a gang has to preempt in one of them."""
    cluster = ClusterBuilder()
    for rack in ("r1", "r2", "r3"):
        cluster.nodes(rack, 3, cpu=2, rack=rack)
        for number in range(3):
            cluster.run(f"{rack}-{number}", cpu=2, priority=number, group=7, exclusive=exclusive("rack", 1))
    return cluster, composite(2, gang(2, pods(2, cpu=1), key="rack"), gang(2, pods(2, cpu=2), key="rack"))


def crowded() -> tuple[ClusterBuilder, Group]:
    """Too little room and nothing that may be evicted: reasons and fixes are looked for."""
    cluster = ClusterBuilder()
    for rack in ("r1", "r2"):
        cluster.nodes(rack, 2, cpu=2, rack=rack)
        cluster.run(f"{rack}-0", cpu=1, priority=100, identity=Identity("ns", (("app", rack),)))
    return cluster, gang(5, pods(5, cpu=1), key="rack")


def with_extras() -> tuple[ClusterBuilder, Group]:
    """The minimum fits, and some of the extras."""
    cluster = ClusterBuilder().nodes("a", 3, cpu=2, rack="r1")
    cluster.run("a-0", cpu=1, priority=100)
    return cluster, composite(1, gang(2, pods(4, cpu=1), key="rack"), gang(2, pods(3, cpu=2), key="rack"))


def derived(view: ClusterView) -> tuple[object, ...]:
    """The records and all that follows from them."""
    word = view.fingerprint()
    slots = [view.slot_cache.slots(one).rows.tolist() for one in (shape(cpu=1), shape(cpu=2))]
    held = {domain: dict(groups) for domain, groups in view.exclusivity.holders(exclusive("rack", 1)).items()}
    return word, slots, held, view.pod_index.repelling()


@pytest.mark.parametrize("build", [contested, crowded, with_extras])
def test_a_decision_broken_off_anywhere_leaves_no_trace(build: Callable[[], tuple[ClusterBuilder, Group]]) -> None:
    cluster, root = build()
    demand = Demand(root, priority=50)
    before, whole = derived(cluster.view), decide(cluster.view, demand, NOW)
    after = 0
    while True:
        try:
            with broken_off(after):
                verdict = decide(cluster.view, demand, NOW)
        except BrokenOff:
            assert derived(cluster.view) == before
            after += 7 + after // 8
        else:
            assert verdict == whole
            break
    assert after > 500


@contextmanager
def broken_off(calls: int) -> Iterator[None]:
    """Raise when the engine has called so many of its functions."""
    left = calls

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        code = frame.f_code
        # A generator is also entered to be closed, where nothing that is raised gets out.
        if event == "call" and code.co_filename.startswith(ENGINE) and not code.co_flags & CO_GENERATOR:
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise BrokenOff

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)


def test_what_was_looked_away_from_comes_back_once_if_a_decision_inside_is_broken_off() -> None:
    cluster, root = contested()
    view, before = cluster.view, derived(cluster.view)
    with pytest.raises(BrokenOff), view.without(view.pods_on("r1-0")), broken_off(200):
        decide(view, Demand(root, priority=50), NOW)
    assert derived(view) == before


def test_a_pod_that_gives_back_twice_in_a_trial_holds_its_rack_once_afterwards() -> None:
    """In between a node joins, so that who holds which rack is derived anew."""
    cluster, alone = ClusterBuilder().nodes("a", 1, cpu=2, rack="r"), exclusive("rack", 1)
    cluster.run("a-0", cpu=1, group=7, exclusive=alone)
    view = cluster.view
    held = view.pods_on("a-0")
    with view.without(held), view.without(held):
        view.put_node(Node("fresh", {}, {"cpu": 1}))
        assert view.node_table.size == 2
        assert not view.exclusivity.holders(alone)
    assert [list(groups) for groups in view.exclusivity.holders(alone).values()] == [[7]]
    view.unbind(held[0].pod)
    assert not view.exclusivity.holders(alone)
