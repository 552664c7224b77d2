"""Room kept for roots that starve: a large gang never gets enough free at once while small ones take every gap.

    blocked for a while, and younger ones were placed meanwhile
        └─► engine.reserve: where it fits soonest ─► its places are entered in the view, nobody is evicted
                places:  newcomers of lower or equal priority go around them, higher ones may have them
                ends:    placed · changed or gone · its place became impossible · nothing moved for too long

A reservation that waits for pods that do not end is given up, so that small jobs get their turn, and taken up again
after as long a pause; each time it may last twice as long.  So both sides get half of the time at the least, and the
gang's turns outgrow whatever runs in its way.
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
from ..queueing.known_blocked import likeness
from ..queueing.root_state import State, priority_of
from ..reporting.report import key_of, kind_of
from .context import Around

_DAY = 24 * 3600
#: What it costs to wait for a pod of which nothing is known, and for one that is meant to run for ever.
_UNKNOWN_END, _NO_END = _DAY, 30 * _DAY
#: A place that does not last is not looked for again at once: the search is the dearest thing the scheduler does.
_SECONDS_BETWEEN_SEARCHES = 10.0
_NOTHING_KEPT = nullcontext()


@dataclass(frozen=True)
class Patience:
    """When room is kept, for how many, and for how long if nothing moves."""

    after_seconds: float = 60.0
    hold_seconds: float = 600.0
    at_once: int = 2


@dataclass(slots=True)
class Reservation:
    """The places kept for one root."""

    state: State
    priority: int
    places: dict[int, Member]
    #: The nodes, as they were when the places were chosen.
    nodes: dict[str, Node]
    domain: Domain
    #: Pods that must end before the places can be had.
    awaited: dict[int, None]
    #: The members that waited when it was made, when something last moved, and when it was made.
    wanted: frozenset[int]
    moved: float
    made: float


@dataclass(slots=True)
class _Answer:
    """What `Reservations.blocked` did, and when to ask it again."""

    changed: bool = False
    again: float = math.inf


@dataclass(slots=True)
class _Passed:
    """How young the youngest root is that was placed, by priority."""

    youngest: dict[int, str] = field(default_factory=dict)

    def note(self, priority: int, since: str) -> None:
        self.youngest[priority] = max(self.youngest.get(priority, ""), since)

    def over(self, priority: int, since: str) -> bool:
        """Whether someone who came later and is not more important went first."""
        return any(other <= priority and young > since for other, young in self.youngest.items())


class Reservations:
    """Who has room kept for them, and what that means for everybody else."""

    def __init__(self, patience: Patience, limits: Limits, around: Around, clock: Clock) -> None:
        self._patience = patience
        self._limits = limits
        self._around = around
        self._clock = clock
        self._held: dict[int, Reservation] = {}
        self._passed = _Passed()
        #: By likeness of a demand: whose reservations stand in its way, until something changes.
        self._behind: dict[object, str] = {}

    def __len__(self) -> int:
        return len(self._held)

    @property
    def nodes(self) -> list[set[str]]:
        """The nodes on which room is kept, root by root."""
        return [set(one.nodes) for one in self._held.values()]

    def recover(self) -> None:
        """What was placed before we came tells who was passed over."""
        for member in self._around.translator.members.values():
            if member.node:
                self._passed.note(priority_of(self._around.translator.root_of(member)), member.rank[1])

    # -- in a decision ---------------------------------------------------------------------------------

    def has(self, state: State) -> bool:
        return state.root.id in self._held

    def yields_to(self, priority: int) -> bool:
        """Whether someone of this priority may have places that are kept."""
        return bool(self._held) and any(one.priority < priority for one in self._held.values())

    def lifted(self, state: State, priority: int | None = None) -> AbstractContextManager[object]:
        """Look at the cluster without what is kept for this root, and for all below a priority."""
        return self._without(state, priority) if self._held else _NOTHING_KEPT

    @contextmanager
    def _without(self, state: State, priority: int | None) -> Iterator[None]:
        below = [one for one in self._held.values() if priority is not None and one.priority < priority]
        own = self._held.get(state.root.id)
        with self._around.view.without(self._kept([*below, *([own] if own else ())])):
            yield

    def placed(self, state: State, nodes: Collection[str]) -> None:
        """This root takes these nodes: its own reservation is over, and those of lower priority that are in the way."""
        self.end(state.root.id)
        if nodes:
            self._passed.note(priority_of(state.root), state.since)
            state.lapses = 0
            if self._held:
                self._clear(set(nodes), priority_of(state.root))

    def end(self, root: int) -> None:
        """Give up what is kept for a root, if anything is."""
        one = self._held.pop(root, None)
        if one is None:
            return
        for member in one.places.values():
            self._around.translator.unreserve(member)
        self.forget()
        self._around.room()

    def _clear(self, nodes: set[str], priority: int) -> None:
        """Whoever is less important and has room kept on these nodes looks for another place."""
        for one in [one for one in self._held.values() if one.priority < priority and nodes & one.nodes.keys()]:
            self.end(one.state.root.id)
            self._around.states.again(one.state)

    def forget(self) -> None:
        """Something changed: who stands in whose way is to be asked anew."""
        self._behind.clear()

    # -- after a decision in vain ----------------------------------------------------------------------

    def blocked(self, state: State, demand: Demand) -> _Answer:
        """Keep room for a root that has starved, or see whether what is kept for it still makes sense."""
        now, one = self._clock.now(), self._held.get(state.root.id)
        if one is not None:
            if self._stands(one, demand, now):
                return _Answer()
            moved = one.moved
            self.end(state.root.id)
            if now - moved >= self._hold(state):
                self._lapse(state, now)
                return _Answer(changed=True)
            if now - one.made < _SECONDS_BETWEEN_SEARCHES:
                state.reserve_from = now + _SECONDS_BETWEEN_SEARCHES
                return _Answer(changed=True)
            # Its place or itself became another; the time without progress goes on.
            self._reserve(state, demand, moved)
            return _Answer()
        due = self._due(state)
        if due > now:
            return _Answer(again=due - now)
        if not self._passed.over(priority_of(state.root), state.since) or not self._has_turn(state):
            return _Answer()
        return _Answer(self._reserve(state, demand, now))

    def told(self, state: State) -> str:
        """What a root is told about the room kept for it."""
        one = self._held.get(state.root.id)
        if one is None:
            return ""
        left = [pod for pod in one.awaited if self._is_in_way(one, pod)]
        busy = {running.node for pod in left if (running := self._around.view.running(pod)) is not None}
        where = f" in {spoken(one.domain)}" if one.domain else ""
        text = f"{len(one.nodes) - len(busy)} of {len(one.nodes)} reserved nodes{where} are free for it"
        return f"{text}, waiting for {len(left)} pods there to end" if left else text

    def in_the_way(self, state: State, demand: Demand) -> str:
        """Whose reservations a root would fit into, in words; "" if that is not what keeps it."""
        others = [one for one in self._held.values() if one.state is not state and one.priority >= demand.priority]
        if not others:
            return ""
        like = likeness(demand)
        if like not in self._behind:
            with self._around.view.without(self._kept(self._held.values())):
                verdict = decide(self._around.view, replace(demand, may_preempt=False), self._clock.now(), self._limits)
            self._behind[like] = _whose(others, verdict) if isinstance(verdict, Placed) else ""
        return self._behind[like]

    # -- making and keeping ----------------------------------------------------------------------------

    def _due(self, state: State) -> float:
        """When it has waited long enough."""
        since = max(parse(state.since) if state.since else self._clock.now(), state.incomplete_until)
        return max(since + self._patience.after_seconds, state.reserve_from)

    def _has_turn(self, state: State) -> bool:
        """Room is kept for few at a time; someone more important takes the turn of the least important."""
        if len(self._held) < self._patience.at_once:
            return True
        last = max(self._held.values(), key=lambda one: self._around.states.rank(one.state), default=None)
        if last is None or last.priority >= priority_of(state.root):
            return False
        self.end(last.state.root.id)
        self._around.states.again(last.state)
        return True

    def _reserve(self, state: State, demand: Demand, moved: float) -> bool:
        leaving = [member for member in self._around.translator.members.values() if member.leaving and member.place]
        gone = [running for member in leaving if (running := self._around.view.running(member.id)) is not None]
        with self.lifted(state, demand.priority):
            found = soonest(self._around.view, demand, gone, self._cost, self._limits)
        if found is None or not found.placement.assignment:
            # Not even without everyone it may wait for; that is a dear thing to find out.
            state.reserve_from = self._clock.now() + self._patience.after_seconds
            return False
        self._clear(set(found.placement.assignment.values()), demand.priority)
        self._enter(state, demand, found, gone, moved)
        return True

    def _enter(self, state: State, demand: Demand, found: Evict, leaving: list[Running], moved: float) -> None:
        members, assignment = self._around.translator.members, found.placement.assignment
        view, wanted = self._around.view, sorted(set(assignment.values()))
        nodes = {name: node for name in wanted if (node := view.node(name)) is not None}
        ending = [pod for unit in found.units for pod in self._around.view.pods_of(unit)]
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
            self._around.translator.reserve(members[number], name)
        self.forget()
        self._around.reporter.reserved(state.root, self.told(state))
        self._around.metrics.reserved("made")

    def _lapse(self, state: State, now: float) -> None:
        """Nobody in its way ends: others have their turn for as long as it had."""
        pause = self._hold(state)
        state.reserve_from = now + pause
        state.lapses += 1
        self._around.reporter.lapsed(state.root, pause)
        self._around.metrics.reserved("lapsed")

    def _hold(self, state: State) -> float:
        return self._patience.hold_seconds * (1 << state.lapses)

    def _stands(self, one: Reservation, demand: Demand, now: float) -> bool:
        """Whether its places are still those of its members, can still be had, and something moves."""
        gone = [pod for pod in one.awaited if not self._is_in_way(one, pod)]
        if gone:
            one.moved = now
            for pod in gone:
                del one.awaited[pod]
        if now - one.moved >= self._hold(one.state) or one.wanted != _members(demand):
            return False
        return all(self._around.view.node(name) == node for name, node in one.nodes.items()) and self._fits(one)

    def _is_in_way(self, one: Reservation, pod: int) -> bool:
        running = self._around.view.running(pod)
        return running is not None and running.node in one.nodes

    def _fits(self, one: Reservation) -> bool:
        """Whether the places are enough once the awaited are gone: strangers may have come."""
        for name, node in one.nodes.items():
            pods = self._around.view.pods_on(name)
            asked = {resource for pod in pods if pod.pod in one.places for resource, amount in pod.requests if amount}
            used = Counter[str]()
            for pod in pods:
                if pod.pod not in one.awaited:
                    used.update(dict(pod.requests))
            if any(used[resource] > node.allocatable.get(resource, given(resource)) for resource in asked):
                return False
        return True

    def _kept(self, held: Iterable[Reservation]) -> list[Running]:
        found = (self._around.view.running(number) for one in held for number in one.places)
        return [running for running in found if running is not None]

    def _cost(self, pod: Running) -> int:
        """How long it may take until a pod has ended."""
        spec = self._around.translator.members[pod.pod].obj["spec"]
        limit = spec.get("activeDeadlineSeconds")
        if limit is not None:
            return max(0, min(int(pod.started + limit - self._clock.now()), _UNKNOWN_END))
        return _NO_END if spec.get("restartPolicy", "Always") == "Always" else _UNKNOWN_END


def _members(demand: Demand) -> frozenset[int]:
    """The pods that want a place."""
    return frozenset(number for leaf in demand.leaves() for one in leaf.classes for number in one.members)


def _whose(others: list[Reservation], verdict: Placed) -> str:
    nodes = set(verdict.assignment.values())
    names = [
        f"{kind_of(one.state.root)} {key_of(one.state.root)}, which waits since {one.state.since}"
        for one in others
        if nodes & one.nodes.keys()
    ]
    return f"there is room, but it is reserved for {' and '.join(names)}" if names else ""
