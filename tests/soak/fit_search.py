"""Would this obviously fit?  A small search of its own, for clusters of a dozen nodes.

It tries domains one after the other and fills nodes in order.  What it finds is a placement; what it does not find
may exist all the same, so it can only ever accuse justly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from .ledger import Group, Ledger, Pod, room_for
from .pod_terms import Surroundings, wrong_between


@dataclass(frozen=True)
class Try:
    """What is free by node, and the pods that have been given a place so far."""

    free: dict[str, dict[str, int]]
    placed: tuple[tuple[Pod, str], ...] = ()

    def having(self, pod: Pod, node: str) -> Try:
        left = {**self.free, node: dict(self.free[node])}
        _take(left[node], pod)
        return Try(left, (*self.placed, (pod, node)))


class Fitting:
    """Free room of the cluster, with everyone of a priority below `ignoring` thought away.

    Pods whose uids are `released` are to be placed anew.
    """

    def __init__(self, ledger: Ledger, ignoring: int | None = None, released: Collection[str] = ()) -> None:
        self.ledger = ledger
        self._ignoring = ignoring
        self._released = released
        self._running = [(pod, pod.node) for pod in ledger.pods.values() if self._counts(pod)]
        free = {name: dict(node.room) for name, node in ledger.nodes.items() if not node.cordoned}
        for pod, name in self._running:
            if name in free:
                _take(free[name], pod)
        self._begin = Try(free)
        self._nodes = tuple(free)

    def _counts(self, pod: Pod) -> bool:
        return (
            pod.holds and pod.uid not in self._released and (self._ignoring is None or pod.priority >= self._ignoring)
        )

    def _stays(self, pod: Pod) -> bool:
        return pod.stays and pod.uid not in self._released

    def single(self, pod: Pod) -> bool:
        return self._is_found(self._fill([pod], self._nodes, self._begin))

    def group(self, group: Group) -> bool:
        """Whether what a tree needs now can be placed beside what it already holds."""
        return self._is_found(self._place(group, self._nodes, self._begin))

    def part(self, group: Group) -> bool:
        """Whether one group of a tree can be placed, in the domains that the rest of the tree is in."""
        nodes, above = self._nodes, self.ledger.parent(group)
        while above is not None:
            nodes = tuple(self._pinned(above, nodes)) if above.key else nodes
            above = self.ledger.parent(above)
        return self._is_found(self._place(group, nodes, self._begin))

    def extra(self, pod: Pod) -> bool:
        """Whether one more pod of a group that already holds fits into the domains its mates are in."""
        nodes = self._nodes
        for group in self.ledger.chain(pod):
            nodes = tuple(n for n in nodes if n in set(self._pinned(group, nodes))) if group.key else nodes
        return self._is_found(self._fill([pod], nodes, self._begin))

    def _is_found(self, tries: Iterator[Try]) -> bool:
        """Whether one of these is right as a whole: pods placed later also satisfy the affinity of those before."""
        for one in tries:
            around = self._around(one)
            if not any(wrong_between(pod, node, around) for pod, node in one.placed):
                return True
        return False

    def _around(self, so_far: Try) -> Surroundings:
        return Surroundings((*self._running, *so_far.placed), self.ledger.nodes)

    def _place(self, group: Group, nodes: tuple[str, ...], so_far: Try) -> Iterator[Try]:
        place = self._leaf if group.kind == "PodGroup" else self._tree
        for domain in self._domains(group, nodes):
            yield from place(group, domain, so_far)

    def _domains(self, group: Group, nodes: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if not group.key:
            yield nodes
            return
        of: dict[tuple[str, ...], list[str]] = {}
        for name in self._pinned(group, nodes):
            of.setdefault(self.ledger.nodes[name].domains[group.key], []).append(name)
        for names in of.values():
            yield tuple(names)

    def _pinned(self, group: Group, nodes: tuple[str, ...]) -> list[str]:
        """The nodes that may be used given where members of the group already are."""
        members = self.ledger.members(group)
        held = [self.ledger.nodes[p.node] for p in members if self._stays(p) and p.node in self.ledger.nodes]
        domains = {node.domains[group.key] for node in held}
        return [name for name in nodes if not domains or self.ledger.nodes[name].domains[group.key] in domains]

    def _leaf(self, group: Group, nodes: tuple[str, ...], so_far: Try) -> Iterator[Try]:
        members = self.ledger.members(group)
        missing = group.minimum - sum(map(self._stays, members))
        wanted = [pod for pod in members if pod.pending or (pod.stays and pod.uid in self._released)][: max(0, missing)]
        if len(wanted) < missing:
            return
        yield from self._fill(wanted, nodes, so_far)

    def _fill(self, pods: list[Pod], nodes: tuple[str, ...], so_far: Try) -> Iterator[Try]:
        """Each pod on the first node that takes it, if there is one for all."""
        for pod in pods:
            around = self._around(so_far)
            found = next((name for name in nodes if self._takes(name, pod, so_far, around)), None)
            if found is None:
                return
            so_far = so_far.having(pod, found)
        yield so_far

    def _takes(self, name: str, pod: Pod, so_far: Try, around: Surroundings) -> bool:
        fits = self.ledger.nodes[name].accepts(pod) and _fits(so_far.free[name], pod)
        return fits and not wrong_between(pod, name, around) and not self._is_shared(pod, name, so_far)

    def _is_shared(self, pod: Pod, name: str, so_far: Try) -> bool:
        """Whether the pod or another would be in a domain that is not its own."""
        intrudes = self.ledger.intrudes
        return any(
            other is not pod and (intrudes(pod, name, other, home) or intrudes(other, home, pod, name))
            for other, home in (*self._running, *so_far.placed)
        )

    def _tree(self, group: Group, nodes: tuple[str, ...], so_far: Try) -> Iterator[Try]:
        children = self.ledger.children(group)
        yield from _some(group.minimum, children, so_far, lambda child, one: self._place(child, nodes, one))


def _some(count: int, groups: list[Group], so_far: Try, place: Callable[[Group, Try], Iterator[Try]]) -> Iterator[Try]:
    """All ways to place at least `count` of these, first come first."""
    if count <= 0:
        yield so_far
        return
    if len(groups) < count:
        return
    for one in place(groups[0], so_far):
        yield from _some(count - 1, groups[1:], one, place)
    yield from _some(count, groups[1:], so_far, place)


def _fits(room: dict[str, int], pod: Pod) -> bool:
    return all(room_for(room, resource) >= amount for resource, amount in pod.requests if amount)


def _take(room: dict[str, int], pod: Pod) -> None:
    for resource, amount in pod.requests:
        room[resource] = room_for(room, resource) - amount
