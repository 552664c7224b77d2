"""What holds for all tests: no scheduler under test acts on a verdict that the engine's judge refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from echelon.engine.check import problems
from echelon.engine.demand import Demand
from echelon.engine.verdict import Verdict
from echelon.engine.view import ClusterView
from echelon.scheduler import loop

#: Nodes up to which every decision is judged; beyond, a test would spend its time on that.
NODES_JUDGED = 300


@pytest.fixture(autouse=True)
def every_verdict_is_judged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Schedulers decide as ever; what the judge finds wrong fails the test in the end.

    A scheduler swallows what goes wrong in a decision and tries again later, so raising at once would hide it.
    """
    decide, wrong = loop.decide, list[str]()

    def judged(view: ClusterView, demand: Demand, now: float, *rest: Any) -> Verdict:
        verdict = decide(view, demand, now, *rest)
        if len(view.node_names()) <= NODES_JUDGED:
            wrong.extend(f"{text} in {verdict} on {demand}" for text in problems(view, demand, verdict, now))
        return verdict

    monkeypatch.setattr(loop, "decide", judged)
    yield
    assert not wrong
