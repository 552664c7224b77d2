"""Changes that let a blocked demand fit.  Each was applied to a trial in which the demand fitted.

Kinds of fixes are tried from the cheapest to the dearest (`Cost`), for the innermost cause first, and no more are
told than the options allow: the cheapest of each kind.  The view is as before when this is done.
"""

from __future__ import annotations

from ..cluster.view import ClusterView
from ..records.demand import Demand, Limits
from ..records.verdict import Fix, Shortage
from .fix_cluster import ClusterFixes
from .fix_demand import DemandFixes
from .fix_trials import Trials


def fixes(
    view: ClusterView, demand: Demand, shortages: tuple[Shortage, ...], now: float, limits: Limits
) -> tuple[Fix, ...]:
    """Changes that make the demand fit, cheapest first, at most `limits.fixes`."""
    most = limits.fixes
    causes = [shortage for shortage in shortages if shortage.fails] or list(shortages[:1])
    kinds: dict[tuple[object, ...], list[Shortage]] = {}
    for shortage in causes:
        kinds.setdefault((shortage.need, shortage.have, shortage.key, shortage.of_groups), []).append(shortage)
    trials = Trials(view, demand, list(kinds.values())[: max(most, 1)])
    own, room = DemandFixes(trials), ClusterFixes(trials, now, limits)
    found: list[Fix] = []
    for kind in (own.fields, own.releases, own.widened, own.lowered, room.added, room.evicting):
        if len({fix.kind for fix in found}) >= most:
            break  # the kinds that follow cost more
        found += kind()
    return _chosen(found, most)


def _chosen(found: list[Fix], most: int) -> tuple[Fix, ...]:
    """The cheapest of each kind, then the cheapest of the rest."""
    ranked = sorted(found, key=lambda fix: fix.cost)
    first: dict[str, Fix] = {}
    for fix in ranked:
        first.setdefault(fix.kind, fix)
    others = [fix for fix in ranked if fix not in first.values()]
    return tuple(sorted([*first.values(), *others][:most], key=lambda fix: fix.cost))
