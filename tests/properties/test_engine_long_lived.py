"""A view that has decided gang after gang decides the next like one that has never been asked: what it keeps between
decisions (slots, the tightest domain for a number, who is there) never tells."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from echelon.engine import Demand, Identity, Placed, Running, Unit, decide
from echelon.engine.cluster.slots import ROWS
from echelon.testing.placement import LEVELS, NOW, ClusterBuilder, copied, fresh_id, gang, pods, shape
from tests.properties.hierarchies import examples
from tests.properties.reached import Reached, reaches

#: More than the engine looks at one by one.
NODES = 90
Step = tuple[str, int, int, str | None]

gangs = st.tuples(
    st.just("gang"), st.sampled_from([1, 2, 3, 3, 3, 5, 9]), st.sampled_from([1, 1, 2]),
    st.sampled_from([None, None, LEVELS["rack"], LEVELS["zone"]]),
)  # fmt: skip
ends = st.tuples(st.just("end"), st.integers(0, 50), st.booleans(), st.none())
cordons = st.tuples(st.just("cordon"), st.integers(0, NODES - 1), st.booleans(), st.none())
histories = st.lists(st.one_of(gangs, gangs, gangs, ends, cordons), min_size=5, max_size=30)


def cluster_of(racked: bool, gpus: int) -> ClusterBuilder:
    cluster = ClusterBuilder()
    for number in range(NODES):
        domains = {"zone": f"z{number // 50}", "rack": f"r{number // 2}"} if racked else {}
        cluster.node(f"n{number:02}", 4 + number % 3, gpus if number % 5 == 0 else 0, **domains)
    return cluster


def entered(cluster: ClusterBuilder, placed: Placed, cpu: int, group: int) -> list[int]:
    """Bind what was placed, and say who that is."""
    for member in placed.assignment:
        cluster.view.put_unit(Unit(member, 0))
    cluster.view.bind_all(
        Running(member, node, shape(cpu=cpu).requests, member, NOW, group, identity=Identity("default"))
        for member, node in placed.assignment.items()
    )
    return list(placed.assignment)


@reaches(placed=34, blocked=7)
@examples(40)
@given(st.booleans(), st.sampled_from([0, 0, 4]), histories)
def test_what_is_kept_between_decisions_never_tells(
    reached: Reached, racked: bool, gpus: int, history: list[Step]
) -> None:
    cluster, running = cluster_of(racked, gpus), list[list[int]]()
    view = cluster.view
    for what, number, cpu, key in history:
        if what == "gang":
            demand = Demand(gang(number, pods(number, cpu=cpu), key=key), may_preempt=False)
            verdict = decide(view, demand, NOW)
            assert verdict == decide(copied(view), demand, NOW)
            reached("placed" if isinstance(verdict, Placed) else "blocked")
            if isinstance(verdict, Placed):
                running.append(entered(cluster, verdict, cpu, fresh_id()))
        elif what == "end" and running:
            view.unbind_all(running.pop(number % len(running)))
        elif what == "cordon":
            known = view.node(f"n{number:02}")
            assert known is not None
            view.put_node(replace(known, unschedulable=bool(cpu)))


@examples(60)
@given(st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(1, 3), st.integers(1, 9)), min_size=5, max_size=40))
def test_the_tightest_box_that_was_kept_is_the_tightest(steps: list[tuple[int, int, int]]) -> None:
    view, one = cluster_of(racked=True, gpus=0).view, shape(cpu=1)
    held = dict[int, int]()
    assert view.node_table.size == NODES  # they have joined the arrays
    for number, cpu, count in steps:
        if number in held:
            view.unbind(held.pop(number))
        else:
            held[number] = fresh_id()
            view.bind(Running(held[number], f"n{number:02}", shape(cpu=cpu).requests, -1, NOW))
        slots = view.slot_cache.slots(one)
        boxes = slots.rows.tolist()
        best = min(((free, row) for row, free in enumerate(boxes) if free >= count), default=(0, -1))[1]
        assert slots.tightest(ROWS, 0, len(boxes), count) == best
        assert slots.most >= max(boxes)
