"""Handlers of GET for one object and for a collection."""

from __future__ import annotations

from ....api.objects.scale import scale_of
from ..requests.query_options import list_options
from ..requests.request import Response
from .call import Call


async def get(call: Call) -> Response:
    presentation = call.presentation()
    found = await call.verbs.get(call.resource, call.target.name, call.target.namespace)
    return presentation.reply(presentation.object(found))


async def get_scale(call: Call) -> Response:
    presentation = call.presentation()
    found = await call.verbs.get(call.resource, call.target.name, call.target.namespace)
    return presentation.reply(presentation.object(scale_of(call.resource, found)))


async def list_(call: Call) -> Response:
    presentation = call.presentation()
    options = list_options(call.request)
    found = await call.verbs.list(call.resource, call.target.namespace, options)
    return await presentation.reply_list(found)
