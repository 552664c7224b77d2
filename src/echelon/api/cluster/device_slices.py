"""Devices of pools as objects: a ResourceSlice per node and driver, and the DeviceClasses that the file names."""

from __future__ import annotations

from collections.abc import Iterator

from ..scheme import DEVICE_CLASSES, RESOURCE_SLICES, Object
from .pools import Cluster, DevicesOfPool, nodes_by_pool

#: Attributes of devices by the type of their value.
_FIELDS = {bool: "bool", int: "int", str: "string"}


def device_classes(cluster: Cluster) -> list[Object]:
    """The classes that pools name, each for the devices of its driver."""
    found = {one.device_class: one.driver for pool in cluster.pools for one in pool.devices if one.device_class}
    return [
        {
            "apiVersion": DEVICE_CLASSES.api_version,
            "kind": DEVICE_CLASSES.kind,
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
        }
        for name, driver in found.items()
    ]


def slices(cluster: Cluster) -> Iterator[Object]:
    """The devices of every node; `spec.nodeName` says whose they are."""
    for pool, node in nodes_by_pool(cluster):
        for number, devices in enumerate(pool.devices):
            yield _slice(node["metadata"]["name"], number, devices)


def _slice(node: str, number: int, devices: DevicesOfPool) -> Object:
    attributes = {name: {_FIELDS[type(value)]: value} for name, value in devices.attributes.items()}
    listed = [{"name": f"device-{index}", "attributes": dict(attributes)} for index in range(devices.count)]
    return {
        "apiVersion": RESOURCE_SLICES.api_version,
        "kind": RESOURCE_SLICES.kind,
        "metadata": {"name": f"{node}-{number}-{devices.driver}"},
        "spec": {
            "driver": devices.driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": listed,
        },
    }
