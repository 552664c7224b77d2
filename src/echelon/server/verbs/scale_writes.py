"""PUT and PATCH of `/scale`: a Scale changes the replicas of its object, which is then updated as by any other write.

object ─► Scale ─► changed Scale ─► object with these replicas ─► `update.revise` ─► store ─► Scale
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...api.errors import apply_conflict, conflict, stale
from ...api.objects.scale import replicas_of, scale_of, scaled
from ...api.ownership import managers, scale_managers
from ...api.ownership.managers import Applied
from ...api.patching import apply_patch
from ...api.rules import fields
from ...api.schema import kind_schema
from ...api.scheme import SCALES, Object, Resource
from ...api.verbs import Patch, PatchType, WriteOptions
from ...store.interface import RevisionMismatch
from ..objects.field_managers import manager_of
from ..objects.incoming import decode, refuse_if
from ..objects.stored_objects import Access, at_version
from .apply import check_identity, checked_configuration
from .create import ANY_VERSION
from .update import revise, store_revision

#: From the object to its changed Scale, with the `managedFields` of the object where they do not follow from the write.
_Change = Callable[[Object], tuple[Object, Sequence[Object] | None]]


async def update_scale(
    access: Access, resource: Resource, sent: Object, namespace: str, options: WriteOptions
) -> Object:
    """PUT; conditional if the Scale has a uid or a resourceVersion."""
    name = (sent.get("metadata") or {}).get("name") or ""
    scale = decode(SCALES, sent, options)
    return await _write(access, resource, name, namespace, lambda _live: (scale, None), options)


async def patch_scale(
    access: Access, resource: Resource, name: str, patch: Patch, namespace: str, options: WriteOptions
) -> Object:
    if patch.type is PatchType.APPLY:
        configuration = checked_configuration(SCALES, patch.body, namespace)
        change = _apply(access, resource, configuration, options)
    else:
        change = _patched(resource, patch, options)
    return await _write(access, resource, name, namespace, change, options)


def _patched(resource: Resource, patch: Patch, options: WriteOptions) -> _Change:
    def change(live: Object) -> tuple[Object, None]:
        sent = apply_patch.apply(SCALES, scale_of(resource, live), patch)
        return decode(SCALES, sent, options, patched=True), None

    return change


def _apply(access: Access, resource: Resource, configuration: Object, options: WriteOptions) -> _Change:
    """Merge the configuration into the Scale; who owns the replicas of the object owns those of the Scale."""
    assert resource.scale is not None
    replicas = scale_managers.field_path(resource.scale.replicas)
    wanted = {field: value for field, value in configuration.items() if field != "status"}
    mine = manager_of(access, SCALES, "scale", options, "Apply")

    def change(live: Object) -> tuple[Object, Sequence[Object]]:
        check_identity(resource, live["metadata"], configuration["metadata"])
        known = managers.read(live) or managers.before_first_apply(
            kind_schema.definition(resource),
            {field: value for field, value in live.items() if field != "status"},
            replace(mine, api_version=resource.api_version),
        )
        of_scale = scale_managers.to_scale(known, replicas)
        schema = kind_schema.definition(SCALES)
        result = managers.apply(schema, scale_of(resource, live), of_scale, wanted, mine, force=options.force)
        if not isinstance(result, Applied):
            raise apply_conflict([(one.owner, one.field) for one in result])
        after = scale_managers.to_parent(known, result.managers, replicas, resource.api_version)
        return result.obj, managers.write(after)

    return change


async def _write(
    access: Access, resource: Resource, name: str, namespace: str, change: _Change, options: WriteOptions
) -> Object:
    while True:
        record = access.record(resource, name, namespace)
        live = at_version(resource, access.trees.of_record(record))
        scale, managed_fields = change(live)
        _check_preconditions(resource, scale["metadata"], live["metadata"])
        replicas = replicas_of(scale)
        refuse_if(fields.not_negative("spec.replicas", replicas), SCALES, name)
        sent = scaled(resource, live, replicas)
        new = revise(access, resource, record, sent, "scale", options, patched=True, managed_fields=managed_fields)
        try:
            stored = await store_revision(access, resource, record, new, options)
            return scale_of(resource, at_version(resource, stored))
        except RevisionMismatch:
            # Read again: a Scale with the old resourceVersion is refused then.
            await access.store.settled(record.key)


def _check_preconditions(resource: Resource, given: dict[str, Any], live: Object) -> None:
    """409 if a Scale is for another object, or for another state of it."""
    if given.get("uid") not in (None, "", live["uid"]):
        detail = f"Precondition failed: UID in precondition: {given['uid']}, UID in object meta: {live['uid']}"
        raise conflict(replace(resource, plural=f"{resource.plural}/scale"), live["name"], detail)
    if given.get("resourceVersion") not in (None, "", ANY_VERSION, live["resourceVersion"]):
        raise stale(resource, live["name"])
