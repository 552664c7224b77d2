"""Rules of a TrainJob that need only the object itself, as `api.rules.trainer` has them.

Expressions say `p` for a runtime patch, `r` for a replicated job in it, and `q`, `s` for what these were.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...api.admission.trainjob import ADDED_LATER
from ...api.objects.vocabulary import (
    EXCLUSIVE_TOPOLOGY,
    PARENT_COMPOSITE,
    PREFERRED_TOPOLOGY,
    PROGRESS_REPORTS,
    REQUIRED_TOPOLOGY,
)
from ...api.rules.trainer import CONTROLLER, IMMUTABLE, IMMUTABLE_POD, MULTIKUEUE
from ...api.scheme import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, TRAINING_RUNTIMES
from .cel_rule import CelRule, RuleSet, Variable, equal_but
from .formats import dns1035_label, dns1123_subdomain, domain_prefixed_path, label_key
from .stages import stage_rules

#: Replicated jobs of patches are compared with what they were, each with each, up to this number: a server stops more.
_MOST_PATCHED_PAIRS = 100_000
_JOBS = "?trainingRuntimeSpec.?template.?spec.?replicatedJobs.orValue([])"

_VARIABLES = (
    Variable("spec", "object.?spec.orValue({})"),
    Variable("notes", "object.metadata.?annotations.orValue({})"),
    Variable("patches", "variables.spec.?runtimePatches.orValue([])"),
)
_OLD_VARIABLES = (
    *_VARIABLES,
    Variable("oldSpec", "oldObject.?spec.orValue({})"),
    Variable("oldNotes", "oldObject.metadata.?annotations.orValue({})"),
    Variable("oldPatches", "variables.oldSpec.?runtimePatches.orValue([])"),
    # Who sends a patch again need not know when it was made.
    Variable(
        "samePatches",
        "variables.patches.map(p, p.manager) == variables.oldPatches.map(p, p.manager) && variables.patches.all(p, "
        f"variables.oldPatches.all(q, q.manager != p.manager || ({equal_but('p', 'q', ['time'])})))",
    ),
    Variable(
        "paired",
        f"!variables.samePatches && variables.patches.map(p, size(p.{_JOBS}) * variables.oldPatches"
        f".filter(q, q.manager == p.manager).map(q, size(q.{_JOBS})).sum()).sum() <= {_MOST_PATCHED_PAIRS}",
    ),
    Variable("counts", "oldObject.?status.?jobsStatus.orValue([])"),
)
_POD = "?template.?spec.?template.?spec"
_POD_PATH = "spec.runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs[].template.spec.template.spec"

_SPEC = CelRule("spec", "Required value", "has(object.spec)")


def _storage_uri(part: str) -> CelRule:
    uri = f"variables.spec.?initializer.?{part}.?storageUri.orValue('')"
    return CelRule(
        f"spec.initializer.{part}.storageUri",
        "storageUri must be empty or have the form scheme://place, such as hf://org/repository",
        f"{uri} == '' || {uri}.matches(r'^[A-Za-z][A-Za-z0-9+.-]*://.+$')",
    )


_MANAGER = CelRule(
    "spec.runtimePatches[].manager",
    'must be a domain-prefixed path (such as "acme.io/foo")',
    f"variables.patches.all(p, {domain_prefixed_path('p.manager')})",
)


def progress_reports() -> CelRule:
    """Of TrainJobs and of runtimes."""
    return CelRule(
        f"metadata.annotations[{PROGRESS_REPORTS}]",
        "supported values: true, false",
        f"variables.notes[?'{PROGRESS_REPORTS}'].orValue('true') in ['true', 'false']",
    )


def _annotation_rules() -> Iterator[CelRule]:
    """What a TrainJob says about its group."""
    required, parent = f"variables.notes[?'{REQUIRED_TOPOLOGY}']", f"variables.notes[?'{PARENT_COMPOSITE}']"
    yield progress_reports()
    yield CelRule(
        f"metadata.annotations[{REQUIRED_TOPOLOGY}]",
        "must be the key of a node label",
        f"!{required}.hasValue() || {label_key(f'{required}.value()')}",
    )
    for name in (PREFERRED_TOPOLOGY, EXCLUSIVE_TOPOLOGY):
        keys = f"variables.notes[?'{name}'].orValue('').split(',').map(k, k.trim())"
        yield CelRule(
            f"metadata.annotations[{name}]",
            "must be keys of node labels",
            f"{keys}.all(k, k == '' || {label_key('k')})",
        )
    yield CelRule(
        f"metadata.annotations[{PARENT_COMPOSITE}]",
        "must be a DNS-1123 subdomain",
        f"!{parent}.hasValue() || {dns1123_subdomain(f'{parent}.value()')}",
    )
    for name in (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY):
        yield CelRule(
            f"metadata.annotations[{name}]",
            f"the group below that of {PARENT_COMPOSITE} is made from its Workload",
            f"!('{name}' in variables.notes) || !{parent}.hasValue()",
        )


TRAINJOB_CREATE = RuleSet(
    "trainjob-create",
    TRAIN_JOBS.group,
    TRAIN_JOBS.version,
    (TRAIN_JOBS.plural,),
    ("CREATE",),
    _VARIABLES,
    (
        _SPEC,
        CelRule("metadata.name", "must be a DNS-1035 label", dns1035_label("object.metadata.name")),
        CelRule(
            "spec.managedBy",
            f"ManagedBy must be {CONTROLLER} or {MULTIKUEUE} if set",
            f"variables.spec.?managedBy.orValue('{CONTROLLER}') in {[CONTROLLER, MULTIKUEUE]}",
        ),
        _storage_uri("dataset"),
        _storage_uri("model"),
        CelRule(
            "spec.runtimeRef",
            f"must be a {TRAINING_RUNTIMES.kind} or {CLUSTER_TRAINING_RUNTIMES.kind} of {TRAIN_JOBS.group}",
            f"variables.spec.?runtimeRef.?apiGroup.orValue('{TRAIN_JOBS.group}') == '{TRAIN_JOBS.group}'"
            f" && variables.spec.?runtimeRef.?kind.orValue('{CLUSTER_TRAINING_RUNTIMES.kind}')"
            f" in {[TRAINING_RUNTIMES.kind, CLUSTER_TRAINING_RUNTIMES.kind]}",
        ),
        _MANAGER,
        *_annotation_rules(),
        *stage_rules(),
    ),
)


def _kept(field: str) -> CelRule:
    """A value stays where both have one; adding and removing is another rule."""
    new, old = f"variables.spec.?{field}", f"variables.oldSpec.?{field}"
    return CelRule(f"spec.{field}", "field is immutable", f"!{new}.hasValue() || !{old}.hasValue() || {new} == {old}")


def _kept_in_patch(field: str) -> CelRule:
    new, old = f"r.{_POD}.?{field}", f"s.{_POD}.?{field}"
    same = f"!{new}.hasValue() || !{old}.hasValue() || {new} == {old}"
    jobs = f"p.{_JOBS}.all(r, q.{_JOBS}.all(s, s.name != r.name || {same}))"
    patches = f"variables.patches.all(p, variables.oldPatches.all(q, q.manager != p.manager || {jobs}))"
    return CelRule(f"{_POD_PATH}.{field}", "field is immutable", f"!variables.paired || {patches}")


TRAINJOB_CHANGE = RuleSet(
    "trainjob-change",
    TRAIN_JOBS.group,
    TRAIN_JOBS.version,
    (TRAIN_JOBS.plural,),
    ("UPDATE",),
    _OLD_VARIABLES,
    (
        _SPEC,
        *(_kept(field) for field in IMMUTABLE),
        *(_kept_in_patch(field) for field in IMMUTABLE_POD),
        _MANAGER.only_if("!variables.samePatches"),
        CelRule(
            "spec.runtimePatches",
            "can only be modified while the TrainJob is suspended",
            "variables.samePatches || variables.spec.?suspend.orValue(false)"
            " || variables.oldSpec.?suspend.orValue(false)",
        ),
        CelRule(
            "spec.runtimePatches",
            "cannot be modified while a replicated job is active",
            "variables.samePatches || variables.counts.all(c, c.?active.orValue(0) == 0)",
        ),
        *(
            CelRule(
                f"spec.{field}",
                "may not be added or removed once the TrainJob has a JobSet",
                f"size(variables.counts) == 0 || has(variables.spec.{field}) == has(variables.oldSpec.{field})",
            )
            for field in ADDED_LATER
        ),
        *stage_rules(changed=True),
    ),
)
