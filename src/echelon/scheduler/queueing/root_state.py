"""What is under way for each root, and its place in the queue."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..intake.group_tree import Group, Member, Root
from .queue import ANY_ROOM, Queue, Rank


@dataclass(slots=True)
class State:
    """One root: the top of a tree, or a pod without a group."""

    root: Root
    #: Since when it wants something, and its number among those that came at the same second.
    since: str = ""
    number: int = 0
    #: Members with a place kept for them, and the pods that must leave first.
    nominated: dict[int, Member] = field(default_factory=dict)
    victims: dict[int, None] = field(default_factory=dict)
    #: Bindings not yet answered, and the groups that hold once they are.
    flying: int = 0
    placed: frozenset[int] = frozenset()
    settled: bool = False
    #: When the attempt that its bindings belong to began.
    begun: float = 0.0
    #: When it was last told why it is blocked.
    told: float = 0.0
    #: What must come for it to fit, as the last decision found.
    awaits: int = ANY_ROOM
    #: How many pods it had when it was last found incomplete, and since when it is without change.
    known: int = -1
    incomplete_since: float = 0.0
    #: When it was last seen incomplete.
    incomplete_until: float = 0.0
    #: Room is not kept for it before this moment, and how often that was in vain.
    reserve_from: float = 0.0
    lapses: int = 0

    def taken(self, now: float) -> float:
        """How long its attempt takes so far; nothing if it has not come to one, or was forgotten meanwhile."""
        return now - self.begun if self.begun else 0.0


class States:
    """All roots that anything is known of, each at most once in the queue."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._states: dict[int, State] = {}
        self._arrivals = 0

    def get(self, root: int) -> State | None:
        return self._states.get(root)

    def of(self, root: Root) -> State:
        state = self._states.get(root.id)
        if state is None:
            state = self._states[root.id] = State(root)
        return state

    def all(self) -> list[State]:
        return list(self._states.values())

    def end(self, root: int) -> None:
        """Nothing more is to be done for it."""
        self._states.pop(root, None)
        self._queue.drop(root)

    def again(self, state: State) -> None:
        """It wants a decision now."""
        self._queue.add(state.root.id, self.rank(state))

    def back_off(self, state: State, at_most: float = math.inf) -> None:
        """It wants one when what it awaits has come, or after a while."""
        self._queue.back_off(state.root.id, self.rank(state), at_most, awaits=state.awaits)

    def owe(self, state: State) -> None:
        """It is to be told why it is blocked, unless what it awaits comes first."""
        self._queue.owe(state.root.id, self.rank(state), state.awaits)

    def wait(self, state: State) -> None:
        """It wants a decision after a while, whatever others give back: a write was refused, or others leave for it."""
        self._queue.back_off(state.root.id, self.rank(state), awaits=None)

    def sleep(self, state: State, seconds: float) -> None:
        """It wants one after a while; room does not help it."""
        self._queue.sleep(state.root.id, self.rank(state), seconds, awaits=None)

    def succeeded(self, state: State) -> None:
        self._queue.succeeded(state.root.id)

    def rank(self, state: State) -> Rank:
        """Priority of the root, then the age of its oldest pending pod, then arrival, then name."""
        root = state.root
        name = f"{root.key.namespace}/{root.key.name}" if isinstance(root, Group) else root.key
        if not state.since:
            state.since = _oldest(root)
            self._arrivals += 1
            state.number = self._arrivals
        return (-priority_of(root), state.since, state.number, name)


def priority_of(root: Root) -> int:
    if isinstance(root, Group):
        return root.policy.priority if root.policy else 0
    return root.priority


def _oldest(root: Root) -> str:
    if isinstance(root, Group):
        return min((m.rank[1] for leaf in root.leaves() for m in leaf.pending.values()), default="")
    return root.rank[1]
