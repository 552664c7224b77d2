"""Asking the engine about one root, with what is already known and with reservations taken into account.

loop ─► Deciding.decide ─► BlockedDemands.recall   an equal demand is known to be blocked
                      └──► engine.decide           around reservations first, then into those of lower priority
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from ...api.views.placement_views import NodeSelector
from ...base.clock import Clock
from ...engine import Blocked, Demand, Evict, Limits, Placed, Steps, decide
from ..asking import demands
from ..intake.group_tree import GroupNode, Root
from ..intake.pod_shape import node_terms
from ..intake.translate import Translator
from ..queueing.blocked_demands import BlockedDemands
from ..queueing.queue import ANY_ROOM
from ..queueing.root_state import RootState
from ..reporting.metrics import Metrics
from ..volumes.reach_index import reached
from .reservation import Reservations

#: Parts of a tree that are asked for by themselves to say why they wait; the search for fixes costs most in a decision.
_PARTS_ASKED = 8
#: The most nodes that a decision leaves out because their devices cannot be chosen together.
_NODES_LEFT_OUT = 16


class Decision(NamedTuple):
    verdict: Placed | Evict | Blocked
    #: Whether the engine did not look for fixes.
    brief: bool
    #: What a blocked root has to await.
    awaits: int = ANY_ROOM


class Deciding:
    """Decisions of the engine, counted and timed."""

    def __init__(
        self, translator: Translator, limits: Limits, reservations: Reservations, metrics: Metrics, clock: Clock
    ) -> None:
        view = self._view = translator.view
        #: With and without the search for fixes, which costs most in a decision.
        self._full, self._brief = limits, replace(limits, fixes=0)
        self._reservations = reservations
        self._metrics = metrics
        self._clock = clock
        self._translator = translator
        #: Whether the last answer left out nodes whose devices cannot be chosen together.
        self._lacked_devices = False
        self._blocked = BlockedDemands(view)
        #: The pods that the last decision placed without search; 0 if it searched or placed none.
        self.placed_at_once = 0
        #: What the engine took since a decision began.
        self.seconds = 0.0

    def decide(self, state: RootState, demand: Demand, *, brief: bool) -> Decision:
        """Ask the engine, unless the answer is known; `brief` without looking for fixes that are not known."""
        if state.preempting is not None and state.preempting.victims:
            # Pods are leaving for it already: no others are evicted before those are gone.
            demand = replace(demand, may_preempt=False)
        # Known verdicts are true for the view with all reservations in place.
        has_reservation = self._reservations.has(state)
        known = None if has_reservation else self._blocked.recall(demand, brief=brief)
        if known is not None:
            self._metrics.remembered()
            return Decision(known.verdict, known.brief, known.awaits)
        self.seconds = 0.0
        if self._reservations.yields_to(demand.priority):
            with self._reservations.lifted(state):
                around = self.place(state.root, demand)
            if isinstance(around, Placed):
                state.decided_in = self.seconds
                return Decision(around, brief)
        with self._reservations.lifted(state, demand.priority):
            verdict = self._ask(state.root, demand, self._brief if brief else self._full)
        state.decided_in = self.seconds
        if not isinstance(verdict, Blocked):
            return Decision(verdict, brief)
        if self._lacked_devices:
            return Decision(verdict, brief)  # It is not true of the demand as it is.
        awaits = self._blocked.keep(demand, verdict, brief=brief)
        # A root with a reservation is decided at every change: that shows whether awaited pods end.
        return Decision(verdict, brief, ANY_ROOM if has_reservation else awaits)

    def place(self, root: Root, demand: Demand) -> Placed | Evict | Blocked:
        """Ask for a placement without evictions."""
        return self._ask(root, replace(demand, may_preempt=False), self._brief)

    def would_place(self, state: RootState, demand: Demand) -> Placed | None:
        """Where a root would go in the view as it is for a trial, if need be by preemption; None if nowhere."""
        with self._reservations.lifted(state, demand.priority):
            verdict = self._ask(state.root, demand, self._brief)
        self.placed_at_once = 0
        if isinstance(verdict, Evict):
            return verdict.placement
        return verdict if isinstance(verdict, Placed) else None

    def part_by_part(self, state: RootState, demand: Demand) -> dict[int, Blocked]:
        """Why each part of a blocked tree waits that the tree can go on without, by the ids of its groups.

        What helps one of them does not help the others, so each is asked for by itself.
        """
        found: dict[int, Blocked] = {}
        if not isinstance(state.root, GroupNode) or self._reservations.has(state):
            return found
        parts = demands.waiting_parts(state.root, demand)
        for part in parts[:_PARTS_ASKED] if len(parts) > 1 else ():
            own = demands.alone(demand, part)
            known = self._blocked.recall(own, brief=False) if own is not None else None
            if known is not None:
                found |= {group.id: known.verdict for group in part.subtree()}
            elif own is not None:
                with self._reservations.lifted(state, own.priority):
                    verdict = self._ask(state.root, own, self._full)
                if isinstance(verdict, Blocked):
                    if not self._lacked_devices:
                        self._blocked.keep(own, verdict, brief=False)
                    found |= {group.id: verdict for group in part.subtree()}
        self.placed_at_once = 0
        return found

    def room(self, is_awaited: Callable[[int], bool]) -> list[int]:
        """Capacity has appeared; returns the certificates that are void now."""
        return self._blocked.room(is_awaited)

    def forget(self) -> list[int]:
        """Drop all known verdicts; returns their certificates."""
        return self._blocked.forget()

    def untrue(self) -> list[str]:
        """Demands that are held to be blocked and fit; there should be none."""
        now = self._clock.now()
        return self._blocked.untrue(lambda demand: decide(self._view, demand, now, self._brief))

    def _with_shared_devices(self, demand: Demand, limits: Limits, steps: Steps) -> Placed | Evict | Blocked:
        """Ask for a placement; devices that pods share, or that several nodes reach, are chosen before."""
        members, claims = self._translator.members, self._translator.claims
        if not claims.in_use:
            return self._with_devices(demand, limits, steps)
        claims.forget_offer()
        waiting = [number for leaf in demand.leaves() for one in leaf.classes for number in one.members]
        open_claims = {number: keys for number in waiting if (keys := claims.open_claims(members[number].uid))}
        if not open_claims:
            return self._with_devices(demand, limits, steps)
        blocked: Blocked | None = None
        for offer in claims.offers([members[number].uid for number in open_claims], self._reaches):
            verdict = self._with_devices(demands.equipped(demand, open_claims, offer), limits, steps)
            if not isinstance(verdict, Blocked):
                return verdict
            blocked = blocked or verdict
        blocked_alone = blocked or self._with_devices(demand, limits, steps)
        self._lacked_devices = True
        return blocked_alone

    def _reaches(self, selector: NodeSelector, name: str) -> bool:
        node = self._view.node(name)
        terms, _ = node_terms(selector, "")
        return node is not None and reached(terms, node.name, node.labels)

    def _with_devices(self, demand: Demand, limits: Limits, steps: Steps) -> Placed | Evict | Blocked:
        """Ask for a placement for which there are devices and volumes.

        Amounts may promise more than can be chosen together.  A node that has not the devices or volumes for the pods
        that would go there is left out, and the engine is asked again.
        """
        self._lacked_devices = False
        for _ in range(_NODES_LEFT_OUT):
            verdict = decide(self._view, demand, self._clock.now(), limits, steps)
            node = ""
            if isinstance(verdict, Placed):
                node = self._lacking_devices(verdict) or self._lacking_volumes(verdict)
            if not node:
                return verdict
            self._lacked_devices = True
            assert isinstance(verdict, Placed)
            demand = demands.avoiding(demand, node, [one for one, place in verdict.assignment.items() if place == node])
        everyone = [number for leaf in demand.leaves() for one in leaf.classes for number in one.members]
        return decide(self._view, demands.avoiding(demand, "", everyone), self._clock.now(), limits, steps)

    def _lacking_devices(self, verdict: Placed) -> str:
        """The first node that has not the devices for the pods that would go there, "" if all have."""
        members, claims = self._translator.members, self._translator.claims
        if not claims.in_use:
            return ""
        found = claims.plan({members[number].uid: node for number, node in verdict.assignment.items()})
        return found if isinstance(found, str) else ""

    def _lacking_volumes(self, verdict: Placed) -> str:
        """The first node that lacks a volume for the pods that would go there, "" if none does."""
        members, view = self._translator.members, self._view
        if not self._translator.volumes.in_use:
            return ""
        places = {members[number].uid: view.node(node) for number, node in verdict.assignment.items()}
        found = self._translator.volumes.plan({uid: node for uid, node in places.items() if node is not None})
        return found if isinstance(found, str) else ""

    def _ask(self, root: Root, demand: Demand, limits: Limits) -> Placed | Evict | Blocked:
        steps, begin = Steps(limits.steps), time.perf_counter()
        verdict = self._with_shared_devices(demand, limits, steps)
        if isinstance(verdict, Placed) and steps.left == limits.steps:
            self.placed_at_once = len(verdict.assignment)
        seconds = time.perf_counter() - begin
        self.seconds += seconds
        self._metrics.decided(root, verdict, seconds, limits.steps - steps.left)
        return verdict
