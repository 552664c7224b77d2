"""Encodes objects, lists, Status and watch events, in the requested form (object, Table, metadata; JSON, protobuf)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from ....api.errors import ApiError
from ....api.protobuf import to_protobuf
from ....api.scheme import Object, Resource
from ....api.verbs import ObjectList, WatchEvent
from ..requests.content_negotiation import PLAIN, PROTOBUF, Form
from ..requests.request import Response
from .tables import IncludeObject, partial_metadata, table

_encode = msgspec.json.Encoder().encode
_NO_CACHE = ("cache-control", "no-cache, private")


@dataclass(frozen=True)
class Presentation:
    """The form of the objects in one reply."""

    resource: Resource
    now: float
    form: Form = PLAIN
    include: IncludeObject = "Metadata"

    def reply(self, body: Object, code: int = 200, warnings: Iterable[str] = ()) -> Response:
        return _response(body, code, warnings, protobuf=self.form.protobuf)

    async def reply_list(self, found: ObjectList) -> Response:
        """A list in protobuf is encoded in a thread: it takes much longer than in JSON."""
        body = self.collection(found)
        return await asyncio.to_thread(self.reply, body) if self.form.protobuf else self.reply(body)

    def object(self, obj: Object) -> Object:
        if self.form.shape == "table":
            return self._table([obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")})
        if self.form.shape == "metadata":
            return partial_metadata(obj, self.form.version)
        return obj

    def collection(self, found: ObjectList) -> Object:
        metadata: Object = {"resourceVersion": found.resource_version}
        if found.continue_token:
            metadata["continue"] = found.continue_token
        if found.remaining is not None:
            metadata["remainingItemCount"] = found.remaining
        if self.form.shape == "table":
            return self._table(found.items, metadata)
        if self.form.shape == "metadata":
            version = self.form.version
            items = [partial_metadata(item, version) for item in found.items]
            kind, api_version = "PartialObjectMetadataList", f"meta.k8s.io/{version}"
        else:
            kind, api_version = self.resource.list_kind, self.resource.api_version
            items = [_untyped(item) for item in found.items] if self.resource.builtin else found.items
        return {"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items}

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


def _untyped(item: Object) -> Object:
    """Items of built-in lists do not repeat their kind."""
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}


def json_response(body: Object, code: int = 200, warnings: Iterable[str] = ()) -> Response:
    return _response(body, code, warnings, protobuf=False)


def _response(body: Object, code: int, warnings: Iterable[str], *, protobuf: bool) -> Response:
    headers = (_NO_CACHE, *(("warning", f'299 - "{_quotable(text)}"') for text in warnings))
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
    """Watch events as JSON lines or protobuf frames; an event with several watchers is encoded once.

    Tables depend on the time and on the position in the stream, so they are encoded per watcher.
    """

    def __init__(self, capacity: int = 1024) -> None:
        self._capacity = capacity
        #: By identity of the object; the entry keeps the object alive, so an identity cannot be reused.
        self._lines: dict[tuple[int, str, str, str, bool], tuple[Object, bytes]] = {}

    def line(self, presentation: Presentation, event: WatchEvent, *, first: bool) -> bytes:
        if presentation.form.shape == "table":
            return _line(event.type, presentation.event(event.object, first=first), presentation.form)
        form = presentation.form
        key = (id(event.object), event.type, form.shape, form.version, form.protobuf)
        found = self._lines.get(key)
        if found is not None:
            return found[1]
        line = _line(event.type, presentation.event(event.object, first=first), presentation.form)
        if len(self._lines) >= self._capacity:
            del self._lines[next(iter(self._lines))]
        self._lines[key] = (event.object, line)
        return line
