"""The stage queue: hands `decide.jobset.stages.quota_queue` what the caches know about one namespace.

Its keys are namespaces: all JobSets that wait for the same quotas are decided on together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..api.objects import meta
from ..api.objects.vocabulary import ADMITTED_STAGES, QUOTA_ADMISSION, QUOTA_WAIT
from ..api.scheme import JOB_SETS, LIMIT_RANGES, PODS, PRIORITY_CLASSES, RESOURCE_QUOTAS, Object
from ..api.views.job_views import JobSetView, JobView
from ..client.informer import Caches, by_controller
from ..decide.jobset.stages.quota_queue import Namespace, decide
from ..decide.plan import NOTHING, Plan
from .runner import Source
from .unadmitted import completed

_CONTROLLER = "controller"
_QUEUED = "stage-quota"
_NAMESPACE = "namespace"
#: What one JobSet or quota frees or takes is followed by more of its kind.
_BATCH_SECONDS = 0.05
_MARKS = (QUOTA_ADMISSION, ADMITTED_STAGES, QUOTA_WAIT)


def _queued(jobset: Object) -> Iterable[str]:
    """The namespace of a JobSet that asks for admission or did so once."""
    return (meta.namespace(jobset),) if any(mark in meta.annotations(jobset) for mark in _MARKS) else ()


def _namespace(obj: Object) -> Iterable[str]:
    return (meta.namespace(obj),)


class StageQuotaController:
    name = "stage-quota"

    def __init__(self, caches: Caches, *, admitted: bool = True) -> None:
        """`admitted`: whether the server fills in what our own does."""
        self._admitted = admitted
        caches.of(JOB_SETS, {_QUEUED: _queued})
        self._jobsets = caches.views(JobSetView)
        self._jobs = caches.views(JobView, {_CONTROLLER: by_controller})
        self._quotas = caches.of(RESOURCE_QUOTAS, {_NAMESPACE: _namespace})
        self._limit_ranges = caches.of(LIMIT_RANGES, {_NAMESPACE: _namespace})
        self._pods = caches.of(PODS, {_NAMESPACE: _namespace})
        self._classes = caches.of(PRIORITY_CLASSES)

    def sources(self) -> Sequence[Source]:
        # The status of a quota changes with every pod that it counts.
        return [
            Source(JOB_SETS, _queued, _BATCH_SECONDS),
            Source(RESOURCE_QUOTAS, _namespace, _BATCH_SECONDS),
            Source(LIMIT_RANGES, _namespace, _BATCH_SECONDS),
        ]

    def decide(self, key: str, now: float) -> Plan:
        jobsets = self._jobsets.find(_QUEUED, key)
        if not jobsets:
            return NOTHING
        if not self._admitted:
            jobsets = [JobSetView(completed(JOB_SETS, jobset.obj)) for jobset in jobsets]
        return decide(
            Namespace(
                jobsets,
                lambda jobset: self._jobs.find(_CONTROLLER, jobset.uid),
                self._quotas.find(_NAMESPACE, key),
                self._limit_ranges.find(_NAMESPACE, key),
                lambda: self._pods.find(_NAMESPACE, key),
                self._priority,
            )
        )

    def _priority(self, name: str) -> int:
        found = self._classes.get(name) if name else None
        if found is None:
            found = next((one for one in self._classes.all() if one.get("globalDefault")), {}) if not name else {}
        value = found.get("value", 0)
        return value if isinstance(value, int) else 0
