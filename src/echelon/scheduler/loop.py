"""The cycle: take a root → look at its tree → decide → assume → bind beside the next decision.

    Translator ─touched, room, gone─► Scheduler ─► Queue ─take─► decide ─► Placed   assume, bind
                                                                     ├──► Evict    evict, hold nominations, wait
                                                                     └──► Blocked  say why, sleep until it may help

A decision and what it does to the view are one step on the event loop: nothing comes between.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field, replace

from prometheus_client import CollectorRegistry

from ..api.objects import vocabulary
from ..api.verbs import Verbs
from ..base.clock import Clock
from ..client.events import Recorder
from ..client.informer import Caches
from ..engine import Blocked, ClusterView, Demand, Evict, Limits, Placed, Steps, decide
from .acting.context import Around
from .acting.placing import Placing
from .acting.preemption import Preemption
from .acting.reservation import Patience, Reservations
from .asking.readiness import Readiness
from .asking.tree_validation import domains_problem
from .intake.consistency import differences
from .intake.group_tree import Group, Member, Root
from .intake.pod_affinity import introduced
from .intake.translate import Translator
from .queueing.known_blocked import Memory
from .queueing.queue import ANY_ROOM, Queue
from .queueing.root_state import State, States
from .reporting.metrics import Backlog, Metrics
from .reporting.report import Reporter, key_of
from .reporting.writes import Enactor

log = logging.getLogger(__name__)

#: A root that waits is told anew why at most this often, unless it changes itself: the search for remedies is what
#: costs most in a decision, and of those that wait everybody is asked when a pod ends.
_SECONDS_BETWEEN_REASONS = 10.0
#: Of a crowd that waits so many are told anew in a second.
_REASONS_PER_SECOND = 5.0
#: While the server has more bindings to do than it takes at a time, roots that need no search are decided for so many
#: pods before anything else has its turn: one decision after the other costs less than between answers and events, and
#: answers that have gathered meanwhile cost less than one by one.
_PODS_IN_A_ROW = 192


@dataclass(frozen=True)
class Settings:
    """What a scheduler answers to and how it sees the cluster."""

    names: tuple[str, ...] = ("default-scheduler", "echelon")
    levels: tuple[str, ...] = vocabulary.DEFAULT_LEVELS
    #: A decision holds up everything else in the process: about a second at the very worst.
    limits: Limits = field(default_factory=lambda: Limits(steps=20_000))
    #: When room is kept for those that starve.
    patience: Patience = field(default_factory=Patience)


class Scheduler:
    """Places what is pending, for as long as it runs."""

    def __init__(
        self,
        verbs: Verbs,
        caches: Caches,
        clock: Clock,
        recorder: Recorder,
        settings: Settings,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._caches = caches
        self._clock = clock
        self._settings = settings
        self._full, self._brief = settings.limits, replace(settings.limits, fixes=0)
        self.view = ClusterView(settings.levels)
        self._queue = Queue(clock)
        self._states = States(self._queue)
        self._memory = Memory(self.view)
        self.metrics = Metrics(registry or CollectorRegistry())
        self.metrics.registry.register(Backlog(settings.names, self._states.all, self._queue, clock.now))
        self._translator = Translator(self.view, caches, clock, self)
        self._enactor = Enactor(verbs, caches, clock, self.metrics)
        recorder.give_way(self._enactor.let_events_pass)
        self._reporter = Reporter(self._enactor, recorder, clock)
        around = Around(self._translator, self._states, self._reporter, self.metrics, self.room)
        self._placing = Placing(around, self._enactor, clock, self._end)
        self._readiness = Readiness(settings.names, caches, clock, self._states, self._reporter, self._placing.settle)
        self._preemption = Preemption(settings.names, around, self._enactor)
        self.reservations = Reservations(settings.patience, self._brief, around, clock)
        self._following = self._leading = False
        #: Whether room has appeared that nobody was woken for yet.
        self._room = False
        #: How many pods the last decision placed, if it did so without search.
        self._plainly_placed = 0

    def follow(self) -> None:
        """Keep view and forest from now on; who waits to lead has them ready.  The caches must be filled."""
        if not self._following:
            self._following = True
            self._translator.listen()
            log.debug("following %d nodes", len(self.view.node_table.nodes))

    async def run(self) -> None:
        """Begin once all caches are filled; schedule until cancelled."""
        await self._caches.wait_synced()
        self.follow()
        self._leading = True
        for root in self._translator.roots():
            self.touched(root)
        self._preemption.recover()
        self.reservations.recover()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._enactor.run(), name="scheduler-writes")
                group.create_task(self._cycles(), name="scheduler-cycles")
        finally:
            self._queue.close()

    @property
    def at_rest(self) -> bool:
        """Whether there is nothing to decide and nothing to write before an event comes or time passes."""
        waiting = len(self._queue) + self._queue.owing
        return self._leading and not waiting and not self._room and self._enactor.at_rest

    def inconsistencies(self) -> list[str]:
        """Where the view differs from one rebuilt from the caches, and who sleeps though it fits.

        Empty before it follows the caches.
        """
        if not self._following:
            return []
        now, brief = self._clock.now(), self._brief
        missed = [] if self._room else self._memory.untrue(lambda one: decide(self.view, one, now, brief))
        return [*differences(self._translator, self._caches, self._clock), *missed]

    async def _cycles(self) -> None:
        in_a_row = 0
        while True:
            root, told = await self._queue.take(self._wake)
            self._plainly_placed = 0
            state = self._states.get(root)
            if state is not None:
                try:
                    self._cycle(state, told)
                except Exception:
                    # One root must not stop the others, whatever is wrong with it.
                    log.exception("scheduling %s failed", key_of(state.root))
                    self.metrics.attempted(state.root, "error", state.taken(self._clock.now()))
                    self._states.back_off(state)
            in_a_row += self._plainly_placed
            if in_a_row >= _PODS_IN_A_ROW or not (self._plainly_placed and self._enactor.has_plenty):
                # Let bindings start and events come in before the next decision.
                in_a_row = 0
                await asyncio.sleep(0)

    # -- what the translator hears ---------------------------------------------------------------------

    def touched(self, root: Root) -> None:
        if not self._leading:
            return
        if isinstance(root, Group) or self._is_ours(root):
            state = self._states.of(root)
            state.told = 0.0
            if isinstance(root, Group) and root.layout is None:
                # Its groups are not those that were told.
                state.settled = False
            self._states.again(state)
        elif not root.assumed:
            # Of one that is on its way its binding will tell.
            self._retire(root)

    def room(self) -> None:
        """Events come in bursts: whom they help is found out before the next root is taken."""
        self.reservations.forget()
        self._room = True
        self._queue.stir()

    def _wake(self) -> None:
        """Wake those whom the room that has appeared may help."""
        if not self._room:
            return
        self._room = False
        try:
            void = self._memory.room(self._queue.is_awaited)
        except Exception:
            log.exception("finding out whom room helps failed")
            void = self._memory.forget()
        self._queue.wake(void)

    def gone(self, member: Member) -> None:
        if member.group is None:
            self._end(member)
        else:
            state = self._states.get(self._translator.root_of(member).id)
            if state is not None:
                state.nominated.pop(member.id, None)
                if state.flying:
                    # It goes before the last of its group is bound: whether the group is ever whole is to be seen.
                    state.placed = frozenset()
        self._preemption.gone(member)

    def displaced(self, member: Member) -> None:
        state = self._states.get(self._translator.root_of(member).id)
        if state is not None:
            self.reservations.end(state.root.id)
            self._preemption.displaced(state)

    def _is_ours(self, pod: Member) -> bool:
        return pod.waiting and pod.scheduler in self._settings.names

    def _retire(self, root: Root) -> None:
        """It wants nothing any more, though it may still be there: what was kept for it is given back."""
        state = self._states.get(root.id)
        if state is not None:
            self._preemption.withdraw(state)
        self._end(root)

    def _end(self, root: Root) -> None:
        """Nothing more is to be done for it."""
        self.reservations.end(root.id)
        self._states.end(root.id)

    # -- one cycle -------------------------------------------------------------------------------------

    def _cycle(self, state: State, told: bool) -> None:
        """Everything that can be done for one root now; others are decided before it is `told` why it waits."""
        root, state.awaits = state.root, ANY_ROOM
        if not (self._translator.forest.is_root(root) if isinstance(root, Group) else self._is_ours(root)):
            self._retire(root)
            return
        if state.victims and state.nominated:
            self._look_elsewhere(state)
            return
        self._preemption.withdraw(state)
        demand = self._readiness.demand(state)
        if demand is None:
            self._queue.forgive(root.id)
            self.reservations.end(root.id)
            return
        demand = introduced(demand, self._translator.members, self.view.pod_index)
        state.begun = self._clock.now()
        knows = self._told_lately(state)
        verdict, brief = self._decide(state, demand, brief=knows or (len(self._queue) > 0 and not told))
        if not isinstance(verdict, Blocked):
            self._queue.forgive(root.id)
        if isinstance(verdict, Placed):
            self.reservations.placed(state, verdict.assignment.values())
            self._placing.place(state, verdict)
        elif isinstance(verdict, Evict):
            self._make_room(state, demand, verdict)
            self.metrics.attempted(root, "waiting_on_preemption", state.taken(self._clock.now()))
        else:
            self.metrics.attempted(root, "unschedulable", state.taken(self._clock.now()))
            self._stay(state, demand, None if brief else verdict, knows)

    def _make_room(self, state: State, demand: Demand, verdict: Evict) -> None:
        """Nobody is evicted for it if those suffice whom the process before us began to evict."""
        with self._preemption.without_orphans() as any_leave:
            found = self._ask(state.root, replace(demand, may_preempt=False), self._brief) if any_leave else None
        placement = found if isinstance(found, Placed) and found.assignment else verdict.placement
        self.reservations.placed(state, placement.assignment.values())
        if placement is verdict.placement:
            self._preemption.begin(state, verdict)
        else:
            self._preemption.inherit(state, placement)
        self._states.wait(state)

    def _look_elsewhere(self, state: State) -> None:
        """Others leave for it, which may take them long: if room has appeared elsewhere meanwhile, it goes there."""
        demand = self._readiness.demand(state)
        if demand is None:
            return
        demand = introduced(demand, self._translator.members, self.view.pod_index)
        with self._preemption.lifted(state):
            verdict = self._ask(state.root, replace(demand, may_preempt=False), self._brief)
        if isinstance(verdict, Placed) and verdict.assignment:
            self._preemption.withdraw(state)
            self.reservations.placed(state, verdict.assignment.values())
            self._placing.place(state, verdict)
        else:
            self._states.wait(state)

    def _stay(self, state: State, demand: Demand, why: Blocked | None, knows: bool) -> None:
        """It cannot be placed now: room may be kept for it, and it is told why it waits unless it `knows`."""
        kept = self.reservations.blocked(state, demand)
        if knows or why is not None:
            self._queue.forgive(state.root.id)
        if kept.changed:
            # It is asked again with what this means for it, and told.
            state.told = 0.0
            self._states.again(state)
        elif knows:
            # Things have changed, if not for the better: the reason it was given is renewed when it is old enough.
            left = state.told + self._between_reasons - self._clock.now()
            self._states.back_off(state, at_most=min(left, kept.again))
        elif why is None:
            self._states.owe(state)
        else:
            note = self.reservations.told(state) or self.reservations.in_the_way(state, demand)
            self._blocked(state, why, note)
            self._states.back_off(state, at_most=kept.again)

    def _blocked(self, state: State, verdict: Blocked, note: str) -> None:
        root = state.root
        apart = domains_problem(root, self.view) if isinstance(root, Group) else None
        if isinstance(root, Group) and apart is not None:
            self._reporter.broken(root, apart)
        else:
            self._reporter.blocked(root, verdict, note)
            self._preemption.release_partial(state, verdict)
        state.told = self._clock.now()

    def _told_lately(self, state: State) -> bool:
        """Whether it knows why it waits and nothing of its own has changed: then it need not be told again now."""
        root = state.root
        if self._clock.now() - state.told >= self._between_reasons:
            return False
        return isinstance(root, Member) or root.tally.holds or not any(leaf.holding for leaf in root.leaves())

    @property
    def _between_reasons(self) -> float:
        """How old a reason must be to be renewed: the more wait, the older."""
        return max(_SECONDS_BETWEEN_REASONS, self._queue.asleep / _REASONS_PER_SECOND)

    def _decide(self, state: State, demand: Demand, *, brief: bool) -> tuple[Placed | Evict | Blocked, bool]:
        """Ask the engine, unless the answer is known; `brief` spares it looking for remedies, if they are not known."""
        if state.victims:
            # Others are leaving for it already; no one else has to before they are gone.
            demand = replace(demand, may_preempt=False)
        self._wake()
        # What is known is known of a cluster with all reservations in place.
        known = None if self.reservations.has(state) else self._memory.recall(demand, brief=brief)
        if known is not None:
            self.metrics.remembered()
            state.awaits = known.awaits
            return known.verdict, known.brief
        if self.reservations.yields_to(demand.priority):
            with self.reservations.lifted(state):
                around = self._ask(state.root, replace(demand, may_preempt=False), self._brief)
            if isinstance(around, Placed):
                return around, brief
        with self.reservations.lifted(state, demand.priority):
            verdict = self._ask(state.root, demand, self._brief if brief else self._full)
        if isinstance(verdict, Blocked):
            awaits = self._memory.keep(demand, verdict, brief=brief)
            # Who has room kept for it is asked at every change: that is how it is seen whether anything moves.
            state.awaits = ANY_ROOM if self.reservations.has(state) else awaits
        return verdict, brief

    def _ask(self, root: Root, demand: Demand, limits: Limits) -> Placed | Evict | Blocked:
        """One decision of the engine, counted and timed."""
        steps, begin = Steps(limits.steps), time.perf_counter()
        verdict = decide(self.view, demand, self._clock.now(), limits, steps)
        if isinstance(verdict, Placed) and steps.left == limits.steps:
            self._plainly_placed = len(verdict.assignment)
        self.metrics.decided(root, verdict, time.perf_counter() - begin, limits.steps - steps.left)
        return verdict
