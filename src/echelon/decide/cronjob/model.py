"""What the decisions about a CronJob are made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from ...api.scheme import Object, Resource
from ...api.views.cron_job_views import CronJobView
from ...api.views.job_views import JobView
from ...base.instants import parse

#: On a Job: the time for which it was made, and who asked for it by hand.
SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
BY_HAND = "cronjob.kubernetes.io/instantiate"


@dataclass(frozen=True)
class Observed:
    """What the caches hold about one CronJob."""

    cron_job: CronJobView
    #: Jobs controlled by it.
    jobs: Sequence[JobView]
    #: The time zone of its schedule; None if there is no such zone.
    zone: tzinfo | None
    #: Anything in its namespace, whoever owns it.
    find: Callable[[Resource, str], Object | None]
    #: The namespace takes no new objects.
    namespace_closed: bool = False


def scheduled_at(job: JobView) -> float | None:
    """The time of the schedule that a Job was made for; None if it was made otherwise."""
    try:
        return parse(job.annotations[SCHEDULED_AT])
    except (KeyError, ValueError):
        return None


def job_name(cron_job: CronJobView, due: float) -> str:
    """One name for each minute: a Job that exists is not made twice."""
    return f"{cron_job.name}-{int(due) // 60}"
