"""Which groups the pods of a JobSet form for the scheduler, as a tree of templates.

    spec.scheduling                                    tree
    absent, exclusive-topology annotation              root > leaf per replicated job, a group per Job, whole domains
    policy at the top                                  one leaf for all pods; one per replicated job if sequenced
    replicatedJobs[] entries                           one leaf per entry
    replicatedJobs[].job                               one leaf per entry, a group per Job
    policy at the top and replicatedJobs[].job         root > composite per entry > leaf, a group per Job

`group_objects` turns the tree into a Workload, CompositePodGroups and PodGroups.  The annotation alone makes the whole
JobSet one gang that is evicted as one: preempted, it holds nothing while it waits.  All pods of a tree have one
priority and one scheduler, so there is a tree with a Workload for each of those that the JobSet names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...api.objects.subtree import items, mapping
from ...api.objects.vocabulary import EXCLUSIVE_TOPOLOGY, PREFERRED_TOPOLOGY
from ...api.rules.workload import MAX_TEMPLATES
from ...api.scheme import Object
from . import child_names
from .model import JobSet, ReplicatedJob

_LEVEL_FIELDS = ("schedulingPolicy", "schedulingConstraints", "disruptionMode")


@dataclass(frozen=True)
class Membership:
    """The group of one Job's pods."""

    group: str
    template: str


@dataclass(frozen=True)
class LeafTemplate:
    """A PodGroup template and the PodGroups made from it."""

    template: str
    #: Policy, constraints, mode, claims and priority class: equal in the template and in its groups.
    terms: Object
    #: What follows the JobSet's name in each group's name, and in the names of the Jobs whose pods are in it.
    groups: Mapping[str, tuple[str, ...]]
    annotations: Mapping[str, str] = field(default_factory=dict)
    #: Of a root: what follows the JobSet's name in the name of its Workload.
    workload: str = ""

    @property
    def number(self) -> int:
        """How many groups a parent has of it."""
        return len(self.groups)


@dataclass(frozen=True)
class CompositeTemplate:
    """A CompositePodGroup template with the one CompositePodGroup made from it."""

    template: str
    item: str
    terms: Object
    children: tuple[CompositeTemplate | LeafTemplate, ...]
    annotations: Mapping[str, str] = field(default_factory=dict)
    workload: str = ""

    @property
    def number(self) -> int:
        return 1


Tree = tuple[CompositeTemplate | LeafTemplate, ...]


def compile_tree(js: JobSet) -> Tree:
    """The groups of a JobSet; empty if its pods are placed one by one."""
    scheduling = js.spec.scheduling
    if scheduling is None:
        return _annotated(js)
    entries = items(scheduling, "replicatedJobs")
    if not entries:
        return _shared(js, [rj for rj in js.replicated if rj.replicas], scheduling, for_all=True)
    inner = [tree for entry in entries for tree in _entry(js, entry, scheduling)]
    if not inner or not _has_terms(scheduling):
        return tuple(inner)
    root = CompositeTemplate(
        template="root",
        item="",
        terms=_composite_terms(scheduling, len(inner), [rj for rj in js.replicated if rj.replicas], js.sequenced),
        children=tuple(inner),
        annotations=_preference(js.view.annotations),
    )
    return (root,)


def _places_exclusively(rj: ReplicatedJob) -> bool:
    return bool(rj.exclusive_key) and _joins_tree(rj)


def _annotated(js: JobSet) -> Tree:
    """Trees of a JobSet with the annotation alone: exclusive Jobs, and the pods of its other replicated jobs with them.

    Those others start one by one, as they would without groups, but leave with the rest.
    """
    alike: dict[tuple[str, str], list[ReplicatedJob]] = {}
    for rj in js.replicated:
        if _joins_tree(rj):
            alike.setdefault((rj.pod_spec.priority_class_name, rj.pod_spec.scheduler_name), []).append(rj)
    trees = [members for members in alike.values() if any(map(_places_exclusively, members))]
    return tuple(_whole(js, members, f"tree-{number}" if number else "") for number, members in enumerate(trees))


def _joins_tree(rj: ReplicatedJob) -> bool:
    brings_its_own = bool(rj.template.spec.template.group_name or rj.template.spec.scheduling)
    return bool(rj.ours and rj.pods and not rj.by_node_selector and not brings_its_own)


def _whole(js: JobSet, members: Sequence[ReplicatedJob], workload: str) -> CompositeTemplate | LeafTemplate:
    """One tree that comes and leaves as a whole; where a level is full, groups are nested."""
    row: Tree = tuple(
        _per_job(rj, {}) if _places_exclusively(rj) else _over(js, [rj], {"schedulingPolicy": {"basic": {}}}, rj.name)
        for rj in members
    )
    if len(row) == 1 and row[0].number == 1:
        return replace(row[0], workload=workload)
    level = 0
    while len(row) > MAX_TEMPLATES:
        level += 1
        parts = [row[start : start + MAX_TEMPLATES] for start in range(0, len(row), MAX_TEMPLATES)]
        stem = f"{workload}-level-{level}" if workload else f"level-{level}"
        row = tuple(_composite(js, members, f"{stem}-{number}", part) for number, part in enumerate(parts))
    root = _composite(js, members, workload or "root", row)
    terms = {**root.terms, "disruptionMode": {"all": {}}}
    return replace(root, item=workload, terms=terms, workload=workload, annotations=_preference(js.view.annotations))


def _composite(js: JobSet, members: Sequence[ReplicatedJob], name: str, children: Tree) -> CompositeTemplate:
    terms = _composite_terms({}, sum(child.number for child in children), members, js.sequenced)
    return CompositeTemplate(template=name, item=name, terms=terms, children=children)


def _has_terms(level: Mapping[str, Any]) -> bool:
    return any(name in level for name in _LEVEL_FIELDS)


def _entry(js: JobSet, entry: Mapping[str, Any], top: Mapping[str, Any]) -> Tree:
    targets = [rj for rj in js.replicated if rj.name in entry["targetReplicatedJobs"] and rj.replicas]
    if not targets:
        return ()
    if "job" not in entry:
        return _shared(js, targets, entry, for_all=False)
    (rj,) = targets
    leaf = _per_job(rj, entry["job"])
    if not _has_terms(top):
        return (leaf,)
    terms = _composite_terms(entry, rj.replicas, [rj], sequenced=False)
    return (CompositeTemplate(template=rj.name, item=rj.name, terms=terms, children=(leaf,)),)


def _per_job(rj: ReplicatedJob, level: Mapping[str, Any]) -> LeafTemplate:
    """A group for every Job.  An exclusive one takes a whole domain and leaves it as a whole."""
    terms = _leaf_terms(level, rj.pods_per_job, [rj])
    annotations = _preference(rj.template.metadata.annotations)
    if rj.exclusive_key:
        terms.setdefault("schedulingConstraints", {"topology": [{"key": rj.exclusive_key}]})
        terms.setdefault("disruptionMode", {"all": {}})
        annotations[EXCLUSIVE_TOPOLOGY] = rj.exclusive_key
    return LeafTemplate(f"{rj.name}-job", terms, {job: (job,) for job in _jobs(rj)}, annotations)


def _jobs(rj: ReplicatedJob) -> tuple[str, ...]:
    """What follows the JobSet's name in the names of these Jobs."""
    return tuple(f"{rj.name}-{index}" for index in range(rj.replicas))


def _shared(js: JobSet, targets: Sequence[ReplicatedJob], level: Mapping[str, Any], *, for_all: bool) -> Tree:
    """One group over several replicated jobs, or one for each where a common gang could never be complete."""
    if not targets:
        return ()
    if "basic" not in mapping(level, "schedulingPolicy") and _waits_within(js, targets):
        return tuple(_over(js, [rj], level, rj.name) for rj in targets)
    if for_all:
        return (_over(js, targets, level, ""),)
    return (_over(js, targets, level, "-".join(rj.name for rj in targets)),)


def _waits_within(js: JobSet, targets: Sequence[ReplicatedJob]) -> bool:
    names = [rj.name for rj in targets]
    if len(names) > 1 and js.starts_in_order:
        return True
    return any(dependency.name in names for rj in targets for dependency in rj.depends_on)


def _over(js: JobSet, targets: Sequence[ReplicatedJob], level: Mapping[str, Any], item: str) -> LeafTemplate:
    if len(targets) > 1 and item:
        template = item
    else:
        template = child_names.template_name(item or js.name, "PodGroupTemplate", js.namespace, js.name, item)
    one = targets[0] if len(targets) == 1 else None
    source = one.template.metadata.annotations if one else js.view.annotations
    jobs = tuple(job for rj in targets for job in _jobs(rj))
    terms = _leaf_terms(level, sum(rj.pods for rj in targets), targets)
    return LeafTemplate(template, terms, {item: jobs}, _preference(source))


def _leaf_terms(level: Mapping[str, Any], pods: int, targets: Sequence[ReplicatedJob]) -> Object:
    policy = level.get("schedulingPolicy") or {"gang": {}}
    # A gang needs at least one pod; where none will come there is nothing to wait for.
    if "basic" in policy or pods == 0:
        terms: Object = {"schedulingPolicy": {"basic": {}}}
    else:
        terms = {"schedulingPolicy": {"gang": {"minCount": mapping(policy, "gang").get("minCount") or pods}}}
    for name in ("schedulingConstraints", "disruptionMode", "resourceClaims"):
        if level.get(name):
            terms[name] = level[name]
    return terms | _priority(targets)


def _composite_terms(
    level: Mapping[str, Any], children: int, targets: Sequence[ReplicatedJob], sequenced: bool
) -> Object:
    """A sequenced root is basic: its later children do not exist while the first ones run."""
    policy = level.get("schedulingPolicy") or {"gang": {}}
    if sequenced or "basic" in policy:
        terms: Object = {"schedulingPolicy": {"basic": {}}}
    else:
        minimum = mapping(policy, "gang").get("minGroupCount") or children
        terms = {"schedulingPolicy": {"gang": {"minGroupCount": minimum}}}
    for name in ("schedulingConstraints", "disruptionMode"):
        if level.get(name):
            terms[name] = level[name]
    return terms | _priority(targets)


def _priority(targets: Sequence[ReplicatedJob]) -> Object:
    """The pods' priority class where all agree; where they do not, the scheduler will say so."""
    classes = sorted({rj.pod_spec.priority_class_name for rj in targets})
    return {"priorityClassName": classes[0]} if len(classes) == 1 and classes[0] else {}


def _preference(annotations: Mapping[str, str]) -> dict[str, str]:
    return {PREFERRED_TOPOLOGY: annotations[PREFERRED_TOPOLOGY]} if PREFERRED_TOPOLOGY in annotations else {}
