"""Placement as a CP-SAT model, for what the search leaves open: irregular trees, optional groups, mixed pods.

A variable says which domain a group has (for equal leaves: how many have it), another how many nodes of a kind are
filled with which pattern (`patterns`).  Everything is counted in pods, so numbers stay small.  The model knows nested
keys, listed or not, bound members, exclusive domains and terms between pods: on one node by the choice of patterns,
elsewhere as constraints (`pod_rule_constraints`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..cluster.regions import Region, domains_within, rows_of
from ..records.demand import Exclusive
from ..space.bounds import inside
from ..space.budget import Steps
from ..space.canonical import Part, walk
from ..space.cpsat import Solver
from ..space.tasks import Found, NotFound
from ..space.trial_state import AmountState, SlotState
from .patterns import Cells, NodePatterns, Place, TooManyPatterns, place_of
from .pod_rule_constraints import add_rules, between_nodes, row_marks
from .portions import portions

#: The most variables of a model.
LARGEST_MODEL = 60_000


def solve_placement(
    state: SlotState | AmountState, part: Part, region: Region, steps: Steps
) -> Found | NotFound | None:
    """Place the tree, or prove that it cannot be placed; None if the model is too large for the budget."""
    if steps.left <= 0:
        return NotFound(proved=False)
    model = _Model(state, Solver(), min(LARGEST_MODEL, steps.left))
    try:
        model.build(part, region)
    except TooManyPatterns:
        return None
    finally:
        steps.left -= model.size  # creating a variable takes as long as a step
    found = model.solver.solve(steps, linearization=2, probing=not state.has_rules)
    return model.found() if found else NotFound(proved=found is False)


@dataclass(slots=True)
class _Seat:
    """Equal parts (mostly one) and, by place, the variable that says how many are seated there."""

    parts: list[Part]
    where: dict[Place, Any]
    #: Pods by place and ask, where the need can be met in several ways.
    pods: dict[tuple[Place, int], Any] = field(default_factory=dict)


class _Model:
    def __init__(self, state: SlotState | AmountState, solver: Solver, largest: int) -> None:
        self.state, self.table, self.solver, self.cp = state, state.table, solver, solver.cp
        self.seats: list[_Seat] = []
        self.regions: dict[Place, Region] = {}
        self.fills: NodePatterns | None = None
        #: For every exclusive domain, the variables of groups that may have it.
        self._wanted: dict[tuple[Exclusive, int | str], list[Any]] = {}
        self._known: dict[object, list[Region]] = {}
        #: Variables created, and the most there may be.
        self.size, self._largest = 0, largest

    def build(self, root: Part, region: Region) -> None:
        here = _Seat([root], {self._place(region): 1})
        seat = self._within([root], here, must=True)
        self._children(seat)
        for wanting in self._wanted.values():
            self.cp.add(sum(wanting) <= 1)
        leaves = [seat for seat in self.seats if seat.parts[0].is_leaf and self._most(seat.parts[0])]
        if isinstance(self.state, SlotState):
            self._counted(leaves, self.state)
        elif leaves:
            asks = {ask.shape: None for seat in leaves for ask in seat.parts[0].asks}
            unlisted = {key: None for part in walk(root) for key in part.keys if key not in self.table.level_of}
            rules = between_nodes(self.state, rows_of(self.table, region))
            apart = [*(self.table.column(key).ids for key in unlisted), *row_marks(rules)]
            cells = Cells(self.state, region, self._used(leaves), apart)
            self.fills = NodePatterns(self.state, self.cp, self.integer, list(asks), cells)
            self._ask_for_pods(self.fills, leaves)
            add_rules(self.cp, rules, self.fills.numbers())

    def integer(self, most: int) -> Any:
        self.size += 1
        if self.size > self._largest:
            raise TooManyPatterns
        return self.cp.new_int_var(0, most, "")

    def _place(self, region: Region) -> Place:
        place = place_of(region)
        self.regions[place] = region
        return place

    def _used(self, seats: list[_Seat]) -> dict[Place, Region]:
        return {place: self.regions[place] for seat in seats for place in seat.where}

    # ---- groups

    def _children(self, seat: _Seat) -> None:
        """Seats for the children of one composite, and those below."""
        parent = seat.parts[0]
        if parent.is_leaf:
            return
        must = parent.need >= len(parent.children)
        seats = [self._within(parts, seat, must) for parts in parent.kinds(exactly=not self.state.extras_may_help)]
        if not must:
            self.cp.add(_total(seats) >= parent.need * sum(seat.where.values()))
        for inner in seats:
            self._children(inner)

    def _within(self, parts: list[Part], around: _Seat, must: bool) -> _Seat:
        """Equal parts in domains of their keys, each inside a domain in which the part above them is seated."""
        part, number = parts[0], len(parts)
        seat = _Seat(parts, {})
        for outer, there in around.where.items():
            here = {self._place(region): self.integer(number) for region in self._admitted(part, self.regions[outer])}
            seat.where.update(here)
            total = sum(here.values())
            self.cp.add(total == number * there if must else total <= number * there)
        self.seats.append(seat)
        if part.is_leaf and self._most(part) and part.need != part.supply and isinstance(self.state, AmountState):
            seat.pods = portions(self.cp, self.integer, parts, seat.where, exactly=not self.state.extras_may_help)
        if part.exclusive is not None:
            for place, variable in seat.where.items():
                self._wanted.setdefault((part.exclusive, self._held_as(part, self.regions[place])), []).append(variable)
        return seat

    def _most(self, part: Part) -> int:
        """More pods than needed never help, unless others need them nearby or for an even spread."""
        return part.supply if self.state.extras_may_help else part.need

    def _counted(self, leaves: list[_Seat], state: SlotState) -> None:
        """For every domain: no more pods in it, or in domains below, than it has slots."""
        for level in state.levels:
            inside_of: dict[int, list[Any]] = {}
            for seat in leaves:
                for place, there in seat.where.items():
                    region = self.regions[place]
                    if region.level >= level:
                        row = int(self.table.starts(region.level)[region.index])
                        pods = seat.parts[0].need * there
                        inside_of.setdefault(int(self.table.domains(level)[row]), []).append(pods)
            slots = state.slots(state.shape, level)
            for domain, each in inside_of.items():
                self.cp.add(sum(each) <= int(slots[domain]))

    def _ask_for_pods(self, fills: NodePatterns, leaves: list[_Seat]) -> None:
        for seat in leaves:
            for place, there in seat.where.items():
                for number, ask in enumerate(seat.parts[0].asks):
                    fills.ask(place, ask.shape, seat.pods.get((place, number), ask.most * there))
        fills.close()

    # ---- domains

    def _admitted(self, part: Part, around: Region) -> list[Region]:
        """The domains of a part's keys inside a region that the bound, bound members and exclusivity allow."""
        found = [region for region in self._domains(part, around) if self._has_pins(part, region)]
        if part.is_leaf and part.need > part.supply:
            return []
        whole = [region for region in found if region.rows is None]
        if whole:
            level, low = whole[0].level, min(region.index for region in whole)
            copies = inside(self.state, part, level, low, max(region.index for region in whole) + 1)
            found = [region for region in found if region.rows is not None or copies[region.index - low] >= 1]
        found = [region for region in found if region.rows is None or self._has_slots(part, region)]
        if part.exclusive is not None:
            found = [region for region in found if not self.state.held(part, self._held_as(part, region))]
        return found

    def _domains(self, part: Part, around: Region) -> list[Region]:
        known = (part.keys, place_of(around))
        if known not in self._known:
            found = [around]
            for key in part.keys:
                found = [inner for region in found for inner in domains_within(self.table, region, key)]
            self._known[known] = found
        return self._known[known]

    def _has_pins(self, part: Part, region: Region) -> bool:
        return not part.pins or bool(np.isin(part.pins, rows_of(self.table, region)).all())

    def _has_slots(self, part: Part, region: Region) -> bool:
        """Whether the nodes of one value of an unlisted key have enough slots for each shape by itself."""
        assert isinstance(self.state, AmountState)
        state, rows = self.state, region.rows
        return all(int(state.slots_by_row(shape)[rows].sum()) >= least for shape, least in part.least.items())

    def _held_as(self, part: Part, region: Region) -> int | str:
        """The domain that an exclusive part holds if it is seated in a region."""
        assert part.exclusive is not None
        domain = self.state.exclusivity.domain(part.exclusive.key, int(rows_of(self.table, region)[0]))
        assert domain is not None  # its key is among the part's keys, and the region has a value for it
        return domain

    # ---- the answer

    def found(self) -> Found:
        found, places = Found([], []), dict[int, Place]()
        for seat in self.seats:
            waiting = list(seat.parts)
            for place, there in seat.where.items():
                for _ in range(self.solver.value(there)):
                    part = waiting.pop(0)
                    places[part.group] = place
                    found.seats.append((part, self.regions[place]))
        if self.fills is not None:
            self.fills.settle(self.solver)
            for seat in self.seats:
                for part in seat.parts:
                    if part.is_leaf and self._most(part) and part.group in places:
                        found.puts += self.fills.deal(part, places[part.group], self._shares(seat, part, places))
        return found

    def _shares(self, seat: _Seat, part: Part, places: dict[int, Place]) -> list[int]:
        """Pods of each ask that a part gets."""
        if part.need == part.supply:
            return [ask.most for ask in part.asks]
        if len(part.asks) == 1 and not self.state.extras_may_help:
            return [part.need]
        place = places[part.group]
        return [self.solver.value(seat.pods[place, number]) for number in range(len(part.asks))]


def _total(seats: list[_Seat]) -> Any:
    return sum(there for seat in seats for there in seat.where.values())
