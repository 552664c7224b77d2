"""`Pipeline`: the implementation of `api.verbs.Verbs` over a store.

    Verbs call ─▶ decode → default → admit → validate ─▶ store ─▶ reply, watchers

The HTTP server and every component of the process use this class; nothing else writes to the store.  Each verb is a
file in `verbs`.

Returned objects are shared by all readers of the process: copy before changing.  Objects passed in are not kept and may
be reused.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing

from ..api.admission.reader import Reader
from ..api.errors import ApiError
from ..api.scheme import Object, Resource
from ..api.served_kinds import ServedKinds
from ..api.verbs import (
    DeleteOptions,
    ListOptions,
    ObjectList,
    Patch,
    Subresource,
    WatchEvent,
    WatchOptions,
    WriteOptions,
)
from ..base.clock import Clock
from ..base.rng import Rng
from ..store.interface import Store
from . import event_expiry
from .objects.stored_objects import Access
from .setup import bootstrap
from .verbs import binding, create, delete, eviction, read, scale_writes, update, watch
from .verbs import patch as patching
from .verbs.watch import WatchPlan


class Pipeline:
    """The embedded API server without HTTP.

    Open the store with `object_cache.header_of`; call `bootstrap` once before serving.
    """

    def __init__(self, store: Store, clock: Clock, rng: Rng) -> None:
        #: The kinds that are served: the known ones, and those of CustomResourceDefinitions.
        self.kinds = ServedKinds()
        self._access = Access(store, clock, rng)

    async def bootstrap(self, objects: Iterable[Object] = ()) -> None:
        """Create the first namespaces, priority classes and `objects` where they are missing."""
        await bootstrap.bootstrap(self._access, objects)

    async def run(self) -> None:
        """Background work of the server, until cancelled: deletes old events."""
        await event_expiry.expire_events(self._access)

    @property
    def reader(self) -> Reader:
        """Synchronous reads of the current state, for authentication and authorization."""
        return self._access

    @property
    def resource_version(self) -> str:
        """The newest durable resourceVersion."""
        return str(self._access.store.revision)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return read.get_object(self._access, resource, name, namespace)

    async def list(self, resource: Resource, namespace: str = "", options: ListOptions = ListOptions()) -> ObjectList:
        return await read.list_objects(self._access, resource, namespace, options)

    def watch(
        self, resource: Resource, namespace: str = "", options: WatchOptions = WatchOptions()
    ) -> AsyncGenerator[WatchEvent, None]:
        """Errors in options are raised by the call, 410 by the iteration.

        Without `timeout_seconds` the stream does not end by itself.  Close it (`aclosing`) when it is no longer read.
        """
        return self._one_by_one(WatchPlan.parse(resource, namespace, options))

    async def _one_by_one(self, plan: WatchPlan) -> AsyncGenerator[WatchEvent, None]:
        async with aclosing(watch.events(self._access, plan)) as batches:
            async for batch in batches:
                for event in batch:
                    yield event

    async def create(
        self, resource: Resource, obj: Object, namespace: str = "", options: WriteOptions = WriteOptions()
    ) -> Object:
        return await create.create(self._access, resource, obj, namespace, options)

    async def update(
        self,
        resource: Resource,
        obj: Object,
        namespace: str = "",
        subresource: Subresource = "",
        options: WriteOptions = WriteOptions(),
    ) -> Object:
        _must_have(resource, subresource)
        if subresource == "scale":
            return await scale_writes.update_scale(self._access, resource, obj, namespace, options)
        return await update.update(self._access, resource, obj, namespace, subresource, options)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str = "",
        subresource: Subresource = "",
        options: WriteOptions = WriteOptions(),
    ) -> Object:
        _must_have(resource, subresource)
        if subresource == "scale":
            return await scale_writes.patch_scale(self._access, resource, name, patch, namespace, options)
        return await patching.patch(self._access, resource, name, patch, namespace, subresource, options)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DeleteOptions()
    ) -> Object:
        return await delete.delete(self._access, resource, name, namespace, options)

    async def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        uid: str = "",
        annotations: Mapping[str, str] | None = None,
        options: WriteOptions = WriteOptions(),
    ) -> None:
        await binding.bind(self._access, namespace, pod, node, uid, annotations or {}, dry_run=options.dry_run)

    async def evict(self, namespace: str, pod: str, options: DeleteOptions = DeleteOptions()) -> None:
        await eviction.evict(self._access, namespace, pod, options)


def _must_have(resource: Resource, subresource: Subresource) -> None:
    if (subresource == "status" and not resource.has_status) or (subresource == "scale" and resource.scale is None):
        raise ApiError(404, "NotFound", "the server could not find the requested resource")
