"""Field managers of stored objects: who writes, and what becomes of `managedFields` after a plain write."""

from __future__ import annotations

from ...api.ownership import managers
from ...api.ownership.field_sets import FieldSet
from ...api.ownership.managers import Manager, Operation
from ...api.schema import kind_schema
from ...api.scheme import Object, Resource
from ...api.verbs import Subresource, WriteOptions
from ...base.instants import to_time
from .stored_objects import Access, at_version

#: The manager of writes that name none: those of this process.
_UNNAMED = "echelon"


def manager_of(
    access: Access, resource: Resource, subresource: Subresource, options: WriteOptions, operation: Operation
) -> Manager:
    """The manager of a request, without fields."""
    name = options.field_manager or _UNNAMED
    return Manager(name, operation, resource.api_version, FieldSet(), subresource, to_time(access.clock.now()))


def after_write(
    access: Access,
    resource: Resource,
    old: Object,
    new: Object,
    sent: Object,
    subresource: Subresource,
    options: WriteOptions,
) -> list[Object]:
    """`managedFields` of the new tree.  Objects without any are not tracked, so most writes cost nothing here."""
    metadata = sent.get("metadata")
    given = metadata.get("managedFields") if isinstance(metadata, dict) else None
    if given is None and "managedFields" not in old["metadata"]:
        return []
    mine = manager_of(access, resource, subresource, options, "Update")
    schema = kind_schema.definition(resource)
    return managers.after_write(schema, at_version(resource, old), at_version(resource, new), given, mine)
