"""Handlers of POST, PUT and PATCH for objects and their status."""

from __future__ import annotations

from dataclasses import replace

from ....api import errors
from ....api.access import escalation
from ....api.access.attributes import forbidden
from ....api.scheme import Object
from ....api.verbs import PatchType, Subresource, WriteOptions
from ..requests.body import patch_type, read_object, read_patch
from ..requests.gate import attributes_of
from ..requests.query_options import patch_options, write_options
from ..requests.request import Response
from ..requests.routes import Target
from .call import Call


async def create(call: Call) -> Response:
    presentation, warnings = call.presentation(), list[str]()
    options = write_options(call.request, "CreateOptions", warnings.append)
    obj = await read_object(call.request, call.resource, strict=options.field_validation == "Strict")
    _settle_namespace(obj, call.target)
    options = _with_escalation_check(call, options)
    created = await call.verbs.create(call.resource, obj, call.target.namespace, options)
    return presentation.reply(presentation.object(created), 201, warnings)


async def update(call: Call) -> Response:
    presentation, warnings = call.presentation(), list[str]()
    created = list[bool]()
    options = write_options(call.request, "UpdateOptions", warnings.append, lambda: created.append(True))
    obj = await read_object(call.request, call.kind, strict=options.field_validation == "Strict")
    _settle_namespace(obj, call.target)
    _check_name(obj, call.target.name)
    if call.resource.create_on_update:
        await _check_create(call)
    options = _with_escalation_check(call, options)
    updated = await call.verbs.update(call.resource, obj, call.target.namespace, _subresource(call.target), options)
    return presentation.reply(presentation.object(updated), 201 if created else 200, warnings)


async def patch(call: Call) -> Response:
    presentation, warnings = call.presentation(), list[str]()
    type_ = patch_type(call.request, call.resource)
    created = list[bool]()
    options = patch_options(call.request, type_, warnings.append, lambda: created.append(True))
    change = await read_patch(call.request, type_, options)
    if type_ is PatchType.APPLY:
        await _check_create(call)
    options = _with_escalation_check(call, options)
    target = call.target
    patched = await call.verbs.patch(
        call.resource, target.name, change, target.namespace, _subresource(target), options
    )
    return presentation.reply(presentation.object(patched), 201 if created else 200, warnings)


def _with_escalation_check(call: Call, options: WriteOptions) -> WriteOptions:
    """Nobody grants by a role or binding what they may not do themselves."""
    if call.resource not in escalation.KINDS:
        return options
    target, check = call.target, escalation.check
    subject = escalation.Granting(call.user, call.gate.authorizer, call.resource, target.name, target.namespace)
    return replace(options, permit=lambda new, old: check(subject, new, old))


async def _check_create(call: Call) -> None:
    """403 if this request would create the object and the caller may not."""
    attributes = replace(attributes_of(call.user, call.request, call.target), verb="create")
    decision = call.gate.authorizer.decide(attributes)
    if decision.allowed:
        return
    try:
        await call.verbs.get(call.resource, call.target.name, call.target.namespace)
    except errors.ApiError as error:
        if error.code != 404:
            raise
        raise forbidden(attributes, decision.reason) from None


def _subresource(target: Target) -> Subresource:
    if target.subresource in ("status", "scale", "finalize"):
        return target.subresource  # type: ignore[return-value]  # narrowed by the line above
    return ""


def _metadata(obj: Object) -> Object:
    metadata = obj.setdefault("metadata", {})
    if metadata is None:
        metadata = obj["metadata"] = {}
    if not isinstance(metadata, dict):
        raise errors.bad_request("metadata: must be an object")
    return metadata


def _settle_namespace(obj: Object, target: Target) -> None:
    """Set the namespace of the URL; 400 if the body has another one."""
    metadata = _metadata(obj)
    given = metadata.get("namespace") or ""
    if given and given != target.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if target.namespace:
        metadata["namespace"] = target.namespace


def _check_name(obj: Object, name: str) -> None:
    given = _metadata(obj).get("name")
    if not given:
        raise errors.bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if given != name:
        raise errors.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")
