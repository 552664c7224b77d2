"""What is under way for each root, and the one door through which its phase changes.

    loop, readiness, placing, preemption, reservation ─► RootStates ─► phase, by the table in `root_phases`
                                                                └────► Queue: in line, asleep or dropped, by its phase
    Queue ─woken─► RootStates

A phase's place in the queue follows from it: `problems` checks that both agree.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from ...base.clock import Clock
from ..intake.group_tree import GroupNode, Member, Root
from .queue import ANY_ROOM, Queue, Rank
from .root_phases import TRANSITIONS, Event, Phase

log = logging.getLogger(__name__)

#: Where each event leads in most phases.
_USUAL = {event: after for arrows in TRANSITIONS.values() for event, after in arrows.items()}
#: Illegal transitions that are kept for `problems`.
_MOST_ILLEGAL = 8
#: A story that grows longer loses its older half.
_LONGEST_STORY = 32
#: Phases in which a root is asleep in the queue; an incomplete one only until its quiet time is over.
_ASLEEP = (Phase.BLOCKED, Phase.PREEMPTING, Phase.RETRYING)


@dataclass(slots=True)
class Preempting:
    """Members with a place kept for them, and the pods that must leave first; either may be empty, not both."""

    nominated: dict[int, Member] = field(default_factory=dict)
    victims: dict[int, None] = field(default_factory=dict)


@dataclass(slots=True)
class Binding:
    """Bindings without an answer yet, and the groups that hold once all are answered."""

    in_flight: int = 0
    groups: frozenset[int] = frozenset()
    #: Pods that were placed, and since when the oldest of them was pending; "" if it is not known.
    pods: int = 0
    since: str = ""


@dataclass(slots=True)
class Arrivals:
    """How many pods an incomplete root had, and since when that number is the same."""

    pods: int
    since: float


@dataclass(slots=True)
class Starving:
    """No reservation is made before this moment, and how many in a row were given up."""

    reserve_from: float = 0.0
    lapses: int = 0


@dataclass(frozen=True, slots=True)
class Recovering:
    """Groups that were released to be placed anew, and how long the rest of the tree waits for their pods."""

    units: tuple[GroupNode, ...]
    until: float


@dataclass(slots=True)
class RootState:
    """One root: the top of a tree, or a pod without a group.

    `phase` says what it waits for.  The records say what is under way for it beside that: a tree whose minimum is being
    bound may be blocked with the rest of its pods.
    """

    root: Root
    phase: Phase = Phase.NEW
    story: list[tuple[Event, Phase]] = field(default_factory=list)
    #: Since when pods of it are pending, since when it is in line, and its number among the roots of the same second.
    since: str = ""
    queued_since: str = ""
    number: int = 0
    #: When its last attempt began, 0 if it never came to one.
    begun: float = 0.0
    #: The real seconds that the engine took for its last decision.
    decided_in: float = 0.0
    #: When it last reported why it is blocked; 0 since it changed itself.
    explained_at: float = 0.0
    #: When it was last seen incomplete.
    incomplete_at: float = 0.0
    #: Whether its groups have reported what was last placed.
    settled: bool = False
    preempting: Preempting | None = None
    binding: Binding | None = None
    arrivals: Arrivals | None = None
    starving: Starving | None = None
    recovering: Recovering | None = None

    def attempt_seconds(self, now: float) -> float:
        """The time since its attempt began; 0 if it has not come to one."""
        return now - self.begun if self.begun else 0.0

    def told_story(self) -> str:
        """Its last transitions, oldest first."""
        return " ".join(["…", *(f"─{event}─► {phase}" for event, phase in self.story)])


class RootStates:
    """All known roots, each at most once in the queue."""

    def __init__(self, clock: Clock, queued_since: Callable[[Root], str] = attrgetter("oldest")) -> None:
        self.queue = Queue(clock, self._woken)
        #: Tells since when a root is in line.
        self.queued_since = queued_since
        self._states: dict[int, RootState] = {}
        self._arrivals = 0
        self._illegal: list[str] = []

    def get(self, root: int) -> RootState | None:
        return self._states.get(root)

    def of(self, root: Root) -> RootState:
        state = self._states.get(root.id)
        if state is None:
            state = self._states[root.id] = RootState(root)
        return state

    def all(self) -> list[RootState]:
        return list(self._states.values())

    # -- the door --------------------------------------------------------------------------------------

    def _move(self, state: RootState, event: Event) -> Phase:
        after = TRANSITIONS[state.phase].get(event)
        if after is None:
            self.refuse(state, f"event {event!r} in phase {state.phase}")
            after = _USUAL[event]
        state.phase = after
        story = state.story
        story.append((event, after))
        if len(story) > _LONGEST_STORY:
            del story[: _LONGEST_STORY // 2]
        return after

    def refuse(self, state: RootState, problem: str) -> None:
        """The table does not allow what happened to a root: a bug.

        A running scheduler goes on with the phase that the event usually leads to.  Tests raise here, and the soak
        finds it in `problems`.
        """
        message = f"{state.root.path}: {problem}: {state.told_story()}"
        log.error("illegal transition of %s", message)
        if len(self._illegal) < _MOST_ILLEGAL:
            self._illegal.append(message)

    # -- into the queue and out of it ------------------------------------------------------------------

    def again(self, state: RootState, event: Event) -> None:
        """It needs a decision now; what it belongs to may be known by now."""
        self._move(state, event)
        state.queued_since = ""
        self.queue.add(state.root.id, self.rank(state))

    def _woken(self, root: int) -> None:
        self._move(self._states[root], Event.WOKEN)

    def taken(self, state: RootState) -> None:
        """Its turn has come."""
        self._move(state, Event.TAKEN)

    def end(self, root: int) -> None:
        """Nothing is left to do for it."""
        state = self._states.pop(root, None)
        if state is not None:
            self._move(state, Event.ENDED)
        self.queue.drop(root)

    # -- what a cycle came to --------------------------------------------------------------------------

    def left_undecided(self, state: RootState) -> None:
        """A cycle ended without an outcome; without a new phase the root would never be decided again."""
        self.refuse(state, "its cycle ended without an outcome")
        self.failed(state)

    def incomplete(self, state: RootState, quiet_in: float = 0.0) -> None:
        """Pods or groups are missing; it is looked at again when its quiet time is over, or when it changes."""
        self._move(state, Event.MISSING)
        if quiet_in > 0:
            self.queue.sleep(state.root.id, self.rank(state), quiet_in, awaits=None)

    def invalid(self, state: RootState) -> None:
        """It must not be scheduled as it is; only its own change helps."""
        self._move(state, Event.REJECTED)

    def ignored(self, state: RootState) -> None:
        """Its pods name another scheduler."""
        self._move(state, Event.FOREIGN)

    def blocked(self, state: RootState, awaits: int = ANY_ROOM, at_most: float = math.inf) -> None:
        """It needs a decision when what it awaits has come, or after its back-off."""
        self._move(state, Event.BLOCKED)
        self.queue.back_off(state.root.id, self.rank(state), at_most, awaits=awaits)

    def unexplained(self, state: RootState, awaits: int) -> None:
        """It is blocked; its reason is worked out later, unless what it awaits comes first."""
        self._move(state, Event.UNEXPLAINED)
        self.queue.owe_reason(state.root.id, self.rank(state), awaits)

    def preempting(self, state: RootState) -> None:
        """It needs a decision when its victims are gone, or after its back-off; other capacity does not wake it."""
        self._move(state, Event.VICTIMS_LEAVING)
        self.queue.back_off(state.root.id, self.rank(state), awaits=None)

    def placed(self, state: RootState) -> None:
        """All of it that can be tried is placed and being bound."""
        self._move(state, Event.PLACED)
        state.since = ""

    def resting(self, state: RootState) -> None:
        """Nothing of it is pending."""
        self._move(state, Event.PLACED if state.binding is not None else Event.NOTHING_PENDING)
        state.since = ""

    # -- between cycles --------------------------------------------------------------------------------

    def bound(self, state: RootState) -> None:
        """Its last binding was answered."""
        self._move(state, Event.BOUND)

    def refused(self, state: RootState) -> None:
        """A binding was refused: the watch needs a moment to show why."""
        if self._move(state, Event.REFUSED) in _ASLEEP:
            self.queue.back_off(state.root.id, self.rank(state), awaits=None)

    def failed(self, state: RootState) -> None:
        """Its cycle failed in an unforeseen way, perhaps after it left the queue for good."""
        self.queue.cancel_reason(state.root.id)
        if state.phase is not Phase.GONE and self._move(state, Event.FAILED) is Phase.RETRYING:
            self.queue.back_off(state.root.id, self.rank(state))

    # -- order and checks ------------------------------------------------------------------------------

    def rank(self, state: RootState) -> Rank:
        """Priority of the root, then the age of the object that its user made, then arrival, then name."""
        root = state.root
        if not state.since:
            state.since = root.oldest
            self._arrivals += 1
            state.number = self._arrivals
        if not state.queued_since:
            state.queued_since = self.queued_since(root)
        return (-root.priority, state.queued_since, state.number, root.path)

    def problems(self) -> list[str]:
        """Illegal transitions so far, and roots whose place in the queue is not that of their phase."""
        return [*self._illegal, *self._misplaced()]

    def _misplaced(self) -> Iterator[str]:
        queue = self.queue
        for number, state in self._states.items():
            active, asleep = queue.is_active(number), queue.is_asleep(number)
            phase = state.phase
            right = (
                active is (phase is Phase.QUEUED)
                and (asleep or phase not in _ASLEEP)
                and (not asleep or phase in (*_ASLEEP, Phase.INCOMPLETE))
                and (queue.is_owed_reason(number) or phase is not Phase.UNEXPLAINED)
                and phase is not Phase.DECIDING
            )
            if not right:
                yield f"{state.root.path} is {phase} with active={active}, asleep={asleep}: {state.told_story()}"
