"""Strategic merge patch: merges lists by the merge keys of the schema; for built-in kinds.

A list with a merge key is merged item by item; a list of scalars with strategy `merge` is a set; other lists are
replaced.  Directives in the patch:

    $patch: replace | delete | merge      on a map or a list item
    $setElementOrder/<field>              the order of the merged list
    $deleteFromPrimitiveList/<field>      scalars to remove from a set
    $retainKeys                           all other keys are removed
"""

from __future__ import annotations

from typing import Any

import msgspec

from .. import errors
from ..schema import definitions
from ..schema.decoding import copy_tree
from ..schema.definitions import Schema
from ..scheme import Object

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE_SCALARS = "$deleteFromPrimitiveList/"


def merge(schema: Schema, original: Object, patch: Object) -> Object:
    """`original` with `patch` merged in, as a new tree."""
    return _merge(_resolved(schema), copy_tree(original), patch)


def _merge(schema: Schema, original: Object, patch: Object) -> Object:
    """Merge into `original`, which may be changed; values of the patch are copied."""
    directive = patch.get(_PATCH)
    if directive == "replace":
        replacement: Object = _without_directives(schema, patch)
        return replacement
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise errors.bad_request(f"Unrecognized patch directive: {directive}")
    result: Object = _retained(original, patch)
    for field in _merged_fields(patch):
        _merge_field(_property(schema, field), result, patch, field)
    return result


def _retained(original: Object, patch: Object) -> Object:
    if _RETAIN not in patch:
        return original
    kept = patch[_RETAIN]
    if not isinstance(kept, list):
        raise errors.bad_request("invalid patch format of retainKeys: it must be a list of keys")
    given = [key for key, value in patch.items() if not key.startswith("$") and value is not None]
    if any(key not in kept for key in given):
        raise errors.bad_request("invalid patch format of retainKeys: it must list every key that the patch sets")
    return {key: value for key, value in original.items() if key in kept}


def _merged_fields(patch: Object) -> list[str]:
    """The fields that a patch names, by value or by directive, each once and in order."""
    fields: dict[str, None] = {}
    for key in patch:
        if key.startswith((_ORDER, _DELETE_SCALARS)):
            fields[key.split("/", 1)[1]] = None
        elif key not in (_PATCH, _RETAIN):
            fields[key] = None
    return list(fields)


def _merge_field(schema: Schema, result: Object, patch: Object, field: str) -> None:
    if field in patch and patch[field] is None:
        result.pop(field, None)
        return
    dropped = patch.get(_DELETE_SCALARS + field)
    if dropped is not None and field in result:
        gone = {_identity(item) for item in _list(dropped)}
        result[field] = [item for item in _list(result[field]) if _identity(item) not in gone]
    old = result.get(field)
    if field in patch:
        result[field] = _merge_value(schema, old, patch[field])
    order = patch.get(_ORDER + field)
    if order is not None and isinstance(result.get(field), list):
        key = _resolved(schema).get("x-kubernetes-patch-merge-key", "")
        _check_order(patch.get(field), _list(order), key)
        result[field] = _reordered(result[field], old if isinstance(old, list) else [], _list(order), key)


def _merge_value(schema: Schema, old: Any, new: Any) -> Any:
    if isinstance(new, dict):
        return _merge(_resolved(schema), old if isinstance(old, dict) else {}, new)
    if not isinstance(new, list):
        return new
    if not _merges(schema):
        return _without_directives(schema, new)
    if any(isinstance(item, (dict, list)) for item in new):
        return _merge_items(schema, old if isinstance(old, list) else [], new)
    kept = old if isinstance(old, list) else []
    united = {_identity(item): item for item in reversed([*kept, *new])}
    return _reordered(list(reversed(united.values())), kept, new, "")


def _merges(schema: Schema) -> bool:
    return "merge" in str(schema.get("x-kubernetes-patch-strategy", "")).split(",")


def _merge_items(schema: Schema, old: list[Any], new: list[Any]) -> list[Any]:
    """Merge a list of objects by its merge key; items of the patch come in its order."""
    merge_key = str(schema.get("x-kubernetes-patch-merge-key", ""))
    items = _resolved(schema.get("items", {}))
    if any(isinstance(item, dict) and item.get(_PATCH) == "replace" and len(item) == 1 for item in new):
        return [_without_directives(items, item) for item in new if item != {_PATCH: "replace"}]
    for item in new:
        if not isinstance(item, dict) or merge_key not in item:
            raise errors.bad_request(f"map: {item} does not contain declared merge key: {merge_key}")
    if len(new) == 1 and _PATCH not in new[0]:
        return _merge_one(items, merge_key, old, new[0])
    deleted = {_identity(item, merge_key) for item in new if item.get(_PATCH) == "delete"}
    kept = [item for item in old if _identity(item, merge_key) not in deleted] if deleted else list(old)
    merged = list(kept)
    places: dict[Any, int] = {}
    for place, item in enumerate(merged):
        places.setdefault(_identity(item, merge_key), place)
    given = [item for item in new if item.get(_PATCH) != "delete"]
    for item in given:
        identity = _identity(item, merge_key)
        if identity in places:
            merged[places[identity]] = _merge(items, merged[places[identity]], item)
        else:
            places[identity] = len(merged)
            merged.append(_merge(items, {}, item))
    return _reordered(merged, kept, given, merge_key)


def _merge_one(items: Schema, merge_key: str, old: list[Any], item: Object) -> list[Any]:
    """The same for a single item, as conditions are patched all the time: it keeps its place, or comes first."""
    wanted = item[merge_key]
    for place, before in enumerate(old):
        if isinstance(before, dict) and before.get(merge_key) == wanted:
            return [*old[:place], _merge(items, before, item), *old[place + 1 :]]
    return [_merge(items, {}, item), *old]


def _identity(item: Any, merge_key: str = "") -> Any:
    """What makes two items of a list the same: the merge key of objects, the value of scalars."""
    found = item.get(merge_key) if isinstance(item, dict) and merge_key else item
    return msgspec.json.encode(found) if isinstance(found, (dict, list)) else found


def _check_order(given: Any, order: list[Any], merge_key: str) -> None:
    """400 unless the items of a patch come in the order that the patch declares."""
    if not isinstance(given, list):
        return
    place = {_identity(item, merge_key): index for index, item in enumerate(order)}
    kept = [item for item in given if not (isinstance(item, dict) and item.get(_PATCH))]
    places = [place.get(_identity(item, merge_key), -1) for item in kept]
    if -1 in places or places != sorted(places):
        raise errors.bad_request("The order in patch list doesn't match $setElementOrder list")


def _reordered(items: list[Any], before: list[Any], order: list[Any], merge_key: str) -> list[Any]:
    """Items of the patch in its order; others come as late as they did, before the first item they preceded."""
    wanted = _places(order, merge_key)
    was = _places(before, merge_key)
    known = [(_identity(item, merge_key), item) for item in items]
    listed = sorted((pair for pair in known if pair[0] in wanted), key=lambda pair: wanted[pair[0]])
    others = [pair for pair in known if pair[0] not in wanted]
    merged: list[Any] = []
    mine = theirs = 0
    while mine < len(listed) and theirs < len(others):
        ours, other = was.get(listed[mine][0]), was.get(others[theirs][0])
        if ours is not None and other is not None and other < ours:
            merged.append(others[theirs][1])
            theirs += 1
        else:
            merged.append(listed[mine][1])
            mine += 1
    return merged + [item for _, item in (*listed[mine:], *others[theirs:])]


def _places(items: list[Any], merge_key: str) -> dict[Any, int]:
    """The first place of each item."""
    places: dict[Any, int] = {}
    for place, item in enumerate(items):
        places.setdefault(_identity(item, merge_key), place)
    return places


def _without_directives(schema: Schema, value: Any) -> Any:
    """A value that replaces the old one: without nulls and directives."""
    if isinstance(value, dict):
        return {
            key: _without_directives(_property(schema, key), item)
            for key, item in value.items()
            if item is not None and not key.startswith((_PATCH, _RETAIN, _ORDER, _DELETE_SCALARS))
        }
    if isinstance(value, list):
        kept = [item for item in value if not (isinstance(item, dict) and item.get(_PATCH) == "delete")]
        return [_without_directives(schema.get("items", {}), item) for item in kept]
    return value


def _resolved(schema: Schema) -> Schema:
    return definitions.lookup(schema["$ref"]) if "$ref" in schema else schema


def _property(schema: Schema, field: str) -> Schema:
    schema = _resolved(schema)
    known: Schema | None = schema.get("properties", {}).get(field)
    if known is not None:
        return known
    values = schema.get("additionalProperties")
    return values if isinstance(values, dict) else {}


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise errors.bad_request("invalid patch format: a list directive must be a list")
    return value
