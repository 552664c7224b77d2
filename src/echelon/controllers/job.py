"""The Job controller: which objects a Job is decided from, and which changes lead to a new decision.

The decisions are in `decide.job`; `runner` carries them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..api.objects import meta
from ..api.objects.selectors import LabelSelector
from ..api.objects.vocabulary import JOB_NAME, JOB_TRACKING
from ..api.scheme import JOB_SETS, JOBS, NAMESPACES, POD_GROUPS, PODS, WORKLOADS, Object
from ..api.views.group_views import PodGroupView, WorkloadView
from ..api.views.job_views import JobView
from ..api.views.pod_views import PodView
from ..client.informer import Caches, by_controller
from ..decide.job.model import Observed, managed_elsewhere, tracked
from ..decide.job.reconcile import abandon, reconcile
from ..decide.job.scheduling_groups import controller_reference
from ..decide.plan import NOTHING, Plan
from .gang_watch import GROUPS_JOINED, GangWatch, groups_joined
from .orphan_index import ORPHANS, SELECTORS, adopters, orphan_labels, selected_labels
from .runner import Source, controller_key, own_key

#: Pods of one Job change in bursts, and each time its status follows; deciding on every change alone would cost the
#: square of their number.
_BATCH_SECONDS = 0.1

_job_of = controller_key(JOBS.kind)


class JobController:
    name = "job"

    def __init__(self, caches: Caches, *, workloads: bool = True) -> None:
        self._grouping = workloads
        self._jobs = caches.views(JobView, {SELECTORS: selected_labels, GROUPS_JOINED: groups_joined})
        self._pods = caches.views(PodView, {"job": _job_of_pod, ORPHANS: orphan_labels})
        self._workloads = caches.views(WorkloadView, {"controller-ref": _controller_ref})
        self._groups = caches.views(PodGroupView, {"controller": by_controller})
        self._namespaces = caches.of(NAMESPACES)
        self._gangs = GangWatch(caches)

    def sources(self) -> Sequence[Source]:
        return (
            Source(JOBS, _not_begun),
            Source(JOBS, own_key, _BATCH_SECONDS),
            Source(PODS, self._jobs_of_pod, _BATCH_SECONDS),
            Source(WORKLOADS, _job_of),
            Source(POD_GROUPS, _job_of),
            Source(POD_GROUPS, self._jobs_in_group, _BATCH_SECONDS),
        )

    def decide(self, key: str, now: float) -> Plan:
        job = self._jobs.get(key)
        related = self._pods.find("job", key)
        if job is None:
            return abandon(related)
        if managed_elsewhere(job):
            return NOTHING
        owned = [pod for pod in related if pod.controlled_by(job.uid)]
        if len(owned) < len(related):
            strays = [pod for pod in related if _left_behind(pod, job)]
            if any(map(tracked, strays)):
                return abandon(strays)
        namespace = self._namespaces.get(job.namespace)
        reference = "/".join((job.namespace, *controller_reference(job)))
        plan = reconcile(
            Observed(
                job=job,
                owned=owned,
                orphans=self._orphans(job),
                workloads=self._workloads.find("controller-ref", reference),
                groups=self._groups.find("controller", job.uid),
                namespace_closed=namespace is not None and meta.deleting(namespace),
                grouping=self._grouping,
                gangs=self._gangs.of(job.obj, key, now, _spokesman(job)),
            ),
            now,
        )
        return self._gangs.heard(job.obj, key, plan, now)

    def _orphans(self, job: JobView) -> list[PodView]:
        """Pods without a controller that carry one of the labels the Job selects; the selector itself decides."""
        return self._pods.find(ORPHANS, selected_labels(job.obj)[0])

    def _jobs_in_group(self, group: Object) -> Iterable[str]:
        """Jobs whose template names a group that someone else made."""
        return [job.key for job in self._jobs.find(GROUPS_JOINED, meta.key(group))]

    def _jobs_of_pod(self, pod: Object) -> Iterable[str]:
        yield from _job_of_pod(pod)
        yield from adopters(pod, self._jobs)


def _spokesman(job: JobView) -> str:
    """The JobSet that tells about a gang of which the Job is only a part."""
    owner, joins = job.controller, job.spec.template.group_name
    return f"JobSet/{owner.name}" if owner is not None and owner.kind == JOB_SETS.kind and joins else ""


def _not_begun(job: Object) -> Iterable[str]:
    """A Job that has yet to start is looked at without delay."""
    return () if (job.get("status") or {}).get("startTime") else own_key(job)


def _left_behind(pod: PodView, job: JobView) -> bool:
    """A pod of an earlier Job of the same name, or one cut loose from a Job that ends."""
    owner = pod.controller
    if owner is None:
        return job.deleting or not LabelSelector.from_object(job.spec.selector).matches(pod.labels)
    return owner.uid != job.uid


def _job_of_pod(pod: Object) -> Iterable[str]:
    """The Job that controls the pod; a tracked pod without a controller still belongs to the Job it is named for."""
    if meta.controller_of(pod) is not None:
        yield from _job_of(pod)
    elif JOB_TRACKING in meta.finalizers(pod) and JOB_NAME in meta.labels(pod):
        yield f"{meta.namespace(pod)}/{meta.labels(pod)[JOB_NAME]}"


def _controller_ref(workload_object: Object) -> Iterable[str]:
    reference = workload_object["spec"].get("controllerRef")
    if not reference:
        return ()
    parts = (meta.namespace(workload_object), reference.get("apiGroup", ""), reference["kind"], reference["name"])
    return ("/".join(parts),)
