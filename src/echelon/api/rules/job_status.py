"""Rules of a Job's status: consistent counters, and terminal conditions that stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...base import instants
from ..errors import FieldError, duplicate, invalid, required
from ..objects import completion_indexes, meta
from ..scheme import Object
from . import fields

COMPLETE, FAILED = "Complete", "Failed"
SUCCESS_MET, FAILURE_TARGET, SUSPENDED = "SuccessCriteriaMet", "FailureTarget", "Suspended"
_COUNTERS = ("active", "succeeded", "failed", "terminating", "ready")
_EXCLUSIVE = ((COMPLETE, FAILED), (COMPLETE, FAILURE_TARGET), (SUCCESS_MET, FAILED), (SUCCESS_MET, FAILURE_TARGET))
#: A terminal condition, and the condition that must precede it.
_ANNOUNCED = ((FAILED, FAILURE_TARGET), (COMPLETE, SUCCESS_MET))

Part = Mapping[str, Any]


def check(new: Object, old: Object) -> list[FieldError]:
    status, was = new.get("status") or {}, old.get("status") or {}
    problems = _counters(status)
    problems += _conditions(new, old)
    if _finished(new) and (not _finished(old) or _changed(status, was)):
        problems += _at_the_end(new, status)
    return problems + _times(new, old) + _only_growing(new, status, was) + _index_texts(new, status)


def _counters(status: Part) -> list[FieldError]:
    problems: list[FieldError] = []
    for counter in _COUNTERS:
        problems += fields.not_negative(f"status.{counter}", status.get(counter))
    if status.get("ready", 0) > status.get("active", 0):
        detail = f"cannot set more ready pods than active: {status.get('active', 0)}"
        problems.append(invalid("status.ready", status.get("ready"), detail))
    seen: dict[str, str] = {}
    for part, uids in (status.get("uncountedTerminatedPods") or {}).items():
        for index, uid in enumerate(uids or ()):
            where = f"status.uncountedTerminatedPods.{part}[{index}]"
            if not uid:
                problems.append(invalid(where, uid, "must not be empty"))
            elif seen.setdefault(uid, where) != where:
                problems.append(duplicate(where, uid))
    return problems


def _conditions(new: Object, old: Object) -> list[FieldError]:
    path = "status.conditions"
    problems = [
        invalid(path, None, f"cannot set {one}=True and {other}=True conditions")
        for one, other in _EXCLUSIVE
        if meta.condition_is(new, one) and meta.condition_is(new, other)
    ]
    problems += [
        invalid(path, None, f"cannot set {end}=True condition without the {announcement}=true condition")
        for end, announcement in _ANNOUNCED
        if meta.condition_is(new, end) and not meta.condition_is(new, announcement) and not meta.condition_is(old, end)
    ]
    problems += [
        invalid(path, None, f"cannot disable {kept}=True condition")
        for kept in (FAILED, COMPLETE, FAILURE_TARGET, SUCCESS_MET)
        if meta.condition_is(old, kept) and not meta.condition_is(new, kept)
    ]
    return problems


def _finished(job: Object) -> bool:
    return meta.condition_is(job, COMPLETE) or meta.condition_is(job, FAILED)


def _changed(status: Part, was: Part) -> bool:
    watched = ("active", "terminating", "uncountedTerminatedPods", "startTime")
    return any(status.get(field) != was.get(field) for field in watched)


def _at_the_end(job: Object, status: Part) -> list[FieldError]:
    problems = [
        invalid(f"status.{counter}", status[counter], f"{counter} pods must be 0 for finished jobs")
        for counter in ("active", "terminating")
        if status.get(counter)
    ]
    if any((status.get("uncountedTerminatedPods") or {}).values()):
        detail = "uncountedTerminatedPods must be empty for finished job"
        problems.append(invalid("status.uncountedTerminatedPods", status["uncountedTerminatedPods"], detail))
    spec = job.get("spec") or {}
    if "startTime" not in status and not (spec.get("suspend") and spec.get("completions") == 0):
        problems.append(required("status.startTime", "startTime must be set for finished jobs"))
    return problems


def _times(new: Object, old: Object) -> list[FieldError]:
    status, was = new.get("status") or {}, old.get("status") or {}
    start, end = status.get("startTime"), status.get("completionTime")
    complete = meta.condition_is(new, COMPLETE)
    path, problems = "status.completionTime", []
    if end is not None and not complete:
        problems.append(invalid(path, end, "cannot set completionTime when there is no Complete=True condition"))
    if end is None and complete:
        problems.append(required(path, "completionTime is required for Complete jobs"))
    if "completionTime" in was and end != was["completionTime"]:
        problems.append(invalid(path, end, "field is immutable"))
    if start is not None and end is not None and instants.parse(end) < instants.parse(start):
        problems.append(invalid(path, end, "completionTime cannot be set before startTime"))
    resumed = meta.condition_is(old, SUSPENDED) and not meta.condition_is(new, SUSPENDED)
    running = not (new.get("spec") or {}).get("suspend")
    if "startTime" in was and start != was["startTime"] and running and not resumed:
        problems.append(required("status.startTime", "startTime cannot be changed for unsuspended job"))
    return problems


def _only_growing(new: Object, status: Part, was: Part) -> list[FieldError]:
    spec = new.get("spec") or {}
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    problems: list[FieldError] = []
    for counter in ("failed", "succeeded"):
        if counter == "succeeded" and elastic:
            continue
        if status.get(counter, 0) < was.get(counter, 0):
            detail = f"cannot decrease the {counter} counter"
            problems.append(invalid(f"status.{counter}", status.get(counter, 0), detail))
    return problems


def _index_texts(job: Object, status: Part) -> list[FieldError]:
    spec = job.get("spec") or {}
    completed, failed = status.get("completedIndexes"), status.get("failedIndexes")
    problems: list[FieldError] = []
    if completed and spec.get("completionMode") != "Indexed":
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        problems.append(invalid("status.completedIndexes", completed, detail))
    if failed is not None and "backoffLimitPerIndex" not in spec:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        problems.append(invalid("status.failedIndexes", failed, detail))
    if problems or spec.get("completionMode") != "Indexed":
        return problems
    read: dict[str, list[tuple[int, int]]] = {}
    for field, text in (("completedIndexes", completed), ("failedIndexes", failed)):
        try:
            read[field] = completion_indexes.parse(text or "", spec.get("completions") or 0)
        except ValueError as wrong:
            problems.append(invalid(f"status.{field}", text, f"error parsing {field}: {wrong}"))
    if len(read) == 2 and completion_indexes.overlap(read["completedIndexes"], read["failedIndexes"]):
        problems.append(invalid("status.failedIndexes", failed, "failedIndexes and completedIndexes overlap"))
    return problems
