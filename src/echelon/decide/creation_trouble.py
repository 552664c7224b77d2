"""Objects that cannot be made, told on the Job or JobSet that needs them: the condition CreationFailed.

    the server refuses (quota, an object of that name)   ─► Plan.refused: the condition, with the server's words
    an object of somebody else is seen under the name    ─► the status of the decision: the condition, with whose it is
    a Job of a JobSet lacks something                    ─► the same on the JobSet; events there and on its TrainJob

Whoever plans the creation also plans the event.  A TrainJob has the event alone, see `gang_trouble`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api.objects import meta
from ..api.objects.vocabulary import CREATION_FAILED
from ..api.scheme import Object, Resource
from ..api.views.job_views import JobView
from .plan import Draft, Note
from .status_draft import StatusDraft

_REFUSED = "Refused"
_OF_A_JOB = "JobHindered"


def tell(status: StatusDraft, hindered: Sequence[Note]) -> None:
    """Say what the first of these events says; without any the plan's creations all succeed, and the condition goes."""
    if hindered:
        more = f" (and {len(hindered) - 1} more)" if len(hindered) > 1 else ""
        StatusDraft.set(status, CREATION_FAILED, "True", hindered[0].reason, hindered[0].message + more)
    elif status.is_true(CREATION_FAILED):
        StatusDraft.set(status, CREATION_FAILED, "False", "Created", "everything that was missing is made")


def repeat(status: StatusDraft, jobs: Sequence[JobView], also: Sequence[tuple[Resource, Object]]) -> bool:
    """Say on a JobSet what the first of its Jobs says that lacks something; whether there is one."""
    for job in sorted(jobs, key=lambda one: one.name):
        told = job.condition(CREATION_FAILED)
        if told is None or told.status != "True":
            continue
        message = f"Job {job.name}: {told.message}"
        if StatusDraft.set(status, CREATION_FAILED, "True", _OF_A_JOB, message):
            status.note("Warning", _OF_A_JOB, message)
            status.notes.extend(Note(resource, obj, "Warning", _OF_A_JOB, message) for resource, obj in also)
        return True
    return False


def if_refused(resource: Resource, obj: Object, draft: Draft, now: float) -> None:
    """Plan the condition for the case that the server refuses; not again while it says so already."""
    status = StatusDraft(resource, obj, now)
    if status.is_true(CREATION_FAILED):
        return
    status.set(CREATION_FAILED, "True", _REFUSED, "{error}")
    write = status.write()
    if write is not None:
        draft.refused(write)


def whose(resource: Resource, found: Object) -> str:
    """Whose the object is that has a name which is needed."""
    owner = meta.controller_of(found)
    belongs = f"belongs to {owner['kind']} {owner['name']}" if owner else "has no owner"
    return f"{resource.kind} {meta.name(found)} exists and {belongs}"
