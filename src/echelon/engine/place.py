"""From a demand to `Placed`: what to try in which order, extras after the minimum, members to nodes.

Everything is tried first; if that cannot be, the minimum with every role covered, then the bare minimum, each
followed by as many extras as still fit.  Preferred keys are honoured by trying them as if they were required and
keeping what costs no member.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from .agenda import Found, NotFound, Put, Steps
from .demand import Composite, Demand, Exclusive, Group, Leaf
from .fill import compact
from .growth import Growth
from .parts import Canon, Goal, Part, merge
from .regions import CLUSTER, Region, path_of, rows_of
from .search import search
from .ties import is_tied
from .verdict import Placed
from .view import ClusterView

#: From the most to the least that can be asked for.
GOALS: tuple[Goal, ...] = ("everything", "roles", "minimum")
#: Preferred keys are tried one group at a time; no more often than this.
PREFERENCE_TRIALS = 64


@dataclass(slots=True)
class Outcome:
    """What trying led to: a placement, or whether its absence is proved."""

    placed: Placed | None
    proved: bool = True


@dataclass(slots=True)
class _Draft:
    """A placement in the making."""

    seats: dict[int, Region] = field(default_factory=dict)
    puts: list[Put] = field(default_factory=list)
    proved: bool = True

    def add(self, found: Found) -> None:
        self.seats.update((part.group, region) for part, region in found.seats)
        self.puts += found.puts


def place(view: ClusterView, demand: Demand, steps: Steps) -> Outcome:
    """Place a demand on what is free now."""
    plain = _attempt(view, demand, steps, {})
    if plain.placed is None:
        return plain
    best, narrowed = plain.placed, dict[int, str]()
    wishes = [group for group in groups_of(demand.root) if group.preferred]
    if not wishes:
        return plain
    everyone = {group.id: group.preferred[0] for group in wishes}
    better = _better(view, demand, steps, everyone, best)
    if better is not None:
        return Outcome(better)
    trials = PREFERENCE_TRIALS
    for group in wishes:
        for key in group.preferred:
            if trials <= 0:
                break
            trials -= 1
            better = _better(view, demand, steps, {**narrowed, group.id: key}, best)
            if better is not None:
                best, narrowed = better, {**narrowed, group.id: key}
                break
    return Outcome(best)


def groups_of(root: Group) -> list[Group]:
    """All groups of a tree, parents before children."""
    found: list[Group] = [root]
    for group in found:
        if isinstance(group, Composite):
            found.extend(group.children)
    return found


def _better(
    view: ClusterView, demand: Demand, steps: Steps, narrowed: Mapping[int, str], best: Placed
) -> Placed | None:
    """A placement within the narrowed keys that leaves out no more than the best one so far."""
    tried = _attempt(view, demand, steps.some(8), narrowed).placed
    return tried if tried is not None and tried.objective < best.objective else None


def _attempt(view: ClusterView, demand: Demand, steps: Steps, narrowed: Mapping[int, str]) -> Outcome:
    canon, root = Canon(view), demand.root
    tried: dict[int, tuple[Part, Goal, NotFound]] = {}
    for goal in GOALS:
        part = canon.part(root, goal, narrowed)
        if part.type not in tried:
            found = search(view, part, CLUSTER, steps if goal == "minimum" else steps.some(8))
            if isinstance(found, Found):
                draft = _draft(view, root, found, goal, canon, steps, narrowed)
                return _verdict(view, demand, draft, narrowed)
            tried[part.type] = part, goal, found
    # The last and weakest decides; if it was open after a share of the budget, it gets the rest.
    part, goal, found = list(tried.values())[-1]
    if not found.proved and goal != "minimum":
        again = search(view, part, CLUSTER, steps)
        if isinstance(again, Found):
            return _verdict(view, demand, _draft(view, root, again, goal, canon, steps, narrowed), narrowed)
        found = again
    return Outcome(None, found.proved)


def _draft(
    view: ClusterView, root: Group, found: Found, goal: Goal, canon: Canon, steps: Steps, narrowed: Mapping[int, str]
) -> _Draft:
    draft = _Draft()
    if goal != "everything" and is_tied(canon.part(root, "everything")):
        grown = Growth(view, canon, goal, narrowed, steps)
        draft.add(grown.beyond(root, found))
        draft.proved = grown.proved
        return draft
    draft.add(found)
    if goal != "everything":
        _grow(view, root, draft, canon, steps)
    return draft


def _verdict(view: ClusterView, demand: Demand, draft: _Draft, narrowed: Mapping[int, str]) -> Outcome:
    """Nothing placed although something waits is no placement."""
    waiting = any(pods.members for leaf in demand.leaves() for pods in leaf.classes)
    if waiting and not draft.puts:
        return Outcome(None, draft.proved)
    layout = view.layout
    assignment = _members(view, demand, draft)
    domains = {group: path_of(layout, region) for group, region in sorted(draft.seats.items())}
    return Outcome(
        Placed(assignment, domains, frozenset(draft.seats), *_objective(view, demand, draft, assignment, narrowed))
    )


# ---- extras


def _grow(view: ClusterView, root: Group, draft: _Draft, canon: Canon, steps: Steps) -> None:
    """After the minimum: more children, then more members, on what is left."""
    with ExitStack() as trial:
        for put in draft.puts:
            trial.enter_context(view.with_more(put.rows, put.ask.shape.requests, put.counts))
        for group in groups_of(root):
            if isinstance(group, Composite) and group.id in draft.seats:
                _more_children(view, root, group, draft, canon, steps, trial)
        for group in groups_of(root):
            if isinstance(group, Leaf) and group.id in draft.seats:
                _more_members(view, group, draft, canon, trial)


def _more_children(
    view: ClusterView, root: Group, group: Composite, draft: _Draft, canon: Canon, steps: Steps, trial: ExitStack
) -> None:
    hopeless: set[int] = set()
    for child in sorted(group.children, key=lambda child: child.id):
        if child.id in draft.seats:
            continue
        part = canon.part(child, "minimum")
        if part.type in hopeless:
            continue
        found = search(view, part, draft.seats[group.id], steps.some(16), _claims(root, draft))
        if isinstance(found, Found):
            draft.add(found)
            for put in found.puts:
                trial.enter_context(view.with_more(put.rows, put.ask.shape.requests, put.counts))
        else:
            hopeless.add(part.type)
            draft.proved = draft.proved and found.proved


def _more_members(view: ClusterView, leaf: Leaf, draft: _Draft, canon: Canon, trial: ExitStack) -> None:
    part, region = canon.part(leaf, "everything"), draft.seats[leaf.id]
    present = {bound.role for bound in leaf.bound}
    used: dict[tuple[object, str], int] = {}
    for put in draft.puts:
        if put.part.group == leaf.id:
            present.add(put.ask.role)
            key = (put.ask.shape, put.ask.role)
            used[key] = used.get(key, 0) + int(put.counts.sum())
    for ask in sorted(part.asks, key=lambda ask: ask.role in present):
        slots = view.capacity.slots(ask.shape).rows
        room = int(slots[rows_of(view.layout, region)].sum())
        count = min(ask.most - used.get((ask.shape, ask.role), 0), room)
        if count > 0:
            put = Put(part, ask, *compact(view.layout, ask.shape, slots, region, count))
            draft.puts.append(put)
            trial.enter_context(view.with_more(put.rows, ask.shape.requests, put.counts))


def _claims(root: Group, draft: _Draft) -> list[tuple[Exclusive, int, Region]]:
    leaves = (group for group in groups_of(root) if isinstance(group, Leaf))
    return [
        (leaf.exclusive, leaf.id, draft.seats[leaf.id])
        for leaf in leaves
        if leaf.exclusive is not None and leaf.id in draft.seats
    ]


# ---- the verdict


def _members(view: ClusterView, demand: Demand, draft: _Draft) -> dict[int, str]:
    """Members by rank along the topology: neighbours in rank are neighbours in the network."""
    layout = view.layout
    spots: dict[tuple[int, object, str], list[Put]] = {}
    for put in draft.puts:
        spots.setdefault((put.part.group, put.ask.shape, put.ask.role), []).append(put)
    assignment: dict[int, str] = {}
    for leaf in demand.leaves():
        for (shape, role), members in merge(leaf.classes).items():
            puts = spots.get((leaf.id, shape, role))
            if puts:
                rows = np.sort(np.concatenate([np.repeat(put.rows, put.counts) for put in puts]))
                names = [layout.keys[row][1] for row in rows.tolist()]
                assignment.update(zip(members, names, strict=False))
    return assignment


def _objective(
    view: ClusterView, demand: Demand, draft: _Draft, assignment: Mapping[int, str], narrowed: Mapping[int, str]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(roles missing, groups left out, members left out, preferred keys missed, spare slots around); smaller is better.

    The bound of spare slots is what the tightest domains would leave if each group had the cluster for itself.
    """
    groups = groups_of(demand.root)
    asked = sum(len(pods.members) for leaf in demand.leaves() for pods in leaf.classes)
    roles = sum(_roles_missing(leaf, assignment) for leaf in demand.leaves())
    missed = sum(
        group.preferred.index(narrowed[group.id]) if group.id in narrowed else len(group.preferred) for group in groups
    )
    around = [_spare(view, put, draft.seats[put.part.group]) for put in draft.puts]
    spare, least = sum(found for found, _ in around), sum(least for _, least in around)
    objective = (roles, len(groups) - len(draft.seats), asked - len(assignment), missed, spare)
    return objective, (0, 0, 0, 0, least)


def _roles_missing(leaf: Leaf, assignment: Mapping[int, str]) -> int:
    present = {bound.role for bound in leaf.bound}
    present |= {pods.role for pods in leaf.classes if pods.members and pods.members[0] in assignment}
    missing = {pods.role for pods in leaf.classes if pods.members} - present
    return sum(not any(member in assignment for member in _of_role(leaf, role)) for role in missing)


def _of_role(leaf: Leaf, role: str) -> Iterator[int]:
    return (member for pods in leaf.classes if pods.role == role for member in pods.members)


def _spare(view: ClusterView, put: Put, region: Region) -> tuple[int, int]:
    """Slots that stay free around pods in their region, and the fewest that could around so many in any such domain."""
    if put.ask.shape.tied:
        return 0, 0  # slots beside other pods are no measure of a domain
    slots, count = view.capacity.slots(put.ask.shape), int(put.counts.sum())
    if region.rows is not None:
        return int(slots.rows[region.rows].sum()) - count, 0
    domains = slots.roll(region.level)
    return int(domains[region.index]) - count, int(domains[domains >= count].min()) - count
