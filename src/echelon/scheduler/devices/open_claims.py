"""Claims whose devices are chosen before their pods have nodes: several pods share them, or several nodes reach them.

    open claims of a demand ─► offers ─► devices for them, one way after the other ─► the engine places the pods there

First devices that several nodes reach, by the nodes that reach them; then the devices of single nodes, those with the
fewest to spare first.  Claims that share a pod are on one node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from ...api.views.device_views import ResourceClaimView
from ...api.views.placement_views import NodeSelector
from .allotments import Allotment, where_usable
from .asked_kinds import AskedKinds
from .choosing import Result, choose
from .claim_needs import ClaimNeeds
from .free_devices import FreeDevices
from .inventory import Device, DeviceId, Inventory
from .selecting import DeviceKind

#: The most nodes whose devices are offered for claims that pods share.
_MOST_NODES = 32
#: The most nodes that are looked at for them: amounts do not say everything of claims with constraints.
_MOST_TRIED = 256

#: Whether a node is one of those that a selector selects.
Reaches = Callable[[NodeSelector, str], bool]
OpenClaims = Mapping[str, tuple[ResourceClaimView, ClaimNeeds]]


@dataclass(slots=True)
class Offering:
    """What there is for the open claims of one demand."""

    claims: OpenClaims
    inventory: Inventory
    kinds: AskedKinds
    free_on: FreeDevices
    is_free: Callable[[DeviceId], bool]
    reaches: Reaches
    #: Devices that several nodes reach, by which; of those that have to do with the claims.
    _spread: dict[NodeSelector | None, list[Device]] = field(default_factory=dict)

    def offers(self, together: Sequence[Sequence[str]]) -> Iterator[dict[str, Allotment]]:
        """Ways to give claims devices; claims that stand `together` are used by the same pods."""
        for device in self._concerned():
            self._spread.setdefault(device.reach, []).append(device)
        reaches = list(self._spread)
        for start in range(min(len(reaches), _MOST_NODES)):
            found = self._as_many([*reaches[start:], *reaches[:start]])
            if found:
                yield {key: self._allotment(key, results) for key, results in found.items()}
        here = self._near(together)
        for start in range(len(here)):
            turn = [*list(here)[start:], *list(here)[:start]]
            found_local = self._one_by_one(together, turn, here)
            if found_local is not None:
                yield found_local

    def _concerned(self) -> Iterator[Device]:
        wanted = [of.get(kind, ()) for of in (self.kinds.selected, self.kinds.missed) for kind in self._kinds()]
        return (device for device in self.inventory.on_node("") if any(device.id in one for one in wanted))

    def _kinds(self) -> dict[DeviceKind, None]:
        return {kind: None for _, needs in self.claims.values() for kind in needs.kinds()}

    def _allotment(self, key: str, results: Sequence[Result], node: str = "") -> Allotment:
        return Allotment(self.claims[key][0], tuple(results), where_usable(node, results))

    def _chosen(
        self, keys: Sequence[str], devices: Sequence[Device], free: Set[DeviceId]
    ) -> dict[str, list[Result]] | None:
        wanted = [(key, self.claims[key][1]) for key in keys]
        return choose(wanted, devices, free, self.kinds.selected, self.kinds.missed)

    # -- devices that several nodes reach --------------------------------------------------------------

    def _as_many(self, reaches: Sequence[NodeSelector | None]) -> dict[str, list[Result]]:
        """Devices for as many claims as there are devices, in order; those that the first nodes reach come first."""
        found: dict[str, list[Result]] = {}
        taken: set[DeviceId] = set()
        for reach in reaches:
            everywhere = self._spread.get(None, []) if reach is not None else []
            devices = [*self._spread[reach], *everywhere]
            left = self._free(devices) - taken
            for key, (_, needs) in self.claims.items():
                if key in found or needs.least > len(left) or not self._sees_all(needs, devices):
                    continue
                chosen = self._chosen([key], devices, left)
                if chosen is not None:
                    found |= chosen
                    given = {device.id for _, device in chosen[key]}
                    left -= given
                    taken |= given
        return found

    def _sees_all(self, needs: ClaimNeeds, devices: Sequence[Device]) -> bool:
        """Whether these are all devices of each kind of which a claim may want all, whatever the node."""
        for kind in needs.wanted_whole():
            of = (self.kinds.selected.get(kind, ()), self.kinds.missed.get(kind, ()))
            if sum(map(len, of)) > sum(device.id in one for device in devices for one in of):
                return False
        return True

    # -- devices of single nodes -----------------------------------------------------------------------

    def _near(self, together: Sequence[Sequence[str]]) -> dict[str, list[Device]]:
        """Nodes that have devices for one of the sets of claims, with all the devices that they reach."""
        found: dict[str, list[Device]] = {}
        asked: set[tuple[ClaimNeeds, ...]] = set()
        for keys in together:
            needs = tuple(self.claims[key][1] for key in keys)
            if needs in asked:
                continue
            asked.add(needs)
            fitting = 0
            for tried, node in enumerate(self._likely(needs)):
                if tried >= _MOST_TRIED or fitting >= _MOST_NODES:
                    break
                devices = found.get(node) or [*self.inventory.on_node(node), *self._reached(node)]
                if self._chosen(keys, devices, self._free(devices)) is not None:
                    found[node] = devices
                    fitting += 1
        return found

    def _likely(self, all_needs: Sequence[ClaimNeeds]) -> Iterator[str]:
        """Nodes that have enough free devices of a kind of their own, as far as amounts say it."""
        least: dict[DeviceKind, int] = {}
        kinds: dict[DeviceKind, None] = {}
        for needs in all_needs:
            kinds |= needs.kinds()
            for request in needs.requests:
                if len(request.alternatives) == 1:
                    (one,) = request.alternatives
                    least[one.kind] = least.get(one.kind, 0) + (one.count or 1)
        own = [kind for kind in least if not self.kinds.has_spread(kind)]
        if own:
            rarest = min(own, key=lambda kind: (len(self.kinds.selected.get(kind, ())), kind.label))
            return self.free_on.nodes(rarest, least[rarest])
        return iter(dict.fromkeys(node for kind in kinds for node in self.free_on.nodes(kind, 1)))

    def _reached(self, node: str) -> Iterator[Device]:
        for reach, devices in self._spread.items():
            if reach is None or self.reaches(reach, node):
                yield from devices

    def _free(self, devices: Sequence[Device]) -> set[DeviceId]:
        return {device.id for device in devices if self.is_free(device.id)}

    def _one_by_one(
        self, together: Sequence[Sequence[str]], nodes: Sequence[str], here: Mapping[str, Sequence[Device]]
    ) -> dict[str, Allotment] | None:
        """Each set of claims on the first node with devices for all of it; None if the first set is on another."""
        found: dict[str, Allotment] = {}
        free = {device for node in nodes for device in self._free(here[node])}
        for keys in together:
            for node in nodes:
                chosen = self._chosen(keys, here[node], free)
                if chosen is not None:
                    for key, results in chosen.items():
                        found[key] = self._allotment(key, results, node)
                        free -= {device.id for _, device in results}
                    break
                if not found:
                    return None
        return found
