"""The engine's judge between every scheduler under test and the engine.

A scheduler catches what goes wrong in a decision and tries again later, so an exception from here would be lost.  What
the judge finds is collected instead, and the fixture in `conftest.py` fails the test at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import pytest

import echelon.scheduler
from echelon.engine import ClusterView, Demand, Evict, Running, Verdict, decide, problems, soonest
from echelon.testing.placement import copied

#: Nodes up to which every decision is judged; beyond that a test would spend its time on it.
NODES_JUDGED = 300


def doors(function: Callable[..., Any]) -> list[tuple[ModuleType, str]]:
    """Every module of the scheduler that has a name for this function of the engine, with that name."""
    names = [one.name for one in walk_packages(echelon.scheduler.__path__, "echelon.scheduler.")]
    modules = [import_module(name) for name in names]
    return [(module, name) for module in modules for name, value in vars(module).items() if value is function]


DECIDE_DOORS = doors(decide)
SOONEST_DOORS = doors(soonest)


class Judge:
    """Passes questions on to the engine and judges the answers."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        #: Pods that the scheduler has taken out of the view for the question, innermost last.
        self._without: list[list[Running]] = []

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Stand at every door of the scheduler to the engine."""
        for module, name in DECIDE_DOORS:
            patch.setattr(module, name, self.decide(getattr(module, name)))
        for module, name in SOONEST_DOORS:
            patch.setattr(module, name, self.soonest(getattr(module, name)))
        patch.setattr(ClusterView, "without", self._noting(ClusterView.without))

    def decide(self, ask: Callable[..., Verdict]) -> Callable[..., Verdict]:
        def judged(view: ClusterView, demand: Demand, now: float, *rest: Any, **options: Any) -> Verdict:
            verdict = ask(view, demand, now, *rest, **options)
            self._judge(view, demand, verdict, now, ())
            return verdict

        return judged

    def soonest(self, ask: Callable[..., Evict | None]) -> Callable[..., Evict | None]:
        def judged(
            view: ClusterView, demand: Demand, leaving: Collection[Running], *rest: Any, **options: Any
        ) -> Evict | None:
            found = ask(view, demand, leaving, *rest, **options)
            if found is not None:
                ended = [pod for unit in found.units for pod in view.pods_of(unit)]
                self._judge(view, demand, found.placement, 0.0, (*leaving, *ended))
            return found

        return judged

    def _judge(self, view: ClusterView, demand: Demand, verdict: Verdict, now: float, gone: Iterable[Running]) -> None:
        if len(view.node_names()) > NODES_JUDGED:
            return
        absent = {pod.pod for pods in (*self._without, gone) for pod in pods}
        seen = copied(view, lambda pod: pod.pod in absent) if absent else view
        self.wrong += [f"{text} in {verdict} on {demand}" for text in problems(seen, demand, verdict, now)]

    def _noting(self, without: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        def noting(view: ClusterView, pods: Iterable[Running]) -> Iterator[None]:
            self._without.append(list(pods))
            try:
                with without(view, self._without[-1]):
                    yield
            finally:
                self._without.pop()

        return noting
