"""Objects that a component failed on: set aside for that component alone, counted, told by an event on the object.

    informer handlers and indexes            ─┐
    controllers, scheduler, simulated nodes  ─┴─ fail on an object ─► SetAside.report ─► log line, metric, event

Everything else goes on.  The object is tried again when it changes; controllers and scheduler also try again after a
while.
"""

from __future__ import annotations

import logging
from pathlib import Path
from traceback import extract_tb

from prometheus_client import CollectorRegistry, Counter

from ..api.objects import meta
from ..api.scheme import Object, Resource
from ..api.verbs import Verbs
from ..base.clock import Clock
from .events import Recorder

log = logging.getLogger(__name__)


class SetAside:
    """Where the components of a process report what they failed on."""

    def __init__(self, verbs: Verbs, clock: Clock, registry: CollectorRegistry | None = None) -> None:
        self._recorder = Recorder(verbs, clock, "echelon")
        self._count = Counter(
            "echelon_objects_set_aside",
            "Failures of a component on one object, by component and kind.",
            ("component", "kind"),
            registry=registry or CollectorRegistry(),
        )
        #: The errors themselves, for tests: the first of each place in the code.
        self.errors: dict[str, Exception] = {}

    def report(self, component: str, error: Exception, resource: Resource, obj: Object | None, key: str = "") -> None:
        """The component failed on this object; None if the object is gone, then `key` names it."""
        place = _place(error)
        self.errors.setdefault(place, error)
        self._count.labels(component, resource.kind).inc()
        shown = key if obj is None else meta.key(obj)
        log.error("%s: %s %s is set aside: %s in %s", component, resource.kind, shown, _text(error), place)
        log.debug("%s: %s %s", component, resource.kind, shown, exc_info=error)
        if obj is not None:
            message = f"{component} cannot process this object and leaves it aside: {_text(error)}"
            self._recorder.record(resource, obj, "Warning", "SetAside", message)

    async def run(self) -> None:
        """Write the events until cancelled."""
        await self._recorder.run()


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"


def _place(error: Exception) -> str:
    frames = extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown place"
