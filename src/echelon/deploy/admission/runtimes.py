"""Rules of the two kinds of training runtime, as `api.rules.trainer` and `trainer_scheduling` have them.

Expressions say `j` for a replicated job of the template, `e` for an entry of spec.scheduling.replicatedJobs.  A runtime
without a template runs on a built-in one, which the server does not know: what is said about its jobs is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...api.admission.trainjob import WEBHOOK_SWITCH
from ...api.objects.vocabulary import (
    GANG_START,
    JOBSET_EXCLUSIVE_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    TRAINJOB_ANCESTOR_STEP,
)
from ...api.rules.trainer import DATASET, FRAMEWORKS, GANG_SOURCES, IMMUTABLE_TEMPLATE, MODEL, STEP_CONTAINERS
from ...api.rules.workload import MAX_TEMPLATES
from ...api.scheme import CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES
from .cel_rule import CelRule, RuleSet, Variable
from .grouping_rules import level_rules
from .jobset import order_rules
from .trainjob import progress_reports

_PATH = "spec.scheduling"
_ENTRY = f"{_PATH}.replicatedJobs[]"
_TEMPLATE = "spec.template.spec"
_CLASS = "?template.?spec.?template.?spec.?priorityClassName.orValue('')"
_STEP = f"j.?template.?metadata.?labels[?'{TRAINJOB_ANCESTOR_STEP}'].orValue('')"
_TARGETS = "e.?targetReplicatedJobs.orValue([])"

_VARIABLES = (
    Variable("runtime", "object.?spec.orValue({})"),
    # The JobSet of the template, by the names that rules of JobSets use.
    Variable("spec", "variables.runtime.?template.?spec.orValue({})"),
    Variable("jobs", "variables.spec.?replicatedJobs.orValue([])"),
    Variable("names", "variables.jobs.map(j, j.name)"),
    Variable("chained", "variables.spec.?executionPolicy.?executionPolicyOrder.orValue('') == 'InOrder'"),
    Variable("inOrder", "variables.spec.?startupPolicy.?startupPolicyOrder.orValue('') == 'InOrder'"),
    Variable("depends", "variables.jobs.exists(j, size(j.?dependsOn.orValue([])) > 0)"),
    Variable("grouping", "variables.runtime.?scheduling.orValue({})"),
    Variable("entries", "variables.grouping.?replicatedJobs.orValue([])"),
    Variable("notes", "object.metadata.?annotations.orValue({})"),
    Variable("grouped", "has(variables.runtime.scheduling) || variables.runtime.?podGroupPolicy.?workload.hasValue()"),
    # Of a gang: initializers are one, trainers are one, all others stand alone.
    Variable(
        "groups",
        "variables.jobs.map(j, has(variables.runtime.mlPolicy) && has(variables.runtime.mlPolicy.mpi)"
        f" && j.name in ['launcher', 'node'] || {_STEP} == 'trainer' ? 'trainer'"
        f" : {_STEP} in {[DATASET, MODEL]} ? 'initializer' : 'job ' + j.name)",
    ),
)


def _only_one(field: str, members: tuple[str, ...]) -> CelRule:
    return CelRule(
        f"spec.{field}",
        f"only one of {', '.join(members)} may be set",
        f"size({list(members)}.filter(one, one in variables.runtime.?{field}.orValue({{}}))) <= 1",
    )


def _on_whole(condition: str) -> str:
    return f"[variables.grouping].all(g, {condition})"


def _on_entries(condition: str) -> str:
    return f"variables.entries.all(g, {condition})"


def _on_jobs(condition: str) -> str:
    return f"variables.entries.filter(e, has(e.job)).map(e, e.job).all(g, {condition})"


def _no_counts(path: str, gangs: str) -> list[CelRule]:
    return [
        CelRule(
            f"{path}.schedulingPolicy.gang.{field}",
            "follows from numNodes and may not be set",
            f"{gangs}.all(g, !g.?schedulingPolicy.?gang.?{field}.hasValue())",
        )
        for field in ("minCount", "minGroupCount")
    ]


def _key_of(level: str) -> str:
    return f"{level}.?schedulingConstraints.?topology[?0].?key.orValue('')"


#: The key that the field sets for the pods of `j`: that of its entry, if it has one, else that of the whole.
_KEYS = (
    f"(variables.entries.exists(e, j.name in {_TARGETS})"
    f" ? variables.entries.filter(e, j.name in {_TARGETS}).map(e, {_key_of('e.?job')} != '' ? {_key_of('e.?job')}"
    f" : {_key_of('e')})"
    f" : [{_key_of('variables.grouping')}])"
)
_ASKED = f"j.?template.?metadata.?annotations[?'{REQUIRED_TOPOLOGY}']"

_GROUPING_RULES = (
    CelRule(
        _PATH,
        "may not be set together with spec.podGroupPolicy",
        "size(variables.runtime.?podGroupPolicy.orValue({})) == 0",
    ),
    *_no_counts(_PATH, "[variables.grouping]"),
    *_no_counts(_ENTRY, "variables.entries"),
    *_no_counts(f"{_ENTRY}.job", "variables.entries.filter(e, has(e.job)).map(e, e.job)"),
    *level_rules(_PATH, _on_whole, claims=True),
    *level_rules(_ENTRY, _on_entries, claims=True),
    *level_rules(f"{_ENTRY}.job", _on_jobs, claims=True),
    CelRule(
        f"{_ENTRY}.targetReplicatedJobs[]",
        f"must be the name of an entry of {_TEMPLATE}.replicatedJobs",
        f"size(variables.jobs) == 0 || variables.entries.all(e, {_TARGETS}.all(t, t in variables.names))",
    ),
    CelRule(
        f"{_ENTRY}.targetReplicatedJobs[]",
        "may be in one entry only",
        f"variables.names.all(n, size(variables.entries.filter(e, n in {_TARGETS})) <= 1)",
    ),
    CelRule(
        f"{_ENTRY}.targetReplicatedJobs",
        "`job` needs exactly one target",
        f"variables.entries.all(e, !has(e.job) || size({_TARGETS}) == 1)",
    ),
    CelRule(
        f"{_ENTRY}.resourceClaims",
        "set it in `job`",
        "variables.entries.all(e, !has(e.job) || !has(e.resourceClaims))",
    ),
    CelRule(
        f"{_PATH}.replicatedJobs",
        f"a Workload holds at most {MAX_TEMPLATES} groups",
        f"size(variables.entries) + size(variables.names.filter(n, !variables.entries.exists(e, n in {_TARGETS})))"
        f" <= {MAX_TEMPLATES}",
    ),
    CelRule(
        f"{_TEMPLATE}.replicatedJobs[].template.spec.template.spec.priorityClassName",
        "must be as in the first entry: with spec.scheduling all pods have one priority",
        f"variables.jobs.all(j, j.{_CLASS} == variables.jobs[0].{_CLASS})",
    ),
    CelRule(
        f"{_TEMPLATE}.replicatedJobs[].template.metadata.annotations[{REQUIRED_TOPOLOGY}]",
        "spec.scheduling says another key; leave one of them out",
        f"variables.jobs.all(j, !{_ASKED}.hasValue() || {_KEYS}.all(k, k == '' || k == {_ASKED}.value()))",
    ),
)

_RULES = (
    CelRule("spec", "Required value", "has(object.spec)"),
    _only_one("mlPolicy", FRAMEWORKS),
    _only_one("podGroupPolicy", GANG_SOURCES),
    CelRule(
        "spec.mlPolicy.torch.envInjection.targets[].containerNames",
        "may not contain node, which always gets it",
        "variables.runtime.?mlPolicy.?torch.?envInjection.?targets.orValue([])"
        ".all(t, !('node' in t.?containerNames.orValue([])))",
    ),
    *(rule.only_if("has(variables.runtime.scheduling)") for rule in _GROUPING_RULES),
    *order_rules(_TEMPLATE),
)

_FIXED = ("mpi", "jax", "xgboost", "flux")
_CONTAINERS = "j.?template.?spec.?template.?spec.?containers.orValue([])"
_REPLICAS = "j.?replicas.orValue(1)"
_EXCLUSIVE = f"'{JOBSET_EXCLUSIVE_TOPOLOGY}'"
_ANNOTATIONS = "?metadata.?annotations.orValue({})"


def _step_rules() -> Iterator[CelRule]:
    """The containers that steps of TrainJobs run in."""
    for step, container in STEP_CONTAINERS.items():
        yield CelRule(
            f"{_TEMPLATE}.replicatedJobs[].template.spec.template.spec.containers",
            f"the step {step} must have the container {container}",
            f"variables.jobs.all(j, {_STEP} != '{step}' || {_CONTAINERS}.exists(c, c.name == '{container}'))",
        )


def _alone_rules() -> Iterator[CelRule]:
    """Templates may not group their pods themselves where the runtime says how they are grouped."""
    detail = "may not be set together with spec.scheduling or podGroupPolicy.workload of the runtime"
    jobs = f"{_TEMPLATE}.replicatedJobs[].template"
    for path, absent in (
        (f"{_TEMPLATE}.scheduling", "!has(variables.spec.scheduling)"),
        (
            f"spec.template.metadata.annotations[{JOBSET_EXCLUSIVE_TOPOLOGY}]",
            f"!({_EXCLUSIVE} in variables.runtime.?template.{_ANNOTATIONS})",
        ),
        (f"{jobs}.spec.scheduling", "variables.jobs.all(j, !j.?template.?spec.?scheduling.hasValue())"),
        (
            f"{jobs}.spec.template.spec.schedulingGroup",
            "variables.jobs.all(j, !j.?template.?spec.?template.?spec.?schedulingGroup.hasValue())",
        ),
        (
            f"{jobs}.metadata.annotations[{JOBSET_EXCLUSIVE_TOPOLOGY}]",
            f"variables.jobs.all(j, !({_EXCLUSIVE} in j.?template.{_ANNOTATIONS}))",
        ),
    ):
        yield CelRule(path, detail, f"!variables.grouped || {absent}")


#: What TrainJobs need of their runtime: see `api.admission.trainjob`.
_NEEDED_RULES = (
    CelRule(
        f"{_TEMPLATE}.replicatedJobs[].replicas",
        "always must be 1; a trainer of a grouped runtime may have more",
        f"variables.jobs.all(j, !({_STEP} in {list(STEP_CONTAINERS)}) || {_REPLICAS} == 1"
        f" || ({_STEP} == 'trainer' && variables.grouped && {_REPLICAS} > 1))",
    ),
    CelRule(
        f"{_TEMPLATE}.replicatedJobs[].replicas",
        f"must be 1: mlPolicy.{', '.join(_FIXED)} number their nodes by the index of a pod in its Job",
        f"variables.jobs.all(j, {_STEP} != 'trainer' || {_REPLICAS} == 1 || !variables.grouped"
        f" || !{list(_FIXED)}.exists(one, one in variables.runtime.?mlPolicy.orValue({{}})))",
    ),
    *_alone_rules(),
    progress_reports(),
    CelRule(
        f"metadata.annotations[{GANG_START}]",
        "must be together, or left out",
        f"variables.notes[?'{GANG_START}'].orValue('together') == 'together'",
    ),
    CelRule(
        f"{_TEMPLATE}.replicatedJobs",
        f"a Workload holds at most {MAX_TEMPLATES} groups",
        "!variables.runtime.?podGroupPolicy.?workload.hasValue()"
        " || size(variables.groups.filter(g, !(g in ['trainer', 'initializer'])))"
        " + size(['trainer', 'initializer'].filter(g, g in variables.groups))"
        f" <= {MAX_TEMPLATES}",
    ),
)
#: A namespaced runtime may lose the container of a step, as upstream has it.
_OF_THE_CLUSTER = f"request.resource.resource == '{CLUSTER_TRAINING_RUNTIMES.plural}'"
_NOT_SWITCHED_OFF = f"object.metadata.?labels[?'{WEBHOOK_SWITCH}'].orValue('') != 'disabled'"

#: Replicated jobs are compared with what they were, each with each, up to this number: a server stops more.
_MOST_PAIRED = 300
_OLD_VARIABLES = (
    *_VARIABLES,
    Variable("oldSpec", "oldObject.?spec.?template.?spec.orValue({})"),
    Variable("oldJobs", "variables.oldSpec.?replicatedJobs.orValue([])"),
)


def _kept(field: str) -> CelRule:
    """A value stays where both have one."""
    new, old = f"variables.spec.?{field}", f"variables.oldSpec.?{field}"
    holds = f"!{new}.hasValue() || !{old}.hasValue() || {new} == {old}"
    return CelRule(f"{_TEMPLATE}.{field}", "field is immutable", holds)


_CHANGE_RULES = (
    *(_kept(field) for field in IMMUTABLE_TEMPLATE),
    CelRule(
        f"{_TEMPLATE}.replicatedJobs[].dependsOn",
        "field is immutable",
        f"size(variables.jobs) > {_MOST_PAIRED} || variables.jobs == variables.oldJobs"
        " || variables.jobs.all(j, variables.oldJobs.all(o, o.name != j.name"
        " || !has(j.dependsOn) || !has(o.dependsOn) || j.dependsOn == o.dependsOn))",
    ),
    # What was stored before stays, so that it can be deleted.
    *(rule.only_if("object.?spec != oldObject.?spec") for rule in _RULES),
    *(
        rule.only_if(f"object.?spec != oldObject.?spec && {_NOT_SWITCHED_OFF}")
        for rule in (*_NEEDED_RULES, *(one.only_if(_OF_THE_CLUSTER) for one in _step_rules()))
    ),
)
_RESOURCES = (TRAINING_RUNTIMES.plural, CLUSTER_TRAINING_RUNTIMES.plural)

RUNTIME_CREATE = RuleSet(
    "runtime-create",
    TRAINING_RUNTIMES.group,
    TRAINING_RUNTIMES.version,
    _RESOURCES,
    ("CREATE",),
    _VARIABLES,
    (*_RULES, *(rule.only_if(_NOT_SWITCHED_OFF) for rule in (*_NEEDED_RULES, *_step_rules()))),
)
RUNTIME_CHANGE = RuleSet(
    "runtime-change",
    TRAINING_RUNTIMES.group,
    TRAINING_RUNTIMES.version,
    _RESOURCES,
    ("UPDATE",),
    _OLD_VARIABLES,
    _CHANGE_RULES,
)
