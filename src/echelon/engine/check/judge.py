"""The judge of verdicts: independent arithmetic over the records, sharing no code with the search.

    judge ─► placement   every pod, group and domain, pod rules; ranks; the objective
          ─► eviction    only lower priorities, none that could be spared, the loss, nothing cheaper
          ─► blocked     every number of the shortages (`shortage_audit`), and the proof itself

A proof that nothing fits is confirmed by counting (`counting_bounds`), by trying everything (`exhaustive`) on small
clusters, or by trying everything up to symmetry (`symmetric_search`).  Where none of them decides, the verdict is not
contradicted, and the judgement says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from ..cluster.view import ClusterView
from ..records.demand import JOB_RANK, OWN_KEY, Composite, Demand, Exclusive, Group, Shape
from ..records.verdict import Blocked, Evict, Loss, Placed, Verdict
from .exhaustive import fits as can_be_placed
from .facts import Facts, bound_nodes, fits, groups_of, has, in_the_way, selected, tolerated, waiting
from .pod_terms import pod_term_problems
from .quality import objective_problems, rank_problems
from .shortage_audit import shortage_problems
from .symmetric_search import Allowance

#: Steps of one exhaustive search.
STEPS = 1_500
#: Steps of all symmetric searches of a judgement.
SYMMETRIC_STEPS = 30_000
#: Up to this number of units the loss must be the least, whatever the bound says.
ALWAYS_LEAST = 5
#: Up to this number of units all evictions below the bound are considered, and this many of them tried.
ALL_SUBSETS = 10
MOST_TRIED = 40
#: Among more units: this many victims are exchanged for this many other units.
EXCHANGED = 4


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is wrong with a verdict; if nothing is, whether all of it was confirmed or merely not contradicted."""

    problems: tuple[str, ...]
    confirmed: bool


def problems(view: ClusterView, demand: Demand, verdict: Verdict, now: float) -> list[str]:
    """What is wrong with a verdict on this demand and this view; nothing if it holds."""
    return list(judge(view, demand, verdict, now).problems)


def judge(view: ClusterView, demand: Demand, verdict: Verdict, now: float, steps: int = STEPS) -> Judgement:
    """What is wrong with a verdict, and how far it could be confirmed."""
    judging = _Judge(view, demand, now, steps)
    match verdict:
        case Placed():
            found = [*judging.placement(verdict, frozenset()), *judging.quality(verdict, frozenset())]
        case Evict():
            found = list(judging.eviction(verdict))
        case Blocked():
            found = list(judging.blocked(verdict))
    return Judgement(tuple(found), not found and not judging.open)


def loss_of(view: ClusterView, units: tuple[int, ...], now: float) -> Loss:
    """What evicting these units costs."""
    pods = [pod for unit in units for pod in view.pods_of(unit) if pod.evictable]
    covered: dict[int, int] = {}
    for pod in pods:
        for budget_id in pod.budgets:
            covered[budget_id] = covered.get(budget_id, 0) + 1
    violations = 0
    for budget_id, number in covered.items():
        budget = view.budget(budget_id)
        if budget is not None:
            violations += max(0, number - max(0, budget.allowed))
    priorities = [unit.priority for unit in map(view.unit, units) if unit is not None]
    work = sum(max(0, int((now - pod.started) * 1000)) for pod in pods)
    return Loss(violations, max(priorities), work, len(units), tuple(sorted(units)))


class _Judge:
    """One demand on one view; `open` once a question could not be decided."""

    def __init__(self, view: ClusterView, demand: Demand, now: float, steps: int) -> None:
        self.view, self.demand, self.now, self.steps = view, demand, now, steps
        self.groups = groups_of(demand.root)
        self.has_pod_rules = any(pods.shape.has_pod_rules for leaf in demand.leaves() for pods in leaf.classes)
        self.allowance = Allowance(SYMMETRIC_STEPS)
        self.open = False

    def _fits(self, gone: frozenset[int]) -> bool:
        """Whether the demand is known to fit without the units in `gone`."""
        found = can_be_placed(Facts(self.view, gone), self.demand, self.steps, self.allowance)
        self.open |= found is None
        return bool(found)

    # ---- placements

    def placement(self, placed: Placed, gone: frozenset[int]) -> Iterator[str]:
        """Problems of a placement on the view without the units in `gone`."""
        facts = Facts(self.view, gone)
        shapes = {member: shape for leaf in self.demand.leaves() for member, shape in waiting(leaf)}
        for member, name in placed.assignment.items():
            if member not in shapes:
                yield f"member {member} was not asked for"
            elif name not in facts.nodes:
                yield f"member {member} is on the unknown node {name}"
            elif not fits(shapes[member], facts.nodes[name]):
                yield f"member {member} may not be on node {name}"
        yield from _overcommitted(facts, placed.assignment, shapes)
        if shapes and not placed.assignment:
            yield "nothing is placed although members wait"
        if self.demand.root.id not in placed.groups:
            yield "the root does not hold"
        for unknown in sorted(placed.groups - {group.id for group in self.groups}):
            yield f"group {unknown} is not in the tree"
        yield from _group_problems(self.demand.root, placed, True)
        yield from self._topology_problems(facts, placed)
        yield from self._exclusive_problems(facts, placed)
        yield from pod_term_problems(self.view, placed.assignment, shapes, facts.staying, (selected, tolerated))

    def quality(self, placed: Placed, gone: frozenset[int]) -> Iterator[str]:
        """Problems of the ranks and of the objective of a placement that holds."""
        facts = Facts(self.view, gone)
        yield from rank_problems(facts, self.demand, placed)
        yield from objective_problems(facts, self.demand, placed)

    def _topology_problems(self, facts: Facts, placed: Placed) -> Iterator[str]:
        for group in self.groups:
            if group.id not in placed.groups:
                continue
            names = [name for name in _nodes_below(group, placed) if name in facts.nodes]
            if group.topology is not None and names:
                domains = {facts.domain(name, group.topology) for name in names}
                if len(domains) != 1 or None in domains:
                    yield f"group {group.id} is spread over {len(domains)} domains of {group.topology}"
                elif not placed.domains.get(group.id):
                    yield f"group {group.id} has no domain of {group.topology}"
            stated = placed.domains.get(group.id, ())
            outside = [name for name in names if not facts.lies_in(name, stated)]
            if outside:
                yield f"group {group.id} is said to be in {stated} but is on {outside[0]}"

    def _exclusive_problems(self, facts: Facts, placed: Placed) -> Iterator[str]:
        holders: dict[object, set[int]] = {}
        for pod in facts.staying:
            domain = facts.domain(pod.node, pod.exclusive.key) if pod.exclusive else None
            if domain is not None:
                holders.setdefault((pod.exclusive, domain), set()).add(pod.group)
        for leaf in self.demand.leaves():
            new = [placed.assignment[m] for m, _ in waiting(leaf) if m in placed.assignment]
            names = [*new, *(bound.node for bound in leaf.bound if bound.node in facts.nodes)]
            if leaf.exclusive is None or not names or leaf.id not in placed.groups:
                continue
            domains = {facts.domain(name, leaf.exclusive.key) for name in names}
            if len(domains) != 1 or None in domains:
                yield f"exclusive group {leaf.id} is spread over {len(domains)} domains"
            for domain in domains:
                others = holders.setdefault((leaf.exclusive, domain), set()) - {leaf.id}
                if others:
                    yield f"group {leaf.id} shares the domain {domain} with group {min(others)}"
                holders[leaf.exclusive, domain].add(leaf.id)
            for pod in facts.staying:
                if in_the_way(pod, leaf.exclusive) and new and facts.domain(pod.node, leaf.exclusive.key) in domains:
                    yield f"exclusive group {leaf.id} is where pod {pod.pod} of another Job of its rank is"
        yield from self._intruders(facts, placed)

    def _intruders(self, facts: Facts, placed: Placed) -> Iterator[str]:
        """Pods of Jobs that go where an exclusive group of their rank is, running or placed with them."""
        places = [(pod.exclusive, pod.group, pod.node) for pod in facts.staying]
        for leaf in self.demand.leaves():
            new = [placed.assignment[member] for member, _ in waiting(leaf) if member in placed.assignment]
            places += [(leaf.exclusive, leaf.id, node) for node in new]
        owners: dict[tuple[Exclusive, object], set[int]] = {}
        for exclusive, group, node in places:
            if exclusive is not None:
                owners.setdefault((exclusive, facts.domain(node, exclusive.key)), set()).add(group)
        for leaf in self.demand.leaves() if owners else ():
            for member, shape in waiting(leaf):
                said = dict(shape.identity.labels) if shape.identity is not None else {}
                if member not in placed.assignment or JOB_RANK not in said:
                    continue
                for (exclusive, domain), groups in owners.items():
                    other = said[JOB_RANK] == str(exclusive.rank) and said.get(OWN_KEY) != exclusive.key
                    inside = domain == facts.domain(placed.assignment[member], exclusive.key)
                    if other and domain is not None and inside:
                        yield f"member {member} is in the domain that group {min(groups)} has alone"

    # ---- evictions

    def eviction(self, evict: Evict) -> Iterator[str]:
        if not evict.units or len(set(evict.units)) != len(evict.units):
            yield "an eviction names units, each once"
            return
        yield from self._victim_problems(evict)
        gone = frozenset(evict.units)
        wrong = list(self.placement(evict.placement, gone))
        yield from wrong or self.quality(evict.placement, gone)
        if wrong:
            return
        if self._fits(frozenset()):
            yield "the demand fits without an eviction"
        for unit_id in evict.units:
            fewer = gone - {unit_id}
            if fewer and (not list(self.placement(evict.placement, fewer)) or self._fits(fewer)):
                yield f"unit {unit_id} could be spared"
        yield from self._bound_problems(evict)

    def _victim_problems(self, evict: Evict) -> Iterator[str]:
        for unit_id in evict.units:
            unit = self.view.unit(unit_id)
            if unit is None or not any(pod.evictable for pod in self.view.pods_of(unit_id)):
                yield f"unit {unit_id} has nothing to evict"
            elif unit.priority >= self.demand.priority:
                yield f"unit {unit_id} has priority {unit.priority}, which is not below {self.demand.priority}"
        if not self.demand.may_preempt:
            yield "the demand may not preempt"
        loss = loss_of(self.view, evict.units, self.now)
        if evict.loss != loss:
            yield f"the loss is {loss}, not {evict.loss}"

    def _bound_problems(self, evict: Evict) -> Iterator[str]:
        """Problems of the bound: it must not exceed the loss, and no eviction may lose less."""
        if evict.bound > evict.loss.as_bound:
            yield f"the bound {evict.bound} lies above the loss {evict.loss.as_bound}"
        if self.has_pod_rules:
            self.open = True  # with pod rules more evictions may be worse, so subsets prove nothing
        elif len(self._lower_units()) <= ALL_SUBSETS:
            yield from self._cheaper(evict)
        else:
            self.open = True
            yield from self._below_bound(evict)

    def _cheaper(self, evict: Evict) -> Iterator[str]:
        """Among few units, an eviction that loses less; only maximal sets are tried, since subsets fit no better."""
        units = self._lower_units()
        losses = {
            frozenset(chosen): loss_of(self.view, chosen, self.now)
            for size in range(1, len(units) + 1)
            for chosen in combinations(units, size)
        }
        limit = evict.loss.as_bound if len(units) <= ALWAYS_LEAST else evict.bound
        cheaper = {chosen: None for chosen, loss in losses.items() if loss.as_bound < limit}
        largest = [
            chosen for chosen in cheaper if all(chosen | {unit} not in cheaper for unit in units if unit not in chosen)
        ]
        largest.sort(key=lambda chosen: losses[chosen])
        self.open |= len(largest) > MOST_TRIED or limit < evict.loss.as_bound
        for chosen in largest[:MOST_TRIED]:
            if self._fits(chosen):
                yield f"evicting {tuple(sorted(chosen))} would cost less"
                return

    def _below_bound(self, evict: Evict) -> Iterator[str]:
        """Among many units, one of some plausible evictions that loses less than the bound."""
        for chosen in self._plausible_evictions(evict):
            if chosen and loss_of(self.view, chosen, self.now).as_bound < evict.bound and self._fits(frozenset(chosen)):
                yield f"evicting {tuple(sorted(chosen))} would cost less"
                return

    def _plausible_evictions(self, evict: Evict) -> Iterator[tuple[int, ...]]:
        """All units below the bound's priority, all that budgets allow, and exchanges of a victim for a cheap unit."""
        alone = {unit: loss_of(self.view, (unit,), self.now) for unit in self._lower_units()}
        yield tuple(unit for unit, loss in alone.items() if loss.highest_priority < evict.bound.highest_priority)
        if evict.bound.budget_violations:
            yield tuple(self._allowed(alone))
        others = sorted((unit for unit in alone if unit not in evict.units), key=lambda unit: alone[unit])
        dearest = sorted((unit for unit in evict.units if unit in alone), key=lambda unit: alone[unit], reverse=True)
        for victim in dearest[:EXCHANGED]:
            for other in others[:EXCHANGED]:
                yield (*(unit for unit in evict.units if unit != victim), other)

    def _allowed(self, units: Iterable[int]) -> Iterator[int]:
        """Units that can all be evicted without a violation, taken greedily."""
        left: dict[int, int] = {}
        for unit in units:
            pods = [pod for pod in self.view.pods_of(unit) if pod.evictable]
            used = Counter(budget for pod in pods for budget in pod.budgets if self.view.budget(budget) is not None)
            for budget_id in used:
                budget = self.view.budget(budget_id)
                left.setdefault(budget_id, max(0, budget.allowed) if budget else 0)
            if all(number <= left[budget_id] for budget_id, number in used.items()):
                yield unit
                for budget_id, number in used.items():
                    left[budget_id] -= number

    def _lower_units(self) -> list[int]:
        lower = (unit.id for unit in self.view.units() if unit.priority < self.demand.priority)
        return [unit for unit in lower if any(pod.evictable for pod in self.view.pods_of(unit))]

    # ---- blocked

    def blocked(self, blocked: Blocked) -> Iterator[str]:
        yield from shortage_problems(Facts(self.view), self.demand, blocked)
        if not blocked.proved:
            self.open = True
        elif self._fits(frozenset()):
            yield "it is said to be impossible, but it can be placed"
        if blocked.preemption_tried:
            units = frozenset(self._lower_units())
            if units and self._fits(units):
                yield f"it is said that preemption cannot help, but evicting {sorted(units)} does"
        elif self.demand.may_preempt:
            yield "preemption was not tried although the demand may preempt"


def _overcommitted(facts: Facts, assignment: Mapping[int, str], shapes: Mapping[int, Shape]) -> Iterator[str]:
    wanted: dict[str, dict[str, int]] = {}
    for member, name in assignment.items():
        for resource, amount in shapes[member].requests if member in shapes else ():
            sums = wanted.setdefault(name, {})
            sums[resource] = sums.get(resource, 0) + amount
    for name, sums in sorted(wanted.items()):
        if name in facts.nodes:
            free = facts.free(name)
            for resource, amount in sorted(sums.items()):
                if amount > 0 and amount > free.get(resource, has(facts.nodes[name], resource)):
                    yield f"node {name} is over-committed in {resource}"


def _group_problems(group: Group, placed: Placed, parent_holds: bool) -> Iterator[str]:
    holds = group.id in placed.groups
    if holds and not parent_holds:
        yield f"group {group.id} holds below a parent that does not"
    if isinstance(group, Composite):
        children = sum(child.id in placed.groups for child in group.children)
        if holds and children < group.min_groups:
            yield f"group {group.id} has {children} of {group.min_groups} children"
        for child in group.children:
            yield from _group_problems(child, placed, holds)
        return
    new = sum(member in placed.assignment for member, _ in waiting(group))
    if holds and new + len(group.bound) < group.min_count:
        yield f"group {group.id} has {new + len(group.bound)} of {group.min_count} pods"
    if new and not holds:
        yield f"group {group.id} has pods but does not hold"


def _nodes_below(group: Group, placed: Placed) -> list[str]:
    new = [
        placed.assignment[member]
        for leaf in Demand(group).leaves()
        for member, _ in waiting(leaf)
        if member in placed.assignment
    ]
    return new + bound_nodes(group)
