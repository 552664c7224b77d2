"""Rules of a new JobSet, as `api.rules.jobset` and its neighbours have them.

Expressions say `j` for a replicated job, `e` for an entry of spec.scheduling.replicatedJobs.
"""

from __future__ import annotations

from ...api.objects.vocabulary import JOBSET_EXCLUSIVE_TOPOLOGY, JOBSET_NODE_SELECTOR
from ...api.rules.fields import INT32_MAX
from ...api.rules.job import LONGEST_MANAGER
from ...api.rules.jobset import LONGEST_NAME, MOST_JOBS, MOST_PODS, TAIL
from ...api.rules.jobset_exclusive import MOST as MOST_EXCLUSIVE
from ...api.rules.jobset_policies import JOB_ACTIONS, LONGEST_RULE_NAME, MOST_COUNTED_JOBS, REASONS
from ...api.scheme import JOB_SETS
from .cel_rule import CelRule, RuleSet, Variable
from .formats import dns1035_label, dns1123_subdomain, domain_prefixed_path, label_key, label_value
from .jobset_grouping import GROUPING_RULES, GROUPING_VARIABLES
from .stages import stage_rules

#: Rules that compare every entry of a list with every other are left out for longer lists: a server stops them.
MOST_COMPARED = 400
#: The same for whole replicated jobs beside what they were, for names that are looked up in names, and for claims.
MOST_PAIRED = 150
_MOST_LOOKUPS = 100_000
_MOST_CLAIM_LOOKUPS = 5_000

REPLICAS = "j.?replicas.orValue(1)"
PARALLELISM = "j.?template.?spec.?parallelism.orValue(1)"
_COMPLETIONS = "j.?template.?spec.?completions.orValue(0)"
_INDEXED = "j.?template.?spec.?completionMode.orValue('Indexed') in ['', 'Indexed']"
_POD = "j.?template.?spec.?template.?spec"
_LAST = f"string({REPLICAS} > 0 ? {REPLICAS} - 1 : 0)"

VARIABLES = (
    Variable("spec", "object.?spec.orValue({})"),
    Variable("name", "object.metadata.?name.orValue('')"),
    Variable("notes", "object.metadata.?annotations.orValue({})"),
    Variable("jobs", "variables.spec.?replicatedJobs.orValue([])"),
    Variable("names", "variables.jobs.map(j, j.name)"),
    Variable("chained", "variables.spec.?executionPolicy.?executionPolicyOrder.orValue('') == 'InOrder'"),
    Variable("inOrder", "variables.spec.?startupPolicy.?startupPolicyOrder.orValue('') == 'InOrder'"),
    Variable("depends", "variables.jobs.exists(j, size(j.?dependsOn.orValue([])) > 0)"),
    Variable("sequenced", "variables.chained || variables.inOrder || variables.depends"),
)


def each_job(condition: str) -> str:
    return f"variables.jobs.all(j, {condition})"


#: Of the size of replicated jobs: also after a change of it.
SIZE_RULES = (
    CelRule(
        "spec.replicatedJobs[].groupName",
        "must be a DNS-1035 label",
        each_job(dns1035_label("j.?groupName.orValue('default')")),
    ),
    CelRule(
        "spec.replicatedJobs[].replicas",
        f"the product of replicas and parallelism must not exceed {INT32_MAX}",
        each_job(f"{REPLICAS} * {PARALLELISM} <= {INT32_MAX}"),
    ),
    CelRule(
        "metadata.name",
        f"JobSet name is too long, job names generated for this JobSet will exceed {LONGEST_NAME} characters",
        each_job(f"size(variables.name + '-' + j.name + '-' + {_LAST}) <= {LONGEST_NAME}"),
    ),
    CelRule(
        "metadata.name",
        f"JobSet name is too long, pod names generated for this JobSet will exceed {LONGEST_NAME} characters",
        each_job(
            f"!({_INDEXED}) || {_COMPLETIONS} == 0 || size(variables.name + '-' + j.name + '-' + {_LAST} + '-'"
            f" + string({_COMPLETIONS} - 1) + '-{TAIL}') <= {LONGEST_NAME}"
        ),
    ),
    CelRule(
        "metadata.name",
        "must be a DNS-1035 label: it becomes part of host names",
        "size(variables.jobs) == 0 || variables.name.matches(r'^[a-z][-a-z0-9]*$')",
    ),
    CelRule(
        "spec.replicatedJobs[].name",
        "must be a DNS-1035 label: it becomes part of host names",
        each_job("(variables.name + '-' + j.name).matches(r'^[a-z][-a-z0-9]*$')"),
    ),
    CelRule(
        "spec.replicatedJobs",
        f"the replicas of all replicated jobs must not exceed {MOST_JOBS}",
        f"size(variables.jobs) <= {MOST_JOBS} && variables.jobs.map(j, int({REPLICAS})).sum() <= {MOST_JOBS}",
    ),
    CelRule(
        "spec.replicatedJobs",
        f"the pods of all replicated jobs (replicas times parallelism) must not exceed {MOST_PODS}",
        f"variables.jobs.map(j, int({REPLICAS} * {PARALLELISM})).sum() <= {MOST_PODS}",
    ),
)


def order_rules(path: str) -> list[CelRule]:
    """Of a JobSet or a runtime's template: dependsOn refers to earlier entries; only one kind of ordering is used."""
    return [
        CelRule(
            f"{path}.replicatedJobs[0].dependsOn",
            "the first replicatedJob cannot depend on another",
            "size(variables.jobs) == 0 || size(variables.jobs[0].?dependsOn.orValue([])) == 0",
        ),
        CelRule(
            f"{path}.replicatedJobs[].dependsOn[].name",
            "must be the name of an earlier entry of replicatedJobs",
            f"size(variables.jobs) > {MOST_COMPARED} || "
            + each_job(
                "j.?dependsOn.orValue([]).all(d, variables.names.indexOf(d.name) >= 0"
                " && variables.names.indexOf(d.name) < variables.names.indexOf(j.name))"
            ),
        ),
        CelRule(
            f"{path}.startupPolicy.startupPolicyOrder",
            "startupPolicy InOrder and dependsOn are mutually exclusive; say it with dependsOn and status Ready",
            "!(variables.depends && variables.inOrder)",
        ),
        CelRule(
            f"{path}.executionPolicy.replicatedJobsStatus",
            "InOrder waits for Succeeded alone; to wait until pods are ready, use replicatedJobs[].dependsOn with "
            "status Ready",
            "variables.spec.?executionPolicy.?replicatedJobsStatus.orValue('')"
            " in (variables.chained ? ['Succeeded'] : ['Succeeded', ''])",
        ),
        CelRule(
            f"{path}.executionPolicy.executionPolicyOrder",
            "InOrder and dependsOn are mutually exclusive; say the whole order with dependsOn and status Complete",
            "!(variables.chained && variables.depends)",
        ),
        CelRule(
            f"{path}.executionPolicy.executionPolicyOrder",
            "InOrder and startupPolicy InOrder are mutually exclusive; leave startupPolicy out",
            "!(variables.chained && variables.inOrder)",
        ),
    ]


_RULES = "variables.spec.?failurePolicy.?rules.orValue([])"
_IN_PLACE = "variables.spec.?failurePolicy.?restartStrategy.orValue('') != 'InPlaceRestart'"
_SUCCESS_TARGETS = "variables.spec.?successPolicy.?targetReplicatedJobs.orValue([])"
_WHEN = "when restartStrategy is InPlaceRestart"

_POLICY_RULES = (
    CelRule(
        "spec.network.subdomain",
        "must be a DNS-1035 label",
        f"variables.spec.?network.?subdomain.orValue('') == '' || {dns1035_label('variables.spec.network.subdomain')}",
    ),
    CelRule(
        "spec.managedBy",
        f'must be a domain-prefixed path (such as "acme.io/foo") of at most {LONGEST_MANAGER} characters',
        f"!has(variables.spec.managedBy) || (size(variables.spec.managedBy) <= {LONGEST_MANAGER}"
        f" && {domain_prefixed_path('variables.spec.managedBy')})",
    ),
    CelRule(
        "spec.successPolicy.targetReplicatedJobs[]",
        "must be the name of an entry of replicatedJobs",
        f"size({_SUCCESS_TARGETS}) * size(variables.names) > {_MOST_LOOKUPS}"
        f" || {_SUCCESS_TARGETS}.all(t, t in variables.names)",
    ),
    CelRule(
        "spec.failurePolicy.rules[].name",
        f"must be between 1 and {LONGEST_RULE_NAME} characters long, begin with a letter and end with a letter, a "
        "digit or '_'",
        f"{_RULES}.all(r, size(r.name) <= {LONGEST_RULE_NAME}"
        " && r.name.matches(r'^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$'))",
    ),
    CelRule(
        "spec.failurePolicy.rules[].name",
        "must be unique",
        f"size({_RULES}) > {MOST_COMPARED} || {_RULES}.all(r, {_RULES}.exists_one(q, q.name == r.name))",
    ),
    CelRule(
        "spec.failurePolicy.rules[].onJobFailureReasons[]",
        f"must be one of {', '.join(REASONS)}",
        f"{_RULES}.all(r, r.?onJobFailureReasons.orValue([]).all(one, one in {list(REASONS)}))",
    ),
    # A text that is no expression cannot be matched: the error refuses the object, whatever the result.
    CelRule(
        "spec.failurePolicy.rules[].onJobFailureMessagePatterns[]",
        "must be a regular expression (RE2 syntax)",
        f"{_RULES}.all(r, r.?onJobFailureMessagePatterns.orValue([]).all(p, ''.matches(p) in [true, false]))",
    ),
    CelRule(
        "spec.failurePolicy.rules[].action",
        f"{' and '.join(JOB_ACTIONS)} need replicatedJobs of at most {MOST_COUNTED_JOBS} replicas",
        f"{_RULES}.all(r, !(r.action in {list(JOB_ACTIONS)})) || " + each_job(f"{REPLICAS} <= {MOST_COUNTED_JOBS}"),
    ),
    CelRule(
        "spec.failurePolicy.rules[].targetReplicatedJobs[]",
        "must be the name of an entry of replicatedJobs",
        f"{_RULES}.map(r, size(r.?targetReplicatedJobs.orValue([]))).sum() * size(variables.names) > {_MOST_LOOKUPS}"
        f" || {_RULES}.all(r, r.?targetReplicatedJobs.orValue([]).all(t, t in variables.names))",
    ),
    CelRule(
        "spec.replicatedJobs[].template.spec.backoffLimit",
        f"must be {INT32_MAX} {_WHEN}",
        f"{_IN_PLACE} || " + each_job(f"j.?template.?spec.?backoffLimit.orValue(0) == {INT32_MAX}"),
    ),
    CelRule(
        "spec.replicatedJobs[].template.spec.podReplacementPolicy",
        f"must be Failed {_WHEN}",
        f"{_IN_PLACE} || " + each_job("j.?template.?spec.?podReplacementPolicy.orValue('') == 'Failed'"),
    ),
    CelRule(
        "spec.replicatedJobs[].template.spec.completions",
        f"completions and parallelism must be set and equal to each other {_WHEN}",
        f"{_IN_PLACE} || "
        + each_job(
            "j.?template.?spec.?completions.orValue(-1) == j.?template.?spec.?parallelism.orValue(-2)",
        ),
    ),
    CelRule(
        "spec.failurePolicy.restartStrategy",
        "InPlaceRestart holds all pods at one barrier, so replicatedJobs cannot start one after the other",
        f"{_IN_PLACE} || !variables.sequenced",
    ),
)

_CHOSEN = "variables.spec.coordinator"
_NO_COORDINATOR = f"!has({_CHOSEN})"
_OF_COORDINATOR = f"j.name == {_CHOSEN}.replicatedJob"
_SUBDOMAIN = (
    "(variables.spec.?network.?subdomain.orValue('') == '' ? variables.name : variables.spec.network.subdomain)"
)
_ADDRESS = (
    f"(variables.name + '-' + {_CHOSEN}.replicatedJob + '-' + string({_CHOSEN}.?jobIndex.orValue(0))"
    f" + '-' + string({_CHOSEN}.?podIndex.orValue(0)) + '.' + {_SUBDOMAIN})"
)

COORDINATOR_RULES = (
    CelRule(
        "spec.coordinator.replicatedJob",
        "must be the name of an entry of replicatedJobs, of Indexed Jobs with completions set",
        f"{_NO_COORDINATOR} || variables.jobs.exists(j, {_OF_COORDINATOR} && {_INDEXED}"
        " && j.?template.?spec.?completions.hasValue())",
    ),
    CelRule(
        "spec.coordinator.jobIndex",
        "must be below the replicas of its replicatedJob",
        f"{_NO_COORDINATOR} || ({_CHOSEN}.?jobIndex.orValue(0) >= 0 && "
        + each_job(f"!({_OF_COORDINATOR}) || {_CHOSEN}.?jobIndex.orValue(0) < {REPLICAS}")
        + ")",
    ),
    CelRule(
        "spec.coordinator.podIndex",
        "must be below the completions of its replicatedJob",
        f"{_NO_COORDINATOR} || ({_CHOSEN}.?podIndex.orValue(0) >= 0 && "
        + each_job(
            f"!({_OF_COORDINATOR}) || !j.?template.?spec.?completions.hasValue()"
            f" || {_CHOSEN}.?podIndex.orValue(0) < {_COMPLETIONS}"
        )
        + ")",
    ),
    CelRule(
        "spec.coordinator",
        "the coordinator's address must be a label value of at most 63 characters",
        f"{_NO_COORDINATOR} || {label_value(_ADDRESS)}",
    ),
)

_POLICIES = "variables.spec.?volumeClaimPolicies.orValue([])"
_CLAIM_NAME = "t.?metadata.?name.orValue('')"


_CLAIMS = f"{_POLICIES}.map(p, size(p.?templates.orValue([]))).sum()"


def _each_claim(condition: str) -> str:
    return f"{_POLICIES}.all(p, p.?templates.orValue([]).all(t, {condition}))"


def _each_claim_beside(count: str, condition: str) -> str:
    """Every claim beside others, unless these are too many."""
    return f"{_CLAIMS} * {count} > {_MOST_CLAIM_LOOKUPS} || {_each_claim(condition)}"


def _mounted(part: str) -> str:
    mounts = "c.?volumeMounts.orValue([])"
    return f"{_POD}.?{part}.orValue([]).exists(c, {mounts}.exists(m, m.name == {_CLAIM_NAME}))"


_JOBS = "size(variables.jobs)"
_CLAIM_RULES = (
    CelRule(
        "spec.volumeClaimPolicies[].templates[].metadata.namespace",
        "must be empty",
        _each_claim("t.?metadata.?namespace.orValue('') == ''"),
    ),
    CelRule(
        "spec.volumeClaimPolicies[].templates[].metadata.name",
        "must be a DNS-1123 subdomain",
        _each_claim(dns1123_subdomain(_CLAIM_NAME)),
    ),
    CelRule(
        "spec.volumeClaimPolicies[].templates[].metadata.name",
        "must be unique",
        _each_claim_beside(
            _CLAIMS,
            f"{_POLICIES}.map(q, size(q.?templates.orValue([]).filter(o, o.?metadata.?name.orValue('') =="
            f" {_CLAIM_NAME}))).sum() == 1",
        ),
    ),
    CelRule(
        "spec.volumeClaimPolicies[].templates[].metadata.name",
        f"the name of the claim, with that of the JobSet, would exceed {LONGEST_NAME} characters",
        _each_claim(f"size({_CLAIM_NAME} + '-' + variables.name) <= {LONGEST_NAME}"),
    ),
    CelRule(
        "spec.volumeClaimPolicies[].templates[].metadata.name",
        "must be mounted by at least one container",
        _each_claim_beside(
            _JOBS, f"variables.jobs.exists(j, {_mounted('containers')} || {_mounted('initContainers')})"
        ),
    ),
    CelRule(
        "spec.volumeClaimPolicies[].templates[].metadata.name",
        "must not be declared as a volume of a replicatedJob",
        _each_claim_beside(_JOBS, each_job(f"!{_POD}.?volumes.orValue([]).exists(v, v.name == {_CLAIM_NAME})")),
    ),
)

_KEY = f"'{JOBSET_EXCLUSIVE_TOPOLOGY}'"
_OF_JOB = "j.?template.?metadata.?annotations.orValue({})"
_OF_PODS = "j.?template.?spec.?template.?metadata.?annotations.orValue({})"
_EXCLUSIVE = f"({_KEY} in {_OF_JOB} || {_KEY} in variables.notes)"
#: A replicated job goes by its own annotations, if these ask for a domain, else by those of the JobSet.
_BY_NODES = (
    f"({_KEY} in {_OF_JOB} ? '{JOBSET_NODE_SELECTOR}' in {_OF_JOB} : '{JOBSET_NODE_SELECTOR}' in variables.notes)"
)
_ENTRIES = "variables.spec.scheduling.?replicatedJobs.orValue([])"
_NOT_GROUPED = "!has(variables.spec.scheduling)"


def _is_key(annotations: str) -> str:
    return f"(!({_KEY} in {annotations}) || {label_key(f'{annotations}[{_KEY}]')})"


_EXCLUSIVE_RULES = (
    CelRule(
        f"metadata.annotations[{JOBSET_EXCLUSIVE_TOPOLOGY}]",
        "must be the key of a node label",
        _is_key("variables.notes"),
    ),
    CelRule(
        f"spec.replicatedJobs[].template.metadata.annotations[{JOBSET_EXCLUSIVE_TOPOLOGY}]",
        "must be the key of a node label",
        each_job(f"{_is_key(_OF_JOB)} && {_is_key(_OF_PODS)}"),
    ),
    CelRule(
        "spec.replicatedJobs[].template.spec.completionMode",
        f"the annotation {JOBSET_EXCLUSIVE_TOPOLOGY} needs completionMode Indexed",
        each_job(f"!({_EXCLUSIVE} || {_KEY} in {_OF_PODS}) || {_INDEXED}"),
    ),
    CelRule(
        "spec.replicatedJobs[].template.spec.scheduling",
        f"may not be set together with the annotation {JOBSET_EXCLUSIVE_TOPOLOGY}; use spec.scheduling of the JobSet",
        "has(variables.spec.scheduling) || " + each_job(f"!({_EXCLUSIVE} && j.?template.?spec.?scheduling.hasValue())"),
    ),
    CelRule(
        "spec.replicatedJobs",
        f"with the annotation {JOBSET_EXCLUSIVE_TOPOLOGY} there may be at most {MOST_EXCLUSIVE} entries",
        f"has(variables.spec.scheduling) || size(variables.jobs) <= {MOST_EXCLUSIVE} || " + each_job(f"!{_EXCLUSIVE}"),
    ),
    CelRule(
        "spec.scheduling",
        f"a group of several Jobs cannot hold one domain per Job ({JOBSET_EXCLUSIVE_TOPOLOGY}); group each Job with "
        "spec.scheduling.replicatedJobs[].job",
        f"{_NOT_GROUPED} || "
        + each_job(
            f"!{_EXCLUSIVE} || {_BY_NODES} || (size({_ENTRIES}) > 0"
            f" && {_ENTRIES}.all(e, has(e.job) || !(j.name in e.?targetReplicatedJobs.orValue([]))))"
        ),
    ),
)

JOBSET_CREATE = RuleSet(
    "jobset-create",
    JOB_SETS.group,
    JOB_SETS.version,
    (JOB_SETS.plural,),
    ("CREATE",),
    (*VARIABLES, *GROUPING_VARIABLES),
    (
        *SIZE_RULES,
        *order_rules("spec"),
        *_POLICY_RULES,
        *COORDINATOR_RULES,
        *_CLAIM_RULES,
        *_EXCLUSIVE_RULES,
        *GROUPING_RULES,
        *stage_rules("size(variables.jobs)"),
    ),
)
