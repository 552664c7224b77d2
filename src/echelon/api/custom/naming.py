"""The status of CustomResourceDefinitions: which names are accepted, and whether a kind is established.

A definition gets each of its names unless another one of the same group has it.  Names that were accepted stay; a name
in use is given once the definition that has it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...base.instants import to_time
from ..objects import meta
from ..scheme import Object
from .defined_kinds import ESTABLISHED, NAMES_ACCEPTED


def settled_status(definition: Object, others: Iterable[Object], now: float) -> Object:
    """The status after the names are decided; `others` are all other definitions."""
    same_group = [one for one in others if one["spec"]["group"] == definition["spec"]["group"]]
    old: Object = definition.get("status") or {}
    accepted, conflict = _names(definition["spec"]["names"], old.get("acceptedNames") or {}, same_group)
    conditions = list(old.get("conditions") or ())
    if conflict is None:
        _set(conditions, NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found", now)
        _set(conditions, ESTABLISHED, "True", "InitialNamesAccepted", "the initial names have been accepted", now)
    else:
        _set(conditions, NAMES_ACCEPTED, "False", *conflict, now)
        if _find(conditions, ESTABLISHED) is None:
            _set(conditions, ESTABLISHED, "False", "NotAccepted", "not all names are accepted", now)
    return {**old, "acceptedNames": accepted, "conditions": conditions}


def _names(wanted: Object, had: Object, others: Sequence[Object]) -> tuple[Object, tuple[str, str] | None]:
    """The accepted names, and reason and message of the last conflict."""
    resources, kinds = _used(others)
    made, conflict = dict(had), None
    for field, used in (
        ("plural", resources),
        ("singular", resources),
        ("shortNames", resources),
        ("kind", kinds),
        ("listKind", kinds),
    ):
        asked = wanted.get(field) or ""
        listed = asked if isinstance(asked, list) else [asked]
        known = had.get(field) or ()
        taken = [name for name in listed if name and name in used and name not in _listed(known)]
        if taken:
            reason = f"{field[0].upper()}{field[1:]}Conflict"
            conflict = reason, "; ".join(f'"{name}" is already in use' for name in taken)
        elif asked:
            made[field] = asked
        else:
            made.pop(field, None)
    made.pop("categories", None)
    if wanted.get("categories"):
        made["categories"] = wanted["categories"]
    return {"plural": "", "kind": "", **made}, conflict


def _listed(names: object) -> Sequence[str]:
    return (names,) if isinstance(names, str) else names if isinstance(names, (list, tuple)) else ()


def _used(others: Iterable[Object]) -> tuple[set[str], set[str]]:
    """Names of resources and kinds that other definitions of the group have."""
    resources, kinds = set[str](), set[str]()
    for one in others:
        names = (one.get("status") or {}).get("acceptedNames") or {}
        resources |= {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources - {""}, kinds - {""}


def with_condition(definition: Object, type_: str, status: str, reason: str, message: str, now: float) -> Object:
    """The definition with a condition set."""
    old: Object = definition.get("status") or {}
    conditions = list(old.get("conditions") or ())
    _set(conditions, type_, status, reason, message, now)
    return {**definition, "status": {**old, "conditions": conditions}}


def _find(conditions: Sequence[Object], type_: str) -> Mapping[str, Any] | None:
    return meta.find_condition({"status": {"conditions": conditions}}, type_)


def _set(conditions: list[Object], type_: str, status: str, reason: str, message: str, now: float) -> None:
    """Set a condition in place; the time of its last transition stays while its status does."""
    old = _find(conditions, type_)
    changed = old is None or old.get("status") != status
    since = to_time(now) if changed or old is None else old.get("lastTransitionTime", to_time(now))
    new = {"type": type_, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}
    if old is None:
        conditions.append(new)
    else:
        conditions[[one is old for one in conditions].index(True)] = new
