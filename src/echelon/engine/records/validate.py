"""Refuses malformed demands, nodes and pods, with the field at fault.

A demand is inspected once before anything is decided about it, a node and a running pod when the view takes them
in.  What merely cannot be had (more than a node has, a key that no node carries, a minimum above the members) is
no error but a blocked demand that says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .demand import Composite, Demand, Group, Leaf, Shape

#: Levels of groups in one hierarchy, leaves included.
DEEPEST = 4


class BadInput(ValueError):
    """Malformed input; `path` leads to the field, `reason` says what is wrong with it."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


def inspect(demand: Demand) -> None:
    """Raise `BadInput` unless every group and member is there once, in a tree, with amounts that can be counted."""
    _whole_number("priority", demand.priority)
    _Inspection().group(demand.root, "root", ())


def amounts(owner: str, name: object, field: str, named: Iterable[tuple[str, int]], least: int | None = None) -> None:
    """Every amount is a whole number, and not below `least`; the path is only spelt out for a wrong one."""
    for resource, amount in named:
        if type(amount) is not int or (least is not None and amount < least):
            _whole_number(f"{owner} {name}.{field}[{resource}]".lstrip(), amount, least)


def _whole_number(path: str, number: object, least: int | None = None) -> None:
    if type(number) is not int:
        raise BadInput(path, f"must be a whole number, not {number!r}")
    if least is not None and number < least:
        raise BadInput(path, f"must be {least} or more, not {number}")


class _Inspection:
    """Ids and shapes seen so far in one tree."""

    def __init__(self) -> None:
        self.groups: dict[int, str] = {}
        self.members: set[int] = set()
        #: Ids of shape objects: equal pods share one object, and hashing it would cost more than checking it.
        self.shapes: set[int] = set()

    def group(self, group: Group, path: str, above: tuple[int, ...]) -> None:
        if group.id in above:
            raise BadInput(path, f"group {group.id} is its own ancestor")
        if len(above) >= DEEPEST:
            raise BadInput(path, f"lies deeper than {DEEPEST} levels of groups")
        first = self.groups.setdefault(group.id, path)
        if first is not path:
            raise BadInput(path, f"group {group.id} is already {first}")
        if isinstance(group, Composite):
            _whole_number(f"{path}.min_groups", group.min_groups, 0)
            for number, child in enumerate(group.children):
                self.group(child, f"{path}.children[{number}]", (*above, group.id))
        else:
            self._leaf(group, path)

    def _leaf(self, leaf: Leaf, path: str) -> None:
        """Check a leaf; paths are only built for errors and for shapes not seen before, since most leaves are valid."""
        if type(leaf.min_count) is not int or leaf.min_count < 0:
            _whole_number(f"{path}.min_count", leaf.min_count, 0)
        for number, pods in enumerate(leaf.classes):
            if not self._once(pods.members):
                raise BadInput(f"{path}.classes[{number}].members", "a member is named twice")
            if id(pods.shape) not in self.shapes:
                self._shape(pods.shape, f"{path}.classes[{number}].shape")
        if leaf.bound and not self._once([bound.member for bound in leaf.bound]):
            raise BadInput(f"{path}.bound", "a member is named twice")

    def _once(self, members: Sequence[int]) -> bool:
        """Record members; whether none of them was seen before."""
        before = len(self.members)
        self.members.update(members)
        return len(self.members) == before + len(members)

    def _shape(self, shape: Shape, path: str) -> None:
        self.shapes.add(id(shape))
        amounts("", path, "requests", shape.requests, 0)
        for number, spread in enumerate(shape.spread):
            _whole_number(f"{path}.spread[{number}].max_skew", spread.max_skew, 1)
