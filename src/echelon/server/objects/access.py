"""Objects over the store: the one place where trees become records and records trees.

Reads see durable state only.  Writes name the record they are based on; `store.Mismatch` means that somebody else
was faster, and `settled` waits until reading again shows what they did.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import TypeVar

from ...api.errors import ApiError, not_found
from ...api.scheme import Object, Resource
from ...base.clock import Clock
from ...base.rng import Rng
from ...store.interface import Encode, Record, Store, StoreFailed
from .object_cache import ObjectCache, encode_json, header

T = TypeVar("T")


def at_version(resource: Resource, tree: Object) -> Object:
    """A stored tree as the asked-for version shows it; versions differ in nothing else."""
    if tree["apiVersion"] == resource.api_version:
        return tree
    return {**tree, "apiVersion": resource.api_version}


def prefix_of(resource: Resource, namespace: str) -> str:
    """Where a collection is stored: one namespace, or all of them."""
    return f"{resource.prefix}{namespace}/" if resource.namespaced and namespace else resource.prefix


async def _durable(write: Awaitable[T]) -> T:
    try:
        return await write
    except StoreFailed as error:
        raise ApiError(
            500, "InternalError", f"Internal error occurred: {error}", {"causes": [{"message": str(error)}]}
        ) from error


class Access:
    """Store, time and chance, as every verb needs them.  Also the `Reader` that admission looks around with."""

    def __init__(self, store: Store, clock: Clock, rng: Rng) -> None:
        self.store = store
        self.clock = clock
        self.rng = rng
        self.trees = ObjectCache()

    # -- reading ---------------------------------------------------------------------------------------

    def record(self, resource: Resource, name: str, namespace: str = "") -> Record:
        """The durable record of an object; 404 if there is none."""
        record = self.store.get(resource.key(name, namespace))
        if record is None:
            raise not_found(resource, name)
        return record

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        record = self.store.get(resource.key(name, namespace))
        return self.trees.of_record(record) if record else None

    def list(self, resource: Resource, namespace: str = "") -> Iterator[Object]:
        return map(self.trees.of_record, self.store.scan(prefix_of(resource, namespace)))

    # -- writing ---------------------------------------------------------------------------------------

    async def insert(self, resource: Resource, tree: Object) -> None:
        """Store a new object; `Mismatch` if the name is taken.  The tree is shared from here on."""
        key = _key(resource, tree)
        await _durable(self.store.put(key, self._stamp(key, tree), 0, header(resource, tree)))

    async def replace(self, resource: Resource, tree: Object, base: Record) -> Record:
        """Store a changed object on top of the record it was made from."""
        stamp = self._stamp(base.key, tree)
        return await _durable(self.store.put(base.key, stamp, base.revision, header(resource, tree)))

    async def remove(self, tree: Object, base: Record) -> Object:
        """Remove an object; returns its last state, at the revision of its removal."""
        last = {**tree, "metadata": {**tree["metadata"]}}
        await _durable(self.store.delete(base.key, self._stamp(base.key, last), base.revision))
        return last

    def _stamp(self, key: str, tree: Object) -> Encode:
        """Write the revision into the tree, keep it for readers, encode it."""

        def encode(revision: int) -> bytes:
            tree["metadata"]["resourceVersion"] = str(revision)
            self.trees.keep(key, revision, tree)
            return encode_json(tree)

        return encode


def _key(resource: Resource, tree: Object) -> str:
    metadata = tree["metadata"]
    return resource.key(metadata["name"], metadata.get("namespace", ""))
