"""Rules of a JobSet's policies: order, success, failure, coordinator and volume claims.

`path` is the path of the JobSet spec: in a JobSet, or in the template of a training runtime.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import FieldError, duplicate, forbidden_field, invalid, not_supported, required
from ..objects import name_formats
from . import fields

SUCCEEDED = "Succeeded"
REASONS = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
#: Actions that keep a counter per Job, which limits the number of Jobs.
JOB_ACTIONS = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")
MOST_COUNTED_JOBS = 1024
LONGEST_RULE_NAME = 128
LONGEST_NAME = 63
_RULE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
#: Constructs of Python's expressions that RE2, which other controllers use, does not have.
_NOT_RE2 = re.compile(r"\\[1-9]|\(\?P=|\(\?<?[=!]|\(\?\(|\(\?>")

Part = Mapping[str, Any]


def in_order(spec: Part, policy: str, field: str) -> bool:
    return bool((spec.get(policy) or {}).get(field) == "InOrder")


def sequenced(spec: Part) -> bool:
    """Whether some pods are created only after others are ready or complete."""
    return (
        in_order(spec, "startupPolicy", "startupPolicyOrder")
        or in_order(spec, "executionPolicy", "executionPolicyOrder")
        or any(replicated.get("dependsOn") for replicated in spec.get("replicatedJobs") or ())
    )


def order(path: str, spec: Part) -> list[FieldError]:
    """dependsOn refers to earlier entries; only one kind of ordering is used."""
    problems: list[FieldError] = []
    earlier: list[str] = []
    depends = False
    for index, replicated in enumerate(spec.get("replicatedJobs") or ()):
        where = f"{path}.replicatedJobs[{index}].dependsOn"
        dependencies: Sequence[Part] = replicated.get("dependsOn") or ()
        depends = depends or bool(dependencies)
        if dependencies and index == 0:
            problems.append(forbidden_field(where, "the first replicatedJob cannot depend on another"))
        elif dependencies:
            problems += _dependencies(where, dependencies, earlier)
        earlier.append(replicated.get("name", ""))
    starts_in_order = in_order(spec, "startupPolicy", "startupPolicyOrder")
    if depends and starts_in_order:
        detail = "startupPolicy InOrder and dependsOn are mutually exclusive; say it with dependsOn and status Ready"
        problems.append(invalid(f"{path}.startupPolicy.startupPolicyOrder", "InOrder", detail))
    return problems + _execution(f"{path}.executionPolicy", spec, depends, starts_in_order)


def _dependencies(path: str, dependencies: Sequence[Part], earlier: Sequence[str]) -> list[FieldError]:
    problems = fields.unique(path, dependencies)
    for index, dependency in enumerate(dependencies):
        name = dependency.get("name", "")
        if name not in earlier:
            detail = "must be the name of an earlier entry of replicatedJobs"
            problems.append(invalid(f"{path}[{index}].name", name, detail))
    return problems


def _execution(path: str, spec: Part, depends: bool, starts_in_order: bool) -> list[FieldError]:
    policy: Part = spec.get("executionPolicy") or {}
    status, chained = policy.get("replicatedJobsStatus", ""), policy.get("executionPolicyOrder") == "InOrder"
    problems: list[FieldError] = []
    if status != SUCCEEDED and (status or chained):
        detail = (
            "InOrder waits for Succeeded alone; to wait until pods are ready, use "
            "replicatedJobs[].dependsOn with status Ready"
        )
        where = f"{path}.replicatedJobsStatus"
        problems.append(invalid(where, status, detail) if status else required(where, f"say {SUCCEEDED}"))
    if not chained:
        return problems
    if depends:
        detail = "InOrder and dependsOn are mutually exclusive; say the whole order with dependsOn and status Complete"
        problems.append(invalid(f"{path}.executionPolicyOrder", "InOrder", detail))
    if starts_in_order:
        detail = "InOrder and startupPolicy InOrder are mutually exclusive; leave startupPolicy out"
        problems.append(invalid(f"{path}.executionPolicyOrder", "InOrder", detail))
    return problems


def _known(spec: Part) -> list[str]:
    return [replicated.get("name", "") for replicated in spec.get("replicatedJobs") or ()]


def _targets(path: str, spec: Part, targets: Sequence[str] | None) -> list[FieldError]:
    known = _known(spec)
    return [
        invalid(f"{path}[{index}]", target, "must be the name of an entry of replicatedJobs")
        for index, target in enumerate(targets or ())
        if target not in known
    ]


def success(path: str, spec: Part) -> list[FieldError]:
    targets = (spec.get("successPolicy") or {}).get("targetReplicatedJobs")
    return _targets(f"{path}.successPolicy.targetReplicatedJobs", spec, targets)


def failure(path: str, spec: Part) -> list[FieldError]:
    policy: Part = spec.get("failurePolicy") or {}
    problems = _in_place(path, spec) if policy.get("restartStrategy") == "InPlaceRestart" else []
    path = f"{path}.failurePolicy"
    seen: dict[str, int] = {}
    for index, rule in enumerate(policy.get("rules") or ()):
        where = f"{path}.rules[{index}]"
        name = rule.get("name", "")
        problems += _rule_name(f"{where}.name", name)
        if seen.setdefault(name, index) != index:
            problems.append(duplicate(f"{where}.name", name))
        problems += _rule(where, spec, rule)
    return problems


def _in_place(path: str, spec: Part) -> list[FieldError]:
    """Pods restart in place and wait for each other: none may be replaced early, and all must run at the same time."""
    problems: list[FieldError] = []
    when = "when restartStrategy is InPlaceRestart"
    for index, replicated in enumerate(spec.get("replicatedJobs") or ()):
        where = f"{path}.replicatedJobs[{index}].template.spec"
        job: Part = (replicated.get("template") or {}).get("spec") or {}
        if job.get("backoffLimit") != fields.INT32_MAX:
            detail = f"must be {fields.INT32_MAX} {when}"
            problems.append(invalid(f"{where}.backoffLimit", job.get("backoffLimit"), detail))
        if job.get("podReplacementPolicy") != "Failed":
            policy = job.get("podReplacementPolicy")
            problems.append(invalid(f"{where}.podReplacementPolicy", policy, f"must be Failed {when}"))
        completions = job.get("completions")
        if completions is None or completions != job.get("parallelism"):
            detail = f"completions and parallelism must be set and equal to each other {when}"
            problems.append(invalid(f"{where}.completions", completions, detail))
    if sequenced(spec):
        detail = "InPlaceRestart holds all pods at one barrier, so replicatedJobs cannot start one after the other"
        problems.append(forbidden_field(f"{path}.failurePolicy.restartStrategy", detail))
    return problems


def _rule_name(path: str, name: str) -> list[FieldError]:
    if not 1 <= len(name) <= LONGEST_RULE_NAME:
        return [invalid(path, name, f"must be between 1 and {LONGEST_RULE_NAME} characters long")]
    if not _RULE_NAME.fullmatch(name):
        detail = f"must begin with a letter and end with a letter, a digit or '_': '{_RULE_NAME.pattern}'"
        return [invalid(path, name, detail)]
    return []


def _rule(path: str, spec: Part, rule: Part) -> list[FieldError]:
    problems = [
        not_supported(f"{path}.onJobFailureReasons[{index}]", reason, REASONS)
        for index, reason in enumerate(rule.get("onJobFailureReasons") or ())
        if reason not in REASONS
    ]
    for index, pattern in enumerate(rule.get("onJobFailureMessagePatterns") or ()):
        wrong = _expression(pattern)
        if wrong:
            problems.append(invalid(f"{path}.onJobFailureMessagePatterns[{index}]", pattern, wrong))
    if rule.get("action") in JOB_ACTIONS:
        problems += [
            invalid(f"{path}.action", rule["action"], f"{replicated.get('name')} has more than 1024 replicas")
            for replicated in spec.get("replicatedJobs") or ()
            if replicated.get("replicas", 1) > MOST_COUNTED_JOBS
        ]
    return problems + _targets(f"{path}.targetReplicatedJobs", spec, rule.get("targetReplicatedJobs"))


def _expression(pattern: str) -> str:
    """The error of a regular expression, "" if it is valid."""
    if _NOT_RE2.search(pattern):
        return "back references and look-around are not supported (RE2 syntax)"
    try:
        re.compile(pattern)
    except re.error as wrong:
        return f"not a regular expression: {wrong}"
    return ""


def coordinator(jobset: str, spec: Part) -> list[FieldError]:
    chosen: Part | None = spec.get("coordinator")
    if chosen is None:
        return []
    path, name = "spec.coordinator", chosen.get("replicatedJob", "")
    replicated = fields.by_name(spec.get("replicatedJobs")).get(name)
    if replicated is None:
        return [invalid(f"{path}.replicatedJob", name, "must be the name of an entry of replicatedJobs")]
    job: Part = (replicated.get("template") or {}).get("spec") or {}
    job_index, pod_index = chosen.get("jobIndex", 0), chosen.get("podIndex", 0)
    replicas, completions = replicated.get("replicas", 1), job.get("completions")
    problems: list[FieldError] = []
    if not 0 <= job_index < replicas:
        problems.append(invalid(f"{path}.jobIndex", job_index, f"must be below the {replicas} replicas of {name}"))
    if job.get("completionMode") != "Indexed" or completions is None:
        detail = "must be an Indexed job with completions set"
        problems.append(invalid(f"{path}.replicatedJob", name, detail))
    elif not 0 <= pod_index < completions:
        detail = f"must be below the {completions} completions of {name}"
        problems.append(invalid(f"{path}.podIndex", pod_index, detail))
    subdomain = (spec.get("network") or {}).get("subdomain") or jobset
    address = f"{jobset}-{name}-{job_index}-{pod_index}.{subdomain}"
    problems += [
        invalid(path, address, f"the coordinator's address must be a label value: {sentence}")
        for sentence in name_formats.label_value(address)
    ]
    return problems


def claims(jobset: str, spec: Part) -> list[FieldError]:
    problems: list[FieldError] = []
    seen: dict[str, str] = {}
    mounted, declared = _volume_names(spec)
    for where, _, template in claim_templates(spec):
        about: Part = template.get("metadata") or {}
        name = about.get("name", "")
        if about.get("namespace"):
            problems.append(forbidden_field(f"{where}.metadata.namespace", "must be empty"))
        where = f"{where}.metadata.name"
        problems += fields.needed(where, name, fields.long_name)
        if seen.setdefault(name, where) != where:
            problems.append(duplicate(where, name))
        if len(f"{name}-{jobset}") > LONGEST_NAME:
            problems.append(invalid(where, name, f"the claim {name}-{jobset} would exceed 63 characters"))
        if name not in mounted:
            problems.append(invalid(where, name, "must be mounted by at least one container"))
        if name in declared:
            problems.append(invalid(where, name, "must not be declared as a volume of a replicatedJob"))
    return problems


def claim_templates(spec: Part) -> Iterator[tuple[str, Part, Part]]:
    """Path, policy and template of every claim."""
    for outer, policy in enumerate(spec.get("volumeClaimPolicies") or ()):
        for inner, template in enumerate(policy.get("templates") or ()):
            yield f"spec.volumeClaimPolicies[{outer}].templates[{inner}]", policy, template


def _volume_names(spec: Part) -> tuple[list[str], list[str]]:
    """Volumes that containers mount, and volumes that pod templates declare."""
    mounted: list[str] = []
    declared: list[str] = []
    for replicated in spec.get("replicatedJobs") or ():
        job: Part = (replicated.get("template") or {}).get("spec") or {}
        pods: Part = (job.get("template") or {}).get("spec") or {}
        declared += [volume.get("name", "") for volume in pods.get("volumes") or ()]
        for field in ("containers", "initContainers"):
            for container in pods.get(field) or ():
                mounted += [mount.get("name", "") for mount in container.get("volumeMounts") or ()]
    return mounted, declared
