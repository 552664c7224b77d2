"""The complete search: choose a domain for every group and a node for every pod, and go back where that fails.

A list of open tasks is worked off front to back.  Each task is a generator that applies one alternative to the trial
state, yields the remaining tasks, and takes the alternative back when it is resumed; a stack of generators is the
whole search, so its depth has no limit.  The first descent is the constructive heuristic: tightest domain first,
largest pods first.  Alternatives are skipped if the roll-up bound excludes them, if they equal one that failed, or if
they lead to a state known to be dead; each task list taken up costs a step of the budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ..cluster.arrays import Ints, distinct
from ..cluster.regions import Region, domains_within, narrow, rows_of
from ..packing.node_pack import NodeBins, PodOrder, divide_among, pack_nodes
from ..records.demand import Shape
from ..space.bounds import inside, own_level
from ..space.budget import Steps
from ..space.canonical import Part, main_resource, shapes_of, walk
from ..space.compact import compact
from ..space.resource_bounds import enough
from ..space.rule_state import RuleState
from ..space.tasks import ChooseChildren, ChooseDomain, FillNode, Found, NotFound, PlacePods, Put, Task, TaskList
from ..space.trial_state import AmountState, SlotState
from .closed_form import domain_order

#: A step over nodes costs more than one over slots.
PACKING_STEP = 10
#: And so does reading nodes before they are packed.
PACKING_SETUP = 25

#: Where equal pods go in a region.
NodeChoice = Callable[[AmountState, Shape, Region, int], tuple[Ints, Ints]]


def close_together(state: AmountState, shape: Shape, region: Region, count: int) -> tuple[Ints, Ints]:
    """Nodes for equal pods: in as few domains as possible."""
    return compact(state.table, shape, state.slots_by_row(shape), region, count)


def tightest_first(state: AmountState, shape: Shape, region: Region, count: int) -> tuple[Ints, Ints]:
    """Nodes for equal pods: those with the least left over, which leaves whole nodes to larger pods."""
    rows, slots = rows_of(state.table, region), state.slots_by_row(shape)
    rows = rows[slots[rows] > 0]
    main = state.table.resources[main_resource(shape)]
    rows = rows[np.lexsort((rows, state.free[main, rows]))]
    before = np.cumsum(slots[rows]) - slots[rows]
    counts = np.clip(count - before, 0, slots[rows])
    return rows[counts > 0], counts[counts > 0]


def one_by_one(state: AmountState, shape: Shape, region: Region, count: int) -> tuple[Ints, Ints]:
    """Nodes for equal pods with rules between them, one after the other."""
    assert isinstance(state, RuleState)
    return state.one_by_one(shape, region, count)


@dataclass(slots=True)
class _Frame:
    tasks: TaskList
    signature: object
    alternatives: Iterator[TaskList | None] = field(default_factory=lambda: iter(()))


def descent(part: Part) -> int:
    """Steps to seat every group and spread every class of pods once."""
    return PACKING_STEP * sum(2 + len(each.asks) for each in walk(part))


class Backtrack:
    """One run.  With a `node_choice` equal pods go where it says and nowhere else: quick, but no proof."""

    def __init__(
        self, state: SlotState | AmountState, part: Part, steps: Steps, node_choice: NodeChoice | None = None
    ) -> None:
        parts = list(walk(part))
        self.part, self.node_choice = part, node_choice
        self.state = state
        self.table = state.table
        self.steps = steps
        self.seats: list[tuple[Part, Region]] = []
        self.puts: list[Put] = []
        self._keys: dict[object, int] = {}
        self._dead: set[tuple[int, object]] = set()
        #: Bound members and exclusive holders make domains differ although their content is equal.
        self._alike = not any(part.pins or part.exclusive for part in parts)
        self._backtracked = False
        #: Whether an alternative was skipped because the budget ended.
        self.open = False

    def run(self, region: Region) -> Found | NotFound:
        stack = [self._frame(self._task_list(ChooseDomain(self.part, region, 0), None))]
        price = 1 if isinstance(self.state, SlotState) else PACKING_STEP
        while stack:
            frame = stack[-1]
            tasks = next(frame.alternatives, False)
            if tasks is None and not self.state.complete():
                continue
            if tasks is None:
                return Found(list(self.seats), list(self.puts))
            if tasks is False:
                stack.pop()
                self._backtracked = True
                if frame.signature is not None:
                    self._dead.add((frame.tasks.key, frame.signature))
                continue
            assert isinstance(tasks, TaskList)
            if self.steps.left <= 0:
                return NotFound(proved=False)
            self.steps.left -= price
            following = self._frame(tasks)
            if following.signature is None or (tasks.key, following.signature) not in self._dead:
                stack.append(following)
        return NotFound(proved=self.node_choice is None and not self.open)

    # ---- bookkeeping

    def _frame(self, tasks: TaskList) -> _Frame:
        # The first descent needs no memory of dead ends.
        signature = self.state.signature() if self._backtracked else None
        return _Frame(tasks, signature, self._alternatives(tasks))

    def _task_list(self, task: Task, rest: TaskList | None) -> TaskList:
        match task:
            case ChooseDomain(part, region, depth):
                content: tuple[object, ...] = ("seat", part.type, region.key, depth)
            case ChooseChildren(part, region, index, have):
                content = ("choose", part.type, region.key, index, have)
            case PlacePods(part, ask, region, count):
                content = ("spread", part.type, ask, region.key, count)
            case FillNode(placing, order, _, _, at, left, before):
                content = ("pick", placing.part.type, placing.ask, order[at:].tobytes(), left, before)
        key = (content, rest.key if rest else -1)
        return TaskList(task, rest, self._keys.setdefault(key, len(self._keys)))

    def _alternatives(self, tasks: TaskList) -> Iterator[TaskList | None]:
        match tasks.task:
            case ChooseDomain(part, region, depth):
                return self._choose_domain(part, region, depth, tasks.rest)
            case ChooseChildren(part, region, index, have):
                return self._choose_children(part, region, index, have, tasks.rest)
            case PlacePods() as placing:
                return self._place_pods(placing, tasks.rest)
            case FillNode() as filling:
                return self._fill_node(filling, tasks.rest)

    # ---- groups

    def _choose_domain(
        self, part: Part, region: Region, depth: int, rest: TaskList | None
    ) -> Iterator[TaskList | None]:
        if not part.keys and not self._admitted(part, region):
            return
        if depth == len(part.keys) and part.exclusive is None:
            self.seats.append((part, region))
            yield from self._open(part, region, rest)
            self.seats.pop()
            return
        if depth == len(part.keys):
            with self.state.claimed(part, region) as mine:
                if mine:
                    self.seats.append((part, region))
                    yield from self._open(part, region, rest)
                    self.seats.pop()
            return
        failed: set[object] = set()
        for candidate in self._candidates(part, region, part.keys[depth]):
            if self._alike and self._backtracked and candidate.rows is None and candidate.level >= 0:
                content = self.state.content(candidate.level, candidate.index)
                if content in failed:
                    continue
                failed.add(content)
            yield from self._choose_domain(part, candidate, depth + 1, rest)

    def _admitted(self, part: Part, region: Region) -> bool:
        """Whether the bound allows a part without a key, for which no domain is chosen."""
        if region.rows is not None or not part.children:
            return True
        return bool(inside(self.state, part, region.level, region.index, region.index + 1)[0] >= 1)

    def _open(self, part: Part, region: Region, rest: TaskList | None) -> Iterator[TaskList | None]:
        """A part has its region: now its content."""
        if isinstance(self.state, AmountState) and not enough(self.state, part, rows_of(self.table, region)):
            return
        if part.children:
            yield self._task_list(ChooseChildren(part, region, 0, 0), rest)
        elif not self._most(part):
            yield rest
        elif part.need > part.supply:
            return
        elif isinstance(self.state, SlotState):
            if self.state.take(region, part.need):
                yield rest
                self.state.give(region, part.need)
        else:
            for shares in compositions(part, self._most(part)):
                if self.steps.left <= 0:  # there may be too many compositions to try
                    self.open = True
                    return
                if rest is None and self.node_choice is None and not self.state.has_rules:
                    packed = self._packed(part, region, shares)
                    if packed is not None:
                        yield from packed
                        continue
                following = rest
                for number in range(len(shares) - 1, -1, -1):
                    if shares[number]:
                        following = self._task_list(PlacePods(part, number, region, shares[number]), following)
                yield following

    def _most(self, part: Part) -> int:
        """More pods than needed never help, unless others need them nearby or for an even spread."""
        return part.supply if self.state.extras_may_help and self.node_choice is None else part.need

    def _packed(self, part: Part, region: Region, shares: list[int]) -> Iterator[TaskList | None] | None:
        """The last leaf has its nodes for itself and is packed; None if they are too many or too different."""
        assert isinstance(self.state, AmountState)
        orders = [PodOrder(part, ask, share) for ask, share in zip(part.asks, shares, strict=True) if share]
        wanted = Counter[Shape]()
        for order in orders:
            wanted[order.ask.shape] += order.pods
        rows = rows_of(self.table, region)
        self.steps.left -= PACKING_SETUP
        packed = pack_nodes(NodeBins(self.state, list(wanted), rows), wanted, self.steps)
        if packed is None:
            return None
        self.open |= not packed.proved
        if packed.counts is None:
            return iter(())
        self.puts += divide_among(orders, rows, packed.counts)
        return iter((None,))

    def _choose_children(
        self, part: Part, region: Region, index: int, have: int, rest: TaskList | None
    ) -> Iterator[TaskList | None]:
        if have >= part.need:
            yield rest
            if not self.state.extras_may_help or index == len(part.children):
                return  # more children never help, unless others need their pods
        if have + len(part.children) - index < part.need:
            return
        child = part.children[index]
        yield self._task_list(
            ChooseDomain(child, region, 0), self._task_list(ChooseChildren(part, region, index + 1, have + 1), rest)
        )
        # Without this child; equal ones would fail, too.
        after = index + 1
        while after < len(part.children) and part.children[after].type == child.type:
            after += 1
        if have + len(part.children) - after >= part.need:
            yield self._task_list(ChooseChildren(part, region, after, have), rest)

    def _candidates(self, part: Part, region: Region, key: str) -> Iterator[Region]:
        """The domains of a key inside a region that the bound allows, best first."""
        level = self.table.level_of.get(key)
        if level is None:
            yield from self._labelled(part, region, key)
        elif level <= region.level:
            yield from domains_within(self.table, region, key)
        else:
            yield from self._domains(part, region, level)

    def _domains(self, part: Part, region: Region, level: int) -> Iterator[Region]:
        found = self.table.named_within(region.level, region.index, level)
        if own_level(self.state, part) == level and region.rows is None:
            low, high = self.table.inner(region.level, region.index, level)
            found = found[inside(self.state, part, level, low, high)[found - low] >= 1]
        if part.pins:
            pinned = distinct(self.table.domains(level)[list(part.pins)].tolist())
            found = found[np.isin(found, pinned) & (len(pinned) == 1)]
        if not len(found):
            return
        order = self._order(part, level, found)
        first = int(found[order.argmin()])
        yield from self._narrowed(region, level, first)
        for spot in np.argsort(order, kind="stable").tolist():
            if int(found[spot]) != first:
                yield from self._narrowed(region, level, int(found[spot]))

    def _order(self, part: Part, level: int, found: Ints) -> Ints:
        slots = np.zeros(len(found), dtype=np.int64)
        for shape in shapes_of(part):
            slots += self.state.slots(shape, level)[found]
        return domain_order(part, slots)

    def _narrowed(self, region: Region, level: int, index: int) -> Iterator[Region]:
        inner = narrow(self.table, region, level, index)
        if inner is not None:
            yield inner

    def _labelled(self, part: Part, region: Region, key: str) -> Iterator[Region]:
        """Domains of an unlisted key: fewest slots for all its pods first."""
        ranked = []
        for number, inner in enumerate(domains_within(self.table, region, key)):
            assert inner.rows is not None
            if part.pins and not np.isin(part.pins, inner.rows).all():
                continue
            if isinstance(self.state, AmountState):
                slots = {shape: int(self.state.slots_by_row(shape)[inner.rows].sum()) for shape in shapes_of(part)}
                if all(slots[shape] >= least for shape, least in part.least.items()):
                    ranked.append((sum(slots.values()), number, inner))
        for _, _, inner in sorted(ranked, key=lambda item: item[:2]):
            yield inner

    # ---- pods on nodes, where shapes differ

    def _place_pods(self, placing: PlacePods, rest: TaskList | None) -> Iterator[TaskList | None]:
        state = self.state
        assert isinstance(state, AmountState)
        shape = placing.part.asks[placing.ask].shape
        rows = rows_of(self.table, placing.region)
        slots = state.slots_by_row(shape)
        if int(slots[rows].sum()) < placing.pods or not self._others_fit(placing, rows):
            return
        if isinstance(state, RuleState) and state.most(shape, rows) < placing.pods:
            return
        node_choice = self.node_choice or (one_by_one if state.has_rules else tightest_first)
        found, counts = node_choice(state, shape, placing.region, placing.pods)
        if int(counts.sum()) == placing.pods:
            yield from self._with(placing, found, counts, rest)
        if self.node_choice is not None:
            return
        usable = rows[slots[rows] > 0]
        order = usable[np.lexsort((usable, slots[usable]))]
        suffix = np.append(np.cumsum(slots[order][::-1])[::-1], 0)
        yield self._task_list(FillNode(placing, order, slots[order], suffix, 0, placing.pods, -1), rest)

    def _others_fit(self, placing: PlacePods, rows: Ints) -> bool:
        """Whether the leaf's other required pods still have slots, each shape by itself."""
        state = self.state
        assert isinstance(state, AmountState)
        return all(
            int(state.slots_by_row(ask.shape)[rows].sum()) >= ask.least for ask in placing.part.asks[placing.ask + 1 :]
        )

    def _fill_node(self, filling: FillNode, rest: TaskList | None) -> Iterator[TaskList | None]:
        if not filling.left:
            yield rest
            return
        if filling.at == len(filling.order):
            return
        state = self.state
        assert isinstance(state, AmountState)
        row, at = int(filling.order[filling.at]), filling.at
        most = min(int(filling.slots[at]), filling.left)
        if isinstance(state, RuleState):
            shape = filling.placing.part.asks[filling.placing.ask].shape
            if state.most(shape, filling.order[at:]) < filling.left:
                return
            most = min(most, int(state.slots_by_row(shape)[row]))
        if self._alike and filling.before >= 0 and self._twin(filling):
            most = min(most, filling.before)
        least = max(0, filling.left - int(filling.suffix[at + 1]))
        for count in range(most, least - 1, -1):
            following = self._task_list(filling._replace(at=at + 1, left=filling.left - count, before=count), rest)
            if count:
                one = np.array([row], dtype=np.int64)
                yield from self._with(filling.placing, one, np.array([count], dtype=np.int64), following)
            else:
                yield following

    def _twin(self, filling: FillNode) -> bool:
        """Whether the node before was equal when this class began; it then takes at least as many."""
        state = self.state
        assert isinstance(state, AmountState)
        row, other = int(filling.order[filling.at]), int(filling.order[filling.at - 1])
        shape = filling.placing.part.asks[filling.placing.ask].shape
        one, count = np.array([other], dtype=np.int64), np.array([filling.before], dtype=np.int64)
        state.put(one, shape, -count)
        same = state.alike(row, other)
        state.put(one, shape, count)
        return same

    def _with(self, placing: PlacePods, rows: Ints, counts: Ints, rest: TaskList | None) -> Iterator[TaskList | None]:
        state = self.state
        assert isinstance(state, AmountState)
        ask = placing.part.asks[placing.ask]
        state.put(rows, ask.shape, counts)
        if state.holds(rows, ask.shape):
            self.puts.append(Put(placing.part, ask, rows, counts))
            yield rest
            self.puts.pop()
        state.put(rows, ask.shape, -counts)


def compositions(part: Part, most: int) -> Iterator[list[int]]:
    """Every way to make up a leaf's need, or more up to `most`, from its asks: required pods, then small ones first."""
    asks = part.asks

    def extend(number: int, left: int) -> Iterator[list[int]]:
        if number < 0:
            if not left:
                yield []
            return
        ask = asks[number]
        others = sum(other.most - other.least for other in asks[:number])
        extra = ask.most - ask.least
        for more in range(min(extra, left), max(0, left - others) - 1, -1):
            for shares in extend(number - 1, left - more):
                yield [*shares, ask.least + more]

    for total in range(part.need, most + 1):
        yield from extend(len(asks) - 1, total - sum(ask.least for ask in asks))
