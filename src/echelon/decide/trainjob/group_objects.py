"""The Workload, CompositePodGroups and PodGroups of a TrainJob.

Made before the JobSet, parents first, and never changed.  While the TrainJob is suspended the Workload stays and the
groups are gone.  A TrainJob below someone else's CompositePodGroup makes its gang from that group's Workload and has
none of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...api.objects import meta
from ...api.objects.subtree import items, mapping
from ...api.objects.vocabulary import GROUP_TEMPLATE_NAME, JOBSET_NAME, PARENT_COMPOSITE, QUEUED_SINCE
from ...api.scheme import COMPOSITE_POD_GROUPS, POD_GROUPS, TRAIN_JOBS, WORKLOADS, Object, Resource
from ...api.views.group_views import CompositePodGroupView, WorkloadView
from .group_names import group_name, group_of_job, safe_hash
from .model import CannotBuild, Observed, TrainJob
from .scheduling_groups import GroupOfParts, PartGroup, Tree

_COPIED = ("schedulingPolicy", "schedulingConstraints", "disruptionMode", "resourceClaims", "priorityClassName")


# -- the Workload ----------------------------------------------------------------------------------------------


def find_workload(tj: TrainJob, observed: Observed) -> WorkloadView | None:
    """The Workload that this TrainJob controls, whatever its name."""
    mine = [
        one
        for one in observed.workloads
        if one.spec.controller_ref is not None and one.spec.controller_ref.kind == TRAIN_JOBS.kind
    ]
    if len(mine) > 1:
        names = ", ".join(one.name for one in mine)
        raise CannotBuild(f"several Workloads belong to this TrainJob: {names}; delete all but one")
    return mine[0] if mine else None


def new_workload_name(tj: TrainJob, observed: Observed) -> str:
    """The TrainJob's, unless someone else's Workload has that."""
    taken = observed.find(WORKLOADS, tj.name)
    return tj.name if taken is None else f"{tj.name[:52].rstrip('-')}-{safe_hash(tj.uid)}"


def workload(tj: TrainJob, name: str, tree: Tree) -> Object:
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": name,
            "namespace": tj.namespace,
            "labels": {JOBSET_NAME: tj.name},
            "ownerReferences": [meta.owner_reference(tj.obj, TRAIN_JOBS)],
        },
        "spec": {
            "controllerRef": {"apiGroup": TRAIN_JOBS.group, "kind": TRAIN_JOBS.kind, "name": tj.name},
            **_templates(tree),
        },
    }


def _templates(tree: Tree) -> dict[str, Any]:
    plain = [{"name": node.template, **node.terms} for node in tree if isinstance(node, PartGroup)]
    composites = [
        {"name": node.template, **node.terms, **_templates(node.children)}
        for node in tree
        if isinstance(node, GroupOfParts)
    ]
    templates: dict[str, Any] = {"podGroupTemplates": plain} if plain else {}
    return templates | ({"compositePodGroupTemplates": composites} if composites else {})


# -- groups ----------------------------------------------------------------------------------------------------


def levels(tj: TrainJob, stored: WorkloadView, tree: Tree, parent: str = "") -> list[list[Object]]:
    """The groups of a tree in order of creation; what is in one level refers only to the level before."""
    found: list[list[Object]] = []
    for depth, group in _walk(tj, stored, tree, parent, 0):
        while len(found) <= depth:
            found.append([])
        found[depth].append(group)
    return found


def _walk(tj: TrainJob, stored: WorkloadView, tree: Tree, parent: str, depth: int) -> Iterator[tuple[int, Object]]:
    for node in tree:
        name = group_name(tj, stored.name, node.template, node.jobs if isinstance(node, PartGroup) else 0)
        if isinstance(node, GroupOfParts):
            yield depth, _group(tj, stored, COMPOSITE_POD_GROUPS, name, node, parent)
            yield from _walk(tj, stored, node.children, name, depth + 1)
        elif node.jobs:
            for index in range(node.jobs):
                yield depth, _group(tj, stored, POD_GROUPS, group_of_job(name, index), node, parent)
        else:
            yield depth, _group(tj, stored, POD_GROUPS, name, node, parent)


def _group(
    tj: TrainJob, stored: WorkloadView, resource: Resource, name: str, node: PartGroup | GroupOfParts, parent: str
) -> Object:
    owners = [meta.owner_reference(tj.obj, TRAIN_JOBS)]
    if stored.controlled_by(tj.uid):
        owners.append(meta.owner_reference(stored.obj, WORKLOADS, controller=False))
    # The JobSet has the name of its TrainJob.
    labels = {JOBSET_NAME: tj.name}
    metadata: Object = {"name": name, "namespace": tj.namespace, "labels": labels, "ownerReferences": owners}
    metadata["annotations"] = {**node.annotations, QUEUED_SINCE: tj.view.queued_since}
    spec: Object = {"workloadRef": {"workloadName": stored.name, "templateName": node.template}, **node.terms}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


# -- below someone else's group --------------------------------------------------------------------------------


def parent_name(tj: TrainJob) -> str:
    return tj.view.annotations.get(PARENT_COMPOSITE, "")


def below_parent(tj: TrainJob, gang: PartGroup, observed: Observed) -> tuple[WorkloadView, PartGroup]:
    """The parent's Workload, and the gang with the terms of its template there."""
    name = parent_name(tj)
    parent = observed.find(COMPOSITE_POD_GROUPS, name)
    if parent is None:
        raise CannotBuild(f"waiting for CompositePodGroup {name} to be created, which {PARENT_COMPOSITE} names")
    reference = CompositePodGroupView(parent).spec.workload_ref
    found = observed.find(WORKLOADS, reference.workload_name)
    if found is None:
        raise CannotBuild(f"waiting for Workload {reference.workload_name} of CompositePodGroup {meta.name(parent)}")
    above = _template(mapping(found, "spec"), reference.template_name)
    template = _wanted(tj, items(above or {}, "podGroupTemplates"), reference.workload_name, reference.template_name)
    terms = {key: template[key] for key in _COPIED if template.get(key) is not None}
    _check_count(gang, template, reference.workload_name)
    return WorkloadView(found), PartGroup(template["name"], terms, gang.replicated_jobs, gang.annotations)


def _template(holder: Mapping[str, Any], name: str) -> Object | None:
    """A composite template of a Workload, at whatever depth."""
    for one in items(holder, "compositePodGroupTemplates"):
        found = one if one["name"] == name else _template(one, name)
        if found is not None:
            return found
    return None


def _wanted(tj: TrainJob, templates: Sequence[Object], workload_: str, above: str) -> Object:
    name = tj.view.annotations.get(GROUP_TEMPLATE_NAME, "")
    fitting = [one for one in templates if not name or one["name"] == name]
    if len(fitting) == 1:
        return fitting[0]
    listed = ", ".join(one["name"] for one in templates) or "none"
    asked = f"no podGroupTemplate {name}" if name else f"not exactly one; name it by {GROUP_TEMPLATE_NAME}"
    raise CannotBuild(f"Workload {workload_} has below {above} {asked}; it has: {listed}")


def _check_count(gang: PartGroup, template: Object, workload_: str) -> None:
    """A gang that asks for more pods than the TrainJob has would wait for ever."""
    have = mapping(gang.terms, "schedulingPolicy", "gang").get("minCount") or 0
    wanted = mapping(template, "schedulingPolicy", "gang").get("minCount") or 0
    if wanted > have:
        raise CannotBuild(
            f"minCount {wanted} of template {template['name']} in Workload {workload_} is more than the {have} pods "
            "that the trainer starts at once (spec.trainer.numNodes)"
        )
