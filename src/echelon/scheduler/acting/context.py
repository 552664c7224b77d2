"""What those who place, make room and keep it work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...engine import ClusterView
from ..intake.translate import Translator
from ..queueing.root_state import States
from ..reporting.metrics import Metrics
from ..reporting.report import Reporter


@dataclass(frozen=True, slots=True)
class Around:
    translator: Translator
    states: States
    reporter: Reporter
    metrics: Metrics
    #: To be called when room may have appeared.
    room: Callable[[], None]

    @property
    def view(self) -> ClusterView:
        return self.translator.view
