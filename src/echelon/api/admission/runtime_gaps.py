"""What a runtime asks for and this server lacks: refused where nothing could run, else a warning."""

from __future__ import annotations

from collections.abc import Iterator

from ...base import quantity
from ..errors import FieldError, invalid
from ..objects import meta
from ..objects.builtin_runtimes import template_of
from ..objects.foreign_gangs import FOREIGN_GANGS, VOLCANO, VOLCANO_QUEUE, ForeignGang
from ..objects.subtree import items, mapping
from ..objects.vocabulary import DEFAULT_SCHEDULERS, TRAINJOB_ANCESTOR_STEP
from ..scheme import CUSTOM_RESOURCE_DEFINITIONS, PRIORITY_CLASSES, Object
from .reader import Reader

_TRAINER, _NODE, _LAUNCHER = "trainer", "node", "launcher"
_ESTABLISHED = "Established"
_SYSTEM_PRIORITIES = ("system-cluster-critical", "system-node-critical")


def of_runtime(runtime: Object, reader: Reader) -> list[str]:
    """Warnings at the creation of a runtime: what is missing may still come."""
    gang = _foreign_gang(runtime)
    if gang is None or _served(gang, reader):
        return []
    return [f"spec.podGroupPolicy.{gang.policy}: {gang.missing}; TrainJobs are refused until then"]


def of_trainjob(obj: Object, runtime: Object) -> list[str]:
    """Warnings at the creation of a TrainJob."""
    told: list[str] = []
    jobs = items(template_of(runtime), "spec", "replicatedJobs")
    if obj["spec"].get("trainer") and not any(_step(job) == _TRAINER for job in jobs):
        told.append(
            "spec.trainer: no replicated job of the runtime has the label "
            f"{TRAINJOB_ANCESTOR_STEP}: {_TRAINER}, so only numNodes of mpi has an effect"
        )
    if "mpi" in mapping(runtime, "spec", "mlPolicy") and all(job["name"] != _LAUNCHER for job in jobs):
        told.append(f"mlPolicy.mpi: the runtime has no replicated job {_LAUNCHER}, so nothing starts the processes")
    gang = _foreign_gang(runtime)
    ours = [job["name"] for job in jobs if _pod_spec(job).get("schedulerName", "") in DEFAULT_SCHEDULERS]
    if gang is not None and ours:
        told.append(
            f"podGroupPolicy.{gang.policy}: the scheduler here does not read PodGroups of {gang.group}; "
            f"set schedulerName on the pods of {', '.join(ours)}, or use podGroupPolicy.workload"
        )
    return told


def refusals(obj: Object, runtime: Object, reader: Reader) -> Iterator[FieldError]:
    """Why no TrainJob on this runtime could run."""
    reference = obj["spec"]["runtimeRef"]
    for job in items(template_of(runtime), "spec", "replicatedJobs"):
        names = [one.get("name") for one in items(_pod_spec(job), "containers")]
        if _step(job) == _TRAINER and _NODE not in names:
            detail = f"the runtime's replicated job {job['name']} has no container {_NODE}, in which training runs"
            yield invalid("spec.runtimeRef", reference, detail)
        elif _step(job) == _TRAINER:
            yield from _over_limits(obj, job)
    gang = _foreign_gang(runtime)
    if gang is not None and not _served(gang, reader):
        yield invalid("spec.runtimeRef", reference, f"podGroupPolicy.{gang.policy}: {gang.missing}")
    if gang is VOLCANO:
        yield from _volcano(obj, runtime, reader)


def _over_limits(obj: Object, job: Object) -> Iterator[FieldError]:
    """Requests of the TrainJob above limits that it leaves to the runtime: no pod would be accepted."""
    path, wanted = "spec.trainer.resourcesPerNode.requests", mapping(obj, "spec", "trainer", "resourcesPerNode")
    node = next(one for one in items(_pod_spec(job), "containers") if one.get("name") == _NODE)
    limits = {**mapping(node, "resources", "limits"), **mapping(wanted, "limits")}
    for name, amount in mapping(wanted, "requests").items():
        if name in limits and quantity.exact(amount) > quantity.exact(limits[name]):
            detail = f"must be at most the limit of {limits[name]}, which is the runtime's; set limits as well"
            yield invalid(f"{path}[{name}]", amount, detail)


def _volcano(obj: Object, runtime: Object, reader: Reader) -> Iterator[FieldError]:
    reference, template = obj["spec"]["runtimeRef"], template_of(runtime)
    annotations = dict(mapping(template, "metadata", "annotations"))
    for patch in items(obj, "spec", "runtimePatches"):
        annotations |= mapping(patch, "trainingRuntimeSpec", "template", "metadata", "annotations")
    if annotations.get(VOLCANO_QUEUE) == "":
        yield invalid("spec.runtimeRef", reference, f"the annotation {VOLCANO_QUEUE} of its JobSet must not be empty")
    for job in items(template, "spec", "replicatedJobs"):
        name = _pod_spec(job).get("priorityClassName", "")
        if name and name not in _SYSTEM_PRIORITIES and reader.get(PRIORITY_CLASSES, name) is None:
            yield invalid("spec.runtimeRef", reference, f'the PriorityClass "{name}" of {job["name"]} does not exist')


def _foreign_gang(runtime: Object) -> ForeignGang | None:
    policy = mapping(runtime, "spec", "podGroupPolicy")
    return next((gang for gang in FOREIGN_GANGS if gang.policy in policy), None)


def _served(gang: ForeignGang, reader: Reader) -> bool:
    found = reader.get(CUSTOM_RESOURCE_DEFINITIONS, gang.definition)
    return found is not None and not meta.deleting(found) and meta.condition_is(found, _ESTABLISHED)


def _step(job: Object) -> str:
    return str(mapping(job, "template", "metadata", "labels").get(TRAINJOB_ANCESTOR_STEP, ""))


def _pod_spec(job: Object) -> Object:
    return mapping(job, "template", "spec", "template", "spec")
