"""How cost grows: with nodes and groups, and with one change on a large cluster."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from statistics import median
from time import process_time

from echelon.engine import ClusterView, Demand, Placed, decide

from .harness import timed
from .worlds import NOW, RACK, all_of, bind, gang, shape, tree

SIZES = {1_000: (1, 1, 50, 20), 10_000: (1, 10, 50, 20), 100_000: (10, 10, 50, 20)}


def by_nodes_and_groups() -> Iterator[tuple[int, int, float]]:
    """Nodes, groups, milliseconds for one demand of so many rack-gangs of one pod each."""
    for nodes, sides in SIZES.items():
        for groups in (10, 100, 1000):
            demand = Demand(all_of([gang(1, shape(8), RACK) for _ in range(groups)]))
            yield nodes, groups, median(timed(tree(*sides), [demand])[0] for _ in range(3))


def one_change() -> list[tuple[int, float, float]]:
    """Nodes; microseconds to decide, bind and unbind a 16-pod rack-gang; to change one node and decide again."""
    demand = Demand(gang(16, shape(8), RACK))
    views = {nodes: tree(zones, 2, 50, 20) for zones, nodes in ((2, 4_000), (20, 40_000), (200, 400_000))}
    cycles = _typical([partial(_cycle, view, demand) for view in views.values()])
    changes = _typical([partial(_touch, view, demand) for view in views.values()])
    return list(zip(views, cycles, changes, strict=True))


def _cycle(view: ClusterView, demand: Demand) -> None:
    verdict = decide(view, demand, NOW)
    assert isinstance(verdict, Placed)
    bind(view, demand, verdict)
    view.unbind_all(verdict.assignment)


def _touch(view: ClusterView, demand: Demand) -> None:
    node = view.node("node-000007")
    assert node is not None
    view.put_node(replace(node, unschedulable=not node.unschedulable))
    decide(view, demand, NOW)


def _typical(acts: list[Callable[[], None]]) -> list[float]:
    """Microseconds for each, median of 101 after a warm-up; in turns, so that a noisy neighbour is noisy to all."""
    times: list[list[float]] = [[] for _ in acts]
    gc.collect()
    for number in range(106):
        for act, taken in zip(acts, times, strict=True):
            started = process_time()
            act()
            if number >= 5:
                taken.append(process_time() - started)
    return [median(taken) * 1e6 for taken in times]
