"""Reservations for starving roots: a large gang never finds enough free at once while small ones take every gap.

    blocked for a while, and younger roots were placed meanwhile
        └─► engine.soonest: where it fits soonest ─► its places are entered in the view, no pod is evicted
                places:  roots of lower or equal priority go around them, roots of higher priority may take them
                ends:    placed · changed or gone · its place became impossible · no awaited pod ended for too long

A reservation that waits for pods that do not end lapses, so that small jobs get their turn, and is made again after a
pause of the same length.  Each time it may last twice as long.  So both sides get at least half of the time, and the
gang's turns outlast any job that ends.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace

from ...base.clock import Clock
from ...base.instants import parse
from ...base.paths import spoken
from ...engine import Demand, Domain, Evict, Limits, Node, Placed, Running, decide, given, soonest
from ..intake.group_tree import Member
from ..queueing.blocked_demands import likeness
from ..queueing.root_phases import Event
from ..queueing.root_state import RootState, Starving
from .context import ActingContext

_DAY = 24 * 3600
#: The cost of waiting for a pod without a deadline, and for one that restarts for ever.
_UNKNOWN_END, _NO_END = _DAY, 30 * _DAY
#: A reservation that does not last is not made again at once: no other search costs as much.
_SECONDS_BETWEEN_SEARCHES = 10.0
_NOTHING_KEPT = nullcontext()


@dataclass(frozen=True)
class Patience:
    """When a reservation is made, how many at once, and how long one may last without progress."""

    after_seconds: float = 60.0
    hold_seconds: float = 600.0
    at_once: int = 2


@dataclass(slots=True)
class Reservation:
    """The places reserved for one root."""

    state: RootState
    priority: int
    places: dict[int, Member]
    #: The nodes, as they were when the places were chosen.
    nodes: dict[str, Node]
    domain: Domain
    #: Pods that must end before the places are free.
    awaited: dict[int, None]
    #: The pending members when it was made, when an awaited pod last ended, and when it was made.
    wanted: frozenset[int]
    moved: float
    made: float


@dataclass(slots=True)
class _Outcome:
    """Whether `Reservations.blocked` changed reservations, and the seconds after which to ask it again."""

    changed: bool = False
    again: float = math.inf


@dataclass(slots=True)
class _Passed:
    """The youngest placed root by priority: since when it was in line, or since when its pods were pending."""

    youngest: dict[int, str] = field(default_factory=dict)

    def note(self, priority: int, since: str) -> None:
        self.youngest[priority] = max(self.youngest.get(priority, ""), since)

    def over(self, priority: int, since: str) -> bool:
        """Whether a younger root of no higher priority was placed first."""
        return any(other <= priority and young > since for other, young in self.youngest.items())


class Reservations:
    """All reservations, and what they mean for the decisions on other roots."""

    def __init__(self, patience: Patience, limits: Limits, context: ActingContext, clock: Clock) -> None:
        self._patience = patience
        self._limits = limits
        self._context = context
        self._clock = clock
        self._held: dict[int, Reservation] = {}
        #: By place in line, and by the age of pods: objects that are older keep sending new pods.
        self._passed, self._passed_pods = _Passed(), _Passed()
        #: By likeness of a demand: the reservations that it would fit into, in words, until something changes.
        self._behind: dict[object, str] = {}

    def __len__(self) -> int:
        return len(self._held)

    @property
    def nodes(self) -> list[set[str]]:
        """The reserved nodes, root by root."""
        return [set(one.nodes) for one in self._held.values()]

    def reserve_after(self, seconds: float) -> None:
        """Change after how long capacity is reserved; reservations that were made stay."""
        self._patience = replace(self._patience, after_seconds=seconds)

    def ages(self) -> list[float]:
        """The seconds since each reservation was made."""
        now = self._clock.now()
        return [now - one.made for one in self._held.values()]

    def held(self) -> list[Reservation]:
        return list(self._held.values())

    def all_lifted(self) -> AbstractContextManager[object]:
        """View without any reservation."""
        return self._context.view.without(self._kept(self._held.values())) if self._held else _NOTHING_KEPT

    def recover(self) -> None:
        """Pods placed by the previous process tell which roots were passed over."""
        for member in self._context.translator.members.values():
            if member.node:
                root = self._context.translator.root_of(member)
                self._passed.note(root.priority, self._context.states.queued_since(root))
                self._passed_pods.note(root.priority, member.rank[1])

    # -- in a decision ---------------------------------------------------------------------------------

    def has(self, state: RootState) -> bool:
        return state.root.id in self._held

    def yields_to(self, priority: int) -> bool:
        """Whether a root of this priority may take reserved places."""
        return bool(self._held) and any(one.priority < priority for one in self._held.values())

    def lifted(self, state: RootState, priority: int | None = None) -> AbstractContextManager[object]:
        """View without the reservations of this root and of all roots below a priority."""
        return self._without(state, priority) if self._held else _NOTHING_KEPT

    @contextmanager
    def _without(self, state: RootState, priority: int | None) -> Iterator[None]:
        below = [one for one in self._held.values() if priority is not None and one.priority < priority]
        own = self._held.get(state.root.id)
        with self._context.view.without(self._kept([*below, *([own] if own else ())])):
            yield

    def placed(self, state: RootState, nodes: Collection[str]) -> None:
        """This root takes these nodes: its own reservation ends, and those of lower priority in the way."""
        self._drop(state.root.id)
        if nodes:
            self._passed.note(state.root.priority, state.queued_since)
            self._passed_pods.note(state.root.priority, state.since)
            if state.starving is not None:
                state.starving.lapses = 0
            if self._held:
                self._clear(set(nodes), state.root.priority)

    def end(self, root: int) -> None:
        """Give up the reservation of a root, if it has one; its pods say so."""
        one = self._drop(root)
        if one is not None:
            self._context.reporter.expected(one.places.values())

    def _drop(self, root: int) -> Reservation | None:
        """The same without a word: its pods are about to be bound or nominated."""
        one = self._held.pop(root, None)
        if one is None:
            return None
        for member in one.places.values():
            self._context.translator.unreserve(member)
        self.forget()
        self._context.room()
        return one

    def _clear(self, nodes: set[str], priority: int) -> None:
        """Reservations of lower priority on these nodes end; their roots are decided again."""
        for one in [one for one in self._held.values() if one.priority < priority and nodes & one.nodes.keys()]:
            self.end(one.state.root.id)
            self._context.states.again(one.state, Event.PLACE_LOST)

    def forget(self) -> None:
        """Something changed: which reservations are in the way of which demand has to be asked again."""
        self._behind.clear()

    # -- after a blocked decision -----------------------------------------------------------------------

    def blocked(self, state: RootState, demand: Demand) -> _Outcome:
        """Make a reservation for a starving root, or check that the one it has still makes sense."""
        now, one = self._clock.now(), self._held.get(state.root.id)
        if one is not None:
            if self._stands(one, demand, now):
                return _Outcome()
            moved = one.moved
            self.end(state.root.id)
            if now - moved >= self._hold(state):
                self._lapse(state, now)
                return _Outcome(changed=True)
            if now - one.made < _SECONDS_BETWEEN_SEARCHES:
                _starving(state).reserve_from = now + _SECONDS_BETWEEN_SEARCHES
                return _Outcome(changed=True)
            # Its place or its members changed; the time without progress goes on.
            self._reserve(state, demand, moved)
            return _Outcome()
        due = self._due(state)
        if due > now:
            return _Outcome(again=due - now)
        if not self._is_passed_over(state, now) or not self._has_turn(state):
            return _Outcome()
        return _Outcome(self._reserve(state, demand, now))

    def _is_passed_over(self, state: RootState, now: float) -> bool:
        """Whether a root behind it in line was placed; after a long time, any root whose pods came later."""
        priority = state.root.priority
        if self._passed.over(priority, state.queued_since):
            return True
        waited = now - parse(state.since) if state.since else 0.0
        return waited >= self._patience.hold_seconds and self._passed_pods.over(priority, state.since)

    def summary(self, state: RootState) -> str:
        """What a root reports about its reservation; "" without one."""
        one = self._held.get(state.root.id)
        if one is None:
            return ""
        left = [pod for pod in one.awaited if self._is_in_way(one, pod)]
        busy = {running.node for pod in left if (running := self._context.view.running(pod)) is not None}
        where = f" in {spoken(one.domain)}" if one.domain else ""
        text = f"{len(one.nodes) - len(busy)} of {len(one.nodes)} reserved nodes{where} are free"
        pods = "1 pod" if len(left) == 1 else f"{len(left)} pods"
        return f"{text}, waiting for {pods} on the others to end" if left else text

    def in_the_way(self, state: RootState, demand: Demand) -> str:
        """Which reservations a root would fit into, in words; "" if they are not what blocks it."""
        others = [one for one in self._held.values() if one.state is not state and one.priority >= demand.priority]
        if not others:
            return ""
        like = likeness(demand)
        if like not in self._behind:
            with self._context.view.without(self._kept(self._held.values())):
                verdict = decide(
                    self._context.view, replace(demand, may_preempt=False), self._clock.now(), self._limits
                )
            self._behind[like] = _whose(others, verdict) if isinstance(verdict, Placed) else ""
        return self._behind[like]

    # -- making and keeping ----------------------------------------------------------------------------

    def _due(self, state: RootState) -> float:
        """When it has waited long enough for a reservation."""
        since = max(parse(state.since) if state.since else self._clock.now(), state.incomplete_at)
        return max(since + self._patience.after_seconds, state.starving.reserve_from if state.starving else 0.0)

    def _has_turn(self, state: RootState) -> bool:
        """Few have a reservation at a time; a root of higher priority takes the turn of the last one."""
        if len(self._held) < self._patience.at_once:
            return True
        last = max(self._held.values(), key=lambda one: self._context.states.rank(one.state), default=None)
        if last is None or last.priority >= state.root.priority:
            return False
        self.end(last.state.root.id)
        self._context.states.again(last.state, Event.PLACE_LOST)
        return True

    def _reserve(self, state: RootState, demand: Demand, moved: float) -> bool:
        leaving = [member for member in self._context.translator.members.values() if member.leaving and member.place]
        gone = [running for member in leaving if (running := self._context.view.running(member.id)) is not None]
        with self.lifted(state, demand.priority):
            found = soonest(self._context.view, demand, gone, self._cost, self._limits)
        if found is None or not found.placement.assignment:
            # It would not fit even if all pods it may wait for ended; that was costly to find out.
            _starving(state).reserve_from = self._clock.now() + self._patience.after_seconds
            return False
        self._clear(set(found.placement.assignment.values()), demand.priority)
        self._enter(state, demand, found, gone, moved)
        return True

    def _enter(self, state: RootState, demand: Demand, found: Evict, leaving: list[Running], moved: float) -> None:
        members, assignment = self._context.translator.members, found.placement.assignment
        view, wanted = self._context.view, sorted(set(assignment.values()))
        nodes = {name: node for name in wanted if (node := view.node(name)) is not None}
        ending = [pod for unit in found.units for pod in self._context.view.pods_of(unit)]
        awaited = {pod.pod: None for pod in (*ending, *leaving) if pod.node in nodes}
        places = {number: members[number] for number in assignment}
        domain = found.placement.domains.get(state.root.id, ())
        self._held[state.root.id] = Reservation(
            state=state,
            priority=demand.priority,
            places=places,
            nodes=nodes,
            domain=domain,
            awaited=awaited,
            wanted=_members(demand),
            moved=moved,
            made=self._clock.now(),
        )
        for number, name in assignment.items():
            self._context.translator.reserve(members[number], name)
        self.forget()
        self._context.reporter.expected(places.values())
        self._context.reporter.reserved(state.root, self.summary(state))
        self._context.decisions.reserved(state, len(nodes), domain)
        self._context.metrics.reserved("made")

    def _lapse(self, state: RootState, now: float) -> None:
        """No awaited pod ends: other roots have their turn for as long as it had."""
        pause, starving = self._hold(state), _starving(state)
        starving.reserve_from = now + pause
        starving.lapses += 1
        self._context.reporter.lapsed(state.root, pause)
        self._context.decisions.lapsed(state, pause)
        self._context.metrics.reserved("lapsed")

    def _hold(self, state: RootState) -> float:
        """How long its reservation may last without progress."""
        return self._patience.hold_seconds * (1 << (state.starving.lapses if state.starving else 0))

    def _stands(self, one: Reservation, demand: Demand, now: float) -> bool:
        """Whether it is for the same members, its places can still become free, and awaited pods end."""
        gone = [pod for pod in one.awaited if not self._is_in_way(one, pod)]
        if gone:
            one.moved = now
            for pod in gone:
                del one.awaited[pod]
        if now - one.moved >= self._hold(one.state) or one.wanted != _members(demand):
            return False
        return all(self._context.view.node(name) == node for name, node in one.nodes.items()) and self._fits(one)

    def _is_in_way(self, one: Reservation, pod: int) -> bool:
        running = self._context.view.running(pod)
        return running is not None and running.node in one.nodes

    def _fits(self, one: Reservation) -> bool:
        """Whether the places suffice once the awaited pods are gone: other pods may have come."""
        for name, node in one.nodes.items():
            pods = self._context.view.pods_on(name)
            asked = {resource for pod in pods if pod.pod in one.places for resource, amount in pod.requests if amount}
            used = Counter[str]()
            for pod in pods:
                if pod.pod not in one.awaited:
                    used.update(dict(pod.requests))
            if any(used[resource] > node.allocatable.get(resource, given(resource)) for resource in asked):
                return False
        return True

    def _kept(self, held: Iterable[Reservation]) -> list[Running]:
        found = (self._context.view.running(number) for one in held for number in one.places)
        return [running for running in found if running is not None]

    def _cost(self, pod: Running) -> int:
        """The seconds until a pod may have ended."""
        spec = self._context.translator.members[pod.pod].pod.spec
        limit = spec.active_deadline_seconds
        if limit is not None:
            return max(0, min(int(pod.started + limit - self._clock.now()), _UNKNOWN_END))
        return _NO_END if spec.restart_policy == "Always" else _UNKNOWN_END


def _starving(state: RootState) -> Starving:
    if state.starving is None:
        state.starving = Starving()
    return state.starving


def _members(demand: Demand) -> frozenset[int]:
    """The pending pods of a demand."""
    return frozenset(number for leaf in demand.leaves() for one in leaf.classes for number in one.members)


def _whose(others: list[Reservation], verdict: Placed) -> str:
    nodes = set(verdict.assignment.values())
    names = [f"{one.state.root.title} (waiting since {one.state.since})" for one in others if nodes & one.nodes.keys()]
    return f"there is room, but it is reserved for {' and '.join(names)}" if names else ""
