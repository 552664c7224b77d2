"""Whether a Job of a CronJob is due, and when the next one will be."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

from ...api.views.cron_job_views import CronJobView
from ...base import cron
from ...base.instants import parse

#: So many missed times hint at a wrong clock, or a plane that was away for long.
_MANY = 100


class CannotSchedule(Exception):
    """A schedule that never comes true; `reason` is that of the event, the message its text."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Due:
    #: The latest time that has come and for which no Job was started; earlier ones are left out.
    at: float | None
    #: A time that has come, and is past its starting deadline.
    missed: float | None
    #: More times were missed than can be explained.
    too_many: bool
    #: The next time after now.
    next: float


def look(cron_job: CronJobView, zone: tzinfo, now: float) -> Due:
    """`CannotSchedule` if the schedule cannot be read or never comes true."""
    spec = cron_job.spec
    try:
        schedule = cron.parse(spec.schedule)
    except cron.BadSchedule as error:
        text = f'unparseable schedule: "{spec.schedule}" : {error}'
        raise CannotSchedule("UnparseableSchedule", text) from error
    begin = parse(cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp)
    latest = schedule.latest(begin, now, zone)
    coming = schedule.next(now if latest is None else latest, zone)
    if isinstance(schedule, cron.Interval) and latest is None:
        coming = schedule.next(begin, zone)
    if coming is None:
        text = f"invalid schedule: {spec.schedule} : no date matches it in the next five years"
        raise CannotSchedule("InvalidSchedule", text)
    deadline = spec.starting_deadline_seconds
    late = latest is not None and deadline is not None and latest + deadline < now
    counted_from = begin if deadline is None else max(begin, now - deadline)
    return Due(
        at=None if late else latest,
        missed=latest if late else None,
        too_many=latest is not None and not late and _missed(schedule, counted_from, now, zone) > _MANY,
        next=coming,
    )


def _missed(schedule: cron.Schedule | cron.Interval, begin: float, now: float, zone: tzinfo) -> int:
    """How many times have come since `begin`; counted no further than needed."""
    count, at = 0, schedule.next(begin, zone)
    while at is not None and at <= now and count <= _MANY:
        count, at = count + 1, schedule.next(at, zone)
    return count
