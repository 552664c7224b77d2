"""Rules of PodTemplate and ControllerRevision: stored templates, and stored states of a controller's object."""

from __future__ import annotations

from ..errors import FieldError, invalid, required
from ..scheme import Object
from . import fields, metadata, podspec
from .kind import KindRules


def _pod_template(obj: Object) -> list[FieldError]:
    template = obj.get("template") or {}
    inner = template.get("metadata") or {}
    return [
        *metadata.check_labels("template.labels", inner.get("labels")),
        *metadata.check_annotations("template.annotations", inner.get("annotations")),
        *podspec.check("template.spec", template.get("spec") or {}),
    ]


POD_TEMPLATE = KindRules(validate_create=_pod_template, validate_update=lambda new, old: _pod_template(new))


def _revision(obj: Object) -> list[FieldError]:
    data = obj.get("data")
    problems = fields.not_negative("revision", obj.get("revision"))
    if data is None:
        problems.append(required("data", "data is mandatory"))
    elif not isinstance(data, dict):
        problems.append(required("data", "data must be a valid JSON object"))
    return problems


def _revision_update(new: Object, old: Object) -> list[FieldError]:
    problems = fields.not_negative("revision", new.get("revision"))
    if new.get("data") != old.get("data"):
        problems.append(invalid("data", new.get("data"), "field is immutable"))
    return problems


CONTROLLER_REVISION = KindRules(validate_create=_revision, validate_update=_revision_update)
