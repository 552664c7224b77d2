"""Rules of `spec.scheduling` of a JobSet: see `api.rules.jobset_scheduling`.

They need the variables `spec`, `jobs`, `names` and `sequenced`.
"""

from __future__ import annotations

from ...api.rules.jobset_scheduling import TERMS
from ...api.rules.workload import MAX_TEMPLATES
from .cel_rule import CelRule, Variable
from .grouping_rules import level_rules

_PATH = "spec.scheduling"
_ENTRY = f"{_PATH}.replicatedJobs[]"
_JOB = f"{_ENTRY}.job"

_PARALLELISM = "j.?template.?spec.?parallelism.orValue(1)"
_COMPLETIONS = "j.?template.?spec.?completions"
_PER_JOB = (
    f"({_COMPLETIONS}.hasValue() && {_COMPLETIONS}.value() < {_PARALLELISM} ? {_COMPLETIONS}.value() : {_PARALLELISM})"
)
_REPLICAS = "j.?replicas.orValue(1)"
_IS_TARGET = "j.name in e.?targetReplicatedJobs.orValue([])"
_CLASS = "j.?template.?spec.?template.?spec.?priorityClassName.orValue('')"

GROUPING_VARIABLES = (
    Variable("grouping", "variables.spec.?scheduling.orValue({})"),
    Variable("entries", "variables.grouping.?replicatedJobs.orValue([])"),
    # A gang of gangs: the top counts entries, an entry counts its Jobs.
    Variable("nested", f"size(variables.entries) > 0 && {list(TERMS)}.exists(t, t in variables.grouping)"),
    Variable("gang", "variables.grouping.?schedulingPolicy.?gang.orValue({})"),
)


def _each_entry(condition: str) -> str:
    return f"variables.entries.all(e, {condition})"


def _on_whole(condition: str) -> str:
    return f"[variables.grouping].all(g, {condition})"


def _on_entries(condition: str) -> str:
    """Of entries that are groups themselves: those without `job`, or above a group per Job."""
    return f"variables.entries.all(g, has(g.job) && !variables.nested || ({condition}))"


def _on_jobs(condition: str) -> str:
    return f"variables.entries.filter(e, has(e.job)).map(e, e.job).all(g, {condition})"


def _gang(level: str, field: str) -> str:
    return f"{level}.?schedulingPolicy.?gang.?{field}"


def _total(condition: str, count: str) -> str:
    return f"variables.jobs.filter(j, {condition}).map(j, int({count})).sum()"


_TEMPLATE_RULES = (
    CelRule(
        "spec.replicatedJobs[].template.spec.scheduling",
        "may not be set together with spec.scheduling",
        "variables.jobs.all(j, !j.?template.?spec.?scheduling.hasValue())",
    ),
    CelRule(
        "spec.replicatedJobs[].template.spec.template.spec.schedulingGroup",
        "may not be set together with spec.scheduling",
        "variables.jobs.all(j, !j.?template.?spec.?template.?spec.?schedulingGroup.hasValue())",
    ),
    CelRule(
        "spec.replicatedJobs[].template.spec.template.spec.priorityClassName",
        "must be as in the first entry: with spec.scheduling all pods have one priority",
        f"variables.jobs.all(j, {_CLASS} == variables.jobs[0].?template.?spec.?template.?spec"
        ".?priorityClassName.orValue(''))",
    ),
)

_WHOLE_RULES = (
    CelRule(
        f"{_PATH}.schedulingPolicy.gang.minCount",
        "must not be greater than the number of pods of the JobSet",
        f"size(variables.entries) > 0 || variables.gang.?minCount.orValue(0) <= "
        f"{_total('true', f'{_REPLICAS} * {_PER_JOB}')}",
    ),
    CelRule(
        f"{_PATH}.schedulingPolicy.gang.minGroupCount",
        "this gang is one of pods; use minCount",
        "size(variables.entries) > 0 || !has(variables.gang.minGroupCount)",
    ),
    CelRule(
        f"{_PATH}.schedulingPolicy.gang.minCount",
        "may not be set when replicatedJobs start one after the other: each is a gang of its own",
        "size(variables.entries) > 0 || !variables.sequenced || !has(variables.gang.minCount)",
    ),
    CelRule(
        "spec.replicatedJobs",
        f"a Workload holds at most {MAX_TEMPLATES} templates, this order needs one per replicatedJob",
        "size(variables.entries) > 0 || !variables.sequenced || variables.grouping.?schedulingPolicy.?basic.hasValue()"
        f" || size(variables.jobs) <= {MAX_TEMPLATES}",
    ),
    CelRule(
        f"{_PATH}.schedulingPolicy.gang.minGroupCount",
        "must not be greater than the number of entries of replicatedJobs",
        "!variables.nested || variables.gang.?minGroupCount.orValue(0) <= size(variables.entries)",
    ),
    CelRule(
        f"{_PATH}.schedulingPolicy.gang.minCount",
        "this gang is one of groups; use minGroupCount",
        "!variables.nested || !has(variables.gang.minCount)",
    ),
    CelRule(
        f"{_PATH}.replicatedJobs",
        f"a Workload holds at most {MAX_TEMPLATES} templates",
        f"size(variables.entries) <= {MAX_TEMPLATES}",
    ),
)

_COVERAGE_RULES = (
    CelRule(
        f"{_ENTRY}.targetReplicatedJobs[]",
        "must be the name of an entry of spec.replicatedJobs",
        _each_entry("e.targetReplicatedJobs.all(t, t in variables.names)"),
    ),
    CelRule(
        f"{_PATH}.replicatedJobs",
        "every replicatedJob must be in exactly one entry",
        f"size(variables.entries) == 0 || variables.jobs.all(j, variables.entries.exists_one(e, {_IS_TARGET}))",
    ),
    CelRule(
        _JOB,
        "with a policy at the top, every entry groups its Jobs: a gang of gangs",
        "!variables.nested || " + _each_entry("has(e.job)"),
    ),
    CelRule(
        f"{_ENTRY}.targetReplicatedJobs",
        "`job` needs exactly one target",
        _each_entry("!has(e.job) || size(e.targetReplicatedJobs) == 1"),
    ),
)

_ENTRY_RULES = (
    CelRule(
        f"{_ENTRY}.schedulingPolicy.gang.minCount",
        "must not be greater than the number of pods of its targets",
        _each_entry(
            f"has(e.job) || {_gang('e', 'minCount')}.orValue(0) <= {_total(_IS_TARGET, f'{_REPLICAS} * {_PER_JOB}')}"
        ),
    ),
    CelRule(
        f"{_ENTRY}.schedulingPolicy.gang.minGroupCount",
        "this gang is one of pods; use minCount",
        _each_entry(f"has(e.job) || !{_gang('e', 'minGroupCount')}.hasValue()"),
    ),
    CelRule(
        f"{_ENTRY}.schedulingPolicy.gang.minGroupCount",
        "must not be greater than the number of its Jobs",
        _each_entry(f"!has(e.job) || {_gang('e', 'minGroupCount')}.orValue(0) <= {_total(_IS_TARGET, _REPLICAS)}"),
    ),
    CelRule(
        f"{_ENTRY}.schedulingPolicy.gang.minCount",
        "this gang is one of groups; use minGroupCount",
        _each_entry(f"!has(e.job) || !{_gang('e', 'minCount')}.hasValue()"),
    ),
    *(
        CelRule(
            f"{_ENTRY}.{term}", "set it in `job`", _each_entry(f"!has(e.job) || variables.nested || !has(e.{term})")
        )
        for term in TERMS
    ),
    CelRule(f"{_ENTRY}.resourceClaims", "set it in `job`", _each_entry("!has(e.job) || !has(e.resourceClaims)")),
    CelRule(
        f"{_JOB}.schedulingPolicy.gang.minCount",
        "must be at least 1 and not greater than the number of pods of each Job",
        _each_entry(
            f"{_gang('e.?job', 'minCount')}.orValue(1) >= 1"
            f" && {_gang('e.?job', 'minCount')}.orValue(0) <= {_total(_IS_TARGET, _PER_JOB)}"
        ),
    ),
    CelRule(
        f"{_JOB}.schedulingPolicy.gang.minGroupCount",
        "this gang is one of pods; use minCount",
        _each_entry(f"!{_gang('e.?job', 'minGroupCount')}.hasValue()"),
    ),
)

GROUPING_RULES = tuple(
    rule.only_if("has(variables.spec.scheduling)")
    for rule in (
        *_TEMPLATE_RULES,
        *_WHOLE_RULES,
        *_COVERAGE_RULES,
        *_ENTRY_RULES,
        *level_rules(_PATH, _on_whole, claims=False),
        *level_rules(_ENTRY, _on_entries, claims=True),
        *level_rules(_JOB, _on_jobs, claims=True),
    )
)
