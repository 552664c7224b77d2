"""Sets of field paths, as `managedFields` writes them.

    {"f:data": {"f:a": {}}, "f:spec": {"k:{\\"name\\":\\"c\\"}": {".": {}, "f:image": {}}}}

A path is a tuple of steps: `f:` a field, `k:` a list item by its keys, `v:` a scalar of a set.  The set is a tree: a
node is a member or only on the way to members.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

Step = str
Path = tuple[Step, ...]
#: Most levels of a set that a client may send; no kind has fields that deep.
_DEEPEST = 100


class FieldSet:
    """One node of the tree with everything below it; what operators return shares nodes with their operands."""

    __slots__ = ("below", "member")

    def __init__(self, member: bool = False, below: dict[Step, FieldSet] | None = None) -> None:
        self.member = member
        self.below = {} if below is None else below

    def __bool__(self) -> bool:
        return self.member or bool(self.below)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSet) and self.member == other.member and self.below == other.below

    __hash__ = None  # type: ignore[assignment]  # sets are changed while they are built

    def add(self, path: Path) -> None:
        node = self
        for step in path:
            node = node.below.setdefault(step, FieldSet())
        node.member = True

    def under(self, step: Step) -> FieldSet:
        """What lies below a step; empty if nothing does."""
        return self.below.get(step, _EMPTY)

    def paths(self, prefix: Path = ()) -> Iterator[Path]:
        """Every member, parents before their children."""
        if self.member:
            yield prefix
        for step, node in self.below.items():
            yield from node.paths((*prefix, step))

    def __or__(self, other: FieldSet) -> FieldSet:
        if not other.below and (self.member or not other.member):
            return self
        below = dict(self.below)
        for step, node in other.below.items():
            mine = below.get(step)
            below[step] = node if mine is None else mine | node
        return FieldSet(self.member or other.member, below)

    def __and__(self, other: FieldSet) -> FieldSet:
        below = {}
        for step, node in self.below.items():
            theirs = other.below.get(step)
            if theirs is not None and (both := node & theirs):
                below[step] = both
        return FieldSet(self.member and other.member, below)

    def __sub__(self, other: FieldSet) -> FieldSet:
        if not other.below:
            return FieldSet(False, self.below) if self.member and other.member else self
        below = {}
        for step, node in self.below.items():
            theirs = other.below.get(step)
            if left := node if theirs is None else node - theirs:
                below[step] = left
        return FieldSet(self.member and not other.member, below)


_EMPTY = FieldSet()


def from_fields_v1(tree: Any, levels: int = _DEEPEST) -> FieldSet:
    """The set in a `fieldsV1`; what is not of that form, or too deep, is left out."""
    found = FieldSet()
    if isinstance(tree, dict) and levels:
        for step, below in tree.items():
            if step == ".":
                found.member = True
            elif below:
                node = from_fields_v1(below, levels - 1)
                node.member = node.member or not node.below
                found.below[step] = node
            else:
                found.below[step] = FieldSet(True)
    return found


def to_fields_v1(fields: FieldSet) -> dict[str, Any]:
    """The same as `fieldsV1`, steps in order."""
    tree: dict[str, Any] = {".": {}} if fields.member and fields.below else {}
    for step in sorted(fields.below):
        node = fields.below[step]
        tree[step] = to_fields_v1(node) if node.below else {}
    return tree


def field_step(name: str) -> Step:
    return f"f:{name}"


def key_step(keys: dict[str, Any]) -> Step:
    """The step to an item of a list that is a map, by its key fields."""
    return "k:" + msgspec.json.encode(keys, order="deterministic").decode()


def value_step(value: Any) -> Step:
    """The step to a scalar of a list that is a set."""
    return "v:" + msgspec.json.encode(value).decode()


def spoken(path: Path) -> str:
    """A path as conflicts name it: `.spec.containers[name="c"].image`."""
    return "".join(_spoken(step) for step in path)


def _spoken(step: Step) -> str:
    kind, _, rest = step.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        keys = msgspec.json.decode(rest)
        return "[" + ",".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in keys.items()) + "]"
    return f"[={rest}]"
