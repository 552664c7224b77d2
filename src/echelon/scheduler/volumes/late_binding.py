"""Claims that are bound when their pod has a node (WaitForFirstConsumer), and volumes that nodes can attach.

    PersistentVolume, StorageClass, CSIDriver, CSINode, CSIStorageCapacity ─► LateBinding
        asked(claim)    the nodes where the claim can get a volume, and what that takes from the node
        amounts(node)   free volumes that the node reaches, and how many more it can attach
        choose(places)  a volume for each claim, or the node for which one has to be made

Free volumes of a class are counted for equal claims; before a placement is carried out single volumes are chosen.
A change costs what it concerns: the wishes that a volume satisfies, and the nodes that reach it (`stale`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ...api.views.storage_views import (
    ClaimView,
    CsiDriverView,
    CsiNodeView,
    StorageCapacityView,
    StorageClassView,
    VolumeView,
)
from ...engine import LARGEST, NodeTerm, Requirement
from .reach_index import FreeVolumes, NodeLabels, Terms, either, reached
from .volume_facts import (
    NO_PROVISIONER,
    VolumeWish,
    capacity_term,
    class_of,
    driver_behind,
    driver_of,
    is_for,
    size_of,
    suffices,
    topologies,
    wish_of,
)

#: Annotation of a claim: the node for which a volume is to be made.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
ATTACHED = "attachable volumes of "
#: A free volume in one of these phases can be had; nobody has looked at a pending one yet.
_FREE_PHASES = ("", "Available", "Pending")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class VolumeChoice:
    """How a claim gets its volume: this one, or one that is made for a node."""

    claim: ClaimView
    node: str
    volume: VolumeView | None
    #: Where the volume can be reached from; None for everywhere.
    reach: Terms | None


@dataclass(frozen=True, slots=True)
class LateAsked:
    """What an unbound claim asks of its pod's node."""

    #: None for every node.
    reach: Terms | None
    requests: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)
class _Wanted:
    """A wish of claims that pods use and that are not bound."""

    #: The resource that counts volumes for it.
    resource: str
    #: What it can have.
    free: FreeVolumes = field(default_factory=FreeVolumes)
    #: Claims that can get nothing but free volumes, and the others.
    counted: dict[str, None] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)


class LateBinding:
    """Free volumes, classes that can make volumes, and what is being bound."""

    def __init__(self) -> None:
        self._volumes: dict[str, tuple[VolumeView, Terms | None]] = {}
        #: By the key of a claim: the volumes that name it.
        self._set_aside: dict[str, dict[str, None]] = {}
        self._classes: dict[str, StorageClassView] = {}
        self._capacities: dict[str, StorageCapacityView] = {}
        self._drivers: dict[str, CsiDriverView] = {}
        self._limits: dict[str, dict[str, int]] = {}
        #: Drivers that limit volumes, by the number of nodes on which they do.
        self._limiting: Counter[str] = Counter()
        #: Chosen and not bound yet, by the key of the claim; and by the name of the volume the claim.
        self._chosen: dict[str, VolumeChoice] = {}
        self._taken: dict[str, str] = {}
        #: Wishes by what claims want, and by the key of a claim its own, and whether volumes are counted for it.
        self._wanted: dict[VolumeWish, _Wanted] = {}
        self._wish_of: dict[str, tuple[VolumeWish, bool]] = {}
        #: How many wishes volumes are counted for.
        self._counted = 0
        self._nodes = NodeLabels()
        #: Nodes that have other amounts now.
        self.stale: dict[str, None] = {}

    # -- changes ---------------------------------------------------------------------------------------

    def put_volume(self, volume: VolumeView, reach: Terms | None) -> list[str]:
        """A volume is there, or another than before; returns the claims that may get something else now."""
        named = self._unname(volume.name)
        self._volumes[volume.name] = (volume, reach)
        if (claim := volume.spec.claim_ref) is not None:
            key = f"{claim.namespace}/{claim.name}"
            self._set_aside.setdefault(key, {})[volume.name] = None
            named[key] = None
        return [*named, *self._offer(volume.name)]

    def replace_volume(self, volume: VolumeView) -> None:
        """A newer version of a volume that says the same."""
        self._volumes[volume.name] = (volume, self._volumes[volume.name][1])

    def remove_volume(self, name: str) -> list[str]:
        """A volume is gone; returns the claims that may get something else now."""
        named = self._unname(name)
        self._volumes.pop(name, None)
        return [*named, *self._offer(name)]

    def _unname(self, name: str) -> dict[str, None]:
        """Forget which claim a volume names; returns that claim."""
        known = self._volumes.get(name)
        claim = known[0].spec.claim_ref if known is not None else None
        if claim is None:
            return {}
        key = f"{claim.namespace}/{claim.name}"
        del self._set_aside[key][name]
        if not self._set_aside[key]:
            del self._set_aside[key]
        return {key: None}

    def _offer(self, name: str) -> list[str]:
        """Enter a volume into what each wish can have, or take it out; returns the claims that ask for other nodes."""
        concerned: list[str] = []
        known = self._volumes.get(name)
        free = known is not None and name not in self._taken and _is_free(known[0])
        for wish, wanted in self._wanted.items():
            reaches = [wanted.free.remove(name)] if name in wanted.free else []
            if known is not None and free and wish.takes(known[0]):
                wanted.free.put(name, size_of(known[0].spec.capacity), known[1])
                reaches.append(known[1])
            if wanted.counted:
                self._touch(reaches)
            concerned += wanted.others if reaches else ()
        return concerned

    def _touch(self, reaches: Iterable[Terms | None]) -> None:
        for reach in reaches:
            self.stale.update(dict.fromkeys(self._nodes.reaching(reach)))

    def put_class(self, name: str, storage_class: StorageClassView | None) -> None:
        _put(self._classes, name, storage_class)

    def put_capacity(self, key: str, capacity: StorageCapacityView | None) -> list[str]:
        """What is left somewhere has changed; returns the claims for which this makes a difference."""
        before = self._capacities.get(key)
        _put(self._capacities, key, capacity)
        concerned: list[str] = []
        for wish, wanted in self._wanted.items():
            offers = [
                capacity_term(one)
                if one is not None and one.storage_class == wish.storage_class and suffices(one, wish.size)
                else None
                for one in (before, capacity)
            ]
            concerned += wanted.others if offers[0] != offers[1] else ()
        return concerned

    def put_driver(self, name: str, driver: CsiDriverView | None) -> None:
        _put(self._drivers, name, driver)

    def put_node(self, name: str, labels: Mapping[str, str]) -> None:
        """A node is there, or has other labels."""
        self._nodes.put(name, labels)

    def remove_node(self, name: str) -> None:
        self._nodes.remove(name)
        self.stale.pop(name, None)

    def put_limits(self, name: str, node: CsiNodeView | None) -> None:
        """How many volumes of each driver a node attaches."""
        before, limits = self.limited, node.limits if node is not None else {}
        self._limiting.subtract(dict.fromkeys(self._limits.get(name, ()), 1))
        self._limiting.update(dict.fromkeys(limits, 1))
        self._limiting += Counter()
        _put(self._limits, name, limits or None)
        self.stale.update(dict.fromkeys(self._nodes.all() if self.limited != before else (name,)))

    def want(self, key: str, claim: ClaimView | None) -> None:
        """What a claim asks of its volume as long as it is not bound and pods use it; None if that is over."""
        before = self._wish_of.pop(key, None)
        now = (wish_of(claim), self._is_counted(claim)) if claim is not None else None
        if now is not None:
            self._wish_of[key] = now
        if now == before:
            return
        if now is not None:
            self._want(key, *now)
        if before is not None:
            self._want_no_more(key, *before)

    def _want(self, key: str, wish: VolumeWish, counted: bool) -> None:
        wanted = self._wanted.get(wish)
        if wanted is None:
            wanted = self._wanted[wish] = _Wanted(wish.name, self._free_for(wish))
        (wanted.counted if counted else wanted.others)[key] = None
        if counted and len(wanted.counted) == 1:
            self._counted += 1
            self._touch(wanted.free.reaches())

    def _want_no_more(self, key: str, wish: VolumeWish, counted: bool) -> None:
        wanted = self._wanted[wish]
        del (wanted.counted if counted else wanted.others)[key]
        if counted and not wanted.counted:
            self._counted -= 1
            self._touch(wanted.free.reaches())
        if not wanted.counted and not wanted.others:
            del self._wanted[wish]

    def take(self, choices: Iterable[VolumeChoice]) -> list[str]:
        """These claims are about to be bound so; returns other claims that may get something else now."""
        concerned: list[str] = []
        for one in choices:
            concerned += self._give_up(one.claim.key)
            self._chosen[one.claim.key] = one
            if one.volume is not None:
                self._taken[one.volume.name] = one.claim.key
                concerned += self._offer(one.volume.name)
        return concerned

    def give_up(self, key: str) -> list[str] | None:
        """A claim is bound, or will not be: other claims that may get something else now.

        None if nothing was chosen for it.
        """
        return self._give_up(key) if key in self._chosen else None

    def _give_up(self, key: str) -> list[str]:
        chosen = self._chosen.pop(key, None)
        if chosen is None or chosen.volume is None:
            return []
        del self._taken[chosen.volume.name]
        return self._offer(chosen.volume.name)

    def is_late(self, claim: ClaimView) -> bool:
        """Whether the class of a claim says that it is bound when its pod has a node."""
        found = self._classes.get(class_of(claim))
        return found is not None and found.volume_binding_mode == "WaitForFirstConsumer"

    @property
    def counts_volumes(self) -> bool:
        return bool(self._counted or self._limits)

    @property
    def has_limits(self) -> bool:
        """Whether some node can attach only so many volumes."""
        return bool(self._limits)

    @property
    def limited(self) -> frozenset[str]:
        """Drivers of which some node limits the volumes that it attaches."""
        return frozenset(self._limiting)

    def is_under_way(self, choice: VolumeChoice) -> bool:
        """Whether a claim is being bound so already."""
        return self._chosen.get(choice.claim.key) is choice

    @property
    def under_way(self) -> list[VolumeChoice]:
        return list(self._chosen.values())

    # -- for the engine --------------------------------------------------------------------------------

    def asked(self, claim: ClaimView) -> LateAsked:
        """Where a claim that is not bound can get a volume."""
        chosen = self._chosen.get(claim.key)
        driver = self._provisioner(class_of(claim))
        if chosen is not None:
            of = driver_of(chosen.volume) if chosen.volume is not None else driver_behind(driver)
            return LateAsked(chosen.reach, self.attached(of))
        selected = claim.annotations.get(SELECTED_NODE, "")
        if selected and driver:
            return LateAsked(_on(selected), self.attached(driver_behind(driver)))
        if not driver and self._is_counted(claim):
            # The amounts of nodes say where it can be.
            return LateAsked(None, ((wish_of(claim).name, 1),))
        own = self._own(claim)
        found = [reach for _, reach in own] if own else self._free_for(wish_of(claim)).reaches()
        if driver:
            found = [self._makes(claim, wish_of(claim)), *found]
        return LateAsked(either(found), self.attached(driver_behind(driver)))

    def attached(self, driver: str) -> tuple[tuple[str, int], ...]:
        """What a volume of a driver takes from its node, if nodes limit that."""
        return ((f"{ATTACHED}{driver}", 1),) if driver in self._limiting else ()

    def amounts(self, name: str, labels: Mapping[str, str]) -> dict[str, int]:
        """Free volumes that a node reaches, and volumes that it can attach."""
        own = self._limits.get(name, {})
        found = {f"{ATTACHED}{driver}": own.get(driver, LARGEST) for driver in self._limiting}
        for wanted in self._wanted.values() if self._counted else ():
            if wanted.counted and (volumes := wanted.free.reached_by(name, labels)):
                found[wanted.resource] = len(volumes)
        return found

    def _is_counted(self, claim: ClaimView) -> bool:
        """Whether free volumes are all that a claim can get, and none was set aside for it."""
        return not self._provisioner(class_of(claim)) and not self._own(claim)

    def _own(self, claim: ClaimView) -> list[tuple[VolumeView, Terms | None]]:
        """Volumes that were set aside for a claim and that it can have."""
        if claim.key not in self._set_aside:
            return []
        wish, named = wish_of(claim), [self._volumes[name] for name in self._set_aside[claim.key]]
        return [
            (volume, reach)
            for volume, reach in named
            if is_for(volume, claim) and wish.suits(volume) and not volume.deleting
        ]

    def _provisioner(self, name: str) -> str:
        found = self._classes.get(name)
        return "" if found is None or found.provisioner == NO_PROVISIONER else found.provisioner

    def _free_for(self, wish: VolumeWish) -> FreeVolumes:
        """Free volumes that satisfy a wish."""
        if wish in self._wanted:
            return self._wanted[wish].free
        found = FreeVolumes()
        for name, (volume, reach) in self._volumes.items():
            if name not in self._taken and _is_free(volume) and wish.takes(volume):
                found.put(name, size_of(volume.spec.capacity), reach)
        return found

    def _makes(self, claim: ClaimView, wish: VolumeWish) -> Terms | None:
        """The nodes for which a volume can be made."""
        storage_class = self._classes[class_of(claim)]
        allowed = topologies(storage_class)
        driver = self._drivers.get(storage_class.provisioner)
        if driver is None or not driver.spec.storage_capacity:
            return allowed
        left = [one for one in self._capacities.values() if one.storage_class == wish.storage_class]
        enough = tuple(capacity_term(one) for one in left if suffices(one, wish.size))
        if allowed is None:
            return enough
        # A term without labels is about no node, and stays so beside others.
        return tuple(
            NodeTerm((*one.labels, *other.labels)) for one in allowed for other in enough if one.labels and other.labels
        )

    # -- choosing --------------------------------------------------------------------------------------

    def choose(self, wanted: Sequence[tuple[ClaimView, str, Mapping[str, str]]]) -> dict[str, VolumeChoice] | str:
        """Volumes for unbound claims, each with the node of its pod and the labels of that; or the node that lacks one.

        Large claims go first, so that a small one does not take the only volume that is large enough.  What was chosen
        before and is not bound yet is among them.
        """
        found: dict[str, VolumeChoice] = {}
        taken: set[str] = set()
        for claim, node, labels in sorted(wanted, key=lambda one: -wish_of(one[0]).size):
            known = found.get(claim.key) or self._chosen.get(claim.key)
            if known is not None:
                if not reached(known.reach, node, labels):
                    return node
                found[claim.key] = known
                continue
            choice = self._choose_one(claim, node, labels, taken)
            if choice is None:
                return node
            found[claim.key] = choice
            if choice.volume is not None:
                taken.add(choice.volume.name)
        return found

    def _choose_one(
        self, claim: ClaimView, node: str, labels: Mapping[str, str], taken: set[str]
    ) -> VolumeChoice | None:
        wish, selected = wish_of(claim), claim.annotations.get(SELECTED_NODE, "")
        if selected and self._provisioner(class_of(claim)):
            return VolumeChoice(claim, node, None, _on(node)) if selected == node else None
        own = self._own(claim)
        near = [volume for volume, reach in own if reached(reach, node, labels)]
        if not own:
            near = [self._volumes[name][0] for name in self._free_for(wish).reached_by(node, labels)]
        for volume in near:
            if volume.name not in taken:
                return VolumeChoice(claim, node, volume, self._volumes[volume.name][1])
        if not self._provisioner(class_of(claim)) or not reached(self._makes(claim, wish), node, labels):
            return None
        return VolumeChoice(claim, node, None, _on(node))


def _on(node: str) -> Terms:
    return (NodeTerm(fields=(Requirement("metadata.name", "In", (node,)),)),)


def _is_free(volume: VolumeView) -> bool:
    return volume.spec.claim_ref is None and not volume.deleting and volume.status.phase in _FREE_PHASES


def _put(table: dict[str, T], key: str, value: T | None) -> None:
    table.pop(key, None)
    if value is not None:
        table[key] = value
