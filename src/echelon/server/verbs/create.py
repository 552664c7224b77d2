"""POST: decode → name, uid, time → default → admit → prepare → validate → store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...api import admission, rules
from ...api.errors import ApiError, already_exists, bad_request
from ...api.objects.meta import deleting
from ...api.schema import kind_schema
from ...api.scheme import Object, Resource
from ...api.verbs import WriteOptions
from ...base.instants import to_time
from ...store.interface import RevisionMismatch
from ..objects import off_loop
from ..objects.encoded import encode_json
from ..objects.incoming import decode, refuse_if, refuse_too_large, refuse_wrong_types
from ..objects.stored_objects import Access, at_version

#: A resourceVersion that stands for none.
ANY_VERSION = "0"
#: Attempts to find a free generated name.
_NAME_TRIES = 8
_SUFFIX_LENGTH = 5
_LONGEST_PREFIX = 63 - _SUFFIX_LENGTH
_SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


async def create(
    access: Access,
    resource: Resource,
    sent: Object,
    namespace: str,
    options: WriteOptions,
    *,
    managed_fields: Sequence[Object] = (),
) -> Object:
    """`managed_fields` are those of an apply; other creations are not tracked."""
    metadata = sent.get("metadata")
    generated = not (isinstance(metadata, dict) and metadata.get("name"))
    if options.large is None:
        # Of this process: a controller makes a pod of a template, which can be as large as any object.
        options = replace(options, large=len(encode_json(sent)) > off_loop.LARGE)
    for _ in range(_NAME_TRIES):
        tree = await off_loop.run(options.large, _new_object, access, resource, sent, namespace, options)
        if managed_fields:
            tree["metadata"]["managedFields"] = list(managed_fields)
        if await _stored(access, resource, tree, options):
            return at_version(resource, tree)
        if not generated:
            raise _taken(access, resource, tree)
        # Defaults depend on the name, so the object is built again; warnings are not repeated.
        options = replace(options, warn=WriteOptions.warn)
    refusal = _taken(access, resource, tree)
    refusal.details = {**refusal.details, "retryAfterSeconds": 1}
    raise refusal


def _new_object(access: Access, resource: Resource, sent: Object, namespace: str, options: WriteOptions) -> Object:
    tree = decode(resource, sent, options)
    _identify(access, resource, tree["metadata"], namespace)
    name = tree["metadata"]["name"]
    kind_schema.apply_defaults(resource, tree)
    refuse_wrong_types(resource, tree, name)
    admission.convert_older_forms(resource, tree, options.warn)
    rules.default(resource, tree, None)
    if not access.job_workloads:
        admission.drop_job_scheduling(resource, tree, None, options.warn)
    admission.admit_create(resource, tree, access)
    rules.prepare_create(resource, tree, access.clock.now())
    refuse_if(kind_schema.check(resource, tree) + rules.validate_create(resource, tree), resource, name)
    options.permit(tree, None)
    admission.check_create(resource, tree, access)
    for warning in rules.warnings(resource, tree) + admission.warnings(resource, tree, access):
        options.warn(warning)
    if options.large:
        refuse_too_large(tree)
    return tree if resource.custom is None else kind_schema.to_storage(resource, tree)


def _identify(access: Access, resource: Resource, metadata: Object, namespace: str) -> None:
    """Set name, namespace, uid, creationTimestamp and generation."""
    if metadata.pop("resourceVersion", "") not in ("", ANY_VERSION):
        raise bad_request("resourceVersion should not be set on objects to be created")
    place(resource, metadata, namespace)
    for field in _SERVER_OWNED:
        metadata.pop(field, None)
    prefix = metadata.get("generateName", "")
    if not metadata.get("name"):
        metadata["name"] = prefix[:_LONGEST_PREFIX] + access.rng.suffix(_SUFFIX_LENGTH) if prefix else ""
    metadata["uid"] = access.rng.uid()
    metadata["creationTimestamp"] = to_time(access.clock.now())
    if resource.has_generation:
        metadata["generation"] = 1


def place(resource: Resource, metadata: Object, namespace: str) -> None:
    """Set the namespace of the request; 400 if the object has another one."""
    said = metadata.get("namespace", "")
    if namespace and said and said != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if resource.namespaced and not (said or namespace):
        raise bad_request("an empty namespace may not be set during creation")
    if resource.namespaced:
        metadata["namespace"] = said or namespace


async def _stored(access: Access, resource: Resource, tree: Object, options: WriteOptions) -> bool:
    """Store the object; False if the name already exists, which readers can then see."""
    metadata = tree["metadata"]
    if options.dry_run:
        access.quotas.check(resource, tree)
        return access.get(resource, metadata["name"], metadata.get("namespace", "")) is None
    try:
        await access.insert(resource, tree)
    except RevisionMismatch as taken:
        await access.store.settled(taken.key)
        return False
    return True


def _taken(access: Access, resource: Resource, tree: Object) -> ApiError:
    metadata = tree["metadata"]
    there = access.get(resource, metadata["name"], metadata.get("namespace", ""))
    return already_exists(resource, metadata["name"], terminating=there is not None and deleting(there))
