"""Managers of the replicas of an object, as `/scale` sees them, and back.

The replicas are one field of the object and one field of its Scale, under other paths and another version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..scheme import SCALES
from .field_sets import FieldSet, Path
from .managers import Manager

_IN_SCALE: Path = ("f:spec", "f:replicas")


def to_scale(managers: Sequence[Manager], replicas: Path) -> list[Manager]:
    """Those managers of an object that own its replicas, as managers of its Scale."""
    return [
        replace(one, api_version=SCALES.api_version, fields=_only(_IN_SCALE))
        for one in managers
        if _owns(one, replicas)
    ]


def to_parent(
    managers: Sequence[Manager], of_scale: Sequence[Manager], replicas: Path, api_version: str
) -> list[Manager]:
    """The managers of an object after a write of its Scale: who no longer owns the replicas there loses them."""
    owners = {_key(one): one for one in of_scale if _owns(one, _IN_SCALE)}
    kept: list[Manager] = []
    for one in managers:
        if _owns(one, replicas) and owners.pop(_key(one), None) is None:
            one = replace(one, fields=one.fields - _only(replicas))
        if one.fields:
            kept.append(one)
    new = [replace(one, api_version=api_version, fields=_only(replicas), time="") for one in owners.values()]
    return [*kept, *new]


def field_path(path: Sequence[str]) -> Path:
    """The names of nested fields as a path of `managedFields`."""
    return tuple(f"f:{name}" for name in path)


def _key(manager: Manager) -> tuple[str, str, str]:
    """The identity of a manager without its version, which is another one for the Scale."""
    return (manager.name, manager.operation, manager.subresource)


def _owns(manager: Manager, path: Path) -> bool:
    return bool(manager.fields & _only(path))


def _only(path: Path) -> FieldSet:
    made = FieldSet()
    made.add(path)
    return made
