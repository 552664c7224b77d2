"""The CronJob controller: hands `decide.cronjob` a CronJob, its Jobs and its time zone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from ..api.objects import meta
from ..api.scheme import CRON_JOBS, JOBS, NAMESPACES, Object, Resource
from ..api.views.cron_job_views import CronJobView
from ..api.views.job_views import JobView
from ..base.cron import split_zone
from ..client.informer import Caches, by_controller
from ..decide.cronjob.model import Observed
from ..decide.cronjob.reconcile import reconcile
from ..decide.plan import NOTHING, Plan
from .runner import Source, controller_key, own_key


class CronJobController:
    name = "cronjob"

    def __init__(self, caches: Caches) -> None:
        self._cron_jobs = caches.views(CronJobView)
        self._jobs = caches.views(JobView, {"controller": by_controller})
        self._all_jobs = caches.of(JOBS)
        self._namespaces = caches.of(NAMESPACES)

    def sources(self) -> Sequence[Source]:
        return [Source(CRON_JOBS, own_key), Source(JOBS, controller_key(CRON_JOBS.kind))]

    def decide(self, key: str, now: float) -> Plan:
        cron_job = self._cron_jobs.get(key)
        if cron_job is None:
            return NOTHING

        def find(_: Resource, name: str) -> Object | None:
            return self._all_jobs.get(f"{cron_job.namespace}/{name}")

        namespace = self._namespaces.get(cron_job.namespace)
        return reconcile(
            Observed(
                cron_job=cron_job,
                jobs=self._jobs.find("controller", cron_job.uid),
                zone=_zone(cron_job.spec.time_zone or split_zone(cron_job.spec.schedule)[0]),
                find=find,
                namespace_closed=namespace is not None and meta.deleting(namespace),
            ),
            now,
        )


@lru_cache(maxsize=256)
def _zone(name: str) -> tzinfo | None:
    """The time zone of this name; None if this machine does not know it."""
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None
