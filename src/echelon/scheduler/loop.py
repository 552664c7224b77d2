"""The cycle: take a root → look at its tree → decide → act → report → requeue.

    Translator ─touched, room, gone─► Scheduler ─► Queue ─take─► decide ─► Placed   assume, bind
                                                                     ├──► Evict    evict, keep places, wait
                                                                     └──► Blocked  report why, sleep until it may fit

A decision and its effect on the view are one step on the event loop: nothing comes between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from prometheus_client import CollectorRegistry

from ..api.errors import ApiError, said
from ..api.objects import vocabulary
from ..api.verbs import Verbs
from ..api.views.job_views import JobView
from ..base.clock import Clock
from ..client.events import Recorder
from ..client.informer import Caches
from ..client.topology_objects import TopologyReader
from ..engine import Blocked, ClusterView, Demand, Evict, Limits, Placed
from . import state_report
from .acting.context import ActingContext
from .acting.deciding import Deciding, Decision
from .acting.placing import Placing
from .acting.preemption import Preemption
from .acting.recovery import Recovery
from .acting.reservation import Patience, Reservations
from .asking.readiness import Readiness
from .asking.tree_validation import domains_problem
from .intake.exclusive_terms import with_ownership
from .intake.group_tree import GroupNode, Member, Root
from .intake.level_watch import LevelWatch
from .intake.pod_affinity import with_identities
from .intake.rebuild_check import differences
from .intake.translate import Translator
from .queueing.place_in_line import PlaceInLine
from .queueing.queue import ANY_ROOM
from .queueing.root_phases import Event, Phase
from .queueing.root_state import RootState, RootStates
from .reporting.decision_log import DecisionLog
from .reporting.idle_devices import IdleDevices, is_extended
from .reporting.incomplete_words import IncompleteWords
from .reporting.metrics import Backlog, Metrics
from .reporting.report import Reporter
from .reporting.topology_report import TopologyReport
from .reporting.writes import ApiWriter

log = logging.getLogger(__name__)

#: A blocked root that has not changed itself reports a new reason at most this often: the search for fixes costs most
#: in a decision, and all blocked roots may be decided when a pod ends.
_SECONDS_BETWEEN_REASONS = 10.0
#: Of many blocked roots this many report a new reason in a second.
_REASONS_PER_SECOND = 5.0
#: While more bindings are in line than are sent at a time, roots that need no search are decided one after the other
#: for this many pods before anything else has its turn: that costs less than going back and forth between decisions,
#: answers and events.
_PODS_IN_A_ROW = 192
#: Phases of roots that could be placed if there were room.
_WAITING = (Phase.QUEUED, Phase.BLOCKED, Phase.UNEXPLAINED, Phase.PREEMPTING, Phase.RETRYING)
#: How often Topology objects are looked for, and how often nodes that contradict the levels are.
_SECONDS_BETWEEN_TOPOLOGIES = 30.0
_SECONDS_BETWEEN_TOPOLOGY_REPORTS = 5.0


@dataclass(frozen=True)
class Settings:
    """The names a scheduler answers to and how it decides."""

    names: tuple[str, ...] = ("default-scheduler", "echelon")
    #: Topology keys from wide to narrow, the hostname last; None: as Topology objects or labels of nodes say.
    levels: tuple[str, ...] | None = None
    #: A decision holds up everything else in the process: about a second at the very worst.
    limits: Limits = field(default_factory=lambda: Limits(steps=20_000))
    #: When capacity is reserved for starving roots.
    patience: Patience = field(default_factory=Patience)


class Scheduler:
    """Places pending pods for as long as it runs."""

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
        self.view = ClusterView(settings.levels or vocabulary.DEFAULT_LEVELS)
        self._level_watch = LevelWatch(settings.levels, caches)
        self._topology_reader = TopologyReader(caches.verbs)
        self._states = RootStates(clock, PlaceInLine(caches).since)
        self._queue = self._states.queue
        self.metrics = Metrics(registry or CollectorRegistry())
        self.metrics.registry.register(
            Backlog(settings.names, self._states.all, self._queue, clock.now, lambda: self.reservations.ages())
        )
        self._idle = IdleDevices(self._free_devices, self._wanted_devices, clock.now)
        self.metrics.registry.register(self._idle)
        self._translator = Translator(self.view, caches, clock, self)
        self._writer = ApiWriter(verbs, caches, clock, self.metrics)
        recorder.give_way(self._writer.let_events_pass)
        self._topology_report = TopologyReport(recorder, caches, self.metrics.registry)
        self._reporter = Reporter(self._writer, recorder, clock, IncompleteWords(caches.views(JobView).get))
        self._decisions = DecisionLog(clock.now)
        context = ActingContext(
            self._translator, self._states, self._reporter, self.metrics, self._decisions, clock.now, self.room
        )
        self._placing = Placing(context, self._writer, clock, self._end)
        self._readiness = Readiness(settings.names, caches, clock, self._states, self._reporter, self._placing.settle)
        self._preemption = Preemption(settings.names, context, self._writer)
        self.reservations = Reservations(settings.patience, replace(settings.limits, fixes=0), context, clock)
        self._deciding = Deciding(self._translator, settings.limits, self.reservations, self.metrics, clock)
        self._recovery = Recovery(context, self._preemption, self._deciding, clock, self._demand_after)
        self._following = self._leading = False
        #: Whether capacity has appeared for which no root was woken yet.
        self._room = False
        #: Whether levels, or nodes that may contradict them, have changed since the last report.
        self._levels_unreported = False

    def follow(self) -> None:
        """Keep view and forest up to date from now on, also while another process leads.  The caches must be filled."""
        if not self._following:
            self._following = True
            self._level_watch.listen()
            self._translator.listen()
            log.debug("following %d nodes", len(self.view.node_names()))

    async def run(self) -> None:
        """Begin once all caches are filled; schedule until cancelled."""
        await self._caches.wait_synced()
        self.follow()
        await self._read_topology()
        self._leading = True
        for root in self._translator.roots():
            self.touched(root)
        self._preemption.recover()
        self.reservations.recover()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._writer.run(), name="scheduler-writes")
                group.create_task(self._cycles(), name="scheduler-cycles")
                group.create_task(self._follow_topology(), name="scheduler-topology")
        finally:
            self._queue.close()

    @property
    def at_rest(self) -> bool:
        """Whether there is nothing to decide and nothing to write before an event comes or time passes."""
        waiting = len(self._queue) + self._queue.reasons_owed
        return self._leading and not waiting and not self._room and self._writer.at_rest

    def state(self, most: int) -> dict[str, object]:
        """What is under way, for people; of the roots that wait at most `most`."""
        now = self._clock.now()
        return {
            "names": list(self._settings.names),
            "leading": self._leading,
            "levels": list(self.view.levels),
            "nodes": len(self.view.node_names()),
            "podsOnNodes": self.view.running_count,
            "queue": {
                "active": len(self._queue),
                "asleep": self._queue.asleep,
                "reasonsOwed": self._queue.reasons_owed,
                "writesAtRest": self._writer.at_rest,
            },
            "reservations": state_report.reservations(self.reservations.held(), now),
            **state_report.waiting_roots(self._states.all(), now, most),
        }

    def inconsistencies(self) -> list[str]:
        """Where the view differs from one rebuilt from the caches, which blocked demands fit, which phases are wrong.

        Empty before it follows the caches.
        """
        if not self._following:
            return []
        missed = [] if self._room else self._deciding.untrue()
        return [*differences(self._translator, self._caches, self._clock), *missed, *self._states.problems()]

    # -- the cycle -------------------------------------------------------------------------------------

    async def _cycles(self) -> None:
        in_a_row = 0
        while True:
            # 1. Take the next root.  Capacity that has appeared wakes roots first.
            number, explain = await self._queue.take(self._wake_all)
            self._deciding.placed_at_once = 0
            state = self._states.get(number)
            if state is not None:
                try:
                    self._states.taken(state)
                    self._cycle(state, explain)
                    if state.phase is Phase.DECIDING:
                        self._states.left_undecided(state)
                except Exception as error:
                    # One root must not stop the others, whatever is wrong with it.
                    root = state.root
                    self._caches.set_aside.report("scheduler", error, root.resource, root.obj, root.path)
                    self.metrics.attempted(state.root, "error", state.attempt_seconds(self._clock.now()))
                    self._states.failed(state)
            self._idle.sample()
            # 7. Let bindings start and events come in before the next decision.
            placed = self._deciding.placed_at_once
            in_a_row += placed
            if in_a_row >= _PODS_IN_A_ROW or not (placed and self._writer.has_plenty):
                in_a_row = 0
                await asyncio.sleep(0)

    def _cycle(self, state: RootState, explain: bool) -> None:
        """Everything that can be done for one root now; `explain`: it is its turn to get a reason."""
        # 2. Look at its tree: a root that is gone, incomplete, invalid or already placed has its new phase after this.
        demand = self._demand(state)
        if demand is None:
            return
        if state.preempting is not None and state.preempting.nominated:
            self._look_elsewhere(state, demand)
            return
        # 3. Decide on the view as it is now.  Fixes are looked for only if there is time and the reason is old.
        state.begun = self._clock.now()
        knows = self._explained_lately(state)
        self._wake()
        decision = self._deciding.decide(state, demand, brief=knows or (len(self._queue) > 0 and not explain))
        verdict = decision.verdict
        if isinstance(verdict, Placed):
            # 4a. Assume the pods in the view; bindings go out beside the next decision.
            self._queue.cancel_reason(state.root.id)
            self.reservations.placed(state, verdict.assignment.values())
            self._placing.place(state, verdict)
        elif isinstance(verdict, Evict):
            # 4b. Evict the victims and keep their places.
            self._queue.cancel_reason(state.root.id)
            self._preempt(state, demand, verdict)
            self.metrics.attempted(state.root, "waiting_on_preemption", state.attempt_seconds(self._clock.now()))
        else:
            # 5. Report why it is blocked, and 6. put it to sleep until it may fit.
            self.metrics.attempted(state.root, "unschedulable", state.attempt_seconds(self._clock.now()))
            self._stay(state, demand, decision, knows)

    def _demand(self, state: RootState) -> Demand | None:
        """What the engine is asked for a root; None if there is nothing to ask."""
        root = state.root
        if not (self._translator.forest.is_root(root) if isinstance(root, GroupNode) else self._is_ours(root)):
            self._retire(root)
            return None
        if state.preempting is not None and not state.preempting.victims:
            self._preemption.withdraw(state)
        left = self._recovery.awaits_pods(state)
        if left > 0 and isinstance(root, GroupNode):
            self._reporter.waiting(root, None)
            self._states.incomplete(state, left)
            demand = None
        else:
            demand = self._readiness.demand(state)
        if demand is None:
            self._queue.cancel_reason(root.id)
            self.reservations.end(root.id)
            return None
        members, pod_index = self._translator.members, self.view.pod_index
        return with_identities(with_ownership(demand, members, pod_index), members, pod_index)

    def _demand_after(self, root: GroupNode, released: Collection[int]) -> Demand:
        demand = self._readiness.demand_after(root, released)
        return with_identities(demand, self._translator.members, self.view.pod_index)

    def _preempt(self, state: RootState, demand: Demand, verdict: Evict) -> None:
        """Reuse victims that the previous process already marked before choosing new ones."""
        with self._preemption.without_orphans() as any_leave:
            found = self._deciding.place(state.root, demand) if any_leave else None
        if isinstance(found, Placed) and found.assignment:
            self.reservations.placed(state, found.assignment.values())
            self._preemption.inherit(state, found)
        else:
            self.reservations.placed(state, verdict.placement.assignment.values())
            self._preemption.begin(state, verdict)

    def _look_elsewhere(self, state: RootState, demand: Demand) -> None:
        """Its victims may take long to leave: if it fits without them by now, it is placed there."""
        with self._preemption.lifted(state):
            verdict = self._deciding.place(state.root, demand)
        if isinstance(verdict, Placed) and verdict.assignment:
            self._preemption.withdraw(state)
            self.reservations.placed(state, verdict.assignment.values())
            self._placing.place(state, verdict)
        else:
            if isinstance(state.root, GroupNode):
                self._reporter.meanwhile(state.root)
            self._states.preempting(state)

    def _stay(self, state: RootState, demand: Demand, decision: Decision, knows: bool) -> None:
        """It cannot be placed now: make a reservation if it starves, and report why unless it `knows`."""
        verdict, root = decision.verdict, state.root
        assert isinstance(verdict, Blocked)
        if isinstance(root, GroupNode) and root.counts.holds and not state.settled and state.binding is None:
            # Its groups were made anew under pods that run; only more of it is blocked.
            self._placing.settle(state, root)
        if self._recovery.is_broken(state):
            # What it awaits is room where the rest of it runs; as a whole it may fit anywhere.
            decision = decision._replace(awaits=ANY_ROOM)
            if self._recovery.release(state, demand, verdict):
                self._queue.cancel_reason(state.root.id)
                self._states.blocked(state)
                return
        if self._placing.has_idle_devices(root):
            # Devices that it got before it could be bound are not where it fits now.
            self._queue.cancel_reason(root.id)
            self._states.blocked(state)
            self._placing.release_devices(root)
            return
        kept = self.reservations.blocked(state, demand)
        if knows or not decision.brief:
            self._queue.cancel_reason(state.root.id)
        if kept.changed:
            # It is decided again with the new reservations, and reports them.
            state.explained_at = 0.0
            self._states.again(state, Event.RESERVED)
        elif decision.brief and not knows:
            self._states.unexplained(state, decision.awaits)
        elif decision.brief:
            # It still does not fit; the reason that it reported is renewed when it is old enough.
            left = state.explained_at + self._between_reasons - self._clock.now()
            self._states.blocked(state, decision.awaits, min(left, kept.again))
        else:
            self._report(state, demand, verdict)
            self._states.blocked(state, decision.awaits, kept.again)

    def _report(self, state: RootState, demand: Demand, verdict: Blocked) -> None:
        note = self.reservations.summary(state) or self.reservations.in_the_way(state, demand)
        root = state.root
        apart = domains_problem(root, self.view) if isinstance(root, GroupNode) else None
        if isinstance(root, GroupNode) and apart is not None:
            self._reporter.broken(root, apart)
        else:
            asked = {leaf.id for leaf in demand.leaves() if leaf.classes}
            said = self._reporter.blocked(root, verdict, note, asked, self._deciding.part_by_part(state, demand))
            if said:
                self._decisions.blocked(state, said)
        state.explained_at = self._clock.now()

    def _explained_lately(self, state: RootState) -> bool:
        """Whether it reported why it is blocked and has not changed itself: then it need not report again now."""
        return self._clock.now() - state.explained_at < self._between_reasons

    @property
    def _between_reasons(self) -> float:
        """The age at which a reason is renewed: the more roots sleep, the older."""
        return max(_SECONDS_BETWEEN_REASONS, self._queue.asleep / _REASONS_PER_SECOND)

    # -- what is idle meanwhile ------------------------------------------------------------------------

    def _free_devices(self) -> dict[str, int]:
        with self.reservations.all_lifted():
            return self.view.free_in_all()

    def _wanted_devices(self) -> set[str]:
        """The devices that groups ask for which could be tried and are not placed; of each group, of its first pod."""
        if not self._leading:
            return set()
        waiting = (one.root for one in self._states.all() if one.phase in _WAITING and isinstance(one.root, GroupNode))
        first = (next(iter(leaf.pending.values()), None) for root in waiting for leaf in root.leaves())
        return {
            name
            for pod in first
            if pod is not None and pod.scheduler in self._settings.names
            for name, amount in pod.shape.requests
            if amount and is_extended(name)
        }

    # -- topology levels -------------------------------------------------------------------------------

    async def _follow_topology(self) -> None:
        """Look for Topology objects from time to time, and report on levels some seconds after they changed."""
        read_at = self._clock.now()
        while True:
            if self._levels_unreported or (self._level_watch.moved and self._topology_report.names_nodes):
                self._levels_unreported = False
                self._topology_report.chosen(self._level_watch.levels())
            await self._clock.sleep(_SECONDS_BETWEEN_TOPOLOGY_REPORTS)
            if self._clock.now() - read_at >= _SECONDS_BETWEEN_TOPOLOGIES:
                read_at = self._clock.now()
                await self._read_topology()

    async def _read_topology(self) -> None:
        """Look which Topology objects there are; on failure those known before stand."""
        if self._level_watch.is_configured:
            return
        try:
            self._level_watch.set_objects(await self._topology_reader.read())
        except (ApiError, OSError, TimeoutError) as error:
            log.warning("reading Topology objects: %s", said(error))
        if self._level_watch.changed and self._leading:
            self.room()

    def _relevel(self) -> None:
        """Take the levels for the nodes that there are now; what was blocked is decided again if they are others."""
        keys = self._level_watch.keys()
        self._levels_unreported = True
        if keys != self.view.levels:
            self.view.relevel(keys)
            self.reservations.forget()
            self._queue.wake(self._deciding.forget())

    # -- what the translator reports -------------------------------------------------------------------

    def touched(self, root: Root) -> None:
        if not self._leading:
            return
        if isinstance(root, GroupNode) or self._is_ours(root):
            state = self._states.of(root)
            state.explained_at = 0.0
            if isinstance(root, GroupNode) and root.layout is None:
                # Its groups are not those that reported.
                state.settled = False
            self._states.again(state, Event.CHANGED)
        elif not root.assumed:
            # While it is being bound, the answer to its binding ends it.
            self._retire(root)

    def room(self) -> None:
        """Capacity may have appeared.  Events come in bursts: roots are woken before the next one is taken."""
        self.reservations.forget()
        self._room = True
        self._queue.stir()

    def _wake(self) -> None:
        """Wake the roots that new capacity may help."""
        if not self._room:
            return
        self._room = False
        try:
            void = self._deciding.room(self._queue.is_awaited)
        except Exception:
            log.exception("checking certificates failed; all blocked roots are woken")
            void = self._deciding.forget()
        self._queue.wake(void)

    def _wake_all(self) -> None:
        """Before a root is taken: the view gets the levels that nodes have now, then roots are woken."""
        if self._level_watch.changed:
            self._relevel()
        self._wake()

    def gone(self, member: Member) -> None:
        if member.group is None:
            self._end(member)
        else:
            state = self._states.get(self._translator.root_of(member).id)
            if state is not None:
                self._preemption.member_gone(state, member)
                if state.binding is not None:
                    # It goes before the last of its group is bound: its groups report only what holds then.
                    state.binding.groups = frozenset()
        self._preemption.gone(member)

    def displaced(self, member: Member) -> None:
        state = self._states.get(self._translator.root_of(member).id)
        if state is not None:
            self.reservations.end(state.root.id)
            self._preemption.displaced(state)

    def _is_ours(self, pod: Member) -> bool:
        return pod.waiting and pod.scheduler in self._settings.names

    def _retire(self, root: Root) -> None:
        """Nothing of it is pending, though it may still exist: give back the places kept for it."""
        state = self._states.get(root.id)
        if state is not None:
            self._preemption.withdraw(state)
        self._end(root)

    def _end(self, root: Root) -> None:
        """Nothing is left to do for it."""
        self.reservations.end(root.id)
        self._states.end(root.id)
