"""Managers of an object's fields: what an apply takes, keeps and gives up, and what a plain write changes.

    live object, its managers, applied configuration ─► apply ─► new object, new managers, or conflicts
    old object, new object, its managers             ─► written ─► new managers

Managers are tracked from the first apply on: until then `managedFields` is empty, and a first apply finds all fields
owned by `before-first-apply`, as a real server has it for objects that were stored without managers.  Fields in the
annotation of `kubectl apply` belong to `kubectl-client-side-apply`, so that kubectl can take them over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from ..schema.definitions import Schema
from ..scheme import Object
from .field_sets import FieldSet, Path, from_fields_v1, spoken, to_fields_v1
from .typed_trees import differing, fields_of, merged, with_named_fields, without

Operation = Literal["Apply", "Update"]
BEFORE_FIRST_APPLY = "before-first-apply"
CLIENT_SIDE_APPLY = "kubectl-client-side-apply"
#: The manager of `kubectl apply --server-side`, which may take over what kubectl applied as a client.
KUBECTL = "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_ANCIENT = "ancient-changes"
#: More managers of plain writes than this are merged into one.
_MOST_UPDATERS = 10
_UNTRACKED = {
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink",
    "deletionTimestamp", "deletionGracePeriodSeconds",
}  # fmt: skip


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
        """What makes two entries the same manager; who applies may change the version."""
        version = "" if self.operation == "Apply" else self.api_version
        return (self.name, self.operation, version, self.subresource)


@dataclass(frozen=True, slots=True)
class Conflict:
    """A field that somebody else owns with another value."""

    manager: Manager
    path: Path

    @property
    def field(self) -> str:
        return spoken(self.path)

    @property
    def owner(self) -> str:
        """The manager as messages name it."""
        using = f" using {self.manager.api_version}" if self.manager.operation == "Update" else ""
        part = f' with subresource "{self.manager.subresource}"' if self.manager.subresource else ""
        return f'"{self.manager.name}"{part}{using}'


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


def _given(listed: Any) -> list[Manager] | None:
    """The managers that a client sent; None if an entry cannot be read."""
    if not isinstance(listed, list) or not all(_is_entry(entry) for entry in listed):
        return None
    return read({"metadata": {"managedFields": listed}})


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("operation") in ("Apply", "Update")
        and bool(entry.get("apiVersion"))
        and entry.get("fieldsType") == "FieldsV1"
        and isinstance(entry.get("fieldsV1"), dict)
    )


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


def before_first_apply(schema: Schema, obj: Object, mine: Manager) -> list[Manager]:
    """The managers of everything that was there before the first apply."""
    fields = _tracked_changes(schema, {}, obj)[0]
    found = Manager(BEFORE_FIRST_APPLY, "Update", mine.api_version, fields, time=mine.time)
    last = _last_applied(obj)
    if last is None:
        return [found]
    wanted = fields_of(schema, trackable(last))
    wanted.add(("f:metadata", "f:annotations", f"f:{LAST_APPLIED}"))
    by_kubectl = with_named_fields(schema, fields & wanted) & fields
    client = replace(found, name=CLIENT_SIDE_APPLY, fields=by_kubectl)
    return [one for one in (replace(found, fields=fields - by_kubectl), client) if one.fields]


def _last_applied(obj: Object) -> Object | None:
    """The configuration that kubectl last applied as a client; None if there is none that can be read."""
    text = (obj.get("metadata", {}).get("annotations") or {}).get(LAST_APPLIED)
    if not text:
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("metadata", {}), dict):
        return None
    return found


def _tracked_changes(schema: Schema, old: Object, new: Object) -> tuple[FieldSet, FieldSet]:
    """The tracked fields that a write adds or changes, and those it removes."""
    both = differing(schema, trackable(old), trackable(new))
    for one in both:  # the object itself and its metadata have no manager
        one.member = False
        if "f:metadata" in one.below:
            one.below["f:metadata"].member = False
            if not one.below["f:metadata"]:
                del one.below["f:metadata"]
    return both


@dataclass(frozen=True, slots=True)
class Applied:
    """What an apply comes to: the object without its untracked metadata changed, and its managers."""

    obj: Object
    managers: list[Manager]


def apply(
    schema: Schema, live: Object, managers: Sequence[Manager], configuration: Object, mine: Manager, *, force: bool
) -> Applied | list[Conflict]:
    """Merge a configuration into the live object in the name of `mine`; its fields are set here."""
    result = _applied(schema, live, managers, configuration, mine, force=force)
    if isinstance(result, Applied) or mine.name != KUBECTL:
        return result
    allowed = set(_own_past(schema, live).paths())
    foreign = [one for one in result if one.path not in allowed]
    return foreign or _applied(schema, live, managers, configuration, mine, force=True)


def _applied(
    schema: Schema, live: Object, managers: Sequence[Manager], configuration: Object, mine: Manager, *, force: bool
) -> Applied | list[Conflict]:
    wanted, tracked = trackable(configuration), trackable(live)
    previous = next((one for one in managers if one.key == mine.key), None)
    others = [one for one in managers if one.key != mine.key]
    new = replace(mine, fields=fields_of(schema, wanted), time=previous.time if previous else "")
    made = merged(schema, tracked, wanted)
    if previous is not None and previous.fields - new.fields:
        made = _pruned(schema, made, previous.fields, [new, *others])
    changed, removed = _tracked_changes(schema, live, _restored(live, made))
    if not force:
        conflicts = [Conflict(one, path) for one in others for path in sorted((one.fields & changed).paths())]
        if conflicts:
            return conflicts
    kept = [replace(one, fields=one.fields - changed - removed) for one in others]
    if made != tracked:
        new = replace(new, time=mine.time)
    return Applied(_restored(live, made), [one for one in (*kept, new) if one.fields])


def _pruned(schema: Schema, made: Object, previous: FieldSet, managers: Sequence[Manager]) -> Object:
    """The merged object without the fields that the manager applied last time, not this time, and no other owns."""
    last = with_named_fields(schema, previous)
    everything = with_named_fields(schema, fields_of(schema, made))
    owned = FieldSet()
    for one in managers:
        owned = owned | one.fields
    bare = without(schema, made, last)
    keep = with_named_fields(schema, fields_of(schema, bare)) | with_named_fields(schema, owned)
    # Removing what is not kept also removes items of which only a part was the manager's: those come back here.
    rest = without(schema, made, everything - keep)
    gone = (everything - with_named_fields(schema, fields_of(schema, rest))) & last
    pruned: Object = without(schema, made, gone)
    return pruned


def same_but_time(one: Sequence[Object], other: Sequence[Object]) -> bool:
    """Whether two lists of `managedFields` differ in nothing but times."""
    timeless = [sorted(_text({**entry, "time": ""}) for entry in listed) for listed in (one, other)]
    return timeless[0] == timeless[1]


def _text(entry: Object) -> bytes:
    return msgspec.json.encode(entry, order="sorted")


def with_last_applied(result: Applied, configuration: Object, mine: Manager) -> Applied:
    """The annotation of `kubectl apply`, if there is one, follows what kubectl applies on the server."""
    annotations = result.obj["metadata"].get("annotations") or {}
    if mine.name != KUBECTL or not annotations.get(LAST_APPLIED):
        return result
    metadata = dict(configuration.get("metadata") or {})
    if "annotations" in metadata:
        metadata["annotations"] = {k: v for k, v in (metadata["annotations"] or {}).items() if k != LAST_APPLIED}
    text = msgspec.json.encode({**configuration, "metadata": metadata}, order="sorted").decode() + "\n"
    changed = {**result.obj["metadata"], "annotations": {**annotations, LAST_APPLIED: text}}
    return replace(result, obj={**result.obj, "metadata": changed})


def _own_past(schema: Schema, live: Object) -> FieldSet:
    """Fields that kubectl applied as a client and that nobody changed since: kubectl may change them on the server."""
    last = _last_applied(live)
    if last is None or last.get("apiVersion") != live.get("apiVersion"):
        return FieldSet()
    changed, removed = differing(schema, trackable(last), trackable(live))
    return fields_of(schema, trackable(last)) - changed - removed


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
    changed, removed = _tracked_changes(schema, old, new)
    if not changed and not removed:
        return list(managers)
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


def after_write(schema: Schema, old: Object, new: Object, sent: Any, mine: Manager) -> list[Object]:
    """`managedFields` after a plain write; `sent` is what the client sent as such.

    `[]` or `[{}]` ends tracking.  Otherwise entries that can be read replace the stored ones, but not through a
    subresource.
    """
    stored: list[Object] = old["metadata"].get("managedFields") or []
    if not mine.subresource and sent in ([], [{}]):
        return []
    before = read(old)
    given = None if mine.subresource else _given(sent)
    after = written(schema, old, new, given or before, mine) if given or before else []
    return stored if after == before else write(after)


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
