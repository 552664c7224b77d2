"""Request bodies before their kind matters: bytes to JSON trees, and fields that were written twice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from .. import errors
from ..scheme import Resource


def parse(resource: Resource, body: bytes) -> Any:
    """The JSON tree in a request body; `ApiError` 400 if it is none."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as refused:
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get version/kind; "
            f"json parse error: {_go_complaint(body, str(refused))} ({_summary(body)})"
        ) from None


def _go_complaint(body: bytes, complaint: str) -> str:
    """What Go's parser would have said where ours gave up."""
    place = re.search(r"\(byte (\d+)\)", complaint)
    if "truncated" in complaint:
        return "unexpected end of JSON input"
    if "recursion" in complaint:
        return "exceeded max depth"
    if place is None or int(place.group(1)) >= len(body):
        return complaint
    character = body[int(place.group(1)) :][:1].decode("ascii", "replace")
    return f"invalid character '{character}' looking for beginning of value"


def _summary(body: bytes, limit: int = 30) -> str:
    if not body:
        return "<empty>"
    shown, rest = body[:limit], " ..." if len(body) > limit else ""
    return (shown.decode("utf-8", "replace") if shown.startswith(b"{") else shown.hex()) + rest


class _Pairs(list[tuple[str, Any]]):
    """The members of an object as they were written, repetitions included."""


def duplicate_fields(body: bytes) -> list[str]:
    """Paths of fields that one object of a well-formed body has more than once; for strict field validation."""
    return list(_duplicates(json.loads(body, object_pairs_hook=_Pairs), ""))


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
