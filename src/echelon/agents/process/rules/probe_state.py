"""Probes: how many successes and failures in a row make a container started, ready or dead."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ....api.scheme import Object

ProbeKind = Literal["startup", "readiness", "liveness"]
FIELDS: dict[ProbeKind, str] = {"startup": "startupProbe", "readiness": "readinessProbe", "liveness": "livenessProbe"}


@dataclass(frozen=True)
class ProbeState:
    """`holds` is the verdict: it changes when enough results in a row say otherwise."""

    holds: bool
    successes: int = 0
    failures: int = 0

    def after(self, success: bool, probe: Object) -> ProbeState:
        if success:
            enough = self.successes + 1 >= (probe.get("successThreshold") or 1)
            return replace(self, holds=self.holds or enough, successes=self.successes + 1, failures=0)
        enough = self.failures + 1 >= (probe.get("failureThreshold") or 3)
        return replace(self, holds=self.holds and not enough, successes=0, failures=self.failures + 1)

    def has_failed_for_good(self, probe: Object) -> bool:
        """Whether a startup or liveness probe has failed so often that the container is to be killed."""
        return self.failures >= (probe.get("failureThreshold") or 3)


def initial(kind: ProbeKind) -> ProbeState:
    """A container is alive until proven dead, and neither started nor ready until proven so."""
    return ProbeState(holds=kind == "liveness")


def period(probe: Object) -> float:
    return float(probe.get("periodSeconds") or 10)


def timeout(probe: Object) -> float:
    return float(probe.get("timeoutSeconds") or 1)


def first_at(probe: Object, started: float) -> float:
    return started + float(probe.get("initialDelaySeconds") or 0)


@dataclass(frozen=True)
class ProbeHealth:
    """What the probes of a running container say."""

    started: bool
    ready: bool
