"""Devices that were chosen for claims, and how they are written: `status.allocation` and `status.reservedFor`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ...api.objects.subtree import items, mapping
from ...api.scheme import Object
from ...api.views.device_views import DeviceClassView, ResourceClaimView
from ...api.views.object_view import read
from ...api.views.placement_views import NodeSelector, NodeSelectorTerm
from .choosing import Result
from .inventory import DeviceId

#: A resource of nodes whose kubelets can leave out what devices do not need; upstream's name of the feature.
SKIPS = "support of skipNodeOperations"
SKIPS_FEATURE = "DRAOptionalNodeOperations"


@dataclass(frozen=True, slots=True)
class Allotment:
    """The devices chosen for a claim, and where they can be used; None for everywhere."""

    claim: ResourceClaimView
    results: tuple[Result, ...]
    node_selector: Object | None

    @property
    def devices(self) -> tuple[DeviceId, ...]:
        return tuple(device.id for _, device in self.results)

    @property
    def selector(self) -> NodeSelector | None:
        """The nodes as the views of this package know them."""
        return None if self.node_selector is None else read(NodeSelector, self.node_selector)

    @property
    def needs(self) -> tuple[tuple[str, int], ...]:
        """What the devices need of the node of a pod that uses them."""
        return ((SKIPS, 1),) if any(device.skips for _, device in self.results) else ()


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A claim that a pod is about to use: the devices that it gets, unless it has them, and for whom."""

    claim: ResourceClaimView
    consumer: Object
    allotment: Allotment | None = None


def allocation_of(allotment: Allotment, class_of: Callable[[str], DeviceClassView | None]) -> Object:
    """The allocation of a claim as it is written, with the configuration of its classes and its own."""
    spec = mapping(allotment.claim.obj, "spec", "devices")
    results: list[Object] = []
    classes: dict[str, str] = {}
    for name, device in allotment.results:
        driver, pool, number = device.id
        wanted = _wanted(spec, name)
        more: Object = {"tolerations": wanted["tolerations"]} if wanted.get("tolerations") else {}
        if device.skips:
            more["skipNodeOperations"] = list(device.skips)
        results.append({"request": name, "driver": driver, "pool": pool, "device": number, **more})
        classes[name] = wanted.get("deviceClassName") or ""
    configs = [*_configs_of_classes(classes, class_of), *_configs_of_claim(spec, classes)]
    devices: Object = {"results": results, **({"config": configs} if configs else {})}
    selector = allotment.node_selector
    return {"devices": devices, **({"nodeSelector": selector} if selector is not None else {})}


def _configs_of_classes(
    classes: Mapping[str, str], class_of: Callable[[str], DeviceClassView | None]
) -> Iterator[Object]:
    """The configuration of each class once, for all requests that it is for."""
    for name in dict.fromkeys(classes.values()):
        found = class_of(name)
        requests = [request for request, one in classes.items() if one == name]
        for config in items(found.obj, "spec", "config") if found is not None else ():
            yield {**config, "source": "FromClass", "requests": requests}


def _configs_of_claim(spec: Mapping[str, Any], requests: Collection[str]) -> Iterator[Object]:
    """The claim's own configuration, without what is for alternatives that were not chosen."""
    chosen = {*requests, *(name.partition("/")[0] for name in requests)}
    for config in items(spec, "config"):
        if not config.get("requests") or chosen.intersection(config["requests"]):
            yield {**config, "source": "FromClaim"}


def where_usable(node: str, results: Collection[Result]) -> Object | None:
    """Where devices can be used together: those of a node on that node, others where all of them are reached."""
    if any(device.node for _, device in results):
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        return {"nodeSelectorTerms": [{"matchFields": [field]}]}
    reaches = dict.fromkeys(device.reach for _, device in results if device.reach is not None)
    joined: Object = {}
    for reach in reaches:
        # Servers take slices with one term alone, and devices with more are not used.
        for name, listed in _written(reach.node_selector_terms[0]).items():
            joined.setdefault(name, []).extend(one for one in listed if one not in joined[name])
    return {"nodeSelectorTerms": [joined]} if joined else None


def _written(term: NodeSelectorTerm) -> Object:
    """A term as it stands in an object: without empty lists."""
    spelt: Object = msgspec.json.decode(msgspec.json.encode(term))
    return {
        field: [{key: value for key, value in one.items() if value} for one in listed]
        for field, listed in spelt.items()
        if listed
    }


def _wanted(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The part of a claim's spec that a result belongs to."""
    request, _, way = name.partition("/")
    found: Object = next((one for one in items(spec, "requests") if one.get("name") == request), {})
    if not way:
        return mapping(found, "exactly")
    alternatives: list[Object] = items(found, "firstAvailable")
    return next((one for one in alternatives if one.get("name") == way), {})
