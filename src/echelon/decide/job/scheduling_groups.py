"""The Workload and PodGroup of a Job: found by reference, created once and in order, changed only in minCount.

    which Jobs:    template with its own schedulingGroup → none
                   no controlling owner                  → a Workload that names the Job, else one of its own (root)
                   annotation group-template-name        → a PodGroup from the owner's Workload (delegated)
                   owned, with spec.scheduling           → as without an owner (root)
                   any other owned Job                   → none, its owner sees to it

They are made only for a Job that has not begun; a Job that ran ungrouped stays so.  A Workload that a user brought is
used as it is and never written.  Whatever cannot be used is a `GroupProblem`, which is told on the Job; its pods start
without a group, because a broken Workload must not hold up a Job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...api.objects import meta
from ...api.objects.vocabulary import GROUP_TEMPLATE_NAME, PARENT_COMPOSITE
from ...api.scheme import JOBS, POD_GROUPS, WORKLOADS, Object
from ...api.verbs import Patch, PatchType
from ...api.views.group_views import GroupTemplate, PodGroupView, SchedulingPolicy, WorkloadSpec, WorkloadView
from ...api.views.job_views import JobView
from ...api.views.object_view import read
from ..plan import Action, ApplyPatch, Create, Note
from . import child_names
from .model import Job

#: Template fields that a PodGroup takes over as they are.
COPIED = (
    "schedulingPolicy",
    "schedulingConstraints",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "resourceClaims",
)


@dataclass(frozen=True)
class GroupProblem:
    """Why the Job's pods do not have the group that its user asked for."""

    reason: str
    message: str


@dataclass(frozen=True)
class GroupStep:
    """What the groups need before pods are looked at."""

    #: To be written, in this order, before anything else.
    actions: tuple[Action, ...] = ()
    #: The PodGroup that new pods join; "" for none.
    group: str = ""
    #: Pods must wait until the actions are seen.
    blocked: bool = False
    problem: GroupProblem | None = None


UNGROUPED = GroupStep()


@dataclass(frozen=True)
class MemberPods:
    """What the Job's pods say about its groups."""

    #: The Job has not begun, so its groups may still be made.
    may_create: bool
    #: PodGroups that pods of the Job have joined.
    joined: tuple[str, ...] = ()


def delegated(job: JobView) -> bool:
    return job.controller is not None and GROUP_TEMPLATE_NAME in job.annotations


def _is_root(job: JobView) -> bool:
    return job.controller is None or (bool(job.spec.scheduling) and not delegated(job))


def controller_reference(job: JobView) -> tuple[str, str, str]:
    """(group, kind, name) by which a Workload names the controller that this Job's groups come from."""
    owner = job.controller
    if owner is None or _is_root(job):
        return JOBS.group, JOBS.kind, job.name
    return owner.group, owner.kind, owner.name


def step(job: Job, pods: MemberPods, workloads: Sequence[WorkloadView], groups: Sequence[PodGroupView]) -> GroupStep:
    """`workloads` name the Job's group controller, `groups` are controlled by the Job; both in a stable order."""
    if job.spec.template.group_name:
        return UNGROUPED
    if _is_root(job.view):
        return _root(job, pods, workloads, groups)
    return _delegated(job, pods, workloads, groups) if delegated(job.view) else UNGROUPED


def switched_off(job: Job) -> GroupStep:
    """No groups are made or joined; a Job that asks for one, stored in other times, is told."""
    if not job.spec.scheduling:
        return UNGROUPED
    message = "this control plane runs Jobs without Workloads: spec.scheduling has no effect on new pods"
    return _ungrouped("WorkloadsSwitchedOff", message)


# -- root ----------------------------------------------------------------------------------------------------


def _root(job: Job, pods: MemberPods, workloads: Sequence[WorkloadView], groups: Sequence[PodGroupView]) -> GroupStep:
    own = [one for one in workloads if one.controlled_by(job.uid)]
    chosen = own or workloads
    if len(chosen) > 1:
        names = ", ".join(one.name for one in chosen)
        return _ungrouped("AmbiguousWorkload", f"{len(chosen)} Workloads name this Job: {names}")
    if not chosen:
        return _without_workload(job, pods, groups)
    workload = chosen[0]
    template = _wanted_template(job, workload)
    if template is None:
        return _ungrouped("UnsupportedWorkload", _no_template(job, workload))
    if not own and not any(one.spec.workload_ref.workload_name == workload.name for one in groups):
        unused = _unused(job, pods, workload, template)
        if unused is not None:
            return GroupStep(problem=unused)
    owners = [meta.owner_reference(job.obj, JOBS), meta.owner_reference(workload.obj, WORKLOADS, controller=False)]
    found = _use_group(job, pods, workload, template, owners, groups)
    if found.blocked or not found.group:
        return found
    if not own:
        return _follow_template(job, template, found, groups)
    problem = found.problem or _second_workload(workload, workloads)
    return GroupStep(_resize_root(job, workload, template, found, groups), found.group, problem=problem)


def _without_workload(job: Job, pods: MemberPods, groups: Sequence[PodGroupView]) -> GroupStep:
    if pods.may_create:
        return GroupStep((_create_workload(job),), blocked=True)
    if len(groups) != 1:
        return _lost_group(pods)
    named = groups[0].spec.workload_ref.workload_name
    message = f"Workload {named} is gone; PodGroup {groups[0].name} goes on without it and keeps its minCount"
    return GroupStep(group=groups[0].name, problem=GroupProblem("WorkloadMissing", message))


def _wanted_template(job: Job, workload: WorkloadView) -> GroupTemplate | None:
    """The template that the Job's annotation names; without one, the only template there is."""
    wanted = job.view.annotations.get(GROUP_TEMPLATE_NAME, "")
    templates = list(_templates(workload))
    if wanted:
        return next((one for one in templates if one.name == wanted), None)
    return templates[0] if len(templates) == 1 else None


def _no_template(job: Job, workload: WorkloadView) -> str:
    names = [one.name for one in _templates(workload)]
    wanted = job.view.annotations.get(GROUP_TEMPLATE_NAME, "")
    if wanted and workload.controlled_by(job.uid):
        return (
            f"no Workload with a podGroupTemplate {wanted} names this Job in its controllerRef; "
            "pods start without a group"
        )
    if wanted:
        listed = ", ".join(names) or "none"
        return (
            f"Workload {workload.name} has no podGroupTemplate {wanted}, it has: {listed}; pods start without a group"
        )
    return (
        f"Workload {workload.name} must have exactly one podGroupTemplate, it has {len(names)}: "
        f"name one in the annotation {GROUP_TEMPLATE_NAME}; pods start without a group"
    )


def _unused(job: Job, pods: MemberPods, workload: WorkloadView, template: GroupTemplate) -> GroupProblem | None:
    """Why no group is made from a Workload that the user brought."""
    most = job.spec.concurrent_pods
    if (template.min_count or 0) > most:
        field = "parallelism" if most == job.parallelism else "completions"
        message = (
            f"minCount {template.min_count} of template {template.name} in Workload {workload.name} is more than "
            f"spec.{field} {most}; pods start without a group"
        )
        return GroupProblem("UnsupportedWorkload", message)
    if pods.may_create or pods.joined:
        return None
    message = (
        f"Workload {workload.name} names this Job and is not used: the Job began before; create the Workload first"
    )
    return GroupProblem("WorkloadIgnored", message)


def _second_workload(used: WorkloadView, workloads: Sequence[WorkloadView]) -> GroupProblem | None:
    """A Workload that came after the Job had made its own."""
    late = [one.name for one in workloads if one.name != used.name]
    if not late:
        return None
    message = (
        f"Workload {late[0]} names this Job and is not used: {used.name} was made before; "
        "create the Workload before the Job, or the Job suspended"
    )
    return GroupProblem("WorkloadIgnored", message)


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
    return None if gang is None else gang.min_count or max(1, job.spec.concurrent_pods)


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
    job: Job, pods: MemberPods, workloads: Sequence[WorkloadView], groups: Sequence[PodGroupView]
) -> GroupStep:
    wanted = job.view.annotations[GROUP_TEMPLATE_NAME]
    if not workloads:
        group, kind, owner = controller_reference(job.view)
        message = f"no Workload has the controllerRef {kind}.{group}/{owner}; pods start without a group"
        return _lost_group(pods) if pods.joined else _ungrouped("WorkloadMissing", message)
    workload = workloads[0]
    template = next((one for one in _templates(workload) if not wanted or one.name == wanted), None)
    if template is None:
        return _ungrouped("UnsupportedWorkload", _no_template(job, workload))
    found = _use_group(job, pods, workload, template, [meta.owner_reference(job.obj, JOBS)], groups)
    return found if found.blocked or not found.group else _follow_template(job, template, found, groups)


# -- both ----------------------------------------------------------------------------------------------------


def _use_group(
    job: Job,
    pods: MemberPods,
    workload: WorkloadView,
    template: GroupTemplate,
    owners: list[Object],
    groups: Sequence[PodGroupView],
) -> GroupStep:
    mine = [one for one in groups if one.spec.workload_ref.workload_name == workload.name]
    if len(mine) > 1:
        message = f"{len(mine)} PodGroups of Workload {workload.name} are controlled by this Job"
        return _ungrouped("AmbiguousWorkload", message)
    if mine:
        return GroupStep(group=mine[0].name, problem=_being_deleted(job, mine[0]))
    if not pods.may_create:
        return _lost_group(pods)
    group = _new_group(job, workload, template, owners)
    name = group["metadata"]["name"]
    created = Note(JOBS, job.obj, "Normal", "PodGroupCreated", f"Created PodGroup {name} for Job {job.name}")
    refused = Note(JOBS, job.obj, "Warning", "FailedPodGroupCreate", f"Error creating PodGroup {name}: {{error}}")
    return GroupStep((Create(POD_GROUPS, group, created, refused),), blocked=True)


def _new_group(job: Job, workload: WorkloadView, template: GroupTemplate, owners: list[Object]) -> Object:
    tree = _tree(workload, template)
    parent = job.view.annotations.get(PARENT_COMPOSITE, "")
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {
            "name": child_names.pod_group(workload.name, template.name),
            "namespace": job.namespace,
            "ownerReferences": owners,
        },
        "spec": {
            "workloadRef": {"workloadName": workload.name, "templateName": template.name},
            **({"parentCompositePodGroupName": parent} if parent else {}),
            **{key: tree[key] for key in COPIED if tree.get(key) is not None},
        },
    }


def _follow_template(job: Job, template: GroupTemplate, found: GroupStep, groups: Sequence[PodGroupView]) -> GroupStep:
    """The group keeps the minCount of a template that is not the Job's own to write."""
    if template.min_count is None:
        return found
    return GroupStep(_resize_group(job, found.group, template.min_count, groups), found.group, problem=found.problem)


def _being_deleted(job: Job, group: PodGroupView) -> GroupProblem | None:
    if not group.deleting or job.deleting:
        return None
    return GroupProblem("PodGroupDeleted", f"PodGroup {group.name} was deleted and stays until its last pod has ended")


def _lost_group(pods: MemberPods) -> GroupStep:
    """Pods run in a group that is there no more; their replacements cannot join it."""
    if not pods.joined:
        return UNGROUPED
    name = pods.joined[0]
    return _ungrouped("PodGroupMissing", f"PodGroup {name} of running pods is gone; new pods start without a group")


def _ungrouped(reason: str, message: str) -> GroupStep:
    return GroupStep(problem=GroupProblem(reason, message))


def _templates(workload: WorkloadView) -> Iterator[GroupTemplate]:
    """All PodGroup templates, those in composite templates included."""
    levels: list[WorkloadSpec | GroupTemplate] = [workload.spec]
    for level in levels:
        yield from level.pod_group_templates
        levels.extend(level.composite_pod_group_templates)


def _tree(workload: WorkloadView, template: GroupTemplate) -> Object:
    """A template as it is written in the Workload."""
    levels: list[Object] = [workload.obj["spec"]]
    for level in levels:
        for tree in level.get("podGroupTemplates") or ():
            if tree["name"] == template.name:
                return dict(tree)
        levels.extend(level.get("compositePodGroupTemplates") or ())
    raise LookupError(template.name)


def _resize_group(job: Job, name: str, wanted: int, groups: Sequence[PodGroupView]) -> tuple[Action, ...]:
    group = next(one for one in groups if one.name == name)
    if group.spec.min_count == wanted:
        return ()
    body = {"spec": {"schedulingPolicy": {"gang": {"minCount": wanted}}}}
    return (ApplyPatch(POD_GROUPS, job.namespace, name, Patch(PatchType.STRATEGIC, body)),)
