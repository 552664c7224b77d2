"""Rules of `spec.scheduling` of a JobSet, which groups its pods in one of four ways.

policy at the top                             one group of all pods
replicatedJobs[] entries                      one group per entry
replicatedJobs[].job                          one group per Job
policy at the top and replicatedJobs[].job    a gang of gangs: the top counts entries, an entry counts its Jobs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import FieldError, forbidden_field, invalid, required
from ..scheme import Object
from . import fields, grouping, jobset_policies
from .workload import MAX_TEMPLATES

TERMS = ("schedulingPolicy", "schedulingConstraints", "disruptionMode")
_PODS, _GROUPS = "minCount", "minGroupCount"
_OTHER = {_PODS: _GROUPS, _GROUPS: _PODS}

Part = Mapping[str, Any]


def check(obj: Object) -> list[FieldError]:
    spec: Part = obj.get("spec") or {}
    scheduling: Part | None = spec.get("scheduling")
    if scheduling is None:
        return []
    entries: Sequence[Part] = scheduling.get("replicatedJobs") or ()
    problems = _templates_bring_none(spec) + _one_priority(spec)
    if not entries:
        return problems + _whole(spec, scheduling)
    nested = any(term in scheduling for term in TERMS)
    problems += _coverage(spec, entries)
    for index, entry in enumerate(entries):
        problems += _entry(f"spec.scheduling.replicatedJobs[{index}]", spec, entry, nested)
    if nested:
        problems += _terms("spec.scheduling", scheduling, _GROUPS, len(entries), "entries of replicatedJobs")
    if len(entries) > MAX_TEMPLATES:
        detail = f"a Workload holds at most {MAX_TEMPLATES} templates, these entries need {len(entries)}"
        problems.append(invalid("spec.scheduling.replicatedJobs", len(entries), detail))
    return problems


def _jobs(spec: Part) -> Sequence[Part]:
    return spec.get("replicatedJobs") or ()


def _pod_spec(replicated: Part) -> Part:
    job: Part = (replicated.get("template") or {}).get("spec") or {}
    return (job.get("template") or {}).get("spec") or {}


def _pods_per_job(replicated: Part) -> int:
    job: Part = (replicated.get("template") or {}).get("spec") or {}
    parallelism: int = job.get("parallelism", 1)
    completions: int | None = job.get("completions")
    return parallelism if completions is None else min(parallelism, completions)


def _pods(replicated: Part) -> int:
    return int(replicated.get("replicas", 1)) * _pods_per_job(replicated)


def _templates_bring_none(spec: Part) -> list[FieldError]:
    problems: list[FieldError] = []
    for index, replicated in enumerate(_jobs(spec)):
        path = f"spec.replicatedJobs[{index}].template.spec"
        if "scheduling" in ((replicated.get("template") or {}).get("spec") or {}):
            problems.append(forbidden_field(f"{path}.scheduling", "may not be set together with spec.scheduling"))
        if "schedulingGroup" in _pod_spec(replicated):
            where = f"{path}.template.spec.schedulingGroup"
            problems.append(forbidden_field(where, "may not be set together with spec.scheduling"))
    return problems


def _one_priority(spec: Part) -> list[FieldError]:
    """All groups of one Workload have one priority."""
    first: str | None = None
    for index, replicated in enumerate(_jobs(spec)):
        name = _pod_spec(replicated).get("priorityClassName", "")
        first = name if first is None else first
        if name != first:
            where = f"spec.replicatedJobs[{index}].template.spec.template.spec.priorityClassName"
            detail = f'must be "{first}" as in the first entry: with spec.scheduling all pods have one priority'
            return [invalid(where, name, detail)]
    return []


def _whole(spec: Part, scheduling: Part) -> list[FieldError]:
    """One group of all pods; if some start later, one group per replicated job."""
    pods = sum(map(_pods, _jobs(spec)))
    problems = _terms("spec.scheduling", scheduling, _PODS, pods, "pods of the JobSet")
    policy = scheduling.get("schedulingPolicy") or {"gang": {}}
    if "gang" not in policy:
        return problems
    where = "spec.scheduling.schedulingPolicy.gang"
    if jobset_policies.sequenced(spec):
        if _PODS in (policy["gang"] or {}):
            detail = "may not be set when replicatedJobs start one after the other: each is a gang of its own"
            problems.append(forbidden_field(f"{where}.{_PODS}", detail))
        if len(_jobs(spec)) > MAX_TEMPLATES:
            detail = f"a Workload holds at most {MAX_TEMPLATES} templates, this order needs one per replicatedJob"
            problems.append(invalid("spec.replicatedJobs", len(_jobs(spec)), detail))
    return problems


def _terms(path: str, level: Part, minimum: str, available: int, counted: str) -> list[FieldError]:
    """Policy, constraints and mode of one level, whose gang counts pods or groups."""
    problems: list[FieldError] = []
    policy: Part | None = level.get("schedulingPolicy")
    if policy is not None:
        problems += grouping.policy(f"{path}.schedulingPolicy", policy, minimum, minimum_needed=False)
        gang: Part = policy.get("gang") or {}
        where = f"{path}.schedulingPolicy.gang"
        if gang.get(minimum) is not None and gang[minimum] > available:
            detail = f"must not be greater than the number of {counted} ({available})"
            problems.append(invalid(f"{where}.{minimum}", gang[minimum], detail))
        if _OTHER[minimum] in gang:
            what = "pods" if minimum == _PODS else "groups"
            detail = f"this gang is one of {what}; use {minimum}"
            problems.append(forbidden_field(f"{where}.{_OTHER[minimum]}", detail))
    problems += grouping.constraints(f"{path}.schedulingConstraints", level.get("schedulingConstraints"))
    return problems + grouping.mode(f"{path}.disruptionMode", level.get("disruptionMode"))


def _coverage(spec: Part, entries: Sequence[Part]) -> list[FieldError]:
    """Every replicated job is in exactly one entry."""
    path = "spec.scheduling.replicatedJobs"
    known = fields.by_name(_jobs(spec))
    problems: list[FieldError] = []
    placed: dict[str, str] = {}
    for index, entry in enumerate(entries):
        for inner, target in enumerate(entry.get("targetReplicatedJobs") or ()):
            where = f"{path}[{index}].targetReplicatedJobs[{inner}]"
            if target not in known:
                problems.append(invalid(where, target, "must be the name of an entry of spec.replicatedJobs"))
            elif placed.setdefault(target, where) != where:
                problems.append(invalid(where, target, f"is already in {placed[target]}"))
    missing = [str(name) for name in known if name not in placed]
    if missing:
        problems.append(required(path, f"every replicatedJob must be in an entry, missing: {', '.join(missing)}"))
    return problems


def _entry(path: str, spec: Part, entry: Part, nested: bool) -> list[FieldError]:
    known = fields.by_name(_jobs(spec))
    targets = [known[name] for name in entry.get("targetReplicatedJobs") or () if name in known]
    if "job" not in entry:
        if nested:
            detail = "with a policy at the top, every entry groups its Jobs: a gang of gangs"
            return [required(f"{path}.job", detail)]
        pods = sum(map(_pods, targets))
        return [
            *_terms(path, entry, _PODS, pods, "pods of its targets"),
            *grouping.claims(f"{path}.resourceClaims", entry.get("resourceClaims")),
        ]
    if len(entry.get("targetReplicatedJobs") or ()) != 1:
        return [
            invalid(f"{path}.targetReplicatedJobs", entry.get("targetReplicatedJobs"), "`job` needs exactly one target")
        ]
    problems: list[FieldError] = []
    replicas = sum(target.get("replicas", 1) for target in targets)
    if nested:
        problems += _terms(path, entry, _GROUPS, replicas, "its Jobs")
    forbidden = ("resourceClaims",) if nested else (*TERMS, "resourceClaims")
    problems += [forbidden_field(f"{path}.{field}", "set it in `job`") for field in forbidden if field in entry]
    job = entry["job"]
    pods = sum(map(_pods_per_job, targets))
    return [
        *problems,
        *_terms(f"{path}.job", job, _PODS, pods, "pods of each Job"),
        *grouping.claims(f"{path}.job.resourceClaims", job.get("resourceClaims")),
    ]
