"""Checks TrainJobs against their runtime, and runtimes against what TrainJobs need.

On a stock cluster these checks are in Trainer's webhooks: 403 with the message of a denied request.  Errors of the
schema and of `rules` come first (422), as on a real cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import rules
from ..errors import ApiError, FieldError, forbidden_field, invalid, not_supported
from ..objects import meta
from ..objects.builtin_runtimes import template_of
from ..objects.vocabulary import (
    GANG_START,
    JOBSET_EXCLUSIVE_TOPOLOGY,
    PARENT_COMPOSITE,
    PREFERRED_TOPOLOGY,
    PROGRESS_REPORTS,
    REQUIRED_TOPOLOGY,
    TRAINJOB_ANCESTOR_STEP,
)
from ..rules import fields, grouping, trainer_scheduling
from ..rules.job import domain_prefixed_path
from ..rules.jobset import LONGEST_NAME, TAIL
from ..rules.trainer import DATASET, MODEL, STEP_CONTAINERS, own_warnings, steps
from ..rules.workload import MAX_TEMPLATES
from ..schema import kind_schema
from ..scheme import CLUSTER_TRAINING_RUNTIMES, JOB_SETS, TRAIN_JOBS, TRAINING_RUNTIMES, Object, Resource
from . import runtime_gaps, torchtune
from .reader import Reader

INITIALIZER_VOLUME = "initializer"
WEBHOOK_SWITCH = "trainer.kubeflow.org/webhook-validation"
#: Environment variables that a framework sets itself.
RESERVED_ENV = {
    "torch": ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    "mpi": (
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_plm_rsh_args",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_orte_set_default_slots",
    ),
    "xgboost": ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"),
}
#: Set by jax; a TrainJob that sets them gets a warning.
JAX_ENV = ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS")
#: What `echelon.initializers` and upstream's images can fetch.
_SCHEMES = {"dataset": ("hf", "s3", "cache"), "model": ("hf", "s3")}
#: What a TrainJob may get or lose only before it has a JobSet.
ADDED_LATER = ("trainer", "initializer", "activeDeadlineSeconds")

Part = Mapping[str, Any]


def create(obj: Object, reader: Reader) -> None:
    # A status in the request is dropped later, so it is not checked here.
    sent = {field: value for field, value in obj.items() if field != "status"}
    if kind_schema.check(TRAIN_JOBS, sent) or rules.validate_create(TRAIN_JOBS, sent):
        return
    _deny_if(TRAIN_JOBS, _against_runtime(obj, reader))


def update(new: Object, old: Object, reader: Reader) -> None:
    if kind_schema.check(TRAIN_JOBS, new) or rules.validate_update(TRAIN_JOBS, new, old):
        return
    now, was = new["spec"], old["spec"]
    child = reader.get(JOB_SETS, meta.name(new), meta.namespace(new))
    problems: list[FieldError] = []
    if child is not None:
        problems += [
            forbidden_field(f"spec.{field}", "may not be added or removed once the TrainJob has a JobSet")
            for field in ADDED_LATER
            if (field in now) != (field in was)
        ]
    if now.get("runtimePatches") != was.get("runtimePatches"):
        problems += _patches_closed(now, was, child) + _against_runtime(new, reader)
    _deny_if(TRAIN_JOBS, problems)


def warnings(obj: Object, reader: Reader) -> list[str]:
    """Warnings of a TrainJob against its runtime."""
    found = _runtime_of(obj, reader)
    if found is None:
        return []
    told = [*own_warnings(found), *runtime_gaps.of_trainjob(obj, found), *_without_effect(obj)]
    if "jax" in (found["spec"].get("mlPolicy") or {}):
        told += [
            f"spec.trainer.env[{index}]: {variable['name']} is set by the jax policy itself"
            for index, variable in enumerate((obj["spec"].get("trainer") or {}).get("env") or ())
            if variable["name"] in JAX_ENV
        ]
    for name in _replicated(found):
        longest = f"{meta.name(obj)}-{name}-0-0-{TAIL}"
        if len(longest) > LONGEST_NAME:
            told.append(f"metadata.name: pods of {name} would be called {longest}, which exceeds 63 characters")
    return told


def _without_effect(obj: Object) -> Iterator[str]:
    if JOBSET_EXCLUSIVE_TOPOLOGY in meta.annotations(obj):
        where = f"metadata.annotations[{JOBSET_EXCLUSIVE_TOPOLOGY}]"
        yield f"{where}: has no effect on a TrainJob, write it in spec.template.metadata.annotations of the runtime"
    for part, known in _SCHEMES.items():
        uri = ((obj["spec"].get("initializer") or {}).get(part) or {}).get("storageUri")
        if uri and uri.partition("://")[0] not in known:
            names = ", ".join(f"{scheme}://" for scheme in known)
            yield f"spec.initializer.{part}.storageUri: initializers know {names}; others need an image of your own"


def runtime(resource: Resource, obj: Object, old: Object | None = None) -> None:
    """Check that a runtime has the containers of its steps; built-in runtimes may disable this by a label.

    A change of a namespaced runtime is only warned about, as upstream has it: TrainJobs that need what it lacks are
    refused then.
    """
    if meta.labels(obj).get(WEBHOOK_SWITCH) == "disabled":
        return
    if kind_schema.check(resource, obj) or rules.validate_create(resource, obj):
        return
    checked = [] if old is not None and resource is TRAINING_RUNTIMES else steps(obj)
    _deny_if(resource, trainer_scheduling.replicas(obj["spec"]) + checked + _gang(obj))


def runtime_warnings(obj: Object, reader: Reader) -> list[str]:
    """Warnings of a new runtime that depend on what else there is."""
    return runtime_gaps.of_runtime(obj, reader)


def _deny_if(resource: Resource, problems: Sequence[FieldError]) -> None:
    if not problems:
        return
    text = str(problems[0]) if len(problems) == 1 else "[" + ", ".join(map(str, problems)) + "]"
    webhook = f"validator.{resource.singular}.trainer.kubeflow.org"
    raise ApiError(403, "Forbidden", f'admission webhook "{webhook}" denied the request: {text}')


def _against_runtime(obj: Object, reader: Reader) -> list[FieldError]:
    spec, reference = obj["spec"], obj["spec"]["runtimeRef"]
    kind = _runtime_kind(reference)
    if kind is None:
        detail = f"unsupported runtime: {reference.get('kind')}.{reference.get('apiGroup')}"
        return [invalid("spec.runtimeRef", reference, detail)]
    found = _runtime_of(obj, reader)
    if found is None:
        detail = (
            f'{kind.qualified} "{reference["name"]}" not found: '
            f"the {kind.kind} must be created before the TrainJob that refers to it"
        )
        return [invalid("spec.runtimeRef", reference, detail)]
    policy: Part = found["spec"].get("mlPolicy") or {}
    jobs = _replicated(found)
    problems = [*_initializers(spec, jobs), *_patches(spec, jobs), *_framework(spec, policy, jobs)]
    problems += _grouping(obj, found, jobs)
    problems += runtime_gaps.refusals(obj, found, reader)
    return [*problems, *torchtune.check(spec, policy)] if "torch" in policy else problems


def _runtime_kind(reference: Part) -> Resource | None:
    for kind in (CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES):
        if (reference.get("apiGroup"), reference.get("kind")) == (kind.group, kind.kind):
            return kind
    return None


def _runtime_of(obj: Object, reader: Reader) -> Object | None:
    reference: Part = obj["spec"]["runtimeRef"]
    kind = _runtime_kind(reference)
    if kind is None:
        return None
    return reader.get(kind, reference["name"], meta.namespace(obj) if kind.namespaced else "")


def _replicated(runtime_: Object) -> dict[str, Part]:
    return {job["name"]: job for job in template_of(runtime_)["spec"]["replicatedJobs"]}


def _pod_spec(job: Part) -> Part:
    inner: Part = (job.get("template") or {}).get("spec") or {}
    return (inner.get("template") or {}).get("spec") or {}


def _containers(job: Part, field: str = "containers") -> dict[str, Part]:
    return {container["name"]: container for container in _pod_spec(job).get(field) or ()}


def _initializers(spec: Part, jobs: Mapping[str, Part]) -> Iterator[FieldError]:
    for part, name in (("dataset", DATASET), ("model", MODEL)):
        if part not in (spec.get("initializer") or {}):
            continue
        path, runtime_name = f"spec.initializer.{part}", spec["runtimeRef"]["name"]
        container = _containers(jobs.get(name, {})).get(name)
        if name not in jobs:
            yield invalid(path, runtime_name, f"the runtime has no replicated job {name}")
        elif container is None:
            yield invalid(path, runtime_name, f"the runtime's replicated job {name} has no container {name}")
        elif all(mount.get("name") != INITIALIZER_VOLUME for mount in container.get("volumeMounts") or ()):
            detail = f"the runtime's container {name} mounts no volume {INITIALIZER_VOLUME}"
            yield invalid(path, runtime_name, detail)


def _patches(spec: Part, jobs: Mapping[str, Part]) -> Iterator[FieldError]:
    for outer, patch in enumerate(spec.get("runtimePatches") or ()):
        path = f"spec.runtimePatches[{outer}]"
        yield from domain_prefixed_path(f"{path}.manager", patch["manager"])
        template: Part = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
        for inner, change in enumerate((template.get("spec") or {}).get("replicatedJobs") or ()):
            where = f"{path}.trainingRuntimeSpec.template.spec.replicatedJobs[{inner}]"
            if change["name"] not in jobs:
                yield invalid(f"{where}.name", change["name"], "the runtime has no such replicated job")
            else:
                yield from _patched_containers(f"{where}.template.spec.template.spec", change, jobs[change["name"]])


def _patched_containers(path: str, change: Part, job: Part) -> Iterator[FieldError]:
    for field in ("initContainers", "containers"):
        known = _containers(job, field)
        for index, container in enumerate(_pod_spec(change).get(field) or ()):
            where, name = f"{path}.{field}[{index}]", container["name"]
            if name not in known:
                yield invalid(
                    f"{where}.name", name, f"the runtime's replicated job {job['name']} has no such container"
                )
            elif container.get("env") and name in STEP_CONTAINERS.values():
                detail = "the environment of this container comes from spec.trainer or spec.initializer"
                yield forbidden_field(f"{where}.env", detail)


def _framework(spec: Part, policy: Part, jobs: Mapping[str, Part]) -> Iterator[FieldError]:
    """Environment variables that a framework reserves, and what it needs in the runtime."""
    trainer: Part = spec.get("trainer") or {}
    for framework, reserved in RESERVED_ENV.items():
        if framework not in policy:
            continue
        for index, variable in enumerate(trainer.get("env") or ()):
            if variable["name"] in reserved:
                yield invalid(
                    f"spec.trainer.env[{index}]", variable["name"], f"is set by the {framework} policy itself"
                )
    for target in ((policy.get("torch") or {}).get("envInjection") or {}).get("targets") or ():
        job = jobs.get(target["jobName"], {})
        known = {**_containers(job), **_containers(job, "initContainers")}
        for name in target["containerNames"]:
            if name not in known:
                detail = f"envInjection of the runtime names {target['jobName']}/{name}, which its template lacks"
                yield invalid("spec.runtimeRef.name", spec["runtimeRef"]["name"], detail)
    nodes = _nodes(spec, policy)
    if (policy.get("mpi") or {}).get("runLauncherAsNode") and nodes >= 2 and not {"launcher", "node"} <= set(jobs):
        yield invalid("spec.trainer.numNodes", nodes, "needs the replicated jobs launcher and node in the runtime")
    if "flux" in policy and "flux-installer" in _containers(jobs.get("node", {}), "initContainers"):
        detail = "its replicated job node already has the init container flux-installer"
        yield invalid("spec.runtimeRef.name", spec["runtimeRef"]["name"], detail)


def _patches_closed(new: Part, old: Part, child: Object | None) -> list[FieldError]:
    path = "spec.runtimePatches"
    if not (new.get("suspend") or old.get("suspend")):
        return [forbidden_field(path, "can only be modified while the TrainJob is suspended")]
    counts = (child.get("status") or {}).get("replicatedJobsStatus") or () if child is not None else ()
    return [
        forbidden_field(path, f"cannot be modified while the replicated job {count['name']} is active")
        for count in counts
        if count.get("active")
    ]


def _gang(runtime_: Object) -> list[FieldError]:
    """Where the runtime groups pods its templates must not, and a Workload must be able to hold the groups."""
    spec = runtime_["spec"]
    problems = [*trainer_scheduling.brings_none(spec), *_reports(runtime_)]
    start = meta.annotations(runtime_).get(GANG_START)
    if start not in (None, "together"):
        problems.append(invalid(f"metadata.annotations[{GANG_START}]", start, "must be together, or left out"))
    if "workload" not in (spec.get("podGroupPolicy") or {}):
        return problems
    groups: set[str] = set()
    for name, job in _replicated(runtime_).items():
        labels: Part = ((job.get("template") or {}).get("metadata") or {}).get("labels") or {}
        step = labels.get(TRAINJOB_ANCESTOR_STEP, "")
        if "mpi" in (spec.get("mlPolicy") or {}) and name in ("launcher", "node"):
            step = "trainer"
        groups.add("initializer" if step in (DATASET, MODEL) else step if step == "trainer" else name)
    if len(groups) > MAX_TEMPLATES:
        many = f"a Workload holds at most {MAX_TEMPLATES} groups, these need {len(groups)}"
        problems.append(invalid("spec.template.spec.replicatedJobs", len(groups), many))
    return problems


def _grouping(obj: Object, runtime_: Object, jobs: Mapping[str, Part]) -> Iterator[FieldError]:
    """What a TrainJob itself says about its group, against what its runtime says."""
    spec, notes = runtime_["spec"], meta.annotations(obj)
    yield from _reports(obj)
    yield from _topology(notes, spec)
    parent = notes.get(PARENT_COMPOSITE)
    if parent is not None:
        where = f"metadata.annotations[{PARENT_COMPOSITE}]"
        yield from fields.long_name(where, parent)
        others = [source for source in ("coscheduling", "volcano") if source in (spec.get("podGroupPolicy") or {})]
        if others:
            yield forbidden_field(where, f"the runtime groups its pods by podGroupPolicy.{others[0]}")
        if "scheduling" in spec:
            yield forbidden_field(where, "the runtime's spec.scheduling makes groups of its own")
    for name, job in jobs.items():
        labels: Part = ((job.get("template") or {}).get("metadata") or {}).get("labels") or {}
        replicas = job.get("replicas", 1)
        if labels.get(TRAINJOB_ANCESTOR_STEP) == "trainer" and replicas > 1:
            nodes = _nodes(obj["spec"], spec.get("mlPolicy") or {})
            if nodes % replicas:
                detail = f"cannot be spread evenly over the {replicas} Jobs {name} of the runtime"
                yield invalid("spec.trainer.numNodes", nodes, detail)


def _topology(notes: Mapping[str, str], spec: Part) -> Iterator[FieldError]:
    """Annotations that shape the trainer's group need one that is made from the runtime."""
    grouped = "scheduling" in spec or "workload" in (spec.get("podGroupPolicy") or {})
    for name in (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY):
        where = f"metadata.annotations[{name}]"
        if name in notes and PARENT_COMPOSITE in notes:
            yield forbidden_field(where, f"the group below that of {PARENT_COMPOSITE} is made from its Workload")
        elif name in notes and not grouped:
            yield forbidden_field(where, "the runtime makes no group: it needs podGroupPolicy.workload or scheduling")
    asked, key = notes.get(REQUIRED_TOPOLOGY), trainer_scheduling.key_of_trainer(spec)
    where = f"metadata.annotations[{REQUIRED_TOPOLOGY}]"
    if asked is not None:
        yield from fields.needed(where, asked, fields.label_key)
    yield from grouping.annotated_keys(notes)
    if asked is not None and key and asked != key:
        yield invalid(where, asked, f"the runtime's spec.scheduling says {key}; leave the annotation out")


def _reports(obj: Object) -> Iterator[FieldError]:
    asked = meta.annotations(obj).get(PROGRESS_REPORTS, "true")
    if asked not in ("true", "false"):
        yield not_supported(f"metadata.annotations[{PROGRESS_REPORTS}]", asked, ("true", "false"))


def _nodes(spec: Part, policy: Part) -> int:
    trainer: Part = spec.get("trainer") or {}
    return int(trainer.get("numNodes", policy.get("numNodes", 1)))
