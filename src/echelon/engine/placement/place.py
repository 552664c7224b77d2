"""From a demand to `Placed`: what to try in which order, extras after the minimum, members to nodes.

Everything is tried first; if that cannot be, the minimum with every role covered, then the bare minimum, each
followed by as many extras as still fit.  Preferred keys are honoured by trying them as if they were required and
keeping what costs no member.  If that is not known to be the best, `selection_model` looks for better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from ..cluster.regions import CLUSTER, Region, path_of, rows_of
from ..cluster.view import ClusterView
from ..records.demand import Composite, Demand, Exclusive, Group, Leaf
from ..records.verdict import Placed
from ..search.strategy import search
from ..space.budget import Steps
from ..space.canonical import Goal, Part, PartBuilder
from ..space.compact import compact
from ..space.rule_state import has_pod_rules
from ..space.tasks import Found, NotFound, Put
from .extras import ExtrasUnderRules
from .objective import DraftPlacement, groups_of, objective_and_bound
from .preferences import apply_preferences
from .ranks import assign_members, order_by_topology
from .selection import Selection, as_draft, counted, reduced
from .selection_model import is_small, select

#: Preferred keys are tried one group at a time; no more often than this.
PREFERENCE_TRIALS = 64


@dataclass(slots=True)
class PlaceResult:
    """A placement, or none and whether that is proved."""

    placed: Placed | None
    proved: bool = True


def place(view: ClusterView, demand: Demand, steps: Steps) -> PlaceResult:
    """Place a demand on what is free now, as well as the budget allows."""
    budget = steps.left
    quick = _quickly(view, demand, steps)
    placed = quick.placed
    settled = quick.proved if placed is None else placed.objective == placed.bound
    # The model gets a quarter of the budget, even if all of that is spent.
    return quick if settled else _selected(view, demand, placed, Steps(budget // 4))


def _selected(view: ClusterView, demand: Demand, placed: Placed | None, steps: Steps) -> PlaceResult:
    """A placement that leaves less out or misses fewer preferred keys: the solver says what, the search where."""
    settled = placed is not None and placed.objective.without_spare <= placed.bound.without_spare
    if settled and not is_small(view, demand):
        return PlaceResult(placed)
    selected = select(view, demand, placed, steps)
    if isinstance(selected, NotFound):
        return PlaceResult(placed, selected.proved)
    ways = [placed]
    for pods in (_laid_out(view, demand, selected, steps), selected):
        ways.append(_verdict(view, demand, as_draft(view, demand.root, pods)).placed)
        best = min(filter(None, ways), key=lambda found: found.objective)
        if best.objective <= selected.bound:
            break
    return PlaceResult(replace(best, bound=max(best.bound, selected.bound)))


def _laid_out(view: ClusterView, demand: Demand, selected: Selection, steps: Steps) -> Selection:
    """The same pods, on the nodes that the search chooses."""
    smaller = reduced(demand.root, selected)
    if smaller is None:
        return selected
    with steps.lend(steps.share(2)) as trial:
        found = _attempt(view, replace(demand, root=smaller), trial, selected.keys).placed
    return selected if found is None else replace(selected, pods=counted(view, demand, found))


def _quickly(view: ClusterView, demand: Demand, steps: Steps) -> PlaceResult:
    plain = _attempt(view, demand, steps, {})
    best = plain.placed
    preferring = [group for group in groups_of(demand.root) if group.preferred]
    if best is None or not preferring or not best.objective.preferred_missed:
        return plain
    if len(preferring) > 1:
        all_first = {group.id: group.preferred[0] for group in preferring}
        best = _better(view, demand, steps, all_first, best) or best
        if not best.objective.preferred_missed:
            return PlaceResult(best)
    narrowed, trials = dict[int, str](), PREFERENCE_TRIALS
    for group in preferring:
        for key in group.preferred:
            if trials <= 0:
                break
            trials -= 1
            better = _better(view, demand, steps, {**narrowed, group.id: key}, best)
            if better is not None:
                best, narrowed = better, {**narrowed, group.id: key}
                break
    return PlaceResult(best)


def _better(
    view: ClusterView, demand: Demand, steps: Steps, narrowed: Mapping[int, str], best: Placed
) -> Placed | None:
    """A placement within the narrowed keys that is better than the best so far."""
    with steps.lend(steps.share(8)) as trial:
        tried = _attempt(view, demand, trial, narrowed).placed
    return tried if tried is not None and tried.objective < best.objective else None


def _attempt(view: ClusterView, demand: Demand, steps: Steps, narrowed: Mapping[int, str]) -> PlaceResult:
    builder, root, proved = PartBuilder(view), demand.root, False
    for part, goal, decides in _goals(builder, root, narrowed):
        with steps.lend(steps.left if decides else steps.share(8)) as trial:
            found = search(view, part, CLUSTER, trial)
        if isinstance(found, Found):
            return _verdict(view, demand, _draft(view, root, found, goal, builder, steps, narrowed))
        proved = found.proved
    return PlaceResult(None, proved)


def _goals(builder: PartBuilder, root: Group, narrowed: Mapping[int, str]) -> Iterator[tuple[Part, Goal, bool]]:
    """What to try in turn, nothing twice; the last and weakest decides and may use all of the budget."""
    everything = builder.part(root, "everything", narrowed)
    if all(map(_needs_all, groups_of(root))):
        yield everything, "everything", True
        return
    yield everything, "everything", False
    roles, minimum = builder.part(root, "roles", narrowed), builder.part(root, "minimum", narrowed)
    if roles.type not in (everything.type, minimum.type):
        yield roles, "roles", False
    yield minimum, "everything" if minimum.type == everything.type else "minimum", True


def _needs_all(group: Group) -> bool:
    if isinstance(group, Composite):
        return group.min_groups >= len(group.children)
    return group.min_count >= len(group.bound) + sum(len(pods.members) for pods in group.classes)


def _draft(
    view: ClusterView,
    root: Group,
    found: Found,
    goal: Goal,
    builder: PartBuilder,
    steps: Steps,
    narrowed: Mapping[int, str],
) -> DraftPlacement:
    draft = DraftPlacement()
    if goal != "everything" and has_pod_rules(builder.part(root, "everything")):
        grown = ExtrasUnderRules(view, builder, goal, narrowed, steps)
        draft.add(grown.beyond(root, found))
        draft.proved = grown.proved
        return draft
    draft.add(found)
    if goal != "everything":
        _grow(view, root, draft, builder, steps)
    return draft


def _verdict(view: ClusterView, demand: Demand, draft: DraftPlacement) -> PlaceResult:
    """The verdict of a draft; if pods wait and none is placed, there is no placement."""
    waiting = any(pods.members for leaf in demand.leaves() for pods in leaf.classes)
    if waiting and not draft.puts:
        return PlaceResult(None, draft.proved)
    order_by_topology(view, demand.root, draft)
    assignment = assign_members(view, demand, draft)
    objective, bound = objective_and_bound(view, demand, draft, assignment)
    if apply_preferences(view, demand, draft):
        assignment = assign_members(view, demand, draft)
    domains = {group: path_of(view.node_table, region) for group, region in sorted(draft.seats.items())}
    return PlaceResult(Placed(assignment, domains, frozenset(draft.seats), objective, bound))


# ---- extras


def _grow(view: ClusterView, root: Group, draft: DraftPlacement, builder: PartBuilder, steps: Steps) -> None:
    """After the minimum: more children, then more members, on what is left free."""
    with ExitStack() as trial:
        for put in draft.puts:
            trial.enter_context(view.with_more(put.rows, put.ask.shape.requests, put.counts))
        for group in groups_of(root):
            if isinstance(group, Composite) and group.id in draft.seats:
                _more_children(view, root, group, draft, builder, steps, trial)
        for group in groups_of(root):
            if isinstance(group, Leaf) and group.id in draft.seats:
                _more_members(view, group, draft, builder, trial)


def _more_children(
    view: ClusterView,
    root: Group,
    group: Composite,
    draft: DraftPlacement,
    builder: PartBuilder,
    steps: Steps,
    trial: ExitStack,
) -> None:
    hopeless: set[int] = set()
    for child in sorted(group.children, key=lambda child: child.id):
        if child.id in draft.seats:
            continue
        part = builder.part(child, "minimum")
        if part.type in hopeless:
            continue
        with steps.lend(steps.share(16)) as share:
            found = search(view, part, draft.seats[group.id], share, _claims(root, draft))
        if isinstance(found, Found):
            draft.add(found)
            for put in found.puts:
                trial.enter_context(view.with_more(put.rows, put.ask.shape.requests, put.counts))
        else:
            hopeless.add(part.type)
            draft.proved = draft.proved and found.proved


def _more_members(view: ClusterView, leaf: Leaf, draft: DraftPlacement, builder: PartBuilder, trial: ExitStack) -> None:
    part, region = builder.part(leaf, "everything"), draft.seats[leaf.id]
    present = {bound.role for bound in leaf.bound}
    used: dict[tuple[object, str], int] = {}
    for put in draft.puts:
        if put.part.group == leaf.id:
            present.add(put.ask.role)
            key = (put.ask.shape, put.ask.role)
            used[key] = used.get(key, 0) + int(put.counts.sum())
    for ask in sorted(part.asks, key=lambda ask: ask.role in present):
        slots = view.slot_cache.slots(ask.shape).rows
        room = int(slots[rows_of(view.node_table, region)].sum())
        count = min(ask.most - used.get((ask.shape, ask.role), 0), room)
        if count > 0:
            put = Put(part, ask, *compact(view.node_table, ask.shape, slots, region, count))
            draft.puts.append(put)
            trial.enter_context(view.with_more(put.rows, ask.shape.requests, put.counts))


def _claims(root: Group, draft: DraftPlacement) -> list[tuple[Exclusive, int, Region]]:
    leaves = (group for group in groups_of(root) if isinstance(group, Leaf))
    return [
        (leaf.exclusive, leaf.id, draft.seats[leaf.id])
        for leaf in leaves
        if leaf.exclusive is not None and leaf.id in draft.seats
    ]
