"""What those who place, make room and keep it work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..engine.view import ClusterView
from .metrics import Metrics
from .report import Reporter
from .state import States
from .translate import Translator


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
