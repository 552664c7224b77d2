"""Handlers of GET for one object and for a collection."""

from __future__ import annotations

from ....api.objects.scale import scale_of
from ..replies.lists import list_reply
from ..requests.query_options import list_options
from ..requests.request import Reply
from .call import Call


async def get(call: Call) -> Reply:
    presentation = call.presentation()
    found = await call.verbs.get_encoded(call.resource, call.target.name, call.target.namespace)
    return presentation.reply_stored(found)


async def get_scale(call: Call) -> Reply:
    presentation = call.presentation()
    found = await call.verbs.get(call.resource, call.target.name, call.target.namespace)
    return presentation.reply(presentation.object(scale_of(call.resource, found)))


async def list_(call: Call) -> Reply:
    presentation = call.presentation()
    options = list_options(call.request)
    found = await call.verbs.list_encoded(call.resource, call.target.namespace, options)
    return await list_reply(presentation, found, call.turns, call.client, call.request.abort)
