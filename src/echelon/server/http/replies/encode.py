"""Encodes objects, lists, Status and watch events, in the requested form (object, Table, metadata; JSON, protobuf)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from ....api.errors import ApiError
from ....api.protobuf import to_protobuf
from ....api.scheme import Object, Resource
from ...objects.encoded import EncodedEvent, decode_json
from ...objects.stored_objects import at_version, encoded_at_version, shown_as_stored
from ..requests.content_negotiation import PLAIN, PROTOBUF, Form
from ..requests.request import NO_CACHE, Response
from .tables import IncludeObject, partial_metadata, table

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Presentation:
    """The form of the objects in one reply."""

    resource: Resource
    now: float
    form: Form = PLAIN
    include: IncludeObject = "Metadata"

    def reply(self, body: Object, code: int = 200, warnings: Iterable[str] = ()) -> Response:
        return _response(body, code, warnings, protobuf=self.form.protobuf)

    def reply_stored(self, value: bytes) -> Response:
        """An object from its stored bytes, which are the body if the object is wanted as it is."""
        if self.form is PLAIN:
            return Response(encoded_at_version(self.resource, value), headers=(NO_CACHE,))
        return self.reply(self.object(at_version(self.resource, decode_json(value))))

    def object(self, obj: Object) -> Object:
        if self.form.shape == "table":
            return self._table([obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")})
        if self.form.shape == "metadata":
            return partial_metadata(obj, self.form.version)
        return obj

    def event(self, obj: Object, *, first: bool) -> Object:
        """The object of a watch event; only the first Table of a stream has column definitions."""
        if self.form.shape == "table":
            metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            return self._table([obj], metadata, headed=first)
        return self.object(obj)

    def _table(self, items: list[Object], metadata: Object, *, headed: bool = True) -> Object:
        return table(
            self.resource,
            items,
            metadata,
            now=self.now,
            include=self.include,
            version=self.form.version,
            headed=headed,
        )


def json_response(body: Object, code: int = 200, warnings: Iterable[str] = ()) -> Response:
    return _response(body, code, warnings, protobuf=False)


def _response(body: Object, code: int, warnings: Iterable[str], *, protobuf: bool) -> Response:
    headers = (NO_CACHE, *(("warning", f'299 - "{_quotable(text)}"') for text in warnings))
    if protobuf:
        return Response(to_protobuf.encode(body), code, PROTOBUF, headers)
    return Response(_encode(body), code, headers=headers)


def _quotable(text: str) -> str:
    """A quoted string for a header: one line of printable text, quotes and backslashes escaped."""
    line = "".join(character for character in " ".join(text.split()) if character.isprintable())
    return line.replace("\\", "\\\\").replace('"', '\\"')


def error_response(error: ApiError, *, protobuf: bool = False) -> Response:
    response = _response(error.status(), error.code, (), protobuf=protobuf)
    seconds = error.details.get("retryAfterSeconds")
    return replace(response, headers=(*response.headers, ("retry-after", str(seconds)))) if seconds else response


def text_response(text: str, code: int = 200) -> Response:
    headers = (("cache-control", "no-cache, private"), ("x-content-type-options", "nosniff"))
    return Response(text.encode(), code, "text/plain; charset=utf-8", headers)


def too_many_requests() -> Response:
    """429, in the words of a real server."""
    told = text_response("Too many requests, please try again later.\n", 429)
    return replace(told, headers=(*told.headers, ("retry-after", "1")))


def success(code: int | None = None, details: Object | None = None) -> Object:
    """`Status: Success`, for replies without an object."""
    body: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        body["details"] = details
    if code:
        body["code"] = code
    return body


def watch_type(form: Form) -> str:
    """The content type of a watch stream."""
    return f"{PROTOBUF};stream=watch" if form.protobuf else "application/json"


def error_line(error: ApiError, form: Form) -> bytes:
    return _line("ERROR", error.status(), form)


def _line(kind: str, shown: Object, form: Form) -> bytes:
    if form.protobuf:
        return to_protobuf.frame(kind, shown)
    return _encode({"type": kind, "object": shown}) + b"\n"


class EventLines:
    """Watch events as JSON lines or protobuf frames.

    Plain events are their stored bytes.  Other forms are encoded once for all watchers, except Tables, which depend on
    the time and on the position in the stream.
    """

    def __init__(self, capacity: int = 1024) -> None:
        self._capacity = capacity
        #: By identity of the stored bytes; the entry keeps them alive, so an identity cannot be reused.
        self._lines: dict[tuple[int, str, str, str, str, bool], tuple[bytes, bytes]] = {}

    def line(self, presentation: Presentation, event: EncodedEvent, *, first: bool) -> bytes:
        form, resource = presentation.form, presentation.resource
        if form is PLAIN and shown_as_stored(resource):
            return b'{"type":"%b","object":%b}\n' % (event.type.encode(), event.value)
        if form.shape == "table":
            return self._encoded(presentation, event, first=first)
        key = (id(event.value), event.type, resource.api_version, form.shape, form.version, form.protobuf)
        found = self._lines.get(key)
        if found is not None:
            return found[1]
        line = self._encoded(presentation, event, first=first)
        if len(self._lines) >= self._capacity:
            del self._lines[next(iter(self._lines))]
        self._lines[key] = (event.value, line)
        return line

    @staticmethod
    def _encoded(presentation: Presentation, event: EncodedEvent, *, first: bool) -> bytes:
        stored = decode_json(event.value)
        tree = stored if event.type == "BOOKMARK" else at_version(presentation.resource, stored)
        return _line(event.type, presentation.event(tree, first=first), presentation.form)
