"""Access of the verbs to the store: the only place where objects become records and records become objects.

Reads see durable state only.  Writes name the record they are based on; `RevisionMismatch` means that another write
was first, and `Store.settled` waits until that write can be read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from ...api.errors import ApiError, not_found
from ...api.objects import event_forms
from ...api.schema import kind_schema
from ...api.scheme import EVENTS_V1, Object, Resource
from ...api.served_kinds import ServedKinds
from ...base.clock import Clock
from ...base.rng import Rng
from ...store.interface import Encode, Record, Store, StoreFailed
from . import off_loop
from .encoded import decode_json, encode_object
from .object_cache import ObjectCache, header
from .quota_ledger import QuotaLedger
from .sharing import WrittenTree
from .turns import Turns

T = TypeVar("T")
_MOST_WRITTEN = 50_000
_NOT_COUNTED = nullcontext()


def at_version(resource: Resource, tree: Object) -> Object:
    """A stored object at the requested version; versions of a known kind differ only in apiVersion, but for events."""
    if resource.custom is None and tree["apiVersion"] == resource.api_version:
        return tree
    if resource is EVENTS_V1:
        return event_forms.from_core(tree)
    return kind_schema.present(resource, tree)


def shown_as_stored(resource: Resource) -> bool:
    """Whether objects at this version are what is stored."""
    return resource.custom is None and resource.api_version == resource.storage_api_version


def encoded_at_version(resource: Resource, value: bytes) -> bytes:
    """Stored bytes at the requested version."""
    if shown_as_stored(resource):
        return value
    return encode_object(at_version(resource, decode_json(value)))


def prefix_of(resource: Resource, namespace: str) -> str:
    """The key prefix of a collection in one namespace, or in all."""
    return f"{resource.prefix}{namespace}/" if resource.namespaced and namespace else resource.prefix


async def _durable(write: Awaitable[T]) -> T:
    try:
        return await write
    except StoreFailed as error:
        raise ApiError(
            500, "InternalError", f"Internal error occurred: {error}", {"causes": [{"message": str(error)}]}
        ) from error


class Access:
    """Store, clock and random numbers for the verbs; also the `Reader` of admission."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        rng: Rng,
        kinds: ServedKinds,
        *,
        job_workloads: bool = True,
        disabled_features: frozenset[str] = frozenset(),
    ) -> None:
        self.store = store
        self.disabled_features = disabled_features
        self.kinds = kinds
        self.clock = clock
        self.rng = rng
        self.trees = ObjectCache()
        self.turns = Turns()
        self.quotas = QuotaLedger(store, self.trees)
        #: Trees that `part_sharing` has not seen yet.
        self.written: deque[WrittenTree] = deque(maxlen=_MOST_WRITTEN)
        self.has_written = asyncio.Event()
        #: Without it new Jobs lose their `scheduling`.
        self.job_workloads = job_workloads

    # -- reading ---------------------------------------------------------------------------------------

    def record(self, resource: Resource, name: str, namespace: str = "") -> Record:
        """The durable record of an object; 404 if it does not exist."""
        record = self.store.get(resource.key(name, namespace))
        if record is None:
            raise not_found(resource, name)
        return record

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        record = self.store.get(resource.key(name, namespace))
        return self.trees.of_record(record) if record else None

    def changes(self, resource: Resource) -> int:
        return self.store.changes(resource.prefix)

    def list(self, resource: Resource, namespace: str = "") -> Iterator[Object]:
        if not self.store.holds(resource.prefix):
            return iter(())
        found = off_loop.on_loop(lambda: self.store.scan(prefix_of(resource, namespace)))
        return map(self.trees.of_record, found)

    # -- writing ---------------------------------------------------------------------------------------

    async def insert(self, resource: Resource, tree: Object) -> None:
        """Store a new object; `RevisionMismatch` if it already exists, 403 if it exceeds a quota.

        The tree is shared from now on.
        """
        key = _key(resource, tree)
        with self._counted(resource, key, None, tree, tree):
            await _durable(self.store.put(key, self._stamp(key, tree), 0, header(resource, tree)))

    async def replace(self, resource: Resource, tree: Object, base: Record) -> Record:
        """Replace the record that a changed object is based on; 403 if the change exceeds a quota."""
        stamp = self._stamp(base.key, tree)
        with self._counted(resource, base.key, base, tree, tree):
            return await _durable(self.store.put(base.key, stamp, base.revision, header(resource, tree)))

    async def remove(self, tree: Object, base: Record) -> Object:
        """Delete an object; returns its last state at the revision of the deletion."""
        last = {**tree, "metadata": {**tree["metadata"]}}
        with self._counted(None, base.key, base, None, last):
            await _durable(self.store.delete(base.key, self._stamp(base.key, last), base.revision))
        return last

    def _counted(
        self, resource: Resource | None, key: str, base: Record | None, new: Object | None, written: Object
    ) -> AbstractContextManager[None]:
        """Charges a write to the quotas of its namespace; most namespaces have none."""
        if not self.quotas.concern(key, written):
            return _NOT_COUNTED
        old = self.trees.of_record(base) if base is not None else None
        return self.quotas.counted(resource, key, old, new, written)

    def _stamp(self, key: str, tree: Object) -> Encode:
        """The encoder of a tree: sets its resourceVersion and puts it into the cache."""

        def encode(revision: int) -> bytes:
            tree["metadata"]["resourceVersion"] = str(revision)
            self.trees.keep(key, revision, tree)
            value = encode_object(tree)
            self.written.append(WrittenTree(key, revision, tree, value))
            if not self.has_written.is_set():
                self.has_written.set()
            return value

        return encode


def _key(resource: Resource, tree: Object) -> str:
    metadata = tree["metadata"]
    return resource.key(metadata["name"], metadata.get("namespace", ""))
