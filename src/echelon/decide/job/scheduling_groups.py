"""The Workload and PodGroup of a Job: found by reference, made once and in order, moved only in minCount.

    who has them:  template with its own schedulingGroup → none
                   no controlling owner                  → Workload and PodGroup of its own (root)
                   annotation group-template-name        → a PodGroup from the owner's Workload (delegated)
                   any other owned Job                   → none, its owner sees to it

They are made only for a Job that has not begun; a Job that ran ungrouped stays so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...api.objects import meta
from ...api.objects.vocabulary import GROUP_TEMPLATE_NAME
from ...api.scheme import JOBS, POD_GROUPS, WORKLOADS, Object
from ...api.verbs import Patch, PatchType
from ..plan import Action, ApplyPatch, Create, Note
from . import child_names
from .model import Job

#: Template fields that a PodGroup takes over as they are.
_COPIED = (
    "schedulingPolicy",
    "schedulingConstraints",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "resourceClaims",
)


@dataclass(frozen=True)
class GroupStep:
    """What the groups need before pods are looked at."""

    #: To be written, in this order, before anything else.
    actions: tuple[Action, ...] = ()
    #: The PodGroup that new pods join; "" for none.
    group: str = ""
    #: Pods must wait: for the actions to be seen, or for somebody to put things right.
    blocked: bool = False
    note: Note | None = None


UNGROUPED = GroupStep()


def delegated(job: Object) -> bool:
    return meta.controller_of(job) is not None and GROUP_TEMPLATE_NAME in meta.annotations(job)


def controller_reference(job: Object) -> tuple[str, str, str]:
    """(group, kind, name) by which a Workload names the controller that this Job's groups come from."""
    owner = meta.controller_of(job)
    if owner is None:
        return (JOBS.group, JOBS.kind, meta.name(job))
    return (owner["apiVersion"].rpartition("/")[0], owner["kind"], owner["name"])


def step(job: Job, begun: bool, workloads: Sequence[Object], groups: Sequence[Object]) -> GroupStep:
    """`workloads` name the Job's group controller, `groups` are controlled by the Job; both in a stable order."""
    if job.template["spec"].get("schedulingGroup"):
        return UNGROUPED
    may_create = not begun and not job.deleting
    if meta.controller_of(job.obj) is None:
        return _root(job, may_create, [one for one in workloads if meta.controlled_by(one, job.uid)], groups)
    return _delegated(job, may_create, workloads, groups) if delegated(job.obj) else UNGROUPED


# -- root ----------------------------------------------------------------------------------------------------


def _root(job: Job, may_create: bool, workloads: Sequence[Object], groups: Sequence[Object]) -> GroupStep:
    if len(workloads) > 1:
        return GroupStep(note=_warn(job, "AmbiguousWorkload", f"{len(workloads)} Workloads are controlled by this Job"))
    if not workloads:
        return GroupStep((_create_workload(job),), blocked=True) if may_create else UNGROUPED
    workload = workloads[0]
    templates: Sequence[Mapping[str, Any]] = workload["spec"].get("podGroupTemplates") or []
    if len(templates) != 1:
        message = f"Workload {meta.name(workload)} must have exactly one podGroupTemplate, it has {len(templates)}"
        return GroupStep(blocked=True, note=_warn(job, "UnsupportedWorkload", message))
    owners = [meta.owner_reference(job.obj, JOBS), meta.owner_reference(workload, WORKLOADS, controller=False)]
    found = _use_group(job, may_create, workload, templates[0], owners, groups)
    if found.blocked or not found.group:
        return found
    return GroupStep(_resize_root(job, workload, templates[0], found, groups), found.group)


def compile_template(job: Job) -> Object:
    """The Job's wishes as a PodGroup template; without a policy it is Basic, gang means all unless it says less."""
    wishes = job.spec.get("scheduling") or {}
    template: Object = {"name": child_names.template(job.name), "schedulingPolicy": wishes.get("schedulingPolicy")}
    if not template["schedulingPolicy"]:
        template["schedulingPolicy"] = {"basic": {}}
    elif "gang" in template["schedulingPolicy"]:
        gang = template["schedulingPolicy"]["gang"] or {}
        template["schedulingPolicy"] = {"gang": {"minCount": gang.get("minCount") or max(1, job.parallelism)}}
    for key in ("schedulingConstraints", "disruptionMode", "resourceClaims"):
        if wishes.get(key):
            template[key] = wishes[key]
    priority_class = job.template["spec"].get("priorityClassName")
    if priority_class:
        template["priorityClassName"] = priority_class
    return template


def _create_workload(job: Job) -> Create:
    name = child_names.workload(job.name, job.uid)
    group, kind, owner = controller_reference(job.obj)
    workload: Object = {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": name,
            "namespace": meta.namespace(job.obj),
            "ownerReferences": [meta.owner_reference(job.obj, JOBS)],
        },
        "spec": {
            "controllerRef": {"apiGroup": group, "kind": kind, "name": owner},
            "podGroupTemplates": [compile_template(job)],
        },
    }
    return Create(
        WORKLOADS,
        workload,
        Note(JOBS, job.obj, "Normal", "WorkloadCreated", f"Created Workload {name} for Job {job.name}"),
        Note(JOBS, job.obj, "Warning", "FailedWorkloadCreate", f"Error creating Workload {name}: {{error}}"),
    )


def _resize_root(
    job: Job, workload: Object, template: Mapping[str, Any], found: GroupStep, groups: Sequence[Object]
) -> tuple[Action, ...]:
    """An elastic Job moves minCount, in the Workload first and then in the group; nothing else ever changes."""
    wanted = _min_count(compile_template(job))
    if wanted is None:
        return ()
    actions: list[Action] = []
    if _min_count(template) != wanted:
        policy = {**template["schedulingPolicy"], "gang": {**template["schedulingPolicy"]["gang"], "minCount": wanted}}
        # The list has no merge key: it goes whole, and only as long as it is what we saw.
        entry = {**template, "schedulingPolicy": policy}
        seen = {"resourceVersion": workload["metadata"].get("resourceVersion")}
        body = {"metadata": seen, "spec": {"podGroupTemplates": [entry]}}
        actions.append(
            ApplyPatch(WORKLOADS, meta.namespace(workload), meta.name(workload), Patch(PatchType.STRATEGIC, body))
        )
    return (*actions, *_resize_group(job, found.group, wanted, groups))


# -- delegated -----------------------------------------------------------------------------------------------


def _delegated(job: Job, may_create: bool, workloads: Sequence[Object], groups: Sequence[Object]) -> GroupStep:
    if not workloads:
        return UNGROUPED
    workload = workloads[0]
    wanted = meta.annotations(job.obj)[GROUP_TEMPLATE_NAME]
    templates: Sequence[Mapping[str, Any]] = workload["spec"].get("podGroupTemplates") or []
    template = next((one for one in templates if not wanted or one["name"] == wanted), None)
    if template is None:
        return UNGROUPED
    owners = [meta.owner_reference(job.obj, JOBS)]
    found = _use_group(job, may_create, workload, template, owners, groups)
    count = _min_count(template)
    if found.blocked or not found.group or count is None:
        return found
    return GroupStep(_resize_group(job, found.group, count, groups), found.group)


# -- both ----------------------------------------------------------------------------------------------------


def _use_group(
    job: Job,
    may_create: bool,
    workload: Object,
    template: Mapping[str, Any],
    owners: list[Object],
    groups: Sequence[Object],
) -> GroupStep:
    workload_name = meta.name(workload)
    mine = [one for one in groups if (one["spec"].get("workloadRef") or {}).get("workloadName") == workload_name]
    if len(mine) > 1:
        message = f"{len(mine)} PodGroups of Workload {workload_name} are controlled by this Job"
        return GroupStep(note=_warn(job, "AmbiguousWorkload", message))
    if mine:
        return GroupStep(group=meta.name(mine[0]))
    if not may_create:
        return UNGROUPED
    name = child_names.pod_group(workload_name, template["name"])
    group: Object = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": name, "namespace": meta.namespace(job.obj), "ownerReferences": owners},
        "spec": {
            "workloadRef": {"workloadName": workload_name, "templateName": template["name"]},
            **{key: template[key] for key in _COPIED if template.get(key) is not None},
        },
    }
    created = Note(JOBS, job.obj, "Normal", "PodGroupCreated", f"Created PodGroup {name} for Job {job.name}")
    return GroupStep((Create(POD_GROUPS, group, created),), blocked=True)


def _resize_group(job: Job, name: str, wanted: int, groups: Sequence[Object]) -> tuple[Action, ...]:
    group = next(one for one in groups if meta.name(one) == name)
    if _min_count(group["spec"]) == wanted:
        return ()
    body = {"spec": {"schedulingPolicy": {"gang": {"minCount": wanted}}}}
    return (ApplyPatch(POD_GROUPS, meta.namespace(job.obj), name, Patch(PatchType.STRATEGIC, body)),)


def _min_count(holder: Mapping[str, Any]) -> int | None:
    """minCount of a template's or group's gang policy; None for any other policy."""
    gang = (holder.get("schedulingPolicy") or {}).get("gang")
    return None if gang is None else int(gang["minCount"])


def _warn(job: Job, reason: str, message: str) -> Note:
    return Note(JOBS, job.obj, "Warning", reason, message)
