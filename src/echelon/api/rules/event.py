"""Rules of Event.  Both forms are checked as stored, in v1; what is written as events.k8s.io/v1 is checked strictly."""

from __future__ import annotations

from ..errors import FieldError, invalid, required
from ..scheme import Object
from . import fields
from .kind import KindRules

_LONGEST_WORD, _LONGEST_NOTE = 128, 1024
_TYPES = ("Normal", "Warning")
#: What never changes through events.k8s.io/v1; a series may.
_FROZEN = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type", "eventTime",
    "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip
_NAMES = {"reportingComponent": "reportingController"}


def _legacy(obj: Object, controller_field: str) -> list[FieldError]:
    """An event with eventTime is a new one and needs more."""
    about = (obj.get("involvedObject") or {}).get("namespace", "")
    space = obj["metadata"].get("namespace", "")
    elsewhere = [invalid("involvedObject.namespace", about, "does not match event.namespace")]
    if not obj.get("eventTime"):
        # Events about cluster-scoped objects live in `default`.
        return [] if about == space or (not about and space == "default") else elsewhere
    problems = elsewhere if not about and space not in ("default", "kube-system") else []
    controller = obj.get("reportingComponent", "")
    if not controller:
        problems.append(required(controller_field))
    problems += fields.label_key(controller_field, controller)
    for field in ("reportingInstance", "action", "reason"):
        text = obj.get(field, "")
        if not text:
            problems.append(required(field))
        if len(text) > _LONGEST_WORD:
            problems.append(invalid(field, "", f"can have at most {_LONGEST_WORD} characters"))
    if len(obj.get("message", "")) > _LONGEST_NOTE:
        problems.append(invalid("message", "", f"can have at most {_LONGEST_NOTE} characters"))
    return problems


def _old_form(obj: Object) -> list[FieldError]:
    return _legacy(obj, "reportingComponent")


EVENT = KindRules(validate_create=_old_form, validate_update=lambda new, old: _old_form(new))


def _series(obj: Object) -> list[FieldError]:
    series = obj.get("series")
    if series is None:
        return []
    problems: list[FieldError] = []
    if series.get("count", 0) < 2:
        problems.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        problems.append(required("series.lastObservedTime"))
    return problems


def _new_form(obj: Object) -> list[FieldError]:
    problems = _legacy(obj, "reportingController") + _series(obj)
    if not obj.get("eventTime"):
        problems.append(required("eventTime"))
    if obj.get("type") not in _TYPES:
        problems.append(invalid("type", "", f"has invalid value: {obj.get('type', '')}"))
    problems += [
        invalid(field, "", "needs to be unset")
        for field in ("firstTimestamp", "lastTimestamp", "count", "source")
        if obj.get(field)
    ]
    return problems


def _new_form_update(new: Object, old: Object) -> list[FieldError]:
    problems = _legacy(new, "reportingController")
    if new.get("series") != old.get("series"):
        problems += _series(new)
    return problems + [
        invalid(_NAMES.get(field, field), new.get(field), "field is immutable")
        for field in _FROZEN
        if (new.get(field) or None) != (old.get(field) or None)
    ]


EVENT_V1 = KindRules(validate_create=_new_form, validate_update=_new_form_update)
