"""Rules of the scheduling fields that PodGroup, CompositePodGroup, the templates of a Workload, and `spec.scheduling`
of Job and JobSet share.

    schedulingPolicy       basic, or gang with a minimum
    schedulingConstraints  at most one topology key
    disruptionMode         single or all
    resourceClaims         at most four
    priority…              class name, number, preemption policy
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import FieldError, required
from ..objects.vocabulary import EXCLUSIVE_TOPOLOGY, PREFERRED_TOPOLOGY
from . import fields

POLICIES = ("basic", "gang")
MODES = ("single", "all")
CLAIM_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
PREEMPTION_POLICIES = ("Never", "PreemptLowerPriority")
MAX_TOPOLOGY_KEYS = 1
MAX_CLAIMS = 4
HIGHEST_USER_PRIORITY = 1_000_000_000

Part = Mapping[str, Any]


def policy(path: str, value: Part | None, minimum: str, *, minimum_needed: bool = True) -> list[FieldError]:
    """`minimum` is the name of the gang's count: minCount over pods, minGroupCount over groups."""
    problems = fields.union(path, value, POLICIES)
    if value is None or "gang" not in value:
        return problems
    least = value["gang"].get(minimum)
    where = f"{path}.gang.{minimum}"
    if minimum_needed:
        return problems + fields.count(where, least)
    return problems + (fields.at_least(where, least, 1) if least is not None else [])


def constraints(path: str, value: Part | None) -> list[FieldError]:
    topology: Sequence[Part] = (value or {}).get("topology") or ()
    problems = fields.no_more_than(f"{path}.topology", topology, MAX_TOPOLOGY_KEYS)
    if problems:
        return problems
    for index, level in enumerate(topology):
        problems += fields.needed(f"{path}.topology[{index}].key", level.get("key"), fields.label_key)
    return problems


def annotated_keys(annotations: Part) -> list[FieldError]:
    """Topology keys in the annotations of a group; one without a name would be preferred in vain."""
    problems: list[FieldError] = []
    for name, keys in (
        (EXCLUSIVE_TOPOLOGY, [annotations.get(EXCLUSIVE_TOPOLOGY, "")]),
        (PREFERRED_TOPOLOGY, annotations.get(PREFERRED_TOPOLOGY, "").split(",")),
    ):
        for key in filter(None, map(str.strip, keys)):
            problems += fields.label_key(f"metadata.annotations[{name}]", key)
    return problems


def mode(path: str, value: Part | None) -> list[FieldError]:
    return [] if value is None else fields.union(path, value, MODES)


def claims(path: str, value: Sequence[Part] | None) -> list[FieldError]:
    value = value or ()
    problems = fields.no_more_than(path, value, MAX_CLAIMS)
    if problems:
        return problems
    problems = fields.unique(path, value)
    for index, claim in enumerate(value):
        where = f"{path}[{index}]"
        problems += fields.needed(f"{where}.name", claim.get("name"), fields.short_name)
        problems += fields.union(where, claim, CLAIM_SOURCES)
        for source in CLAIM_SOURCES:
            if source in claim:
                problems += fields.long_name(f"{where}.{source}", claim[source])
    return problems


def priority(path: str, spec: Part) -> list[FieldError]:
    problems = fields.optional(f"{path}.priorityClassName", spec.get("priorityClassName"), fields.long_name)
    if "priority" in spec:
        problems += fields.at_most(f"{path}.priority", spec["priority"], HIGHEST_USER_PRIORITY)
    if "preemptionPolicy" in spec:
        problems += fields.one_of(f"{path}.preemptionPolicy", spec["preemptionPolicy"], PREEMPTION_POLICIES)
    return problems


def group(path: str, spec: Part, minimum: str) -> list[FieldError]:
    """All of the above for one group or template."""
    return [
        *policy(f"{path}.schedulingPolicy", spec.get("schedulingPolicy"), minimum),
        *constraints(f"{path}.schedulingConstraints", spec.get("schedulingConstraints")),
        *claims(f"{path}.resourceClaims", spec.get("resourceClaims")),
        *mode(f"{path}.disruptionMode", spec.get("disruptionMode")),
        *priority(path, spec),
    ]


#: Immutable fields of a group; the policy has its own rules.
FROZEN = (
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
)


def policy_update(path: str, new: Part | None, old: Part | None, minimum: str) -> list[FieldError]:
    """The policy type is immutable; the minimum of a gang may change."""
    new, old = new or {}, old or {}
    problems = fields.union(path, new, POLICIES)
    problems += fields.frozen(f"{path}.basic", new.get("basic"), old.get("basic"))
    problems += fields.shape_frozen(f"{path}.gang", new.get("gang"), old.get("gang"))
    if not problems and new != old:
        problems += fields.count(f"{path}.gang.{minimum}", new["gang"].get(minimum))
    return problems


def group_update(path: str, new: Part, old: Part, minimum: str) -> list[FieldError]:
    problems = policy_update(
        f"{path}.schedulingPolicy", new.get("schedulingPolicy"), old.get("schedulingPolicy"), minimum
    )
    for field in FROZEN:
        problems += fields.frozen(f"{path}.{field}", new.get(field), old.get(field))
    return problems


def workload_reference(path: str, value: Part | None, *, reference_needed: bool) -> list[FieldError]:
    if value is None:
        return [required(path)] if reference_needed else []
    return [
        *fields.needed(f"{path}.workloadName", value.get("workloadName"), fields.long_name),
        *fields.needed(f"{path}.templateName", value.get("templateName"), fields.short_name),
    ]


def all_over_basic(path: str, spec: Part) -> list[str]:
    """Warning: members of a basic group start one by one but are evicted together."""
    if "all" in (spec.get("disruptionMode") or {}) and "basic" in (spec.get("schedulingPolicy") or {}):
        return [
            f"{path}.disruptionMode: `all` together with the basic policy: members start one by one "
            "but are evicted together; use the gang policy if they need each other"
        ]
    return []
