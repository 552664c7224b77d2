"""What placing, preemption and reservation share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...engine import ClusterView
from ..intake.translate import Translator
from ..queueing.root_state import RootStates
from ..reporting.decision_log import DecisionLog
from ..reporting.metrics import Metrics
from ..reporting.report import Reporter


@dataclass(frozen=True, slots=True)
class ActingContext:
    translator: Translator
    states: RootStates
    reporter: Reporter
    metrics: Metrics
    decisions: DecisionLog
    #: The time of the plane.
    now: Callable[[], float]
    #: To be called when capacity may have appeared.
    room: Callable[[], None]

    @property
    def view(self) -> ClusterView:
        return self.translator.view
