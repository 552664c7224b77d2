"""Rules of TrainJob and the two kinds of training runtime that need only the object itself (422).

Checks against the runtime of a TrainJob or its JobSet are in `admission.trainjob` (403).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...base.instants import to_time
from ..errors import FieldError, invalid, required
from ..objects import meta, name_formats
from ..objects.builtin_runtimes import likeness
from ..objects.subtree import items, mapping
from ..objects.vocabulary import TRAINJOB_ANCESTOR_STEP
from ..scheme import Object
from . import jobset_policies, jobset_stages, trainer_scheduling
from .kind import NOTHING, KindRules

CONTROLLER = "trainer.kubeflow.org/trainjob-controller"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
SUPPORT = "trainer.kubeflow.org/support"
DATASET, MODEL = "dataset-initializer", "model-initializer"
#: Step of a TrainJob -> the container of the runtime that does it.
STEP_CONTAINERS = {"trainer": "node", DATASET: DATASET, MODEL: MODEL}
FRAMEWORKS = ("torch", "mpi", "jax", "xgboost", "flux")
GANG_SOURCES = ("coscheduling", "volcano", "workload")
#: Immutable fields of a TrainJob; absent ones may be added while it has no JobSet.
IMMUTABLE = ("runtimeRef", "initializer", "trainer", "activeDeadlineSeconds", "managedBy")
#: Of a pod in a runtime patch, once set.
IMMUTABLE_POD = (
    "serviceAccountName",
    "volumes",
    "initContainers",
    "containers",
    "imagePullSecrets",
    "securityContext",
    "terminationGracePeriodSeconds",
)
#: Of the JobSet template in a runtime, once set.
IMMUTABLE_TEMPLATE = ("failurePolicy", "network", "startupPolicy", "successPolicy", "volumeClaimPolicies")
_STORAGE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.+")

Part = Mapping[str, Any]


def _train_job(obj: Object) -> list[FieldError]:
    if "spec" not in obj:
        return [required("spec")]
    spec: Part = obj["spec"]
    name = meta.name(obj)
    problems = (
        [invalid("metadata.name", name, sentence) for sentence in name_formats.dns1035_label(name)] if name else []
    )
    manager = spec.get("managedBy", CONTROLLER)
    if manager not in (CONTROLLER, MULTIKUEUE):
        detail = f"ManagedBy must be {CONTROLLER} or {MULTIKUEUE} if set"
        problems.append(invalid("spec.managedBy", manager, detail))
    for part, initializer in (spec.get("initializer") or {}).items():
        address = initializer.get("storageUri", "")
        if address and not _STORAGE_URI.fullmatch(address):
            detail = "storageUri must be empty or have the form scheme://place, such as hf://org/repository"
            problems.append(invalid(f"spec.initializer.{part}.storageUri", address, detail))
    return problems + jobset_stages.check(obj)


def _train_job_update(new: Object, old: Object) -> list[FieldError]:
    if "spec" not in new:
        return [required("spec")]
    now, was = new["spec"], old.get("spec") or {}
    problems = _frozen_once_set("spec", now, was, IMMUTABLE)
    before = {key: pods for key, _, pods in _patched_pods(was)}
    for key, path, pods in _patched_pods(now):
        problems += _frozen_once_set(path, pods, before.get(key, {}), IMMUTABLE_POD)
    return problems + jobset_stages.check_update(new, old)


def _frozen_once_set(path: str, new: Part, old: Part, names_of_fields: tuple[str, ...]) -> list[FieldError]:
    """Errors for values that differ where both have one; adding and removing is another rule."""
    return [
        invalid(f"{path}.{field}", new[field], "field is immutable")
        for field in names_of_fields
        if field in new and field in old and new[field] != old[field]
    ]


def _patched_pods(spec: Part) -> Iterator[tuple[tuple[str, str], str, Part]]:
    """Every pod spec in the runtime patches with its key (manager, replicated job) and its path."""
    for outer, patch in enumerate(spec.get("runtimePatches") or ()):
        jobs = ((patch.get("trainingRuntimeSpec") or {}).get("template") or {}).get("spec") or {}
        for inner, job in enumerate(jobs.get("replicatedJobs") or ()):
            pods = ((job.get("template") or {}).get("spec") or {}).get("template") or {}
            where = f"spec.runtimePatches[{outer}].trainingRuntimeSpec.template.spec.replicatedJobs[{inner}]"
            key = (patch.get("manager", ""), job.get("name", ""))
            yield key, f"{where}.template.spec.template.spec", pods.get("spec") or {}


def _stamp_new(obj: Object, now: float) -> None:
    """Set the time of new runtime patches, unless it is given."""
    for patch in (obj.get("spec") or {}).get("runtimePatches") or ():
        patch.setdefault("time", to_time(now))


def _stamp_changed(new: Object, old: Object, now: float) -> None:
    """An unchanged runtime patch keeps its time; a changed one gets the current time."""
    before = {patch.get("manager"): patch for patch in (old.get("spec") or {}).get("runtimePatches") or ()}
    for patch in (new.get("spec") or {}).get("runtimePatches") or ():
        was = before.get(patch.get("manager"))
        if was is None:
            patch.setdefault("time", to_time(now))
        elif _without_time(patch) == _without_time(was):
            patch["time"] = was.get("time", to_time(now))
        else:
            patch["time"] = to_time(now)


def _without_time(patch: Part) -> dict[str, Any]:
    return {field: value for field, value in patch.items() if field != "time"}


TRAIN_JOB = KindRules(
    start=_stamp_new,
    keep=_stamp_changed,
    validate_create=_train_job,
    validate_update=_train_job_update,
    status_metadata=NOTHING,
)


def _runtime(obj: Object) -> list[FieldError]:
    if "spec" not in obj:
        return [required("spec")]
    spec: Part = obj["spec"]
    policy, gangs = spec.get("mlPolicy") or {}, spec.get("podGroupPolicy") or {}
    problems: list[FieldError] = []
    for path, holder, members in (("spec.mlPolicy", policy, FRAMEWORKS), ("spec.podGroupPolicy", gangs, GANG_SOURCES)):
        present = [member for member in members if member in holder]
        if len(present) > 1:
            problems.append(invalid(path, present, f"only one of {', '.join(members)} may be set"))
    injection = (policy.get("torch") or {}).get("envInjection") or {}
    for index, target in enumerate(injection.get("targets") or ()):
        if "node" in (target.get("containerNames") or ()):
            where = f"spec.mlPolicy.torch.envInjection.targets[{index}].containerNames"
            problems.append(invalid(where, target["containerNames"], "may not contain node, which always gets it"))
    template: Part = (spec.get("template") or {}).get("spec") or {}
    problems += trainer_scheduling.check(spec)
    return problems + jobset_policies.order("spec.template.spec", template)


def _runtime_update(new: Object, old: Object) -> list[FieldError]:
    path = "spec.template.spec"
    now: Part = ((new.get("spec") or {}).get("template") or {}).get("spec") or {}
    was: Part = ((old.get("spec") or {}).get("template") or {}).get("spec") or {}
    problems = _runtime(new) + _frozen_once_set(path, now, was, IMMUTABLE_TEMPLATE)
    before = {job.get("name"): job for job in was.get("replicatedJobs") or ()}
    for index, job in enumerate(now.get("replicatedJobs") or ()):
        where = f"{path}.replicatedJobs[{index}]"
        problems += _frozen_once_set(where, job, before.get(job.get("name"), {}), ("dependsOn",))
    return problems


def steps(obj: Object) -> list[FieldError]:
    """Containers that the replicated jobs of a runtime lack for the steps of a TrainJob that they are labelled with."""
    problems: list[FieldError] = []
    for index, job in enumerate(items(obj, "spec", "template", "spec", "replicatedJobs")):
        step = mapping(job, "template", "metadata", "labels").get(TRAINJOB_ANCESTOR_STEP, "")
        container = STEP_CONTAINERS.get(step)
        known = [one.get("name") for one in items(job, "template", "spec", "template", "spec", "containers")]
        if container is not None and container not in known:
            where = f"spec.template.spec.replicatedJobs[{index}].template.spec.template.spec.containers"
            problems.append(required(where, f"must have the container {container}"))
    return problems


def _runtime_warnings(obj: Object) -> list[str]:
    return own_warnings(obj) + [str(problem) for problem in steps(obj)]


def own_warnings(obj: Object) -> list[str]:
    """What its TrainJobs are told of a runtime too."""
    told: list[str] = []
    if meta.labels(obj).get(SUPPORT) == "deprecated":
        told.append(f'runtime "{meta.name(obj)}" is deprecated and will be removed; choose another for new TrainJobs')
    if like := likeness(obj):
        told.append(f"spec.template.spec.replicatedJobs: is empty: TrainJobs run on the template of {like}")
    return told


TRAINING_RUNTIME = KindRules(
    validate_create=_runtime, validate_update=_runtime_update, warnings=_runtime_warnings, status_metadata=NOTHING
)
