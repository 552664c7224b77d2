"""Pods of several shapes onto nodes, node by node, where no other part competes for these nodes.

The same problem as gangs into racks (`bin_fill`), with shapes as kinds and nodes as domains: a node gets only sets to
which no waiting pod could be added, the total waste is bounded from the start, and a state known to be dead is not
entered again.  Many short tries in different orders come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..cluster.arrays import Ints
from ..records.demand import Shape
from ..space.budget import BudgetEnded, Steps
from ..space.canonical import Ask, Part
from ..space.resource_bounds import Measure
from ..space.tasks import Put
from ..space.trial_state import AmountState
from .bin_fill import Amounts, BinFill, Counts, FillOrder, FillProblem, Unsuited, fill_orders, scarcest


class PodOrder(NamedTuple):
    """A number of pods of one ask of a leaf."""

    part: Part
    ask: Ask
    pods: int


@dataclass(slots=True)
class PackResult:
    """How many pods of each shape each row takes; None with `proved` false if the budget ended first."""

    counts: dict[Shape, Ints] | None
    proved: bool = True


class NodeBins:
    """Rows as bins: what each offers, which shapes it is open to, what a pod of each shape takes.

    It costs as much as many steps, so callers keep it while the rows stay as they are.
    """

    def __init__(self, state: AmountState, shapes: list[Shape], rows: Ints, measure: Measure | None = None) -> None:
        measure = measure or Measure(state, shapes)
        slots = np.stack([state.slots_by_row(shape)[rows] for shape in shapes])
        used = np.flatnonzero((slots > 0).any(axis=0))
        self.size, self.used = len(rows), used
        #: Pods of each shape that the rows take if they take no others.
        self.slots: dict[Shape, int] = dict(zip(shapes, slots.sum(axis=1).tolist(), strict=True))
        self.takes = {shape: measure.takes(shape) for shape in shapes}
        self.offers: list[Amounts] = [tuple(column) for column in measure.offers[:, rows[used]].T.tolist()]
        may = (slots[:, used] > 0).tolist()
        self.may: dict[Shape, list[bool]] = dict(zip(shapes, may, strict=True))
        #: Whether all shapes may use the same rows.
        self.alike = len({state.fits(shape)[rows].tobytes() for shape in shapes}) == 1


def pack_nodes(nodes: NodeBins, wanted: Mapping[Shape, int], steps: Steps) -> PackResult | None:
    """Put the wanted pods of each shape on the rows; None if the problem is too large for this method."""
    if any(pods > nodes.slots[shape] for shape, pods in wanted.items()):
        return PackResult(None)
    packer = _Packer(nodes, wanted)
    for fill_order, share in fill_orders():
        try:
            with steps.lend(share) as budget:
                return PackResult(packer.run(fill_order, budget))
        except BudgetEnded:
            if steps.left <= 0:
                break
        except Unsuited:
            return None
    return PackResult(None, proved=False)


def divide_among(orders: Iterable[PodOrder], rows: Ints, counts: Mapping[Shape, Ints]) -> Iterator[Put]:
    """Divide packed pods among the orders, in turn."""
    left = {shape: taken.copy() for shape, taken in counts.items()}
    for order in orders:
        have = left[order.ask.shape]
        share = np.clip(order.pods - (np.cumsum(have) - have), 0, have)
        have -= share
        used = np.flatnonzero(share)
        if len(used):
            yield Put(order.part, order.ask, rows[used], share[used])


class _Packer:
    """Shapes as kinds, rows as domains."""

    def __init__(self, nodes: NodeBins, wanted: Mapping[Shape, int]) -> None:
        self.nodes, self.shapes, self.numbers = nodes, list(wanted), tuple(wanted.values())
        self.takes = [nodes.takes[shape] for shape in wanted]
        self.may = list(zip(*(nodes.may[shape] for shape in wanted), strict=True))
        self.main = scarcest(self.takes, self.numbers, nodes.offers)

    def run(self, fill_order: FillOrder, budget: Steps) -> dict[Shape, Ints] | None:
        nodes = self.nodes
        order = fill_order.ranked({number: takes[self.main] for number, takes in enumerate(self.takes)})

        def fits(row: int, taken: Counts) -> bool:
            return nodes.alike or all(self.may[row][order[kind]] for kind, number in enumerate(taken) if number)

        def step(number: int) -> None:
            budget.left -= number
            if budget.left <= 0:
                raise BudgetEnded

        problem = FillProblem(
            self.main, [self.takes[number] for number in order], tuple(self.numbers[number] for number in order),
            nodes.offers, list(zip(nodes.offers, self.may, strict=True)), nodes.alike,
        )  # fmt: skip
        filled = BinFill(problem, fill_order, fits, step).run()
        if filled is None:
            return None
        counts = np.zeros((len(self.shapes), nodes.size), dtype=np.int64)
        for row, taken in filled:
            counts[order, nodes.used[row]] = taken
        return dict(zip(self.shapes, counts, strict=True))
