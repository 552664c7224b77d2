"""Pods change owners: matching pods without a controller are adopted, those that no longer match are released.

Also for pods whose Job is gone or finished: the tracking finalizer is removed, because nothing else would do it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...api.objects import meta
from ...api.objects.selectors import LabelSelector
from ...api.objects.vocabulary import JOB_TRACKING
from ...api.scheme import JOBS, PODS, Object
from ...api.verbs import Patch, PatchType
from ...api.views.job_views import JobView
from ...api.views.pod_views import PodView
from ..plan import Action, ApplyPatch
from .model import tracked


def adopt_and_release(job: JobView, owned: Iterable[PodView], orphans: Iterable[PodView]) -> tuple[Action, ...]:
    """What to write so that the Job controls exactly the pods its selector matches."""
    if job.deleting:
        return ()
    selector = LabelSelector.from_object(job.spec.selector)
    released = [_release(job, pod) for pod in owned if not selector.matches(pod.labels)]
    adopted = [_adopt(job, pod) for pod in orphans if selector.matches(pod.labels) and not pod.deleting]
    return (*released, *adopted)


def strip(pod: PodView) -> ApplyPatch:
    """Take off the tracking finalizer."""
    body = {"metadata": {"uid": pod.uid, "$deleteFromPrimitiveList/finalizers": [JOB_TRACKING]}}
    return _change(pod, body)


def _adopt(job: JobView, pod: PodView) -> ApplyPatch:
    metadata: Object = {"uid": pod.uid, "ownerReferences": [meta.owner_reference(job.obj, JOBS)]}
    if not tracked(pod):
        metadata["finalizers"] = [JOB_TRACKING]
    return _change(pod, {"metadata": metadata})


def _release(job: JobView, pod: PodView) -> ApplyPatch:
    return _change(
        pod,
        {
            "metadata": {
                "uid": pod.uid,
                "ownerReferences": [{"$patch": "delete", "uid": job.uid}],
                "$deleteFromPrimitiveList/finalizers": [JOB_TRACKING],
            }
        },
    )


def _change(pod: PodView, body: Object) -> ApplyPatch:
    return ApplyPatch(PODS, pod.namespace, pod.name, Patch(PatchType.STRATEGIC, body), gone_is_fine=True)
