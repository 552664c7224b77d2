"""Rules of Job: generated selector, validation of the spec, allowed changes.

Its policies (pod failure, success) are checked in `job_policies`, its status in `job_status`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ..errors import FieldError, invalid, not_supported, required, too_long
from ..objects import meta, name_formats
from ..objects.selectors import LabelSelector
from ..objects.vocabulary import CONTROLLER_UID, JOB_NAME
from ..scheme import Object
from . import fields, grouping, job_policies, job_status, metadata, pod_placement, podspec
from .kind import KindRules

LEGACY_JOB_NAME, LEGACY_CONTROLLER_UID = "job-name", "controller-uid"
INDEXED, NON_INDEXED = "Indexed", "NonIndexed"
MOST_PARALLEL = 100_000
MANY_COMPLETIONS = 100_000
MOST_WITH_MANY = 10_000
LONGEST_MANAGER = 63
#: Fixed at creation.
IMMUTABLE = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")

Part = Mapping[str, Any]


def _own_labels(obj: Object) -> dict[str, str]:
    """The labels by which a Job finds its pods."""
    name, uid = meta.name(obj), meta.uid(obj)
    return {JOB_NAME: name, LEGACY_JOB_NAME: name, CONTROLLER_UID: uid, LEGACY_CONTROLLER_UID: uid}


def _default(obj: Object, old: Object | None) -> None:
    """Generate selector and labels on creation, unless the user manages them."""
    spec = obj.setdefault("spec", {})
    if old is not None or spec.get("manualSelector"):
        return
    template = spec.setdefault("template", {}).setdefault("metadata", {})
    template["labels"] = {**_own_labels(obj), **(template.get("labels") or {})}
    selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
    selector.setdefault(CONTROLLER_UID, meta.uid(obj))
    if not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(template["labels"])


def _validate(obj: Object) -> list[FieldError]:
    return _generated(obj, None) + check_spec(obj.get("spec") or {}) + _hostnames(obj)


def _generated(obj: Object, old: Object | None) -> list[FieldError]:
    """A generated selector requires the labels that were generated with it."""
    spec = obj.get("spec") or {}
    if spec.get("manualSelector"):
        return []
    expected = _own_labels(obj)
    if old is not None:
        had = _template_labels(old.get("spec") or {})
        expected = {key: value for key, value in expected.items() if "/" not in key or key in had}
    labels = _template_labels(spec)
    problems: list[FieldError] = []
    for key, value in expected.items():
        where = f"spec.template.labels[{key}]"
        if key not in labels:
            problems.append(required(where, f"must be '{value}'"))
        elif labels[key] != value:
            problems.append(invalid(where, labels[key], f"must be '{value}'"))
    selector = spec.get("selector") or {}
    readable = not pod_placement.label_selector("spec.selector", selector)
    if readable and not LabelSelector.from_object(selector).matches(_own_labels(obj)):
        problems.append(invalid("spec.selector", selector, "`selector` not auto-generated"))
    return problems


def _template_labels(spec: Part) -> Mapping[str, str]:
    return ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}


def _hostnames(obj: Object) -> list[FieldError]:
    """Pod names of an Indexed Job are host names, so the longest must be a DNS label."""
    spec, name = obj.get("spec") or {}, meta.name(obj)
    completions = spec.get("completions") or 0
    if spec.get("completionMode") != INDEXED or completions <= 0:
        return []
    last = f"{name}-{completions - 1}"
    if not name_formats.dns1123_label(last):
        return []
    return [invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {last}")]


def check_spec(spec: Part) -> list[FieldError]:
    problems = _selector(spec)
    for field in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
                  "backoffLimitPerIndex", "maxFailedIndexes"):  # fmt: skip
        problems += fields.not_negative(f"spec.{field}", spec.get(field))
    problems += managed_by(spec.get("managedBy")) + _mode(spec) + _template(spec)
    if "podFailurePolicy" in spec:
        problems += job_policies.pod_failure("spec.podFailurePolicy", spec)
    if "successPolicy" in spec:
        problems += job_policies.success("spec.successPolicy", spec)
    problems += _replacement(spec)
    return problems + scheduling_problems(spec)


def _selector(spec: Part) -> list[FieldError]:
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    problems = pod_placement.label_selector("spec.selector", selector)
    labels = _template_labels(spec)
    if not problems and not LabelSelector.from_object(selector).matches(labels):
        detail = "`selector` does not match template `labels`"
        problems.append(invalid("spec.template.metadata.labels", labels, detail))
    return problems


def managed_by(manager: str | None) -> list[FieldError]:
    """`spec.managedBy` of Jobs and JobSets."""
    if manager is None:
        return []
    problems = domain_prefixed_path("spec.managedBy", manager)
    if len(manager) > LONGEST_MANAGER:
        problems.append(too_long("spec.managedBy", LONGEST_MANAGER))
    return problems


def domain_prefixed_path(path: str, value: str) -> list[FieldError]:
    """`acme.io/name`: a DNS subdomain, a slash, something."""
    if not value:
        return [required(path)]
    domain, slash, rest = value.partition("/")
    if not slash or not domain or not rest:
        return [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    return [invalid(path, value, sentence) for sentence in name_formats.dns1123_subdomain(domain)]


def _mode(spec: Part) -> list[FieldError]:
    mode = spec.get("completionMode", NON_INDEXED)
    if mode not in (NON_INDEXED, INDEXED):
        return [not_supported("spec.completionMode", mode, (NON_INDEXED, INDEXED))]
    problems: list[FieldError] = []
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        problems.append(required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if mode == INDEXED:
        return problems + _indexed(spec)
    at_once = min(spec.get("parallelism", 1), spec.get("completions", fields.INT32_MAX))
    problems += fields.at_most("spec.parallelism", at_once, MOST_PARALLEL)
    return problems + [
        invalid(f"spec.{field}", spec[field], "requires indexed completion mode")
        for field in ("backoffLimitPerIndex", "maxFailedIndexes")
        if field in spec
    ]


def _indexed(spec: Part) -> list[FieldError]:
    completions, most_failed = spec.get("completions"), spec.get("maxFailedIndexes")
    parallelism = spec.get("parallelism", 1)
    if completions is None:
        return [required("spec.completions", "when completion mode is Indexed")]
    problems = fields.at_most("spec.parallelism", parallelism, MOST_PARALLEL)
    if most_failed is not None:
        if most_failed > completions:
            problems.append(invalid("spec.maxFailedIndexes", most_failed, "must be less than or equal to completions"))
        problems += fields.at_most("spec.maxFailedIndexes", most_failed, MANY_COMPLETIONS)
    if completions > MANY_COMPLETIONS and "backoffLimitPerIndex" in spec:
        used = "when completions are above 100000 and used with backoff limit per index"
        if most_failed is None:
            problems.append(required("spec.maxFailedIndexes", "must be specified when completions is above 100000"))
        elif most_failed > MOST_WITH_MANY:
            problems.append(
                invalid("spec.maxFailedIndexes", most_failed, f"must be less than or equal to 10000 {used}")
            )
        if parallelism > MOST_WITH_MANY:
            problems.append(invalid("spec.parallelism", parallelism, f"must be less than or equal to 10000 {used}"))
    return problems


def _replacement(spec: Part) -> list[FieldError]:
    policy = spec.get("podReplacementPolicy")
    if policy is None:
        return []
    allowed = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    return fields.one_of("spec.podReplacementPolicy", policy, allowed)


def _template(spec: Part) -> list[FieldError]:
    template = spec.get("template") or {}
    about, pods = template.get("metadata") or {}, template.get("spec") or {}
    problems = [
        *metadata.check_labels("spec.template.labels", about.get("labels")),
        *metadata.check_annotations("spec.template.annotations", about.get("annotations")),
        *podspec.check("spec.template.spec", pods),
    ]
    if pods.get("restartPolicy", "Always") == "Always":
        where = "spec.template.spec.restartPolicy"
        problems = [problem for problem in problems if problem.field != where]
        problems.append(required(where, 'valid values: "OnFailure", "Never"'))
    return problems


def scheduling_problems(spec: Part) -> list[FieldError]:
    """What is wrong with `scheduling` in the spec of a Job."""
    scheduling = spec.get("scheduling")
    if scheduling is None:
        return []
    path = "spec.scheduling"
    problems: list[FieldError] = []
    policy = scheduling.get("schedulingPolicy")
    if policy is not None:
        problems += grouping.policy(f"{path}.schedulingPolicy", policy, "minCount", minimum_needed=False)
    problems += grouping.constraints(f"{path}.schedulingConstraints", scheduling.get("schedulingConstraints"))
    problems += grouping.mode(f"{path}.disruptionMode", scheduling.get("disruptionMode"))
    problems += grouping.claims(f"{path}.resourceClaims", scheduling.get("resourceClaims"))
    least = ((policy or {}).get("gang") or {}).get("minCount")
    for field, most in (("parallelism", spec.get("parallelism", 1)), ("completions", spec.get("completions"))):
        if least is not None and most is not None and least > most:
            detail = f"must not be greater than {field} ({most})"
            problems.append(invalid(f"{path}.schedulingPolicy.gang.minCount", least, detail))
            break
    if "gang" not in (policy or {}) and "all" in (scheduling.get("disruptionMode") or {}):
        problems.append(invalid(f"{path}.disruptionMode", "all", "must not be `all` with the basic policy"))
    return problems


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    now, was = new.get("spec") or {}, old.get("spec") or {}
    problems = _generated(new, old) + check_spec(now) + _hostnames(new) + _completions(now, was)
    for field in IMMUTABLE:
        if now.get(field) != was.get(field):
            problems.append(invalid(f"spec.{field}", now.get(field), "field is immutable"))
    if _outside_window(now.get("template") or {}, old) != was.get("template"):
        problems.append(invalid("spec.template", now.get("template"), "field is immutable"))
    return problems + scheduling_update(now.get("scheduling"), was.get("scheduling"))


def _completions(new: Part, old: Part) -> list[FieldError]:
    """An Indexed Job is elastic: completions may change together with parallelism."""
    completions = new.get("completions")
    if completions == old.get("completions"):
        return []
    if new.get("completionMode") != INDEXED:
        return [invalid("spec.completions", completions, "field is immutable")]
    if completions != new.get("parallelism"):
        return [invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")]
    return []


def template_is_open(old: Object) -> bool:
    """Whether the template may be changed: the Job is suspended and has no active pods."""
    status = old.get("status") or {}
    if not (old.get("spec") or {}).get("suspend") or status.get("active"):
        return False
    return "startTime" not in status or meta.condition_is(old, "Suspended")


def _outside_window(template: Object, old: Object) -> Object:
    """The new template with the currently mutable fields restored; any other difference is an error."""
    was: Object = old["spec"].get("template") or {}
    if not template_is_open(old):
        return template
    result: Object = copy.deepcopy(template)
    _put_back(result.setdefault("metadata", {}), was.get("metadata") or {}, ("labels", "annotations"))
    pods, pods_were = result.setdefault("spec", {}), was.get("spec") or {}
    _put_back(pods, pods_were, ("nodeSelector", "tolerations", "schedulingGates"))
    affinity: Object = {**(pods.pop("affinity", None) or {})}
    _put_back(affinity, pods_were.get("affinity") or {}, ("nodeAffinity",))
    if affinity or "affinity" in pods_were:
        pods["affinity"] = affinity
    for field in ("containers", "initContainers"):
        for container, container_was in zip(pods.get(field) or (), pods_were.get(field) or (), strict=False):
            _put_back(container, container_was, ("resources",))
    if not result["metadata"] and "metadata" not in was:
        del result["metadata"]
    return result


def _put_back(part: Object, was: Part, names_of_fields: tuple[str, ...]) -> None:
    for field in names_of_fields:
        part.pop(field, None)
        if field in was:
            part[field] = was[field]


def scheduling_update(new: Part | None, old: Part | None, *, policy_frozen: bool = True) -> list[FieldError]:
    path = "spec.scheduling"
    problems = fields.shape_frozen(path, new, old)
    if problems or new is None or old is None:
        return problems
    policy, policy_was = new.get("schedulingPolicy"), old.get("schedulingPolicy")
    problems = fields.shape_frozen(f"{path}.schedulingPolicy", policy, policy_was)
    if policy_frozen and policy is not None and policy_was is not None:
        for member in grouping.POLICIES:
            where = f"{path}.schedulingPolicy.{member}"
            problems += fields.shape_frozen(where, policy.get(member), policy_was.get(member))
    for field in ("schedulingConstraints", "disruptionMode", "resourceClaims"):
        problems += fields.frozen(f"{path}.{field}", new.get(field), old.get(field))
    return problems


def _warnings(obj: Object) -> list[str]:
    spec, found = obj.get("spec") or {}, []
    complaints = name_formats.dns1123_label(meta.name(obj))
    if complaints:
        found.append(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
            f"a DNS label is recommended: [{' '.join(complaints)}]"
        )
    indexed = spec.get("completionMode") == INDEXED
    if indexed and (spec.get("completions") or 0) > MANY_COMPLETIONS and spec.get("parallelism", 1) > MOST_WITH_MANY:
        found.append(
            "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
            "a Kubernetes cluster might not be able to track completedIndexes"
        )
    return found


JOB = KindRules(
    default=_default,
    validate_create=_validate,
    validate_update=_validate_update,
    validate_status=job_status.check,
    warnings=_warnings,
)
