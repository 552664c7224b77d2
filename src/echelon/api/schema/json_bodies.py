"""Request bodies: bytes to JSON trees, and the paths of duplicate fields; independent of the kind."""

from __future__ import annotations

import json
import json.scanner
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from .. import errors
from ..scheme import Resource


def parse(resource: Resource, body: bytes) -> Any:
    """The JSON tree of a request body; `ApiError` 400 if it is not JSON."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as refused:
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get version/kind; "
            f"json parse error: {_go_message(body, str(refused))} ({summary(body)})"
        ) from None


def _go_message(body: bytes, message: str) -> str:
    """The message of Go's parser for the same error."""
    place = re.search(r"\(byte (\d+)\)", message)
    if "truncated" in message:
        return "unexpected end of JSON input"
    if "recursion" in message:
        return "exceeded max depth"
    if place is None or int(place.group(1)) >= len(body):
        return message
    character = body[int(place.group(1)) :][:1].decode("ascii", "replace")
    return f"invalid character '{character}' looking for beginning of value"


def summary(body: bytes, limit: int = 30) -> str:
    """The beginning of a body as error messages quote it."""
    if not body:
        return "<empty>"
    shown, rest = body[:limit], " ..." if len(body) > limit else ""
    return (shown.decode("utf-8", "replace") if shown.startswith(b"{") else shown.hex()) + rest


#: Bytes of a body that the fast scanner is too long busy with.
_LONG = 128 * 1024


class _Pairs(list[tuple[str, Any]]):
    """The members of an object as written, duplicates included."""


def duplicate_fields(body: bytes) -> list[str]:
    """Paths of duplicate fields in a well-formed body; for strict field validation."""
    try:
        return list(_duplicates(_pairs(body), ""))
    except RecursionError:
        return []  # no kind is that deep: decoding tells what is wrong


def _pairs(body: bytes) -> Any:
    decoder = json.JSONDecoder(object_pairs_hook=_Pairs)
    if len(body) > _LONG:
        # The scanner in C keeps the interpreter until it is done: a tenth of a second for the longest bodies.
        decoder.scan_once = json.scanner.py_make_scanner(decoder)  # type: ignore[attr-defined]
    return decoder.decode(body.decode(json.detect_encoding(body), "surrogatepass"))


def _duplicates(tree: Any, path: str) -> Iterator[str]:
    if isinstance(tree, _Pairs):
        seen: dict[str, None] = {}
        for key, value in tree:
            below = f"{path}.{key}" if path else key
            if key in seen:
                yield below
            seen[key] = None
            yield from _duplicates(value, below)
    elif isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from _duplicates(item, f"{path}[{index}]")
