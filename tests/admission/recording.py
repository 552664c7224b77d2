"""What the tests of rules decide, written down, so that other judges can be asked the same.

A pytest plugin: `ECHELON_RECORD=file pytest -p tests.admission.recording tests/unit/api/rules/…` writes every object of
JobSet and the Trainer kinds that a test had validated or defaulted, with what our own rules said of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from echelon.api import admission, rules
from echelon.api.errors import ApiError, FieldError
from echelon.api.schema import kind_schema
from echelon.api.scheme import (
    CLUSTER_TRAINING_RUNTIMES,
    JOB_SETS,
    NAMESPACES,
    OWN_GROUP_KINDS,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    Object,
    Resource,
)
from tests.unit.api.rules import builders

from .cases import Default, Recorded, Write

_KINDS = {
    one.qualified for one in (JOB_SETS, TRAIN_JOBS, TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES, *OWN_GROUP_KINDS)
}
_recorded = Recorded([], [])
#: Whether admission is asked, which asks the rules itself.
_inside = [False]


def _copy(obj: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(obj))


def _test() -> str:
    return os.environ.get("PYTEST_CURRENT_TEST", "").removesuffix(" (call)").rpartition("/")[2]


def _note(resource: Resource, new: Object, old: Object | None, problems: list[FieldError]) -> None:
    if resource.qualified in _KINDS and not _inside[0]:
        said = [str(one) for one in (*kind_schema.check(resource, new), *problems)]
        _recorded.writes.append(Write(_test(), resource.qualified, _copy(new), _copy(old), said))


def _told_by_status(old: Object, beside: list[tuple[str, Object]]) -> Object:
    """Our server looks at the JobSet of a TrainJob; others know of it what the TrainJob's status says."""
    for kind, one in beside:
        counts = (one.get("status") or {}).get("replicatedJobsStatus")
        if kind == JOB_SETS.qualified and one["metadata"]["name"] == old["metadata"]["name"] and counts:
            none = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
            return {**old, "status": {"jobsStatus": [{**none, **count} for count in counts]}}
    return old


def _admitting(admit: Callable[..., None]) -> Callable[..., None]:
    """Admission, written down with what else there is."""

    def admitted(resource: Resource, new: Object, *others: Any) -> None:
        *before, reader = others
        said: list[str] = []
        _inside[0] = True
        try:
            admit(resource, new, *others)
        except ApiError as error:
            said.append(error.message)
            raise
        finally:
            _inside[0] = False
            if resource.qualified in _KINDS and isinstance(reader, builders.Cluster):
                beside = [(kind.qualified, _copy(one)) for kind, one in reader._objects if kind != NAMESPACES]
                old = _told_by_status(_copy(before[0]), beside) if before else None
                # A status that is sent is dropped.
                sent = {field: value for field, value in new.items() if field != "status"}
                problems = [str(one) for one in kind_schema.check(resource, sent)] or said
                _recorded.writes.append(Write(_test(), resource.qualified, _copy(sent), old, problems, beside))

    return admitted


def pytest_configure(config: pytest.Config) -> None:
    admission.admit_create = _admitting(admission.admit_create)
    admission.admit_update = _admitting(admission.admit_update)
    create, update, stored = rules.validate_create, rules.validate_update, builders.stored

    def validate_create(resource: Resource, obj: Object) -> list[FieldError]:
        problems = create(resource, obj)
        _note(resource, obj, None, problems)
        return problems

    def validate_update(resource: Resource, new: Object, old: Object, subresource: str = "") -> list[FieldError]:
        problems = update(resource, new, old, subresource)
        if not subresource:
            _note(resource, new, old, problems)
        return problems

    def defaulted(resource: Resource, body: Object) -> Object:
        result = stored(resource, body)
        if resource.qualified in _KINDS and not resource.builtin:
            _recorded.defaults.append(Default(_test(), resource.qualified, _copy(body), _copy(result)))
        return result

    rules.validate_create, rules.validate_update, builders.stored = validate_create, validate_update, defaulted


def pytest_unconfigure(config: pytest.Config) -> None:
    Path(os.environ["ECHELON_RECORD"]).write_bytes(msgspec.json.encode(_recorded))
