"""ResourceClaims as scheduling sees them: what pods ask for, which devices are in use, what each node has left.

    ResourceSlice, DeviceClass, ResourceClaim, Pod events ─► Claims ─► of(pod)         what a pod's shape asks for
                                                                  ├──► amounts(node)   devices as resources of a node
                                                                  └──► plan(places)    a device for every request

A device in use takes from its node.  As long as one pod alone uses a claim and has a place, the pod takes it, as it
takes its cpu: the device is free again when the pod is gone.  In all other cases the node has one device less.
Changes are collected; `settle` says which pods and nodes have to be read again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ...api.group_kinds import group_of
from ...api.objects import meta
from ...api.scheme import POD_GROUPS, Object
from ...api.views.claim_references import ClaimReference, claims_of, consumer_of, sharing_group
from ...api.views.device_views import DeviceClassView, DeviceTaintRuleView, ResourceClaimView, ResourceSliceView
from ...api.views.placement_views import NodeSelector
from ...api.views.pod_views import PodView
from .allotments import SKIPS, Allotment, ClaimUse, where_usable
from .asked_kinds import AskedKinds, alike_name
from .choosing import choose
from .claim_needs import ClaimNeeds, needs_of
from .free_devices import FreeDevices
from .holders import Holders
from .inventory import Device, DeviceId, Inventory
from .open_claims import Offering, Reaches
from .room_for_claims import RoomForClaims

#: The most consumers of a claim.
_MOST_CONSUMERS = 256
#: What a pod waits for whose claim is open; the name of the claim comes before.
UNGIVEN = "is shared, and there are no devices for it where its pods fit"

#: Finds the PodGroup called `namespace/name`.
Groups = Callable[[str], Object | None]


@dataclass(frozen=True, slots=True)
class DevicesAsked:
    """What the claims of a pod ask of its node; an empty record asks nothing."""

    requests: tuple[tuple[str, int], ...] = ()
    reach: tuple[NodeSelector, ...] = ()
    waits: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()


NOTHING_ASKED = DevicesAsked()


@dataclass(slots=True)
class Stale:
    """What has to be read again."""

    pods: dict[str, None] = field(default_factory=dict)
    nodes: dict[str, None] = field(default_factory=dict)


class Claims:
    """All claims, their users, and the devices that they have."""

    def __init__(self, groups: Groups) -> None:
        self.inventory = Inventory()
        self._groups = groups
        self._classes: dict[str, DeviceClassView] = {}
        self._claims: dict[str, ResourceClaimView] = {}
        self._needs: dict[str, ClaimNeeds] = {}
        #: Pods that name claims: by uid their last version, their claims, and where they are placed.
        self._pods: dict[str, PodView] = {}
        self._uses: dict[str, list[tuple[ClaimReference, str]]] = {}
        self._places: dict[str, str] = {}
        #: By the key of a claim: the uids of the pods that name it.
        self._users: dict[str, dict[str, None]] = {}
        #: Devices by claim: chosen and not yet in the API; in the API; both.
        self._in_flight: dict[str, Allotment] = {}
        self._stored: dict[str, tuple[DeviceId, ...]] = {}
        self._holders = Holders()
        self._kinds = AskedKinds(self.inventory)
        self._free = FreeDevices(self.inventory, self._kinds.selected, self._holders.is_free)
        self._rooms_known = RoomForClaims()
        #: Devices that the current decision would give to open claims.
        self._offered: dict[str, Allotment] = {}
        #: Claims whose devices are being taken away.
        self._leaving: set[str] = set()
        self._stale = Stale()

    def settle(self) -> Stale:
        """What changes since the last call concern."""
        stale, self._stale = self._stale, Stale()
        return stale

    # -- changes ---------------------------------------------------------------------------------------

    def on_slice(self, old: ResourceSliceView | None, new: ResourceSliceView | None) -> None:
        self._changed(self.inventory.on_slice(old, new))

    def on_taint_rule(self, old: DeviceTaintRuleView | None, new: DeviceTaintRuleView | None) -> None:
        self._changed(self.inventory.on_taint_rule(old, new))

    def _changed(self, changed: Mapping[DeviceId, Device | None]) -> None:
        """These devices are others than they were."""
        for one, former in changed.items():
            device = self.inventory.get(one)
            self._kinds.on_device(one, device)
            for known in (former, device):
                if known is not None:
                    self._touch_node(known.node)
            # What a pod takes from its node is counted by the kinds that its devices are of.
            for key in self._holders.all_of(one):
                self._stale.pods.update(self._users.get(key, {}))
        if changed and self._kinds.recount():
            self._touch_all()

    def on_class(self, old: DeviceClassView | None, new: DeviceClassView | None) -> None:
        current = new or old
        assert current is not None
        if old is not None and new is not None and old.spec == new.spec:
            self._classes[current.name] = new
            return
        self._classes.pop(current.name, None)
        if new is not None:
            self._classes[new.name] = new
        self._needs.clear()
        for key in list(self._users):
            self._ask(key)
            self._touch_users(key)

    def on_claim(self, old: ResourceClaimView | None, new: ResourceClaimView | None) -> None:
        current = new or old
        assert current is not None
        key = current.key
        if old is not None and new is not None and _facts(old) == _facts(new) and key not in self._in_flight:
            self._claims[key] = new
            return
        self._needs.pop(key, None)
        if new is None:
            self._claims.pop(key, None)
            self._in_flight.pop(key, None)
        else:
            self._claims[key] = new
        allocation = new.status.allocation if new is not None else None
        if allocation is not None:
            self._in_flight.pop(key, None)
        self._stored.pop(key, None)
        if allocation is not None:
            results = [one for one in allocation.devices.results if not one.admin_access]
            self._stored[key] = tuple(DeviceId(one.driver, one.pool, one.device) for one in results)
        self._hold(key)
        self._ask(key)
        self._touch_users(key)

    def enter(self, pod: PodView) -> None:
        """A pod is there, or names other claims than before."""
        entries = claims_of(pod.obj)
        if not entries and pod.uid not in self._pods:
            return
        named = [(entry, f"{pod.namespace}/{entry.claim}" if entry.claim else "") for entry in entries]
        if self._uses.get(pod.uid) == named:
            self._pods[pod.uid] = pod
            return
        self._forget_uses(pod.uid)
        self._pods[pod.uid], self._uses[pod.uid] = pod, named
        for _, key in named:
            if key:
                self._users.setdefault(key, {})[pod.uid] = None
                self._ask(key)
                self._touch_users(key)
        self._stale.pods[pod.uid] = None

    def leave(self, pod: PodView) -> None:
        if pod.uid in self._pods:
            self._forget_uses(pod.uid)
            del self._pods[pod.uid]
            self._places.pop(pod.uid, None)

    def _forget_uses(self, uid: str) -> None:
        for _, key in self._uses.pop(uid, ()):
            users = self._users.get(key, {})
            users.pop(uid, None)
            if not users:
                self._users.pop(key, None)
            self._ask(key)
            self._touch_users(key)

    def place(self, uid: str, node: str) -> None:
        """A pod has this place now, "" for none."""
        if uid in self._pods and self._places.get(uid, "") != node:
            self._places[uid] = node
            for _, key in self._uses[uid]:
                self._touch_users(key)

    def give(self, allotments: Iterable[Allotment]) -> None:
        """These devices are in use from now on, though the API does not say so yet."""
        for one in allotments:
            self._in_flight[one.claim.key] = one
            self._hold(one.claim.key)
            self._touch_users(one.claim.key)

    def take_back(self, keys: Iterable[str]) -> None:
        """These claims do not get the devices that were chosen for them."""
        for key in keys:
            if self._in_flight.pop(key, None) is not None:
                self._hold(key)
                self._touch_users(key)

    def set_leaving(self, keys: Iterable[str], *, leaving: bool) -> None:
        """Devices are being taken from these claims, or have been."""
        for key in keys:
            (self._leaving.add if leaving else self._leaving.discard)(key)
            self._touch_users(key)

    @property
    def in_flight(self) -> list[Allotment]:
        return list(self._in_flight.values())

    def _hold(self, key: str) -> None:
        """Enter the devices of a claim as in use."""
        for device in self._holders.set(key, self._devices_of(key) or ()):
            self._touch_device(device)

    def _ask(self, key: str) -> None:
        """Count the kinds of devices that a claim asks for, as long as pods use it."""
        needs = self._needs_of(key) if key in self._users and key in self._claims else None
        changed = self._kinds.ask(key, needs)
        if changed.sets:
            self._touch_all()
        elif changed.alike:
            self._stale.nodes.update(dict.fromkeys(self.inventory.nodes()))

    def _touch_all(self) -> None:
        """Other sets are counted, on nodes and in what pods take."""
        self._stale.pods.update(dict.fromkeys(self._pods))
        self._stale.nodes.update(dict.fromkeys(self.inventory.nodes()))

    def _touch_users(self, key: str) -> None:
        self._stale.pods.update(self._users.get(key, {}))
        for device in self._holders.devices(key):
            self._touch_device(device)

    def _touch_device(self, device: DeviceId) -> None:
        known = self.inventory.get(device)
        if known is not None:
            self._touch_node(known.node)

    def _touch_node(self, node: str) -> None:
        if node:
            self._stale.nodes[node] = None
            self._free.touch(node)
        else:
            # A device that many nodes reach: pods that want such devices are asked again.
            self._stale.pods.update(dict.fromkeys(uid for uid in self._pods if not self._places.get(uid)))

    # -- reading ---------------------------------------------------------------------------------------

    def _needs_of(self, key: str) -> ClaimNeeds:
        found = self._needs.get(key)
        if found is None:
            found = self._needs[key] = needs_of(self._claims[key], self._classes.get)
        return found

    def _devices_of(self, key: str) -> tuple[DeviceId, ...] | None:
        """The devices that a claim has; None if it has not been allocated."""
        chosen = self._in_flight.get(key)
        return chosen.devices if chosen is not None else self._stored.get(key)

    def _alone(self, key: str) -> str:
        """The uid of the only pod that uses a claim, "" if there are others or the claim is a group's."""
        users, claim = self._users.get(key, {}), self._claims.get(key)
        if len(users) != 1 or claim is None:
            return ""
        (uid,) = users
        others = any(consumer.uid != uid for consumer in claim.status.reserved_for)
        return "" if others or self._is_groups(uid, key) else uid

    def _is_groups(self, uid: str, key: str) -> bool:
        group = self._group(self._pods[uid])
        return group is not None and any(one == key and entry.is_of(group) for entry, one in self._uses[uid])

    def _group(self, pod: PodView) -> Object | None:
        name = sharing_group(pod.obj)
        return self._groups(f"{pod.namespace}/{name}") if name else None

    def _unshared(self, pod: PodView, entry: ClaimReference) -> Iterable[str]:
        """A claim that its group would have one of for all pods, and that is made for each of them."""
        name = "" if not entry.template or sharing_group(pod.obj) else group_of(pod.obj)
        if name and entry.is_of(self._groups(f"{pod.namespace}/{name}")):
            yield f"PodGroup {name} spec.resourceClaims[{entry.name}].resourceClaimTemplateName"

    def _is_carried(self, key: str) -> bool:
        """Whether the devices of a claim are taken by the pod that uses it, and not by its node."""
        uid = self._alone(key)
        return bool(uid and self._places.get(uid)) and self._devices_of(key) is not None

    def _is_open(self, key: str) -> bool:
        """Whether devices for a claim have to be chosen before its pods have a place: they share it, or reach it."""
        return not self._alone(key) or self._kinds.is_spread(self._needs_of(key))

    # -- for the engine --------------------------------------------------------------------------------

    def of(self, pod: PodView) -> DevicesAsked:
        """What the claims of a pod ask of its node."""
        uses = self._uses.get(pod.uid)
        if not uses:
            return NOTHING_ASKED
        requests, reach = Counter[str](), list[NodeSelector]()
        waits, unsupported = list[str](), list[str]()
        for entry, key in uses:
            unsupported += self._unshared(pod, entry)
            reason = self._waits_for(pod, entry, key)
            if reason or entry.void:
                waits += [reason] if reason else []
                continue
            if (devices := self._devices_of(key)) is not None:
                reach += self._reach_of(key)
                requests.update(self._skips_of(key))
                if self._is_carried(key):
                    # Nodes do not count devices that others reach too.
                    own = [one for one in devices if (known := self.inventory.get(one)) is not None and known.node]
                    requests.update(self._kinds.sets.count(own, self._kinds.selected))
                    requests.update(self._alike(key))
                continue
            needs = self._needs_of(key)
            waits += needs.waits
            unsupported += needs.unsupported
            if needs.waits:
                continue
            if self._is_open(key):
                waits.append(f'resourceclaim "{entry.claim}" {UNGIVEN}')
                continue
            requests.update(self._kinds.sets.charge(needs.counts()))
            requests.update(self._alike(key))
        amounts = tuple(sorted((name, amount) for name, amount in requests.items() if amount))
        return DevicesAsked(amounts, tuple(reach), tuple(dict.fromkeys(waits)), tuple(dict.fromkeys(unsupported)))

    def _waits_for(self, pod: PodView, entry: ClaimReference, key: str) -> str:
        """Why a claim keeps its pod waiting, "" if it does not; in the words of kube-scheduler."""
        if entry.void:
            return ""
        if not entry.claim:
            return f'pod "{pod.key}": ResourceClaim not created yet'
        claim = self._claims.get(key)
        if claim is None:
            return f'resourceclaim "{entry.claim}" not found'
        if key in self._leaving:
            return f'resourceclaim "{entry.claim}" is being given other devices'
        if claim.deleting:
            return f'resourceclaim "{entry.claim}" is being deleted'
        owner = claim.controller
        if entry.template and not (owner and (owner.uid == pod.uid or owner.kind == POD_GROUPS.kind)):
            return f"ResourceClaim {key} was not created for Pod {pod.key} (Pod is not owner)"
        return "" if self._may_use(pod, entry, key) else "resourceclaim in use"

    def _may_use(self, pod: PodView, entry: ClaimReference, key: str) -> bool:
        """Whether a claim can name a consumer more; of pods that come together the first ones can have it."""
        consumers = {consumer.uid: None for consumer in self._claims[key].status.reserved_for}
        users = self._users[key]
        if len(consumers) + len(users) <= _MOST_CONSUMERS:
            return True
        uid = self._consumer(pod, entry)["uid"]
        if uid != pod.uid or uid in consumers:
            return uid in consumers or len(consumers) < _MOST_CONSUMERS
        consumers |= {user: None for user in users if self._places.get(user)}
        consumers |= dict.fromkeys(islice(users, _MOST_CONSUMERS)) if len(consumers) < _MOST_CONSUMERS else {}
        return uid in islice(consumers, _MOST_CONSUMERS)

    def _alike(self, key: str) -> dict[str, int]:
        """One of the claims that a node has room for, if amounts do not say it all."""
        needs = self._needs_of(key)
        return {} if needs.plain else {alike_name(needs): 1}

    def _reach_of(self, key: str) -> list[NodeSelector]:
        chosen = self._in_flight.get(key)
        if chosen is not None:
            found = ResourceClaimView({"status": {"allocation": {"nodeSelector": chosen.node_selector}}}).status
        else:
            found = self._claims[key].status
        selector = found.allocation.node_selector if found.allocation is not None else None
        return [] if selector is None else [selector]

    def _skips_of(self, key: str) -> dict[str, int]:
        """What the devices of a claim need of every node that uses them."""
        chosen = self._in_flight.get(key)
        if chosen is not None:
            return dict(chosen.needs)
        allocation = self._claims[key].status.allocation
        results = allocation.devices.results if allocation is not None else ()
        return {SKIPS: 1} if any(one.skip_node_operations for one in results) else {}

    def amounts(self, node: str) -> dict[str, int]:
        """What a node has of devices, those included that placed pods have."""
        if not self._kinds.sets.sets:
            return {}
        devices = self.inventory.on_node(node)
        if not devices:
            return {}
        usable = [one.id for one in devices if not (key := self._holders.of(one.id)) or self._is_carried(key)]
        return self._kinds.sets.count(usable, self._kinds.selected) | self._rooms(node, devices)

    def _rooms(self, node: str, devices: list[Device]) -> dict[str, int]:
        """How many claims with constraints a node can have, by what they ask for."""
        if not self._kinds.uneven:
            return {}
        free = {one.id for one in devices if self._holders.is_free(one.id)}
        kinds, known = self._kinds, self._rooms_known
        found = {
            name: known.count(self._needs_of(next(iter(keys))), devices, free, kinds.selected, kinds.missed)
            for name, keys in kinds.alike.items()
        }
        for key in {self._holders.of(one.id): None for one in devices}:
            if key in self._kinds.uneven and self._places.get(self._alone(key)) == node and self._is_carried(key):
                found[self._kinds.uneven[key]] += 1
        return found

    # -- choosing --------------------------------------------------------------------------------------

    @property
    def in_use(self) -> bool:
        """Whether any pod names a claim."""
        return bool(self._uses)

    def open_claims(self, uid: str) -> list[str]:
        """The claims of a pod whose devices have to be chosen before it has a place."""
        keys = [key for _, key in self._uses.get(uid, ()) if key in self._claims and self._devices_of(key) is None]
        return [key for key in keys if self._is_open(key)]

    def offers(self, pods: Iterable[str], reaches: Reaches) -> Iterator[dict[str, Allotment]]:
        """Ways to give the open claims of pods devices; the last one is what `plan` goes by."""
        groups: dict[str, dict[str, None]] = {}
        for uid in pods:
            keys = self.open_claims(uid)
            joined = {key: None for one in keys for key in (*groups.get(one, ()), one)}
            groups.update(dict.fromkeys(joined, joined))
        claims = {key: (self._claims[key], self._needs_of(key)) for key in groups}
        together = [list(keys) for keys in {id(one): one for one in groups.values()}.values()]
        offering = Offering(claims, self.inventory, self._kinds, self._free, self._holders.is_free, reaches)
        for offer in offering.offers(together):
            self._offered = offer
            yield offer
        self._offered = {}

    def forget_offer(self) -> None:
        self._offered = {}

    def plan(self, places: Mapping[str, str]) -> list[ClaimUse] | str:
        """The claims that pods with these places use, with devices for those that have none; or the node that has not
        enough for the pods that go there."""
        found = dict(self._offered)
        offered = {device for one in found.values() for device in one.devices}
        claims_on: dict[str, dict[str, None]] = {}
        for uid, node in places.items():
            claims_on.setdefault(node, {}).update((key, None) for _, key in self._uses.get(uid, ()) if key)
        for node, claims in claims_on.items():
            missing = [
                (key, self._needs_of(key)) for key in claims if self._devices_of(key) is None and key not in found
            ]
            if not missing:
                continue
            devices = self.inventory.on_node(node)
            free = {one.id for one in devices if self._holders.is_free(one.id)} - offered
            chosen = choose(missing, devices, free, self._kinds.selected, self._kinds.missed)
            if chosen is None:
                return node
            for key, results in chosen.items():
                found[key] = Allotment(self._claims[key], tuple(results), where_usable(node, results))
        return [use for uid in places for use in self._uses_of(uid, found)]

    def _uses_of(self, uid: str, found: Mapping[str, Allotment]) -> Iterable[ClaimUse]:
        for entry, key in self._uses.get(uid, ()):
            if key in self._claims and not entry.void:
                yield ClaimUse(self._claims[key], self._consumer(self._pods[uid], entry), found.get(key))

    def _consumer(self, pod: PodView, entry: ClaimReference) -> Object:
        return consumer_of(pod.obj, self._group(pod), entry)

    def idle(self, pods: Collection[str]) -> list[ResourceClaimView]:
        """The claims of pods without places whose devices are for them alone: another attempt may choose others."""
        waiting = frozenset(pods)
        keys = {key: None for uid in pods for _, key in self._uses.get(uid, ()) if key in self._stored}
        # What is being taken already is not taken again: by then it may have devices that its pods run with.
        still = [key for key in keys if key not in self._in_flight and key not in self._leaving]
        return [self._claims[key] for key in still if self._is_idle(key, waiting)]

    def _is_idle(self, key: str, pods: Set[str]) -> bool:
        if any(self._places.get(uid) for uid in self._users[key]):
            return False
        waiting = pods & self._users[key].keys()
        groups = [self._group(self._pods[uid]) for uid in waiting if self._is_groups(uid, key)]
        known = waiting | {meta.uid(group) for group in groups if group is not None}
        return all(consumer.uid in known for consumer in self._claims[key].status.reserved_for)

    def class_of(self, name: str) -> DeviceClassView | None:
        return self._classes.get(name)


def _facts(claim: ResourceClaimView) -> tuple[Any, ...]:
    return claim.uid, claim.obj.get("spec"), claim.obj.get("status"), claim.deleting, claim.controller
