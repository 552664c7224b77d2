"""What is decided: placed, blocked or evict, each with its reasons.

Every number that an explanation prints is read from the records here; nothing is recomputed for the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from .reasons import Contradiction, Reason

#: A domain is the path of label values from the widest level down; () is the whole cluster.
Domain = tuple[str, ...]


class Objective(NamedTuple):
    """What a placement falls short of: less is better, and the first number that differs decides."""

    roles_missing: int = 0
    groups_left_out: int = 0
    members_left_out: int = 0
    #: Preferred topology keys of which a group shares no domain.
    preferred_missed: int = 0
    #: Slots that stay free in the domains of the groups.
    spare_slots: int = 0

    @property
    def left_out(self) -> tuple[int, int, int]:
        """Roles, groups and members that are not placed."""
        return self[:3]

    @property
    def without_spare(self) -> tuple[int, int, int, int]:
        """All but the spare slots."""
        return self[:4]


#: Nothing is missing and nothing is spare; also the bound where nothing is known.
BEST = Objective()


@dataclass(frozen=True, slots=True)
class Placed:
    """The node of every placed member; members left out are extras beyond a minimum that did not fit."""

    #: member id -> node name
    assignment: Mapping[int, str]
    #: group id -> the domain chosen for it at its own topology key (groups without a key: the enclosing one)
    domains: Mapping[int, Domain]
    #: ids of groups that hold; a group outside it stays pending although the root holds
    groups: frozenset[int]
    objective: Objective = BEST
    #: No placement is better than this: each number holds for all that agree in the numbers before it.
    bound: Objective = BEST

    @property
    def gap(self) -> Objective:
        """How far each number of the objective is from its bound; all 0: nothing better exists."""
        return Objective(*(value - bound for value, bound in zip(self.objective, self.bound, strict=True)))


class UnitName(NamedTuple):
    """A unit of running pods as explanations name it."""

    unit: int
    #: The caller's name for it, "" if it gave none.
    name: str
    priority: int


@dataclass(frozen=True, slots=True)
class DomainCount:
    """The numbers of one domain for one group: `have` of `need` (pods of a leaf, children of a composite)."""

    domain: Domain
    need: int
    have: int
    #: The resource that ran out first there, "" if none did.
    short_of: str = ""
    #: The unit that holds the domain exclusively.
    held_by: UnitName | None = None
    #: Nodes of the domain, and those of them that take at least one of the leaf's largest pods.
    nodes: int = 0
    free_nodes: int = 0


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why one group of the tree does not hold."""

    group: int
    need: int
    #: The most that any admissible domain offers.
    have: int
    #: Topology key of the domains tried, a group's own or that of the groups above it; "" for the whole cluster.
    key: str
    #: The best domains first; bounded in number, `domains_tried` counts all.
    tried: tuple[DomainCount, ...]
    domains_tried: int
    #: Nodes that take no pod of the leaf's largest shape, each counted under its first reason.
    exclusions: Mapping[Reason, int] = field(default_factory=dict)
    #: Whether `need` and `have` count child groups; otherwise they count pods.
    of_groups: bool = False
    #: How many pods, bound ones included, or children the group has at all.
    present: int = 0
    #: The best domain of the keyed groups above, to which the domains tried belong.
    within: Domain = ()
    #: Of a composite whose children are leaves and alike: the pods each needs, and their key.
    each: int = 0
    each_key: str = ""
    #: Nodes of bound members that leave it no domain at all.
    held_on: tuple[str, ...] = ()
    #: Whether the numbers are exact; otherwise the budget for explaining ended first, and `have` is a lower bound.
    settled: bool = True
    #: Why it could hold in no cluster, None if it could.
    contradiction: Contradiction | None = None

    @property
    def fails(self) -> bool:
        """Whether it does not fit even by itself."""
        return self.have < self.need or self.contradiction is not None


FixKind = Literal["free", "add", "widen", "lower", "evict", "release", "field"]


class Cost(NamedTuple):
    """What a fix costs; the first number that differs decides.

    Others' running work costs most and machines come next, since both lie outside the demand.  Then what the demand
    gives up for good: members, then topology.  What it loses only once comes last.
    """

    #: Running pods of others to evict.
    evicted: int = 0
    nodes_added: int = 0
    #: Pods by which minima are lowered.
    members: int = 0
    #: Levels by which keys are widened.
    levels: int = 0
    #: Own members to restart.
    restarts: int = 0


FREE = Cost()


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that makes the demand fit, found by trying it.

    | kind    | what to change                                                                       |
    |---------|--------------------------------------------------------------------------------------|
    | field   | remove the pod fields `fields`                                                       |
    | release | delete the `amount` bound pods of `group`, which run on `nodes`                      |
    | widen   | replace the topology key `key` of `groups` by `wider`; drop it if that is ""         |
    | lower   | lower the minimum of `groups` to `amount`, of which domains of `key` hold no more    |
    | add     | add `amount` nodes like `nodes[0]` to `domain`                                       |
    | free    | empty `amount` nodes of `domain`: `nodes`                                            |
    | evict   | evict `units`, `amount` of them, called `victims`                                    |
    """

    kind: FixKind
    group: int = -1
    amount: int = 0
    domain: Domain = ()
    #: All groups to which it must be done, where several that are alike fail for the same reason.
    groups: tuple[int, ...] = ()
    units: tuple[int, ...] = ()
    victims: tuple[UnitName, ...] = ()
    nodes: tuple[str, ...] = ()
    key: str = ""
    wider: str = ""
    fields: tuple[str, ...] = ()
    cost: Cost = FREE


@dataclass(frozen=True, slots=True)
class Blocked:
    """No placement.  `proved`: none exists; otherwise the step budget ran out first."""

    proved: bool
    #: The groups that fail, innermost cause first; at least one.
    shortages: tuple[Shortage, ...]
    fixes: tuple[Fix, ...] = ()
    #: Whether evicting lower priorities was tried and cannot help either.
    preemption_tried: bool = False


class LossBound(NamedTuple):
    """The numbers of a loss, compared in this order; as a bound, no eviction that lets the demand in loses less."""

    budget_violations: int
    highest_priority: int
    #: Σ pods × seconds run, in whole milliseconds.
    work: int
    units: int


#: Below every loss: nothing is known.
NO_LOSS_BOUND = LossBound(0, -(1 << 62), 0, 0)


class Loss(NamedTuple):
    """What an eviction costs, compared in this order; ids only tell equal losses apart."""

    budget_violations: int
    highest_priority: int
    #: Σ pods × seconds run, in whole milliseconds.
    work: int
    units: int
    ids: tuple[int, ...] = ()

    @property
    def as_bound(self) -> LossBound:
        """The loss without its ids."""
        return LossBound(self.budget_violations, self.highest_priority, self.work, self.units)


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict these units, then the placement holds."""

    units: tuple[int, ...]
    loss: Loss
    placement: Placed
    #: No eviction that lets the demand in loses less.
    bound: LossBound = NO_LOSS_BOUND

    @property
    def least(self) -> bool:
        """Whether the loss is proved to be the least."""
        return self.bound == self.loss.as_bound


Verdict = Placed | Blocked | Evict
