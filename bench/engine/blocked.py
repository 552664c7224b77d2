"""Proofs and exclusivity: a full cluster, and one job per rack."""

from __future__ import annotations

from echelon.engine import Demand, Exclusive

from .harness import Case, World
from .worlds import NOW, RACK, all_of, gang, occupy, shape, tree


def full_cluster() -> World:
    """Every node of 5000 is taken by pods that may not be preempted; the verdict names fixes."""
    view = tree(1, 5, 50, 20)
    for number, name in enumerate(view.node_names()):
        occupy(view, [name], shape(8), 100, NOW - 100, number)
    return view, [Demand(gang(16, shape(8), RACK), priority=10)]


def exclusive_jobs() -> World:
    """200 jobs, each alone in one of 1000 racks, decided one by one."""
    alone = Exclusive(RACK, 0)
    return tree(1, 20, 50, 8), [Demand(gang(8, shape(8), RACK, exclusive=alone)) for _ in range(200)]


def exclusive_jobset() -> World:
    """The same 200 jobs as one demand."""
    alone = Exclusive(RACK, 0)
    return tree(1, 20, 50, 8), [Demand(all_of([gang(8, shape(8), RACK, exclusive=alone) for _ in range(200)]))]


CASES = (
    Case("full-cluster", "full 5000-node cluster: proof, with fixes", 10, full_cluster),
    Case("exclusive", "exclusive placement: 200 jobs, 1000 racks", 50, exclusive_jobs),
    Case("exclusive-jobset", "the same as one demand", 50, exclusive_jobset),
)
