"""Rules of JobSet: defaults, lengths of generated names, references between its parts.

Its policies are checked in `jobset_policies`, the grouping of its pods in `jobset_scheduling`, annotations about
quota in `jobset_stages`, changes in `jobset_update`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import FieldError, invalid
from ..objects import meta, name_formats
from ..objects.vocabulary import JOBSET_EXCLUSIVE_TOPOLOGY, JOBSET_NODE_SELECTOR
from ..scheme import Object
from . import fields, jobset_exclusive, jobset_policies, jobset_scheduling, jobset_stages, jobset_update
from .job import INDEXED, managed_by
from .kind import NOTHING, KindRules

LONGEST_NAME = 63
#: Jobs, and pods at a time, of one JobSet.
MOST_JOBS = 2_000
MOST_PODS = 100_000
#: Stands for the random suffix of a pod name when lengths are checked.
TAIL = "abcde"

Part = Mapping[str, Any]


def _default(obj: Object, old: Object | None) -> None:
    """The same on create and update, so that applying a manifest again changes nothing."""
    spec = obj.setdefault("spec", {})
    network = spec.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    spec.setdefault("successPolicy", {}).setdefault("operator", "All")
    spec.setdefault("startupPolicy", {}).setdefault("startupPolicyOrder", "AnyOrder")
    default_jobs(spec)
    for index, rule in enumerate((spec.get("failurePolicy") or {}).get("rules") or ()):
        if not rule.get("name"):
            rule["name"] = f"failurePolicyRule{index}"
    for policy in spec.get("volumeClaimPolicies") or ():
        policy.setdefault("retentionPolicy", {}).setdefault("whenDeleted", "Delete")


def default_jobs(spec: Object) -> None:
    """Default to Indexed Jobs whose pods restart on failure."""
    for replicated in spec.get("replicatedJobs") or ():
        job = replicated.setdefault("template", {}).setdefault("spec", {})
        if not job.get("completionMode"):
            job["completionMode"] = INDEXED
        pods = job.setdefault("template", {}).setdefault("spec", {})
        if not pods.get("restartPolicy"):
            pods["restartPolicy"] = "OnFailure"


def _validate(obj: Object) -> list[FieldError]:
    spec: Part = obj.get("spec") or {}
    problems: list[FieldError] = []
    if len(spec.get("replicatedJobs") or ()) > MOST_JOBS:
        return _totals(spec) or fields.no_more_than("spec.replicatedJobs", spec["replicatedJobs"], MOST_JOBS)
    for index, replicated in enumerate(spec.get("replicatedJobs") or ()):
        problems += _replicated(f"spec.replicatedJobs[{index}]", obj, replicated)
    problems = problems or _totals(spec)
    problems += jobset_policies.order("spec", spec) + _network(spec) + managed_by(spec.get("managedBy"))
    problems += jobset_policies.success("spec", spec) + jobset_policies.failure("spec", spec)
    problems += jobset_policies.coordinator(meta.name(obj), spec)
    problems += jobset_policies.claims(meta.name(obj), spec)
    return problems + jobset_exclusive.check(obj) + jobset_scheduling.check(obj) + jobset_stages.check(obj)


def _totals(spec: Part) -> list[FieldError]:
    """A JobSet is decided as a whole, so the number of its Jobs and pods is bounded."""
    jobs = pods = 0
    for replicated in spec.get("replicatedJobs") or ():
        job: Part = (replicated.get("template") or {}).get("spec") or {}
        replicas = max(0, replicated.get("replicas", 1))
        jobs += replicas
        pods += replicas * max(0, job.get("parallelism", 1))
    path = "spec.replicatedJobs"
    if jobs > MOST_JOBS:
        return [invalid(path, jobs, f"the replicas of all replicated jobs must not exceed {MOST_JOBS}")]
    if pods > MOST_PODS:
        detail = f"the pods of all replicated jobs (replicas times parallelism) must not exceed {MOST_PODS}"
        return [invalid(path, pods, detail)]
    return []


def _replicated(path: str, obj: Object, replicated: Part) -> list[FieldError]:
    job: Part = (replicated.get("template") or {}).get("spec") or {}
    replicas, parallelism = replicated.get("replicas", 1), job.get("parallelism", 1)
    problems = fields.service_name(f"{path}.groupName", replicated.get("groupName", "default"))
    if replicas * parallelism > fields.INT32_MAX:
        detail = f"the product of replicas and parallelism must not exceed {fields.INT32_MAX}"
        problems.append(invalid(f"{path}.replicas", replicas, detail))
    problems += _made_names(path, meta.name(obj), replicated, job)
    return problems


def _made_names(path: str, jobset: str, replicated: Part, job: Part) -> list[FieldError]:
    """The longest names of Jobs and pods must be valid host names."""
    last = max(replicated.get("replicas", 1) - 1, 0)
    longest_job = f"{jobset}-{replicated.get('name', '')}-{last}"
    made = {"job": longest_job}
    if job.get("completionMode") == INDEXED and job.get("completions"):
        made["pod"] = f"{longest_job}-{job['completions'] - 1}-{TAIL}"
    for kind, name in made.items():
        if len(name) > LONGEST_NAME:
            detail = f"JobSet name is too long, {kind} names generated for this JobSet will exceed 63 characters"
            return [invalid("metadata.name", jobset, f"{detail}: {name}")]
    if name_formats.dns1035_label(jobset):
        return [invalid("metadata.name", jobset, sentence) for sentence in name_formats.dns1035_label(longest_job)]
    return [
        invalid(f"{path}.name", replicated.get("name"), sentence)
        for sentence in name_formats.dns1035_label(longest_job)
    ]


def _network(spec: Part) -> list[FieldError]:
    path, subdomain = "spec.network.subdomain", (spec.get("network") or {}).get("subdomain")
    if not subdomain:
        return []
    return fields.long_name(path, subdomain) or fields.service_name(path, subdomain)


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    now, was = new.get("spec") or {}, old.get("spec") or {}
    problems = jobset_update.check(new, old) + jobset_exclusive.check_update(new, old)
    if problems:
        return problems
    if jobset_update.resized(new, old):
        problems += [
            problem
            for index, replicated in enumerate(now.get("replicatedJobs") or ())
            for problem in _replicated(f"spec.replicatedJobs[{index}]", new, replicated)
        ]
        problems += _totals(now) + jobset_policies.coordinator(meta.name(new), now) + jobset_scheduling.check(new)
    elif now.get("scheduling") != was.get("scheduling"):
        problems += jobset_scheduling.check(new)
    return problems + jobset_stages.check_update(new, old)


def _warnings(obj: Object) -> list[str]:
    spec: Part = obj.get("spec") or {}
    found: list[str] = []
    if (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder":
        found.append("spec.startupPolicy is deprecated; use spec.replicatedJobs[].dependsOn with status Ready")
    policy: Part = spec.get("executionPolicy") or {}
    if policy.get("replicatedJobsStatus") and policy.get("executionPolicyOrder") != "InOrder":
        found.append("spec.executionPolicy.replicatedJobsStatus has no effect unless executionPolicyOrder is InOrder")
    network: Part = spec.get("network") or {}
    if network.get("subdomain") and not network.get("enableDNSHostnames", True):
        found.append("spec.network.subdomain has no effect unless enableDNSHostnames is true")
    if jobset_exclusive.selects_in_vain(obj):
        found.append(f"the annotation {JOBSET_NODE_SELECTOR} has no effect without {JOBSET_EXCLUSIVE_TOPOLOGY}")
    replicated = spec.get("replicatedJobs") or ()
    if all(one.get("replicas", 1) == 0 for one in replicated):
        found.append("spec.replicatedJobs: there are no replicas, so nothing runs and the JobSet does not end")
    found += [
        f"spec.replicatedJobs[{index}].template.spec.suspend has no effect: a JobSet is suspended by spec.suspend"
        for index, one in enumerate(replicated)
        if ((one.get("template") or {}).get("spec") or {}).get("suspend")
    ]
    return found


JOB_SET = KindRules(
    default=_default,
    validate_create=_validate,
    validate_update=_validate_update,
    warnings=_warnings,
    status_metadata=NOTHING,
)
