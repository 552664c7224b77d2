"""PATCH with an apply configuration (server-side apply).

    check the configuration ─► merge it into the newest state ─► conflicts, or as for an update ─► managedFields

A missing object is created.  An apply that changes neither the object nor its managers is not stored.
"""

from __future__ import annotations

from typing import Any

from ...api.errors import ApiError, apply_conflict, bad_request, conflict, immutable, invalid_object, not_found, stale
from ...api.ownership import managers, typed_trees
from ...api.ownership.managers import Applied, Manager
from ...api.schema import kind_schema
from ...api.scheme import Object, Resource
from ...api.verbs import Subresource, WriteOptions
from ...store.interface import Record, RevisionMismatch
from ..objects import off_loop
from ..objects.field_managers import manager_of
from ..objects.stored_objects import Access, at_version
from .create import ANY_VERSION, create
from .update import revise, store_revision


async def apply(
    access: Access,
    resource: Resource,
    name: str,
    body: Any,
    namespace: str,
    subresource: Subresource,
    options: WriteOptions,
) -> Object:
    """Merge the configuration in the name of the field manager; 409 if another manager has other values."""
    try:
        return await _apply(access, resource, name, body, namespace, subresource, options)
    except RecursionError:
        raise bad_request("error decoding patch: exceeded max depth") from None


async def _apply(
    access: Access,
    resource: Resource,
    name: str,
    body: Any,
    namespace: str,
    subresource: Subresource,
    options: WriteOptions,
) -> Object:
    configuration = await off_loop.run(options.large, checked_configuration, resource, body, namespace)
    wanted = _part_of(resource, configuration, subresource)
    mine = manager_of(access, resource, subresource, options, "Apply")
    while True:
        record = access.store.get(resource.key(name, namespace))
        if record is None:
            made = await _created(access, resource, name, configuration, wanted, namespace, mine, options)
            if made is not None:
                return made
            continue
        large = options.large or len(record.value) > off_loop.LARGE
        check_identity(resource, access.trees.of_record(record)["metadata"], configuration["metadata"])
        new = await off_loop.run(large, _revised, access, resource, record, wanted, subresource, mine, options)
        try:
            return at_version(resource, await store_revision(access, resource, record, new, options))
        except RevisionMismatch:
            await access.store.settled(record.key)


def _revised(
    access: Access,
    resource: Resource,
    record: Record,
    wanted: Object,
    subresource: Subresource,
    mine: Manager,
    options: WriteOptions,
) -> Object:
    """The new tree of a record after an apply."""
    live = at_version(resource, access.trees.of_record(record))
    result = _merged(resource, live, wanted, subresource, mine, options)
    new = revise(
        access, resource, record, result.obj, subresource, options, patched=True,
        managed_fields=managers.write(result.managers),
    )  # fmt: skip
    _keep_times(new["metadata"], live["metadata"], unchanged=_tracked(new) == _tracked(live))
    return new


def checked_configuration(resource: Resource, body: Any, namespace: str) -> Object:
    """The configuration; 400 unless it is an object of the kind with known fields, list items told apart."""
    if not isinstance(body, dict):
        raise bad_request("error decoding patch: an apply configuration is an object")
    version, kind = body.get("apiVersion") or "", body.get("kind") or ""
    if (version, kind) != (resource.api_version, resource.kind):
        group = version if isinstance(version, str) and "/" in version else f"/{version}"
        raise bad_request(f"invalid object type: {group}, Kind={kind}")
    configuration: Object = {**body, "metadata": body.get("metadata") or {}}
    decoded = kind_schema.decode(resource, configuration)
    metadata = configuration["metadata"]
    if decoded.unknown:
        raise _untyped(resource, metadata, f".{decoded.unknown[0]}: field not declared in schema")
    if metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    if metadata.get("namespace") not in (None, "", namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    try:
        typed_trees.check(kind_schema.definition(resource), managers.trackable(configuration))
    except typed_trees.Malformed as problem:
        raise _untyped(resource, metadata, str(problem)) from None
    return configuration


def _untyped(resource: Resource, metadata: Object, detail: str) -> ApiError:
    where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    kind = f"{resource.group}/{resource.version}, Kind={resource.kind}"
    return bad_request(f"failed to create typed patch object ({where}; {kind}): {detail}")


def _part_of(resource: Resource, configuration: Object, subresource: Subresource) -> Object:
    """The part of a configuration that the endpoint applies: all but the status, or metadata and status."""
    if subresource == "status":
        kept = ("apiVersion", "kind", "metadata", "status")
        return {field: value for field, value in configuration.items() if field in kept}
    if resource.has_status:
        return {field: value for field, value in configuration.items() if field != "status"}
    return configuration


async def _created(
    access: Access,
    resource: Resource,
    name: str,
    configuration: Object,
    wanted: Object,
    namespace: str,
    mine: Manager,
    options: WriteOptions,
) -> Object | None:
    """The new object; None if it was created meanwhile."""
    if mine.subresource:
        raise not_found(resource, name)
    metadata = configuration["metadata"]
    _check_name(metadata, name)
    if metadata.get("uid"):
        detail = f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
        raise conflict(resource, name, detail)
    fields = await off_loop.run(options.large, _first_managers, resource, wanted, mine)
    fresh = {**configuration, "metadata": {k: v for k, v in metadata.items() if k != "resourceVersion"}}
    try:
        made = await create(access, resource, fresh, namespace, options, managed_fields=fields)
    except ApiError as refused:
        if refused.reason == "AlreadyExists":
            return None
        raise
    options.created()
    return made


def _first_managers(resource: Resource, wanted: Object, mine: Manager) -> list[Object]:
    """`managedFields` of an object that an apply creates."""
    blank = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}
    result = managers.apply(kind_schema.definition(resource), blank, [], wanted, mine, force=True)
    assert isinstance(result, Applied)  # nobody else has a field of it
    return managers.write(result.managers)


def _check_name(metadata: Object, name: str) -> None:
    given = metadata.get("name")
    if not given:
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if given != name:
        raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def check_identity(resource: Resource, live: Object, given: Object) -> None:
    """400, 409 or 422 if a configuration is for another object, or for another state of it."""
    name = live["name"]
    if given.get("name"):
        _check_name(given, name)
    if given.get("resourceVersion") not in (None, "", ANY_VERSION, live["resourceVersion"]):
        raise stale(resource, name)
    if given.get("uid") not in (None, "", live["uid"]):
        raise invalid_object(resource, name, [immutable("metadata.uid", given["uid"])])


def _tracked(obj: Object) -> Object:
    return {**obj, "apiVersion": "", "metadata": {k: v for k, v in obj["metadata"].items() if k != "managedFields"}}


def _keep_times(new: Object, live: Object, *, unchanged: bool) -> None:
    """An apply that comes to the stored state in another notation (`1000m` for `1`) does not count as a write."""
    before = live.get("managedFields") or []
    if unchanged and managers.same_but_time(new.get("managedFields") or [], before):
        new["managedFields"] = before


def _merged(
    resource: Resource, live: Object, wanted: Object, subresource: Subresource, mine: Manager, options: WriteOptions
) -> Applied:
    schema = kind_schema.definition(resource)
    known = managers.read(live) or managers.before_first_apply(schema, _part_of(resource, live, subresource), mine)
    result = managers.apply(schema, live, known, wanted, mine, force=options.force)
    if isinstance(result, Applied):
        return managers.with_last_applied(result, wanted, mine)
    raise apply_conflict([(one.owner, one.field) for one in result])
