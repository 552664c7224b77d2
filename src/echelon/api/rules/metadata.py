"""Rules of `metadata`, the same for every kind: names, labels, annotations, owners, finalizers, server-owned fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ..errors import FieldError, forbidden_field, invalid, required, too_long
from ..objects import name_formats
from ..scheme import NAMESPACES, ROLES, SERVICES, Object, Resource
from . import fields

LARGEST_ANNOTATIONS = 256 * 1024
#: Fields that an update can neither set nor clear.
SERVER_OWNED = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
#: Immutable identity.
IMMUTABLE = ("name", "namespace", "uid", "generateName")
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_STANDARD_FINALIZERS = ("kubernetes", ORPHAN, FOREGROUND)


def _name_sentences(resource: Resource) -> Callable[[str], list[str]]:
    if resource.plural == NAMESPACES.plural and not resource.group:
        return name_formats.dns1123_label
    if resource.plural == SERVICES.plural and not resource.group:
        return name_formats.dns1035_label
    if resource.group == ROLES.group:
        return name_formats.path_segment
    return name_formats.dns1123_subdomain


def validate(resource: Resource, meta: Mapping[str, Any]) -> list[FieldError]:
    """All errors in the metadata of a new object."""
    return _named(resource, meta) + _parts(resource, meta)


_PARTS = ("labels", "annotations", "ownerReferences", "finalizers")


def _parts(resource: Resource, meta: Mapping[str, Any]) -> list[FieldError]:
    return [
        *check_labels("metadata.labels", meta.get("labels")),
        *check_annotations("metadata.annotations", meta.get("annotations")),
        *_owners("metadata.ownerReferences", meta.get("ownerReferences") or ()),
        *_finalizers("metadata.finalizers", meta.get("finalizers") or (), fully_qualified=resource.builtin),
    ]


def _named(resource: Resource, meta: Mapping[str, Any]) -> list[FieldError]:
    sentences = _name_sentences(resource)
    prefix, name = meta.get("generateName", ""), meta.get("name", "")
    # The suffix of a generated name is added later, so its prefix may end in a dash.
    stem = prefix[:-1] + "a" if prefix.endswith("-") and len(prefix) > 1 else prefix
    problems = [invalid("metadata.generateName", prefix, sentence) for sentence in sentences(stem)] if stem else []
    if name:
        problems += [invalid("metadata.name", name, sentence) for sentence in sentences(name)]
    else:
        problems.append(required("metadata.name", "name or generateName is required"))
    if resource.namespaced:
        problems += fields.needed("metadata.namespace", meta.get("namespace"), fields.short_name)
    elif meta.get("namespace"):
        problems.append(forbidden_field("metadata.namespace", "not allowed on this type"))
    return problems


def check_labels(path: str, value: Mapping[str, str] | None) -> list[FieldError]:
    problems: list[FieldError] = []
    for key, text in (value or {}).items():
        problems += fields.label_key(path, key)
        problems += fields.label_value(path, text)
    return problems


def check_annotations(path: str, value: Mapping[str, str] | None) -> list[FieldError]:
    problems: list[FieldError] = []
    size = 0
    for key, text in (value or {}).items():
        problems += [invalid(path, key, sentence) for sentence in name_formats.qualified_name(key.lower())]
        size += len(key.encode()) + len(text.encode())
    if size > LARGEST_ANNOTATIONS:
        problems.append(too_long(path, LARGEST_ANNOTATIONS))
    return problems


def _owners(path: str, owners: Sequence[Mapping[str, Any]]) -> list[FieldError]:
    problems: list[FieldError] = []
    controller = ""
    for index, owner in enumerate(owners):
        where = f"{path}[{index}]"
        version = owner.get("apiVersion", "")
        if not version or version.endswith("/") or version.count("/") > 1:
            problems.append(invalid(f"{where}.apiVersion", version, "version must not be empty"))
        problems += [
            invalid(f"{where}.{field}", owner.get(field, ""), "must not be empty")
            for field in ("kind", "name", "uid")
            if not owner.get(field)
        ]
        if (version, owner.get("kind")) == ("v1", "Event"):
            problems.append(invalid(where, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            if controller:
                detail = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {owner.get('name', '')}"
                )
                problems.append(invalid(path, owners, detail))
            controller = controller or owner.get("name", "")
    return problems


def _finalizers(path: str, finalizers: Sequence[str], *, fully_qualified: bool) -> list[FieldError]:
    problems: list[FieldError] = []
    for index, finalizer in enumerate(finalizers):
        problems += fields.label_key(path, finalizer)
        if fully_qualified and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            problems.append(invalid(f"{path}[{index}]", finalizer, detail))
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        detail = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        problems.append(invalid(path, finalizers, detail))
    return problems


def keep(meta: Object, old: Mapping[str, Any]) -> None:
    """Restore the server-owned fields in an update."""
    for field in SERVER_OWNED:
        if field in old:
            meta[field] = old[field]
        else:
            meta.pop(field, None)
    for field in IMMUTABLE:
        if field in old:
            meta.setdefault(field, old[field])


def without_repeated_owners(meta: Object) -> None:
    """Remove duplicate owner references."""
    owners = meta.get("ownerReferences")
    if owners and len(owners) > 1:
        found: dict[bytes, Object] = {}
        for owner in owners:
            found.setdefault(msgspec.json.encode(owner, order="sorted"), owner)
        meta["ownerReferences"] = list(found.values())


def validate_update(resource: Resource, meta: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    """Validate what changed; stored metadata is valid."""
    problems = [
        invalid(f"metadata.{field}", meta.get(field), "field is immutable")
        for field in ("name", "namespace", "uid")
        if meta.get(field) != old.get(field)
    ]
    problems += _parts(resource, {field: meta.get(field) for field in _PARTS if meta.get(field) != old.get(field)})
    if old.get("deletionTimestamp"):
        before = old.get("finalizers") or ()
        added = [finalizer for finalizer in meta.get("finalizers") or () if finalizer not in before]
        if added:
            listed = ", ".join(f'"{finalizer}"' for finalizer in added)
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            problems.append(forbidden_field("metadata.finalizers", detail))
    return problems
