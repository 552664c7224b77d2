"""JSON patch (RFC 6902): a list of operations, applied one after the other to a copy of the object.

`apply_patch` calls this for `application/json-patch+json`.  An operation that does not apply is a 422 in the words of
a real API server.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Never

import msgspec

from .. import errors
from ..errors import ApiError
from ..schema.decoding import copy_tree
from ..scheme import Object

MAX_OPERATIONS = 10_000
#: Most bytes that the copies of one patch may have together: each can double what the one before it made.
MAX_COPIED = 3 * 1024 * 1024
_LONGEST_INDEX = 20
_INDEX = re.compile(r"[+-]?[0-9]+")


def json_patch(obj: Object, operations: Any) -> Object:
    """`obj` after the operations of an RFC 6902 patch; a negative index counts from the end of a list."""
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        raise errors.bad_request("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > MAX_OPERATIONS:
        raise ApiError(
            413,
            "RequestEntityTooLarge",
            "Request entity too large: "
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}",
        )
    document = copy_tree(obj)
    copied = 0
    for operation in operations:
        apply_one = _OPERATIONS.get(str(operation.get("op")))
        if apply_one is None:
            _refuse(f"Unexpected kind: {operation.get('op')}")
        if operation["op"] == "copy":
            copied += len(msgspec.json.encode(_source(document, operation)))
            if copied > MAX_COPIED:
                _refuse(
                    f"Unable to complete the copy, the accumulated size increase of copy is {copied}, "
                    f"exceeding the limit {MAX_COPIED}"
                )
        document = apply_one(document, operation)
    if not isinstance(document, dict):
        _refuse("the patched document is no longer an object")
    return document


def _refuse(detail: str) -> Never:
    raise ApiError(
        422,
        "Invalid",
        f"the server rejected our request due to an error in our request: {detail}",
    )


def _pointer(operation: Object, member: str = "path") -> list[str]:
    text = operation.get(member)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        _refuse(f"{operation.get('op')} operation needs a {member} that begins with '/'")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _value(operation: Object) -> Any:
    if "value" not in operation:
        _refuse(f"{operation['op']} operation needs a value: {operation.get('path')}")
    return copy_tree(operation["value"])


def _index(items: list[Any], part: str, *, end: int) -> int | None:
    """A list position below `end`, or None if there is none."""
    if not _INDEX.fullmatch(part) or len(part) > _LONGEST_INDEX:
        return None
    index = int(part)
    index = index + len(items) if index < 0 else index
    return index if 0 <= index < end else None


_MISSING = object()


def _child(holder: Any, part: str) -> Any:
    if isinstance(holder, dict):
        return holder.get(part, _MISSING)
    if isinstance(holder, list):
        index = _index(holder, part, end=len(holder))
        return _MISSING if index is None else holder[index]
    return _MISSING


def _at(document: Any, path: list[str]) -> Any:
    for part in path:
        document = _child(document, part)
    return document


def _holder(document: Any, path: list[str], operation: Object) -> Any:
    holder = _at(document, path[:-1])
    if not isinstance(holder, (dict, list)):
        _refuse(f"{operation['op']} operation does not apply: doc is missing path: {operation['path']}: missing value")
    return holder


def _add_at(document: Any, path: list[str], value: Any, operation: Object) -> Any:
    if not path:
        return value
    holder = _holder(document, path, operation)
    if isinstance(holder, dict):
        holder[path[-1]] = value
        return document
    index = len(holder) if path[-1] == "-" else _index(holder, path[-1], end=len(holder) + 1)
    if index is None:
        _refuse(f"{operation['op']} operation does not apply: no such index: {operation['path']}")
    holder.insert(index, value)
    return document


def _take(document: Any, path: list[str], operation: Object) -> Any:
    """Remove and return what is at `path`."""
    holder = _holder(document, path, operation) if path else {}
    if _child(holder, path[-1] if path else "") is _MISSING:
        where = "/" + "/".join(path)
        _refuse(f"{operation['op']} operation does not apply: doc is missing key: {where}: missing value")
    if isinstance(holder, dict):
        return holder.pop(path[-1])
    return holder.pop(int(path[-1]))


def _add(document: Any, operation: Object) -> Any:
    return _add_at(document, _pointer(operation), _value(operation), operation)


def _remove(document: Any, operation: Object) -> Any:
    _take(document, _pointer(operation), operation)
    return document


def _replace(document: Any, operation: Object) -> Any:
    path, value = _pointer(operation), _value(operation)
    if not path:
        return value
    holder = _holder(document, path, operation)
    if _child(holder, path[-1]) is _MISSING:
        _refuse(f"replace operation does not apply: doc is missing key: {operation['path']}: missing value")
    holder[path[-1] if isinstance(holder, dict) else int(path[-1])] = value
    return document


def _move(document: Any, operation: Object) -> Any:
    source, target = _pointer(operation, "from"), _pointer(operation)
    if target[: len(source)] == source and target != source:
        _refuse(f"move operation does not apply: {operation['path']} is inside {operation['from']}")
    return _add_at(document, target, _take(document, source, operation), operation)


def _source(document: Any, operation: Object) -> Any:
    found = _at(document, _pointer(operation, "from"))
    if found is _MISSING:
        _refuse(f"copy operation does not apply: doc is missing from path: {operation['from']}: missing value")
    return found


def _copy(document: Any, operation: Object) -> Any:
    return _add_at(document, _pointer(operation), copy_tree(_source(document, operation)), operation)


def _test(document: Any, operation: Object) -> Any:
    found = _at(document, _pointer(operation))
    # What is missing counts as null.
    if not _same(None if found is _MISSING else found, operation.get("value")):
        _refuse(f"testing value {operation['path']} failed: test failed")
    return document


def _same(one: Any, other: Any) -> bool:
    """Equality of JSON values: 1 and true differ, which Python's == would call equal.

    It ends at the first difference, so that all tests of a patch together cost no more than reading it.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(key in other and _same(item, other[key]) for key, item in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


_OPERATIONS: dict[str, Callable[[Any, Object], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
