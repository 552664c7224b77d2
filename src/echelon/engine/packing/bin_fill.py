"""Parts into the domains of one level, domain by domain (or pods onto nodes): one level of `level_pack`.

Equal parts are one kind with a number.  A domain gets only sets of parts that waste no more than all domains together
may waste; one integer with a bit per reachable sum excludes every set that cannot be completed.  Where amounts alone
decide whether parts fit, a set is also excluded if a waiting part could be added to it or could replace a smaller one:
then another placement exists in which it does.  What was left over from a domain on and could not be placed is
remembered.  If nothing is left to try, that is a proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...base.rng import Rng

Counts = tuple[int, ...]
Amounts = tuple[int, ...]

#: With more domains the problem is left to the other methods.
DOMAINS = 2_000
#: And so it is if the common unit of amounts is a smaller fraction of a domain than this.
FINEST = 1 << 18
#: Steps of the first tries, and the number of orders before tries get twice as long.
FIRST_TRY = 150
TRIES = 6
#: One try of each round is longer by this factor.
LONGER = 16
#: Pieces of sets that are built for one step.
PIECES_PER_STEP = 8


class Unsuited(Exception):
    """The problem is too large or too fine for this method."""


class FillOrder(NamedTuple):
    """The order in which alternatives are tried; any order leads to the same answer in the end."""

    #: Kinds are ranked by size with some randomness; 0 for none.
    seed: int = 0
    large_domains_first: bool = True
    #: Fill domains evenly instead of completely: easier where the parts of a full domain hardly fit together.
    even: bool = False

    def ranked(self, sizes: Mapping[int, int]) -> list[int]:
        """Kinds in the order in which they go into a domain, largest first or nearly so."""
        rng = Rng(self.seed)
        weights = {kind: sizes[kind] * (10 + (rng.below(5) if self.seed else 0)) for kind in sorted(sizes)}
        return sorted(weights, key=lambda kind: (-weights[kind], kind))


def fill_orders(first: int = FIRST_TRY, uneven: bool = True) -> Iterator[tuple[FillOrder, int]]:
    """Orders to try in turn and the steps for each, without end; the first few have `first` steps.

    How long a search takes depends on the first choices, so many short tries are better than a long one; since they
    get longer, the whole is complete.  Unless `uneven`, every other try fills domains evenly.
    """
    seed, steps = 0, first
    while True:
        for _ in range(TRIES):
            yield FillOrder(seed, large_domains_first=True, even=not uneven), steps
            yield FillOrder(seed, large_domains_first=False), steps
            seed += 1
        yield FillOrder(seed - TRIES), steps * LONGER
        steps *= 2


@dataclass(frozen=True, slots=True)
class FillProblem:
    """Kinds of parts with their amounts and numbers; domains with their amounts, and equal marks for equal domains."""

    #: The amount that is scarcest.
    main: int
    kinds: Sequence[Amounts]
    numbers: Counts
    domains: Sequence[Amounts]
    marks: Sequence[object]
    #: Whether amounts alone decide.
    exact: bool


class BinFill:
    """`fits` says whether a set of parts can share a domain, amounts apart; `step` counts, or raises BudgetEnded."""

    def __init__(
        self,
        asked: FillProblem,
        fill_order: FillOrder,
        fits: Callable[[int, Counts], bool],
        step: Callable[[int], None],
    ) -> None:
        self.fill_order, self._fits, self._step = fill_order, fits, step
        self.exact = asked.exact
        main = asked.main
        #: The scarcest amount of kinds and domains, in its common unit.
        unit = max(1, math.gcd(*(kind[main] for kind in asked.kinds)))
        self.kinds = list(asked.kinds)
        self.numbers = asked.numbers
        self.sizes = [kind[main] // unit for kind in asked.kinds]
        direction = -1 if fill_order.large_domains_first else 1
        self.order = sorted(range(len(asked.domains)), key=lambda spot: (direction * asked.domains[spot][main], spot))
        self.capacities = [asked.domains[spot] for spot in self.order]
        self.rooms = [amounts[main] // unit for amounts in self.capacities]
        if len(self.order) > DOMAINS or max(self.rooms, default=0) > FINEST:
            raise Unsuited
        self.others = [dim for dim in range(len(self.kinds[0])) if dim != main]
        #: What this and all later domains have of each amount, the scarcest in its unit.
        self.ahead = _sums_from(self.rooms)
        self.others_ahead = [_sums_from([amounts[dim] for amounts in self.capacities]) for dim in self.others]
        #: From this domain on all are equal: what goes into one of them may go into the first.
        self.alike = len(self.order)
        while self.alike and asked.marks[self.order[self.alike - 1]] == asked.marks[self.order[-1]]:
            self.alike -= 1
        self._dead: set[tuple[int, Counts]] = set()

    def run(self) -> list[tuple[int, Counts]] | None:
        """The domains that take parts, with what they take; None if there is no solution."""
        stack: list[tuple[Counts, Iterator[Counts]]] = []
        chosen: list[Counts] = []
        left = self.numbers
        while True:
            if not any(left):
                return [(spot, taken) for spot, taken in zip(self.order, chosen, strict=False) if any(taken)]
            stack.append((left, self._alternatives(len(stack), left)))
            while (taken := next(stack[-1][1], None)) is None:
                self._dead.add((len(stack) - 1, stack.pop()[0]))
                if not stack:
                    return None
                chosen.pop()
            chosen.append(taken)
            left = tuple(have - used for have, used in zip(stack[-1][0], taken, strict=True))

    def _alternatives(self, at: int, left: Counts) -> Iterator[Counts]:
        """Sets for a domain that leave a rest for which the domains after it may have room."""
        if at == len(self.order) or (at, left) in self._dead:
            return
        slack = self.ahead[at] - sum(number * size for number, size in zip(left, self.sizes, strict=True))
        spare = [
            ahead[at] - sum(number * kind[dim] for number, kind in zip(left, self.kinds, strict=True))
            for dim, ahead in zip(self.others, self.others_ahead, strict=True)
        ]
        if slack < 0 or any(amount < 0 for amount in spare):
            return
        forced = self._forced(at, left)
        for taken in self._sets(at, left, slack, spare, forced):
            self._step(1)
            rest = tuple(have - used for have, used in zip(left, taken, strict=True))
            if (at + 1, rest) in self._dead or (self.exact and self._improvable(at, taken, forced, rest)):
                continue
            if self._fits(self.order[at], taken):
                yield taken

    def _sets(self, at: int, left: Counts, slack: int, spare: list[int], forced: int) -> Iterator[Counts]:
        """Sets of parts that leave no more than `slack` unused, nor more than `spare` of the other amounts."""
        room = self.rooms[at]
        sums = self._reachable(left, room)
        for used in self._uses(at, slack):
            if sums[0] >> used & 1:
                for taken in self._adding_up(left, sums, used, forced):
                    wasted = self._wasted(at, taken)
                    if all(0 <= amount <= most for amount, most in zip(wasted, spare, strict=True)):
                        yield taken

    def _uses(self, at: int, slack: int) -> Sequence[int]:
        """How much of a domain to use, in the order of trying: all of it first, or a fair share first."""
        room = self.rooms[at]
        uses = range(room, max(0, room - slack) - 1, -1)
        if not self.fill_order.even:
            return uses
        fair = room - slack * room // max(1, self.ahead[at])
        return sorted(uses, key=lambda used: abs(used - fair))

    def _reachable(self, left: Counts, room: int) -> list[int]:
        """For the kinds from each on: their reachable sums, a bit each."""
        sums, mask = [1], (1 << (room + 1)) - 1
        for size, number in zip(reversed(self.sizes), reversed(left), strict=True):
            reach = sums[-1]
            if size:
                for _ in range(min(number, room // size)):
                    reach |= reach << size
            sums.append(reach & mask)
        sums.reverse()
        return sums

    def _adding_up(self, left: Counts, sums: list[int], total: int, forced: int) -> Iterator[Counts]:
        """Sets of a given sum."""
        sizes, pieces = self.sizes, 0
        pending: list[tuple[int, int, Counts]] = [(0, total, ())]
        while pending:
            kind, missing, chosen = pending.pop()
            if not sums[kind] >> missing & 1:
                continue
            if kind == len(sizes):
                yield chosen
                continue
            pieces += 1
            if pieces == PIECES_PER_STEP:
                self._step(1)
                pieces = 0
            most = min(left[kind], missing // sizes[kind] if sizes[kind] else left[kind])
            least = 1 if kind == forced else 0
            pending += [
                (kind + 1, missing - number * sizes[kind], (*chosen, number)) for number in range(least, most + 1)
            ]

    def _forced(self, at: int, left: Counts) -> int:
        """Where all remaining domains are equal, a kind of which one part goes into the next; -1 elsewhere."""
        return -1 if at < self.alike else next(kind for kind, number in enumerate(left) if number)

    def _wasted(self, at: int, taken: Counts) -> list[int]:
        """What a set leaves of the other amounts."""
        return [
            self.capacities[at][dim] - sum(number * kind[dim] for number, kind in zip(taken, self.kinds, strict=True))
            for dim in self.others
        ]

    def _improvable(self, at: int, taken: Counts, forced: int, rest: Counts) -> bool:
        """Whether a waiting part could be added, or could replace one that is in no respect larger."""
        waste = self.rooms[at] - sum(number * size for number, size in zip(taken, self.sizes, strict=True))
        if not waste:
            return False
        wasted = self._wasted(at, taken)
        gaps = [(0, [0] * len(self.others))]
        gaps += [
            (self.sizes[kind], [self.kinds[kind][dim] for dim in self.others])
            for kind, number in enumerate(taken)
            if number > (kind == forced)
        ]
        for kind, number in enumerate(rest):
            if number:
                size, more = self.sizes[kind], [self.kinds[kind][dim] for dim in self.others]
                for gone, less in gaps:
                    if gone < size <= gone + waste and all(
                        one <= other <= one + free for one, other, free in zip(less, more, wasted, strict=True)
                    ):
                        return True
        return False


def scarcest(kinds: Sequence[Amounts], numbers: Counts, domains: Sequence[Amounts]) -> int:
    """The amount with the highest demand relative to supply, among those that are not too fine."""

    def rank(dim: int) -> tuple[bool, float, int]:
        unit = max(1, math.gcd(*(kind[dim] for kind in kinds)))
        fine = max((amounts[dim] for amounts in domains), default=0) // unit > FINEST
        need = sum(kind[dim] * number for kind, number in zip(kinds, numbers, strict=True))
        return (not fine, need / max(1, sum(amounts[dim] for amounts in domains)), -dim)

    return max(range(len(kinds[0])), key=rank)


def _sums_from(numbers: list[int]) -> list[int]:
    """For each position the sum from there on, and 0 at the end."""
    sums = [0]
    for number in reversed(numbers):
        sums.append(sums[-1] + number)
    sums.reverse()
    return sums
