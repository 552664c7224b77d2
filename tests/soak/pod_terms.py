"""Terms between pods as the checks read them: anti-affinity, affinity and spread, each by its definition.

Surroundings   who is where, and on which nodes: of now, or with some thought away
wrong_between  what is wrong with one pod at one node among others
Watch          every binding is right sooner or later: members of a gang arrive one after the other
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from .ledger import Ledger, Node, Pod, Term

#: A binding may rest on what was so a little earlier: watches are late in a storm.
LATE_SECONDS = 60.0


@dataclass(frozen=True)
class Surroundings:
    """Pods with the nodes they are on, and all nodes."""

    pods: tuple[tuple[Pod, str], ...]
    nodes: Mapping[str, Node]

    def domain(self, node: str, key: str) -> tuple[str, ...] | None:
        known = self.nodes.get(node)
        return known.domains[key] if known is not None else None

    def others(self, pod: Pod) -> list[tuple[Pod, str]]:
        return [(other, place) for other, place in self.pods if other.uid != pod.uid]


def wrong_between(pod: Pod, node: str, around: Surroundings) -> str:
    """What is wrong between a pod at a node and everyone else, "" if nothing; itself may be among them."""
    return too_near(pod, node, around) or alone(pod, node, around) or uneven(pod, node, around)


def _meant(term: Term, owner: Pod, other: Pod) -> bool:
    return owner.namespace == other.namespace and all(other.labels.get(k) == v for k, v in term.labels)


def too_near(pod: Pod, node: str, around: Surroundings) -> str:
    for other, place in around.others(pod):
        for having, meant in ((pod, other), (other, pod)):
            for term in having.far:
                domain = around.domain(node, term.key)
                if domain is not None and domain == around.domain(place, term.key) and _meant(term, having, meant):
                    return f"{having.name} wants no {dict(term.labels)} in its {term.key}, but {meant.name} is there"
    return ""


def alone(pod: Pod, node: str, around: Surroundings) -> str:
    for term in pod.near:
        meant = [place for other, place in around.others(pod) if _meant(term, pod, other) and place in around.nodes]
        if any(around.domain(place, term.key) == around.domain(node, term.key) for place in meant):
            continue
        if meant or not _meant(term, pod, pod):
            return f"{pod.name} wants {dict(term.labels)} in its {term.key} and is alone there"
    return ""


def uneven(pod: Pod, node: str, around: Surroundings) -> str:
    for term in pod.spread:
        counted = {name: one for name, one in around.nodes.items() if one.is_chosen_by(pod)}
        held = {one.domains[term.key]: 0 for one in counted.values()}
        for other, place in (*around.others(pod), (pod, node)):
            if place in counted and _meant(term, pod, other):
                held[counted[place].domains[term.key]] += 1
        here = held.get(around.domain(node, term.key) or (), 0)
        if here - min(held.values(), default=0) > term.skew:
            return f"{pod.name} wants {dict(term.labels)} spread over {term.key}: {sorted(held.values())}"
    return ""


class Watch:
    """Bindings whose terms have not been seen to hold yet, and who was around when they were decided."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        #: Bindings of pods with terms that were right.
        self.proved = 0
        #: uid -> when it was bound
        self._unproved: dict[str, float] = {}
        #: Pods that held a place until a while ago.
        self._left: dict[str, tuple[Pod, float]] = {}

    def changed(self, old: Pod | None, new: Pod | None, now: float) -> None:
        if old is not None and old.holds and (new is None or not new.holds):
            self._left[old.uid] = (old, now)
        if new is not None and new.holds and (old is None or not old.holds):
            self._unproved[new.uid] = now
        self.prove(now)

    def prove(self, now: float) -> dict[Hashable, str]:
        """What is still wrong."""
        self._left = {uid: (pod, at) for uid, (pod, at) in self._left.items() if now - at <= 4 * LATE_SECONDS}
        pods = {pod.uid: pod for pod in self._ledger.pods.values()} if self._unproved else {}
        wrong: dict[Hashable, str] = {}
        for uid, bound_at in list(self._unproved.items()):
            pod = pods.get(uid)
            said = "" if pod is None or not pod.stays else self._judge(pod, bound_at)
            self.proved += bool(pod is not None and not said and (pod.far or pod.near or pod.spread))
            if said:
                wrong["terms", uid] = said
            else:
                del self._unproved[uid]
        return wrong

    def _judge(self, pod: Pod, bound_at: float) -> str:
        """What no reading of the moment of its decision makes right."""
        since = bound_at - LATE_SECONDS
        if not self._is_as_then(pod, since):
            return ""
        here = [one for one in self._ledger.pods.values() if one.holds]
        gone = [one for one, at in self._left.values() if at >= since]
        sure = [one for one in here if self._is_as_then(one, since)]
        said = too_near(pod, pod.node, self._around(sure))
        if not said and all(self._is_as_then(one, since) for one in (*here, *gone)):
            said = alone(pod, pod.node, self._around(here)) and alone(pod, pod.node, self._around([*here, *gone]))
        if not said and self._ledger.changed("nodes") < since:
            readings = (here, [one for one in here if one.stays], [*here, *gone])
            wrong = [uneven(pod, pod.node, self._around(pods)) for pods in readings]
            said = wrong[0] if all(wrong) else ""
        return said

    def _around(self, pods: list[Pod]) -> Surroundings:
        return Surroundings(tuple((one, one.node) for one in pods), self._ledger.nodes)

    def _is_as_then(self, pod: Pod, since: float) -> bool:
        """Whether its labels and the place of its node have not become others meanwhile."""
        return self._ledger.changed("labels", pod.uid) < since and self._ledger.changed("place", pod.node) < since
