"""The entry of the search: which trial state and which methods a part gets, and nodes for what was only counted.

    closed form ─► a quick descent ─► packing level by level ─► complete search ─► CP-SAT model ─► complete search

Each stage gets a share of the budget; the first placement or proof ends it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..cluster.arrays import Ints
from ..cluster.regions import Region
from ..cluster.view import ClusterView
from ..models.placement_model import solve_placement
from ..packing.level_pack import pack_levels
from ..space.budget import Steps
from ..space.canonical import Part, shapes_of, walk
from ..space.compact import compact
from ..space.rule_state import RuleState, anchors_first, has_pod_rules, is_counted
from ..space.tasks import Found, NotFound, Put
from ..space.trial_state import AmountState, Claims, SlotState
from .backtrack import Backtrack, NodeChoice, close_together, descent, one_by_one, tightest_first
from .closed_form import solve_closed_form

#: Steps of a run with a fixed choice of nodes.
QUICK = 2_000


def search(view: ClusterView, part: Part, region: Region, steps: Steps, claims: Claims = ()) -> Found | NotFound:
    """Place a part inside a region, or prove that it cannot be placed, within the budget."""
    state: SlotState | AmountState
    if has_pod_rules(part) and not is_counted(view, part, region):
        part = anchors_first(part)
        state = trial_state_for(view, part, region, claims)
        if state.has_rules:
            return _with_rules(view, part, region, steps, claims)
    else:
        answer = None if claims else solve_closed_form(view, part, region)
        if answer is not None:
            return answer
        state = trial_state_for(view, part, region, claims)
    if isinstance(state, SlotState):
        with steps.lend(200 + 2 * sum(1 for _ in walk(part))) as share:  # one descent and a little more
            outcome = Backtrack(state, part, share).run(region)
        if _open(outcome):
            outcome = _thoroughly(view, part, region, steps, claims)
        return _locate(state, outcome)
    outcome = _by_node_choice(state, part, region, steps, close_together)
    return outcome if isinstance(outcome, Found) else _thoroughly(view, part, region, steps, claims)


def _with_rules(view: ClusterView, part: Part, region: Region, steps: Steps, claims: Claims) -> Found | NotFound:
    """Pods with rules between them: one by one, then the complete search, then the solver."""
    state = trial_state_for(view, part, region, claims)
    with steps.lend(min(QUICK, steps.left // 2)) as share:
        outcome: Found | NotFound = Backtrack(state, part, share, one_by_one).run(region)
    if isinstance(outcome, Found):
        return outcome
    state = trial_state_for(view, part, region, claims)
    with steps.lend(steps.left // 4) as share:
        outcome = Backtrack(state, part, share).run(region)
    if _open(outcome) and steps.left > 0:
        outcome = solve_placement(trial_state_for(view, part, region, claims), part, region, steps) or outcome
    if _open(outcome) and steps.left > 0:
        outcome = Backtrack(trial_state_for(view, part, region, claims), part, steps).run(region)
    return outcome


def _by_node_choice(
    state: AmountState, part: Part, region: Region, steps: Steps, node_choice: NodeChoice
) -> Found | NotFound:
    """One descent and a little more."""
    with steps.lend(min(descent(part) * 5 // 4, steps.left // 2)) as share:
        return Backtrack(state, part, share, node_choice).run(region)


def _thoroughly(view: ClusterView, part: Part, region: Region, steps: Steps, claims: Claims) -> Found | NotFound:
    """Packing level by level where the tree is regular, then the complete search, then the solver."""
    outcome = _nested(view, part, region, steps, claims)
    state = trial_state_for(view, part, region, claims)
    if _open(outcome) and isinstance(state, AmountState):
        outcome = _by_node_choice(state, part, region, steps, tightest_first)
        state = trial_state_for(view, part, region, claims)
    if _open(outcome):
        with steps.lend(steps.left // 4) as share:
            outcome = Backtrack(state, part, share).run(region)
    if _open(outcome) and steps.left > 0:
        outcome = solve_placement(trial_state_for(view, part, region, claims), part, region, steps)
    if outcome is None:
        outcome = Backtrack(trial_state_for(view, part, region, claims), part, steps).run(region)
    return outcome


def _nested(view: ClusterView, part: Part, region: Region, steps: Steps, claims: Claims) -> Found | NotFound | None:
    """Level by level, with half of the budget; of optional children the cheapest, whose failure proves nothing."""

    def inside(inner: Part, domain: Region, share: Steps) -> Found | NotFound:
        return search(view, inner, domain, share, claims)

    with steps.lend(steps.left // 2) as share:
        if part.need >= len(part.children):
            return pack_levels(trial_state_for(view, part, region, claims), part, region, share, inside)
        fewer = replace(part, children=part.children[: part.need])
        found = (
            pack_levels(trial_state_for(view, fewer, region, claims), fewer, region, share, inside)
            if part.need
            else None
        )
        return found if isinstance(found, Found) else None


def _open(outcome: Found | NotFound | None) -> bool:
    return outcome is None or (isinstance(outcome, NotFound) and not outcome.proved)


def trial_state_for(view: ClusterView, part: Part, region: Region, claims: Claims = ()) -> SlotState | AmountState:
    """The trial state of a part: slots where they are exact (one shape, listed levels), else free amounts."""
    parts = list(walk(part))
    if has_pod_rules(part) and not is_counted(view, part, region):
        return RuleState(view, parts, claims, region.level)
    shapes = shapes_of(part)
    listed = all(key in view.node_table.level_of for each in parts for key in each.keys)
    if len(shapes) == 1 and listed and region.rows is None:
        return SlotState(view, parts, claims, region.level, shapes[0])
    return AmountState(view, parts, claims, region.level)


def _locate(state: SlotState, outcome: Found | NotFound) -> Found | NotFound:
    """Choose nodes after counting slots: narrow domains first, so that wide ones take what those leave."""
    if isinstance(outcome, NotFound):
        return outcome
    slots = state.rows.copy()
    leaves = [(part, region) for part, region in outcome.seats if part.is_leaf and part.need]
    for part, region in sorted(leaves, key=lambda seat: -seat[1].level):
        rows, counts = compact(state.table, state.shape, slots, region, part.need)
        slots[rows] -= counts
        outcome.puts += _by_ask(part, rows, counts)
    return outcome


def _by_ask(part: Part, rows: Ints, counts: Ints) -> Iterator[Put]:
    """Divide equal pods among the roles of a leaf: required ones first, then in order."""
    if len(part.asks) == 1:
        yield Put(part, part.asks[0], rows, counts)
        return
    share = [ask.least for ask in part.asks]
    for number, ask in enumerate(part.asks):
        share[number] += min(ask.most - ask.least, part.need - sum(share))
    spots = np.repeat(rows, counts)
    start = 0
    for ask, size in zip(part.asks, share, strict=True):
        if size:
            yield Put(part, ask, *_grouped(spots[start : start + size]))
        start += size


def _grouped(spots: Ints) -> tuple[Ints, Ints]:
    """Sorted rows with repetitions as distinct rows and counts."""
    first = np.flatnonzero(np.append(True, spots[1:] != spots[:-1]))
    return spots[first], np.diff(np.append(first, len(spots)))
