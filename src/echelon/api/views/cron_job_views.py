"""CronJobs."""

from __future__ import annotations

from typing import Any

import msgspec

from ..scheme import CRON_JOBS
from .object_view import ObjectView, ViewPart


class CronJobSpec(ViewPart, frozen=True):
    schedule: str = ""
    time_zone: str | None = None
    concurrency_policy: str = "Allow"
    starting_deadline_seconds: int | None = None
    suspend: bool = False
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None
    #: As written, to be copied into Jobs.
    job_template: dict[str, Any] = msgspec.field(default_factory=dict)


class JobReference(ViewPart, frozen=True):
    name: str = ""
    uid: str = ""


class CronJobStatus(ViewPart, frozen=True):
    active: tuple[JobReference, ...] = ()
    last_schedule_time: str = ""
    last_successful_time: str = ""


class CronJobView(ObjectView[CronJobSpec, CronJobStatus], resource=CRON_JOBS, spec=CronJobSpec, status=CronJobStatus):
    __slots__ = ()
