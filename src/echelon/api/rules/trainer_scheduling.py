"""Rules of `spec.scheduling` of a training runtime, and of what its template may not bring beside it.

policy at the top                  one group of all pods
replicatedJobs[] entries           one group per entry
replicatedJobs[].job               one group per Job; with a policy of the entry a gang of gangs
policy at the top and entries      one composite group over all entries

How many pods or groups a gang needs follows from numNodes and is never written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import FieldError, forbidden_field, invalid
from ..objects.builtin_runtimes import template_of
from ..objects.vocabulary import JOBSET_EXCLUSIVE_TOPOLOGY, REQUIRED_TOPOLOGY, TRAINJOB_ANCESTOR_STEP
from . import grouping
from .workload import MAX_TEMPLATES

TERMS = ("schedulingPolicy", "schedulingConstraints", "disruptionMode")
_PATH = "spec.scheduling"
_TEMPLATE = "spec.template.spec"
_STEPS = ("trainer", "dataset-initializer", "model-initializer")

Part = Mapping[str, Any]


def check(spec: Part) -> list[FieldError]:
    scheduling: Part | None = spec.get("scheduling")
    if scheduling is None:
        return []
    problems: list[FieldError] = []
    if spec.get("podGroupPolicy"):
        problems.append(forbidden_field(_PATH, "may not be set together with spec.podGroupPolicy"))
    entries: Sequence[Part] = scheduling.get("replicatedJobs") or ()
    problems += _terms(_PATH, scheduling)
    jobs = _jobs(spec)
    problems += _targets(entries, jobs)
    for index, entry in enumerate(entries):
        problems += _entry(f"{_PATH}.replicatedJobs[{index}]", entry)
    named = {target for entry in entries for target in entry.get("targetReplicatedJobs") or ()}
    groups = len(entries) + sum(name not in named for name in jobs) if entries else len(jobs)
    if groups > MAX_TEMPLATES:
        detail = f"a Workload holds at most {MAX_TEMPLATES} groups, these need {groups}"
        problems.append(invalid(f"{_PATH}.replicatedJobs", groups, detail))
    return problems + _one_priority(jobs) + _one_topology(scheduling, jobs)


def brings_none(spec: Part) -> list[FieldError]:
    """Templates may not group their pods themselves where the runtime says how they are grouped."""
    source = "podGroupPolicy.workload" if "workload" in (spec.get("podGroupPolicy") or {}) else "spec.scheduling"
    if source == "spec.scheduling" and "scheduling" not in spec:
        return []
    detail = f"may not be set together with {source}"
    template: Part = (spec.get("template") or {}).get("spec") or {}
    problems = [forbidden_field(f"{_TEMPLATE}.scheduling", detail)] if "scheduling" in template else []
    if JOBSET_EXCLUSIVE_TOPOLOGY in _annotations(spec.get("template") or {}):
        where = f"spec.template.metadata.annotations[{JOBSET_EXCLUSIVE_TOPOLOGY}]"
        problems.append(forbidden_field(where, detail))
    for index, job in enumerate(_jobs(spec).values()):
        where = f"{_TEMPLATE}.replicatedJobs[{index}].template"
        inner: Part = job.get("template") or {}
        if "scheduling" in (inner.get("spec") or {}):
            problems.append(forbidden_field(f"{where}.spec.scheduling", detail))
        if "schedulingGroup" in _pod_spec(job):
            problems.append(forbidden_field(f"{where}.spec.template.spec.schedulingGroup", detail))
        if JOBSET_EXCLUSIVE_TOPOLOGY in _annotations(inner):
            path = f"{where}.metadata.annotations[{JOBSET_EXCLUSIVE_TOPOLOGY}]"
            problems.append(forbidden_field(path, detail))
    return problems


def key_of_trainer(spec: Part) -> str:
    """The topology key that the runtime's `scheduling` sets for the trainer's pods, "" if it sets none."""
    scheduling: Part = spec.get("scheduling") or {}
    for entry in scheduling.get("replicatedJobs") or ():
        if any(_step(_jobs(spec).get(name) or {}) == "trainer" for name in entry.get("targetReplicatedJobs") or ()):
            return _key(entry.get("job") or {}) or _key(entry)
    return _key(scheduling) if not scheduling.get("replicatedJobs") else ""


def _jobs(spec: Part) -> dict[str, Part]:
    return {job["name"]: job for job in template_of({"spec": dict(spec)})["spec"]["replicatedJobs"]}


def _pod_spec(job: Part) -> Part:
    inner: Part = (job.get("template") or {}).get("spec") or {}
    return (inner.get("template") or {}).get("spec") or {}


def _annotations(holder: Part) -> Part:
    return (holder.get("metadata") or {}).get("annotations") or {}


def _step(job: Part) -> str:
    labels: Part = ((job.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return str(labels.get(TRAINJOB_ANCESTOR_STEP, ""))


def _key(level: Part) -> str:
    topology = (level.get("schedulingConstraints") or {}).get("topology") or ()
    return str(topology[0].get("key", "")) if topology else ""


def _terms(path: str, level: Part) -> list[FieldError]:
    policy: Part | None = level.get("schedulingPolicy")
    problems: list[FieldError] = []
    if policy is not None:
        problems += grouping.policy(f"{path}.schedulingPolicy", policy, "minCount", minimum_needed=False)
    for minimum in ("minCount", "minGroupCount"):
        if minimum in ((policy or {}).get("gang") or {}):
            where = f"{path}.schedulingPolicy.gang.{minimum}"
            problems.append(forbidden_field(where, "follows from numNodes and may not be set"))
    problems += grouping.constraints(f"{path}.schedulingConstraints", level.get("schedulingConstraints"))
    problems += grouping.mode(f"{path}.disruptionMode", level.get("disruptionMode"))
    return problems + grouping.claims(f"{path}.resourceClaims", level.get("resourceClaims"))


def _targets(entries: Sequence[Part], jobs: Mapping[str, Part]) -> list[FieldError]:
    """Every target is a replicated job, and in one entry only."""
    problems: list[FieldError] = []
    placed: dict[str, str] = {}
    for index, entry in enumerate(entries):
        for inner, target in enumerate(entry.get("targetReplicatedJobs") or ()):
            where = f"{_PATH}.replicatedJobs[{index}].targetReplicatedJobs[{inner}]"
            if target not in jobs:
                problems.append(invalid(where, target, f"must be the name of an entry of {_TEMPLATE}.replicatedJobs"))
            elif placed.setdefault(target, where) != where:
                problems.append(invalid(where, target, f"is already in {placed[target]}"))
    return problems


def _entry(path: str, entry: Part) -> list[FieldError]:
    problems = _terms(path, entry)
    if "job" not in entry:
        return problems
    if len(entry.get("targetReplicatedJobs") or ()) != 1:
        detail = "`job` needs exactly one target"
        problems.append(invalid(f"{path}.targetReplicatedJobs", entry.get("targetReplicatedJobs"), detail))
    if "resourceClaims" in entry:
        problems.append(forbidden_field(f"{path}.resourceClaims", "set it in `job`"))
    return problems + _terms(f"{path}.job", entry["job"])


def _one_priority(jobs: Mapping[str, Part]) -> list[FieldError]:
    """All groups of one Workload have one priority."""
    classes = [_pod_spec(job).get("priorityClassName", "") for job in jobs.values()]
    for index, name in enumerate(classes):
        if name != classes[0]:
            where = f"{_TEMPLATE}.replicatedJobs[{index}].template.spec.template.spec.priorityClassName"
            detail = f'must be "{classes[0]}" as in the first entry: with spec.scheduling all pods have one priority'
            return [invalid(where, name, detail)]
    return []


def _one_topology(scheduling: Part, jobs: Mapping[str, Part]) -> list[FieldError]:
    """The annotation of a template and the field may not name different keys."""
    problems: list[FieldError] = []
    for index, (name, job) in enumerate(jobs.items()):
        asked = _annotations(job.get("template") or {}).get(REQUIRED_TOPOLOGY)
        levels = [e for e in scheduling.get("replicatedJobs") or () if name in (e.get("targetReplicatedJobs") or ())]
        key = next((_key(e.get("job") or {}) or _key(e) for e in levels), "" if levels else _key(scheduling))
        if asked is not None and key and asked != key:
            where = f"{_TEMPLATE}.replicatedJobs[{index}].template.metadata.annotations[{REQUIRED_TOPOLOGY}]"
            problems.append(invalid(where, asked, f"spec.scheduling says {key}; leave one of them out"))
    return problems


def replicas(spec: Part) -> list[FieldError]:
    """Initializers are one Job each; trainers may be several, where ranks do not depend on the index of a pod."""
    policy: Part = spec.get("mlPolicy") or {}
    grouped = "scheduling" in spec or "workload" in (spec.get("podGroupPolicy") or {})
    problems: list[FieldError] = []
    for index, job in enumerate(_jobs(spec).values()):
        step, count = _step(job), job.get("replicas", 1)
        if step not in _STEPS or count == 1:
            continue
        where = f"{_TEMPLATE}.replicatedJobs[{index}].replicas"
        if step != "trainer" or not grouped or count < 1:
            problems.append(invalid(where, count, "always must be 1"))
        fixed = [name for name in ("mpi", "jax", "xgboost", "flux") if name in policy]
        if step == "trainer" and grouped and fixed:
            detail = f"must be 1: mlPolicy.{fixed[0]} numbers its nodes by the index of a pod in its Job"
            problems.append(invalid(where, count, detail))
    return problems
