"""Replies to lists: the items are made from stored bytes, chunk by chunk while the reply is sent.

    stored bytes ──▶ item (as it is, without type, metadata only, row of a Table) ──▶ chunks of the body

A plain list joins stored bytes and decodes nothing.  Before each chunk a list waits for its turn, so that other
requests are answered in between.  A list in protobuf needs its length first: all items are made, then it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from ....api.protobuf import to_protobuf
from ....api.scheme import Object
from ...objects.encoded import EncodedList, decode_json, encode_json, encode_object, untyped
from ...objects.stored_objects import at_version, encoded_at_version, shown_as_stored
from ...objects.turns import Turns
from ..requests.content_negotiation import PROTOBUF
from ..requests.request import NO_CACHE, Abort, Reply, Response, Send, send_patiently
from .encode import Presentation
from .tables import partial_metadata, row, table

#: A chunk ends after so many bytes, or items, whichever comes first: one or two milliseconds of work.
_CHUNK_BYTES = 256 * 1024
_COPIED, _CONVERTED = 1_000, 40

_Item = Callable[[bytes], bytes]


class _Metadata(msgspec.Struct):
    """The metadata of an object, not decoded."""

    metadata: msgspec.Raw


_decode_metadata = msgspec.json.Decoder(_Metadata).decode


@dataclass(frozen=True)
class _Body:
    """How the body of a list is put together."""

    opening: bytes
    item: _Item
    closing: bytes
    #: Items per chunk.
    items: int

    def chunks(self, values: Sequence[bytes]) -> Iterator[bytes]:
        begin = self.opening
        position = 0
        while True:
            end = _chunk_end(values, position, self.items)
            begin += b",".join(map(self.item, values[position:end]))
            if end == len(values):
                yield begin + self.closing
                return
            yield begin
            begin, position = b",", end


def _chunk_end(values: Sequence[bytes], position: int, items: int) -> int:
    """The end of the chunk that begins at a position: by number, or sooner by size."""
    size = 0
    last = min(position + items, len(values))
    while position < last and size < _CHUNK_BYTES:
        size += len(values[position])
        position += 1
    return position


async def list_reply(presentation: Presentation, found: EncodedList, turns: Turns, client: str, abort: Abort) -> Reply:
    metadata: Object = {"resourceVersion": found.resource_version}
    if found.continue_token:
        metadata["continue"] = found.continue_token
    if found.remaining is not None:
        metadata["remainingItemCount"] = found.remaining
    if presentation.form.protobuf:
        return await _protobuf(presentation, found.values, metadata, turns, client)
    chunks = _body(presentation, metadata).chunks(found.values)
    first = next(chunks)
    second = next(chunks, None)
    if second is None:
        return Response(first, headers=(NO_CACHE,))
    return _Stream(first, second, chunks, turns, client, abort)


def _body(presentation: Presentation, metadata: Object) -> _Body:
    form, resource = presentation.form, presentation.resource
    if form.shape == "table":
        empty = table(resource, [], metadata, now=presentation.now, include="None", version=form.version)
        return _Body(encode_json(empty).removesuffix(b"]}"), _rows(presentation), b"]}", _CONVERTED)
    if form.shape == "metadata":
        opening = _opening("PartialObjectMetadataList", f"meta.k8s.io/{form.version}", metadata)
        return _Body(opening, _metadata_items(form.version), b"]}", _COPIED)
    opening = _opening(resource.list_kind, resource.api_version, metadata)
    if not shown_as_stored(resource):
        return _Body(opening, _converted(presentation), b"]}", _CONVERTED)
    return _Body(opening, untyped(resource) if resource.builtin else bytes, b"]}", _COPIED)


def _converted(presentation: Presentation) -> _Item:
    """Items at another version than the stored one."""
    resource = presentation.resource
    shown = untyped(resource) if resource.builtin else bytes
    return lambda value: shown(encoded_at_version(resource, value))


def _opening(kind: str, api_version: str, metadata: Object) -> bytes:
    empty: Object = {"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": []}
    return encode_object(empty).removesuffix(b"]}")


def _metadata_items(version: str) -> _Item:
    opening = f'{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/{version}","metadata":'.encode()
    return lambda value: opening + bytes(_decode_metadata(value).metadata) + b"}"


def _rows(presentation: Presentation) -> _Item:
    def encoded_row(value: bytes) -> bytes:
        tree = at_version(presentation.resource, decode_json(value))
        return encode_json(
            row(presentation.resource, tree, presentation.now, presentation.include, presentation.form.version)
        )

    return encoded_row


async def _protobuf(
    presentation: Presentation, values: Sequence[bytes], metadata: Object, turns: Turns, client: str
) -> Response:
    form, resource = presentation.form, presentation.resource
    if form.shape == "metadata":
        kind, list_kind = "PartialObjectMetadata", "PartialObjectMetadataList"
        api_version = f"meta.k8s.io/{form.version}"
    else:
        kind, list_kind, api_version = resource.kind, resource.list_kind, resource.api_version
    items: list[bytes] = []
    position = 0
    while position < len(values):
        if position:
            await turns.next(client)
        end = _chunk_end(values, position, _CONVERTED)
        for value in values[position:end]:
            tree = at_version(resource, decode_json(value))
            shown = partial_metadata(tree, form.version) if form.shape == "metadata" else tree
            items.append(to_protobuf.item(api_version, kind, shown))
        position = end
    body = to_protobuf.encode_list(api_version, list_kind, metadata, items)
    return Response(body, content_type=PROTOBUF, headers=(NO_CACHE,))


class _Stream:
    """A list that is longer than one chunk."""

    code = 200

    def __init__(
        self, first: bytes, second: bytes, rest: Iterator[bytes], turns: Turns, client: str, abort: Abort
    ) -> None:
        self._first = first
        self._second = second
        self._rest = rest
        self._turns = turns
        self._client = client
        self._abort = abort

    async def send(self, send: Send) -> None:
        name, value = NO_CACHE
        headers = [(b"content-type", b"application/json"), (name.encode(), value.encode())]
        await send({"type": "http.response.start", "status": self.code, "headers": headers})
        chunk: bytes | None = self._first
        following: bytes | None = self._second
        while chunk is not None:
            body = {"type": "http.response.body", "body": chunk, "more_body": following is not None}
            if not await send_patiently(send, body, self._abort):
                return
            await self._turns.next(self._client)
            chunk, following = following, next(self._rest, None) if following is not None else None
