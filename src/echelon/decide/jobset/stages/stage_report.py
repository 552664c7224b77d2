"""What a JobSet with stages says about itself.

    decide/jobset/reconcile ─► report ─► condition StageRunning (the column Stage of kubectl get)
                                         condition QuotaReserved, if the JobSet waits for quota
                                         status.stages, status.quota (`figures`)

JobSets without order that do not wait for quota have none of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....api.objects.vocabulary import GANG_PENDING
from ....api.rules.jobset_stages import MOST_STAGED_JOBS
from ....api.scheme import TRAIN_JOBS
from ... import gang_trouble
from ...gang_trouble import Target
from ...plan import Note
from ...status_draft import EventType
from ..children import Counts, SortedJobs
from ..model import JobSet
from ..status import COMPLETED, FAILED, JobSetStatusDraft
from . import admission, figures
from .stage_progress import StageProgress

RUNNING_CONDITION = "StageRunning"
QUOTA_CONDITION = "QuotaReserved"
#: Stages that a message lists.
_MOST_CLAUSES = 3
#: Phase → reason of the condition while a stage is in it.
_REASONS = {
    "Running": "StageRuns",
    "Starting": "StageStarts",
    "Pending": "WaitingForPlacement",
    "Queued": admission.WAITING,
    "Waiting": "WaitingForStage",
    "Suspended": "StageSuspended",
    "Failed": "StageFailed",
}
_AT_WORK = ("Running", "Starting")


def report(js: JobSet, jobs: SortedJobs, counts: Mapping[str, Counts], status: JobSetStatusDraft) -> None:
    """Write into `status` how far the stages are; what it says about gangs is read from there."""
    mode = admission.mode_of(js.view)
    if not js.sequenced and not mode:
        _forget(status, RUNNING_CONDITION, QUOTA_CONDITION)
        for part in ("stages", "quota"):
            status.body.pop(part, None)
        return
    pending = status.find(GANG_PENDING)
    unplaced = pending["message"] if pending is not None and pending["status"] == "True" else ""
    progress = StageProgress(js, jobs, counts, unplaced)
    if status.is_true(COMPLETED) or status.is_true(FAILED):
        _say_end(progress, status)
    else:
        _say_stage(progress, status)
    if mode:
        _say_quota(progress, status)
    else:
        _forget(status, QUOTA_CONDITION)
    if len(js.replicated) <= MOST_STAGED_JOBS:
        figures.write(progress, status)


def _forget(status: JobSetStatusDraft, *types: str) -> None:
    """The JobSet no longer wishes what these conditions are about."""
    if any(status.find(type_) for type_ in types):
        status.body["conditions"] = [one for one in status.body["conditions"] if one["type"] not in types]


def _say_end(progress: StageProgress, status: JobSetStatusDraft) -> None:
    phases = list(progress.phases.values())
    done = f"{phases.count('Complete')} of {len(phases)} stages are complete"
    if status.is_true(COMPLETED):
        _set(status, RUNNING_CONDITION, "False", "StagesComplete", done)
        return
    failed = [stage.title for stage in progress.stages if progress.phases[stage.key] == "Failed"]
    where = f"{failed[0]} failed; " if failed else ""
    _set(status, RUNNING_CONDITION, "False", "StageFailed", f"{where}{done}")


def _say_stage(progress: StageProgress, status: JobSetStatusDraft) -> None:
    """`2/3 trainer runs (0 of 2 Jobs complete); evaluation waits for trainer to complete (0 of 2 Jobs)`."""
    phases = progress.phases
    left = [stage for stage in progress.stages if phases[stage.key] != "Complete"]
    if not left:
        return
    present = [stage for stage in left if phases[stage.key] != "Waiting"]
    later = [stage for stage in left if phases[stage.key] == "Waiting"]
    clauses = [progress.clause(stage) for stage in present[:_MOST_CLAUSES]]
    if len(present) > _MOST_CLAUSES:
        clauses.append(f"{len(present) - _MOST_CLAUSES} more stages")
    clauses += [progress.clause(stage) for stage in later[:1]]
    held = [stage for stage in present or left if phases[stage.key] not in _AT_WORK]
    phase = phases[(held or present)[0].key]
    number = progress.stages.index(left[0]) + 1
    message = f"{number}/{len(progress.stages)} {'; '.join(clauses)}"
    _set(status, RUNNING_CONDITION, "False" if held else "True", _REASONS[phase], message)


def _say_quota(progress: StageProgress, status: JobSetStatusDraft) -> None:
    js = progress.js
    trainjob = gang_trouble.owner_of(js.view, TRAIN_JOBS)
    queued = [stage for stage in progress.stages if progress.phases[stage.key] == "Queued"]
    if js.suspended or status.is_true(COMPLETED) or status.is_true(FAILED):
        if status.find(QUOTA_CONDITION) is not None:
            _set(status, QUOTA_CONDITION, "False", "QuotaReleased", "nothing is reserved")
    elif queued:
        reason, message = admission.wait(js.view)
        told = message if reason == admission.TOO_SMALL else f"{queued[0].title}: {message}"
        _set(status, QUOTA_CONDITION, "False", reason, told, trainjob)
    else:
        _set(status, QUOTA_CONDITION, "True", "QuotaReserved", "what may run now is reserved", trainjob)


def _set(
    status: JobSetStatusDraft, type_: str, truth: str, reason: str, message: str, also: Sequence[Target] = ()
) -> None:
    """A condition whose message counts Jobs: an event, also on others, only when its reason changes."""
    old = status.find(type_)
    if status.set(type_, truth, reason, message) and (old is None or old.get("reason") != reason):
        event: EventType = "Warning" if reason in (admission.TOO_SMALL, "StageFailed") else "Normal"
        status.note(event, reason, message)
        status.notes.extend(Note(resource, obj, event, reason, message) for resource, obj in also)
