"""Binding and eviction of pods, and what there is to say about logs and processes of simulated ones."""

from __future__ import annotations

from ...api import errors
from ...api.scheme import PODS, Object, Resource
from .body import read_object
from .call import Call
from .encode import json_response, success
from .options import delete_options, write_options
from .request import Response
from .routes import BINDINGS

_EVICTIONS = Resource("policy", "v1", "evictions", "Eviction")


async def bind(call: Call) -> Response:
    """`POST pods/{name}/binding`, or `POST bindings` with the pod named in the body."""
    warnings: list[str] = []
    options = write_options(call.request, "CreateOptions", warnings.append)
    body = await read_object(call.request, BINDINGS)
    metadata: Object = body.get("metadata") or {}
    name = str(metadata.get("name") or "")
    if call.target.name and name != call.target.name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    target: Object = body.get("target") or {}
    problems = []
    if target.get("kind", "Node") not in ("", "Node"):
        problems.append(errors.not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        problems.append(errors.required("target.name"))
    if problems:
        raise errors.invalid_object(BINDINGS, name, problems)
    if metadata.get("annotations") or metadata.get("labels"):
        options.warn("annotations and labels of a Binding are not carried over to the pod")
    await call.verbs.bind(
        call.target.namespace,
        name,
        target["name"],
        uid=str(metadata.get("uid") or ""),
        annotations=metadata.get("annotations"),
        options=options,
    )
    return json_response(success(201), 201, warnings)


async def evict(call: Call) -> Response:
    body = await read_object(call.request, _EVICTIONS)
    name = (body.get("metadata") or {}).get("name") or call.target.name
    if name != call.target.name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    options, _ = delete_options(call.request, body.get("deleteOptions"))
    await call.verbs.evict(call.target.namespace, call.target.name, options)
    return json_response(success(201), 201)


async def log(call: Call) -> Response:
    """404 for a missing pod, otherwise a plain word: simulated containers write nothing."""
    await call.verbs.get(PODS, call.target.name, call.target.namespace)
    raise errors.bad_request(
        f'no logs are kept for pod "{call.target.name}": its containers are simulated and write nothing'
    )


async def stream(call: Call) -> Response:
    """exec, attach and port-forward need a process at the other end, and there is none."""
    await call.verbs.get(PODS, call.target.name, call.target.namespace)
    raise errors.bad_request(
        f'cannot {call.target.subresource} pod "{call.target.name}": its containers are simulated and run no process'
    )
