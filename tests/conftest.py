"""What holds for all tests: no scheduler under test acts on a verdict that the engine's judge refuses, and no random
example fails for taking long, since that is a matter of the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import settings

from echelon.engine import ClusterView, Demand, Running, Verdict, problems
from echelon.scheduler import loop
from echelon.testing.placement import copied

settings.register_profile("whatever the machine", deadline=None)
settings.load_profile("whatever the machine")

#: Nodes up to which every decision is judged; beyond, a test would spend its time on that.
NODES_JUDGED = 300


@pytest.fixture(autouse=True)
def every_verdict_is_judged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Schedulers decide as ever; what the judge finds wrong fails the test in the end.

    A scheduler swallows what goes wrong in a decision and tries again later, so raising at once would hide it.
    """
    decide, without = loop.decide, ClusterView.without
    looked_past: list[list[Running]] = []
    wrong: list[str] = []

    @contextmanager
    def noting(view: ClusterView, pods: Iterable[Running]) -> Iterator[None]:
        looked_past.append(list(pods))
        try:
            with without(view, looked_past[-1]):
                yield
        finally:
            looked_past.pop()

    def judged(view: ClusterView, demand: Demand, now: float, *rest: Any) -> Verdict:
        verdict = decide(view, demand, now, *rest)
        if len(view.node_names()) <= NODES_JUDGED:
            # A scheduler looks past what it reserved for the one it decides about.
            gone = {pod.pod for pods in looked_past for pod in pods}
            seen = copied(view, lambda pod: pod.pod in gone) if gone else view
            wrong.extend(f"{text} in {verdict} on {demand}" for text in problems(seen, demand, verdict, now))
        return verdict

    monkeypatch.setattr(loop, "decide", judged)
    monkeypatch.setattr(ClusterView, "without", noting)
    yield
    assert not wrong
