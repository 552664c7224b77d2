"""From what a client sent to a clean tree of the kind: type check, schema, unknown fields."""

from __future__ import annotations

from ..api import schema
from ..api.errors import ApiError, FieldError, bad_request, invalid_object
from ..api.scheme import Object, Resource
from ..api.verbs import WriteOptions


def decode(resource: Resource, sent: Object, options: WriteOptions, *, patched: bool = False) -> Object:
    """A fresh tree under the storage version; unknown fields are refused, reported or dropped, as asked."""
    _check_type(resource, sent)
    decoded = schema.decode(resource, sent)
    if decoded.unknown and options.field_validation != "Ignore":
        listed = [f'unknown field "{path}"' for path in decoded.unknown]
        if options.field_validation == "Strict":
            raise _strict(resource, ", ".join(listed), patched=patched)
        for warning in listed:
            options.warn(warning)
    tree = decoded.obj
    metadata = tree.pop("metadata", None) or {}
    metadata.pop("managedFields", None)
    metadata.pop("selfLink", None)
    rest = {field: value for field, value in tree.items() if field not in ("apiVersion", "kind")}
    return {"apiVersion": resource.storage_api_version, "kind": resource.kind, "metadata": metadata, **rest}


def _check_type(resource: Resource, sent: Object) -> None:
    version, kind = sent.get("apiVersion"), sent.get("kind")
    if kind and kind != resource.kind:
        raise bad_request(f'{kind} in version "{version or resource.api_version}" cannot be handled as a {resource.kind}')
    if version and version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )


def _strict(resource: Resource, listed: str, *, patched: bool) -> ApiError:
    text = f"strict decoding error: {listed}"
    if patched:
        return invalid_object(resource, "", [FieldError("FieldValueInvalid", "patch", f"Invalid value: {text}")])
    return bad_request(f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {text}')


def refuse_if(problems: list[FieldError], resource: Resource, name: str) -> None:
    """422 with every problem, if there is any."""
    if problems:
        raise invalid_object(resource, name, problems)
