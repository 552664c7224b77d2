"""Which GPUs a container gets: indexes as the driver of the machine counts them, each with one pod at a time.

Containers that run beside one another share nothing.  Init containers run before the others and use what those get.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ....api.scheme import Object
from ....base import quantity
from ..rules.attempts import init_containers, is_sidecar

GPU = "nvidia.com/gpu"


def wanted_gpus(container: Object) -> int:
    resources = container.get("resources") or {}
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return quantity.parse(amounts.get(GPU, 0))


def allotted(pod: Object, free: Collection[int]) -> dict[str, tuple[int, ...]] | None:
    """Container → GPUs, for those that want any; the lowest that are free.  None if there are not enough."""
    left = sorted(free)
    inits = init_containers(pod)
    beside = [*(one for one in inits if is_sidecar(one)), *pod["spec"]["containers"]]
    before = [one for one in inits if not is_sidecar(one)]
    made: dict[str, tuple[int, ...]] = {}
    for container in beside:
        count = wanted_gpus(container)
        if count > len(left):
            return None
        if count:
            made[container["name"]] = tuple(left[:count])
        left = left[count:]
    # Init containers may use what those get that start after them.
    sidecars = {one["name"] for one in inits if is_sidecar(one)}
    pool = [index for name, indexes in made.items() if name not in sidecars for index in indexes] + left
    for container in before:
        count = wanted_gpus(container)
        if count > len(pool):
            return None
        if count:
            made[container["name"]] = tuple(sorted(pool[:count]))
    return made


def gpu_env(indexes: Collection[int]) -> dict[str, str]:
    """What CUDA and container images of NVIDIA look at; without GPUs a container sees none."""
    if not indexes:
        return {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
    told = ",".join(map(str, indexes))
    # The order of nvidia-smi, by which they are counted.
    return {"CUDA_VISIBLE_DEVICES": told, "NVIDIA_VISIBLE_DEVICES": told, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def gpus_of_nodes(nodes: Mapping[str, int]) -> dict[str, range]:
    """Node → its indexes: nodes of one machine divide them in the order of their names."""
    found: dict[str, range] = {}
    first = 0
    for name in sorted(nodes):
        found[name] = range(first, first + nodes[name])
        first += nodes[name]
    return found
