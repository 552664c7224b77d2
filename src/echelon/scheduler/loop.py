"""The cycle: take a root → look at its tree → decide → assume → bind beside the next decision.

    Translator ─touched, room, gone─► Scheduler ─► Queue ─take─► decide ─► Placed   assume, bind
                                                                     ├──► Evict    evict, hold nominations, wait
                                                                     └──► Blocked  say why, sleep until it may help

A decision and what it does to the view are one step on the event loop: nothing comes between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from ..api import meta, vocabulary
from ..api.scheme import JOBS, WORKLOADS, Object
from ..api.verbs import Verbs
from ..base.clock import Clock
from ..client.events import Recorder
from ..client.informer import Caches
from ..engine.cycle import decide
from ..engine.demand import Demand
from ..engine.verdict import Blocked, Evict, Placed
from ..engine.view import ClusterView, Limits, Options
from . import demands
from .apply import Enactor
from .hierarchy import Group, Member, Problem
from .layout import domains_problem, members_problem, problem_of
from .memory import Memory
from .queue import Queue, Rank
from .report import Reporter, key_of, kind_of
from .translate import Root, Translator

log = logging.getLogger(__name__)

#: How long nothing must have come for an incomplete tree before it says so: its objects arrive one after the other.
_INCOMPLETE_GRACE_SECONDS = 1.0
#: How many pending parts of a satisfied tree are looked at in one cycle.
_PARTS_PER_CYCLE = 8
_SOUND = Problem("")


@dataclass(frozen=True)
class Settings:
    """What a scheduler answers to and how it sees the cluster."""

    names: tuple[str, ...] = ("default-scheduler", "echelon")
    levels: tuple[str, ...] = vocabulary.DEFAULT_LEVELS
    limits: Limits = field(default_factory=Limits)


@dataclass(slots=True)
class _State:
    """What is under way for one root."""

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
    #: Which of its pending parts is next to be insisted on.
    turn: int = 0
    #: How many pods it had when it was last found incomplete, and since when it is without change.
    known: int = -1
    incomplete_since: float = 0.0


class Scheduler:
    """Places what is pending, for as long as it runs."""

    def __init__(self, verbs: Verbs, caches: Caches, clock: Clock, recorder: Recorder, settings: Settings) -> None:
        self._caches = caches
        self._clock = clock
        self._settings = settings
        self.view = ClusterView(Options(settings.levels, settings.limits))
        self._queue = Queue(clock)
        self._memory = Memory()
        self._translator = Translator(self.view, caches, clock, self)
        self._enactor = Enactor(verbs, caches, clock)
        self._reporter = Reporter(self._enactor, recorder, clock)
        self._states: dict[int, _State] = {}
        self._arrivals = 0
        #: victim -> the roots that wait for it to be gone
        self._awaited: dict[int, dict[int, None]] = {}
        self._jobs = caches.of(JOBS)
        self._workloads = caches.of(WORKLOADS)

    async def run(self) -> None:
        """Begin once all caches are filled; schedule until cancelled."""
        await self._caches.wait_synced()
        self._translator.listen()
        self._recover()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._enactor.run(), name="scheduler-writes")
                group.create_task(self._cycles(), name="scheduler-cycles")
        finally:
            self._queue.close()

    async def _cycles(self) -> None:
        while True:
            root = await self._queue.take()
            state = self._states.get(root)
            if state is not None:
                try:
                    self._cycle(state)
                except Exception:
                    # One root must not stop the others, whatever is wrong with it.
                    log.exception("scheduling %s failed", key_of(state.root))
                    self._queue.back_off(root, self._rank(state))
            # Let bindings start and events come in before the next decision.
            await asyncio.sleep(0)

    # -- what the translator hears ---------------------------------------------------------------------

    def touched(self, root: Root) -> None:
        if isinstance(root, Member) and not self._is_ours(root):
            self._end(root.id)
            return
        state = self._states.get(root.id)
        if state is None:
            state = self._states[root.id] = _State(root)
        self._queue.add(root.id, self._rank(state))

    def room(self) -> None:
        self._memory.room()
        self._queue.wake()

    def gone(self, member: Member) -> None:
        if member.group is None:
            self._end(member.id)
        else:
            state = self._states.get(self._translator.root_of(member).id)
            if state is not None:
                state.nominated.pop(member.id, None)
        for waiting in self._awaited.pop(member.id, {}):
            state = self._states.get(waiting)
            if state is not None:
                state.victims.pop(member.id, None)
                if not state.victims:
                    self._queue.add(waiting, self._rank(state))

    def displaced(self, member: Member) -> None:
        state = self._states.get(self._translator.root_of(member).id)
        if state is not None:
            self._withdraw(state)
            state.victims.clear()
            self._queue.add(state.root.id, self._rank(state))

    def _is_ours(self, pod: Member) -> bool:
        return pod.waiting and pod.scheduler in self._settings.names

    def _end(self, root: int) -> None:
        self._states.pop(root, None)
        self._queue.drop(root)

    def _rank(self, state: _State) -> Rank:
        root = state.root
        if isinstance(root, Group):
            if not state.since:
                state.since = min((m.rank[1] for leaf in root.leaves() for m in leaf.pending.values()), default="")
                state.number = self._next_number() if state.since else 0
            priority = root.policy.priority if root.policy else 0
        else:
            if not state.since:
                state.since, state.number = root.rank[1], self._next_number()
            priority = root.priority
        return (-priority, state.since, state.number, key_of(root))

    def _next_number(self) -> int:
        self._arrivals += 1
        return self._arrivals

    # -- one cycle -------------------------------------------------------------------------------------

    def _cycle(self, state: _State) -> None:
        """Everything that can be done for one root now."""
        root = state.root
        if isinstance(root, Group) and not self._translator.forest.is_root(root):
            self._withdraw(state)
            self._end(root.id)
            return
        if state.victims and state.nominated:
            return
        self._withdraw(state)
        demand = self._demand(state)
        if demand is None:
            return
        verdict = self._decide(state, demand)
        if isinstance(verdict, Placed):
            self._place(state, verdict)
        elif isinstance(verdict, Evict):
            self._make_room(state, verdict)
        else:
            self._reporter.blocked(root, verdict)
            self._release_partial(state, verdict)
            self._queue.back_off(root.id, self._rank(state))

    def _decide(self, state: _State, demand: Demand) -> Placed | Evict | Blocked:
        if state.victims:
            # Others are leaving for it already; no one else has to before they are gone.
            demand = replace(demand, may_preempt=False)
        known = self._memory.recall(demand)
        if known is not None:
            return known
        verdict = decide(self.view, demand, self._clock.now())
        if isinstance(verdict, Blocked):
            self._memory.keep(demand, verdict)
        return verdict

    def _demand(self, state: _State) -> Demand | None:
        """What to ask for, or None when there is nothing to ask now."""
        root = state.root
        if isinstance(root, Member):
            return demands.of_pod(root)
        if not self._answers(root):
            return None
        problem = self._layout(root)
        if problem is not None and problem.waiting:
            self._wait(state, root, problem)
            return None
        if problem is None and not root.tally.pending:
            self._rest(state, root)
            return None
        problem = problem or self._members_problem(root)
        if problem is not None:
            self._reporter.broken(root, problem)
            return None
        repairing = not root.tally.ready
        if repairing and not demands.repairable(root):
            self._wait(state, root, None)
            return None
        state.known = -1
        return demands.of_tree(root, self._jobs.get, repairing=repairing)

    def _answers(self, root: Group) -> bool:
        """Whether a tree is ours: it has no pods yet, or one of them names us."""
        names = self._settings.names
        empty = True
        for leaf in root.leaves():
            for member in leaf.members.values():
                if member.scheduler in names:
                    return True
                empty = False
        return empty

    def _layout(self, root: Group) -> Problem | None:
        if root.layout is None:
            root.layout = problem_of(root, self._find_workload) or _SOUND
        return None if root.layout is _SOUND else root.layout

    def _members_problem(self, root: Group) -> Problem | None:
        return members_problem(root, self._settings.names) or domains_problem(root, self.view)

    def _find_workload(self, namespace: str, name: str) -> Object | None:
        return self._workloads.get(f"{namespace}/{name}")

    def _wait(self, state: _State, root: Group, problem: Problem | None) -> None:
        """Say what is missing, once nothing has come for a moment and if anyone waits for it."""
        now, known = self._clock.now(), sum(len(leaf.members) for leaf in root.leaves())
        if known != state.known:
            state.known, state.incomplete_since = known, now
        left = state.incomplete_since + _INCOMPLETE_GRACE_SECONDS - now
        if left > 0:
            self._queue.sleep(root.id, self._rank(state), left, wants_room=False)
        elif problem is not None or known:
            self._reporter.waiting(root, problem)

    def _rest(self, state: _State, root: Group) -> None:
        """Nothing is pending."""
        state.since, state.known = "", -1
        self._queue.succeeded(root.id)
        if not state.settled and not state.flying:
            self._settle(state, root)

    # -- placed ----------------------------------------------------------------------------------------

    def _place(self, state: _State, verdict: Placed) -> None:
        if verdict.assignment:
            self._assume(state, verdict)
        root = state.root
        if isinstance(root, Group):
            if root.tally.pending:
                self._insist(state, root)
            else:
                state.since = ""

    def _assume(self, state: _State, verdict: Placed) -> None:
        """The decision takes effect in the view now, in the API beside the next decision."""
        members = self._translator.members
        state.settled = False
        state.flying += len(verdict.assignment)
        state.placed |= verdict.groups
        for number, node in verdict.assignment.items():
            self._translator.assume(members[number], node)
        for number in verdict.assignment:
            self._enactor.bind(members[number], self._binding_ended)
        self._queue.succeeded(state.root.id)
        self._reporter.placed(state.root, verdict)

    def _binding_ended(self, member: Member, trouble: str) -> None:
        root = self._translator.root_of(member)
        state = self._states.setdefault(root.id, _State(root))
        state.flying = max(0, state.flying - 1)
        if not trouble:
            self._reporter.bound(member)
            if isinstance(root, Member):
                self._end(root.id)
            elif not state.flying:
                self._settle(state, root)
            return
        log.info("binding pod %s to %s failed: %s", member.key, member.assumed, trouble)
        state.placed = frozenset()
        self._translator.forget(member)
        if member.id in self._translator.members:
            # The watch needs a moment to show why; then the member is placed again or its gang released.
            self._queue.back_off(root.id, self._rank(state))
        elif isinstance(root, Member):
            self._end(root.id)

    def _settle(self, state: _State, root: Group) -> None:
        """Bindings are through: what was placed says so, even if some of it has ended since."""
        self._reporter.settled(root, state.placed)
        state.settled, state.placed = True, frozenset()

    def _insist(self, state: _State, root: Group) -> None:
        """The minimum holds; look whether more of what is pending can be had, if need be by preemption."""
        demand = demands.of_tree(root, self._jobs.get, repairing=not root.tally.ready)
        parts = list(demands.insisting(demand))
        first = state.turn % len(parts) if parts else 0
        state.turn = first + _PARTS_PER_CYCLE
        blocked: dict[int, Blocked] = {}
        for part in (parts[first:] + parts[:first])[:_PARTS_PER_CYCLE]:
            verdict = self._decide(state, part.demand)
            if isinstance(verdict, Evict):
                self._make_room(state, verdict)
                return
            if isinstance(verdict, Placed) and verdict.assignment:
                self._assume(state, verdict)
                self._queue.add(root.id, self._rank(state))
                return
            if isinstance(verdict, Blocked):
                blocked[part.group] = verdict
        self._reporter.left_over(root, blocked)
        self._queue.back_off(root.id, self._rank(state))

    # -- preemption ------------------------------------------------------------------------------------

    def _make_room(self, state: _State, verdict: Evict) -> None:
        """Evict whole units, keep their places for the preemptor, and wait until they are gone."""
        root = state.root
        victims = [self._translator.members[pod.pod] for unit in verdict.units for pod in self.view.pods_of(unit)]
        leaving = [member for member in victims if member.place]
        for member in victims:
            if not member.place:
                self._give_way(member)
        message = f"{self._settings.names[0]}: preempting to accommodate a higher priority {kind_of(root)}"
        self._mark_groups(verdict.units, message, root)
        for member in leaving:
            state.victims[member.id] = None
            self._awaited.setdefault(member.id, {})[root.id] = None
            self._evict(member, message)
            self._reporter.evicted(member, root)
        for number, node in verdict.placement.assignment.items():
            member = self._translator.members[number]
            state.nominated[number] = member
            self._translator.nominate(member, node)
        if leaving:
            self._reporter.making_room(root, verdict, len(leaving))
        else:
            self._queue.add(root.id, self._rank(state))

    def _evict(self, member: Member, message: str) -> None:
        self._translator.evict(member)
        self._enactor.evict(member, message, lambda: member.id in self._translator.members)

    def _mark_groups(self, units: Collection[int], message: str, preemptor: Root) -> None:
        text = f"Preempted by {kind_of(preemptor)} {key_of(preemptor)}"
        for unit in units:
            group = self._translator.forest.by_id(unit)
            if group is not None:
                self._reporter.evicted_group(group, message, text)

    def _give_way(self, member: Member) -> None:
        """A place that was only kept is taken by someone more important; its root looks again."""
        state = self._states.get(self._translator.root_of(member).id)
        if state is not None:
            self._withdraw(state)
            self._queue.add(state.root.id, self._rank(state))

    def _withdraw(self, state: _State) -> None:
        """Give up the places kept for a root; whoever asks next may have them."""
        if not state.nominated:
            return
        for member in state.nominated.values():
            self._translator.withdraw(member)
        state.nominated.clear()
        self.room()

    # -- gangs that are not whole ----------------------------------------------------------------------

    def _release_partial(self, state: _State, verdict: Blocked) -> None:
        """A gang that cannot be completed gives back what it holds.

        One that never was whole holds it for nothing.  One that ran and lost members is released only if it is
        disrupted as a whole anyway and the engine found that this lets it run again.
        """
        root = state.root
        if not isinstance(root, Group) or state.flying or root.tally.holds:
            return
        if self._reporter.was_scheduled(root):
            released = {fix.group for fix in verdict.fixes if fix.kind == "release"}
            leaves = [leaf for leaf in root.leaves() if leaf.id in released and _evicted_whole(leaf)]
        else:
            leaves = list(root.leaves())
        message = f"{self._settings.names[0]}: releasing a gang that cannot be completed"
        for leaf in leaves:
            for member in list(leaf.holding.values()):
                if meta.condition_is(member.obj, "PodScheduled"):
                    self._evict(member, message)

    # -- after a restart -------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Go on with the preemptions of the process before us: finish evictions, keep places being made."""
        by_node: dict[str, list[Member]] = {}
        for member in list(self._translator.members.values()):
            if not member.node or not _marked(member):
                continue
            by_node.setdefault(member.node, []).append(member)
            if not meta.deleting(member.obj):
                condition = meta.find_condition(member.obj, "DisruptionTarget")
                self._evict(member, str((condition or {}).get("message", "")))
        for member in list(self._translator.members.values()):
            node = (member.obj.get("status") or {}).get("nominatedNodeName") or ""
            if not member.waiting or node not in by_node:
                continue
            state = self._states.get(self._translator.root_of(member).id)
            if state is not None:
                self._translator.nominate(member, node)
                state.nominated[member.id] = member
                for victim in by_node[node]:
                    state.victims[victim.id] = None
                    self._awaited.setdefault(victim.id, {})[state.root.id] = None


def _marked(member: Member) -> bool:
    found = meta.find_condition(member.obj, "DisruptionTarget")
    return found is not None and found["status"] == "True" and found.get("reason") == "PreemptionByScheduler"


def _evicted_whole(leaf: Group) -> bool:
    group: Group | None = leaf
    while group is not None:
        if group.policy is not None and group.policy.whole:
            return True
        group = group.parent
    return False
