"""Objects walked along their schema: which fields they have, what two of them differ in, one merged into the other.

A list is a map (items are found by key fields), a set (of scalars) or atomic; an object is granular or atomic.  What is
atomic is owned and replaced as a whole.  Lists without a declared type are atomic, objects are granular.  The results
are those of the library that Kubernetes uses (structured-merge-diff), field by field.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from ..schema import definitions
from ..schema.definitions import Schema
from .field_sets import FieldSet, Step, field_step, key_step, spoken, value_step

Nature = Literal["object", "map list", "set", "leaf"]
#: Definitions that are objects in the schema and one value in JSON.
_ONE_VALUE = {definitions.QUANTITY, definitions.INT_OR_STRING, definitions.TIME, definitions.MICRO_TIME}
_UNTYPED: Schema = {}


class TreeChild(NamedTuple):
    """A child of an object or list: the step to it, its schema, its value."""

    step: Step
    schema: Schema
    value: Any


class Malformed(Exception):
    """A configuration whose list items cannot be told apart."""


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
    """Every field that a configuration sets: leaves, items of lists, entries of maps, and objects that are empty."""
    found = FieldSet()
    kind = nature(schema, value)
    if kind == "leaf":
        found.member = True
        return found
    for step, inner, child in entries(schema, value, kind):
        node = fields_of(inner, child)
        node.member = node.member or child == {} or kind != "object" or not _is_named(schema, step)
        if node:  # a list that is a map or a set has no field of its own
            found.below[step] = node
    return found


def check(schema: Schema, value: Any, path: tuple[Step, ...] = ()) -> None:
    """`Malformed` where two items of a list have the same keys, or one has none."""
    kind = nature(schema, value)
    if kind == "leaf":
        return
    seen: set[Step] = set()
    for step, inner, child in entries(schema, value, kind):
        if step == "k:{}":
            raise Malformed(f"{spoken(path)}: associative list with keys has an element that omits all key fields")
        if step in seen:
            raise Malformed(f"{spoken(path)}: duplicate entries for key {spoken((step,))}")
        seen.add(step)
        check(inner, child, (*path, step))


def differing(schema: Schema, old: Any, new: Any) -> tuple[FieldSet, FieldSet]:
    """The fields that `new` adds or changes, and those of `old` that it lacks."""
    kind = nature(schema, new)
    if kind == "leaf" or kind != nature(schema, old):
        if old == new:
            return FieldSet(), FieldSet()
        changed = _whole(schema, new)
        return changed, _whole(schema, old) - changed
    before = {entry.step: entry for entry in entries(schema, old, kind)}
    changed, removed = FieldSet(), FieldSet()
    for step, inner, child in entries(schema, new, kind):
        was = before.pop(step, None)
        if was is not None:
            more, less = differing(inner, was.value, child)
        elif _always_there(inner, child):
            more, less = differing(inner, type(child)(), child)
        else:
            more, less = _whole(inner, child), FieldSet()
        if more:
            changed.below[step] = more
        if less:
            removed.below[step] = less
    for step, gone in before.items():
        there = _always_there(gone.schema, gone.value)
        less = differing(gone.schema, gone.value, type(gone.value)())[1] if there else _whole(gone.schema, gone.value)
        if less:
            removed.below[step] = less
    return changed, removed


def _always_there(schema: Schema, value: Any) -> bool:
    """Whether Go writes a struct or list even if it is empty, so that only its parts come and go."""
    kind = nature(schema, value)
    if not value or kind == "leaf":
        return False
    if kind == "object":
        return schema.get("default") == {} and "$ref" in schema
    return bool(schema.get("x-written"))


def _whole(schema: Schema, value: Any) -> FieldSet:
    """A value that appears or goes as a whole: itself and everything in it."""
    found = FieldSet(member=True)
    kind = nature(schema, value)
    if kind != "leaf":
        for step, inner, child in entries(schema, value, kind):
            found.below[step] = _whole(inner, child)
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
    """Applied items in their order; an item that only the live list has stays after the shared item before it."""
    ours = {entry.step: entry for entry in entries(schema, applied, kind)}
    there = list(entries(schema, live, kind))
    known = {entry.step: entry for entry in there}
    wanted = list(ours)
    shared = [step for step in wanted if step in known]
    result: list[Any] = []
    done: set[Step] = set()
    left = right = 0

    def take_applied() -> None:
        step = wanted[right]
        entry = ours[step]
        result.append(merged(entry.schema, known[step].value, entry.value) if step in known else entry.value)
        done.add(step)
        if shared and shared[0] == step:
            shared.pop(0)

    while left < len(there) or right < len(wanted):
        step = there[left].step if left < len(there) else ""
        if step and step not in ours:
            result.append(there[left].value)
            left += 1
        elif step and (step in done or (right < len(wanted) and shared and shared[0] != step)):
            left += 1  # it comes, or came, where the configuration has it
        else:
            if step and step == wanted[right]:
                left += 1
            take_applied()
            right += 1
    return result


def without(schema: Schema, value: Any, gone: FieldSet) -> Any:
    """A value without the fields in `gone`; an object or list that is not in `gone` itself stays, if need be empty."""
    kind = nature(schema, value)
    if kind == "leaf":
        return value
    result: Any = {} if kind == "object" else []
    for step, inner, child in entries(schema, value, kind):
        below = gone.under(step)
        if below.member:
            continue
        left = without(inner, child, below) if below else child
        if kind == "object":
            result[step[2:]] = left
        else:
            result.append(left)
    return result


def with_named_fields(schema: Schema, fields: FieldSet) -> FieldSet:
    """The same set with every declared field on the way to a member; entries of maps and items of lists stay out."""
    below = {}
    for step, node in fields.below.items():
        made = with_named_fields(_schema_at(schema, step), node)
        made.member = made.member or (bool(made.below) and _is_named(schema, step))
        below[step] = made
    return FieldSet(fields.member, below)


def _schema_at(schema: Schema, step: Step) -> Schema:
    schema = resolved(schema)
    if step.startswith("f:"):
        return _property(schema, step[2:])
    items: Schema = schema.get("items", _UNTYPED)
    return items


def _is_named(schema: Schema, step: Step) -> bool:
    """Whether a step is a field that the schema declares, and not a key of a map or an item of a list."""
    return step.startswith("f:") and step[2:] in resolved(schema).get("properties", ())


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
