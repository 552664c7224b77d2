"""What a JobSet may do beside other objects: reuse of volume claims, and features that the plane has switched off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...base import quantity
from ..errors import FieldError, forbidden_field, invalid, invalid_object
from ..objects import meta
from ..objects.subtree import items, mapping
from ..rules import jobset_policies, jobset_update
from ..scheme import JOB_SETS, VOLUME_CLAIMS, Object
from .feature_gates import ELASTIC_JOB_SET, IN_PLACE_RESTART, MUTABLE_RESOURCES, RESTART_JOB
from .reader import Reader


def check_create(obj: Object, reader: Reader) -> None:
    """422 for a feature that is off, and for a claim that exists and cannot be what the JobSet wants."""
    problems = [*_switched_off(obj, reader.disabled_features), *_claims(obj, reader)]
    if problems:
        raise invalid_object(JOB_SETS, meta.name(obj), problems)


def check_update(new: Object, old: Object, reader: Reader) -> None:
    """422 for changes that need a feature that is off."""
    off = reader.disabled_features
    resized = ELASTIC_JOB_SET in off and jobset_update.resized(new, old)
    if resized or (MUTABLE_RESOURCES in off and jobset_update.resources(new) != jobset_update.resources(old)):
        names = [entry.get("name") for entry in items(new, "spec", "replicatedJobs")]
        raise invalid_object(JOB_SETS, meta.name(new), [invalid("spec.replicatedJobs", names, "field is immutable")])


def _switched_off(obj: Object, off: frozenset[str]) -> Iterator[FieldError]:
    path, policy = "spec.failurePolicy", mapping(obj, "spec", "failurePolicy")
    if IN_PLACE_RESTART in off and policy.get("restartStrategy") == IN_PLACE_RESTART:
        yield forbidden_field(f"{path}.restartStrategy", f"the feature {IN_PLACE_RESTART} is switched off")
    for index, rule in enumerate(items(policy, "rules")):
        if RESTART_JOB in off and rule.get("action") in jobset_policies.JOB_ACTIONS:
            yield forbidden_field(f"{path}.rules[{index}].action", f"the feature {RESTART_JOB} is switched off")


def _claims(obj: Object, reader: Reader) -> Iterator[FieldError]:
    """A claim that exists is used again if it was to be kept and is as the template says."""
    for where, policy, template in jobset_policies.claim_templates(mapping(obj, "spec")):
        own = mapping(template, "metadata").get("name", "")
        name = f"{own}-{meta.name(obj)}"
        found = reader.get(VOLUME_CLAIMS, name, meta.namespace(obj))
        if found is None or _of_an_earlier_one(found, obj):
            continue
        if mapping(policy, "retentionPolicy").get("whenDeleted") != "Retain":
            detail = f"PersistentVolumeClaim {name} exists; it is used only with retentionPolicy.whenDeleted Retain"
            yield invalid(f"{where}.metadata.name", own, detail)
        elif not _fits(mapping(template, "spec"), mapping(found, "spec")):
            detail = f"PersistentVolumeClaim {name} exists with another spec"
            yield invalid(f"{where}.spec", template.get("spec"), detail)


def _of_an_earlier_one(claim: Object, obj: Object) -> bool:
    """Whether a claim belongs to a JobSet of the same name that is gone: it is about to go too, and is made anew."""
    owner = meta.controller_of(claim)
    return owner is not None and (owner["kind"], owner["name"]) == (JOB_SETS.kind, meta.name(obj))


def _fits(wanted: Any, found: Any) -> bool:
    """Whether everything that a template says is so; what it leaves open may be anything."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_fits(value, found.get(name)) for name, value in wanted.items())
    return quantity.same(wanted, found)
