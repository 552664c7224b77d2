"""Which stages of a JobSet may run: those that the stage queue has admitted, if the JobSet asks for that.

    echelon.dev/quota-admission: stage    every stage waits until the quotas of the namespace have room for all of it
                                 whole    the JobSet waits until there is room for the sum of its stages
    absent                                nothing waits; the server refuses pods beyond a quota one by one

`quota_queue` writes the admitted stages into an annotation; here it is read.
"""

from __future__ import annotations

from typing import Literal

from ....api.objects.vocabulary import ADMITTED_STAGES, QUOTA_ADMISSION, QUOTA_TIMEOUT, QUOTA_WAIT
from ....api.views.job_views import JobSetView
from ....base.decimals import read_count
from ..model import JobSet
from .partition import Stage, stages_of

Mode = Literal["", "stage", "whole"]
#: Stands for all stages together.
WHOLE = "*"
WAITING = "WaitingForQuota"
TOO_SMALL = "QuotaTooSmall"
_UNANSWERED = "the stage queue (controller stage-quota) has not answered yet"


def mode_of(jobset: JobSetView) -> Mode:
    match jobset.annotations.get(QUOTA_ADMISSION):
        case "stage":
            return "stage"
        case "whole":
            return "whole"
    return ""


def admitted(jobset: JobSetView) -> frozenset[str]:
    """Keys of the stages with a reservation."""
    return frozenset(jobset.annotations.get(ADMITTED_STAGES, "").split(",")) - {""}


def may_run(jobset: JobSetView, stage: Stage) -> bool:
    return not mode_of(jobset) or not admitted(jobset).isdisjoint((stage.key, WHOLE))


def held_back(js: JobSet) -> frozenset[str]:
    """Replicated jobs whose Jobs stay suspended until their stage is admitted."""
    if not mode_of(js.view):
        return frozenset()
    return frozenset(rj.name for stage in stages_of(js) if not may_run(js.view, stage) for rj in stage.members)


def wait(jobset: JobSetView) -> tuple[str, str]:
    """Reason and message of what the queue says the next stage waits for."""
    reason, _, message = jobset.annotations.get(QUOTA_WAIT, "").partition(": ")
    return (reason, message) if reason and message else (WAITING, _UNANSWERED)


def timeout_of(jobset: JobSetView) -> int | None:
    return read_count(jobset.annotations.get(QUOTA_TIMEOUT, "")) if mode_of(jobset) else None
