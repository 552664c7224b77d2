"""PATCH: apply the patch to the newest state, then proceed as for an update; retried after a conflict."""

from __future__ import annotations

from ...api.errors import immutable, invalid_object, stale
from ...api.patching import apply_patch
from ...api.scheme import Object, Resource
from ...api.verbs import Patch, PatchType, Subresource, WriteOptions
from ...store.interface import Record, RevisionMismatch
from ..objects import off_loop
from ..objects.stored_objects import Access, at_version
from .apply import apply
from .create import ANY_VERSION
from .update import revise, store_revision

_STATUS_ENDPOINT = ("apiVersion", "kind", "metadata", "status")


async def patch(
    access: Access,
    resource: Resource,
    name: str,
    patch: Patch,
    namespace: str,
    subresource: Subresource,
    options: WriteOptions,
) -> Object:
    """Without `metadata.resourceVersion` in the patch it applies to any state."""
    if patch.type is PatchType.APPLY:
        return await apply(access, resource, name, patch.body, namespace, subresource, options)
    while True:
        record = access.record(resource, name, namespace)
        large = options.large or len(record.value) > off_loop.LARGE
        new = await off_loop.run(large, _revised, access, resource, record, patch, subresource, options)
        try:
            return at_version(resource, await store_revision(access, resource, record, new, options))
        except RevisionMismatch:
            await access.store.settled(record.key)


def _revised(
    access: Access, resource: Resource, record: Record, patch: Patch, subresource: Subresource, options: WriteOptions
) -> Object:
    sent = _applied(access, resource, record, patch, subresource)
    return revise(access, resource, record, sent, subresource, options, patched=True)


def _applied(access: Access, resource: Resource, record: Record, patch: Patch, subresource: Subresource) -> Object:
    old = at_version(resource, access.trees.of_record(record))
    if subresource == "status" and patch.type is not PatchType.JSON:
        # A JSON patch may test any field; the other types can only write, and here only the status.
        old = {field: old[field] for field in _STATUS_ENDPOINT if field in old}
    sent = apply_patch.apply(resource, old, patch)
    before, after = old["metadata"], sent.get("metadata")
    if not isinstance(after, dict):
        # Absent metadata means no change; decoding reports any other type.
        return sent
    name = before["name"]
    if after.get("resourceVersion") not in ("", None, ANY_VERSION, before["resourceVersion"]):
        raise stale(resource, name)
    if after.get("uid", before["uid"]) != before["uid"]:
        raise invalid_object(resource, name, [immutable("metadata.uid", after["uid"])])
    return sent
