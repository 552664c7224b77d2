"""Defaults of JobSet that no schema of upstream has, as JSON patches in CEL: see `api.rules.jobset`.

A stored object without a default keeps to that when it changes, or what never changes would.  Expressions say `one` for
an entry of a list and `i` for its index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...api.scheme import JOB_SETS, Resource


@dataclass(frozen=True)
class DefaultSet:
    """The defaults of one kind."""

    name: str
    resource: Resource
    #: CEL: a list of patches, applied one after the other, whose conditions see the object as it was sent.
    patches: str
    #: A server asks at each of these for every object of the kind, whoever's it is.
    operations: tuple[str, ...] = ("CREATE", "UPDATE")
    #: Labels of the objects that it is about; empty: all.
    selector: Mapping[str, Any] = field(default_factory=dict)


def add_patch(path: str, value: str) -> str:
    """A patch; path and value are CEL."""
    return f"JSONPatch{{op: 'add', path: {path}, value: {value}}}"


def _field(path: str, value: str) -> str:
    """A field of the spec, if it is absent."""
    sent, stored = (f"{holder}.?spec.?{path.replace('/', '.?')}" for holder in ("object", "oldObject"))
    where = f"'/spec/{path}'"
    return f"({sent}.hasValue() || (oldObject != null && !{stored}.hasValue()) ? [] : [{add_patch(where, value)}])"


def _part(field: str, inner: dict[str, str]) -> str:
    """A part of the spec, and its fields."""
    return " + ".join([_field(field, "{}"), *(_field(f"{field}/{name}", value) for name, value in inner.items())])


def _in_list(path: str, condition: str, field: str, value: str) -> str:
    """A field of the entries of a list in the spec that satisfy a condition on `one`."""
    entries = f"object.?spec.?{path.replace('/', '.?')}.orValue([])"
    where = f"'/spec/{path}/' + string(i) + '/{field}'"
    return f"{entries}.transformList(i, one, {condition}, {add_patch(where, value)})"


def _empty(path: str) -> str:
    return f"one.{path}.orValue('') == ''"


_JOB, _POD = "?template.?spec", "?template.?spec.?template.?spec"
_POD_PATH = "template/spec/template/spec"
_SPEC_PATH = "'/spec'"
_NO_SPEC = f"(has(object.spec) ? [] : [{add_patch(_SPEC_PATH, '{}')}])"
_UNNAMED = (
    f"{_empty('?name')} && (oldObject == null || oldObject.?spec.?failurePolicy.?rules[?i].?name.orValue('') != '')"
)

JOBSET_DEFAULTS = DefaultSet(
    "jobset-defaults",
    JOB_SETS,
    " + ".join(
        (
            _NO_SPEC,
            _part("network", {"enableDNSHostnames": "true", "publishNotReadyAddresses": "true"}),
            _part("successPolicy", {"operator": "'All'"}),
            _part("startupPolicy", {"startupPolicyOrder": "'AnyOrder'"}),
            _in_list("replicatedJobs", "!has(one.template)", "template", "{}"),
            _in_list("replicatedJobs", f"!one.{_JOB}.hasValue()", "template/spec", "{}"),
            _in_list("replicatedJobs", f"!one.{_JOB}.?template.hasValue()", "template/spec/template", "{}"),
            _in_list("replicatedJobs", f"!one.{_POD}.hasValue()", _POD_PATH, "{}"),
            _in_list("replicatedJobs", _empty(f"{_JOB}.?completionMode"), "template/spec/completionMode", "'Indexed'"),
            _in_list("replicatedJobs", _empty(f"{_POD}.?restartPolicy"), f"{_POD_PATH}/restartPolicy", "'OnFailure'"),
            _in_list("failurePolicy/rules", _UNNAMED, "name", "'failurePolicyRule' + string(i)"),
            _in_list("volumeClaimPolicies", "!has(one.retentionPolicy)", "retentionPolicy", "{}"),
            _in_list(
                "volumeClaimPolicies",
                "!one.?retentionPolicy.?whenDeleted.hasValue()",
                "retentionPolicy/whenDeleted",
                "'Delete'",
            ),
        )
    ),
)
