"""Rules of CustomResourceDefinition; those of its schemas are in `structural_schemas`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..custom.defined_kinds import ESTABLISHED, is_known
from ..errors import FieldError, forbidden_field, invalid, not_supported, required, too_many
from ..objects import meta
from ..objects.name_formats import dns1035_label, dns1123_subdomain
from ..scheme import Object
from . import fields, structural_schemas, validation_rules
from .kind import KindRules

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = (
    "int32", "int64", "float", "double", "byte", "date", "date-time", "password",
)  # fmt: skip
_MOST_SELECTABLE = 8
_APPROVAL = "api-approved.kubernetes.io"
#: The keywords at the root of a schema whose status is a subresource.
_ROOT_KEYWORDS = frozenset(
    (
        "$ref", "description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
        "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required", "items",
        "properties", "externalDocs", "example", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
    )
)  # fmt: skip
_SIMPLE_PATH = re.compile(r"(\.[A-Za-z0-9_$-]+|\['[^']+'\])+")
_LOOSE_PATH = re.compile(r"(\.[^.\[\]{}\s]+|\.?\[[^\[\]{}]+\])+")


def _default(obj: Object, _old: Object | None) -> None:
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if kind := names.get("kind"):
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


def _start(obj: Object, _now: float) -> None:
    obj["status"] = {"acceptedNames": {"kind": "", "plural": ""}, "conditions": [], "storedVersions": _stored(obj, [])}


def _keep(new: Object, old: Object, _now: float) -> None:
    status = old.get("status") or {}
    new["status"] = {**status, "storedVersions": _stored(new, status.get("storedVersions") or [])}


def _stored(obj: Object, known: Sequence[str]) -> list[str]:
    """The versions in which objects may be stored, with the present one."""
    now = [version["name"] for version in obj["spec"].get("versions") or () if version.get("storage")][:1]
    return [*known, *(name for name in now if name not in known)]


def _validate(obj: Object) -> list[FieldError]:
    spec = obj["spec"]
    name, needed = meta.name(obj), f"{spec['names'].get('plural', '')}.{spec.get('group', '')}"
    problems = []
    if name != needed:
        problems.append(invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    problems += _spec(spec)
    problems += _stored_versions(obj)
    return problems + _approval(obj)


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    spec, was = new["spec"], old["spec"]
    problems = _spec(spec)
    if meta.condition_is(old, ESTABLISHED):
        problems += fields.frozen("spec.scope", spec.get("scope"), was.get("scope"))
        problems += fields.frozen("spec.names.kind", spec["names"].get("kind"), was["names"].get("kind"))
    problems += fields.frozen("spec.group", spec.get("group"), was.get("group"))
    problems += fields.frozen("spec.names.plural", spec["names"].get("plural"), was["names"].get("plural"))
    problems += _stored_versions(new)
    return (
        problems
        if meta.annotations(old).get(_APPROVAL) == meta.annotations(new).get(_APPROVAL)
        else (problems + _approval(new))
    )


def _spec(spec: Object) -> list[FieldError]:
    problems = _group(spec.get("group", ""))
    scope = spec.get("scope", "")
    if not scope:
        problems.append(required("spec.scope"))
    elif scope not in ("Cluster", "Namespaced"):
        problems.append(not_supported("spec.scope", scope, ("Cluster", "Namespaced")))
    versions = spec.get("versions") or []
    for index, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            problems.append(required(f"spec.versions[{index}].schema.openAPIV3Schema"))
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        problems.append(invalid("spec.preserveUnknownFields", True, detail))
    for index, version in enumerate(versions):
        problems += _version(f"spec.versions[{index}]", version)
    problems += _contents(spec)
    if len({version.get("name") for version in versions}) != len(versions):
        problems.append(invalid("spec.versions", versions, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        problems.append(invalid("spec.versions", versions, detail))
    return problems + _names(spec["names"]) + _conversion(spec.get("conversion") or {})


def _group(group: str) -> list[FieldError]:
    if not group:
        return [required("spec.group")]
    if wrong := dns1123_subdomain(group):
        return [invalid("spec.group", group, ",".join(wrong))]
    return [] if "." in group else [invalid("spec.group", group, "should be a domain with at least one dot")]


def _names(names: Object) -> list[FieldError]:
    path = "spec.names"
    problems = [
        required(f"{path}.{field}") for field in ("plural", "singular", "kind", "listKind") if not names.get(field)
    ]
    problems += [
        invalid(f"{path}.{field}", names[field], ",".join(wrong))
        for field in ("plural", "singular")
        if names.get(field) and (wrong := dns1035_label(names[field]))
    ]
    for field in ("kind", "listKind"):
        if names.get(field) and (wrong := dns1035_label(names[field].lower())):
            detail = "may have mixed case, but should otherwise match: " + ",".join(wrong)
            problems.append(invalid(f"{path}.{field}", names[field], detail))
    if names.get("kind") and names["kind"] == names.get("listKind"):
        problems.append(invalid(f"{path}.listKind", names["kind"], "kind and listKind may not be the same"))
    for field in ("shortNames", "categories"):
        for index, name in enumerate(names.get(field) or ()):
            if wrong := dns1035_label(name):
                problems.append(invalid(f"{path}.{field}[{index}]", name, ",".join(wrong)))
    return problems


def _version(path: str, version: Object) -> list[FieldError]:
    problems = []
    if wrong := dns1035_label(version.get("name", "")):
        problems.append(invalid(f"{path}.name", version.get("name", ""), ",".join(wrong)))
    said = version.get("deprecationWarning")
    if said is not None and not version.get("deprecated"):
        problems.append(invalid(f"{path}.deprecationWarning", said, "can only be set for deprecated versions"))
    elif said is not None and not said:
        problems.append(invalid(f"{path}.deprecationWarning", said, "must not be an empty string"))
    elif said is not None and len(said) > 256:
        problems.append(invalid(f"{path}.deprecationWarning", said, "must be <= 256 characters long"))
    return problems


def _contents(spec: Object) -> list[FieldError]:
    """Errors of schemas, subresources, columns and selectable fields.

    What is the same in all versions is checked once, and named as upstream names it: as if it stood above them.
    """
    versions = spec.get("versions") or []
    problems: list[FieldError] = []
    for field, above, check in (
        ("schema", "spec.validation", _schema),
        ("subresources", "spec.subresources", _subresources),
        ("additionalPrinterColumns", "spec.additionalPrinterColumns", _columns),
        ("selectableFields", "spec.selectableFields", _selectable),
    ):
        same = all(version.get(field) == versions[0].get(field) for version in versions)
        for index, version in enumerate(versions[:1] if same else versions):
            problems += check(above if same else f"spec.versions[{index}].{field}", version)
    return problems


def _schema(path: str, version: Object) -> list[FieldError]:
    schema = _schema_of(version)
    where = f"{path}.openAPIV3Schema"
    problems = _root(where, schema) if "status" in (version.get("subresources") or {}) else []
    return problems + (structural_schemas.check(where, schema) if schema else [])


def _schema_of(version: Object) -> Object:
    found: Object = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return found


def _subresources(path: str, version: Object) -> list[FieldError]:
    return _scale(f"{path}.scale", (version.get("subresources") or {}).get("scale"))


def _columns(path: str, version: Object) -> list[FieldError]:
    columns = version.get("additionalPrinterColumns") or ()
    return [problem for index, column in enumerate(columns) for problem in _column(f"{path}[{index}]", column)]


def _root(path: str, schema: Object) -> list[FieldError]:
    """Below a root with a status subresource the status alone must be checkable."""
    if schema.get("type", "object") != "object":
        detail = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [invalid(f"{path}.type", schema["type"], detail)]
    if set(schema) <= _ROOT_KEYWORDS:
        return []
    allowed = "[" + " ".join(sorted(_ROOT_KEYWORDS)) + "]"
    detail = f"only {allowed} fields are allowed at the root of the schema if the status subresource is enabled"
    return [invalid(path, schema, detail)]


def _scale(path: str, scale: Object | None) -> list[FieldError]:
    if scale is None:
        return []
    problems = []
    for field, below in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        said = scale.get(field, "")
        if not said:
            problems.append(required(f"{path}.{field}"))
        elif _SIMPLE_PATH.fullmatch(said) is None:
            problems.append(invalid(f"{path}.{field}", said, "is not a valid simple JSON path"))
        elif not said.startswith(f"{below}."):
            problems.append(invalid(f"{path}.{field}", said, f"should be a json path under {below}"))
    selector = scale.get("labelSelectorPath")
    if selector and not selector.startswith((".spec.", ".status.")):
        detail = "should be a json path under either .spec or .status"
        problems.append(invalid(f"{path}.labelSelectorPath", selector, detail))
    return problems


def _column(path: str, column: Object) -> list[FieldError]:
    problems = []
    if not column.get("name"):
        problems.append(required(f"{path}.name"))
    kind, listed = column.get("type", ""), ",".join(_COLUMN_TYPES)
    if not kind:
        problems.append(required(f"{path}.type", f"must be one of {listed}"))
    elif kind not in _COLUMN_TYPES:
        problems.append(invalid(f"{path}.type", kind, f"must be one of {listed}"))
    if column.get("format") and column["format"] not in _COLUMN_FORMATS:
        detail = f"must be one of {','.join(sorted(_COLUMN_FORMATS))}"
        problems.append(invalid(f"{path}.format", column["format"], detail))
    where, said = f"{path}.JSONPath", column.get("jsonPath", "")
    if not said:
        problems.append(required(where))
    elif _LOOSE_PATH.fullmatch(said) is None:
        problems.append(invalid(where, said, "is an invalid JSON path"))
    return problems


def _selectable(path: str, version: Object) -> Iterator[FieldError]:
    schema, seen = _schema_of(version), set[str]()
    for index, one in enumerate(version.get("selectableFields") or ()):
        where, said = f"{path}[{index}].jsonPath", one.get("jsonPath", "")
        if not said:
            yield required(where)
            continue
        found = _at(schema, said)
        if found is None:
            yield invalid(where, said, "is an invalid path: does not refer to a valid field")
            continue
        if said.startswith(".metadata"):
            yield invalid(where, said, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            detail = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            yield invalid(where, said, detail)
        if said in seen:
            yield FieldError("FieldValueDuplicate", where, f'Duplicate value: "{said}"')
        seen.add(said)
    if len(seen) > _MOST_SELECTABLE:
        yield too_many(path, len(seen), _MOST_SELECTABLE)


def _at(schema: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    """The schema of the field at a path of names."""
    if not path.startswith("."):
        return None
    found: Any = schema
    for name in path[1:].split("."):
        found = (found.get("properties") or {}).get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _conversion(conversion: Object) -> list[FieldError]:
    path, strategy, webhook = "spec.conversion", conversion.get("strategy", ""), conversion.get("webhook")
    if not strategy:
        return [required(f"{path}.strategy")]
    if strategy == "Webhook":
        return [] if webhook else [required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")]
    if strategy != "None":
        return [not_supported(f"{path}.strategy", strategy, ("None", "Webhook"))]
    if webhook is not None:
        return [forbidden_field(f"{path}.webhook", "should not be set when strategy is not set to Webhook")]
    return []


def _stored_versions(obj: Object) -> list[FieldError]:
    names = [version.get("name") for version in obj["spec"].get("versions") or ()]
    stored = (obj.get("status") or {}).get("storedVersions") or []
    return [
        invalid(
            f"status.storedVersions[{index}]",
            name,
            f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions "
            f"until a storage migration ensures no data remains persisted in {name} and removes {name} from "
            "status.storedVersions",
        )
        for index, name in enumerate(stored)
        if name not in names
    ]


def _approval(obj: Object) -> list[FieldError]:
    """Groups of the Kubernetes project need an annotation."""
    group = obj["spec"].get("group", "")
    if not (group in ("k8s.io", "kubernetes.io") or group.endswith((".k8s.io", ".kubernetes.io"))):
        return []
    said = meta.annotations(obj).get(_APPROVAL, "")
    if said.startswith(("http://", "https://", "unapproved")):
        return []
    where = f"metadata.annotations[{_APPROVAL}]"
    link = "see https://github.com/kubernetes/enhancements/pull/1111"
    needed = f'protected groups must have approval annotation "{_APPROVAL}"'
    if not said:
        return [required(where, f"{needed}, {link}")]
    return [invalid(where, said, f'{needed} with either a URL or a reason starting with "unapproved", {link}')]


def _validate_status(new: Object, _old: Object) -> list[FieldError]:
    return _stored_versions(new)


def _warnings(obj: Object) -> list[str]:
    spec, found = obj["spec"], []
    if is_known(obj):
        found.append(
            f"{spec['names']['kind']} of {spec['group']} is built in: it is served as before, and this definition "
            "changes nothing"
        )
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        found.append(
            "spec.conversion.strategy: conversion webhooks are not called; versions differ in apiVersion alone, as "
            "with None"
        )
    for version in spec.get("versions") or ():
        schema = _schema_of(version)
        found += [f'unrecognized format "{name}"' for name in structural_schemas.unknown_formats(schema)]
        found += validation_rules.warnings(schema)
    return found


CUSTOM_RESOURCE_DEFINITION = KindRules(
    default=_default,
    start=_start,
    keep=_keep,
    validate_create=_validate,
    validate_update=_validate_update,
    validate_status=_validate_status,
    warnings=_warnings,
)
