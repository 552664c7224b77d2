"""Rules between pods that are placed together (`ties`), as constraints for CP-SAT.

Whoever writes a model has a number of pods per shape and spot; a spot is a row, or stands for rows that no rule tells
apart (`marks`).  What running pods close to a shape is not written here: such spots are not on offer.

    apart   in a domain: one pod that has the term and is meant by it, or those who only have it, or those only meant
    near    in a domain of each term: someone who is meant; or all of a kind that means itself in one domain
    even    in a domain in use: no more than the skew above the floor, which is no higher than the emptiest
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..cluster.arrays import Ints
from ..records.demand import Shape
from ..space.pod_rules import Apart, Even, Near
from ..space.rule_state import RuleState
from ..space.trial_state import Counting, Packing

Rule = Apart | Near | Even


class Number(NamedTuple):
    """How many pods of a shape are at a spot: a variable or a sum of some; more than `most` are never right."""

    pods: Any
    most: int


#: By shape and spot.
Numbers = Mapping[Shape, Mapping[int, Number]]


def on_nodes(room: Counting | Packing, rows: Ints) -> list[Apart]:
    """The terms of anti-affinity by which pods keep off one another's nodes, whatever else they ask for."""
    rules = room.rules if isinstance(room, RuleState) else []
    return [rule for rule in rules if isinstance(rule, Apart) and bool((rule.domain[rows] >= 0).all())]


def between_nodes(room: Counting | Packing, rows: Ints) -> list[Rule]:
    """The rules that are about more than one node at a time."""
    rules = room.rules if isinstance(room, RuleState) else []
    alone = [rule for rule in on_nodes(room, rows) if len(np.unique(rule.domain[rows])) == len(rows)]
    return [rule for rule in rules if not any(rule is one for one in alone)]


def marks(rules: Iterable[Rule]) -> list[Ints]:
    """Numbers per row; rows that agree in all of them are the same to the rules."""
    found: list[Ints] = []
    for rule in rules:
        found += rule.domains if isinstance(rule, Near) else [rule.domain]
        if isinstance(rule, Even):
            found.append(rule.counted.astype(np.int64))
    return found


def write(cp: Any, rules: Iterable[Rule], numbers: Numbers) -> None:
    """Add the rules to a model."""
    writer = _Writer(cp, numbers)
    for rule in rules:
        if isinstance(rule, Apart):
            writer.apart(rule)
        elif isinstance(rule, Near):
            writer.near(rule)
        else:
            writer.even(rule)


class _Writer:
    def __init__(self, cp: Any, numbers: Numbers) -> None:
        self.cp, self.numbers = cp, numbers

    def apart(self, rule: Apart) -> None:
        both = self._by_domain(rule.having & rule.meant, rule.domain)
        having = self._by_domain(rule.having - rule.meant, rule.domain)
        meant = self._by_domain(rule.meant - rule.having, rule.domain)
        for domain in sorted({*both, *having, *meant}):
            alone = [both[domain].pods] if domain in both else []
            others = [self._any(sides[domain]) for sides in (having, meant) if domain in sides]
            if alone or len(others) > 1:
                self.cp.add(sum(alone + others) <= 1)

    def near(self, rule: Near) -> None:
        together = 0 if rule.anchored else self.cp.new_bool_var("")
        for domains, running in zip(rule.domains, rule.anchor_pods, strict=True):
            anchors = self._by_domain(rule.anchors, domains)
            kind = self._by_domain(rule.kind, domains)
            used = {domain: self._any(number) for domain, number in kind.items()}
            for domain, flag in used.items():
                if not running[domain]:
                    self.cp.add(flag <= anchors.get(domain, _NONE).pods + together)
            if not rule.anchored and len(used) > 1:
                self.cp.add(sum(used.values()) <= 1 + (len(used) - 1) * (1 - together))
            for domain, number in self._by_domain(rule.followers, domains).items():
                if not running[domain]:
                    near = anchors.get(domain, _NONE).pods + kind.get(domain, _NONE).pods
                    self.cp.add(self._any(number) <= near)

    def even(self, rule: Even) -> None:
        counted = self._by_domain(rule.meant, np.where(rule.counted, rule.domain, -1))
        floor = self._floor(rule, counted)
        for domain, number in self._by_domain({rule.like}, rule.domain).items():
            held = int(rule.pods[domain]) + counted.get(domain, _NONE).pods
            self.cp.add(held <= rule.spread.max_skew + floor).only_enforce_if(self._any(number))

    def _floor(self, rule: Even, counted: Mapping[int, Number]) -> Any:
        """No higher than the emptiest domain."""
        if len(rule.present) < rule.spread.min_domains:
            return 0
        floor = self.cp.new_int_var(0, max(0, rule.ceiling), "")
        for domain in rule.present.tolist():
            self.cp.add(floor <= int(rule.pods[domain]) + counted.get(domain, _NONE).pods)
        return floor

    def _by_domain(self, shapes: Iterable[Shape], domains: Ints) -> dict[int, Number]:
        """All pods of shapes, by the domain they are in."""
        inside: dict[int, list[Number]] = {}
        chosen = set(shapes)
        for shape, spots in self.numbers.items():
            for spot, number in spots.items() if shape in chosen else ():
                if domains[spot] >= 0 and number.most:
                    inside.setdefault(int(domains[spot]), []).append(number)
        return {
            domain: Number(sum(number.pods for number in each), sum(number.most for number in each))
            for domain, each in inside.items()
        }

    def _any(self, number: Number) -> Any:
        """1 if there are any pods."""
        flag = self.cp.new_bool_var("")
        self.cp.add(number.pods <= number.most * flag)
        return flag


_NONE = Number(0, 0)
