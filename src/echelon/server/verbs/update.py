"""PUT, and the second half of PATCH: a changed tree on top of the stored one.

    decode → keep server-owned fields → default → prepare → admit → validate → set generation → store

An update that changes nothing is not stored.  Removing the last finalizer of an object marked for deletion removes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...api import admission, rules
from ...api.errors import ApiError, bad_request, conflict, stale
from ...api.objects.meta import name as name_of
from ...api.schema import kind_schema
from ...api.scheme import NAMESPACES, Object, Resource
from ...api.verbs import Subresource, WriteOptions
from ...store.interface import Record, RevisionMismatch
from ..objects import off_loop
from ..objects.field_managers import after_write
from ..objects.incoming import LARGEST_OBJECT, decode, refuse_if, refuse_too_large, refuse_wrong_types
from ..objects.stored_objects import Access, at_version
from .create import ANY_VERSION, create, place

#: Fields whose change does not increase the generation.
_NOT_SPEC: tuple[str, ...] = ("apiVersion", "kind", "metadata", "status")


async def update(
    access: Access,
    resource: Resource,
    sent: Object,
    namespace: str,
    subresource: Subresource,
    options: WriteOptions,
) -> Object:
    metadata = dict(sent.get("metadata") or {})
    place(resource, metadata, namespace)
    if metadata.get("resourceVersion") == ANY_VERSION:
        del metadata["resourceVersion"]
    name = metadata.get("name") or ""
    if not name:
        raise bad_request("metadata.name is required")
    while True:
        record = access.store.get(resource.key(name, metadata.get("namespace", "")))
        if record is None and resource.create_on_update and not subresource and not metadata.get("uid"):
            fresh = {**sent, "metadata": {k: v for k, v in metadata.items() if k != "resourceVersion"}}
            made = await create(access, resource, fresh, namespace, options)
            options.created()
            return made
        if record is None:
            record = access.record(resource, name, metadata.get("namespace", ""))
        _check_preconditions(access, resource, metadata, record)
        body = {**sent, "metadata": metadata}
        large = options.large or len(record.value) > off_loop.LARGE
        new = await off_loop.run(large, revise, access, resource, record, body, subresource, options)
        try:
            return at_version(resource, await store_revision(access, resource, record, new, options))
        except RevisionMismatch:
            # A conflict is told when readers can see what caused it.
            await access.store.settled(record.key)


def _check_preconditions(access: Access, resource: Resource, metadata: Object, record: Record) -> None:
    """409 if the uid or resourceVersion of a PUT differs from the stored object."""
    name = metadata["name"]
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != record.header.uid:
        detail = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {record.header.uid}"
        raise conflict(resource, name, detail)
    if version and version != str(record.revision):
        raise stale(resource, name)
    if not version and not resource.unconditional_update:
        raise _version_needed(resource, name)


def _version_needed(resource: Resource, name: str) -> ApiError:
    field, message = "metadata.resourceVersion", "Invalid value: 0: must be specified for an update"
    details = {
        "name": name,
        **({"group": resource.group} if resource.group else {}),
        "kind": resource.plural,
        "causes": [{"reason": "FieldValueInvalid", "message": message, "field": field}],
    }
    return ApiError(422, "Invalid", f'{resource.qualified} "{name}" is invalid: {field}: {message}', details)


def revise(
    access: Access,
    resource: Resource,
    record: Record,
    sent: Object,
    subresource: Subresource,
    options: WriteOptions,
    *,
    patched: bool = False,
    managed_fields: Sequence[Object] | None = None,
) -> Object:
    """The new tree of a record; it may share parts with the old one.  For `scale` too, `sent` is the whole object.

    `managed_fields` are those of an apply; after a plain write they follow from what it changed.
    """
    old = access.trees.of_record(record)
    if resource.custom is not None:
        old = at_version(resource, old)
    if subresource == "finalize":
        return _finalized(resource, old, decode(resource, sent, options))
    if subresource == "status":
        new = _with_status(resource, old, sent, options, patched=patched)
    else:
        new = _with_spec(access, resource, old, sent, options, patched=patched)
    problems = kind_schema.check(resource, new, old)
    problems += rules.validate_update(resource, new, old, "" if subresource == "scale" else subresource)
    refuse_if(problems, resource, name_of(old))
    if not subresource:
        options.permit(new, old)
        admission.check_update(resource, new, old, access)
    _count_generation(resource, new, old)
    if options.large or len(record.value) > LARGEST_OBJECT // 2:
        refuse_too_large(new)
    if managed_fields is None:
        managed_fields = after_write(access, resource, old, new, sent, subresource, options)
    if managed_fields:
        new["metadata"]["managedFields"] = list(managed_fields)
    else:
        new["metadata"].pop("managedFields", None)
    return new if resource.custom is None else kind_schema.to_storage(resource, new)


def _with_spec(
    access: Access, resource: Resource, old: Object, sent: Object, options: WriteOptions, *, patched: bool
) -> Object:
    new = decode(resource, sent, options, patched=patched)
    _keep_identity(new["metadata"], old["metadata"])
    kind_schema.apply_defaults(resource, new)
    refuse_wrong_types(resource, new, name_of(old))
    admission.convert_older_forms(resource, new, options.warn)
    rules.default(resource, new, old)
    if not access.job_workloads:
        admission.drop_job_scheduling(resource, new, old, options.warn)
    rules.prepare_update(resource, new, old, "", access.clock.now())
    admission.admit_update(resource, new, old, access)
    for warning in rules.warnings(resource, new):
        options.warn(warning)
    return new


def _with_status(resource: Resource, old: Object, sent: Object, options: WriteOptions, *, patched: bool) -> Object:
    """Decode only metadata and status; the rest is taken from the stored object."""
    narrow: Object = {field: sent[field] for field in _NOT_SPEC if field in sent}
    new = decode(resource, narrow, options, patched=patched)
    if resource.custom is not None:
        kind_schema.apply_defaults(resource, new)
    new = {field: value for field, value in new.items() if field in _NOT_SPEC}
    _keep_identity(new["metadata"], old["metadata"])
    refuse_wrong_types(resource, new, name_of(old))
    rules.prepare_update(resource, new, old, "status")
    return new


def _finalized(resource: Resource, old: Object, sent: Object) -> Object:
    if resource is not NAMESPACES:
        raise bad_request(f"{resource.qualified} have no finalize subresource")
    finalizers = list((sent.get("spec") or {}).get("finalizers") or ())
    return {**old, "metadata": {**old["metadata"]}, "spec": {**old["spec"], "finalizers": finalizers}}


def _keep_identity(metadata: Object, old: Object) -> None:
    metadata["resourceVersion"] = old["resourceVersion"]
    if "generation" in old:
        metadata["generation"] = old["generation"]
    else:
        metadata.pop("generation", None)


def _count_generation(resource: Resource, new: Object, old: Object) -> None:
    fields = {*new, *old}.difference(_NOT_SPEC)
    if resource.has_generation and any(new.get(field) != old.get(field) for field in fields):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


async def store_revision(
    access: Access, resource: Resource, record: Record, new: Object, options: WriteOptions
) -> Object:
    """Store a changed tree, unless nothing changed; removes the object if its deletion is now complete."""
    if new == access.trees.of_record(record):
        return access.trees.of_record(record)
    if options.dry_run:
        return new
    if is_finished(resource, new):
        return await access.remove(new, record)
    await access.replace(resource, new, record)
    return new


def is_finished(resource: Resource, tree: Object) -> bool:
    """Whether an object marked for deletion can be removed."""
    metadata = tree["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if resource is NAMESPACES and tree["spec"].get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")
