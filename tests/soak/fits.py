"""Would this obviously fit?  A small search of its own, for clusters of a dozen nodes.

It tries domains one after the other and fills nodes in order.  What it finds is a placement; what it does not find
may exist all the same, so it can only ever accuse justly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .company import Surroundings, wrong_between
from .ledger import Group, Ledger, Node, Pod, room_for

Free = dict[str, dict[str, int]]


class Fitting:
    """Free room of the cluster, with everyone of a priority below `ignoring` thought away."""

    def __init__(self, ledger: Ledger, ignoring: int | None = None) -> None:
        self.ledger = ledger
        self._ignoring = ignoring
        self._stays = {pod.uid for pod in ledger.pods.values() if self._counts(pod)}
        self.free: Free = {name: dict(node.room) for name, node in ledger.nodes.items() if not node.cordoned}
        for pod in ledger.pods.values():
            if pod.uid in self._stays and pod.node in self.free:
                _take(self.free[pod.node], pod, 1)

    def _counts(self, pod: Pod) -> bool:
        return pod.holds and (self._ignoring is None or pod.priority >= self._ignoring)

    def single(self, pod: Pod) -> bool:
        return self._fill([pod], tuple(self.free), self.free) is not None

    def group(self, group: Group) -> bool:
        """Whether what a tree needs now can be placed beside what it already holds."""
        return next(self._place(group, tuple(self.free), self.free), None) is not None

    def extra(self, pod: Pod) -> bool:
        """Whether one more pod of a group that already holds fits into the domains its mates are in."""
        nodes = tuple(self.free)
        for group in self.ledger.chain(pod):
            nodes = tuple(n for n in nodes if n in set(self._pinned(group, nodes))) if group.key else nodes
        leaf = self.ledger.leaf(pod)
        if leaf is not None and leaf.exclusive:
            nodes = tuple(n for n in nodes if self._is_free_for(leaf, self.ledger.nodes[n]))
        return self._fill([pod], nodes, self.free) is not None

    def _place(self, group: Group, nodes: tuple[str, ...], free: Free) -> Iterator[Free]:
        for domain in self._domains(group, nodes):
            yield from self._leaf(group, domain, free) if group.kind == "PodGroup" else self._tree(group, domain, free)

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
        held = [
            self.ledger.nodes[p.node] for p in self.ledger.members(group) if p.stays and p.node in self.ledger.nodes
        ]
        domains = {node.domains[group.key] for node in held}
        return [name for name in nodes if not domains or self.ledger.nodes[name].domains[group.key] in domains]

    def _leaf(self, group: Group, nodes: tuple[str, ...], free: Free) -> Iterator[Free]:
        members = self.ledger.members(group)
        missing = group.minimum - sum(pod.stays for pod in members)
        wanted = [pod for pod in members if pod.pending][: max(0, missing)]
        if len(wanted) < missing:
            return
        if group.exclusive:
            nodes = tuple(name for name in nodes if self._is_free_for(group, self.ledger.nodes[name]))
        room = self._fill(wanted, nodes, free)
        if room is not None:
            yield room

    def _fill(self, pods: list[Pod], nodes: tuple[str, ...], free: Free) -> Free | None:
        """Each pod on the first node that takes it; what is left, if all have found one and mind nobody."""
        room = {name: dict(amounts) for name, amounts in free.items()}
        around = [(pod, pod.node) for pod in self.ledger.pods.values() if pod.uid in self._stays]
        running = len(around)
        for pod in pods:
            found = next((name for name in nodes if self._takes(name, room[name], pod, around)), None)
            if found is None:
                return None
            _take(room[found], pod, 1)
            around.append((pod, found))
        whole = Surroundings(tuple(around), self.ledger.nodes)
        return None if any(wrong_between(pod, node, whole) for pod, node in around[running:]) else room

    def _takes(self, name: str, room: dict[str, int], pod: Pod, around: list[tuple[Pod, str]]) -> bool:
        if not self.ledger.nodes[name].accepts(pod) or not _fits(room, pod):
            return False
        return not wrong_between(pod, name, Surroundings(tuple(around), self.ledger.nodes))

    def _is_free_for(self, group: Group, node: Node) -> bool:
        for pod in self.ledger.pods.values():
            other = self.ledger.leaf(pod)
            if (
                other is None
                or other.uid == group.uid
                or pod.uid not in self._stays
                or pod.node not in self.ledger.nodes
            ):
                continue
            rival = (other.exclusive, other.priority) == (group.exclusive, group.priority)
            if rival and self.ledger.nodes[pod.node].domains[group.exclusive] == node.domains[group.exclusive]:
                return False
        return True

    def _tree(self, group: Group, nodes: tuple[str, ...], free: Free) -> Iterator[Free]:
        children = self.ledger.children(group)
        yield from _some(group.minimum, children, free, lambda child, room: self._place(child, nodes, room))


def _some(
    count: int, groups: list[Group], free: Free, place: Callable[[Group, Free], Iterator[Free]]
) -> Iterator[Free]:
    """All ways to place at least `count` of these, first come first."""
    if count <= 0:
        yield free
        return
    if len(groups) < count:
        return
    for room in place(groups[0], free):
        yield from _some(count - 1, groups[1:], room, place)
    yield from _some(count, groups[1:], free, place)


def _fits(room: dict[str, int], pod: Pod) -> bool:
    return all(room_for(room, resource) >= amount for resource, amount in pod.requests)


def _take(room: dict[str, int], pod: Pod, times: int) -> None:
    for resource, amount in pod.requests:
        room[resource] = room_for(room, resource) - amount * times
