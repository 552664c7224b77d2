"""The Workload and PodGroup of a Job: found by reference, created once and in order, changed only in minCount.

    which Jobs:    template with its own schedulingGroup → none
                   no controlling owner                  → Workload and PodGroup of its own (root)
                   annotation group-template-name        → a PodGroup from the owner's Workload (delegated)
                   any other owned Job                   → none, its owner sees to it

They are made only for a Job that has not begun; a Job that ran ungrouped stays so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...api.objects import meta
from ...api.objects.vocabulary import GROUP_TEMPLATE_NAME
from ...api.scheme import JOBS, POD_GROUPS, WORKLOADS, Object
from ...api.verbs import Patch, PatchType
from ...api.views.group_views import GroupTemplate, PodGroupView, SchedulingPolicy, WorkloadView
from ...api.views.job_views import JobView
from ...api.views.object_view import read
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
    #: Pods must wait: until the actions are seen, or until a user has corrected the objects.
    blocked: bool = False
    note: Note | None = None


UNGROUPED = GroupStep()


def delegated(job: JobView) -> bool:
    return job.controller is not None and GROUP_TEMPLATE_NAME in job.annotations


def controller_reference(job: JobView) -> tuple[str, str, str]:
    """(group, kind, name) by which a Workload names the controller that this Job's groups come from."""
    owner = job.controller
    return (JOBS.group, JOBS.kind, job.name) if owner is None else (owner.group, owner.kind, owner.name)


def step(job: Job, begun: bool, workloads: Sequence[WorkloadView], groups: Sequence[PodGroupView]) -> GroupStep:
    """`workloads` name the Job's group controller, `groups` are controlled by the Job; both in a stable order."""
    if job.spec.template.spec.scheduling_group.pod_group_name:
        return UNGROUPED
    may_create = not begun and not job.deleting
    if job.view.controller is None:
        return _root(job, may_create, [one for one in workloads if one.controlled_by(job.uid)], groups)
    return _delegated(job, may_create, workloads, groups) if delegated(job.view) else UNGROUPED


# -- root ----------------------------------------------------------------------------------------------------


def _root(job: Job, may_create: bool, workloads: Sequence[WorkloadView], groups: Sequence[PodGroupView]) -> GroupStep:
    if len(workloads) > 1:
        return GroupStep(note=_warn(job, "AmbiguousWorkload", f"{len(workloads)} Workloads are controlled by this Job"))
    if not workloads:
        return GroupStep((_create_workload(job),), blocked=True) if may_create else UNGROUPED
    workload = workloads[0]
    templates = workload.spec.pod_group_templates
    if len(templates) != 1:
        message = f"Workload {workload.name} must have exactly one podGroupTemplate, it has {len(templates)}"
        return GroupStep(blocked=True, note=_warn(job, "UnsupportedWorkload", message))
    owners = [meta.owner_reference(job.obj, JOBS), meta.owner_reference(workload.obj, WORKLOADS, controller=False)]
    found = _use_group(job, may_create, workload, templates[0], owners, groups)
    if found.blocked or not found.group:
        return found
    return GroupStep(_resize_root(job, workload, templates[0], found, groups), found.group)


def compile_template(job: Job) -> Object:
    """spec.scheduling as a PodGroup template: basic without a policy, and a gang of all pods unless it says less."""
    scheduling = job.spec.scheduling
    template: Object = {"name": child_names.template(job.name), "schedulingPolicy": {"basic": {}}}
    wanted = _gang_size(job)
    if wanted is not None:
        template["schedulingPolicy"] = {"gang": {"minCount": wanted}}
    for key in ("schedulingConstraints", "disruptionMode", "resourceClaims"):
        if scheduling.get(key):
            template[key] = scheduling[key]
    priority_class = job.spec.template.spec.priority_class_name
    if priority_class:
        template["priorityClassName"] = priority_class
    return template


def _gang_size(job: Job) -> int | None:
    """minCount that the Job asks for; None if it does not ask for a gang."""
    gang = read(SchedulingPolicy, job.spec.scheduling.get("schedulingPolicy")).gang
    return None if gang is None else gang.min_count or max(1, job.parallelism)


def _create_workload(job: Job) -> Create:
    name = child_names.workload(job.name, job.uid)
    group, kind, owner = controller_reference(job.view)
    workload: Object = {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": name,
            "namespace": job.namespace,
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
    job: Job, workload: WorkloadView, template: GroupTemplate, found: GroupStep, groups: Sequence[PodGroupView]
) -> tuple[Action, ...]:
    """An elastic Job moves minCount, in the Workload first and then in the group; nothing else ever changes."""
    wanted = _gang_size(job)
    if wanted is None:
        return ()
    actions: list[Action] = []
    if template.min_count is None:
        # Not a gang: its policy was set by another writer and stays.
        return ()
    if template.min_count != wanted:
        # The list has no merge key: it goes whole, and only as long as it is what we saw.
        tree = _tree(workload, template)
        policy = {**tree["schedulingPolicy"], "gang": {**tree["schedulingPolicy"]["gang"], "minCount": wanted}}
        entry = {**tree, "schedulingPolicy": policy}
        seen = {"resourceVersion": workload.metadata.resource_version}
        body = {"metadata": seen, "spec": {"podGroupTemplates": [entry]}}
        actions.append(ApplyPatch(WORKLOADS, workload.namespace, workload.name, Patch(PatchType.STRATEGIC, body)))
    return (*actions, *_resize_group(job, found.group, wanted, groups))


# -- delegated -----------------------------------------------------------------------------------------------


def _delegated(
    job: Job, may_create: bool, workloads: Sequence[WorkloadView], groups: Sequence[PodGroupView]
) -> GroupStep:
    if not workloads:
        return UNGROUPED
    workload = workloads[0]
    wanted = job.view.annotations[GROUP_TEMPLATE_NAME]
    template = next((one for one in workload.spec.pod_group_templates if not wanted or one.name == wanted), None)
    if template is None:
        return UNGROUPED
    owners = [meta.owner_reference(job.obj, JOBS)]
    found = _use_group(job, may_create, workload, template, owners, groups)
    count = template.min_count
    if found.blocked or not found.group or count is None:
        return found
    return GroupStep(_resize_group(job, found.group, count, groups), found.group)


# -- both ----------------------------------------------------------------------------------------------------


def _use_group(
    job: Job,
    may_create: bool,
    workload: WorkloadView,
    template: GroupTemplate,
    owners: list[Object],
    groups: Sequence[PodGroupView],
) -> GroupStep:
    workload_name = workload.name
    mine = [one for one in groups if one.spec.workload_ref.workload_name == workload_name]
    if len(mine) > 1:
        message = f"{len(mine)} PodGroups of Workload {workload_name} are controlled by this Job"
        return GroupStep(note=_warn(job, "AmbiguousWorkload", message))
    if mine:
        return GroupStep(group=mine[0].name)
    if not may_create:
        return UNGROUPED
    name = child_names.pod_group(workload_name, template.name)
    tree = _tree(workload, template)
    group: Object = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": name, "namespace": job.namespace, "ownerReferences": owners},
        "spec": {
            "workloadRef": {"workloadName": workload_name, "templateName": template.name},
            **{key: tree[key] for key in _COPIED if tree.get(key) is not None},
        },
    }
    created = Note(JOBS, job.obj, "Normal", "PodGroupCreated", f"Created PodGroup {name} for Job {job.name}")
    return GroupStep((Create(POD_GROUPS, group, created),), blocked=True)


def _tree(workload: WorkloadView, template: GroupTemplate) -> Object:
    """A template as it is written in the Workload."""
    trees: Sequence[Object] = workload.obj["spec"]["podGroupTemplates"]
    return next(one for one in trees if one["name"] == template.name)


def _resize_group(job: Job, name: str, wanted: int, groups: Sequence[PodGroupView]) -> tuple[Action, ...]:
    group = next(one for one in groups if one.name == name)
    if group.spec.min_count == wanted:
        return ()
    body = {"spec": {"schedulingPolicy": {"gang": {"minCount": wanted}}}}
    return (ApplyPatch(POD_GROUPS, job.namespace, name, Patch(PatchType.STRATEGIC, body)),)


def _warn(job: Job, reason: str, message: str) -> Note:
    return Note(JOBS, job.obj, "Warning", reason, message)
