"""Reviews: kinds that are created and answered, never stored."""

from __future__ import annotations

from ....api.access import reviews
from ....api.schema import kind_schema
from ....api.scheme import Object
from ..requests.body import read_object
from ..requests.query_options import write_options
from ..requests.request import Response
from .call import Call


async def review(call: Call) -> Response:
    presentation = call.presentation()
    sent = await read_review(call)
    answered = reviews.answer(call.resource, sent, call.target.namespace, call.user, call.authorizer)
    return presentation.reply(answered, 201)


async def read_review(call: Call) -> Object:
    write_options(call.request, "CreateOptions", lambda _: None)
    sent = await read_object(call.request, call.resource)
    decoded = kind_schema.decode(call.resource, sent).obj
    kind_schema.apply_defaults(call.resource, decoded)
    return decoded
