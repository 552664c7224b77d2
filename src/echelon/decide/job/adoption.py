"""Whose pods these are: adopting matching pods without a controller, releasing those that no longer match.

Also the last service to pods whose Job is gone or finished: taking off the finalizer nobody else will remove.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...api.objects import meta
from ...api.objects.selectors import LabelSelector
from ...api.objects.vocabulary import JOB_TRACKING
from ...api.scheme import JOBS, PODS, Object
from ...api.verbs import Patch, PatchType
from ..plan import Action, ApplyPatch


def adopt_and_release(job: Object, owned: Iterable[Object], orphans: Iterable[Object]) -> tuple[Action, ...]:
    """What to write so that the Job controls exactly the pods its selector matches."""
    if meta.deleting(job):
        return ()
    selector = LabelSelector.from_object(job["spec"].get("selector"))
    released = [_release(job, pod) for pod in owned if not selector.matches(meta.labels(pod))]
    adopted = [_adopt(job, pod) for pod in orphans if selector.matches(meta.labels(pod)) and not meta.deleting(pod)]
    return (*released, *adopted)


def strip(pod: Object) -> ApplyPatch:
    """Take off the tracking finalizer."""
    body = {"metadata": {"uid": meta.uid(pod), "$deleteFromPrimitiveList/finalizers": [JOB_TRACKING]}}
    return _change(pod, body)


def tracked(pod: Object) -> bool:
    return JOB_TRACKING in (pod["metadata"].get("finalizers") or ())


def _adopt(job: Object, pod: Object) -> ApplyPatch:
    metadata: Object = {"uid": meta.uid(pod), "ownerReferences": [meta.owner_reference(job, JOBS)]}
    if not tracked(pod):
        metadata["finalizers"] = [JOB_TRACKING]
    return _change(pod, {"metadata": metadata})


def _release(job: Object, pod: Object) -> ApplyPatch:
    return _change(
        pod,
        {
            "metadata": {
                "uid": meta.uid(pod),
                "ownerReferences": [{"$patch": "delete", "uid": meta.uid(job)}],
                "$deleteFromPrimitiveList/finalizers": [JOB_TRACKING],
            }
        },
    )


def _change(pod: Object, body: Object) -> ApplyPatch:
    return ApplyPatch(PODS, meta.namespace(pod), meta.name(pod), Patch(PatchType.STRATEGIC, body), gone_is_fine=True)
