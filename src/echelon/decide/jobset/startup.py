"""Which replicated jobs may exist and run now: dependsOn, startupPolicy and (through the model) executionPolicy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from ...api.views.job_views import Dependency
from .children import Counts
from .model import JobSet, ReplicatedJob
from .status import STARTUP_COMPLETED, STARTUP_IN_PROGRESS, JobSetStatusDraft


@dataclass(frozen=True)
class Startable:
    """The replicated jobs whose turn has come, and the one that holds up the rest under startupPolicy InOrder."""

    open: tuple[ReplicatedJob, ...]
    starting: ReplicatedJob | None = None

    def without(self, held_back: Collection[str]) -> Startable:
        """Without replicated jobs that may exist but not run."""
        return replace(self, open=tuple(rj for rj in self.open if rj.name not in held_back))


def startable(js: JobSet, counts: Mapping[str, Counts]) -> Startable:
    """In list order.  A suspended JobSet makes all its Jobs at once (suspended), except behind open dependencies."""
    open_: list[ReplicatedJob] = []
    for rj in js.replicated:
        if not all(reached(dependency, js, counts) for dependency in rj.depends_on):
            continue
        open_.append(rj)
        if js.starts_in_order and not js.suspended and counts[rj.name].started != rj.replicas:
            return Startable(tuple(open_), starting=rj)
    return Startable(tuple(open_))


def reached(dependency: Dependency, js: JobSet, counts: Mapping[str, Counts]) -> bool:
    number = counts.get(dependency.name)
    if number is None:
        return False
    so_far = number.succeeded if dependency.status == "Complete" else number.started
    return so_far == js.by_name[dependency.name].replicas


def report_startup(js: JobSet, found: Startable, status: JobSetStatusDraft) -> None:
    if not js.starts_in_order or js.suspended:
        return
    if found.starting is not None:
        status.startup(STARTUP_IN_PROGRESS, "InOrderStartupPolicyInProgress", "in order startup policy is in progress")
    else:
        status.startup(STARTUP_COMPLETED, "InOrderStartupPolicyCompleted", "in order startup policy has completed")
