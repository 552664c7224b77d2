"""Where each stage of a JobSet stands, and what it waits for, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ....api.views.job_views import Dependency
from ..children import Counts, SortedJobs
from ..model import JobSet, ReplicatedJob
from ..startup import reached, startable
from . import admission
from .partition import Stage, stages_of

#: Dependencies that a clause lists.
_MOST_DEPENDENCIES = 3


@dataclass(frozen=True)
class StageProgress:
    """One JobSet as its stages stand."""

    js: JobSet
    jobs: SortedJobs
    counts: Mapping[str, Counts]
    #: Why a gang is not placed, "" if all are.
    unplaced: str = ""

    @cached_property
    def open(self) -> frozenset[str]:
        """Replicated jobs whose turn has come."""
        return frozenset(rj.name for rj in startable(self.js, self.counts).open)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        return stages_of(self.js)

    @cached_property
    def phases(self) -> dict[str, str]:
        return {stage.key: self._phase(stage) for stage in self.stages}

    def _phase(self, stage: Stage) -> str:
        numbers = [self.counts[rj.name] for rj in stage.members]
        if all(number.succeeded == rj.replicas for number, rj in zip(numbers, stage.members, strict=True)):
            return "Complete"
        if any(number.failed for number in numbers):
            return "Failed"
        if not any(rj.name in self.open for rj in stage.members):
            return "Waiting"
        if self.js.suspended:
            return "Suspended"
        if not admission.may_run(self.js.view, stage):
            return "Queued"
        if all(number.started == rj.replicas for number, rj in zip(numbers, stage.members, strict=True)):
            return "Running"
        return "Pending" if self.unplaced else "Starting"

    def clause(self, stage: Stage) -> str:
        """What is to be said about a stage that is not complete."""
        match self.phases[stage.key]:
            case "Queued":
                return f"{stage.title} waits for quota: {admission.wait(self.js.view)[1]}"
            case "Pending":
                return f"{stage.title} waits for placement: {self.unplaced}"
            case "Waiting":
                return f"{stage.title} waits for {self._waits_for(stage.members[0])}"
            case "Suspended":
                return f"{stage.title} is suspended"
            case "Failed":
                return f"{stage.title} failed"
            case "Starting":
                return f"{stage.title} starts ({self._jobs(stage, 'started')} Jobs ready){self._inside(stage)}"
        return f"{stage.title} runs ({self._jobs(stage, 'succeeded')} Jobs complete)"

    def _jobs(self, stage: Stage, what: str) -> str:
        reached_ = sum(getattr(self.counts[rj.name], what) for rj in stage.members)
        return f"{reached_} of {sum(rj.replicas for rj in stage.members)}"

    def _inside(self, stage: Stage) -> str:
        """What the first member waits for whose turn has not come while the stage is there."""
        later = next((rj for rj in stage.members if rj.name not in self.open), None)
        if later is None:
            return ""
        if self.js.starts_in_order:
            starting = next(rj for rj in stage.members if self.counts[rj.name].started != rj.replicas)
            return f", {later.name} waits for {self._dependency(Dependency(starting.name, 'Ready'))}"
        return f", {later.name} waits for {self._waits_for(later)}"

    def _waits_for(self, rj: ReplicatedJob) -> str:
        unmet = [dependency for dependency in rj.depends_on if not reached(dependency, self.js, self.counts)]
        # A chain names all earlier entries; the last one says enough.
        unmet = unmet[-1:] if self.js.runs_in_order else unmet
        told = [self._dependency(dependency) for dependency in unmet[:_MOST_DEPENDENCIES]]
        return " and ".join([*told, *([f"{len(unmet) - len(told)} more"] if len(unmet) > len(told) else [])])

    def _dependency(self, dependency: Dependency) -> str:
        number, rj = self.counts[dependency.name], self.js.by_name[dependency.name]
        state, done = (
            ("complete", number.succeeded) if dependency.status == "Complete" else ("be ready", number.started)
        )
        return f"{dependency.name} to {state} ({done} of {rj.replicas} Jobs)"


def outstanding(rj: ReplicatedJob, counts: Mapping[str, Counts]) -> int:
    """Jobs of a replicated job that have not ended."""
    number = counts[rj.name]
    return max(0, rj.replicas - number.succeeded - number.failed)


def open_stages(progress: StageProgress) -> Sequence[Stage]:
    """Stages that need a reservation now."""
    return [stage for stage in progress.stages if progress.phases[stage.key] not in ("Complete", "Waiting")]
