"""Subresources of pods that are plain requests: binding and eviction.  For streams see `streams`."""

from __future__ import annotations

from ....api import errors
from ..replies.encode import success
from ..requests.body import read_object
from ..requests.body_records import EVICTIONS, BindingBody, BodyMetadata, EvictionBody, NodeReference, record
from ..requests.query_options import delete_options, write_options
from ..requests.request import Response
from ..requests.routes import BINDINGS
from .call import Call


async def bind(call: Call) -> Response:
    """`POST pods/{name}/binding`, or `POST bindings` with the pod named in the body."""
    presentation, warnings = call.presentation(), list[str]()
    options = write_options(call.request, "CreateOptions", warnings.append)
    body = record(await read_object(call.request, BINDINGS), BindingBody, BINDINGS)
    metadata, target = body.metadata or BodyMetadata(), body.target or NodeReference()
    name = metadata.name or ""
    if call.target.name and name != call.target.name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    problems = []
    if target.kind not in (None, "", "Node"):
        problems.append(errors.not_supported("target.kind", target.kind, ("Node", "<empty>")))
    if not target.name:
        problems.append(errors.required("target.name"))
    if problems or not target.name:
        raise errors.invalid_object(BINDINGS, name, problems)
    await call.verbs.bind(
        call.target.namespace,
        name,
        target.name,
        uid=metadata.uid or "",
        annotations=metadata.annotations,
        options=options,
    )
    return presentation.reply(success(201), 201, warnings)


async def evict(call: Call) -> Response:
    presentation = call.presentation()
    body = record(await read_object(call.request, EVICTIONS), EvictionBody, EVICTIONS)
    name = (body.metadata or BodyMetadata()).name or call.target.name
    if name != call.target.name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    options, _ = delete_options(call.request, body.delete_options)
    await call.verbs.evict(call.target.namespace, call.target.name, options)
    return presentation.reply(success(201), 201)
