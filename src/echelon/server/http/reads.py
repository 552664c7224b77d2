"""GET of one object and of a collection."""

from __future__ import annotations

from .call import Call
from .encode import json_response
from .options import list_options
from .request import Response


async def get(call: Call) -> Response:
    presentation = call.presentation()
    found = await call.verbs.get(call.resource, call.target.name, call.target.namespace)
    return json_response(presentation.object(found))


async def list_(call: Call) -> Response:
    presentation = call.presentation()
    options = list_options(call.request)
    found = await call.verbs.list(call.resource, call.target.namespace, options)
    return json_response(presentation.collection(found))
