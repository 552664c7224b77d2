"""The PodGroup of a Job whose pods kube-controller-manager makes, on servers whose Jobs have no spec.scheduling.

    annotation echelon.dev/scheduling ─► PodGroup, controlled by the Job ─► pods join it by the label of their template

The group has the name that the template's label says, or that of the Job if the label is empty.  Pods with the label
wait for it, so none is placed alone before.  What the annotation says wrongly is told by events, and then there is no
group.
"""

from __future__ import annotations

import msgspec

from ...api.objects import meta
from ...api.objects.vocabulary import JOB_SCHEDULING, POD_GROUP, QUEUED_SINCE
from ...api.rules.job import scheduling_problems
from ...api.scheme import JOBS, POD_GROUPS, Object
from ...api.verbs import Patch, PatchType
from ...api.views.group_views import PodGroupView
from ...api.views.job_views import JobView
from ..plan import NOTHING, ApplyPatch, Create, Note, Plan
from .model import read
from .scheduling_groups import COPIED, compile_template


class _Unusable(Exception):
    """The annotation cannot be used; the message says why."""


def group_key(job: JobView) -> str:
    """The PodGroup that a Job with the annotation is to have; "" if its pods name none."""
    name = _group_name(job)
    return f"{job.namespace}/{name}" if name else ""


def _group_name(job: JobView) -> str:
    """An empty label is that of a Job whose name was generated: its pods are labelled with it when they are made."""
    template = job.spec.template
    return template.group_name or (job.name if POD_GROUP in template.metadata.labels else "")


def reconcile(job: JobView, group: PodGroupView | None) -> Plan:
    """`group` is what there is of the name that the pods' label says."""
    if job.finished or job.deleting or JOB_SCHEDULING not in job.annotations:
        return NOTHING
    name = _group_name(job)
    if not name:
        return _told(job, "GroupLabelMissing", f"pods are placed one by one: label their template with {POD_GROUP}")
    try:
        wanted = _group_spec(job)
    except _Unusable as error:
        return _told(job, "InvalidScheduling", f"metadata.annotations[{JOB_SCHEDULING}]: {error}; pods wait")
    if group is None:
        return Plan(stages=((_creation(job, name, wanted),),))
    if not group.controlled_by(job.uid):
        return _told(job, "PodGroupTaken", f"PodGroup {name} exists and is not of this Job; its pods join it")
    least = wanted["schedulingPolicy"].get("gang", {}).get("minCount")
    if least is None or group.spec.min_count in (None, least):
        return NOTHING
    body = {"metadata": {"uid": group.uid}, "spec": {"schedulingPolicy": {"gang": {"minCount": least}}}}
    return Plan(stages=((ApplyPatch(POD_GROUPS, job.namespace, name, Patch(PatchType.MERGE, body)),),))


def _group_spec(job: JobView) -> Object:
    """The spec of the group, as a Job controller that knows spec.scheduling makes it."""
    text = job.annotations[JOB_SCHEDULING]
    try:
        scheduling = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise _Unusable(f"not JSON: {error}") from error
    if not isinstance(scheduling, dict) or not all(isinstance(part, dict | list) for part in scheduling.values()):
        raise _Unusable("must be an object like spec.scheduling of a Job")
    spec = {**job.obj["spec"], "scheduling": scheduling}
    problems = scheduling_problems(spec)
    if problems:
        raise _Unusable("; ".join(map(str, problems)))
    template = compile_template(read(JobView({**job.obj, "spec": spec})))
    return {field: template[field] for field in COPIED if template.get(field) is not None}


def _creation(job: JobView, name: str, spec: Object) -> Create:
    group: Object = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "annotations": {QUEUED_SINCE: job.queued_since},
            "ownerReferences": [meta.owner_reference(job.obj, JOBS)],
        },
        "spec": spec,
    }
    created = Note(JOBS, job.obj, "Normal", "PodGroupCreated", f"Created PodGroup {name} for Job {job.name}")
    refused = Note(JOBS, job.obj, "Warning", "FailedPodGroupCreate", f"Error creating PodGroup {name}: {{error}}")
    return Create(POD_GROUPS, group, created, refused)


def _told(job: JobView, reason: str, message: str) -> Plan:
    return Plan(notes=(Note(JOBS, job.obj, "Warning", reason, message),))
