"""Rules between pods that are placed together (`pod_rules`), as constraints for CP-SAT.

A model has a number of pods per shape and spot; a spot is a row, or stands for rows that no rule distinguishes
(`row_marks`).  What running pods close to a shape is not written here: such spots are not offered.

    anti-affinity   in a domain: one pod that has the term and matches it, or pods that only have it, or only match it
    affinity        in a domain of each term: a matching pod; or all pods of a kind that matches itself in one domain
    spread          in a domain in use: no more than the skew above the floor, which is no higher than the emptiest
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..cluster.arrays import Ints
from ..records.demand import Shape
from ..space.pod_rules import AffinityRule, AntiAffinityRule, SpreadRule
from ..space.rule_state import RuleState
from ..space.trial_state import AmountState, SlotState

Rule = AntiAffinityRule | AffinityRule | SpreadRule


class PodCount(NamedTuple):
    """The number of pods of a shape at a spot: a variable or a sum of variables, at most `most`."""

    pods: Any
    most: int


#: By shape and spot.
PodCounts = Mapping[Shape, Mapping[int, PodCount]]


def on_nodes(state: SlotState | AmountState, rows: Ints) -> list[AntiAffinityRule]:
    """The terms of anti-affinity by which pods exclude one another from a node."""
    rules = state.rules if isinstance(state, RuleState) else []
    return [rule for rule in rules if isinstance(rule, AntiAffinityRule) and bool((rule.domain[rows] >= 0).all())]


def between_nodes(state: SlotState | AmountState, rows: Ints) -> list[Rule]:
    """The rules that are about more than one node at a time."""
    rules = state.rules if isinstance(state, RuleState) else []
    alone = [rule for rule in on_nodes(state, rows) if len(np.unique(rule.domain[rows])) == len(rows)]
    return [rule for rule in rules if not any(rule is one for one in alone)]


def row_marks(rules: Iterable[Rule]) -> list[Ints]:
    """Numbers per row; rows that agree in all of them are equal for the rules."""
    found: list[Ints] = []
    for rule in rules:
        found += rule.domains if isinstance(rule, AffinityRule) else [rule.domain]
        if isinstance(rule, SpreadRule):
            found.append(rule.counted.astype(np.int64))
    return found


def add_rules(cp: Any, rules: Iterable[Rule], numbers: PodCounts) -> None:
    """Add the rules to a model."""
    writer = _Writer(cp, numbers)
    for rule in rules:
        if isinstance(rule, AntiAffinityRule):
            writer.apart(rule)
        elif isinstance(rule, AffinityRule):
            writer.near(rule)
        else:
            writer.even(rule)


class _Writer:
    def __init__(self, cp: Any, numbers: PodCounts) -> None:
        self.cp, self.numbers = cp, numbers

    def apart(self, rule: AntiAffinityRule) -> None:
        both = self._by_domain(rule.having & rule.meant, rule.domain)
        having = self._by_domain(rule.having - rule.meant, rule.domain)
        meant = self._by_domain(rule.meant - rule.having, rule.domain)
        for domain in sorted({*both, *having, *meant}):
            alone = [both[domain].pods] if domain in both else []
            others = [self._any(sides[domain]) for sides in (having, meant) if domain in sides]
            if alone or len(others) > 1:
                self.cp.add(sum(alone + others) <= 1)

    def near(self, rule: AffinityRule) -> None:
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

    def even(self, rule: SpreadRule) -> None:
        counted = self._by_domain(rule.meant, np.where(rule.counted, rule.domain, -1))
        floor = self._floor(rule, counted)
        for domain, number in self._by_domain({rule.like}, rule.domain).items():
            held = int(rule.pods[domain]) + counted.get(domain, _NONE).pods
            self.cp.add(held <= rule.spread.max_skew + floor).only_enforce_if(self._any(number))

    def _floor(self, rule: SpreadRule, counted: Mapping[int, PodCount]) -> Any:
        """No higher than the emptiest domain."""
        if len(rule.present) < rule.spread.min_domains:
            return 0
        floor = self.cp.new_int_var(0, max(0, rule.ceiling), "")
        for domain in rule.present.tolist():
            self.cp.add(floor <= int(rule.pods[domain]) + counted.get(domain, _NONE).pods)
        return floor

    def _by_domain(self, shapes: Iterable[Shape], domains: Ints) -> dict[int, PodCount]:
        """All pods of shapes, by the domain they are in."""
        inside: dict[int, list[PodCount]] = {}
        chosen = set(shapes)
        for shape, spots in self.numbers.items():
            for spot, number in spots.items() if shape in chosen else ():
                if domains[spot] >= 0 and number.most:
                    inside.setdefault(int(domains[spot]), []).append(number)
        return {
            domain: PodCount(sum(number.pods for number in each), sum(number.most for number in each))
            for domain, each in inside.items()
        }

    def _any(self, number: PodCount) -> Any:
        """1 if there are any pods."""
        flag = self.cp.new_bool_var("")
        self.cp.add(number.pods <= number.most * flag)
        return flag


_NONE = PodCount(0, 0)
