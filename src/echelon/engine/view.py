"""The cluster as the engine sees it: nodes, what runs on them, and which units it can be taken from.

The view is long-lived and updated by events in time proportional to the change.  This module is the door; how
nodes are laid out in arrays stays behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .demand import Exclusive, Taint


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    labels: Mapping[str, str]
    #: Exact integers per resource, in the units of `Shape.requests`; holds `pods`.
    allocatable: Mapping[str, int]
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


@dataclass(frozen=True, slots=True)
class Unit:
    """What is evicted as one: the highest ancestor with disruption mode `all`, else a single pod."""

    id: int
    #: Priority of the root of its hierarchy.
    priority: int
    #: For people: `JobSet/low-0`-like.
    name: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """A pod that holds capacity on a node: bound, assumed, or nominated there."""

    pod: int
    node: str
    requests: tuple[tuple[str, int], ...]
    unit: int
    started: float
    #: The leaf group it belongs to (for exclusivity), -1 if none.
    group: int = -1
    exclusive: Exclusive | None = None
    #: Ids of the disruption budgets that cover it.
    budgets: tuple[int, ...] = ()
    #: False once it is being evicted: it frees its place by itself and is no victim any more.
    evictable: bool = True


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget: how many more of its pods may go."""

    id: int
    allowed: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a decision may cost, counted in steps and therefore equal on every machine."""

    steps: int = 200_000
    fixes: int = 4
    domains_listed: int = 5


@dataclass(frozen=True, slots=True)
class Options:
    """Frozen per cycle: levels wide to narrow, limits."""

    levels: tuple[str, ...]
    limits: Limits = field(default_factory=Limits)
