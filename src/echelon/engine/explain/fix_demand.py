"""Fixes that change the demand: fields removed, members released, keys widened, minima lowered."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..records.demand import Group, Leaf
from ..records.verdict import Cost, Fix
from ..space.canonical import PartBuilder
from .altered_demand import rebuilt, releasing, supported, with_minimum, with_topology
from .fix_trials import Trials, fewest


class DemandFixes:
    def __init__(self, trials: Trials) -> None:
        self.trials, self.view, self.demand = trials, trials.view, trials.demand
        self.causes, self.groups, self.fits = trials.causes, trials.groups, trials.fits

    def fields(self) -> Iterator[Fix]:
        names = {name for leaf in self.demand.leaves() for pods in leaf.classes for name in pods.shape.unsupported}
        if names and self.fits(rebuilt(self.demand.root, supported)):
            yield Fix("field", fields=tuple(sorted(names)))

    def releases(self) -> Iterator[Fix]:
        """Every leaf that its bound members keep where it cannot be completed."""
        for leaf in self.demand.leaves():
            if not leaf.bound or not leaf.classes:
                continue
            pods = [pod for pod in (self.view.running(bound.member) for bound in leaf.bound) if pod is not None]
            with self.view.without(pods):
                fits = self.fits(rebuilt(self.demand.root, releasing(leaf.id)))
            if fits:
                number, nodes = len(leaf.bound), tuple(sorted({bound.node for bound in leaf.bound}))
                yield Fix("release", leaf.id, number, nodes=nodes, cost=Cost(restarts=number))

    def widened(self) -> Iterator[Fix]:
        for alike in self.causes:
            group, groups = self.groups[alike[0].group], tuple(each.group for each in alike)
            if group.topology is None or (isinstance(group, Leaf) and group.exclusive is not None):
                continue
            for steps, key in enumerate((*self._wider(group.topology), None), 1):
                if self.fits(rebuilt(self.demand.root, with_topology(groups, key))):
                    cost = Cost(levels=steps * len(alike))
                    yield Fix("widen", group.id, groups=groups, key=group.topology, wider=key or "", cost=cost)
                    break

    def _wider(self, key: str) -> list[str]:
        """The levels above a key that any node has, narrowest first."""
        table = self.view.node_table
        level = table.level_of.get(key, 0)
        return [table.levels[above] for above in reversed(range(level)) if table.named(above).any()]

    def lowered(self) -> Iterator[Fix]:
        for alike in self.causes:
            shortage, group = alike[0], self.groups[alike[0].group]
            floor = len(group.bound) if isinstance(group, Leaf) else 0
            if not floor < shortage.have < shortage.need:
                continue
            groups = tuple(each.group for each in alike)
            # No domain has room for more than the best one; other groups may leave less of it.
            best = shortage.have
            less = fewest(best - floor, self._fits_with_less(groups, best), 1)
            if less:
                least = best + 1 - less
                cost = Cost(members=self._given_up(groups, least))
                yield Fix("lower", group.id, least, groups=groups, key=shortage.key, cost=cost)

    def _fits_with_less(self, groups: tuple[int, ...], best: int) -> Callable[[int], bool]:
        """Whether the demand fits with a minimum of `best` (1), one below it (2), and so on."""
        return lambda less: self.fits(self._with_minimum(groups, best + 1 - less))

    def _with_minimum(self, groups: tuple[int, ...], minimum: int) -> Group:
        return rebuilt(self.demand.root, with_minimum(groups, minimum))

    def _given_up(self, groups: tuple[int, ...], minimum: int) -> int:
        """Pods by which the minimum of the whole falls."""
        builder, lowered = PartBuilder(self.view), self._with_minimum(groups, minimum)
        return builder.part(self.demand.root, "minimum").pods - builder.part(lowered, "minimum").pods
