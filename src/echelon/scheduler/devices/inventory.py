"""The devices that there are: ResourceSlices as single devices, by the node that has them.

    ResourceSlice   ─┐
    DeviceTaintRule ─┴─► Inventory ─► Device   on one node, or reached from several (`node` is ""), with all its taints

A pool counts only when all slices of its newest generation are there; until then none of its devices can be used.
What stands for such a pool keeps requests for all devices from the nodes that reach it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from ...api.views.device_views import (
    DeviceTaintRuleSpec,
    DeviceTaintRuleView,
    ResourceSliceSpec,
    ResourceSliceView,
    SliceDevice,
)
from ...api.views.placement_views import NodeSelector


class DeviceId(NamedTuple):
    driver: str
    pool: str
    name: str


@dataclass(frozen=True, slots=True)
class Device:
    id: DeviceId
    #: The node that has it, "" if several nodes reach it.
    node: str
    #: For a device that several nodes reach: which; None for all.
    reach: NodeSelector | None
    facts: SliceDevice
    #: The field for which it cannot be used here, "" if there is none.
    odd: str = ""
    #: What kubelets need not do for it; only some nodes can leave it out.
    skips: tuple[str, ...] = ()
    #: No device: a pool that is not complete may have any there.
    unknown: bool = False


class Inventory:
    """All devices of complete pools, and what stands for the others."""

    def __init__(self) -> None:
        #: (driver, pool) -> name of a slice -> slice
        self._pools: dict[tuple[str, str], dict[str, ResourceSliceView]] = {}
        #: By name; what a rule selects has its taint, as if the slice said so.
        self._rules: dict[str, DeviceTaintRuleSpec] = {}
        self._in_pool: dict[tuple[str, str], dict[DeviceId, Device]] = {}
        self._devices: dict[DeviceId, Device] = {}
        self._on_node: dict[str, dict[DeviceId, None]] = {}

    def on_slice(self, old: ResourceSliceView | None, new: ResourceSliceView | None) -> dict[DeviceId, Device | None]:
        """Take in a change; the devices that came, went or changed, as they were."""
        changed: dict[DeviceId, Device | None] = {}
        for one in dict.fromkeys(_pool_of(view) for view in (old, new) if view is not None):
            if old is not None and _pool_of(old) == one:
                self._pools.get(one, {}).pop(old.name, None)
            if new is not None and _pool_of(new) == one:
                self._pools.setdefault(one, {})[new.name] = new
            changed |= self._recount(one)
        return changed

    def on_taint_rule(
        self, old: DeviceTaintRuleView | None, new: DeviceTaintRuleView | None
    ) -> dict[DeviceId, Device | None]:
        """Take in a change; the devices that have other taints now, as they were."""
        former = self._rules.pop(old.name, None) if old is not None else None
        if new is not None:
            self._rules[new.name] = new.spec
        rules = [rule for rule in (former, new.spec if new is not None else None) if rule is not None]
        changed: dict[DeviceId, Device | None] = {}
        if former is None or new is None or former != new.spec:
            for pool in [one for one in self._pools if any(_concerns(rule, *one) for rule in rules)]:
                changed |= self._recount(pool)
        return changed

    def _tainted(self, device: Device) -> Device:
        """A device with the taints that rules give it."""
        rules = [rule for _, rule in sorted(self._rules.items()) if _concerns(rule, *device.id)]
        if not rules:
            return device
        taints = (*device.facts.taints, *(rule.taint for rule in rules))
        return replace(device, facts=msgspec.structs.replace(device.facts, taints=taints))

    def _recount(self, pool: tuple[str, str]) -> dict[DeviceId, Device | None]:
        found = {device.id: self._tainted(device) for device in _usable(list(self._pools.get(pool, {}).values()))}
        before = self._in_pool.pop(pool, {})
        if found:
            self._in_pool[pool] = found
        ids = sorted(before.keys() | found.keys())
        changed = {one: before.get(one) for one in ids if before.get(one) != found.get(one)}
        for one in changed:
            if (gone := self._devices.pop(one, None)) is not None:
                here = self._on_node[gone.node]
                del here[one]
                if not here:
                    del self._on_node[gone.node]
            if (come := found.get(one)) is not None:
                self._devices[one] = come
                self._on_node.setdefault(come.node, {})[one] = None
        if not self._pools.get(pool):
            self._pools.pop(pool, None)
        return changed

    def get(self, device: DeviceId) -> Device | None:
        return self._devices.get(device)

    def all(self) -> list[Device]:
        return list(self._devices.values())

    def on_node(self, node: str) -> list[Device]:
        """The devices of a node by name; those that several nodes reach are at the node ""."""
        return [self._devices[one] for one in sorted(self._on_node.get(node, ()))]

    def nodes(self) -> list[str]:
        return [node for node in self._on_node if node]


def _pool_of(view: ResourceSliceView) -> tuple[str, str]:
    return view.spec.driver, view.spec.pool.name


def _concerns(rule: DeviceTaintRuleSpec, driver: str, pool: str, device: str | None = None) -> bool:
    """Whether a rule selects a device, or may select one of a pool."""
    selector = rule.device_selector
    return (
        selector is not None
        and selector.driver in (None, driver)
        and selector.pool in (None, pool)
        and (device is None or selector.device in (None, device))
    )


def _usable(slices: list[ResourceSliceView]) -> Iterator[Device]:
    newest = max((one.spec.pool.generation for one in slices), default=0)
    current = [one for one in slices if one.spec.pool.generation == newest]
    names = [device.name for one in current for device in one.spec.devices]
    # A name that stands for two devices: nobody can tell which one is meant.
    whole = (
        bool(current) and len(current) == current[0].spec.pool.resource_slice_count and len(names) == len(set(names))
    )
    for one in current:
        yield from _devices_of(one.spec) if whole else _unknown(one)


def _devices_of(spec: ResourceSliceSpec) -> Iterator[Device]:
    for device in spec.devices:
        where = device if spec.per_device_node_selection else spec
        if where.node_name or where.node_selector is not None or where.all_nodes:
            number = DeviceId(spec.driver, spec.pool.name, device.name)
            node, skips = where.node_name, spec.skip_node_operations
            odd = _odd(device, where.node_selector) or ("spec.skipNodeOperations" if skips and node else "")
            yield Device(number, node, where.node_selector, device, odd, skips)


def _unknown(view: ResourceSliceView) -> Iterator[Device]:
    """What stands for the devices of a slice; no device has such a name."""
    spec, nothing = view.spec, SliceDevice()
    for where in spec.devices if spec.per_device_node_selection else (spec,):
        if where.node_name or where.node_selector is not None or where.all_nodes:
            own = f"/{where.name}" if isinstance(where, SliceDevice) else ""
            number = DeviceId(spec.driver, spec.pool.name, f"/{view.name}{own}")
            yield Device(number, where.node_name, where.node_selector, nothing, "spec.pool", unknown=True)


def _odd(device: SliceDevice, reach: NodeSelector | None) -> str:
    """What a device has that is not supported here."""
    if reach is not None and len(reach.node_selector_terms) != 1:
        # Servers take it of a device, not of a slice: no allocation of several devices can say it.
        return "spec.devices[].nodeSelector.nodeSelectorTerms"
    if device.consumes_counters:
        return "spec.devices[].consumesCounters"
    if device.allow_multiple_allocations:
        return "spec.devices[].allowMultipleAllocations"
    if device.binding_conditions or device.binds_to_node:
        return "spec.devices[].bindingConditions"
    return "spec.devices[].nodeAllocatableResources" if device.node_allocatable_resources else ""
