"""Idle devices while gangs wait: device-seconds, integrated over time from the view.

    loop, after a cycle ─┐
    each scrape ─────────┴► IdleDevices.sample ─► what was idle at the last sample, times the seconds since then

Devices are extended resources, such as `nvidia.com/gpu`.  Counted are those that a group asks for that could be tried
and is not placed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, Metric

IDLE_DEVICES = "echelon_scheduler_idle_device_seconds_total"
#: Between scrapes the view is looked at no more often.
_SECONDS_BETWEEN_SAMPLES = 5.0


def is_extended(resource: str) -> bool:
    """Whether a resource is one of its own domain, as devices are; domains of Kubernetes have other things."""
    domain, slash, _ = resource.partition("/")
    return bool(slash) and "." in domain and not domain.endswith("kubernetes.io")


class IdleDevices:
    """A collector for a registry."""

    def __init__(
        self, free: Callable[[], Mapping[str, int]], wanted: Callable[[], Collection[str]], now: Callable[[], float]
    ) -> None:
        self._free = free
        #: Devices that gangs wait for; empty unless this process leads.
        self._wanted = wanted
        self._now = now
        self._idle: dict[str, int] = {}
        self._since = now()
        self._seconds: dict[str, float] = {}

    def sample(self, *, at_once: bool = False) -> None:
        now = self._now()
        passed = now - self._since
        if passed < _SECONDS_BETWEEN_SAMPLES and not at_once:
            return
        for resource, amount in self._idle.items():
            self._seconds[resource] = self._seconds.get(resource, 0.0) + amount * passed
        self._since = now
        wanted = self._wanted()
        free = self._free() if wanted else {}
        self._idle = {resource: free[resource] for resource in sorted(wanted) if free.get(resource)}

    def describe(self) -> Iterator[Metric]:
        """Nothing is known before the first scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        self.sample(at_once=True)
        family = CounterMetricFamily(IDLE_DEVICES, "Free devices that waiting groups ask for.", labels=("resource",))
        for resource, seconds in sorted(self._seconds.items()):
            family.add_metric((resource,), seconds)
        yield family
