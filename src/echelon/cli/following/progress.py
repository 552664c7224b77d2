"""Progress of the submitted objects, and whether the run is over.

A run is over when every submitted Job, JobSet and TrainJob has finished and every other submitted pod has ended, or
runs on a simulated node; or when it is blocked: no progress for 5 s, nothing runs and something stands in the way; or
when nothing has moved for so long that nothing will.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ...api.objects import meta
from ...api.objects.vocabulary import JOB_NAME, JOBSET_NAME
from ...api.scheme import COMPOSITE_POD_GROUPS, JOB_SETS, JOBS, POD_GROUPS, PODS, TRAIN_JOBS, Object, Resource
from ...client.informer import Caches
from ..failures import EXIT_BLOCKED, EXIT_FAILED, EXIT_INTERRUPTED
from .followed_pods import hopeless
from .obstacles import Obstacle, Obstacles
from .story import outcome

End = Literal["complete", "failed", "blocked"]
#: Without progress for this long (in cluster time) and with something in the way, the run is blocked.
_QUIET_SECONDS = 5.0
#: With --speed these are short: controllers have this much real time at least.
_QUIET_REAL_SECONDS = 1.0
#: A Job waits up to 600 s between attempts; what has not moved for longer does not move any more.
_DEAD_SECONDS = 900.0
#: Controllers repeat a complaint after this time at the latest, so one that came shortly before still holds.
_REPEATED_SECONDS = 15.0
_FINISHING = (JOBS, JOB_SETS, TRAIN_JOBS)
_BAR = 24


class Progress:
    def __init__(
        self,
        caches: Caches,
        now: Callable[[], float],
        local_nodes: frozenset[str] = frozenset(),
        real: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now` is cluster time, `real` counts real seconds."""
        self._caches = caches
        self._now = now
        self._real = real
        #: Nodes whose pods are processes: those end by themselves, and may wait on their node without end.
        self._local_nodes = local_nodes
        self._top: list[tuple[Resource, str]] = []
        self._last_progress = now()
        self._last_progress_real = real()
        self._obstacles = Obstacles(caches, now, local_nodes)
        for resource in (*_FINISHING, PODS, POD_GROUPS, COMPOSITE_POD_GROUPS):
            caches.of(resource).add_handler(self._changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        """Every change but a repeated status counts as progress."""
        if old is None or new is None or _state(old) != _state(new):
            self._last_progress = self._now()
            self._last_progress_real = self._real()

    def add(self, resource: Resource, obj: Object) -> bool:
        """Follow an object to its end; False for kinds that do not end."""
        if resource not in (*_FINISHING, PODS):
            return False
        self._top.append((resource, meta.key(obj)))
        return True

    def ended(self) -> End | None:
        """How the run ended; None while it continues."""
        states = [self._state_of(resource, key) for resource, key in self._top]
        if None not in states:
            return "failed" if "failed" in states else "complete"
        quiet = self.quiet_seconds()
        really_quiet = self._real() - self._last_progress_real
        if quiet < _QUIET_SECONDS or really_quiet < _QUIET_REAL_SECONDS or not self._nothing_runs():
            return None
        return "blocked" if quiet >= _DEAD_SECONDS or self._obstacles.all(self._top, self._last_progress) else None

    def quiet_seconds(self) -> float:
        """How long nothing has moved, in cluster time."""
        return self._now() - self._last_progress

    def _state_of(self, resource: Resource, key: str) -> str | None:
        obj = self._caches.of(resource).get(key)
        if obj is None:
            return "complete"
        if resource is not PODS:
            return outcome(resource.kind, obj)
        phase = (obj.get("status") or {}).get("phase")
        if phase == "Running":
            return None if obj["spec"].get("nodeName") in self._local_nodes else "complete"
        return {"Succeeded": "complete", "Failed": "failed"}.get(str(phase))

    def _nothing_runs(self) -> bool:
        """Whether no bound pod can still end and free its node."""
        top_pods = {key for resource, key in self._top if resource is PODS}
        for pod in self._caches.of(PODS).all():
            phase, node = (pod.get("status") or {}).get("phase"), pod["spec"].get("nodeName")
            if not node or phase not in ("Pending", "Running"):
                continue
            if node in self._local_nodes and hopeless(pod):
                continue
            if node in self._local_nodes or meta.key(pod) not in top_pods:
                return False
        return True

    def waiting(self) -> list[Obstacle]:
        """(object, why) of everything that stands in the way."""
        return self._obstacles.all(self._top, self._last_progress - _REPEATED_SECONDS)

    # -- showing ---------------------------------------------------------------------------------------

    def bars(self) -> RenderableType:
        """A live progress bar of pods per submitted object."""
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(no_wrap=True, overflow="ellipsis")
        for _ in ("bar", "pods", "state"):
            table.add_column(no_wrap=True)
        for resource, key in self._top:
            obj = self._caches.of(resource).get(key)
            done, running, total = self._pods_under(resource, key)
            state = self._state_of(resource, key) or ("running" if running else "pending")
            width = max(total, 1)
            bar = Text("█" * (_BAR * done // width), style="green")
            bar.append("▒" * (_BAR * (done + running) // width - _BAR * done // width), style="cyan")
            bar.append("·" * (_BAR - len(bar)), style="dim")
            table.add_row(f"{resource.kind}/{meta.name(obj) if obj else key}", bar, f"{done}/{total} pods", state)
        return table

    def _pods_under(self, resource: Resource, key: str) -> tuple[int, int, int]:
        """(succeeded, running, all) pods of a submitted object."""
        name = key.rpartition("/")[2]
        phases = [
            (pod.get("status") or {}).get("phase")
            for pod in self._caches.of(PODS).all()
            if meta.key(pod) == key or _descends(pod, resource, name)
        ]
        return phases.count("Succeeded"), phases.count("Running"), len(phases)

    def closing(self, code: int) -> RenderableType:
        """The last line: the outcome and, if the run is blocked, why."""
        if code == EXIT_INTERRUPTED:
            return Text("interrupted", style="yellow")
        if code == EXIT_BLOCKED:
            quiet = min(self.quiet_seconds(), _DEAD_SECONDS if not self.waiting() else _QUIET_SECONDS)
            text = Text(f"blocked: no progress for {quiet:.0f} s\n", style="bold yellow")
            for name, why in self.waiting() or [("nothing says why", "see --output json, or run it with echelon up")]:
                text.append(f"  {name}: {why}\n")
            return text
        if code == EXIT_FAILED:
            bad = [key for resource, key in self._top if self._state_of(resource, key) == "failed"]
            return Text(f"failed: {', '.join(bad)}", style="bold red")
        if not self._top:
            return Text("nothing that ends was submitted", style="yellow")
        return Text("complete" if len(self._top) == 1 else f"all {len(self._top)} complete", style="bold green")


def _state(obj: Object) -> object:
    """What counts as progress when it changes: everything but metadata and condition messages."""
    status = {key: value for key, value in (obj.get("status") or {}).items() if key != "conditions"}
    conditions = [(c["type"], c["status"]) for c in (obj.get("status") or {}).get("conditions") or ()]
    return obj.get("spec"), status, conditions


def _descends(pod: Object, resource: Resource, name: str) -> bool:
    labels = meta.labels(pod)
    return labels.get(JOB_NAME if resource is JOBS else JOBSET_NAME) == name
