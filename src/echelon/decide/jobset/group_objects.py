"""The Workload, CompositePodGroups and PodGroups of a JobSet: made root first, and deleted while it is suspended.

Their names depend on the JobSet's name alone.  A Job's pod template names its group and cannot change, so what is
made again after a suspension must be called as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...api.objects import meta
from ...api.objects.vocabulary import JOB_NAME, JOBSET_NAME, QUEUED_SINCE
from ...api.scheme import COMPOSITE_POD_GROUPS, JOB_SETS, POD_GROUPS, WORKLOADS, Object, Resource
from ...api.views.group_views import GroupView
from ..creation_trouble import whose
from ..plan import Create, Delete, Note
from . import child_names
from .model import GroupObjectView, JobSet, Observed
from .scheduling_groups import CompositeTemplate, LeafTemplate, Membership, Tree


@dataclass
class GroupObjects:
    """What the tree of groups means in objects."""

    #: In order of creation; what is in one layer refers only to earlier layers.
    layers: list[list[tuple[Resource, Object]]] = field(default_factory=list)
    #: Job name -> the group of its pods.
    members: dict[str, Membership] = field(default_factory=dict)


@dataclass(frozen=True)
class MissingGroups:
    """What is missing, and whether Jobs may go ahead once it is made."""

    stages: tuple[tuple[Create, ...], ...]
    clear: bool
    notes: tuple[Note, ...] = ()


def build(js: JobSet, tree: Tree) -> GroupObjects:
    made = GroupObjects()
    for item in dict.fromkeys(root.workload for root in tree):
        roots = tuple(root for root in tree if root.workload == item)
        workload = workload_name(js, item)
        _layer(made, 0).append((WORKLOADS, _workload(js, workload, roots)))
        _descend(js, roots, workload, "", made, depth=1)
    return made


def ensure(js: JobSet, wanted: GroupObjects, observed: Observed) -> MissingGroups:
    """Jobs wait while an object of a wanted name is on its way out or belongs to someone else."""
    stages: list[tuple[Create, ...]] = []
    clear = True
    notes: list[Note] = []
    for layer in wanted.layers:
        missing: list[Create] = []
        for resource, obj in layer:
            found = observed.find(resource, meta.name(obj))
            if found is None:
                refused = Note(JOB_SETS, js.obj, "Warning", "GroupCreationFailed", "{error}")
                missing.append(Create(resource, obj, refused=refused))
            elif meta.deleting(found):
                clear = False
            elif not meta.controlled_by(found, js.uid):
                clear = False
                notes.append(_taken(js, resource, found))
        if missing:
            stages.append(tuple(missing))
    return MissingGroups(tuple(stages), clear, tuple(notes))


def leftovers(observed: Observed) -> list[Delete]:
    """Deletions of all group objects, for a JobSet that is suspended."""
    return [_delete(group) for group in observed.groups if not group.deleting]


def stranded(observed: Observed) -> list[Delete]:
    """Deletions of groups below one that is on its way out: it cannot go before them.

    A suspension that was cut short and taken back leaves a tree like that.
    """
    leaving = {group.name for group in observed.groups if group.deleting}
    return [_delete(group) for group in observed.groups if not group.deleting and _parent(group) in leaving]


def _parent(group: GroupObjectView) -> str:
    return group.spec.parent_composite_pod_group_name if isinstance(group, GroupView) else ""


def _delete(group: GroupObjectView) -> Delete:
    return Delete(group.resource, group.namespace, group.name, group.uid)


def _taken(js: JobSet, resource: Resource, found: Object) -> Note:
    message = f"{whose(resource, found)}; delete it, or rename the JobSet"
    return Note(JOB_SETS, js.obj, "Warning", "GroupNameTaken", message)


def _descend(js: JobSet, nodes: Tree, workload: str, parent: str, made: GroupObjects, depth: int) -> None:
    """Enter the objects of `nodes` at their layer: composites by depth, pod groups after all composites."""
    for node in nodes:
        if isinstance(node, CompositeTemplate):
            name = child_names.group_name(COMPOSITE_POD_GROUPS.kind, js.namespace, js.name, node.item)
            group = _group(js, COMPOSITE_POD_GROUPS, name, node, workload, parent)
            _layer(made, depth).append((COMPOSITE_POD_GROUPS, group))
            _descend(js, node.children, workload, name, made, depth + 1)
            continue
        for item, jobs in node.groups.items():
            name = child_names.group_name(POD_GROUPS.kind, js.namespace, js.name, item)
            group = _group(js, POD_GROUPS, name, node, workload, parent)
            if len(jobs) == 1:
                group["metadata"]["labels"][JOB_NAME] = f"{js.name}-{jobs[0]}"
            _layer(made, depth).append((POD_GROUPS, group))
            for job in jobs:
                made.members[f"{js.name}-{job}"] = Membership(name, node.template)


def _layer(made: GroupObjects, depth: int) -> list[tuple[Resource, Object]]:
    while len(made.layers) <= depth:
        made.layers.append([])
    return made.layers[depth]


def _metadata(js: JobSet, name: str, annotations: Mapping[str, str]) -> Object:
    metadata: Object = {
        "name": name,
        "namespace": js.namespace,
        "labels": {JOBSET_NAME: js.name},
        "ownerReferences": [meta.owner_reference(js.obj, JOB_SETS)],
    }
    return metadata | ({"annotations": dict(annotations)} if annotations else {})


def _group(
    js: JobSet, resource: Resource, name: str, node: CompositeTemplate | LeafTemplate, workload: str, parent: str
) -> Object:
    spec: Object = {
        "workloadRef": {"workloadName": workload, "templateName": node.template},
        **node.terms,
    }
    if parent:
        spec["parentCompositePodGroupName"] = parent
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": _metadata(js, name, {**node.annotations, QUEUED_SINCE: js.view.queued_since}),
        "spec": spec,
    }


def workload_name(js: JobSet, item: str = "") -> str:
    return child_names.group_name(WORKLOADS.kind, js.namespace, js.name, item)


def _workload(js: JobSet, name: str, tree: Tree) -> Object:
    reference = {"apiGroup": JOB_SETS.group, "kind": JOB_SETS.kind, "name": js.name}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": _metadata(js, name, {}),
        "spec": {"controllerRef": reference, **_templates(tree)},
    }


def _templates(nodes: Tree) -> dict[str, Any]:
    leaves = [{"name": node.template, **node.terms} for node in nodes if isinstance(node, LeafTemplate)]
    composites = [
        {"name": node.template, **node.terms, **_templates(node.children)}
        for node in nodes
        if isinstance(node, CompositeTemplate)
    ]
    templates: dict[str, Any] = {"podGroupTemplates": leaves} if leaves else {}
    return templates | ({"compositePodGroupTemplates": composites} if composites else {})
