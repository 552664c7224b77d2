"""Managers of an object's fields: what an apply takes, keeps and gives up, and what a plain write changes.

    live object, its managers, applied configuration ─► apply ─► new object, new managers, or conflicts
    old object, new object, its managers             ─► written ─► new managers

Managers are tracked from the first apply on: until then `managedFields` is empty, and a first apply finds all fields
owned by `before-first-apply`, as a real server has it for objects that were stored without managers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..schema.definitions import Schema
from ..scheme import Object
from .field_sets import FieldSet, from_fields_v1, spoken, to_fields_v1
from .typed_trees import differ_at, differing, fields_of, merged, without

Operation = Literal["Apply", "Update"]
BEFORE_FIRST_APPLY = "before-first-apply"
_ANCIENT = "ancient-changes"
#: More managers of plain writes than this are merged into one.
_MOST_UPDATERS = 10
_UNTRACKED = {
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink",
    "deletionTimestamp", "deletionGracePeriodSeconds",
}  # fmt: skip
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class Manager:
    """One entry of `managedFields`."""

    name: str
    operation: Operation
    api_version: str
    fields: FieldSet
    subresource: str = ""
    time: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        return (self.name, self.operation, self.api_version, self.subresource)


@dataclass(frozen=True, slots=True)
class Conflict:
    """A field that somebody else owns with another value."""

    manager: Manager
    field: str

    @property
    def message(self) -> str:
        using = f" using {self.manager.api_version}" if self.manager.operation == "Update" else ""
        part = f' with subresource "{self.manager.subresource}"' if self.manager.subresource else ""
        return f'conflict with "{self.manager.name}"{part}{using}'


def read(obj: Object) -> list[Manager]:
    """The managers of an object; entries that cannot be read are left out."""
    listed = obj.get("metadata", {}).get("managedFields") or ()
    return [
        Manager(
            name=str(entry.get("manager", "")),
            operation="Apply" if entry.get("operation") == "Apply" else "Update",
            api_version=str(entry.get("apiVersion", "")),
            fields=from_fields_v1(entry.get("fieldsV1")),
            subresource=str(entry.get("subresource", "")),
            time=str(entry.get("time", "")),
        )
        for entry in listed
        if isinstance(entry, dict) and entry.get("fieldsV1")
    ]


def write(managers: Sequence[Manager]) -> list[Object]:
    """`managedFields`: applies first, then by time and name."""
    ordered = sorted(managers, key=lambda one: (one.operation, one.time, one.name, one.subresource))
    return [
        {
            "manager": one.name,
            "operation": one.operation,
            "apiVersion": one.api_version,
            **({"time": one.time} if one.time else {}),
            "fieldsType": "FieldsV1",
            "fieldsV1": to_fields_v1(one.fields),
            **({"subresource": one.subresource} if one.subresource else {}),
        }
        for one in ordered
        if one.fields
    ]


def trackable(obj: Object) -> Object:
    """The part of an object whose fields have managers."""
    metadata = {name: value for name, value in obj.get("metadata", {}).items() if name not in _UNTRACKED}
    rest = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
    return {**({"metadata": metadata} if metadata else {}), **rest}


def before_first_apply(schema: Schema, obj: Object, api_version: str) -> Manager:
    """The manager of everything that was there before anybody applied."""
    return Manager(BEFORE_FIRST_APPLY, "Update", api_version, fields_of(schema, trackable(obj)))


@dataclass(frozen=True, slots=True)
class Applied:
    """What an apply comes to: the object without its untracked metadata changed, and its managers."""

    obj: Object
    managers: list[Manager]


def apply(
    schema: Schema, live: Object, managers: Sequence[Manager], configuration: Object, mine: Manager, *, force: bool
) -> Applied | list[Conflict]:
    """Merge a configuration into the live object in the name of `mine`; its fields are set here."""
    wanted = trackable(configuration)
    claimed = fields_of(schema, wanted) if wanted else FieldSet()
    others = [one for one in managers if one.key != mine.key]
    previous = next((one.fields for one in managers if one.key == mine.key), FieldSet())
    tracked = trackable(live)
    conflicts, remaining = [], []
    for other in others:
        disputed = _disputed(schema, tracked, wanted, other.fields & claimed)
        if disputed and not _is_own_past(other, mine, live):
            conflicts += [Conflict(other, spoken(path)) for path in disputed.paths()]
        remaining.append(replace(other, fields=other.fields - disputed))
    if conflicts and not force:
        return conflicts
    kept = claimed
    for other in remaining:
        kept = kept | other.fields
    result = merged(schema, tracked, wanted)
    gone = previous - kept
    if gone:
        result = without(schema, result, gone, kept) or {}
    return Applied(_restored(live, result), [*(one for one in remaining if one.fields), replace(mine, fields=claimed)])


def _disputed(schema: Schema, live: Object, wanted: Object, common: FieldSet) -> FieldSet:
    """Of the fields that both claim, those with another value."""
    found = FieldSet()
    for path in common.paths():
        if differ_at(schema, live, wanted, path):
            found.add(path)
    return found


def _is_own_past(other: Manager, mine: Manager, live: Object) -> bool:
    """kubectl that applies on the server after it applied as a client does not conflict with itself."""
    annotations = live.get("metadata", {}).get("annotations") or {}
    return mine.name == "kubectl" and _LAST_APPLIED in annotations and other.name.startswith("kubectl-client-side")


def _restored(live: Object, tracked: Object) -> Object:
    """A tracked part with the untracked metadata of the live object."""
    untracked = {name: value for name, value in live.get("metadata", {}).items() if name in _UNTRACKED}
    return {
        **{name: live[name] for name in ("apiVersion", "kind") if name in live},
        **tracked,
        "metadata": {**(tracked.get("metadata") or {}), **untracked},
    }


def written(schema: Schema, old: Object, new: Object, managers: Sequence[Manager], mine: Manager) -> list[Manager]:
    """The managers after a plain write of `mine` that turned `old` into `new`."""
    changed, removed = differing(schema, trackable(old), trackable(new))
    changed.member = removed.member = False  # the object itself has no manager
    result, found = [], False
    for one in managers:
        fields = one.fields - removed
        if one.key == mine.key:
            found = True
            result.append(replace(one, fields=fields | changed, time=mine.time if changed else one.time))
        else:
            result.append(replace(one, fields=fields - changed))
    if not found and changed:
        result.append(replace(mine, fields=changed))
    return _few([one for one in result if one.fields])


def _few(managers: list[Manager]) -> list[Manager]:
    """At most ten managers of plain writes: the oldest of more become one."""
    updaters = sorted((one for one in managers if one.operation == "Update"), key=lambda one: one.time)
    surplus = len(updaters) - _MOST_UPDATERS
    if surplus <= 0:
        return managers
    old = updaters[: surplus + 1]
    fields = FieldSet()
    for one in old:
        fields = fields | one.fields
    merged_old = Manager(_ANCIENT, "Update", old[-1].api_version, fields, time=old[-1].time)
    return [merged_old, *(one for one in managers if one not in old)]


def same(one: Any, other: Any) -> bool:
    """Whether two lists of managers differ in nothing but times."""
    return [replace(m, time="") for m in one] == [replace(m, time="") for m in other]
