"""Rules of a TrainJob against its runtime, as `api.admission.trainjob` has them.

The server evaluates these for every runtime as `params`, and a condition picks the one that the TrainJob names.  That
there is none cannot be said: such a TrainJob is taken and waits.  A runtime without a template runs on a built-in one,
which the server does not know: what is said about its jobs is not checked.

Expressions say `j` for a replicated job of the runtime, `p` for a runtime patch, `r` for a replicated job in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...api.admission.trainjob import INITIALIZER_VOLUME, RESERVED_ENV
from ...api.objects.foreign_gangs import VOLCANO_QUEUE
from ...api.objects.torchtune_models import COMMAND, MODELS, MULTI_NODE_MODELS, RUNTIME_OWNED
from ...api.objects.vocabulary import PARENT_COMPOSITE, PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY, TRAINJOB_ANCESTOR_STEP
from ...api.rules.trainer import DATASET, MODEL, STEP_CONTAINERS
from ...api.scheme import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, TRAINING_RUNTIMES, Resource
from .cel_rule import CelRule, RuleSet, Variable

_POD = "?template.?spec.?template.?spec"
_IS_TRAINER = f"j.?template.?metadata.?labels[?'{TRAINJOB_ANCESTOR_STEP}'].orValue('') == 'trainer'"

_VARIABLES = (
    Variable("spec", "object.?spec.orValue({})"),
    Variable("notes", "object.metadata.?annotations.orValue({})"),
    Variable("runtime", "params.?spec.orValue({})"),
    Variable("policy", "variables.runtime.?mlPolicy.orValue({})"),
    Variable("jobs", "variables.runtime.?template.?spec.?replicatedJobs.orValue([])"),
    Variable("known", "size(variables.jobs) > 0"),
    Variable("names", "variables.jobs.map(j, j.name)"),
    Variable("trainer", "variables.spec.?trainer.orValue({})"),
    Variable("nodes", "variables.trainer.?numNodes.orValue(variables.policy.?numNodes.orValue(1))"),
    Variable("patches", "variables.spec.?runtimePatches.orValue([])"),
    Variable("grouped", "has(variables.runtime.scheduling) || variables.runtime.?podGroupPolicy.?workload.hasValue()"),
)


def _initializer(part: str, job: str) -> Iterator[CelRule]:
    path = f"spec.initializer.{part}"
    unused = f"!variables.spec.?initializer.?{part}.hasValue() || !variables.known"
    containers = f"variables.jobs.filter(j, j.name == '{job}').map(j, j.{_POD}.?containers.orValue([]))"
    yield CelRule(path, f"the runtime has no replicated job {job}", f"{unused} || '{job}' in variables.names")
    yield CelRule(
        path,
        f"the runtime's replicated job {job} has no container {job} that mounts the volume {INITIALIZER_VOLUME}",
        f"{unused} || {containers}.all(some, some.exists(c, c.name == '{job}'"
        f" && c.?volumeMounts.orValue([]).exists(m, m.name == '{INITIALIZER_VOLUME}')))",
    )


_PATCHED = "p.?trainingRuntimeSpec.?template.?spec.?replicatedJobs.orValue([])"
_PATCH_PATH = "spec.runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs[]"


def _patched_containers(field: str) -> Iterator[CelRule]:
    path = f"{_PATCH_PATH}.template.spec.template.spec.{field}[]"
    wanted = f"r.{_POD}.?{field}.orValue([])"
    found = f"variables.jobs.all(j, j.name != r.name || j.{_POD}.?{field}.orValue([]).exists(k, k.name == c.name))"
    yield CelRule(
        f"{path}.name",
        "the runtime's replicated job has no such container",
        f"!variables.known || variables.patches.all(p, {_PATCHED}.all(r, {wanted}.all(c, {found})))",
    )
    yield CelRule(
        f"{path}.env",
        "the environment of this container comes from spec.trainer or spec.initializer",
        f"variables.patches.all(p, {_PATCHED}.all(r, {wanted}.all(c, size(c.?env.orValue([])) == 0"
        f" || !(c.name in {list(STEP_CONTAINERS.values())}))))",
    )


_PATCH_RULES = (
    CelRule(
        f"{_PATCH_PATH}.name",
        "the runtime has no such replicated job",
        f"!variables.known || variables.patches.all(p, {_PATCHED}.all(r, r.name in variables.names))",
    ),
    *(rule for field in ("initContainers", "containers") for rule in _patched_containers(field)),
)


def _reserved(framework: str, names: tuple[str, ...]) -> CelRule:
    return CelRule(
        "spec.trainer.env[]",
        f"{', '.join(names)}: set by the {framework} policy itself",
        f"!has(variables.policy.{framework}) || variables.trainer.?env.orValue([]).all(v, !(v.name in {list(names)}))",
    )


_TARGETS = "variables.policy.?torch.?envInjection.?targets.orValue([])"
_FRAMEWORK_RULES = (
    *(_reserved(framework, names) for framework, names in RESERVED_ENV.items()),
    CelRule(
        "spec.runtimeRef.name",
        "envInjection of the runtime names a container that its template lacks",
        f"!variables.known || {_TARGETS}.all(t, t.containerNames.all(n, variables.jobs.exists(j, j.name == t.jobName"
        f" && (j.{_POD}.?containers.orValue([]).exists(c, c.name == n)"
        f" || j.{_POD}.?initContainers.orValue([]).exists(c, c.name == n)))))",
    ),
    CelRule(
        "spec.trainer.numNodes",
        "needs the replicated jobs launcher and node in the runtime",
        "!variables.known || !variables.policy.?mpi.?runLauncherAsNode.orValue(false) || variables.nodes < 2"
        " || ('launcher' in variables.names && 'node' in variables.names)",
    ),
    CelRule(
        "spec.runtimeRef.name",
        "its replicated job node already has the init container flux-installer",
        "!has(variables.policy.flux) || variables.jobs.all(j, j.name != 'node'"
        f" || !j.{_POD}.?initContainers.orValue([]).exists(c, c.name == 'flux-installer'))",
    ),
    CelRule(
        "spec.runtimeRef",
        "the runtime's trainer has no container node, in which training runs",
        f"variables.jobs.all(j, !({_IS_TRAINER}) || j.{_POD}.?containers.orValue([]).exists(c, c.name == 'node'))",
    ),
)

_RESOURCES = "variables.trainer.?resourcesPerNode"
_OWN_LIMITS = f"{_RESOURCES}.?limits.orValue({{}})"
_RUNTIME_LIMITS = "c.?resources.?limits.orValue({})"
_OVER = "quantity(string({amount})).isGreaterThan(quantity(string({limit})))"
_LIMIT_RULE = CelRule(
    "spec.trainer.resourcesPerNode.requests",
    "must be at most the limit, which is the runtime's unless limits are set as well",
    f"variables.jobs.all(j, !({_IS_TRAINER}) || j.{_POD}.?containers.orValue([]).all(c, c.name != 'node'"
    f" || {_RESOURCES}.?requests.orValue({{}}).all(n, n in {_OWN_LIMITS}"
    f" ? !{_OVER.format(amount='variables.trainer.resourcesPerNode.requests[n]', limit=f'{_OWN_LIMITS}[n]')}"
    f" : !(n in {_RUNTIME_LIMITS})"
    f" || !{_OVER.format(amount='variables.trainer.resourcesPerNode.requests[n]', limit=f'{_RUNTIME_LIMITS}[n]')})))",
)


def _key_of(level: str) -> str:
    return f"{level}.?schedulingConstraints.?topology[?0].?key.orValue('')"


#: Keys that the runtime's scheduling sets for its trainer, as many as there are entries with a trainer in them.
_ENTRIES = "variables.runtime.?scheduling.?replicatedJobs.orValue([])"
_TRAINERS = f"variables.jobs.filter(j, {_IS_TRAINER}).map(j, j.name)"
_KEYS = (
    f"(size({_ENTRIES}) == 0 ? [{_key_of('variables.runtime.?scheduling')}]"
    f" : {_ENTRIES}.filter(e, e.targetReplicatedJobs.exists(t, t in {_TRAINERS}))"
    f".map(e, {_key_of('e.?job')} != '' ? {_key_of('e.?job')} : {_key_of('e')}))"
)
_ASKED = f"variables.notes[?'{REQUIRED_TOPOLOGY}']"


def _needs_a_group(name: str) -> Iterator[CelRule]:
    path = f"metadata.annotations[{name}]"
    yield CelRule(
        path,
        "the runtime makes no group: it needs podGroupPolicy.workload or scheduling",
        f"!('{name}' in variables.notes) || '{PARENT_COMPOSITE}' in variables.notes || variables.grouped",
    )


_GROUP_RULES = (
    *_needs_a_group(REQUIRED_TOPOLOGY),
    *_needs_a_group(PREFERRED_TOPOLOGY),
    CelRule(
        f"metadata.annotations[{REQUIRED_TOPOLOGY}]",
        "the runtime's spec.scheduling says another key; leave the annotation out",
        f"!{_ASKED}.hasValue() || {_KEYS}.all(k, k == '' || k == {_ASKED}.value())",
    ),
    CelRule(
        f"metadata.annotations[{PARENT_COMPOSITE}]",
        "the runtime groups its pods by podGroupPolicy.coscheduling or volcano, or makes groups of its own",
        f"!('{PARENT_COMPOSITE}' in variables.notes) || !(has(variables.runtime.scheduling)"
        " || variables.runtime.?podGroupPolicy.?coscheduling.hasValue()"
        " || variables.runtime.?podGroupPolicy.?volcano.hasValue())",
    ),
    CelRule(
        "spec.trainer.numNodes",
        "cannot be spread evenly over the Jobs of the runtime's trainer",
        f"variables.jobs.all(j, !({_IS_TRAINER}) || j.?replicas.orValue(1) <= 1 || variables.nodes % j.replicas == 0)",
    ),
)


def _is_model(model: str) -> str:
    """Whether the runtime's name says this model: `torchtune-llama3.2-1b` is llama3_2/1B."""
    family, _, size = model.partition("/")
    named = f"{family.replace('_', '.')}-{size.lower()}".replace(".", "[.]")
    return f"params.metadata.name.matches(r'^[^-]*-{named}(-gang)?$')"


def _any(models: tuple[str, ...]) -> str:
    return "(" + " || ".join(map(_is_model, models)) + ")"


def _says(argument: str) -> str:
    """Whether the last of the arguments for a key says true."""
    some = f"variables.args.filter(a, a.startsWith('{argument}='))"
    return f"(size({some}) > 0 && {some}[size({some}) - 1].lowerAscii() == '{argument}=true')"


_TUNED = f"has(variables.policy.torch) && variables.trainer.?command.orValue([]) == {list(COMMAND)}"
_LLAMA = tuple(one for one in MODELS if one.startswith("llama3_2/"))
_QWEN = tuple(one for one in MODELS if one.startswith("qwen2_5/"))
_GPUS = "variables.trainer.?resourcesPerNode.?{part}.orValue({{}})"
_ONE_GPU = " && ".join(
    f"{_GPUS.format(part=part)}.all(n, !n.lowerAscii().contains('gpu')"
    f" || !quantity(string({_GPUS.format(part=part)}[n])).isGreaterThan(quantity('1')))"
    for part in ("requests", "limits")
)
_TUNE_VARIABLES = (
    Variable("args", "variables.trainer.?args.orValue([])"),
    Variable("quantized", f"{_says('model.quantize_base')} && !{_says('model.use_dora')}"),
    Variable("adapts", "variables.quantized || variables.args.exists(a, a.contains('model.lora_attn_modules'))"),
)
_TUNE_RULES = (
    CelRule("spec.runtimeRef.name", f"must contain a supported model: {', '.join(MODELS)}", _any(MODELS)),
    CelRule(
        "spec.trainer.args[]",
        f"{', '.join(RUNTIME_OWNED)}: set by the runtime",
        f"variables.args.all(a, !(a.split('=')[0] in {list(RUNTIME_OWNED)}))",
    ),
    CelRule(
        "spec.trainer.numNodes",
        f"must be 1: only {', '.join(MULTI_NODE_MODELS)} supports several nodes, and not with LoRA",
        f"variables.nodes <= 1 || ({_any(MULTI_NODE_MODELS)} && !variables.adapts)",
    ),
    CelRule("spec.trainer.args", "qwen2_5 does not support QLoRA", f"!(variables.quantized && {_any(_QWEN)})"),
    CelRule(
        "spec.trainer.numProcPerNode",
        "must be 1: QLoRA of this model supports one device only",
        f"!(variables.quantized && {_any(_LLAMA)}) || variables.trainer.?numProcPerNode.orValue(1) <= 1",
    ),
    CelRule(
        "spec.trainer.resourcesPerNode",
        "must be 1: QLoRA of this model supports one device only",
        f"!(variables.quantized && {_any(_LLAMA)}) || ({_ONE_GPU})",
    ),
)

_QUEUE = f"'{VOLCANO_QUEUE}'"
_PATCHED_QUEUES = (
    "variables.patches.map(p, p.?trainingRuntimeSpec.?template.?metadata.?annotations.orValue({}))"
    f".filter(a, {_QUEUE} in a).map(a, a[{_QUEUE}])"
)
_VOLCANO_RULE = CelRule(
    "spec.runtimeRef",
    f"the annotation {VOLCANO_QUEUE} of its JobSet must not be empty",
    "!variables.runtime.?podGroupPolicy.?volcano.hasValue() || (size(variables.queues) > 0"
    " ? variables.queues[size(variables.queues) - 1]"
    f" : variables.runtime.?template.?metadata.?annotations[?{_QUEUE}].orValue('default')) != ''",
)

_RULES = (
    _VOLCANO_RULE,
    *_initializer("dataset", DATASET),
    *_initializer("model", MODEL),
    *_PATCH_RULES,
    *_FRAMEWORK_RULES,
    _LIMIT_RULE,
    *_GROUP_RULES,
    *(rule.only_if(_TUNED) for rule in _TUNE_RULES),
)


def _against(name: str, runtime: Resource) -> RuleSet:
    return RuleSet(
        name,
        TRAIN_JOBS.group,
        TRAIN_JOBS.version,
        (TRAIN_JOBS.plural,),
        ("CREATE", "UPDATE"),
        (*_VARIABLES, Variable("queues", _PATCHED_QUEUES), *_TUNE_VARIABLES),
        _RULES,
        compared_with=runtime,
        conditions=(
            Variable(
                "names-this-runtime",
                "object.?spec.?runtimeRef.?name.orValue('') == params.metadata.name"
                f" && object.?spec.?runtimeRef.?kind.orValue('{CLUSTER_TRAINING_RUNTIMES.kind}') == '{runtime.kind}'",
            ),
            # The rest of what is compared never changes.
            Variable(
                "is-new-or-patched",
                "oldObject == null || object.?spec.?runtimePatches != oldObject.?spec.?runtimePatches",
            ),
        ),
    )


TRAINJOB_ON_CLUSTER_RUNTIME = _against("trainjob-cluster-runtime", CLUSTER_TRAINING_RUNTIMES)
TRAINJOB_ON_RUNTIME = _against("trainjob-runtime", TRAINING_RUNTIMES)
