"""What the audit log must show, whoever leads: nobody writes who does not hold the lease, no pod is bound twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from .audit import Asked
from .replicas import Replica

_READS = ("get", "list", "watch")


@dataclass
class Leadership:
    """The requests of one part of an installation, replayed in the order in which the server received them."""

    account: str
    #: Who holds the lease, and since when the server says so.
    holder: Replica | None = None
    since: float = 0.0
    transitions: int = 0
    writes: int = 0
    #: Bindings that succeeded, by the uid of the pod; when the pods of a gang were bound first and last.
    bound: Counter[str] = field(default_factory=Counter)
    spans: dict[str, tuple[float, float]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def replay(
        self, asked: Iterable[Asked], owners: Mapping[str, Replica], gang_of: Callable[[str], str] = lambda name: name
    ) -> None:
        for one in asked:
            if one.account != self.account:
                continue
            who = owners[one.credential]
            if one.forbidden:
                self.problems.append(f"{who} was refused: {one.verb} {one.resource} {one.name}")
            if one.resource == "leases":
                self._led(one, who)
            elif one.verb not in _READS:
                self._wrote(one, who)
                if one.resource == "pods/binding" and one.code == 201:
                    self._bound(one, who, gang_of(one.name))

    def _led(self, one: Asked, who: Replica) -> None:
        spec = one.body.get("spec", {})
        if one.verb in _READS or one.code not in (200, 201):
            return
        holder = who if spec.get("holderIdentity") else None
        if holder is not self.holder:
            self.transitions += 1
            self.holder, self.since = holder, one.answered

    def _wrote(self, one: Asked, who: Replica) -> None:
        self.writes += 1
        if who is not self.holder and one.received > self.since:
            late = one.received - self.since
            what = f"{one.verb} {one.resource} {one.name} ({one.code})"
            self.problems.append(f"{what} by {who}, {late:.3f} s after {self.holder or 'nobody'} held the lease")

    def _bound(self, one: Asked, who: Replica, gang: str) -> None:
        uid = one.body["metadata"]["uid"]
        self.bound[uid] += 1
        if self.bound[uid] > 1:
            self.problems.append(f"pod {one.name} was bound twice, last by {who}")
        first, last = self.spans.get(gang, (one.answered, one.answered))
        self.spans[gang] = (min(first, one.answered), max(last, one.answered))

    def longest_half_bound(self) -> float:
        """The longest time for which a gang was bound in part; forgets the gangs."""
        longest = max((last - first for first, last in self.spans.values()), default=0.0)
        self.spans.clear()
        return longest
