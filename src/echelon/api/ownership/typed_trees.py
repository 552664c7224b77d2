"""Objects walked along their schema: which fields they have, what two of them differ in, one merged into the other.

A list is a map (items are found by key fields), a set (of scalars) or atomic; an object is granular or atomic.  What is
atomic is owned and replaced as a whole.  Lists without a declared type are atomic, objects are granular.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from ..schema import definitions
from ..schema.definitions import Schema
from .field_sets import FieldSet, Step, field_step, key_step, value_step

Nature = Literal["object", "map list", "set", "leaf"]
#: Definitions that are objects in the schema and one value in JSON.
_ONE_VALUE = {definitions.QUANTITY, definitions.INT_OR_STRING, definitions.TIME, definitions.MICRO_TIME}
_UNTYPED: Schema = {}


class TreeChild(NamedTuple):
    """A child of an object or list: the step to it, its schema, its value."""

    step: Step
    schema: Schema
    value: Any


def nature(schema: Schema, value: Any) -> Nature:
    """How a value is owned: by its parts, or as a whole."""
    if isinstance(value, dict):
        return "leaf" if _declared(schema, "x-kubernetes-map-type") == "atomic" else "object"
    if isinstance(value, list):
        declared = _declared(schema, "x-kubernetes-list-type")
        if declared == "map" and all(isinstance(item, dict) for item in value):
            return "map list"
        if declared == "set" and not any(isinstance(item, (dict, list)) for item in value):
            return "set"
    return "leaf"


def entries(schema: Schema, value: Any, kind: Nature) -> Iterator[TreeChild]:
    """The children of a value that is no leaf, in order."""
    schema = resolved(schema)
    if kind == "object":
        for name, child in value.items():
            if child is not None:
                yield TreeChild(field_step(name), _property(schema, name), child)
        return
    items = schema.get("items", _UNTYPED)
    for child in value:
        step = value_step(child) if kind == "set" else key_step(_keys(schema, items, child))
        yield TreeChild(step, items, child)


def fields_of(schema: Schema, value: Any) -> FieldSet:
    """Every field that a value sets: its leaves, and the items of lists that are maps."""
    found = FieldSet()
    kind = nature(schema, value)
    if kind == "leaf" or not value:
        found.member = True
        return found
    for step, inner, child in entries(schema, value, kind):
        node = fields_of(inner, child)
        node.member = node.member or kind != "object"
        found.below[step] = node
    return found


def differing(schema: Schema, old: Any, new: Any) -> tuple[FieldSet, FieldSet]:
    """The fields that `new` adds or changes, and those of `old` that it lacks."""
    kind = nature(schema, new)
    if kind == "leaf" or kind != nature(schema, old) or not new or not old:
        same = old == new
        changed = FieldSet() if same else _whole(schema, new)
        return changed, FieldSet() if same else fields_of(schema, old) - changed
    before = {entry.step: entry for entry in entries(schema, old, kind)}
    changed, removed = FieldSet(), FieldSet()
    for step, inner, child in entries(schema, new, kind):
        was = before.pop(step, None)
        if was is None:
            changed.below[step] = _whole(inner, child)
            continue
        more, less = differing(inner, was.value, child)
        if more:
            changed.below[step] = more
        if less:
            removed.below[step] = less
    for step, gone in before.items():
        removed.below[step] = _whole(gone.schema, gone.value)
    return changed, removed


def _whole(schema: Schema, value: Any) -> FieldSet:
    """A value that appears or goes as a whole: its fields and itself."""
    found = fields_of(schema, value)
    found.member = True
    return found


def merged(schema: Schema, live: Any, applied: Any) -> Any:
    """The live value with an applied one merged in; neither is changed."""
    kind = nature(schema, applied)
    if kind == "leaf" or kind != nature(schema, live):
        return applied
    if kind == "object":
        result = dict(live)
        for step, inner, child in entries(schema, applied, kind):
            name = step[2:]
            result[name] = merged(inner, live[name], child) if live.get(name) is not None else child
        return result
    return _merged_list(schema, live, applied, kind)


def _merged_list(schema: Schema, live: Any, applied: Any, kind: Nature) -> list[Any]:
    """Applied items in their order; items that only the live list has keep their place before what followed them."""
    wanted = {entry.step: entry for entry in entries(schema, applied, kind)}
    result: list[Any] = []
    placed: set[Step] = set()
    queue = list(wanted)
    there = {entry.step: entry for entry in entries(schema, live, kind)}

    def take_until(last: Step) -> None:
        while queue and last not in placed:
            step = queue.pop(0)
            entry = wanted[step]
            result.append(merged(entry.schema, there[step].value, entry.value) if step in there else entry.value)
            placed.add(step)

    for step, entry in there.items():
        if step in wanted:
            take_until(step)
        else:
            result.append(entry.value)
    if queue:
        take_until(queue[-1])
    return result


def without(schema: Schema, value: Any, gone: FieldSet, kept: FieldSet) -> Any:
    """A value without the fields in `gone`; None if nothing is left of it.

    An item of a list that goes stays with its key fields while something in it is in `kept`.
    """
    kind = nature(schema, value)
    if kind == "leaf" or not gone.below:
        return None if gone.member and not kept else value
    result: Any = {} if kind == "object" else []
    for step, inner, child in entries(schema, value, kind):
        below, held = gone.under(step), kept.under(step)
        left = child if not below else _left(inner, child, below, held, keyed=kind == "map list")
        if left is None:
            continue
        if kind == "object":
            result[step[2:]] = left
        else:
            result.append(left)
    return result or None


def _left(schema: Schema, value: Any, gone: FieldSet, kept: FieldSet, *, keyed: bool) -> Any:
    if gone.member and not kept:
        return None
    left = without(schema, value, gone, kept)
    return left if left is not None or not keyed else None


def differ_at(schema: Schema, one: Any, other: Any, path: tuple[Step, ...]) -> bool:
    """Whether two objects have different values at a path; what is owned by its parts is no value of its own."""
    for step in path:
        found = _child(schema, one, step), _child(schema, other, step)
        if found[0] is None or found[1] is None:
            return found[0] is not found[1]
        schema, one, other = found[0].schema, found[0].value, found[1].value
    if one and other and nature(schema, one) == nature(schema, other) != "leaf":
        return False
    return bool(one != other)


def _child(schema: Schema, value: Any, step: Step) -> TreeChild | None:
    kind = nature(schema, value)
    return None if kind == "leaf" else next((e for e in entries(schema, value, kind) if e.step == step), None)


def resolved(schema: Schema) -> Schema:
    return definitions.lookup(schema["$ref"]) if "$ref" in schema else schema


def _declared(schema: Schema, word: str) -> Any:
    if schema.get("$ref") in _ONE_VALUE:
        return "atomic"
    return schema.get(word) or resolved(schema).get(word)


def _property(schema: Schema, name: str) -> Schema:
    known: Schema | None = schema.get("properties", {}).get(name)
    if known is not None:
        return known
    values = schema.get("additionalProperties")
    return values if isinstance(values, dict) else _UNTYPED


def _keys(schema: Schema, items: Schema, item: dict[str, Any]) -> dict[str, Any]:
    """The key fields of an item, missing ones by their default."""
    properties = resolved(items).get("properties", {})
    found = {}
    for name in schema.get("x-kubernetes-list-map-keys", ()):
        value = item.get(name, properties.get(name, {}).get("default"))
        if value is not None:
            found[name] = value
    return found
