"""What a pod requests and is limited to in all, as quotas and limit ranges count it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ...base import quantity
from .subtree import items, mapping

Part = Literal["requests", "limits"]
#: Resources that can be given for the pod as a whole.
_POD_LEVEL = ("cpu", "memory", "hugepages-")


def total(spec: Mapping[str, Any], part: Part, *, overhead: bool = True) -> dict[str, str]:
    """The sum over all containers, by resource, in canonical spelling.

    Containers and sidecars add up; an init container needs its own amount beside the sidecars started before it;
    amounts of the pod as a whole replace the sum; the overhead of the runtime comes on top, of limits only where there
    is one.
    """
    found: dict[str, str] = {}
    for container in items(spec, "containers"):
        _add(found, mapping(container, "resources", part))
    sidecars: dict[str, str] = {}
    peak: dict[str, str] = {}
    for container in items(spec, "initContainers"):
        own = dict(mapping(container, "resources", part))
        if container.get("restartPolicy") == "Always":
            _add(found, own)
            _add(sidecars, own)
            own = sidecars
        else:
            _add(own, sidecars)
        _raise_to(peak, own)
    _raise_to(found, peak)
    whole = mapping(spec, "resources", part)
    found |= {name: amount for name, amount in whole.items() if name.startswith(_POD_LEVEL)}
    if overhead:
        extra = mapping(spec, "overhead")
        _add(found, extra if part == "requests" else {name: extra[name] for name in extra if name in found})
    return found


def _add(sums: dict[str, str], amounts: Mapping[str, str]) -> None:
    for name, amount in amounts.items():
        sums[name] = quantity.plus(sums[name], amount) if name in sums else quantity.canonical(amount)


def _raise_to(most: dict[str, str], amounts: Mapping[str, str]) -> None:
    for name, amount in amounts.items():
        if name not in most or quantity.exact(amount) > quantity.exact(most[name]):
            most[name] = quantity.canonical(amount)
