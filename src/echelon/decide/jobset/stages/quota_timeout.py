"""How long a stage may wait for quota: `echelon.dev/quota-timeout-seconds` fails a JobSet that waited longer."""

from __future__ import annotations

from ....base.instants import parse
from ...plan import Draft
from ..model import JobSet
from ..status import JobSetStatusDraft
from . import admission
from .stage_report import QUOTA_CONDITION


def missed(js: JobSet, now: float, draft: Draft, status: JobSetStatusDraft) -> bool:
    """Whether time is up (which fails the JobSet); if not, look again when it is."""
    seconds, condition = admission.timeout_of(js.view), status.find(QUOTA_CONDITION)
    waits = condition is not None and condition["reason"] in (admission.WAITING, admission.TOO_SMALL)
    if seconds is None or condition is None or not waits or js.suspended:
        return False
    left = parse(condition["lastTransitionTime"]) + seconds - now
    if left > 0:
        draft.requeue(left)
        return False
    status.fail("QuotaTimeout", f"a stage waited longer than {seconds} seconds for quota: {condition['message']}")
    return True
