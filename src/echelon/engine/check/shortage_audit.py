"""Audit of explanations by the judge: every number of a blocked verdict, counted again.

Numbers that are exact by definition must be equal (needs, members, excluded nodes, slots for equal pods).  Numbers that
a search found (how many children fit together) must lie between what counting allows and what `exhaustive` finds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from ..cluster.view import Node
from ..records.demand import LARGEST, Composite, Demand, Group, Leaf, Shape, Taint, given
from ..records.reasons import Reason, ReasonKind
from ..records.verdict import Blocked, DomainCount, Shortage, UnitName
from .counting_bounds import CountingBounds, NodeSet, leaves_below
from .exhaustive import MOST_NODES, fits
from .facts import (
    Facts,
    Identity,
    bound_nodes,
    covered,
    equipped,
    groups_of,
    hard_taints,
    in_the_way,
    keys,
    near,
    reached,
    supply,
)

#: Steps of one exhaustive search.
STEPS = 300


def shortage_problems(facts: Facts, demand: Demand, blocked: Blocked) -> Iterator[str]:
    """What is wrong with the numbers of a blocked verdict."""
    groups = {group.id: group for group in groups_of(demand.root)}
    stated = Counter(shortage.group for shortage in blocked.shortages)
    for missing in sorted(groups.keys() - stated.keys()):
        yield f"group {missing} has no shortage"
    for group_id, number in stated.items():
        if number > 1:
            yield f"group {group_id} has {number} shortages"
    counting, right = CountingBounds(facts, demand), dict[object, list[Shortage]]()
    for shortage in blocked.shortages:
        group = groups.get(shortage.group)
        if group is None:
            yield f"group {shortage.group} is not in the tree"
            continue
        # Equal shortages of equal groups are audited once.
        known, nameless = right.setdefault(counting.kind(group), []), replace(shortage, group=-1)
        if nameless not in known:
            found = list(_Shortage(facts, counting, group, shortage).problems())
            yield from (f"group {group.id}: {text}" for text in found)
            if not found:
                known.append(nameless)


class _Shortage:
    """One shortage, as `stated` by the verdict, against the facts."""

    def __init__(self, facts: Facts, counting: CountingBounds, group: Group, stated: Shortage) -> None:
        self.facts, self.counting, self.group, self.stated = facts, counting, group, stated
        self.bound = len(group.bound) if isinstance(group, Leaf) else 0

    def problems(self) -> Iterator[str]:
        stated = self.stated
        if stated.need != self._need():
            yield f"needs {self._need()}, not {stated.need}"
        if stated.present != self._present() or stated.of_groups != isinstance(self.group, Composite):
            yield f"has {self._present()} members, not {stated.present}"
        best = max((count.have for count in stated.tried), default=self.bound)
        if stated.have != best:
            yield f"the best domain has {best}, not {stated.have}"
        if not self.facts.nodes:
            return
        if stated.domains_tried < len(stated.tried):
            yield f"{stated.domains_tried} domains were tried but {len(stated.tried)} are stated"
        yield from self._scope()
        for count in stated.tried:
            yield from self._count(count)
        if isinstance(self.group, Leaf):
            yield from self._exclusions(self.group)

    def _need(self) -> int:
        if isinstance(self.group, Composite):
            return self.group.min_groups
        if supply(self.group) and self.bound >= self.group.min_count and self.facts.nodes:
            return self.bound + 1
        return self.group.min_count

    def _present(self) -> int:
        if isinstance(self.group, Composite):
            return len(self.group.children)
        return self.bound + sum(number for _, number in supply(self.group))

    # ---- domains

    def _scope(self) -> Iterator[str]:
        own = keys(self.group)
        if own and self.stated.key not in own:
            yield f"its key is {own[-1]}, not {self.stated.key}"
        if not own and bool(self.stated.key) != bool(self.stated.within):
            yield f"has no key of its own, yet {self.stated.key} is stated"
        if self.stated.within and not self._around():
            yield f"no node lies in {self.stated.within}"
        if own and own == [self.stated.key]:
            number = len(self._domains())
            if self.stated.domains_tried != number:
                yield f"{number} domains of {self.stated.key} could be tried, not {self.stated.domains_tried}"
        held = [name for name in bound_nodes(self.group) if name in self.facts.nodes]
        if set(self.stated.held_on) - set(held):
            yield f"members are bound on {held}, not on {self.stated.held_on}"

    def _around(self) -> list[str]:
        return [name for name in self.facts.nodes if self.facts.lies_in(name, self.stated.within)]

    def _domains(self) -> dict[Identity, list[str]]:
        """The admissible domains of its key inside the best domain of the groups above."""
        found: dict[Identity, list[str]] = {}
        around = self._around()
        for name in around:
            domain = self.facts.domain(name, self.stated.key)
            if domain is not None:
                found.setdefault(domain, []).append(name)
        if self.stated.key not in self.facts.levels:
            return found
        bound = [name for name in bound_nodes(self.group) if name in self.facts.nodes]
        pins = {self.facts.domain(name, self.stated.key) for name in set(bound) & set(around)}
        return {domain: names for domain, names in found.items() if domain in pins or not bound}

    def _nodes_of(self, count: DomainCount) -> list[str] | None:
        """The nodes of a domain in the verdict: None if its path could mean two domains, empty if there is none."""
        if not self.stated.key:
            return list(self.facts.nodes) if not count.domain else []
        inside = [name for name in self._around() if self.facts.domain(name, self.stated.key) is not None]
        if self.stated.key not in self.facts.levels:
            return [name for name in inside if self.facts.lies_in(name, count.domain)]
        if count.domain == self.stated.within:
            return inside  # the groups above are confined to less than a domain of its key
        named = {name: self.facts.domain(name, self.stated.key) or () for name in inside}
        inside = [name for name, path in named.items() if tuple(value for value in path if value) == count.domain]
        return inside if len({named[name] for name in inside}) <= 1 else None

    # ---- numbers

    def _count(self, count: DomainCount) -> Iterator[str]:
        where = "/".join(count.domain) or "the cluster"
        if count.need != self.stated.need:
            yield f"needs {self.stated.need} in {where}, not {count.need}"
        names = self._nodes_of(count)
        if names is None:
            return
        if not names:
            yield f"no node lies in {where}"
            return
        place = NodeSet(tuple(names))
        yield from self._holder(count, place)
        yield from self._nodes(count, place, where)
        low, high = self._limits(count, place)
        if not low <= count.have <= high:
            yield f"{where} has room for {low if low == high else f'{low} to {high}'}, not {count.have}"
        if count.short_of and count.short_of not in self._scarcest(place):
            yield f"{where} is short of {' or '.join(sorted(self._scarcest(place))) or 'nothing'}, not {count.short_of}"

    def _nodes(self, count: DomainCount, place: NodeSet, where: str) -> Iterator[str]:
        """The nodes of a domain, and those that take one of the leaf's largest pods."""
        if count.nodes != len(place.names):
            yield f"{where} has {len(place.names)} nodes, not {count.nodes}"
        shapes = [shape for shape, _ in supply(self.group)] if isinstance(self.group, Leaf) else []
        largest = [shape for shape in shapes if _size(shape) == max(map(_size, shapes))]
        if largest and not any(shape.has_pod_rules for shape in largest):
            free = {sum(name in self.facts.slots(shape) for name in place.names) for shape in largest}
            if count.free_nodes not in free:
                yield f"{where} has {min(free)} free nodes, not {count.free_nodes}"

    def _limits(self, count: DomainCount, place: NodeSet) -> tuple[int, int]:
        """The least and the most that the verdict may say of a domain."""
        if isinstance(self.group, Composite):
            return self._children(count, place)
        kinds = supply(self.group)
        high = self.bound + self.counting.pods_in(self.group, place)
        if self.group.exclusive is not None or any(shape.has_pod_rules for shape, _ in kinds):
            return 0, high
        if len(kinds) <= 1:
            return high, high
        if len(self.facts.nodes) > MOST_NODES:
            return 0, high
        alone = max(min(self.counting.slots(shape, place), number) for shape, number in kinds)
        return min(self.bound + alone, self.stated.need), high

    def _children(self, count: DomainCount, place: NodeSet) -> tuple[int, int]:
        assert isinstance(self.group, Composite)
        if bound_nodes(self.group):
            return 0, self._present()  # bound members may be anywhere, even where they contradict one another
        high = self.counting.children_in(self.group, place)
        if high >= self.stated.need:
            high = self._present()  # beyond the need the verdict need not count
        if len(self.facts.nodes) > MOST_NODES or self._is_tied():
            return 0, high
        within, claimed = _Within(self.facts, place.names), min(count.have, self.stated.need)
        if claimed > 0 and self._hold(within, claimed) is False:
            return 0, claimed - 1
        if claimed < min(self.stated.need, high) and self._hold(within, claimed + 1):
            return claimed + 1, high
        return 0, high

    def _hold(self, within: Facts, number: int) -> bool | None:
        assert isinstance(self.group, Composite)
        return fits(within, Demand(replace(self.group, topology=None, min_groups=number)), STEPS)

    def _is_tied(self) -> bool:
        return any(shape.has_pod_rules for leaf in leaves_below(self.group) for shape, _ in supply(leaf))

    def _holder(self, count: DomainCount, place: NodeSet) -> Iterator[str]:
        units = set[int]()
        if isinstance(self.group, Leaf) and self.group.exclusive is not None:
            key = self.group.exclusive.key
            domains = {self.facts.domain(name, key) for name in place.names}
            for pod in self.facts.staying:
                same = pod.exclusive == self.group.exclusive or in_the_way(pod, self.group.exclusive)
                if same and pod.group != self.group.id and self.facts.domain(pod.node, key) in domains:
                    units.add(pod.unit)
        if count.held_by is not None and (count.held_by.unit not in units or not self._is_named(count.held_by)):
            yield f"{'/'.join(count.domain)} is not held by {count.held_by}"

    def _is_named(self, stated: UnitName) -> bool:
        unit = self.facts.view.unit(stated.unit)
        return stated[1:] == ((unit.name, unit.priority) if unit is not None else ("", 0))

    def _scarcest(self, place: NodeSet) -> set[str]:
        """For each shape below, the resources that run out first in a domain."""
        found = set[str]()
        for shape in {shape for leaf in leaves_below(self.group) for shape, _ in supply(leaf)}:
            totals = {
                resource: sum(self._alone(name, resource, amount) for name in place.names if self._open(shape, name))
                for resource, amount in shape.requests
                if amount > 0
            }
            found |= {resource for resource, total in totals.items() if total == min(totals.values())}
        return found

    def _open(self, shape: Shape, name: str) -> bool:
        return next(self._reasons(shape, self.facts.nodes[name]), None) is None

    def _alone(self, name: str, resource: str, amount: int) -> int:
        return max(0, self.facts.free(name).get(resource, given(resource)) // amount)

    # ---- excluded nodes

    def _exclusions(self, leaf: Leaf) -> Iterator[str]:
        """Each node counts under the first reason for which it takes no pod of the leaf's largest shape."""
        shapes = [shape for shape, _ in supply(leaf)]
        largest = [shape for shape in shapes if _size(shape) == max(map(_size, shapes))]
        stated = dict(self.stated.exclusions)
        if not shapes:
            if stated:
                yield "nodes are stated to be excluded although no pod waits"
            return
        if sum(stated.values()) > len(self.facts.nodes):
            yield f"{sum(stated.values())} nodes are stated to be excluded, there are {len(self.facts.nodes)}"
        if any(shape.has_pod_rules for shape in largest):
            return
        counted = [self._shut(shape) for shape in largest]
        if stated not in counted:
            yield f"excluded nodes are {counted[0]}, not {stated}"

    def _shut(self, shape: Shape) -> dict[Reason, int]:
        found = Counter[Reason]()
        for name, node in self.facts.nodes.items():
            reason = next(self._reasons(shape, node), None)
            if reason is None and not self.facts.slots(shape).get(name):
                asked = [(resource, amount) for resource, amount in shape.requests if amount > 0]
                scarcest = min(asked, key=lambda each: self._alone(name, *each))[0]
                reason = Reason(ReasonKind.HOST_PORT if given(scarcest) else ReasonKind.SHORT_OF, (scarcest,))
            if reason is not None:
                found[reason] += 1
        return dict(found)

    def _reasons(self, shape: Shape, node: Node) -> Iterator[Reason]:
        if shape.unsupported:
            yield Reason(ReasonKind.UNSUPPORTED_FIELD, shape.unsupported)
        for resource, amount in shape.requests:
            if amount > LARGEST:
                yield Reason(ReasonKind.REQUEST_TOO_LARGE, (resource,))
        yield from (Reason(ReasonKind.WAITING_FOR, (awaited,)) for awaited in shape.waits)
        cordon = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
        if node.unschedulable and not covered(cordon, shape):
            yield Reason(ReasonKind.CORDONED)
        for taint in sorted(hard_taints(node), key=lambda taint: (taint.key, taint.value, taint.effect)):
            if not (taint == cordon and node.unschedulable) and not covered(taint, shape):
                yield Reason(ReasonKind.TAINT, (taint.key, taint.value))
        for key, value in shape.node_selector:
            if node.labels.get(key) != value:
                yield Reason(ReasonKind.NODE_SELECTOR, (key, value))
        if not near(shape, node):
            yield Reason(ReasonKind.NODE_AFFINITY)
        if not reached(shape, node):
            yield Reason(ReasonKind.VOLUME_NODE_AFFINITY)
        if not equipped(shape, node):
            yield Reason(ReasonKind.DEVICES_ELSEWHERE)


class _Within(Facts):
    """The same cluster, restricted to some nodes."""

    def __init__(self, facts: Facts, names: tuple[str, ...]) -> None:
        super().__init__(facts.view)
        self.nodes = {name: facts.nodes[name] for name in names}


def _size(shape: Shape) -> tuple[int, ...]:
    """Devices first, then cpu, then memory."""
    amounts = dict(shape.requests)
    plain = ("cpu", "memory", "ephemeral-storage", "pods")
    devices = sum(n for name, n in shape.requests if name not in plain and not name.startswith("host port "))
    return (devices, amounts.get("cpu", 0), amounts.get("memory", 0))
