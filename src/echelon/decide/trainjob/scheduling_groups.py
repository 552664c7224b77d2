"""Which groups the pods of a TrainJob form for the scheduler, as a tree of templates.

    runtime                              groups
    podGroupPolicy.workload              trainer: a gang of all that trains; initializer, others: placed freely
    scheduling, policy at the top        one group of all pods; one per replicated job where some wait for others
    scheduling.replicatedJobs[]          one group per entry; what no entry names is placed freely
    scheduling.replicatedJobs[].job      one group per Job; a gang of gangs if the entry has a policy too
    scheduling, both                     one CompositePodGroup over the groups of the entries

`group_objects` turns the tree into a Workload, CompositePodGroups and PodGroups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...api.objects import meta
from ...api.objects.subtree import items, mapping
from ...api.objects.vocabulary import GANG_START, PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY
from ...api.scheme import Object
from . import group_names
from .child import Built
from .model import DATASET_INITIALIZER, MODEL_INITIALIZER, TRAINER, TrainJob, ancestor, pod_template

INITIALIZER = "initializer"
ROOT = "root"
#: Replicated jobs that train together under `mlPolicy.mpi`, whatever their labels.
_MPI_JOBS = ("launcher", "node")
_TERMS = ("schedulingPolicy", "schedulingConstraints", "disruptionMode")


@dataclass(frozen=True)
class PartGroup:
    """A PodGroup template with its PodGroup, or with one for each Job."""

    template: str
    #: Policy, constraints, mode, claims and priority class: equal in the template and in its groups.
    terms: Object
    replicated_jobs: tuple[str, ...]
    annotations: Mapping[str, str] = field(default_factory=dict)
    #: How many Jobs have a group each; 0 for one group of all pods.
    jobs: int = 0
    #: Pods that are in the gang but do not count, because they start when others of it run.
    late: int = 0


@dataclass(frozen=True)
class GroupOfParts:
    """A CompositePodGroup template with its CompositePodGroup."""

    template: str
    terms: Object
    children: Tree
    annotations: Mapping[str, str] = field(default_factory=dict)


Tree = tuple["PartGroup | GroupOfParts", ...]


def is_grouped(runtime: Object) -> bool:
    spec = mapping(runtime, "spec")
    return "workload" in mapping(spec, "podGroupPolicy") or spec.get("scheduling") is not None


def starts_together(runtime: Object) -> bool:
    """Whether pods of one gang start without waiting for each other, whatever dependsOn says."""
    return meta.annotations(runtime).get(GANG_START) == "together"


def compile_groups(tj: TrainJob, runtime: Object, built: Built) -> Tree:
    parts = _Parts(tj, built, "mpi" in mapping(runtime, "spec", "mlPolicy"))
    scheduling = mapping(runtime, "spec").get("scheduling")
    tree = _parts_of_workload(parts) if scheduling is None else _parts_of_scheduling(parts, scheduling)
    return _one_priority(tree)


def trainer_group(tj: TrainJob, runtime: Object, built: Built) -> PartGroup:
    """The gang alone, for a TrainJob whose group goes below someone else's composite group."""
    parts = _Parts(tj, built, "mpi" in mapping(runtime, "spec", "mlPolicy"))
    return parts.leaf(TRAINER, [rj for rj in built.replicated_jobs if parts.part(rj) == TRAINER], {})


def leaves(tree: Tree) -> Iterator[PartGroup]:
    for node in tree:
        if isinstance(node, GroupOfParts):
            yield from leaves(node.children)
        else:
            yield node


def untangle(built: Built, tree: Tree) -> None:
    """Take the waits for Ready out of the JobSet where both sides are in one gang, which starts together."""
    for leaf in leaves(tree):
        for rj in built.replicated_jobs:
            if rj["name"] not in leaf.replicated_jobs:
                continue
            kept = [
                one
                for one in items(rj, "dependsOn")
                if one["name"] not in leaf.replicated_jobs or one["status"] != "Ready"
            ]
            rj.pop("dependsOn", None)
            if kept:
                rj["dependsOn"] = kept


# -- the two ways to ask --------------------------------------------------------------------------------------


def _parts_of_workload(parts: _Parts) -> Tree:
    by_part: dict[str, list[Object]] = {}
    for rj in parts.built.replicated_jobs:
        by_part.setdefault(parts.part(rj), []).append(rj)
    return tuple(
        parts.leaf(template, members, {} if template == TRAINER else {"schedulingPolicy": {"basic": {}}})
        for template, members in by_part.items()
    )


def _parts_of_scheduling(parts: _Parts, scheduling: Mapping[str, Any]) -> Tree:
    entries = items(scheduling, "replicatedJobs")
    every = parts.built.replicated_jobs
    if not entries:
        if "basic" not in mapping(scheduling, "schedulingPolicy") and parts.sequenced:
            return tuple(parts.leaf(rj["name"], [rj], scheduling) for rj in every)
        return (parts.leaf(parts.tj.name, every, scheduling),)
    named: set[str] = set()
    inner: list[PartGroup | GroupOfParts] = []
    for entry in entries:
        named.update(entry["targetReplicatedJobs"])
        inner.append(_entry(parts, entry))
    free: Object = {"schedulingPolicy": {"basic": {}}}
    inner += [parts.leaf(rj["name"], [rj], free) for rj in every if rj["name"] not in named]
    if any(name in scheduling for name in _TERMS):
        return (_root(parts, scheduling, inner),)
    if any(isinstance(node, GroupOfParts) for node in inner) and any(isinstance(node, PartGroup) for node in inner):
        # A Workload has groups or composite groups at its top, not both.
        return (_root(parts, free, inner),)
    return tuple(inner)


def _entry(parts: _Parts, entry: Mapping[str, Any]) -> PartGroup | GroupOfParts:
    targets = [rj for rj in parts.built.replicated_jobs if rj["name"] in entry["targetReplicatedJobs"]]
    if "job" not in entry:
        return parts.leaf(group_names.template_name(rj["name"] for rj in targets), targets, entry)
    (rj,) = targets
    leaf = parts.per_job(rj, entry["job"])
    if not any(name in entry for name in _TERMS):
        return leaf
    terms = _composite_terms(entry, leaf.jobs, sequenced=False) | _priority(targets)
    return GroupOfParts(rj["name"], terms, (leaf,))


def _root(parts: _Parts, level: Mapping[str, Any], children: Sequence[PartGroup | GroupOfParts]) -> GroupOfParts:
    groups = sum(max(1, node.jobs) if isinstance(node, PartGroup) else 1 for node in children)
    terms = _composite_terms(level, groups, sequenced=parts.sequenced) | _priority(parts.built.replicated_jobs)
    return GroupOfParts(ROOT, terms, tuple(children), _preference(parts.tj.view.annotations))


def _composite_terms(level: Mapping[str, Any], groups: int, *, sequenced: bool) -> Object:
    """Over stages the policy is basic: later ones do not exist while the first run."""
    gang = not sequenced and "basic" not in mapping(level, "schedulingPolicy")
    terms: Object = {"schedulingPolicy": {"gang": {"minGroupCount": groups}} if gang else {"basic": {}}}
    return terms | {name: level[name] for name in _TERMS[1:] if level.get(name)}


# -- leaves ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Parts:
    tj: TrainJob
    built: Built
    mpi: bool

    @property
    def sequenced(self) -> bool:
        """Whether some replicated jobs start only when others run or have ended."""
        return self.in_order or any(items(rj, "dependsOn") for rj in self.built.replicated_jobs)

    @property
    def in_order(self) -> bool:
        spec = self.built.jobset["spec"]
        return "InOrder" in (
            mapping(spec, "startupPolicy").get("startupPolicyOrder"),
            mapping(spec, "executionPolicy").get("executionPolicyOrder"),
        )

    def part(self, replicated_job: Object) -> str:
        role, name = ancestor(replicated_job), str(replicated_job["name"])
        if role in (DATASET_INITIALIZER, MODEL_INITIALIZER):
            return INITIALIZER
        return TRAINER if role == TRAINER or (self.mpi and name in _MPI_JOBS) else name

    def leaf(self, template: str, members: Sequence[Object], level: Mapping[str, Any]) -> PartGroup:
        names = [rj["name"] for rj in members]
        # Pods that wait for others of the same group cannot be part of what must start together.
        late = [
            rj
            for index, rj in enumerate(members)
            if (self.in_order and index) or any(one["name"] in names for one in items(rj, "dependsOn"))
        ]
        pods = sum(self.built.pods[name] for name in names)
        behind = sum(self.built.pods[rj["name"]] for rj in late)
        notes = self._annotations(members)
        terms = _leaf_terms(level, pods - behind, notes) | _priority(members)
        gang = "gang" in terms["schedulingPolicy"]
        return PartGroup(template, terms, tuple(names), _preference(notes), late=behind if gang else 0)

    def per_job(self, rj: Object, level: Mapping[str, Any]) -> PartGroup:
        jobs, notes = int(rj.get("replicas", 1)), self._annotations([rj])
        terms = _leaf_terms(level, self.built.pods[rj["name"]] // max(1, jobs), notes) | _priority([rj])
        return PartGroup(
            group_names.template_name([rj["name"], "job"]), terms, (rj["name"],), _preference(notes), jobs=jobs
        )

    def _annotations(self, members: Sequence[Object]) -> dict[str, str]:
        """Annotations that shape a group: the runtime's, and where training runs the TrainJob's own before them."""
        found: dict[str, str] = {}
        for rj in members:
            found |= mapping(rj, "template", "metadata", "annotations")
        trains = any(self.part(rj) == TRAINER for rj in members)
        return {**found, **self.tj.view.annotations} if trains else found


def _leaf_terms(level: Mapping[str, Any], pods: int, notes: Mapping[str, str]) -> Object:
    # A gang needs at least one pod; where none will come there is nothing to wait for.
    gang = pods > 0 and "basic" not in mapping(level, "schedulingPolicy")
    terms: Object = {"schedulingPolicy": {"gang": {"minCount": pods}} if gang else {"basic": {}}}
    if REQUIRED_TOPOLOGY in notes:
        terms["schedulingConstraints"] = {"topology": [{"key": notes[REQUIRED_TOPOLOGY]}]}
    return terms | {name: level[name] for name in (*_TERMS[1:], "resourceClaims") if level.get(name)}


def _priority(members: Sequence[Object]) -> Object:
    classes = {str(pod_template(rj)["spec"].get("priorityClassName") or "") for rj in members}
    return {"priorityClassName": classes.pop()} if len(classes) == 1 and classes != {""} else {}


def _one_priority(tree: Tree) -> Tree:
    """All groups of a Workload have one priority: those that are placed freely and differ need no group."""
    gangs = [leaf for leaf in leaves(tree) if "gang" in leaf.terms["schedulingPolicy"]]
    if not gangs or any(isinstance(node, GroupOfParts) for node in tree):
        return tree
    wanted = gangs[0].terms.get("priorityClassName")
    return tuple(
        leaf
        for leaf in leaves(tree)
        if "gang" in leaf.terms["schedulingPolicy"] or leaf.terms.get("priorityClassName") == wanted
    )


def _preference(annotations: Mapping[str, str]) -> dict[str, str]:
    return {PREFERRED_TOPOLOGY: annotations[PREFERRED_TOPOLOGY]} if PREFERRED_TOPOLOGY in annotations else {}
