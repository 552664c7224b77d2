"""The label by which pods join their group, set by the server where it has no field for it.

A Job with the annotation `echelon.dev/scheduling` gets a group of its own name.  A name that is to be generated is not
known when the Job is admitted: its template gets an empty label, and each pod the name of its Job.  A pod, or a Job,
that was written for servers with `spec.schedulingGroup` keeps its group, although the server drops the field.
"""

from __future__ import annotations

from ...api.objects.vocabulary import JOB_SCHEDULING, POD_GROUP
from ...api.scheme import JOBS, PODS
from ..admission.defaults import DefaultSet, add_patch

#: Templates of Jobs never change, nor does the group of a pod: other people's pods are written often.
_ONCE = ("CREATE",)
#: Which Job a pod is of, as kube-controller-manager says it.
_OF_JOB = "batch.kubernetes.io/job-name"
_ESCAPED = POD_GROUP.replace("/", "~1")
_JOB_NAME = "object.metadata.?name.orValue('')"


def _label(holder: str, path: str, condition: str, value: str) -> str:
    """Patches that label a pod or a pod template when it is created."""
    has_label = f"'{POD_GROUP}' in {holder}.?metadata.?labels.orValue({{}})"
    metadata = add_patch(f"'{path}/metadata'", "{}")
    labels = add_patch(f"'{path}/metadata/labels'", "{}")
    label = add_patch(f"'{path}/metadata/labels/{_ESCAPED}'", value)
    patches = (
        f"({holder}.?metadata.hasValue() ? [] : [{metadata}])"
        f" + ({holder}.?metadata.?labels.hasValue() ? [] : [{labels}]) + [{label}]"
    )
    return f"({has_label} || !({condition}) ? [] : {patches})"


def _named(holder: str) -> str:
    return f"{holder}.?spec.?schedulingGroup.?podGroupName.hasValue()"


_TEMPLATE = "object.spec.template"
_ASKS = f"'{JOB_SCHEDULING}' in object.metadata.?annotations.orValue({{}})"

#: Where the annotation is honoured.
ANNOTATED_JOBS = DefaultSet(
    "job-groups",
    JOBS,
    _label(_TEMPLATE, "/spec/template", f"{_ASKS} && !{_named(_TEMPLATE)}", f"({_JOB_NAME})"),
    _ONCE,
)
_TO_JOB = add_patch(f"'/metadata/labels/{_ESCAPED}'", f"object.metadata.labels['{_OF_JOB}']")
#: Pods of Jobs whose names were generated; no others have an empty label.
PODS_OF_JOBS = DefaultSet(
    "job-group-pods",
    PODS,
    f"'{_OF_JOB}' in object.metadata.labels ? [{_TO_JOB}] : []",
    _ONCE,
    {"matchLabels": {POD_GROUP: ""}},
)
#: Where the server drops the field.
GROUPED_JOBS = DefaultSet(
    "job-group-labels",
    JOBS,
    _label(_TEMPLATE, "/spec/template", _named(_TEMPLATE), f"{_TEMPLATE}.spec.schedulingGroup.podGroupName"),
    _ONCE,
)
GROUPED_PODS = DefaultSet(
    "pod-group-labels",
    PODS,
    _label("object", "", _named("object"), "object.spec.schedulingGroup.podGroupName"),
    _ONCE,
)
