"""DELETE: remove at once, or mark for deletion and wait for finalizers and the grace period of pods.

    policy → finalizers     Foreground adds foregroundDeletion, Orphan adds orphan, Background removes both
    pods                    marked with their grace period; with a period of 0 marked and then removed
    other kinds             removed, or marked if they have finalizers

The garbage collector and the kubelet complete the deletion of marked objects.
"""

from __future__ import annotations

from ...api import admission
from ...api.custom.defined_kinds import CLEANUP_FINALIZER
from ...api.errors import ApiError
from ...api.rules.metadata import FOREGROUND, ORPHAN
from ...api.scheme import CUSTOM_RESOURCE_DEFINITIONS, JOBS, NAMESPACES, PODS, REPLICATION_CONTROLLERS, Object, Resource
from ...api.verbs import DeleteOptions
from ...base import instants
from ...store.interface import Record, RevisionMismatch
from ..objects.stored_objects import Access, at_version
from .update import is_finished

_TERMINAL = ("Succeeded", "Failed")
#: A longer period could end after the last year that a timestamp can say.
_LONGEST_GRACE_SECONDS = 2**32
#: Kinds whose dependents are orphaned unless the request says otherwise.
_ORPHANING = (JOBS, REPLICATION_CONTROLLERS)


async def delete(access: Access, resource: Resource, name: str, namespace: str, options: DeleteOptions) -> Object:
    while True:
        record = access.record(resource, name, namespace)
        _check_preconditions(resource, name, record, options)
        old = access.trees.of_record(record)
        admission.admit_delete(resource, old, access)
        marked = _marked(access, resource, old, options)
        gone = is_finished(resource, marked)
        try:
            last = marked if options.dry_run else await _carry_out(access, resource, record, old, marked, gone=gone)
        except RevisionMismatch:
            await access.store.settled(record.key)
            continue
        return at_version(resource, last)


async def _carry_out(
    access: Access, resource: Resource, record: Record, old: Object, marked: Object, *, gone: bool
) -> Object:
    if gone and resource is not PODS:
        # Removed at once: watchers need not see the mark.
        unmarked = old if "deletionTimestamp" not in old["metadata"] else marked
        return await access.remove(unmarked, record)
    if marked == old:
        return await access.remove(old, record) if gone else old
    if not gone:
        await access.replace(resource, marked, record)
        return marked
    # Watchers see a pod marked before it is removed, whatever its grace period.
    try:
        return await access.remove(marked, await access.replace(resource, marked, record))
    except RevisionMismatch:
        await access.store.settled(record.key)
        now = access.store.get(record.key)
        if now is None or now.header.uid != record.header.uid:
            return marked  # a write that came between has removed what was marked
        raise


def _check_preconditions(resource: Resource, name: str, record: Record, options: DeleteOptions) -> None:
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    if options.uid and options.uid != record.header.uid:
        detail = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({record.header.uid}). "
            "The object might have been deleted and then recreated"
        )
    elif options.resource_version and options.resource_version != str(record.revision):
        detail = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({record.revision}). The object might have been modified"
        )
    else:
        return
    group = {"group": resource.group} if resource.group else {}
    message = f'Operation cannot be fulfilled on {kind} "{name}": {detail}'
    raise ApiError(409, "Conflict", message, {"name": name, **group, "kind": resource.kind})


def _marked(access: Access, resource: Resource, old: Object, options: DeleteOptions) -> Object:
    """The object marked for deletion."""
    metadata = {**old["metadata"]}
    finalizers = _finalizers(resource, metadata.get("finalizers") or (), options)
    if resource is CUSTOM_RESOURCE_DEFINITIONS and "deletionTimestamp" not in metadata:
        # Its objects go first, see `custom_resources`.
        finalizers = [*(one for one in finalizers if one != CLEANUP_FINALIZER), CLEANUP_FINALIZER]
    metadata.pop("finalizers", None)
    if finalizers:
        metadata["finalizers"] = finalizers
    first = "deletionTimestamp" not in metadata
    now = access.clock.now()
    if resource is PODS:
        _set_grace(old, metadata, options, now)
    elif first:
        metadata["deletionTimestamp"] = instants.to_time(now)
        metadata["deletionGracePeriodSeconds"] = 0
    if first and "generation" in metadata:
        metadata["generation"] += 1
    marked = {**old, "metadata": metadata}
    if resource is NAMESPACES:
        marked["status"] = {**(old.get("status") or {}), "phase": "Terminating"}
    return marked


def _finalizers(resource: Resource, finalizers: list[str] | tuple[str, ...], options: DeleteOptions) -> list[str]:
    """Finalizers after the propagation policy; the default is Orphan for the two oldest kinds, else Background."""
    policy = options.propagation
    if policy is None:
        if FOREGROUND in finalizers or ORPHAN in finalizers:
            return list(finalizers)
        policy = "Orphan" if resource in _ORPHANING else "Background"
    kept = [finalizer for finalizer in finalizers if finalizer not in (FOREGROUND, ORPHAN)]
    added = {"Foreground": [FOREGROUND], "Orphan": [ORPHAN], "Background": []}
    return kept + added[policy]


def _set_grace(pod: Object, metadata: Object, options: DeleteOptions, now: float) -> None:
    """Set deletionTimestamp and grace period: the first delete sets them, later ones may only shorten."""
    asked = options.grace_period_seconds
    if "deletionTimestamp" not in metadata:
        grace = _grace(pod, asked)
        metadata["deletionTimestamp"] = instants.to_time(now + grace)
        metadata["deletionGracePeriodSeconds"] = grace
        return
    current = metadata.get("deletionGracePeriodSeconds") or 0
    wanted = current if asked is None else (1 if asked < 0 else asked)
    if wanted < current:
        asked_at = instants.parse(metadata["deletionTimestamp"]) - current
        metadata["deletionTimestamp"] = instants.to_time(asked_at + wanted)
        metadata["deletionGracePeriodSeconds"] = wanted


def _grace(pod: Object, asked: int | None) -> int:
    if not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in _TERMINAL:
        return 0
    period = pod["spec"].get("terminationGracePeriodSeconds", 0) if asked is None else asked
    return 1 if period < 0 else min(int(period), _LONGEST_GRACE_SECONDS)
