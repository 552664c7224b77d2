"""Rules of a changed JobSet, as `api.rules.jobset_update` has them.

Expressions say `j` for a replicated job as it is to be, `o` for what it was.  Parts that may change are left out of the
comparison, level by level: entry, Job, pod template, pod, container.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...api.objects.vocabulary import JOBSET_EXCLUSIVE_TOPOLOGY, JOBSET_NODE_SELECTOR
from ...api.rules.jobset_update import IMMUTABLE, SIZE
from ...api.scheme import JOB_SETS
from .cel_rule import CelRule, RuleSet, Variable, equal_but
from .jobset import COORDINATOR_RULES, MOST_PAIRED, SIZE_RULES, VARIABLES
from .jobset_grouping import GROUPING_RULES, GROUPING_VARIABLES
from .stages import stage_rules

#: Containers are compared each with each of their pod, up to this number in all pods: a server stops more.
_MOST_CONTAINER_PAIRS = 25_000
_ADAPTABLE_PODS = ("nodeSelector", "tolerations", "schedulingGates")
_INDEXED = "j.?template.?spec.?completionMode.orValue('Indexed') in ['', 'Indexed']"
_SAME_SIZE = " && ".join(f"j.?template.?spec.?{field} == o.?template.?spec.?{field}" for field in SIZE)

_VARIABLES = (
    *VARIABLES,
    *GROUPING_VARIABLES,
    Variable("oldSpec", "oldObject.?spec.orValue({})"),
    Variable("oldNotes", "oldObject.metadata.?annotations.orValue({})"),
    Variable("oldJobs", "variables.oldSpec.?replicatedJobs.orValue([])"),
    Variable("sameJobs", "variables.jobs == variables.oldJobs"),
    Variable("sameNames", "variables.names == variables.oldJobs.map(o, o.name)"),
    # In longer lists, comparing all entries with all is stopped by the server.
    Variable("compared", f"!variables.sameJobs && variables.sameNames && size(variables.jobs) <= {MOST_PAIRED}"),
    # Either side: a queue may restore templates in the write that suspends, and adapt them in the one that resumes.
    Variable("adaptable", "variables.spec.?suspend.orValue(false) || variables.oldSpec.?suspend.orValue(false)"),
    Variable("regrouped", "variables.spec.?scheduling != variables.oldSpec.?scheduling"),
    Variable(
        "resized",
        "variables.compared && variables.jobs.exists(j, "
        f"{_INDEXED} && variables.oldJobs.exists(o, o.name == j.name && !({_SAME_SIZE})))",
    ),
    Variable(
        "ended",
        "oldObject.?status.?conditions.orValue([]).exists(c, c.type in ['Completed', 'Failed'] && c.status == 'True')",
    ),
)


def _pairs(condition: str) -> str:
    """Every replicated job beside what it was."""
    return f"!variables.compared || variables.jobs.all(j, variables.oldJobs.all(o, o.name != j.name || ({condition})))"


def _same(path: str, default: str) -> str:
    return f"j{path}.orValue({default}) == o{path}.orValue({default})"


def _both(path: str) -> tuple[str, str]:
    return f"j{path}.orValue({{}})", f"o{path}.orValue({{}})"


_JOB, _PODS = ".?template.?spec", ".?template.?spec.?template"


def _template_rules() -> Iterator[CelRule]:
    def rule(condition: str) -> CelRule:
        return CelRule("spec.replicatedJobs", "field is immutable", _pairs(condition))

    yield rule(equal_but("j", "o", ["template"]) + " && " + equal_but(*_both(".?template"), ["spec"]))
    yield rule(
        equal_but(*_both(_JOB), ["template", "completionMode"], f"({_INDEXED} && n in {list(SIZE)})")
        + " && "
        + _same(f"{_JOB}.?completionMode", "'Indexed'")
    )
    yield rule(
        equal_but(*_both(_PODS), ["metadata", "spec"])
        + " && "
        + equal_but(*_both(f"{_PODS}.?metadata"), ["labels", "annotations"])
    )
    yield rule(
        equal_but(*_both(f"{_PODS}.?spec"), ["containers", "initContainers", "restartPolicy", *_ADAPTABLE_PODS])
        + " && "
        + _same(f"{_PODS}.?spec.?restartPolicy", "'OnFailure'")
    )
    for part in ("containers", "initContainers"):
        path = f"{_PODS}.?spec.?{part}"
        count = f"size(j{path}.orValue([]))"
        few = f"variables.jobs.map(j, {count} * {count}).sum() <= {_MOST_CONTAINER_PAIRS}"
        yield rule(_same_containers(path)).only_if(few)


def _same_containers(path: str) -> str:
    """In the same order, and alike but for what they request; which claims they use stays."""
    new, old = f"j{path}.orValue([])", f"o{path}.orValue([])"
    resources = equal_but("c.?resources.orValue({})", "d.?resources.orValue({})", ["requests", "limits"])
    alike = f"{equal_but('c', 'd', ['resources'])} && {resources}"
    return f"{new}.map(c, c.name) == {old}.map(c, c.name) && {new}.all(c, {old}.all(d, d.name != c.name || ({alike})))"


def _unadapted() -> str:
    """What may change while suspended is as it was."""
    kept = [
        f"{_PODS}.?metadata",
        *(f"{_PODS}.?spec.?{part}" for part in ("containers", "initContainers", *_ADAPTABLE_PODS)),
    ]
    return " && ".join(_same(path, "{}" if path.endswith("metadata") else "null") for path in kept)


def _annotation(name: str) -> CelRule:
    return CelRule(
        f"metadata.annotations[{name}]",
        "may change only while the JobSet is suspended",
        f"variables.notes[?'{name}'] == variables.oldNotes[?'{name}'] || variables.oldSpec.?suspend.orValue(false)",
    )


_RULES = (
    *(
        CelRule(f"spec.{field}", "Value is immutable", f"variables.spec.?{field} == variables.oldSpec.?{field}")
        for field in (*IMMUTABLE, "managedBy")
    ),
    CelRule(
        "spec.scheduling",
        "field is immutable once unsuspended",
        "!variables.regrouped || variables.oldSpec.?suspend.orValue(false)",
    ),
    CelRule("spec.replicatedJobs", "field is immutable", "variables.sameJobs || variables.sameNames"),
    *_template_rules(),
    CelRule(
        "spec.replicatedJobs", "field is immutable unless suspended", f"variables.adaptable || ({_pairs(_unadapted())})"
    ),
    CelRule(
        "spec.replicatedJobs[].template.spec",
        "Cannot mutate parallelism or completions when JobSet is in a terminal state (Completed or Failed)",
        "!(variables.resized && variables.ended)",
    ),
    CelRule(
        "spec.replicatedJobs[].template.spec.parallelism",
        "parallelism and completions must be >= 1",
        _pairs(
            f"{_SAME_SIZE} || [{', '.join(f'j.?template.?spec.?{field}.orValue(1)' for field in SIZE)}].all(n, n >= 1)"
        ),
    ),
    CelRule(
        "spec.replicatedJobs[].template.spec.completions",
        "completions must be equal to parallelism for Elastic Indexed Jobs",
        _pairs(
            f"{_SAME_SIZE} || j.?template.?spec.?completions.orValue(0) == j.?template.?spec.?parallelism.orValue(1)"
        ),
    ),
    *(_annotation(name) for name in (JOBSET_EXCLUSIVE_TOPOLOGY, JOBSET_NODE_SELECTOR)),
    *(rule.only_if("variables.resized") for rule in (*SIZE_RULES, *COORDINATOR_RULES)),
    *(rule.only_if("variables.resized || variables.regrouped") for rule in GROUPING_RULES),
    *stage_rules("size(variables.jobs)", changed=True),
)

JOBSET_CHANGE = RuleSet(
    "jobset-change", JOB_SETS.group, JOB_SETS.version, (JOB_SETS.plural,), ("UPDATE",), _VARIABLES, _RULES
)
