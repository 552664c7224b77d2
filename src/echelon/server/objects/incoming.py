"""Decodes objects of requests: checks kind and version, applies the schema, handles unknown fields."""

from __future__ import annotations

import msgspec

from ...api.errors import ApiError, FieldError, bad_request, invalid, invalid_object
from ...api.objects import event_forms
from ...api.schema import kind_schema
from ...api.scheme import EVENTS_V1, Object, Resource
from ...api.verbs import WriteOptions

#: Bytes of a stored object: what etcd accepts by default.
LARGEST_OBJECT = 3 * 512 * 1024


def decode(resource: Resource, sent: Object, options: WriteOptions, *, patched: bool = False) -> Object:
    """A new tree at the storage version; unknown fields are errors, warnings or dropped (`fieldValidation`)."""
    _check_type(resource, sent)
    decoded = kind_schema.decode(resource, sent)
    if decoded.unknown and options.field_validation == "Strict":
        raise (
            _unknown_in_patch(resource, decoded.unknown)
            if patched
            else kind_schema.unknown_fields(resource, decoded.unknown)
        )
    if options.field_validation == "Warn":
        for path in decoded.unknown:
            options.warn(f'unknown field "{path}"')
    tree = event_forms.to_core(decoded.obj) if resource is EVENTS_V1 else decoded.obj
    tree["apiVersion"] = resource.storage_api_version
    for field in ("managedFields", "selfLink"):
        tree["metadata"].pop(field, None)
    return tree


def _check_type(resource: Resource, sent: Object) -> None:
    version, kind = sent.get("apiVersion"), sent.get("kind")
    if kind and kind != resource.kind:
        version = version or resource.api_version
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {resource.kind}')
    if version and version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )


def _unknown_in_patch(resource: Resource, paths: list[str]) -> ApiError:
    listed = ", ".join(f'unknown field "{path}"' for path in paths)
    return invalid_object(resource, "", [invalid("patch", "", f"strict decoding error: {listed}")])


def refuse_wrong_types(resource: Resource, tree: Object, name: str) -> None:
    """422 for values of the wrong type in a custom kind, because rules assume correct types.

    Built-in kinds have been checked by decoding; kinds that are defined by others have no rules.
    """
    if resource.custom is not None:
        return
    wrong = [problem for problem in kind_schema.check(resource, tree) if problem.reason == "FieldValueTypeInvalid"]
    refuse_if(wrong, resource, name)


def refuse_too_large(tree: Object) -> None:
    """413 for an object that etcd would not store."""
    if len(msgspec.json.encode(tree)) > LARGEST_OBJECT:
        raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {LARGEST_OBJECT}")


def refuse_if(problems: list[FieldError], resource: Resource, name: str) -> None:
    """422 with all errors, if there are any."""
    if problems:
        raise invalid_object(resource, name, problems)
