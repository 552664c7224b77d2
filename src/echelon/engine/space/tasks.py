"""The vocabulary of the search: the tasks that are still open, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..cluster.arrays import Ints
from ..cluster.regions import Region
from .canonical import Ask, Part


class Put(NamedTuple):
    """Equal pods of a leaf on rows."""

    part: Part
    ask: Ask
    rows: Ints
    counts: Ints


@dataclass(slots=True)
class Found:
    """A placement: the region of every group that holds, the pods of every leaf."""

    seats: list[tuple[Part, Region]]
    puts: list[Put]


@dataclass(slots=True)
class NotFound:
    """No placement; `proved` unless the budget ended first."""

    proved: bool


class ChooseDomain(NamedTuple):
    """Find a domain for a part's next key inside a region."""

    part: Part
    region: Region
    depth: int


class ChooseChildren(NamedTuple):
    """Choose children that hold until there are enough, from child `at` on."""

    part: Part
    region: Region
    at: int
    have: int


class PlacePods(NamedTuple):
    """Put pods of one ask on nodes of the region."""

    part: Part
    ask: int
    region: Region
    pods: int


class FillNode(NamedTuple):
    """Decide how many of `left` pods the node at position `at` takes."""

    placing: PlacePods
    order: Ints
    slots: Ints
    suffix: Ints
    at: int
    left: int
    before: int


Task = ChooseDomain | ChooseChildren | PlacePods | FillNode


@dataclass(slots=True, eq=False)
class TaskList:
    """The open tasks, first task first; `key` is equal for lists of equal content."""

    task: Task
    rest: TaskList | None
    key: int
